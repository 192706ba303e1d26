"""Applies a batch to the record, within an open write transaction."""

# ruff: noqa: S608 - tables are named by constants

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from types import MappingProxyType
from typing import Any

from refdesk.errors import DocumentNotFound, InvalidInput
from refdesk.model import Batch, Document, DocumentWrite
from refdesk.store.record import contents, rows
from refdesk.store.record.contents import collection_row
from refdesk.store.record.database import LEXICAL, VECTORS, sequence
from refdesk.store.record.schema import Connection

BOTH = LEXICAL | VECTORS

ChunkIds = Callable[[str, str, int], int]  # gives a new chunk its id: of its document's id, its key, and the attempt


def counted_ids(db: Connection) -> ChunkIds:
    """Ids that grow and are never used again: SQLite appends such rows, and tantivy need not look for older ones."""
    last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    following = count(last[0] + 1 if last else 1)
    return lambda document, key, attempt: next(following)


def hashed_ids(db: Connection) -> ChunkIds:
    """Ids that follow from the document and the key alone, so that whoever writes a passage again writes the same."""

    def hashed(document: str, key: str, attempt: int) -> int:
        named = "\0".join((document, key, *[str(attempt)] * bool(attempt))).encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big") >> 1

    return hashed


class Change:
    """What one transaction touches: logged, and unused content dropped, when it is done."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.seq = sequence(db)
        self.removed_chunks = 0
        self.terms: dict[int, str] = {}  # of new chunks, if the batch has them
        self.text_keys: dict[int, bytes] = {}  # of these
        self._parts: dict[int, int] = defaultdict(int)
        self._texts: set[int] = set()
        self.loose_blobs: set[int] = set()  # raw contents that a document referred to before
        self.loose_vectors: set[int] = set()  # that a chunk referred to before; left to the store, which may need them

    @property
    def lexical_chunks(self) -> int:
        """The number of chunks that the full-text index must update."""
        return sum(1 for parts in self._parts.values() if parts & LEXICAL)

    def touched(self, chunk_id: int, parts: int) -> None:
        self._parts[chunk_id] |= parts

    def remove_chunks(self, found: Iterable[tuple[int, int, int | None]]) -> None:
        """Removes chunks given as (id, text, vector)."""
        gone = list(found)
        if not gone:
            return
        self.db.executemany("DELETE FROM chunks WHERE id = ?", [(chunk,) for chunk, *_ in gone])
        self._texts.update(text for _, text, _ in gone)
        self.loose_vectors.update(vector for *_, vector in gone if vector is not None)
        self.removed_chunks += len(gone)
        for chunk, *_ in gone:
            self.touched(chunk, BOTH)

    def finish(self) -> None:
        """Writes the log and drops content that is no longer referenced."""
        logged = [(self.seq, chunk, parts) for chunk, parts in sorted(self._parts.items())]
        self.db.executemany("INSERT INTO changes (seq, chunk, parts) VALUES (?, ?, ?)", logged)
        contents.drop_loose(self.db, self._texts, self.loose_blobs)


_PUT_DOCUMENT = """
INSERT INTO documents (ulid, collection, uri, path, extension, title, content_type, content_hash, size, modified_ns,
                       metadata, created_at, updated_at, stamp, raw)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (ulid) DO UPDATE SET (collection, uri, path, extension, title, content_type, content_hash, size,
    modified_ns, metadata, created_at, updated_at, stamp, raw) = (excluded.collection, excluded.uri, excluded.path,
    excluded.extension, excluded.title, excluded.content_type, excluded.content_hash, excluded.size,
    excluded.modified_ns, excluded.metadata, excluded.created_at, excluded.updated_at,
    excluded.stamp, excluded.raw)
