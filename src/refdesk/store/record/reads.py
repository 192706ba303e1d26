"""Reads of the record: functions over an open connection."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from refdesk.errors import CollectionNotFound, DocumentNotFound
from refdesk.model import (
    Collection,
    Contents,
    Countable,
    Document,
    Filterable,
    Origin,
    Reference,
    RelationKind,
    Skipped,
    Stats,
    StoredChunk,
    Symbol,
    metadata_text,
)
from refdesk.store.record import rows
from refdesk.store.record.schema import PLAYBOOKS, Connection

# ruff: noqa: S608 - statements are put together from constants; values are bound


_LARGEST = 2**63 - 1  # largest integer of SQLite
_FROM_DOCUMENTS = f" FROM documents d JOIN collections n ON n.id = d.collection AND n.kind != '{PLAYBOOKS}' "
_OF_ANYONE = " FROM documents d JOIN collections n ON n.id = d.collection "  # playbooks too
_SELECT_DOCUMENT = "SELECT " + rows.DOCUMENT + _FROM_DOCUMENTS
_SELECT_CHUNK = (
    "SELECT " + rows.CHUNK + " FROM chunks c JOIN texts t ON t.id = c.text LEFT JOIN vectors v ON v.id = c.vector "
)
_FEW = 64  # chunks whose ids are bound one by one, in a statement that SQLite prepares once for each number
_DOCUMENT_COLUMNS = rows.DOCUMENT.count(",") + 1
Owning = Callable[[Connection, set[int]], Mapping[int, Document]]  # the documents of some rows


# --- collections --------------------------------------------------------------------------------


def collections(db: Connection) -> list[Collection]:
    """All collections by name."""
    found = db.execute("SELECT " + rows.COLLECTION + " FROM collections WHERE kind != ? ORDER BY name", (PLAYBOOKS,))
    return [rows.collection_from(row) for row in found]


def collection(db: Connection, name: str) -> Collection | None:
    named = "SELECT " + rows.COLLECTION + " FROM collections WHERE name = ? AND kind != ?"
    row = db.execute(named, (name, PLAYBOOKS)).fetchone()
    return rows.collection_from(row) if row else None


def skipped(db: Connection, collection: str) -> list[Skipped]:
    """The skipped files of the collection, by path."""
    found = db.execute(
        "SELECT s.path, s.reason FROM skipped s JOIN collections n ON n.id = s.collection"
        " WHERE n.name = ? ORDER BY s.path",
        (collection,),
    )
    return [Skipped(path=path, reason=reason) for path, reason in found]


# --- documents ----------------------------------------------------------------------------------


def documents(db: Connection, collection: str, limit: int, offset: int) -> list[Document]:
    """A page of the collection's documents by path, or of all without a name."""
    within = "WHERE d.collection = (SELECT id FROM collections WHERE name = ?) ORDER BY d.path, d.id "
    order = within if collection else "ORDER BY n.name, d.path, d.id "
    offset = min(offset, _LARGEST)
    bound = (collection, limit, offset) if collection else (limit, offset)
    return [rows.document_from(row) for row in db.execute(_SELECT_DOCUMENT + order + "LIMIT ? OFFSET ?", bound)]


def count_documents(db: Connection, collection: str) -> int:
    """The number of documents of the collection, or of all without a name."""
    named, values = ("WHERE n.name = ?", (collection,)) if collection else ("", ())
    return int(db.execute("SELECT count(*)" + _FROM_DOCUMENTS + named, values).fetchone()[0])


def document_ids(db: Connection, prefix: str) -> list[str]:
    """The ids of documents that start with the prefix, oldest first."""
    start = rows.storable(prefix)
    within = "SELECT d.ulid" + _FROM_DOCUMENTS + "WHERE d.ulid >= ? AND d.ulid < ? || '~' ORDER BY d.ulid"
    return [ulid for (ulid,) in db.execute(within, (start, start))]


def document(db: Connection, document_id: str) -> Document | None:
    row = db.execute(_SELECT_DOCUMENT + "WHERE d.ulid = ?", (document_id,)).fetchone()
    return rows.document_from(row) if row else None


