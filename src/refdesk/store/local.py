"""The store of one library folder: a record, and the indexes that follow it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from refdesk.errors import LibraryBusy, LibraryDamaged, StoreError
from refdesk.library import Library
from refdesk.model import EVERYTHING, Batch, Filters, Finding, Stats
from refdesk.settings import Durability, Settings
from refdesk.store.gate import Gate
from refdesk.store.record import batches, contents, reads
from refdesk.store.record.access import RecordAccess
from refdesk.store.record.database import DONE, LONG, SOON, Record, sequence, unmark
from refdesk.store.record.schema import Connection
from refdesk.store.vectors.follower import VectorFollower
from refdesk.store.view import Beside, LocalView, Scopes
from refdesk.store.words.follower import LexicalFollower

_MANY_REMOVED = 500  # chunks removed in one stretch, after which unused vectors are dropped


class LocalStore(RecordAccess):
    """Implements ports.Store in one folder; any number of threads and processes may use it at once."""

    def __init__(self, folder: Path, *, lock_timeout_s: float = 30.0, durability: Durability = "normal") -> None:
        super().__init__()
        self.folder = folder
        library = self._library = Library(folder)
        self._record = Record(library, lock_timeout_s, durability)
        self._gate = Gate(library, lock_timeout_s, self._before_leaving, self._after_leaving)
        self._vectors = VectorFollower(library, self._record, self._gate, lambda: self._lexical.applied)
        self._lexical = LexicalFollower(library, self._record, self._gate, self._vectors.catching_up)
        self._scopes = Scopes()
        self._beside = Beside()
        self._removed = 0
        self._is_due = False  # something may be, after writing
        self._is_long = False  # commits were marked LONG that are not acknowledged yet
        if library.old_playbooks.exists():
            from refdesk.store.playbooks import take_over

            self.left_over = take_over(self, library.old_playbooks)

    def reading(self) -> AbstractContextManager[Connection]:
        return self._record.reading()

    def transaction(self, *, logged: bool = True) -> AbstractContextManager[Connection]:
        return self._record.transaction(logged=logged)

    def snapshot(self) -> AbstractContextManager[Connection]:
        return self._record.snapshot()

    def chunk_ids(self, db: Connection) -> batches.ChunkIds:
        return batches.counted_ids(db)

    def copied(self, db: Connection) -> None:
        """Leaves the indexes to be built anew, since the log does not name what was copied."""
        db.execute("DELETE FROM commits WHERE seq < (SELECT max(seq) FROM commits)")

    def remove_collection(self, name: str) -> int:
        with self.writing():
            with self._record.transaction() as db:
                removed, _ = batches.remove_collection(db, name)
            self._removed += _MANY_REMOVED
            if not self._lexical.flush():
                self._lexical.queue(1, {})
            return removed

    # writing

    def change(self, make: Callable[[Connection], Batch], chunks: int, *, for_good: bool = False) -> None:
        with self.writing():
            mark = self._lexical.mark(chunks)
            self._is_long |= mark == LONG
            with self._record.transaction(mark=mark, for_good=for_good) as db:
                change = batches.apply(db, make(db), self.chunk_ids(db))
                if mark == SOON and change.removed_chunks:
                    unmark(db, mark)  # a search waits for it: it would find neither the old passages nor the new
            self._removed += change.removed_chunks
            self._lexical.queue(change.lexical_chunks, change.terms)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._record.refuse_read_only()
        with self._gate.held():
            self._is_due = True
            yield

    def is_being_written(self) -> bool:
        if self._lexical.is_long or self._lexical.is_written_elsewhere():
            return True
        with contextlib.suppress(StoreError):
            return not self._gate.is_free()
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
            if self._is_long:
                self._is_long = self._lexical.is_long
                with contextlib.suppress(StoreError), self._record.transaction(mark=DONE):
                    pass  # a search waits for all of it from here on

    def share_metadata(self) -> None:
        """Does nothing: everybody who has the folder has its metadata.json."""

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

    def view(self, filters: Filters = EVERYTHING) -> LocalView:
        with self.reading() as db:
            seq = sequence(db)
            scope = self._scopes.resolve(db, seq, filters)
            return LocalView(self._record, self._lexical, self._vectors, self._beside, seq, scope)

    def stats(self, collection: str = "") -> Stats:
        return self.read(lambda db: reads.stats(db, collection, self._library.size()))

    def verify(self, repair: bool) -> list[Finding]:
        from refdesk.store import doctor

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


def restore(settings: Settings, source: Path, *, replace: bool) -> tuple[Mapping[str, int], Path | None]:
    """Makes a backup the library that the settings name; returns counts of it, and where the old library was moved."""

    def finish(folder: Path) -> None:
        store = LocalStore(folder, lock_timeout_s=settings.lock_timeout_s)
        try:
            wrong = [one.message for one in store.verify(repair=True) if not one.ok]
        finally:
            store.close()
        if wrong:
            raise LibraryDamaged(f"The backup {source} is damaged: {wrong[0]}", "Take another one.")

    from refdesk.store import backup

    manifest, aside = backup.restore(source, Library(settings.library), replace=replace, finish=finish)
    return manifest.counts, aside