RETURNING id
"""
_PUT_CHUNK = """
INSERT INTO chunks (id, document, text, vector, digest, position, start_line, end_line, tokens,
                    key, kind, type, language, title, breadcrumb, symbols, signature, doc_comment, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE_CHUNK = """
UPDATE chunks SET position = ?, start_line = ?, end_line = ?, tokens = ?, vector = ? WHERE id = ?
"""

Row = tuple[Any, ...]
_NONE: Mapping[bytes, list[Row]] = MappingProxyType({})


def apply(db: Connection, batch: Batch, ids: ChunkIds) -> Change:
    """Applies the batch, gives new chunks ids, and returns what it touched."""
    collection = collection_row(db, batch.collection)
    change = Change(db)
    vectors = contents.put_vectors(db, batch)
    for document_id in batch.removes:
        _remove_rows(change, db.execute("SELECT id, raw FROM documents WHERE ulid = ?", (document_id,)).fetchall())
    for document in batch.touches:
        _touch_document(change, collection, document)
    for writes in _once_each(batch.writes):
        _write_documents(change, collection, writes, vectors, ids)
    if batch.writes:
        newest = max(write.document.updated_at for write in batch.writes)
        db.execute(
            "UPDATE collections SET updated_at = ? WHERE id = ? AND updated_at < ?", (newest, collection, newest)
        )
    change.finish()
    return change


def _once_each(writes: Sequence[DocumentWrite]) -> Iterator[Sequence[DocumentWrite]]:
    """The writes in order, in groups without a repeated document."""
    group: dict[str, DocumentWrite] = {}
    for write in writes:
        if write.document.id in group:
            yield list(group.values())
            group = {}
        group[write.document.id] = write
    if group:
        yield list(group.values())


def _write_documents(
    change: Change, collection: int, writes: Sequence[DocumentWrite], vectors: Mapping[bytes, int], ids: ChunkIds
) -> None:
    db = change.db
    known = "SELECT ulid, collection, path, metadata, raw FROM documents WHERE ulid IN (SELECT value FROM json_each(?))"
    found = db.execute(known, (json.dumps([write.document.id for write in writes]),))
    before = {ulid: tuple(rest) for ulid, *rest in found}
    raws = [rows.pack(write.raw) for write in writes]
    blobs = contents.put(db, "blobs", dict(raws))
    texts = [[rows.storable(chunk.text) for chunk in write.chunks] for write in writes]
    keys = [[rows.content_key(text.encode()) for text in own] for own in texts]
    text_ids = contents.put(db, "texts", dict(zip(chain(*keys), chain(*texts), strict=True)))
    taken = _Taken(change, vectors, text_ids, ids)
    for write, (raw, _), own_keys in zip(writes, raws, keys, strict=True):
        values = _document_values(collection, write.document)
        document = int(db.execute(_PUT_DOCUMENT, (*values, blobs[raw])).fetchone()[0])
        relabelled, kept = False, _NONE
        if (old := before.get(write.document.id)) is not None:
            relabelled = old[:3] != (collection, values[3], values[10])
            change.loose_blobs.add(old[3])
            kept = _chunks_by_digest(db, document)
            _remove_graph(db, document)
        taken.chunks(document, write, own_keys, kept, relabelled)
        taken.graph(document, write)
    taken.put()


def _chunks_by_digest(db: Connection, document: int) -> dict[bytes, list[Row]]:
    found: dict[bytes, list[Row]] = defaultdict(list)
    rows_of = db.execute(
        "SELECT digest, id, text, position, start_line, end_line, tokens, vector"
        " FROM chunks WHERE document = ? ORDER BY position DESC",
        (document,),
    )
    for digest, *row in rows_of:
        found[digest].append(tuple(row))
    return found


class _Taken:
    """Collects the rows of many documents, to write them together."""

    def __init__(self, change: Change, vectors: Mapping[bytes, int], texts: Mapping[bytes, int], ids: ChunkIds) -> None:
        self._change = change
        self._ids = ids
        self._vectors = vectors
        self._texts = texts
        self._added: list[Row] = []
        self._moved: list[Row] = []
        self._symbols: list[rows.Pack] = []
        self._references: list[rows.Pack] = []

    def chunks(
        self,
        document: int,
        write: DocumentWrite,
        text_keys: Sequence[bytes],
        kept: Mapping[bytes, list[Row]],  # the previous chunks, by digest
        relabelled: bool,
    ) -> None:
        """Adds new chunks, keeps unchanged ones and removes the rest."""
        if len(write.vector_keys) != len(write.chunks):
            raise InvalidInput(f"{len(write.chunks)} chunks came with {len(write.vector_keys)} vector keys.")
        change = self._change
        digests = [rows.digest(chunk, text_key) for chunk, text_key in zip(write.chunks, text_keys, strict=True)]
        staying = [kept[digest].pop() if kept.get(digest) else None for digest in digests]
        used = {same[0] for same in staying if same is not None}
        chunks = zip(write.chunks, write.vector_keys, text_keys, digests, staying, strict=True)
        for position, (chunk, vector_key, text_key, digest, same) in enumerate(chunks):
            place = (position, chunk.start_line, chunk.end_line, chunk.tokens)
            vector = self._vectors[vector_key] if vector_key else None
            if same is not None:
                self._keep(same, place, vector, relabelled)
                continue
            attempt = 0
            while (chunk_id := self._ids(write.document.id, chunk.key, attempt)) in used:
                attempt += 1
            used.add(chunk_id)
            change.touched(chunk_id, BOTH)
            if write.terms:
                change.terms[chunk_id], change.text_keys[chunk_id] = write.terms[position], text_key
            where = (chunk_id, document, self._texts[text_key], vector, digest)
            self._added.append((*where, *place, *rows.chunk_values(chunk)))
        change.remove_chunks((*row[:2], row[-1]) for left in kept.values() for row in left)

    def _keep(self, same: Row, place: Row, vector: int | None, relabelled: bool) -> None:
        chunk_id, _, *old_place, old_vector = same
        if relabelled:
            self._change.touched(chunk_id, BOTH)
        if old_vector != vector:
            self._change.touched(chunk_id, VECTORS)
            self._change.loose_vectors.update({old_vector} - {None})
        if old_vector != vector or tuple(old_place) != place:
            self._moved.append((*place, vector, chunk_id))

    def graph(self, document: int, write: DocumentWrite) -> None:
        self._symbols += rows.symbol_packs(document, write.symbols)
        self._references += rows.reference_packs(document, write.references)

    def put(self) -> None:
        db = self._change.db
        db.executemany(_PUT_CHUNK, self._added)
        db.executemany(_MOVE_CHUNK, self._moved)
        rows.put_packs(db.executemany, "symbol_packs", self._symbols)
        rows.put_packs(db.executemany, "ref_packs", self._references)


def _document_values(collection: int, document: Document) -> Row:
    return (
        document.id, collection, rows.storable(document.uri), rows.storable(document.path),
        rows.extension(document.path), rows.storable(document.title), document.content_type, document.content_hash,
        document.size, document.modified_ns, rows.storable(rows.dump(document.metadata)),
        document.created_at, document.updated_at, document.stamp,
    )  # fmt: skip


def _touch_document(change: Change, collection: int, document: Document) -> None:
    found = change.db.execute("SELECT id, path, metadata, raw FROM documents WHERE ulid = ?", (document.id,)).fetchone()
    if found is None:
        raise DocumentNotFound(f"There is no document {document.id}.", "Index it again.")
    values = _document_values(collection, document)
    change.db.execute(_PUT_DOCUMENT, (*values, found[3])).fetchone()
    if found[1:3] != (values[3], values[10]):
        for (chunk_id,) in change.db.execute("SELECT id FROM chunks WHERE document = ?", found[:1]):
            change.touched(chunk_id, BOTH)


def remove_collection(db: Connection, name: str) -> tuple[int, Change]:
    """Removes the collection with all its documents; returns their number, and what was touched."""
    collection = collection_row(db, name)
    change = Change(db)
    documents = db.execute("SELECT id, raw FROM documents WHERE collection = ?", (collection,)).fetchall()
    _remove_rows(change, documents)
    db.execute("DELETE FROM skipped WHERE collection = ?", (collection,))
    db.execute("DELETE FROM collections WHERE id = ?", (collection,))
    change.finish()
    return len(documents), change


def _remove_rows(change: Change, documents: Iterable[tuple[int, int]]) -> None:
    for document, raw in documents:
        of_it = change.db.execute("SELECT id, text, vector FROM chunks WHERE document = ?", (document,))
        change.remove_chunks(of_it.fetchall())
        _remove_graph(change.db, document)
        change.db.execute("DELETE FROM documents WHERE id = ?", (document,))
        change.loose_blobs.add(raw)


def _remove_graph(db: Connection, document: int) -> None:
    for table, (places, name) in rows.PACKS.items():
        packs = db.execute(f"SELECT first, data FROM {table} WHERE document = ?", (document,)).fetchall()
        names = ((name, first) for first, data in packs for name in rows.names_in(table, data))
        named = {(one, document, first) for name, first in names for one in rows.names_of(name)}
        db.executemany(f"DELETE FROM {places} WHERE {name} = ? AND document = ? AND first = ?", sorted(named))
        db.execute(f"DELETE FROM {table} WHERE document = ?", (document,))