def document_by_uri(db: Connection, uri: str, collection: str = "") -> Document | None:
    """The first document with that address, in the collection when one is named."""
    where = "WHERE d.uri = ? AND ? IN ('', n.name) ORDER BY d.id LIMIT 1"
    row = db.execute(_SELECT_DOCUMENT + where, (rows.storable(uri), collection)).fetchone()
    return rows.document_from(row) if row else None


def document_by_path(db: Connection, collection: str, path: str) -> Document | None:
    """The first document of the collection at that path."""
    path = rows.storable(path)
    where = f"WHERE n.name = ? AND d.path = ? AND substr(d.path, 1, {rows.INDEXED}) = ? ORDER BY d.id LIMIT 1"
    row = db.execute(_SELECT_DOCUMENT + where, (collection, path, path[: rows.INDEXED])).fetchone()
    return rows.document_from(row) if row else None


def raw(db: Connection, document_id: str) -> str:
    """The document's content as it was written."""
    row = db.execute(
        "SELECT b.data FROM documents d JOIN blobs b ON b.id = d.raw WHERE d.ulid = ?", (document_id,)
    ).fetchone()
    if row is None:
        raise DocumentNotFound(f"There is no document {document_id}.", "List them with `refdesk documents`.")
    return rows.unpack(row[0])


# --- chunks -------------------------------------------------------------------------------------


def chunks_of(db: Connection, document_id: str) -> list[StoredChunk]:
    """The document's chunks in order."""
    owner = document(db, document_id)
    if owner is None:
        return []
    where = "WHERE c.document = (SELECT id FROM documents WHERE ulid = ?) ORDER BY c.position"
    return [rows.chunk_from(row, owner) for row in db.execute(_SELECT_CHUNK + where, (document_id,))]


def chunks(db: Connection, chunk_ids: Sequence[int], owning: Owning, *, few: int = _FEW) -> dict[int, StoredChunk]:
    """The chunks that exist, by id; the ids of a few are bound one by one."""
    if not len(chunk_ids):
        return {}
    if len(chunk_ids) <= few:
        marks = ", ".join("?" * len(chunk_ids))
        found = db.execute(f"{_SELECT_CHUNK}WHERE c.id IN ({marks})", chunk_ids).fetchall()
    else:
        wanted = json.dumps(list(chunk_ids))
        found = db.execute(_SELECT_CHUNK + "WHERE c.id IN (SELECT value FROM json_each(?))", (wanted,)).fetchall()
    owners = owning(db, {row[2] for row in found})
    return {row[0]: rows.chunk_from(row, owners[row[2]]) for row in found if row[2] in owners}


def origins(db: Connection, chunk_ids: Sequence[int]) -> dict[int, Origin]:
    """The text and document of the chunks that exist, by chunk."""
    found = db.execute(
        "SELECT c.id, c.text, c.document, d.path FROM chunks c JOIN documents d ON d.id = c.document"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        (json.dumps([int(chunk_id) for chunk_id in chunk_ids]),),
    )
    return {chunk_id: Origin(*rest) for chunk_id, *rest in found}


def unembedded(db: Connection, collection: str = "", limit: int = 1) -> list[str]:
    """Ids of documents with chunks that have no vector."""
    found = db.execute(
        "SELECT DISTINCT d.ulid FROM chunks c JOIN documents d ON d.id = c.document"
        " JOIN collections n ON n.id = d.collection"
        " WHERE c.vector IS NULL AND n.kind != ? AND (? = '' OR n.name = ?) LIMIT ?",
        (PLAYBOOKS, collection, collection, limit),
    )
    return [row[0] for row in found]


def values(db: Connection, of: Filterable) -> dict[str, int]:
    """The number of chunks with each value."""
    column = {"kind": "c.kind", "language": "c.language", "extension": "d.extension"}[of]
    counted = f"SELECT {column}, count(*){_FROM_DOCUMENTS}JOIN chunks c ON c.document = d.id GROUP BY 1 ORDER BY 1"
    return dict(db.execute(counted).fetchall())


