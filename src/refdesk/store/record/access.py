"""What every record does with its database: the reads and small writes of ports.Record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from refdesk.model import EVERYTHING, Batch, Collection, EmbedderIdentity, FileState, Filters, Skipped, StoredChunk
from refdesk.ports import View
from refdesk.store.record import by_path, contents, reads, rows
from refdesk.store.record.batches import ChunkIds
from refdesk.store.record.crawls import Crawls
from refdesk.store.record.database import sequence
from refdesk.store.record.reads import Owners
from refdesk.store.record.schema import Connection

_PAGE = 5_000  # states of files

P = ParamSpec("P")
T = TypeVar("T")


def _read(ask: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[RecordAccess, P], T]:
    """A method that asks on a connection to the record."""

    def read(self: RecordAccess, /, *args: P.args, **options: P.kwargs) -> T:
        with self.reading() as db:
            return ask(db, *args, **options)

    return read


class RecordAccess(ABC):
    """Reads and writes a record over the connections that a subclass provides."""

    crawls: Crawls | None = None  # the tables of what crawls know, if they are in this record and not in a file
    indexed: int | None = None  # how many characters of a path its index has, if not all
    left_over = ""  # the problem with an older version's playbooks file, if any

    def __init__(self) -> None:
        self._owners = Owners()
        self._known: tuple[int, tuple[Collection, ...]] = (-1, ())  # the cached collections and their commit

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """A connection for this thread's use."""

    @abstractmethod
    def transaction(self, *, logged: bool = True) -> AbstractContextManager[Connection]:
        """A write transaction: one commit of the log, unless it changes nothing that readers see."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Holds the write lock."""

    @abstractmethod
    def change(self, make: Callable[[Connection], Batch], chunks: int, *, for_good: bool = False) -> None:
        """Applies a batch of about so many chunks that `make` creates within the transaction."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Connection]:
        """A connection that sees one state of the record throughout, for reading much of it."""

    @abstractmethod
    def chunk_ids(self, db: Connection) -> ChunkIds:
        """Gives new chunks their ids."""

    @abstractmethod
    def copied(self, db: Connection) -> None:
        """Does what is due in the transaction that has filled the tables from another record."""

    @abstractmethod
    def view(self, filters: Filters = EVERYTHING) -> View: ...

    def read(self, ask: Callable[[Connection], T]) -> T:
        """Runs a function on a connection to the record."""
        with self.reading() as db:
            return ask(db)

    # collections

    def collections(self, at: int = -1) -> list[Collection]:
        known, found = self._known
        if at == known != -1:
            return list(found)
        with self.reading() as db:
            seq = sequence(db)
            known, found = self._known
            if seq != known:
                # Read after the commit's number, so that a newer state is read again.
                found = tuple(reads.collections(db))
                self._known = seq, found
        return list(found)

    collection = _read(reads.collection)

    def put_collection(self, collection: Collection) -> None:
        if self.collection(collection.name) == collection:
            return
        with self.writing(), self.transaction() as db:
            contents.put_collection(db, collection)

    # writing

    def apply(self, batch: Batch) -> None:
        self.change(lambda db: batch, sum(len(write.chunks) for write in batch.writes))

    def note(self, write: Callable[[Connection], T]) -> T:
        """Writes what no follower needs and no search sees."""
        with self.writing(), self.transaction(logged=False) as db:
            return write(db)

    def has_playbooks(self) -> bool:
        """Whether there are playbooks, or an older playbooks file that could not be migrated."""
        there = self.read(lambda db: db.execute("SELECT 1 FROM playbooks LIMIT 1").fetchone())
        return bool(self.left_over) or there is not None

    def replace_skipped(self, collection: str, skipped: Iterable[Skipped]) -> None:
        given = [s if len(s.path) <= rows.INDEXED else replace(s, path=rows.indexable(s.path)) for s in skipped]
        same = {s.path: s for s in given} == {s.path: s for s in self.skipped(collection)}
        if same and self.collection(collection) is not None:
            return
        with self.writing(), self.transaction() as db:
            contents.replace_skipped(db, collection, given)

    unembedded = _read(reads.unembedded)
    missing_vectors = _read(contents.missing_vectors)
    embedder_identity = _read(contents.embedder_identity)

    # documents

    def file_states(self, collection: str, paths: Iterable[str] | None = None) -> Iterator[tuple[str, FileState]]:
        wanted = None if paths is None else list(paths)
        groups = [None] if wanted is None else [wanted[at : at + _PAGE] for at in range(0, len(wanted), _PAGE)]
        for group in groups:
            with self.reading() as db:
                parts = list(by_path.parts(db, collection, group, self.indexed))
            for part in parts:
                while True:
                    with self.reading() as db:
                        page = by_path.file_states(db, collection, part, _PAGE, self.indexed)
                    for path, *state, _ in page:
                        if part.has(path):
                            yield path, FileState(*state)
                    if len(page) < _PAGE:
                        break
                    part = part._replace(after=(page[-1][0], page[-1][-1]))

    skipped = _read(reads.skipped)
    documents = _read(reads.documents)
    count_documents = _read(reads.count_documents)
    document_ids = _read(reads.document_ids)
    document = _read(reads.document)
    document_by_uri = _read(reads.document_by_uri)
    document_by_path = _read(reads.document_by_path)
    raw = _read(reads.raw)
    chunks_of = _read(reads.chunks_of)

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        with self.reading() as db:
            seq = sequence(db)
            return reads.chunks(db, chunk_ids, lambda db, rows: self._owners.find(db, seq, rows))

    sequence = _read(sequence)
    values = _read(reads.values)
    contents = _read(reads.contents)
    facets = _read(reads.facets)

    # graph

    symbols_named = _read(reads.symbols_named)
    symbols_of = _read(reads.symbols_of)
    references_to = _read(reads.references_to)
    references_of = _read(reads.references_of)

    # keeping

    def set_embedder_identity(self, identity: EmbedderIdentity) -> None:
        if self.embedder_identity() == identity:
            return
        with self.writing(), self.transaction() as db:
            contents.set_embedder_identity(db, identity)
