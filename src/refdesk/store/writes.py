"""What does a batch change in the record?  Functions over an open write transaction."""

# ruff: noqa: S608 - statements are put together from constants; values are bound

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from refdesk.errors import CollectionExists, CollectionNotFound, DocumentNotFound, InvalidInput, StoreError
from refdesk.model import Batch, Chunk, Collection, Document, DocumentWrite, EmbedderIdentity, Skipped, Vector
from refdesk.store import rows
from refdesk.store.log import LEXICAL, VECTORS
from refdesk.store.record import sequence

_BOTH = LEXICAL | VECTORS

_PUT_DOCUMENT = """
INSERT INTO documents (ulid, collection, uri, path, extension, title, content_type, content_hash, size, modified_ns,
                       metadata, created_at, updated_at, raw)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM blobs WHERE hash = ?))
ON CONFLICT (ulid) DO UPDATE SET (collection, uri, path, extension, title, content_type, content_hash, size,
    modified_ns, metadata, created_at, updated_at, raw) = (excluded.collection, excluded.uri, excluded.path,
    excluded.extension, excluded.title, excluded.content_type, excluded.content_hash, excluded.size,
    excluded.modified_ns, excluded.metadata, excluded.created_at, excluded.updated_at, excluded.raw)
RETURNING id, metadata
"""
_PUT_CHUNK = """
INSERT INTO chunks (id, document, position, text, vector, digest, key, kind, type, language, start_line, end_line,
                    tokens, title, breadcrumb, symbols, signature, doc_comment, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE_CHUNK = """
UPDATE chunks SET position = ?, start_line = ?, end_line = ?, tokens = ?, vector = ? WHERE id = ?
"""
_DROP_LOOSE_TEXTS = """
DELETE FROM texts WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.text = texts.id)
"""
_DROP_LOOSE_BLOBS = """
DELETE FROM blobs WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM documents WHERE documents.raw = blobs.id)
"""
_ASKED = 500  # of the values that a statement may bind
_DROP_LOOSE_VECTORS = "DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.vector = vectors.id)"


class Change:
    """What one transaction touches: logged and swept when it is done."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.seq = sequence(db)
        self.removed_chunks = 0
        self.terms: dict[int, str] = {}  # of new chunks, where the batch brings them
        self._parts: dict[int, int] = defaultdict(int)
        self._texts: set[int] = set()
        self._blobs: set[int] = set()
        last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
        self._last_id: int = last[0] if last else 0

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @property
    def lexical_chunks(self) -> int:
        """How many chunks the full-text index has to take again."""
        return sum(1 for parts in self._parts.values() if parts & LEXICAL)

    def touched(self, chunk_id: int, parts: int) -> None:
        self._parts[chunk_id] |= parts

    def loosened_blob(self, blob: int) -> None:
        self._blobs.add(blob)

    def remove_chunks(self, found: Iterable[tuple[int, int]]) -> None:
        """Removes chunks given as (id, text)."""
        gone = list(found)
        self.db.executemany("DELETE FROM chunks WHERE id = ?", [(chunk,) for chunk, _ in gone])
        self._texts.update(text for _, text in gone)
        self.removed_chunks += len(gone)
        for chunk, _ in gone:
            self.touched(chunk, _BOTH)

    def finish(self) -> None:
        """Writes the log and drops content that nothing refers to any more."""
        logged = [(self.seq, chunk, parts) for chunk, parts in sorted(self._parts.items())]
        self.db.executemany("INSERT INTO changes (seq, chunk, parts) VALUES (?, ?, ?)", logged)
        if self._texts:
            self.db.execute(_DROP_LOOSE_TEXTS, (json.dumps(list(self._texts)),))
        if self._blobs:
            self.db.execute(_DROP_LOOSE_BLOBS, (json.dumps(list(self._blobs)),))


# --- batches ------------------------------------------------------------------------------------


def apply(db: sqlite3.Connection, batch: Batch) -> Change:
    """Makes the batch's changes and returns what they touched."""
    collection = collection_row(db, batch.collection)
    change = Change(db)
    vectors = _put_vectors(db, batch)
    for document_id in batch.removes:
        _remove_document(change, document_id)
    for document in batch.touches:
        _touch_document(change, collection, document)
    for write in batch.writes:
        _write_document(change, collection, write, vectors)
    change.finish()
    return change


