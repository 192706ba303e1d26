"""Collections, and contents that are stored once under their hash: texts, raw documents, vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any, Literal

from refdesk.errors import CollectionExists, CollectionNotFound, InvalidInput, VectorsMissing
from refdesk.model import Batch, Collection, EmbedderIdentity, Skipped, Vector
from refdesk.store.record import rows
from refdesk.store.record.database import sequence
from refdesk.store.record.schema import Connection


def collection_row(db: Connection, name: str) -> int:
    """The row of the collection of that name."""
    found = db.execute("SELECT id FROM collections WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise CollectionNotFound(f"There is no collection {name}.", "List them with `refdesk collections`.")
    return int(found[0])


def put_collection(db: Connection, collection: Collection) -> None:
    """Adds the collection or replaces the one with its id."""
    other = "SELECT 1 FROM collections WHERE name = ? AND ulid != ?"
    if db.execute(other, (rows.storable(collection.name), collection.id)).fetchone():
        raise CollectionExists(
            f"There is another collection named {collection.name}.", "Choose another name, or remove it first."
        )
    db.execute(
            "INSERT INTO collections (ulid, name, kind, description, root, chunking, search, properties, created_at,"
            " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ulid) DO UPDATE SET (name, kind,"
            " description, root, chunking, search, properties, created_at, updated_at) = (excluded.name,"
            " excluded.kind, excluded.description, excluded.root, excluded.chunking, excluded.search,"
            " excluded.properties, excluded.created_at, CASE WHEN collections.updated_at > excluded.updated_at"
            " THEN collections.updated_at ELSE excluded.updated_at END)",
            (
                collection.id, rows.storable(collection.name), collection.kind, rows.storable(collection.description),
                rows.storable(collection.root), rows.dump(asdict(collection.chunking)),
                rows.dump(asdict(collection.search)), rows.storable(rows.dump(collection.properties)),
                collection.created_at, collection.updated_at,
            ),
        )  # fmt: skip


def replace_skipped(db: Connection, name: str, skipped: Iterable[Skipped]) -> None:
    """Replaces the list of skipped files of the collection."""
    collection = collection_row(db, name)
    db.execute("DELETE FROM skipped WHERE collection = ?", (collection,))
    db.executemany(
        "INSERT INTO skipped VALUES (?, ?, ?) ON CONFLICT (collection, path) DO UPDATE SET reason = excluded.reason",
        [(collection, rows.storable(s.path), rows.storable(s.reason)) for s in skipped],
    )


def set_embedder_identity(db: Connection, identity: EmbedderIdentity) -> None:
    """Stores the identity and drops the vectors of any other."""
    db.execute("UPDATE chunks SET vector = NULL WHERE vector IS NOT NULL")
    db.execute("DELETE FROM vectors")
    value = json.dumps([identity.name, identity.version, identity.dimension])
    put_meta(db, "embedder", value)
    put_meta(db, "vectors_since", str(sequence(db)))


def meta(db: Connection, key: str) -> str | None:
    """A value that is kept beside the tables, if it was ever put."""
    found = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(found[0]) if found else None


def put_meta(db: Connection, key: str, value: str) -> None:
    db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))


def trim_log(db: Connection, seq: int) -> None:
    """Deletes the log before the commit seq, which every follower has applied; seq itself stays."""
    db.execute("DELETE FROM changes WHERE seq <= ?", (seq,))
    db.execute("DELETE FROM commits WHERE seq < ?", (seq,))


# ruff: noqa: S608 - statements are put together from constants; values are bound


Table = Literal["texts", "blobs", "vectors"]

_COLUMNS: Mapping[Table, tuple[str, ...]] = {
    "texts": ("hash", "text"),
    "blobs": ("hash", "data"),
    "vectors": ("key", "numbers", "pieces"),
}
_ASKED = 500  # values bound per statement
_DROP_LOOSE_TEXTS = """
DELETE FROM texts WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.text = texts.id)
"""
_DROP_LOOSE_BLOBS = """
DELETE FROM blobs WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM documents WHERE documents.raw = blobs.id)
"""
_DROP_LOOSE_VECTORS = "DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.vector = vectors.id)"


def put(db: Connection, table: Table, given: Mapping[bytes, Any]) -> dict[bytes, int]:
    """Stores the contents under their keys and returns their rows."""
    return _put(db, table, given.keys(), lambda new: [(given[key],) for key in new])


def put_vectors(db: Connection, batch: Batch) -> dict[bytes, int]:
    """Stores the batch's vectors and returns the rows of all that its writes refer to."""
    named = {key: None for write in batch.writes for key in write.vector_keys if key}
    if batch.vectors:
        _refuse_other_dimensions(db, batch.vectors.values())
        named |= dict.fromkeys(batch.vectors)

    def values(new: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
        import numpy as np

        if any(key not in batch.vectors for key in new):
            raise VectorsMissing(
                "The batch names vectors that the library does not hold.", "Embed the texts again and retry."
            )
        packed = rows.pack_vectors(np.stack([batch.vectors[key] for key in new]))
        return zip(packed, (batch.kept.get(key, b"") for key in new), strict=True)

    return _put(db, "vectors", named, values)


def _put(
    db: Connection, table: Table, keys: Iterable[bytes], values: Callable[[Sequence[bytes]], Iterable[tuple[Any, ...]]]
) -> dict[bytes, int]:
    key_column, *columns = _COLUMNS[table]
    wanted = list(keys)
    found = _ids(db, table, wanted)
    new = [key for key in wanted if key not in found]
    if new:
        first = int(db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()[0])
        places = ", ".join("?" * (2 + len(columns)))
        statement = f"INSERT INTO {table} (id, {', '.join((key_column, *columns))}) VALUES ({places})"
        db.executemany(statement, ((row, key, *own) for row, key, own in zip(count(first), new, values(new))))
        found.update(zip(new, count(first)))
    return found


def _ids(db: Connection, table: Table, keys: Sequence[bytes]) -> dict[bytes, int]:
    """The rows of the keys that are in the table."""
    column = _COLUMNS[table][0]
    found: dict[bytes, int] = {}
    for start in range(0, len(keys), _ASKED):  # together: each statement may have to wait for its turn to run
        some = keys[start : start + _ASKED]
        places = ",".join("?" * len(some))
        found.update(db.execute(f"SELECT {column}, id FROM {table} WHERE {column} IN ({places})", some))
    return found


def _refuse_other_dimensions(db: Connection, vectors: Iterable[Vector]) -> None:
    identity = embedder_identity(db)
    dimension = identity.dimension if identity else 0
    if not identity and (stored := db.execute("SELECT length(numbers) FROM vectors LIMIT 1").fetchone()):
        dimension = int(stored[0])
    for vector in vectors:
        dimension = dimension or len(vector)
        if len(vector) != dimension:
            raise InvalidInput(
                f"A vector has {len(vector)} dimensions; the library holds {dimension}.",
                "Set the embedder's identity before writing its vectors.",
            )


def embedder_identity(db: Connection) -> EmbedderIdentity | None:
    """The model that made the stored vectors."""
    found = meta(db, "embedder")
    return EmbedderIdentity(*json.loads(found)) if found else None


def missing_vectors(db: Connection, keys: Iterable[bytes]) -> set[bytes]:
    """The keys without a stored vector."""
    wanted = {key for key in keys if key}
    return wanted - _ids(db, "vectors", list(wanted)).keys()


def drop_loose(db: Connection, texts: Iterable[int], blobs: Iterable[int]) -> None:
    """Drops those of the texts and raw documents that are no longer referenced."""
    for statement, ids in ((_DROP_LOOSE_TEXTS, list(texts)), (_DROP_LOOSE_BLOBS, list(blobs))):
        if ids:
            db.execute(statement, (json.dumps(ids),))


def drop_loose_vectors(
    db: Connection, among: Sequence[int] | None = None, within: tuple[int, int] | None = None
) -> int:
    """Drops vectors that no chunk uses, of these, of those after one row up to another, or of all; their number."""
    if among is not None:
        these = " AND id IN (SELECT value FROM json_each(?))"
        return db.execute(_DROP_LOOSE_VECTORS + these, (json.dumps(among),)).rowcount
    if within is not None:
        return db.execute(_DROP_LOOSE_VECTORS + " AND id > ? AND id <= ?", within).rowcount
    return db.execute(_DROP_LOOSE_VECTORS).rowcount