def facets(db: Connection, collection: str) -> dict[str, dict[str, int]]:
    """The number of chunks of the collection with each value of each of their own metadata keys."""
    found: dict[str, dict[str, int]] = {}
    for metadata, count in db.execute(
        "SELECT c.metadata, count(*) FROM chunks c JOIN documents d ON d.id = c.document"
        " JOIN collections n ON n.id = d.collection WHERE n.name = ? GROUP BY c.metadata",
        (collection,),
    ):
        for key, value in rows.load_map(metadata).items():
            values = found.setdefault(key, {})
            values[metadata_text(value)] = values.get(metadata_text(value), 0) + count
    return found


def documents_by_row(db: Connection, wanted: Iterable[int]) -> dict[int, Document]:
    """The documents that exist, by row."""
    found = db.execute(
        "SELECT d.id, " + rows.DOCUMENT + _OF_ANYONE + "WHERE d.id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(wanted)),),
    )
    return {row[0]: rows.document_from(row[1:]) for row in found}


def with_names(db: Connection, of: Countable, counts: Mapping[str, int]) -> dict[str, int]:
    """The counts by name or path, where they are by row."""
    if of not in ("collection", "path"):
        return dict(counts)
    wanted = json.dumps(list(map(int, counts)))
    column = "name FROM collections" if of == "collection" else "path FROM documents"
    found: dict[str, int] = {}
    names = dict(db.execute(f"SELECT id, {column} WHERE id IN (SELECT value FROM json_each(?))", (wanted,)).fetchall())
    for row, count in counts.items():
        if (name := names.get(int(row))) is not None:
            found[name] = found.get(name, 0) + count
    return found


# --- graph --------------------------------------------------------------------------------------


def symbols_named(db: Connection, name: str, collection: str = "") -> list[tuple[Document, Symbol]]:
    """Definitions of that name; a dotted name matches the end of a qualified one."""
    found = _symbols_where(db, name, collection)
    if not found and "." in name:
        found = [
            (owner, symbol)
            for owner, symbol in _symbols_where(db, name.rpartition(".")[2], collection)
            if f".{symbol.qualified}".endswith(f".{name}")
        ]
    return found


def _symbols_where(db: Connection, name: str, collection_name: str) -> list[tuple[Document, Symbol]]:
    name = rows.storable(name)
    where = (
        "SELECT " + rows.DOCUMENT + ", s.data FROM symbol_names t JOIN symbol_packs s ON s.document = t.document"
        " AND s.first = t.first JOIN documents d ON d.id = t.document JOIN collections n ON n.id = d.collection"
        " WHERE t.name = ? AND ? IN ('', n.name) ORDER BY n.name, d.path, d.id, t.first"
    )
    found = (row for one in rows.names_of(name) for row in db.execute(where, (one, collection_name)))
    return [(owner, one) for owner, (data,) in _with_owners(found) for one in rows.symbols_in(data, name)]


def symbols_of(db: Connection, document_id: str) -> list[Symbol]:
    """The document's definitions in order."""
    found = db.execute(
        "SELECT data FROM symbol_packs WHERE document = (SELECT id FROM documents WHERE ulid = ?) ORDER BY first",
        (document_id,),
    )
    return [one for (data,) in found for one in rows.symbols_in(data)]


def references_to(
    db: Connection, name: str, collection: str = "", kinds: Sequence[RelationKind] = ()
) -> list[tuple[Document, Reference]]:
    """Uses of that name; of the given kinds only, if any."""
    name = rows.storable(name)
    where = (
        "SELECT " + rows.DOCUMENT + ", r.data FROM ref_targets t JOIN ref_packs r ON r.document = t.document"
        " AND r.first = t.first JOIN documents d ON d.id = t.document JOIN collections n ON n.id = d.collection"
        " WHERE t.target = ? AND ? IN ('', n.name) ORDER BY n.name, d.path, d.id, t.first"
    )
    found = (row for one in rows.names_of(name) for row in db.execute(where, (one, collection)))
    return [(owner, one) for owner, (data,) in _with_owners(found) for one in rows.references_in(data, name, kinds)]


def references_of(db: Connection, document_id: str, kinds: Sequence[RelationKind] = ()) -> list[Reference]:
    """The names that the document uses, in order; of the given kinds only, if any."""
    found = db.execute(
        "SELECT data FROM ref_packs WHERE document = (SELECT id FROM documents WHERE ulid = ?) ORDER BY first",
        (document_id,),
    )
    return [one for (data,) in found for one in rows.references_in(data, None, kinds)]