def _put_vectors(db: sqlite3.Connection, batch: Batch) -> dict[bytes, int]:
    """Keeps the batch's vectors and returns the rows of all that it names."""
    kept = _ids(db, "vectors", "key", {key for write in batch.writes for key in write.vector_keys if key})
    if batch.vectors:
        _refuse_other_dimensions(db, batch)
        kept |= _ids(db, "vectors", "key", batch.vectors.keys())
        new = [key for key in batch.vectors if key not in kept]
        first = _next_id(db, "vectors")
        packed = _pack_vectors([batch.vectors[key] for key in new])
        db.executemany("INSERT INTO vectors (id, key, data) VALUES (?, ?, ?)", zip(count(first), new, packed))
        kept |= dict(zip(new, count(first)))
    if any(key and key not in kept for write in batch.writes for key in write.vector_keys):
        raise StoreError("The batch names vectors that the library does not hold.", "Embed the texts again and retry.")
    return kept


def _ids(db: sqlite3.Connection, table: str, column: str, keys: Iterable[bytes]) -> dict[bytes, int]:
    """The rows of those of the keys that the table holds."""
    found: dict[bytes, int] = {}
    wanted = list(keys)
    for start in range(0, len(wanted), _ASKED):  # together: each statement may have to wait for its turn to run
        some = wanted[start : start + _ASKED]
        places = ",".join("?" * len(some))
        found.update(db.execute(f"SELECT {column}, id FROM {table} WHERE {column} IN ({places})", some))
    return found


def _next_id(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()[0])


def _refuse_other_dimensions(db: sqlite3.Connection, batch: Batch) -> None:
    dimension = _dimension(db) or len(next(iter(batch.vectors.values())))
    for vector in batch.vectors.values():
        if len(vector) != dimension:
            raise InvalidInput(
                f"A vector has {len(vector)} dimensions; the library holds {dimension}.",
                "Set the embedder's identity before writing its vectors.",
            )


def _pack_vectors(vectors: Sequence[Vector]) -> list[bytes]:
    """Each vector in half precision."""
    import numpy as np

    if not vectors:
        return []
    return [row.tobytes() for row in np.stack(vectors).astype("<f2")]


def _dimension(db: sqlite3.Connection) -> int:
    identity = embedder_identity(db)
    if identity:
        return identity.dimension
    found = db.execute("SELECT length(data) / 2 FROM vectors LIMIT 1").fetchone()
    return int(found[0]) if found else 0


def missing_vectors(db: sqlite3.Connection, keys: Iterable[bytes]) -> set[bytes]:
    """Those of the keys that no vector is kept under."""
    wanted = {key for key in keys if key}
    return wanted - _ids(db, "vectors", "key", wanted).keys()


def _write_document(change: Change, collection: int, write: DocumentWrite, vectors: Mapping[bytes, int]) -> None:
    if len(write.vector_keys) != len(write.chunks):
        raise InvalidInput(f"{len(write.chunks)} chunks came with {len(write.vector_keys)} vector keys.")
    db = change.db
    before = db.execute(
        "SELECT id, collection, path, metadata, raw FROM documents WHERE ulid = ?", (write.document.id,)
    ).fetchone()
    raw_key, packed = rows.pack(write.raw)
    db.execute("INSERT OR IGNORE INTO blobs (hash, data) VALUES (?, ?)", (raw_key, packed))
    values = _document_values(collection, write.document)
    document, metadata = db.execute(_PUT_DOCUMENT, (*values, raw_key)).fetchone()
    relabelled = before is not None and before[1:4] != (collection, rows.storable(write.document.path), metadata)
    if before is not None:
        change.loosened_blob(before[4])
    kept = _chunks_by_digest(db, document) if before is not None else {}
    _replace_chunks(change, document, write, relabelled, kept, vectors)
    if before is not None:
        db.execute("DELETE FROM symbols WHERE document = ?", (document,))
        db.execute("DELETE FROM refs WHERE document = ?", (document,))
    _put_graph(db, document, write)


