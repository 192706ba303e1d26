"""Keeps the vector index up to date with the record."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from refdesk.library import Library
from refdesk.model import Origin
from refdesk.store.gate import Gate
from refdesk.store.record import contents as catalogue
from refdesk.store.record.database import VECTORS, Applied, Record, last_commit, pending
from refdesk.system.memory import drop_when_short

if TYPE_CHECKING:
    from refdesk.store.vectors.index import VectorIndex

_log = logging.getLogger(__name__)

_FEW = 2000  # changes that a snapshot may be behind
_SHARE = 0.05  # or this share of it, if that is more
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
        self._is_searched = False
        drop_when_short(self.close)

    def at(self, seq: int) -> VectorIndex:
        """The vector index with every commit up to seq."""
        self._is_searched = True
        index = self._index()
        if index.applied is None or index.applied.seq < seq:
            with index.lock.changing():
                behind = self._refresh(index)
            if behind > max(_FEW, int(_SHARE * len(index))) and not self._record.read_only:
                with self._gate.held_if_free() as free:
                    if free:
                        self.save()
        if index.is_scattered:
            with index.lock.changing(), self._record.snapshot() as db:
                index.settle(db)
        return index

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
        with index.lock.changing():
            if count := self._too_many():
                with self._record.snapshot() as db:
                    applied = last_commit(db)
                    type(index)(index.file).write(db, applied)
            else:
                self._refresh(index)
                with self._record.snapshot() as db:
                    index.settle(db)
                index.save()
                assert index.applied is not None
                applied, count = index.applied, len(index)
        other = self._other_applied()
        with self._record.transaction(logged=False) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('snapshot', ?)", (f"{applied.seq} {count}",))
            catalogue.trim_log(db, min(applied.seq, other.seq if other else 0))
        if not self._is_searched:  # who only writes need not hold all of it
            self.close()

    def rebuild(self) -> None:
        """Builds the vector index from nothing and keeps it; the gate is held."""
        index = self._index()
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
        return not self._record.read_only and self._lags()

    def _lags(self) -> bool:
        with self._record.snapshot() as db:
            found = db.execute("SELECT value FROM meta WHERE key = 'snapshot'").fetchone()
            seq, count = (int(part) for part in found[0].split()) if found else (0, 0)
            behind = db.execute("SELECT count(*) FROM changes WHERE seq > ? AND parts & ?", (seq, VECTORS)).fetchone()[
                0
            ]
            return bool(behind > max(_FEW, int(_SHARE * count)))

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
        index = self._index()
        with contextlib.suppress(Exception), index.lock.changing():  # whoever saves it says what is wrong
            self._refresh(index)

    def close(self) -> None:
        with self._mutex:
            self._loaded = None


def _bring_up(index: VectorIndex, db: sqlite3.Connection, todo: list[int] | None) -> int:
    if todo is None:
        index.build(db)
    elif todo:
        index.replace(db, todo)
    index.advance(last_commit(db))
    return len(index) if todo is None else len(todo)
