"""The store of one library folder: a record, and the indexes that follow it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from refdesk.errors import LibraryBusy, StoreError
from refdesk.library import Library
from refdesk.model import (
    EVERYTHING,
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
    Skipped,
    Stats,
    StoredChunk,
    Symbol,
)
from refdesk.settings import Durability
from refdesk.store import doctor
from refdesk.store.gate import Gate
from refdesk.store.record import batches, contents, reads
from refdesk.store.record import contents as catalogue
from refdesk.store.record.database import Record, sequence
from refdesk.store.record.reads import Owners
from refdesk.store.vectors.follower import VectorFollower
from refdesk.store.view import LocalView, Scopes
from refdesk.store.words.follower import LexicalFollower

_MANY_REMOVED = 500  # chunks removed in one stretch, after which unused vectors are dropped

T = TypeVar("T")


class LocalStore:
    """Implements ports.Store in one folder; any number of threads and processes may use it at once."""

    def __init__(self, folder: Path, *, lock_timeout_s: float = 30.0, durability: Durability = "normal") -> None:
        self.folder = folder
        library = self._library = Library(folder)
        self._record = Record(library, lock_timeout_s, durability)
        self._gate = Gate(library, lock_timeout_s, self._before_leaving, self._after_leaving)
        self._vectors = VectorFollower(library, self._record, self._gate, lambda: self._lexical.applied)
        self._lexical = LexicalFollower(library, self._record, self._gate, self._vectors.catching_up)
        self._scopes = Scopes()
        self._owners = Owners()
        self._known: tuple[int, tuple[Collection, ...]] = (-1, ())  # the cached collections and their commit
        self._removed = 0
        self._is_due = False  # something may be, after writing
        self.left_over = ""  # the problem with an older version's playbooks file, if any
        if library.old_playbooks.exists():
            from refdesk.store.playbooks import take_over

            self.left_over = take_over(self, library.old_playbooks)

    def read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a function on a connection to the record."""
        with self._record.reading() as db:
            return ask(db)

    # collections

    def collections(self) -> list[Collection]:
        with self._record.reading() as db:
            seq = sequence(db)
            known, found = self._known
            if seq != known:
                # Read after the commit's number, so that a newer state is read again.
                found = tuple(reads.collections(db))
                self._known = seq, found
        return list(found)

    def collection(self, name: str) -> Collection | None:
        return self.read(lambda db: reads.collection(db, name))

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
            if not self._lexical.flush():
                self._lexical.queue(1, {})
            return removed

    # writing

    def apply(self, batch: Batch) -> None:
        self.change(lambda db: batch, sum(len(write.chunks) for write in batch.writes))

    def change(self, make: Callable[[sqlite3.Connection], Batch], chunks: int, *, for_good: bool = False) -> None:
        """Applies a batch of about so many chunks that `make` creates within the transaction."""
        with self.writing():
            with self._record.transaction(mark=self._lexical.mark(chunks), for_good=for_good) as db:
                change = batches.apply(db, make(db))
            self._removed += change.removed_chunks
            self._lexical.queue(change.lexical_chunks, change.terms)

    def has_playbooks(self) -> bool:
        """Whether there are playbooks, or an older playbooks file that could not be migrated."""
        there = self.read(lambda db: db.execute("SELECT 1 FROM playbooks LIMIT 1").fetchone())
        return bool(self.left_over) or there is not None

    def note(self, write: Callable[[sqlite3.Connection], T]) -> T:
        """Writes what no follower needs and no search sees."""
        with self.writing(), self._record.transaction(logged=False) as db:
            return write(db)

    def replace_skipped(self, collection: str, skipped: Iterable[Skipped]) -> None:
        given = list(skipped)
        same = {s.path: s for s in given} == {s.path: s for s in self.skipped(collection)}
        if same and self.collection(collection) is not None:
            return
        with self.writing(), self._record.transaction() as db:
            catalogue.replace_skipped(db, collection, given)

    def unembedded(self, collection: str = "", limit: int = 1) -> list[str]:
        return self.read(lambda db: reads.unembedded(db, collection, limit))

    def missing_vectors(self, keys: Iterable[bytes]) -> set[bytes]:
        return self.read(lambda db: contents.missing_vectors(db, keys))

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._record.refuse_read_only()
        with self._gate.held():
            self._is_due = True
            yield

    def is_being_written(self) -> bool:
        if self._lexical.is_long or self._lexical.is_written_elsewhere():
            return True
        with contextlib.suppress(StoreError), self._gate.held_if_free() as free:
            return not free
        return False  # nobody can

    @contextmanager
    def stretch(self, wait: bool = True) -> Iterator[None]:
        self._record.refuse_read_only()
        if not wait:
            with self._gate.held_if_free() as free:
                if not free:
                    raise LibraryBusy("Another writer is at work.", "Try again when it has finished.")
        try:
            with self._lexical.stretch(wait):
                yield
        finally:
            if self._is_due and not self._lexical.is_long:
                self._is_due = False
                with contextlib.suppress(LibraryBusy), self._gate.held():
                    pass  # leaving it does what is due after writing

    def flush_for_others(self) -> None:
        self._lexical.flush_for_others()

    def _before_leaving(self) -> None:
        if self._lexical.is_long:
            return
        if self._removed >= _MANY_REMOVED:
            with self._record.transaction(logged=False) as db:
                contents.drop_loose_vectors(db)
        self._removed = 0
        self._lexical.finish()  # a little is left for later
        self._vectors.save_if_late()

    def _after_leaving(self) -> None:
        self._lexical.after_leaving()

    # documents

    def file_states(self, collection: str, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        return self.read(lambda db: reads.file_states(db, collection, paths))

    def skipped(self, collection: str) -> list[Skipped]:
        return self.read(lambda db: reads.skipped(db, collection))

    def documents(self, collection: str, limit: int, offset: int) -> list[Document]:
        return self.read(lambda db: reads.documents(db, collection, limit, offset))

    def count_documents(self, collection: str) -> int:
        return self.read(lambda db: reads.count_documents(db, collection))

    def document_ids(self, prefix: str) -> list[str]:
        return self.read(lambda db: reads.document_ids(db, prefix))

    def document(self, document_id: str) -> Document | None:
        return self.read(lambda db: reads.document(db, document_id))

    def document_by_uri(self, uri: str, collection: str = "") -> Document | None:
        return self.read(lambda db: reads.document_by_uri(db, uri, collection))

    def document_by_path(self, collection: str, path: str) -> Document | None:
        return self.read(lambda db: reads.document_by_path(db, collection, path))

    def raw(self, document_id: str) -> str:
        return self.read(lambda db: reads.raw(db, document_id))

    def chunks_of(self, document_id: str) -> list[StoredChunk]:
        return self.read(lambda db: reads.chunks_of(db, document_id))

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        with self._record.reading() as db:
            seq = sequence(db)
            return reads.chunks(db, chunk_ids, lambda db, rows: self._owners.find(db, seq, rows))

    # searching

    def sequence(self) -> int:
        return self.read(sequence)

    def view(self, filters: Filters = EVERYTHING) -> LocalView:
        with self._record.reading() as db:
            seq = sequence(db)
            return LocalView(self._record, self._lexical, self._vectors, seq, self._scopes.resolve(db, seq, filters))

    def values(self, of: Filterable) -> dict[str, int]:
        return self.read(lambda db: reads.values(db, of))

    def facets(self, collection: str) -> dict[str, dict[str, int]]:
        return self.read(lambda db: reads.facets(db, collection))

    # graph

    def symbols_named(self, name: str, collection: str = "") -> list[tuple[Document, Symbol]]:
        return self.read(lambda db: reads.symbols_named(db, name, collection))

    def symbols_of(self, document_id: str) -> list[Symbol]:
        return self.read(lambda db: reads.symbols_of(db, document_id))

    def references_to(
        self, name: str, collection: str = "", kinds: Sequence[RelationKind] = ()
    ) -> list[tuple[Document, Reference]]:
        return self.read(lambda db: reads.references_to(db, name, collection, kinds))

    def references_of(self, document_id: str, kinds: Sequence[RelationKind] = ()) -> list[Reference]:
        return self.read(lambda db: reads.references_of(db, document_id, kinds))

    # keeping

    def embedder_identity(self) -> EmbedderIdentity | None:
        return self.read(contents.embedder_identity)

    def set_embedder_identity(self, identity: EmbedderIdentity) -> None:
        if self.embedder_identity() == identity:
            return
        with self.writing(), self._record.transaction() as db:
            catalogue.set_embedder_identity(db, identity)

    def stats(self, collection: str = "") -> Stats:
        return self.read(lambda db: reads.stats(db, collection, self._library.size()))

    def verify(self, repair: bool) -> list[Finding]:
        found = doctor.verify(self._record, self._gate, self._lexical, self._vectors, repair=repair)
        return [*found, Finding(part="playbooks", ok=False, message=self.left_over)] if self.left_over else found

    def backup(self, target: Path) -> Mapping[str, int]:
        from refdesk.store.backup import back_up

        if self.left_over:
            raise StoreError(self.left_over)
        return back_up(self._library, self._record, self._gate, target)

    def close(self) -> None:
        self._lexical.close()
        self._vectors.close()
        self._record.close()
