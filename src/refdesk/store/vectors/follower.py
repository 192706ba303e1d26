"""Keeps the vector index up to date with the record."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from refdesk.library import Library
from refdesk.model import Origin
from refdesk.store.gate import Gate
from refdesk.store.record import contents as catalogue
from refdesk.store.record.database import LONG, VECTORS, Applied, Record, last_commit, pending, waited_for
from refdesk.system.memory import drop_when_short

if TYPE_CHECKING:
    from refdesk.store.vectors.index import VectorIndex

_log = logging.getLogger(__name__)

_FEW = 2000  # changes that a snapshot may be behind
_SHARE = 0.05  # or this share of it, if that is more
_BESIDE, _REST_S = 200, 0.002  # chunks taken at a time beside queries, which wait for one such slice, and the pause
_SLICE = 2000  # where there are none
_HELD = 200_000  # vectors that a process holds, at 450 bytes each, to write a snapshot; more are not all in memory


class VectorFollower:
    """The vector index of one library, brought up to the record when it is asked for, and its snapshot on disk."""

    def __init__(
        self, library: Library, record: Record, gate: Gate, other_applied: Callable[[], Applied | None]
    ) -> None:
        self._file = library.vectors
        self._record = record
        self._gate = gate
        self._other_applied = other_applied  # how far the other follower has come, which needs the log too
        self._mutex = threading.Lock()
        self._loaded: VectorIndex | None = None
        self._seen = -1  # the commit up to which it has what is waited for, if that is further than it has come
        self._following = threading.RLock()  # of who moves what was set aside, or saves it; the gate comes before
        self._thread: threading.Thread | None = None
        self._is_searched = False
        self._is_closed = False
        drop_when_short(self._drop)

    def at(self, seq: int, *, whole: bool = False) -> VectorIndex:
        """The vector index with every commit up to seq, but for those of a running stretch, unless it is to be whole.

        These, and all that takes long, are left to a thread.
        """
        self._is_searched = True
        index = self._index()
        is_late = False
        if index.applied is None or max(index.applied.seq, -1 if whole else self._seen) < seq:
            with index.lock.changing():
                is_late = self._take_in(index, whole)
        is_behind = index.applied is not None and index.applied.seq < seq
        if is_late or is_behind or index.is_scattered(_in_a_run(index.applied)):
            self._follow(is_late)
        return index

    def _take_in(self, index: VectorIndex, whole: bool = False) -> bool:
        """Takes what is waited for, all of it unless a stretch is running; returns whether the snapshot is late."""
        if index.applied is not None and not whole:
            with self._record.snapshot() as db:
                todo = waited_for(db, index.applied, VECTORS, self._seen)
                if todo is not None and not (todo and index.is_outgrown(len(todo))):
                    if todo:
                        index.replace(db, todo)
                    self._seen = last_commit(db).seq
                    return False
        return self._refresh(index) > max(_FEW, int(_SHARE * len(index)))

    def _follow(self, is_late: bool) -> None:
        with self._mutex:
            if not self._is_closed and (self._thread is None or not self._thread.is_alive()):
                # Not a daemon: a process must not end in the middle of turbovec's own code.
                self._thread = threading.Thread(target=self._keep_up, args=(is_late,), name="refdesk-vectors")
                self._thread.start()

    def _keep_up(self, is_late: bool) -> None:
        """Takes what a running stretch writes, and settles and saves what is due, beside the queries."""
        try:
            self._take_all()
            if is_late and not self._record.read_only:
                with self._gate.held_if_free() as free:
                    if free:
                        self.save()
        except Exception as error:  # whoever asks next is told
            _log.warning("the vectors could not be brought up beside the queries: %s", error)

    def _take_all(self) -> None:
        index = self._index()
        with self._following:
            while not self._is_closed and self._take_more(index):
                pass

    def _take_more(self, index: VectorIndex) -> bool:
        """Takes what the index lacks a slice at a time, so that queries wait for one only; False if that is nothing."""
        with self._record.snapshot() as db:
            todo = pending(db, index.applied, VECTORS) if index.applied else None
            last = last_commit(db)
        if todo is None:
            with index.lock.changing():
                self._refresh(index)
        elif todo and index.is_outgrown(len(todo)):
            self._build_beside(index)
        else:
            self._take_slices(index, todo, last)
        if index.is_scattered(_in_a_run(last)):
            with index.lock.changing():
                index.settle()
            with index.lock.reading():
                index.lay_out()
        return bool(todo)

    def _take_slices(self, index: VectorIndex, todo: list[int], last: Applied) -> None:
        from refdesk.store.vectors.index import fetch

        step = _BESIDE if self._is_searched else _SLICE
        for start in range(0, len(todo), step):
            some = todo[start : start + step]
            is_taken = False
            while not is_taken and not self._is_closed:
                seen = index.changes
                with self._record.snapshot() as db:
                    found = fetch(db, some)
                with index.lock.changing():
                    if is_taken := index.changes == seen:
                        index.take(some, *found)
            if self._is_closed:
                return
            if self._is_searched:
                time.sleep(_REST_S)
            if index.is_scattered(True):
                with index.lock.changing():
                    index.settle()
                with index.lock.reading():
                    index.lay_out()
        with index.lock.changing():
            if index.applied is not None and index.applied.seq < last.seq:
                index.advance(last)

    def _build_beside(self, index: VectorIndex) -> None:
        made = type(index)(index.file)
        with self._record.snapshot() as db:
            made.build(db)
            made.advance(last_commit(db))
        with index.lock.changing():
            index.adopt(made)
            self._seen = -1
            self._take_in(index)

    @property
    def is_small(self) -> bool:
        """Whether the index is in memory and has no codes."""
        return self._loaded is not None and self._loaded.is_exact

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        """The text and document of those of the chunks that the vector index holds, if it is in use."""
        index = self._loaded
        if index is None:
            return {}
        with index.lock.reading():
            return index.origins(chunk_ids)

    def _index(self) -> VectorIndex:
        with self._mutex:
            if self._loaded is None:
                from refdesk.store.vectors.index import VectorIndex

                self._loaded = VectorIndex(self._file)
            return self._loaded

    def _refresh(self, index: VectorIndex) -> int:
        """Brings the index up to the record and returns how many changes that were."""
        fresh = index.applied is None
        if fresh:
            index.load()
        with self._record.snapshot() as db:
            todo = pending(db, index.applied, VECTORS)
            if todo is not None or fresh:
                return _bring_up(index, db, todo)
        # The log has been trimmed behind a snapshot since: take that, and only then look at the record again.
        index.load()
        with self._record.snapshot() as db:
            return _bring_up(index, db, pending(db, index.applied, VECTORS))

    def save(self) -> None:
        """Writes a snapshot of the vectors and trims the log behind it; the gate is held."""
        index = self._index()
        if count := self._too_many():
            with index.lock.changing(), self._record.snapshot() as db:
                applied = last_commit(db)
                type(index)(index.file).write(db, applied)
        else:
            with self._following:
                self._take_all()
                with index.lock.changing():
                    self._refresh(index)
                    index.settle()
                    settled = index.settled()
                with index.lock.reading() if settled.is_exact else contextlib.nullcontext():
                    settled.save()
            assert settled.applied is not None
            applied, count = settled.applied, len(settled)
        other = self._other_applied()
        with self._record.transaction(logged=False) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('snapshot', ?)", (f"{applied.seq} {count}",))
            catalogue.trim_log(db, min(applied.seq, other.seq if other else 0))
        if not self._is_searched:  # who only writes need not hold all of it
            self._drop()

    def rebuild(self) -> None:
        """Builds the vector index from nothing and keeps it; the gate is held."""
        index = self._index()
        with self._following:
            if not self._too_many():
                with index.lock.changing(), self._record.snapshot() as db:
                    index.build(db)
                    index.advance(last_commit(db))
            self.save()

    def _too_many(self) -> int:
        """How many vectors there are, if these are more than a process should hold that only writes; 0 if not."""
        if self._is_searched:
            return 0
        with self._record.snapshot() as db:
            count: int = db.execute("SELECT count(vector) FROM chunks").fetchone()[0]
        return count if count > _HELD else 0

    def problem(self) -> str | None:
        """What is wrong with the snapshot as it is on disk."""
        index = self._index()
        if not index.file.exists() or type(index)(index.file).load():
            return None
        return "can't be read"

    def is_late(self) -> bool:
        """Whether the snapshot is so far behind that whoever can write should renew it."""
        if self._record.read_only:
            return False
        with self._record.snapshot() as db:
            found = db.execute("SELECT value FROM meta WHERE key = 'snapshot'").fetchone()
            seq, count = (int(part) for part in found[0].split()) if found else (0, 0)
            behind = db.execute("SELECT count(*) FROM changes WHERE seq > ? AND parts & ?", (seq, VECTORS))
            return bool(behind.fetchone()[0] > max(_FEW, int(_SHARE * count)))

    def save_if_late(self) -> None:
        """Writes a snapshot if the last one is far behind; the gate is held."""
        try:
            if self.is_late():
                self.save()
        except Exception as error:
            _log.warning("the vectors could not be saved after writing: %s", error)

    @contextlib.contextmanager
    def catching_up(self, changes: int) -> Iterator[None]:
        """Brings the index up for a snapshot while the full-text index, which mostly waits, is written."""
        beside = None
        if changes > _FEW and self.is_late() and not self._too_many():
            beside = threading.Thread(target=self._catch_up, name="vectors")
            beside.start()
        try:
            yield
        finally:
            if beside is not None:
                beside.join()

    def _catch_up(self) -> None:
        with contextlib.suppress(Exception):  # whoever saves it says what is wrong
            self._take_all()

    def _drop(self) -> None:
        with self._mutex:
            self._loaded = None
            self._seen = -1

    def close(self) -> None:
        self._is_closed = True
        if self._thread is not None:
            self._thread.join()
        self._drop()


def _in_a_run(applied: Applied | None) -> bool:
    """Whether more is to come."""
    return applied is not None and applied.token.startswith(LONG)


def _bring_up(index: VectorIndex, db: sqlite3.Connection, todo: list[int] | None) -> int:
    if todo is None:
        index.build(db)
    elif todo:
        index.replace(db, todo)
    index.advance(last_commit(db))
    return len(index) if todo is None else len(todo)