def _document_values(collection: int, document: Document) -> tuple[Any, ...]:
    return (
        document.id, collection, rows.storable(document.uri), rows.storable(document.path),
        rows.extension(document.path), rows.storable(document.title), document.content_type, document.content_hash,
        document.size, document.modified_ns, rows.storable(rows.dump(document.metadata)),
        document.created_at, document.updated_at,
    )  # fmt: skip


def _replace_chunks(
    change: Change,
    document: int,
    write: DocumentWrite,
    relabelled: bool,
    kept: Mapping[bytes, list[tuple[Any, ...]]],
    vectors: Mapping[bytes, int],
) -> None:
    added, moved = [], []
    texts = [rows.storable(chunk.text) for chunk in write.chunks]
    text_keys = [rows.content_key(text.encode()) for text in texts]
    text_ids = _put_texts(change.db, dict(zip(text_keys, texts, strict=True)))
    chunks = zip(write.chunks, write.vector_keys, text_keys, strict=True)
    for position, (chunk, vector_key, text_key) in enumerate(chunks):
        digest = rows.digest(chunk, text_key)
        same = kept[digest].pop() if kept.get(digest) else None
        place = (position, chunk.start_line, chunk.end_line, chunk.tokens)
        vector = vectors[vector_key] if vector_key else None
        if same is None:
            chunk_id = change.next_id()
            change.touched(chunk_id, _BOTH)
            if write.terms:
                change.terms[chunk_id] = write.terms[position]
            added.append(_chunk_values(chunk_id, document, position, text_ids[text_key], vector, digest, chunk))
            continue
        chunk_id, _, *old_place, old_vector = same
        change.touched(chunk_id, _BOTH) if relabelled else None
        change.touched(chunk_id, VECTORS) if old_vector != vector else None
        if old_vector != vector or tuple(old_place) != place:
            moved.append((*place, vector, chunk_id))
    change.remove_chunks(row[:2] for left in kept.values() for row in left)
    change.db.executemany(_PUT_CHUNK, added)
    change.db.executemany(_MOVE_CHUNK, moved)


def _put_texts(db: sqlite3.Connection, texts: Mapping[bytes, str]) -> dict[bytes, int]:
    """Keeps the texts and returns their rows."""
    known = _ids(db, "texts", "hash", texts)
    new = [key for key in texts if key not in known]
    first = _next_id(db, "texts")
    db.executemany(
        "INSERT INTO texts (id, hash, text) VALUES (?, ?, ?)",
        [(first + i, key, texts[key]) for i, key in enumerate(new)],
    )
    return known | dict(zip(new, count(first)))


def _chunks_by_digest(db: sqlite3.Connection, document: int) -> dict[bytes, list[tuple[Any, ...]]]:
    found: dict[bytes, list[tuple[Any, ...]]] = defaultdict(list)
    rows_of = db.execute(
        "SELECT digest, id, text, position, start_line, end_line, tokens, vector"
        " FROM chunks WHERE document = ? ORDER BY position DESC",
        (document,),
    )
    for digest, *row in rows_of:
        found[digest].append(tuple(row))
    return found


def _chunk_values(
    chunk_id: int, document: int, position: int, text: int, vector: int | None, digest: bytes, chunk: Chunk
) -> tuple[Any, ...]:
    return (
        chunk_id, document, position, text, vector, digest, rows.storable(chunk.key), chunk.kind,
        chunk.type, chunk.language, chunk.start_line, chunk.end_line, chunk.tokens, rows.storable(chunk.title),
        rows.storable(rows.dump(chunk.breadcrumb)), rows.storable(rows.dump(chunk.symbols)),
        rows.storable(chunk.signature), rows.storable(chunk.doc_comment), rows.storable(rows.dump(chunk.metadata)),
    )  # fmt: skip


def _put_graph(db: sqlite3.Connection, document: int, write: DocumentWrite) -> None:
    clean = rows.storable
    db.executemany(
        "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (document, i, clean(s.name), clean(s.qualified), s.kind, s.start_line, s.end_line, clean(s.signature))
            for i, s in enumerate(write.symbols)
        ],
    )
    db.executemany(
        "INSERT INTO refs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (document, i, r.kind, clean(r.source), clean(r.target), r.line, clean(r.receiver), clean(r.alias))
            for i, r in enumerate(write.references)
        ],
    )


