"""Which collections are there, what did they leave out, and whose vectors are kept?"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict

from refdesk.errors import CollectionExists, CollectionNotFound
from refdesk.model import Collection, EmbedderIdentity, Skipped
from refdesk.store import rows
from refdesk.store.record import sequence


def collection_row(db: sqlite3.Connection, name: str) -> int:
    """The row of the collection of that name."""
    found = db.execute("SELECT id FROM collections WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise CollectionNotFound(f"There is no collection {name}.", "List them with `refdesk collections`.")
    return int(found[0])


def put_collection(db: sqlite3.Connection, collection: Collection) -> None:
    """Adds the collection or replaces the one with its id."""
    try:
        db.execute(
            "INSERT INTO collections (ulid, name, kind, description, root, chunking, search, properties, created_at,"
            " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ulid) DO UPDATE SET (name, kind,"
            " description, root, chunking, search, properties, created_at, updated_at) = (excluded.name,"
            " excluded.kind, excluded.description, excluded.root, excluded.chunking, excluded.search,"
            " excluded.properties, excluded.created_at, max(collections.updated_at, excluded.updated_at))",
            (
                collection.id, rows.storable(collection.name), collection.kind, rows.storable(collection.description),
                rows.storable(collection.root), rows.dump(asdict(collection.chunking)),
                rows.dump(asdict(collection.search)), rows.storable(rows.dump(collection.properties)),
                collection.created_at, collection.updated_at,
            ),
        )  # fmt: skip
    except sqlite3.IntegrityError as error:
        raise CollectionExists(
            f"There is another collection named {collection.name}.", "Choose another name, or remove it first."
        ) from error


def replace_skipped(db: sqlite3.Connection, name: str, skipped: Iterable[Skipped]) -> None:
    """Keeps these as what the collection left out."""
    collection = collection_row(db, name)
    db.execute("DELETE FROM skipped WHERE collection = ?", (collection,))
    db.executemany(
        "INSERT OR REPLACE INTO skipped VALUES (?, ?, ?)",
        [(collection, rows.storable(s.path), rows.storable(s.reason)) for s in skipped],
    )


def set_embedder_identity(db: sqlite3.Connection, identity: EmbedderIdentity) -> None:
    """Keeps the identity and drops the vectors of any other."""
    db.execute("UPDATE chunks SET vector = NULL WHERE vector IS NOT NULL")
    db.execute("DELETE FROM vectors")
    value = json.dumps([identity.name, identity.version, identity.dimension])
    db.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (value,))
    db.execute("INSERT OR REPLACE INTO meta VALUES ('vectors_since', ?)", (str(sequence(db)),))


def trim_log(db: sqlite3.Connection, seq: int) -> None:
    """Forgets what every follower has applied: all before the commit seq, which itself stays known."""
    db.execute("DELETE FROM changes WHERE seq <= ?", (seq,))
    db.execute("DELETE FROM commits WHERE seq < ?", (seq,))
