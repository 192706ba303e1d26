"""The store of one library folder: a record, and the indexes that follow it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from refdesk.model import (
    Batch,
    Collection,
    Document,
    EmbedderIdentity,
    FileState,
    Filterable,
    Filters,
    Finding,
    Reference,
    RelationKind,
    Scored,
    Skipped,
    Stats,
    StoredChunk,
    Symbol,
)
from refdesk.store import batches, catalogue, contents, doctor, lexical_query, literal, reads
from refdesk.store.filters import Scope, Scopes
from refdesk.store.followers import Followers
from refdesk.store.gate import Gate
from refdesk.store.owners import Owners
from refdesk.store.record import Record, sequence

if TYPE_CHECKING:
    from refdesk.model import Vector

_MANY_REMOVED = 500  # chunks in one stretch, after which unused vectors are looked for

T = TypeVar("T")


class LocalStore:
    """Implements ports.Store in one folder; any number of threads and processes may use it at once."""

    def __init__(self, folder: Path, *, lock_timeout_s: float = 30.0) -> None:
        self.folder = folder
        self._record = Record(folder, lock_timeout_s)
        self._gate = Gate(folder, lock_timeout_s, self._end_stretch, self.sequence)
        self._followers = Followers(folder, self._record, self._gate)
        self._scopes = Scopes()
        self._owners = Owners()
        self._removed = 0

    def _read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        with self._record.reading() as db:
            return ask(db)

    # collections

    def collections(self) -> list[Collection]:
        return self._read(reads.collections)

    def collection(self, name: str) -> Collection | None:
        return self._read(lambda db: reads.collection(db, name))

    def put_collection(self, collection: Collection) -> None:
        if self.collection(collection.name) == collection:
            return
        with self.writing(), self._record.transaction() as db:
            catalogue.put_collection(db, collection)

    def remove_collection(self, name: str) -> int:
        with self.writing():
            with self._record.transaction() as db:
                removed = batches.remove_collection(db, name)
            self._removed += _MANY_REMOVED
            self._followers.write_lexical()
            return removed

    # writing

    def apply(self, batch: Batch) -> None:
        with self.writing():
            with self._record.transaction() as db:
                change = batches.apply(db, batch)
            self._removed += change.removed_chunks
            self._followers.owe_lexical(change.lexical_chunks, change.terms)

    def replace_skipped(self, collection: str, skipped: Iterable[Skipped]) -> None:
        given = list(skipped)
        same = {s.path: s for s in given} == {s.path: s for s in self.skipped(collection)}
        if same and self.collection(collection) is not None:
            return
        with self.writing(), self._record.transaction() as db:
            catalogue.replace_skipped(db, collection, given)

    def unembedded(self, collection: str = "", limit: int = 1) -> list[str]:
        return self._read(lambda db: reads.unembedded(db, collection, limit))

    def missing_vectors(self, keys: Iterable[bytes]) -> set[bytes]:
        return self._read(lambda db: contents.missing_vectors(db, keys))

    @contextmanager
    def writing(self, wait: bool = True, is_long: bool = False) -> Iterator[None]:
        self._record.refuse_read_only()
        with self._gate.held(wait):
            if is_long:
                self._followers.settle_lexical()
            yield

    def _end_stretch(self) -> None:
        if self._removed >= _MANY_REMOVED:
            with self._record.transaction(logged=False) as db:
                contents.drop_loose_vectors(db)
        self._removed = 0
        self._followers.end_stretch()

    # documents

    def file_states(self, collection: str) -> dict[str, FileState]:
        return self._read(lambda db: reads.file_states(db, collection))

    def skipped(self, collection: str) -> list[Skipped]:
        return self._read(lambda db: reads.skipped(db, collection))

    def documents(self, collection: str, limit: int, offset: int) -> list[Document]:
        return self._read(lambda db: reads.documents(db, collection, limit, offset))

    def count_documents(self, collection: str) -> int:
        return self._read(lambda db: reads.count_documents(db, collection))

    def document_ids(self, prefix: str) -> list[str]:
        return self._read(lambda db: reads.document_ids(db, prefix))

    def document(self, document_id: str) -> Document | None:
        return self._read(lambda db: reads.document(db, document_id))

    def document_by_uri(self, uri: str, collection: str = "") -> Document | None:
        return self._read(lambda db: reads.document_by_uri(db, uri, collection))

    def document_by_path(self, collection: str, path: str) -> Document | None:
        return self._read(lambda db: reads.document_by_path(db, collection, path))

    def raw(self, document_id: str) -> str:
        return self._read(lambda db: reads.raw(db, document_id))

    def chunks_of(self, document_id: str) -> list[StoredChunk]:
        return self._read(lambda db: reads.chunks_of(db, document_id))

    def same_text(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        known = self._followers.texts(chunk_ids)
        rest = [chunk_id for chunk_id in chunk_ids if chunk_id not in known]
        return known | self._read(lambda db: reads.same_text(db, rest)) if rest else known

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        with self._record.reading() as db:
            seq = sequence(db)
            return reads.chunks(db, chunk_ids, lambda db, rows: self._owners.find(db, seq, rows))

    # searching

    def sequence(self) -> int:
        return self._read(sequence)

    def lexical(self, terms: Sequence[str], filters: Filters, limit: int, *, by_number: bool = True) -> list[Scored]:
        ask = self._ask(filters)
        return lexical_query.lexical(ask, terms, limit, by_number=by_number) if ask else []

    def phrase(self, words: Sequence[str], filters: Filters, limit: int) -> list[Scored]:
        ask = self._ask(filters)
        return lexical_query.phrase(ask, words, limit) if ask else []

    def literal(self, text: str, filters: Filters, limit: int) -> list[Scored]:
        candidates = None
        if (inner := literal.inner_terms(text)) and (ask := self._ask(filters)):
            candidates = lexical_query.holding(ask, inner, literal.MOST)
        with self._record.reading() as db:
            return literal.find(db, text, self._scope(db, filters)[1], limit, candidates)

    def nearest(self, vector: Vector, filters: Filters, limit: int) -> list[Scored]:
        with self._record.reading() as db:
            seq, scope = self._scope(db, filters)
        index = self._followers.vectors(seq)
        with index.mutex:
            return index.nearest(vector, scope, limit)

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        index = self._followers.vectors(self.sequence())
        with index.mutex:
            return index.cosines(vector, chunk_ids)

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        ask = self._ask(Filters())
        return lexical_query.document_frequency(ask.searcher, terms) if ask else dict.fromkeys(terms, 0)

    def passages(self) -> int:
        ask = self._ask(Filters())
        return lexical_query.passages(ask.searcher) if ask else 0

    def similar_terms(self, term: str, limit: int) -> list[str]:
        ask = self._ask(Filters())
        return lexical_query.similar_terms(ask.searcher, term, limit) if ask else []

    def facet_values(self, key: str, filters: Filters) -> dict[str, int]:
        ask = self._ask(filters)
        return lexical_query.facet_values(ask, key) if ask else {}

    def values(self, of: Filterable) -> dict[str, int]:
        return self._read(lambda db: reads.values(db, of))

    def facets(self, collection: str) -> dict[str, dict[str, int]]:
        return self._read(lambda db: reads.facets(db, collection))

    def _ask(self, filters: Filters) -> lexical_query.Ask | None:
        with self._record.reading() as db:
            seq, scope = self._scope(db, filters)
        index = self._followers.lexical(seq)
        found = index.current()
        return lexical_query.Ask(*found, scope) if found else None

    def _scope(self, db: sqlite3.Connection, filters: Filters) -> tuple[int, Scope]:
        seq = sequence(db)
        return seq, self._scopes.resolve(db, seq, filters)

    # graph

    def symbols_named(self, name: str, collection: str = "") -> list[tuple[Document, Symbol]]:
        return self._read(lambda db: reads.symbols_named(db, name, collection))

    def symbols_of(self, document_id: str) -> list[Symbol]:
        return self._read(lambda db: reads.symbols_of(db, document_id))

    def references_to(
        self, name: str, collection: str = "", kinds: Sequence[RelationKind] = ()
    ) -> list[tuple[Document, Reference]]:
        return self._read(lambda db: reads.references_to(db, name, collection, kinds))

    def references_of(self, document_id: str, kinds: Sequence[RelationKind] = ()) -> list[Reference]:
        return self._read(lambda db: reads.references_of(db, document_id, kinds))

    # keeping

    def embedder_identity(self) -> EmbedderIdentity | None:
        return self._read(contents.embedder_identity)

    def set_embedder_identity(self, identity: EmbedderIdentity) -> None:
        if self.embedder_identity() == identity:
            return
        with self.writing(), self._record.transaction() as db:
            catalogue.set_embedder_identity(db, identity)

    def stats(self, collection: str = "") -> Stats:
        return self._read(lambda db: reads.stats(db, collection, self._folder_bytes()))

    def _folder_bytes(self) -> int:
        total = 0
        for file in self.folder.rglob("*"):
            with contextlib.suppress(OSError):  # merged away meanwhile
                total += file.stat().st_size if file.is_file() else 0
        return total

    def verify(self, repair: bool) -> list[Finding]:
        return doctor.verify(self._record, self._gate, self._followers, repair=repair)

    def backup(self, target: Path) -> None:
        doctor.backup(self._record, target)

    def close(self) -> None:
        self._followers.close()
        self._record.close()
