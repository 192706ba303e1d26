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

from refdesk.errors import RefdeskError, StoreError
from refdesk.memory import give_back
from refdesk.store import vector_follower
from refdesk.store.folder import LEXICAL_FOLDER
from refdesk.store.gate import Gate
from refdesk.store.lexical import LexicalIndex
from refdesk.store.log import LEXICAL, Applied, is_pending, last_commit, pending
from refdesk.store.record import Record, sequence
from refdesk.store.vector_follower import VectorFollower

if TYPE_CHECKING:
    from refdesk.store.vectors import VectorIndex

_log = logging.getLogger(__name__)

_LITTLE_BYTES = 16_000_000  # of free disk space
# A commit of the full-text index takes as long for one chunk as for hundreds, so changes are gathered for it.
_LITTLE = 200  # changes that are left to whoever searches next
_AT_ONCE = 16_000  # changes in a long stretch of writing, which are taken as they come and committed together
_IDLE_S = 2.0  # after which a little is written too, for readers who can't write
_PATIENCE_S = 2.0  # how long a reader waits for what was written before the writer at work came
_LOOK_S = 0.02


class Followers:
    """The full-text and the vector index of one library, brought up to the record when they are asked for."""

    def __init__(self, folder: Path, record: Record, gate: Gate) -> None:
        self._folder = folder
        self._record = record
        self._gate = gate
        self._mutex = threading.RLock()
        self._lexical = LexicalIndex(folder / LEXICAL_FOLDER)
        self._lexical_seen = -1  # the commit up to which the searcher is known to be complete
        self._vectors = VectorFollower(folder, record, gate, lambda: self._lexical.applied)
        self._owed = 0  # changes that this process has not committed to the full-text index
        self._owed_most = _LITTLE
        self._untaken = 0  # those of them that its writer has not taken either
        self._terms: dict[int, str] = {}  # of some of them
        self._idle: threading.Thread | None = None  # waits to write what is owed
        self._idle_mutex = threading.Lock()
        self._closing = threading.Event()

    # full text

    def lexical(self, seq: int) -> LexicalIndex:
        """The full-text index with every commit up to seq, or as far as a writer has come with it."""
        if seq != self._lexical_seen:
            with self._mutex:
                self._lexical.reload()
                todo = self._lexical_todo()
            if todo == [] or self._catch_up_lexical():
                self._lexical_seen = seq
        return self._lexical

    def _catch_up_lexical(self) -> bool:
        """Does what a writer left undone, unless one is at work."""
        if self._record.read_only:
            self._refuse_incomplete()
            return False
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            with self._gate.held_if_free(_LOOK_S) as free:
                if free:
                    self.write_lexical()
                    return True
            if not self._is_owed_from_before() or time.monotonic() > deadline:
                return False

    def _is_owed_from_before(self) -> bool:
        """Whether changes are missing that were made before the writer at work came: those are waited for."""
        came = self._gate.entered_at()
        with self._mutex:
            self._lexical.reload()
            applied = self._lexical.applied
        with self._record.reading() as db:
            return applied is None or is_pending(db, applied, LEXICAL, sequence(db) if came is None else came)

    def owe_lexical(self, changes: int, terms: Mapping[int, str]) -> None:
        """Takes note of changes for the full-text index, and makes them once there are many; the gate is held."""
        self._owed += changes
        self._untaken += changes
        self._terms.update(terms)
        if self._owed > self._owed_most or not self._lexical.readable:
            self.write_lexical()
            self._owed_most = _AT_ONCE  # the first time soon: it brings what earlier stretches left
        elif self._untaken > _LITTLE:
            self._in_lexical(self._take_lexical)

    def settle_lexical(self) -> None:
        """Makes the changes that were left to the next query, which can't while the gate is held for long."""
        if self._lexical.is_writing:
            return
        with self._mutex:
            self._lexical.reload()
            todo = self._lexical_todo()
        if todo:
            self.write_lexical()

    def _write_owed(self) -> None:
        if self._owed:
            with contextlib.suppress(RefdeskError), self._gate.held_if_free() as free:
                if free:
                    self.write_lexical()

    def _write_owed_later(self) -> None:
        with self._idle_mutex:
            if self._idle is None:
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

    def _refuse_incomplete(self) -> None:
        if not self._lexical.readable:
            raise StoreError(
                f"The full-text index of {self._folder} is missing and the folder can't be written to.",
                "Make the folder writable once and search again.",
            )

    def write_lexical(self) -> None:
        """Brings the full-text index up to the record; the gate is held."""
        self._in_lexical(self._commit_lexical)

    def _in_lexical(self, write: Callable[[], object]) -> None:
        """Writes to the full-text index, or makes it anew where it can't be written to."""
        try:
            write()
        except RefdeskError:
            raise
        except Exception as error:  # tantivy says what is wrong in any of several types
            self._lexical.abandon_writing()
            if shutil.disk_usage(self._folder).free < _LITTLE_BYTES:
                raise self._unwritable(error) from error
            _log.warning("the full-text index is rebuilt, since it refused a write: %s", error)
            try:
                self.rebuild_lexical()
            except Exception as again:
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
        self._owed = 0

    def _take_lexical(self) -> Applied:
        """Gives the writer what neither it nor the index has, and returns how far that goes."""
        if not self._lexical.is_writing:  # another process may have come further before this one got the gate
            self._lexical.reload()
        with self._record.snapshot() as db:
            known = self._lexical.taken or self._lexical.applied
            todo = None if not self._lexical.readable else pending(db, known, LEXICAL)
            last = last_commit(db)
            if todo is None:
                if last.seq:
                    _log.info("building the full-text index of %s", self._folder)
                self._lexical.start_over()
            if todo != []:
                self._lexical.take(db, todo, last, self._terms)
        self._untaken, self._terms = 0, {}
        return last

    def rebuild_lexical(self) -> None:
        """Builds the full-text index from nothing; the gate is held."""
        with self._record.snapshot() as db:
            last = last_commit(db)
            self._lexical.start_over()
            self._lexical.take(db, None, last)
            self._lexical.commit()
        self._lexical_seen = last.seq
        self._owed, self._untaken, self._terms = 0, 0, {}

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
        if not todo or self._catch_up_lexical():
            return None
        return f"is {len(todo)} changed chunks behind"

    # a stretch of writing

    def end_stretch(self) -> None:
        """What a writer does before it lets others in: merges end, a snapshot far behind is renewed."""
        with self._vectors_beside():
            if self._owed > _LITTLE:
                self.write_lexical()
            elif self._owed:
                self._write_owed_later()
        self._owed_most = _LITTLE
        try:
            if self._lexical.is_writing:
                self._lexical.stop_writing()
                self._lexical.reload()  # merged segments score as every later reader will see them
            if self._vectors.is_late():
                self.save_vectors()
        except Exception as error:
            _log.warning("the indexes could not be tidied up after writing: %s", error)

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
        if (idle := self._idle) is not None:
            idle.join()
        self._write_owed()
        self._lexical.close()
        self._vectors.close()
