"""Keeps the full-text index up to date with the record: queues changes, flushes, checks and rebuilds it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from refdesk.errors import LibraryBusy, RefdeskError, StoreError
from refdesk.library import Library
from refdesk.store.gate import Gate
from refdesk.store.record import database
from refdesk.store.record.database import LEXICAL, LONG, SOON, Applied, Record, is_pending, last_commit, pending
from refdesk.store.words.index import IndexDamaged, LexicalIndex, seam
from refdesk.store.words.keeper import IdleFlusher, Keeper
from refdesk.system.memory import give_back

_log = logging.getLogger(__name__)

_LITTLE_BYTES = 16_000_000  # of free disk space
# A commit of the full-text index takes as long for one chunk as for hundreds, so changes are queued.
_LITTLE = 200  # queued changes that are left to the next search
_AT_ONCE = 16_000  # changes committed at a time in a long stretch
_PATIENCE_S = 2.0  # how long a reader waits for writes other than those of a running stretch
_LOOK_S, _PUBLISH_S = 0.02, 0.5  # between looks, and how long a writer waits for another process that writes the index
_READ_S = 2.0  # after a search in which writers update the index themselves, so that the next search need not
_FLUSH_FOR_OTHERS_S = 0.25  # interval in which a long stretch checks for writes of others
_SOON_BUILT = 2000  # chunks that are indexed in well under a second; more are indexed in the background


class _Own(threading.local):
    """State per thread."""

    stretches = 0  # long ones that it is in
    is_soon = False  # whether it has made a commit marked SOON, which it must publish


class LexicalFollower:
    """The full-text index of one library, updated from the record on demand; changes are queued."""

    def __init__(
        self, library: Library, record: Record, gate: Gate, beside: Callable[[int], AbstractContextManager[None]]
    ) -> None:
        self._folder = library.folder
        self._record = record
        self._gate = gate
        self._beside = beside  # what is done while so many changes are written
        self._mutex = threading.RLock()
        self._writing = threading.RLock()  # of the full-text index; the gate, where both are needed, is entered before
        self._index = LexicalIndex(library.lexical)
        self._complete_to = -1  # the commit up to which the searcher is known to be complete
        self._queued = 0  # changes that this process has not committed to the full-text index
        self._most_queued = _LITTLE
        self._untaken = 0  # those of them that its writer has not taken either
        self._terms: dict[int, str] = {}  # of some of them
        self._counting = threading.Lock()  # of these four
        self._stretches = 0  # long ones that this process is in
        self._publishing = 0  # threads with commits marked SOON
        self._read_at = float("-inf")  # the last search that found the index behind or up to date, on time.monotonic()
        self._own = _Own()
        self._looked_at = self._try_at = 0.0
        self._idle = IdleFlusher(lambda: self._queued, self._flush_quietly)
        self._keeper = Keeper(self._folder, self._index.reopen, self._rebuild_if_damaged)
        self._is_rebuilding = False  # which takes long and keeps others from writing it, but not the record

    @property
    def applied(self) -> Applied | None:
        """The last commit that the current searcher has."""
        return self._index.applied

    def at(self, seq: int) -> LexicalIndex | None:
        """The full-text index with every commit up to seq, or as far as a running writer has come.

        None if it is missing or damaged; then it is rebuilt in the background, or at once if it is small.
        """
        self._read_at = time.monotonic()
        if seq != self._complete_to:
            is_behind = self._look()
            if is_behind is None and self._is_much():
                self.doubt("it is missing, damaged or of another state of the record")
                return None
            if is_behind is False or self._catch_up():
                self._complete_to = seq
            elif is_behind is None and self._look() is None:
                return None
        if not self._keeper.is_started and not self._record.read_only:
            self._keeper.start()
        return self._index

    def _look(self) -> bool | None:
        """Whether the index on disk lacks chunks; None if it must be rebuilt."""
        with self._mutex:
            self._index.reload()
            if not self._index.readable:
                return None
            with self._record.snapshot() as db:
                return is_pending(db, self._index.applied, LEXICAL)

    def _is_much(self) -> bool:
        with self._record.reading() as db:
            return db.execute("SELECT 1 FROM chunks LIMIT 1 OFFSET ?", (_SOON_BUILT,)).fetchone() is not None

    def doubt(self, why: str) -> None:
        """Checks the full-text index now, in the background, and rebuilds it if it is damaged."""
        if not self._record.read_only:
            self._keeper.doubt(why)

    def _rebuild_if_damaged(self) -> None:
        if self._look() is not None and self._index.problem() is None:
            return
        with self._writing:
            # It may have been rebuilt since, or a merge may have removed files during the check.
            if self._look() is None or self._index.problem() is not None:
                _log.warning("the full-text index of %s is rebuilt", self._folder)
                self._is_rebuilding = True
                try:
                    self._write(self.rebuild)
                finally:
                    self._is_rebuilding = False

    def _catch_up(self, but: str = SOON) -> bool:
        """Applies what a writer left undone, unless one is running that is expected to; `but` as in is_waited_for."""
        if self._record.read_only:
            return False
        but = LONG if self._own.is_soon else but  # who made such commits waits for them
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            is_busy = self._publishing or self._stretches or time.monotonic() < self._try_at
            if is_busy and not self._is_waited_for(but):
                return False  # nobody was told yet that these changes are made, or a stretch goes on
            if self.flush():
                return True
            self._try_at = time.monotonic() + _FLUSH_FOR_OTHERS_S  # another process writes it
            self._index.reload()
            if time.monotonic() > deadline or not self._is_waited_for(but):
                return False
            time.sleep(_LOOK_S)

    def _is_waited_for(self, but: str = LONG) -> bool:
        """Whether changes are missing that were not made by a long stretch, which commits those of others soon."""
        applied = self._index.applied
        with self._record.reading() as db:
            return applied is None or database.is_waited_for(db, applied, LEXICAL, but)

    def mark(self, chunks: int) -> str:
        """The mark of a commit of so many chunks, about to be made by this thread, which holds the gate."""
        if self._own.stretches:
            return LONG if self._queued + chunks > _LITTLE else ""
        if not self._own.is_soon:
            if self._is_rebuilding or time.monotonic() > self._read_at + _READ_S:
                return ""
            with self._counting:
                self._publishing += 1
            self._own.is_soon = True
            self._write(lambda: None, 0.0)  # claims it, so that searches in other processes know that somebody is at it
        return SOON

    def _publish(self) -> None:
        """Brings the index up to this thread's commits before they are acknowledged, so that no search waits for it."""
        is_flushed = False
        try:
            is_flushed = self._is_flushed_soon()
        except (RefdeskError, OSError) as error:
            _log.warning("the full-text index of %s was not updated: %s", self._folder, error)
        finally:
            if not is_flushed:  # searches must wait for these commits, or make up for them, after all
                with contextlib.suppress(RefdeskError), self._record.transaction() as db:
                    database.log_again(db, self._index.applied, LEXICAL, SOON)
            self._own.is_soon = False
            with self._counting:
                self._publishing -= 1
            if not self._publishing and not self._write(lambda: None, _LOOK_S):  # which tidies up
                with self._counting:  # another thread will, unless it has just decided not to: then the idle one does
                    self._queued, self._untaken = self._queued + 1, self._untaken + 1
            self._idle.start()

    def _is_flushed_soon(self) -> bool:
        """Flushes what was committed, unless it would have to wait for a long rebuild or another writer."""
        deadline = time.monotonic() + _PUBLISH_S
        with self._record.reading() as db:
            last = database.sequence(db)
        while self._complete_to < last:
            if self._look() is None and self._is_much():
                self.doubt("it can't be read")
            elif self._write(self._commit, max(0.0, deadline - time.monotonic())):
                break
            applied = self._index.applied  # another process writes the index, and may have taken these changes
            is_taken = applied is not None and applied.seq >= last
            if is_taken or time.monotonic() > deadline:
                return is_taken
            time.sleep(_LOOK_S)
        return True

    @property
    def is_long(self) -> bool:
        """Whether this process is in a long stretch, which does its maintenance at its end."""
        return self._stretches > 0

    def is_written_elsewhere(self) -> bool:
        """Whether another process is writing the full-text index."""
        return not self._write(lambda: None)

    def queue(self, changes: int, terms: Mapping[int, str]) -> None:
        """Queues changes of the record, and writes them once there are many; the gate is held."""
        with self._counting:
            self._queued += changes
            self._untaken += changes
            self._terms.update(terms)
        if not self._stretches:
            self.flush_many()

    def flush_many(self) -> None:
        """Writes the queued changes once there are many."""
        is_unread = self._queued > 0 and self._index.current() is None
        if is_unread and self._look() is None and self._index.exists and self._is_much():
            self.doubt("it can't be read")
        elif self._queued > self._most_queued or is_unread:
            self.flush()
            self._most_queued = _AT_ONCE  # the first flush is early: it includes what earlier stretches left
        elif self._untaken > _LITTLE:
            self._write(self._take)

    @contextlib.contextmanager
    def stretch(self, wait: bool) -> Iterator[None]:
        """A long stretch of this thread: changes are queued in the index, which no other process writes."""
        with self._writing:
            is_ours = self._index.claim()
            if not wait and not self._own.stretches and (self._stretches or not is_ours):
                raise LibraryBusy("Another writer is at work.", "Try again when it has finished.")
            self._stretches += 1
            self._own.stretches += 1
        try:
            if is_ours and not self._index.is_writing and self._look():
                self.flush()  # changes that were left to the next query, which can't write now
            yield
        finally:
            self._own.stretches -= 1
            with self._writing:
                if self._stretches == 1:
                    self.finish()
                self._stretches -= 1

    def flush_for_others(self) -> None:
        """Commits, in a long stretch, what others wrote, so that they find it."""
        if time.monotonic() > self._looked_at + _FLUSH_FOR_OTHERS_S:
            self._looked_at = time.monotonic()
            if self._own.stretches and self._is_waited_for():
                self.flush()

    def _flush_quietly(self) -> None:
        if self._queued:
            with contextlib.suppress(RefdeskError):
                self.flush()

    def flush(self) -> bool:
        """Brings the full-text index up to the record; returns False if another process is writing it."""
        return self._write(self._commit)

    def _write(self, write: Callable[[], object], timeout_s: float = -1) -> bool:
        """Writes to the full-text index if it is free, or rebuilds it if it can't be written."""
        if not self._writing.acquire(timeout=timeout_s):
            return False
        try:
            if not self._index.claim():
                with self._counting:
                    self._untaken, self._terms = 0, {}  # the other writer reads them from the record
                return False
            try:
                self._write_or_rebuild(write)
            finally:
                if not self._stretches and not self._publishing and not self._gate.is_ours:
                    self._tidy()
            return True
        finally:
            self._writing.release()

    def _write_or_rebuild(self, write: Callable[[], object]) -> None:
        try:
            with seam():
                write()
        except IndexDamaged as error:
            self._index.abandon_writing()
            if shutil.disk_usage(self._folder).free < _LITTLE_BYTES:
                raise self._unwritable(error) from error
            _log.warning("the full-text index is rebuilt, since it refused a write: %s", error)
            try:
                with seam():
                    self.rebuild()
            except IndexDamaged as again:
                self._index.abandon_writing()
                raise self._unwritable(again) from again

    def _unwritable(self, error: Exception) -> StoreError:
        # Of a full disk, tantivy says only what followed from it.
        why = "the disk is full" if shutil.disk_usage(self._folder).free < _LITTLE_BYTES else error
        then = "Free some disk space or check the folder's permissions; what was indexed is kept."
        return StoreError(f"The full-text index of {self._folder} can't be written: {why}.", then)

    def _commit(self) -> None:
        last = self._take()
        if self._index.taken not in (None, self._index.applied):
            self._index.commit()
            if self._queued > _LITTLE:
                give_back()
        self._complete_to = last.seq
        with self._counting:
            self._queued = self._untaken

    def _take(self) -> Applied:
        """Passes to the writer what it and the index lack; returns the last commit included."""
        if not self._index.is_writing:  # another process may have written before this one got the gate
            self._index.reload()
        with self._counting:
            terms, self._terms, self._untaken = self._terms, {}, 0
        with self._record.snapshot() as db:
            known = self._index.taken or self._index.applied
            todo = None if not self._index.readable else pending(db, known, LEXICAL)
            last = last_commit(db)
            if todo is None:
                if last.seq:
                    _log.info("building the full-text index of %s", self._folder)
                self._start_over()
            if todo != []:
                self._index.take(db, todo, last, terms)
        return last

    def _start_over(self) -> None:
        self._complete_to = -1  # until it is complete, searches must know that it is not
        self._index.start_over()

    def rebuild(self) -> None:
        with self._writing:
            if not self._index.claim():
                raise LibraryBusy("Another process is writing the full-text index.", "Try again when it has finished.")
            with self._counting:
                self._queued, self._untaken, self._terms = 0, 0, {}
            with self._record.snapshot() as db:
                last = last_commit(db)
                self._start_over()
                self._index.take(db, None, last)
                self._index.commit()
            self._complete_to = last.seq

    def problem(self) -> str | None:
        """What is wrong with the full-text index on disk, or None."""
        if (is_behind := self._look()) is None:
            return "belongs to another state of the record" if self._index.readable else "is missing or can't be read"
        if problem := self._index.problem():
            return problem
        if not is_behind or self._catch_up(LONG) or not self._look():
            return None
        with self._record.snapshot() as db:
            return f"is {len(pending(db, self._index.applied, LEXICAL) or ())} changed chunks behind"

    def after_leaving(self) -> None:
        """The maintenance that needs no gate: others may write meanwhile."""
        if self._own.stretches:
            self.flush_many()
        elif self._own.is_soon:
            self._publish()

    def finish(self) -> None:
        """Ends a run of writes: flushes the queue unless it is short, and lets others write."""
        if self._is_rebuilding:
            self._idle.start()
            return
        if self._own.is_soon and self._queued <= _LITTLE:
            return  # published after the gate is left
        with self._writing:
            with self._beside(self._queued):
                if self._queued <= _LITTLE or not self.flush():
                    self._idle.start()
            self._most_queued = _LITTLE
            if not self._publishing:
                self._tidy()

    def _tidy(self) -> None:
        """Lets merges end and others write."""
        try:
            if self._index.is_writing:
                with seam():
                    self._index.stop_writing()
                self._index.reload()  # merged segments score as every later reader will see them
        except Exception as error:
            _log.warning("the full-text index could not be tidied up after writing: %s", error)
        finally:
            self._index.release()

    def close(self) -> None:
        self._keeper.close()
        self._idle.close()
        self._flush_quietly()
        with self._writing:
            self._index.close()