def _with_owners(found: Iterable[Sequence[Any]]) -> Iterator[tuple[Document, Sequence[Any]]]:
    """Each row's document, created once per document, and the rest of the row."""
    owners: dict[str, Document] = {}
    for row in found:
        owner = owners.get(row[0])
        if owner is None:
            owner = owners[row[0]] = rows.document_from(row[:_DOCUMENT_COLUMNS])
        yield owner, row[_DOCUMENT_COLUMNS:]


# --- statistics ---------------------------------------------------------------------------------


def stats(db: Connection, name: str, folder_bytes: int) -> Stats:
    """The counts of the collection, or of the library without a name."""
    if name and collection(db, name) is None:
        raise CollectionNotFound(f"There is no collection {name}.", "List them with `refdesk collections`.")
    within = "WHERE document IN (SELECT d.id" + _FROM_DOCUMENTS + "WHERE ? IN ('', n.name))"
    bound = (name,)
    chunk_count, embedded = db.execute("SELECT count(*), count(vector) FROM chunks " + within, bound).fetchone()
    symbols, references = (
        int(db.execute(f"SELECT coalesce(sum(many), 0) FROM {table} {within}", bound).fetchone()[0])
        for table in rows.PACKS
    )
    return Stats(
        collections=1 if name else len(collections(db)),
        documents=count_documents(db, name),
        chunks=chunk_count,
        embeddings=embedded,
        symbols=symbols,
        references=references,
        storage_bytes=_content_bytes(db, name) if name else folder_bytes,
    )


def contents(db: Connection) -> dict[str, Contents]:
    """What each collection holds, by name; one that is empty is left out."""
    # Counted by document first, from the index alone: a third of the time of joining every chunk.
    counted = "JOIN (SELECT document, count(*) AS many FROM chunks GROUP BY document) k ON k.document = d.id GROUP BY 1"
    chunked = db.execute("SELECT n.name, sum(k.many)" + _FROM_DOCUMENTS + counted)
    chunks = dict(chunked.fetchall())
    typed = "SELECT n.name, d.content_type, count(*), sum(d.size)" + _FROM_DOCUMENTS + "GROUP BY 1, 2 ORDER BY 3 DESC"
    found: dict[str, Contents] = {}
    for name, kind, count, size in db.execute(typed).fetchall():
        known = found.get(name, Contents(chunks=int(chunks.get(name, 0))))
        found[name] = replace(
            known, documents=known.documents + count, size=known.size + int(size), types={**known.types, kind: count}
        )
    return found


def _content_bytes(db: Connection, name: str) -> int:
    """The bytes of the contents that the collection's documents refer to, shared or not."""
    row = db.execute(
        "SELECT (SELECT coalesce(sum(length(b.data)), 0) FROM blobs b WHERE b.id IN"
        "        (SELECT raw FROM documents WHERE collection = n.id)),"
        " (SELECT coalesce(sum(length(CAST(t.text AS BLOB))), 0) FROM texts t WHERE t.id IN"
        "        (SELECT c.text FROM chunks c JOIN documents d ON d.id = c.document WHERE d.collection = n.id)),"
        " (SELECT coalesce(sum(length(v.numbers)), 0) FROM vectors v WHERE v.id IN"
        "        (SELECT c.vector FROM chunks c JOIN documents d ON d.id = c.document WHERE d.collection = n.id))"
        " FROM collections n WHERE n.name = ?",
        (name,),
    ).fetchone()
    return int(sum(row))


# --- a cache of documents, valid until the next commit, since hits often come from the same ones ---

_MOST = 4000  # documents


class Owners:
    """Caches the documents of the current state of the record, by row."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._seq = -1
        self._known: dict[int, Document] = {}

    def find(self, db: Connection, seq: int, rows: Iterable[int]) -> Mapping[int, Document]:
        """The documents that exist, and possibly others; `seq` was read before, so none is older than it."""
        with self._mutex:
            if seq != self._seq or len(self._known) > _MOST:
                self._seq, self._known = seq, {}
            known = self._known
        if missing := [row for row in rows if row not in known]:
            known.update(documents_by_row(db, missing))
        return known