def _touch_document(change: Change, collection: int, document: Document) -> None:
    before = change.db.execute(
        "SELECT d.id, d.path, d.metadata, b.hash FROM documents d JOIN blobs b ON b.id = d.raw WHERE d.ulid = ?",
        (document.id,),
    ).fetchone()
    if before is None:
        raise DocumentNotFound(f"There is no document {document.id}.", "Index it again.")
    values = _document_values(collection, document)
    change.db.execute(_PUT_DOCUMENT, (*values, before[3]))
    if before[1:3] != (values[3], values[10]):
        for (chunk_id,) in change.db.execute("SELECT id FROM chunks WHERE document = ?", before[:1]):
            change.touched(chunk_id, _BOTH)


def _remove_document(change: Change, document_id: str) -> None:
    found = change.db.execute("SELECT id, raw FROM documents WHERE ulid = ?", (document_id,)).fetchone()
    if found is not None:
        _remove_rows(change, [tuple(found)])


def _remove_rows(change: Change, documents: Sequence[tuple[int, int]]) -> None:
    for document, raw in documents:
        change.remove_chunks(
            change.db.execute("SELECT id, text FROM chunks WHERE document = ?", (document,)).fetchall()
        )
        change.db.execute("DELETE FROM symbols WHERE document = ?", (document,))
        change.db.execute("DELETE FROM refs WHERE document = ?", (document,))
        change.db.execute("DELETE FROM documents WHERE id = ?", (document,))
        change.loosened_blob(raw)


# --- collections --------------------------------------------------------------------------------


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
            " excluded.properties, excluded.created_at, excluded.updated_at)",
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


def remove_collection(db: sqlite3.Connection, name: str) -> int:
    """Removes the collection with all it holds and returns how many documents that were."""
    collection = collection_row(db, name)
    change = Change(db)
    documents = db.execute("SELECT id, raw FROM documents WHERE collection = ?", (collection,)).fetchall()
    _remove_rows(change, documents)
    db.execute("DELETE FROM skipped WHERE collection = ?", (collection,))
    db.execute("DELETE FROM collections WHERE id = ?", (collection,))
    change.finish()
    return len(documents)


def replace_skipped(db: sqlite3.Connection, name: str, skipped: Iterable[Skipped]) -> None:
    """Keeps these as what the collection left out."""
    collection = collection_row(db, name)
    db.execute("DELETE FROM skipped WHERE collection = ?", (collection,))
    db.executemany(
        "INSERT OR REPLACE INTO skipped VALUES (?, ?, ?)",
        [(collection, rows.storable(s.path), rows.storable(s.reason)) for s in skipped],
    )


# --- vectors ------------------------------------------------------------------------------------


def embedder_identity(db: sqlite3.Connection) -> EmbedderIdentity | None:
    """Which model made the vectors that are kept."""
    found = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
    return EmbedderIdentity(*json.loads(found[0])) if found else None


def set_embedder_identity(db: sqlite3.Connection, identity: EmbedderIdentity) -> None:
    """Keeps the identity and drops the vectors of any other."""
    db.execute("UPDATE chunks SET vector = NULL WHERE vector IS NOT NULL")
    db.execute("DELETE FROM vectors")
    value = json.dumps([identity.name, identity.version, identity.dimension])
    db.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (value,))
    db.execute("INSERT OR REPLACE INTO meta VALUES ('vectors_since', ?)", (str(sequence(db)),))


def drop_loose_vectors(db: sqlite3.Connection) -> int:
    """Drops vectors that no chunk uses and returns how many."""
    return db.execute(_DROP_LOOSE_VECTORS).rowcount


def trim_log(db: sqlite3.Connection, seq: int) -> None:
    """Forgets what every follower has applied: all before the commit seq, which itself stays known."""
    db.execute("DELETE FROM changes WHERE seq <= ?", (seq,))
    db.execute("DELETE FROM commits WHERE seq < ?", (seq,))
