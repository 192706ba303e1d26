"""How do the two indexes keep up with the record?"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refdesk.errors import LibraryBusy, RefdeskError, StoreError
from refdesk.store.folder import LEXICAL_FOLDER
from refdesk.store.gate import Gate
from refdesk.store.record.database import LEXICAL, LONG, Applied, Record, is_waited_for, last_commit, pending, sequence
from refdesk.store.vectors import follower as vector_follower
from refdesk.store.vectors.follower import VectorFollower
from refdesk.store.words.checksums import IndexDamaged, seam
from refdesk.store.words.index import LexicalIndex
from refdesk.system.memory import give_back

if TYPE_CHECKING:
    from refdesk.store.vectors.index import VectorIndex

_log = logging.getLogger(__name__)

_LITTLE_BYTES = 16_000_000  # of free disk space
# A commit of the full-text index takes as long for one chunk as for hundreds, so changes are gathered for it.
_LITTLE = 200  # changes that are left to whoever searches next
_AT_ONCE = 16_000  # changes in a long stretch of writing, which are taken as they come and committed together
_IDLE_S = 2.0  # after which a little is written too, for readers who can't write
_PATIENCE_S = 2.0  # how long a reader waits for what others than the long stretch at work wrote
_LOOK_S = 0.02
_GIVE_WAY_S = 0.25  # how often a long stretch looks whether others wrote
_SOON_BUILT = 2000  # chunks, which are indexed in well under a second; more are indexed in the background
_CHECK_EVERY_S = 300.0  # how often a process that lives long looks at all of the full-text index


class Followers:
    """The full-text and the vector index of one library, brought up to the record when they are asked for."""

    def __init__(self, folder: Path, record: Record, gate: Gate) -> None:
        self._folder = folder
        self._record = record
        self._gate = gate
        self._mutex = threading.RLock()
        self._writing = threading.RLock()  # of the full-text index; the gate, where both are needed, is entered before
        self._lexical = LexicalIndex(folder / LEXICAL_FOLDER)
        self._lexical_seen = -1  # the commit up to which the searcher is known to be complete
        self._vectors = VectorFollower(folder, record, gate, lambda: self._lexical.applied)
        self._owed = 0  # changes that this process has not committed to the full-text index
        self._owed_most = _LITTLE
        self._untaken = 0  # those of them that its writer has not taken either
        self._terms: dict[int, str] = {}  # of some of them
        self._counting = threading.Lock()  # of these four
        self._stretches = 0  # long ones that this process is in
        self._own = threading.local()  # how many of them are this thread's
        self._looked_at = 0.0
        self._idle: threading.Thread | None = None  # waits to write what is owed
        self._idle_mutex = threading.Lock()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None  # looks after the full-text index
        self._in_doubt = False  # whether it must look now
        self._is_rebuilding = False  # which takes long and keeps others from writing it, but not the record
        self._wake = threading.Event()

    # full text

    def lexical(self, seq: int) -> LexicalIndex | None:
        """The full-text index with every commit up to seq, or as far as a writer has come with it.

        None where it is missing or damaged: it is rebuilt in the background, unless that is done at once.
        """
        if seq != self._lexical_seen:
            todo = self._look_at_lexical()
            if todo is None and self._is_much():
                self.doubt_lexical("it is missing, damaged or of another state of the record")
                return None
            if todo == [] or self._catch_up_lexical():
                self._lexical_seen = seq
            elif todo is None and self._look_at_lexical() is None:
                return None
        self._keep_lexical()
        return self._lexical

    def _look_at_lexical(self) -> list[int] | None:
        """The chunks that the index lacks as it is on disk; None when it must be built."""
        with self._mutex:
            self._lexical.reload()
            return self._lexical_todo()

    def _is_much(self) -> bool:
        with self._record.reading() as db:
            return db.execute("SELECT 1 FROM chunks LIMIT 1 OFFSET ?", (_SOON_BUILT,)).fetchone() is not None

    def doubt_lexical(self, why: str) -> None:
        """Has the full-text index looked at now, in the background, and rebuilt if it is damaged."""
        if not self._record.read_only:
            if not self._in_doubt:
                _log.warning("the full-text index of %s is checked: %s", self._folder, why)
            self._in_doubt = True
            self._keep_lexical()
            self._wake.set()

    def _keep_lexical(self) -> None:
        with self._idle_mutex:
            if self._keeper is None and not self._record.read_only and not self._closing.is_set():
                self._keeper = threading.Thread(target=self._keep, name="refdesk-keeper", daemon=True)
                self._keeper.start()

    def _keep(self) -> None:
        """Checks all of the full-text index now and then, or when it is doubted, which is done to its end."""
        while not self._closing.is_set() or self._in_doubt:
            self._wake.wait(_CHECK_EVERY_S)
            self._wake.clear()
            if self._in_doubt or not self._closing.is_set():
                if self._in_doubt:
                    self._in_doubt = False
                    self._lexical.reopen()  # also what is in memory may be to blame
                try:
                    self._rebuild_if_damaged()
                except Exception as error:
                    _log.warning("the full-text index of %s could not be rebuilt: %s", self._folder, error)

    def _rebuild_if_damaged(self) -> None:
        if self._look_at_lexical() is not None and self._lexical.problem() is None:
            return
        with self._writing:
            # It may have been rebuilt meanwhile, or a merge may have removed what was being looked at.
            if self._look_at_lexical() is None or self._lexical.problem() is not None:
                _log.warning("the full-text index of %s is rebuilt", self._folder)
                self._is_rebuilding = True
                try:
                    self._in_lexical(self.rebuild_lexical)
                finally:
                    self._is_rebuilding = False

    def _catch_up_lexical(self) -> bool:
        """Does what a writer left undone, unless one is at work."""
        if self._record.read_only:
            return False
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            if (not self._stretches or self._is_waited_for()) and self.write_lexical():
                return True
            with self._mutex:
                self._lexical.reload()
            if not self._is_waited_for() or time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)

    def _is_waited_for(self) -> bool:
        """Whether changes are missing that no long stretch made: whoever is at it commits those soon."""
        applied = self._lexical.applied
        with self._record.reading() as db:
            return applied is None or is_waited_for(db, applied, LEXICAL)

    def mark(self, chunks: int) -> str:
        """What marks a commit of so many chunks: whether it is one of many in a long stretch of this thread."""
        return LONG if self._is_in_stretch and self._owed + chunks > _LITTLE else ""

    @property
    def is_long(self) -> bool:
        """Whether this process is in a long stretch, at the end of which is done what is due after writing."""
        return self._stretches > 0

    def is_written_elsewhere(self) -> bool:
        """Whether another process is writing the full-text index."""
        with self._writing:
            if not self._lexical.claim():
                return True
            if not self._stretches and not self._lexical.is_writing:
                self._lexical.release()
            return False

    @property
    def _is_in_stretch(self) -> bool:
        return bool(getattr(self._own, "stretches", 0))

    def owe_lexical(self, changes: int, terms: Mapping[int, str]) -> None:
        """Takes note of changes for the full-text index, and makes them once there are many; the gate is held."""
        with self._counting:
            self._owed += changes
            self._untaken += changes
            self._terms.update(terms)
        if not self._stretches:
            self.pay_lexical()

    def pay_lexical(self) -> None:
        """Makes the changes that are owed once there are many."""
        is_unread = self._owed > 0 and self._lexical.current() is None
        if is_unread and self._look_at_lexical() is None and self._lexical.exists and self._is_much():
            self.doubt_lexical("it can't be read")
        elif self._owed > self._owed_most or is_unread:
            self.write_lexical()
            self._owed_most = _AT_ONCE  # the first time soon: it brings what earlier stretches left
        elif self._untaken > _LITTLE:
            self._in_lexical(self._take_lexical)

    @contextlib.contextmanager
    def stretch(self, wait: bool) -> Iterator[None]:
        """A long stretch of this thread: changes are gathered in the index, which no other process writes meanwhile."""
        with self._writing:
            is_ours = self._lexical.claim()
            if not wait and not self._is_in_stretch and (self._stretches or not is_ours):
                raise LibraryBusy("Another writer is at work.", "Try again when it has finished.")
            self._stretches += 1
            self._own.stretches = getattr(self._own, "stretches", 0) + 1
        try:
            if is_ours and not self._lexical.is_writing:
                with self._mutex:
                    self._lexical.reload()
                    todo = self._lexical_todo()
                if todo:  # what was left to the next query, which can't do it now
                    self.write_lexical()
            yield
        finally:
            self._own.stretches -= 1
            with self._writing:
                if self._stretches == 1:
                    self._finish_lexical()
                self._stretches -= 1

    def give_way(self) -> None:
        """Commits, in a long stretch, what others wrote and wait to find."""
        if time.monotonic() > self._looked_at + _GIVE_WAY_S:
            self._looked_at = time.monotonic()
            if self._is_in_stretch and self._is_waited_for():
                self.write_lexical()

    def _write_owed(self) -> None:
        if self._owed:
            with contextlib.suppress(RefdeskError):
                self.write_lexical()

    def _write_owed_later(self) -> None:
        with self._idle_mutex:
            if self._owed and self._idle is None:
                self._idle = threading.Thread(target=self._write_when_idle, daemon=True)
                self._idle.start()

    def _write_when_idle(self) -> None:
        while not self._closing.wait(_IDLE_S):
            self._write_owed()
            with self._idle_mutex:
                if not self._owed:
                    self._idle = None
                    return

    def _lexical_todo(self) -> list[int] | None:
        """The chunks that the loaded index lacks; None when it must be built."""
        if not self._lexical.readable:
            return None
        with self._record.snapshot() as db:
            return pending(db, self._lexical.applied, LEXICAL)

    def write_lexical(self) -> bool:
        """Brings the full-text index up to the record; false when another process is writing it."""
        return self._in_lexical(self._commit_lexical)

    def _in_lexical(self, write: Callable[[], object]) -> bool:
        """Writes to the full-text index if it is free, or makes it anew where it can't be written to."""
        with self._writing:
            if not self._lexical.claim():
                with self._counting:
                    self._untaken, self._terms = 0, {}  # whoever writes it takes them from the record
                return False
            try:
                self._write_or_rebuild(write)
            finally:
                if not self._stretches and not self._gate.is_ours:
                    self._tidy_lexical()
            return True

    def _write_or_rebuild(self, write: Callable[[], object]) -> None:
        try:
            with seam():
                write()
        except IndexDamaged as error:
            self._lexical.abandon_writing()
            if shutil.disk_usage(self._folder).free < _LITTLE_BYTES:
                raise self._unwritable(error) from error
            _log.warning("the full-text index is rebuilt, since it refused a write: %s", error)
            try:
                with seam():
                    self.rebuild_lexical()
            except IndexDamaged as again:
                self._lexical.abandon_writing()
                raise self._unwritable(again) from again

    def _unwritable(self, error: Exception) -> StoreError:
        return StoreError(
            f"The full-text index of {self._folder} can't be written: {error}.",
            "Free some disk space or check the folder's permissions; what was indexed is kept.",
        )

    def _commit_lexical(self) -> None:
        last = self._take_lexical()
        if self._lexical.taken not in (None, self._lexical.applied):
            self._lexical.commit()
            if self._owed > _LITTLE:
                give_back()
        self._lexical_seen = last.seq
        with self._counting:
            self._owed = self._untaken

    def _take_lexical(self) -> Applied:
        """Gives the writer what neither it nor the index has, and returns how far that goes."""
        if not self._lexical.is_writing:  # another process may have come further before this one got the gate
            self._lexical.reload()
        with self._counting:
            terms, self._terms, self._untaken = self._terms, {}, 0
        with self._record.snapshot() as db:
            known = self._lexical.taken or self._lexical.applied
            todo = None if not self._lexical.readable else pending(db, known, LEXICAL)
            last = last_commit(db)
            if todo is None:
                if last.seq:
                    _log.info("building the full-text index of %s", self._folder)
                self._start_over()
            if todo != []:
                self._lexical.take(db, todo, last, terms)
        return last

    def _start_over(self) -> None:
        self._lexical_seen = -1  # until it is whole, whoever searches must see that it is not
        self._lexical.start_over()

    def rebuild_lexical(self) -> None:
        """Builds the full-text index from nothing."""
        with self._writing:
            if not self._lexical.claim():
                raise LibraryBusy("Another process is writing the full-text index.", "Try again when it has finished.")
            with self._counting:
                self._owed, self._untaken, self._terms = 0, 0, {}
            with self._record.snapshot() as db:
                last = last_commit(db)
                self._start_over()
                self._lexical.take(db, None, last)
                self._lexical.commit()
            self._lexical_seen = last.seq
            if not self._stretches and not self._gate.is_ours:
                self._tidy_lexical()

    # vectors

    def vectors(self, seq: int) -> VectorIndex:
        """The vector index with every commit up to seq."""
        return self._vectors.at(seq)

    def texts(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        """The texts of those of the chunks that the vector index holds, if it is in use."""
        return self._vectors.texts(chunk_ids)

    def save_vectors(self) -> None:
        """Writes a snapshot of the vectors and trims the log behind it; the gate is held."""
        self._vectors.save()

    def rebuild_vectors(self) -> None:
        """Builds the vector index from nothing and keeps it; the gate is held."""
        self._vectors.rebuild()

    def snapshot_problem(self) -> str | None:
        """What is wrong with the vectors as they are on disk."""
        return self._vectors.problem()

    # looking without touching

    def lexical_problem(self) -> str | None:
        """What keeps the full-text index from being complete as it is on disk."""
        with self._mutex:
            self._lexical.reload()
            if not self._lexical.readable:
                return "is missing or can't be read"
            todo = self._lexical_todo()
        if todo is None:
            return "belongs to another state of the record"
        if problem := self._lexical.problem():
            return problem
        if not todo or self._catch_up_lexical():
            return None
        return f"is {len(todo)} changed chunks behind"

    # a stretch of writing

    def before_leaving(self) -> None:
        """What a writer does before it lets others in: a little is left for later, a snapshot far behind is renewed."""
        self._finish_lexical()
        try:
            if self._vectors.is_late():
                self.save_vectors()
        except Exception as error:
            _log.warning("the vectors could not be saved after writing: %s", error)

    def after_leaving(self) -> None:
        """What a long stretch does while others may write."""
        if self._is_in_stretch:
            self.pay_lexical()

    def _finish_lexical(self) -> None:
        if self._is_rebuilding:
            self._write_owed_later()
            return
        with self._writing:
            with self._vectors_beside():
                if self._owed <= _LITTLE or not self.write_lexical():
                    self._write_owed_later()
            self._owed_most = _LITTLE
            self._tidy_lexical()

    def _tidy_lexical(self) -> None:
        """Lets merges end and others write."""
        try:
            if self._lexical.is_writing:
                with seam():
                    self._lexical.stop_writing()
                self._lexical.reload()  # merged segments score as every later reader will see them
        except Exception as error:
            _log.warning("the full-text index could not be tidied up after writing: %s", error)
        finally:
            self._lexical.release()

    @contextlib.contextmanager
    def _vectors_beside(self) -> Iterator[None]:
        """Brings the vectors up for a snapshot while the full-text index, which mostly waits, is written."""
        beside = None
        if self._owed > vector_follower.FEW and self._vectors.is_late():
            beside = threading.Thread(target=self._vectors.bring_up, name="vectors")
            beside.start()
        try:
            yield
        finally:
            if beside is not None:
                beside.join()

    def sequence(self) -> int:
        """The record's last commit."""
        with self._record.reading() as db:
            return sequence(db)

    def close(self) -> None:
        """Lets go of every file."""
        self._closing.set()
        self._wake.set()
        if self._keeper is not None:
            self._keeper.join()
        if (idle := self._idle) is not None:
            idle.join()
        self._write_owed()
        self._lexical.close()
        self._vectors.close()
