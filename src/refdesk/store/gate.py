"""The write lock: one writer at a time, across threads and processes, in the order of waiting."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from refdesk.errors import Cancelled, LibraryBusy, StoreError
from refdesk.library import Library
from refdesk.system.files import private
from refdesk.system.wanted import is_wanted

if TYPE_CHECKING:
    from filelock import FileLock

_LAST = "~"  # comes after every name in the queue
_LOOK_S = 0.01
_STUCK_S = 1.0  # after which a free gate is taken although an earlier waiter, which may be stuck, has not taken it


class Gate:
    """A lock of the operating system, which releases it when the holder's process ends in any way."""

    def __init__(
        self,
        library: Library,
        timeout_s: float,
        before_leaving: Callable[[], None] = lambda: None,
        after_leaving: Callable[[], None] = lambda: None,
    ) -> None:
        self._before_leaving = before_leaving
        self._after_leaving = after_leaving
        self._lock_file, self._holder_file, self._queue = library.writer_lock, library.writer, library.waiting
        self._timeout_s = timeout_s
        self._thread = threading.Lock()
        self._owner = 0  # the thread that holds it
        self._depth = 0
        self._lock: FileLock | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits for the gate and holds it; raises LibraryBusy if one holder keeps it longer than the timeout."""
        if not self._enter(self._timeout_s):
            raise self._busy()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def held_if_free(self) -> Iterator[bool]:
        """Holds the gate if it is free; yields whether it is held."""
        entered = self._enter(0.0)
        try:
            yield entered
        finally:
            if entered:
                self._leave()

    def is_free(self) -> bool:
        """Whether nobody else holds it or waits; does nothing of what is due when it is left."""
        if self.is_ours:
            return True
        if self._is_anyone_before(_LAST) or not self._take():
            return False
        self._give_back()
        return True

    @property
    def is_ours(self) -> bool:
        """Whether this thread holds it."""
        return self._owner == threading.get_ident()

    def _enter(self, timeout_s: float) -> bool:
        if not self.is_ours:
            is_free = not self._is_anyone_before(_LAST) and self._take()
            if not is_free and not (timeout_s and self._wait(timeout_s)):
                return False
        self._depth += 1
        return True

    def _leave(self) -> None:
        is_last = self._depth == 1
        try:
            if is_last:
                self._before_leaving()
        finally:
            self._depth -= 1
            if is_last:
                self._give_back()
                self._after_leaving()

    def _give_back(self) -> None:
        self._owner = 0
        with contextlib.suppress(OSError):
            self._holder_file.unlink(missing_ok=True)
        assert self._lock is not None
        self._lock.release()
        self._thread.release()

    def _take(self) -> bool:
        """Takes the gate if it is free; returns whether it was."""
        from filelock import FileLock, Timeout  # costs 40 ms, which a reader need not pay

        if not self._thread.acquire(blocking=False):
            return False
        try:
            if self._lock is None:
                self._lock = FileLock(self._lock_file, thread_local=False, mode=0o600)
            self._lock.acquire(timeout=0)
        except Timeout:
            self._thread.release()
            return False
        except BaseException as error:
            self._thread.release()
            if isinstance(error, OSError):
                raise self._unwritable(error) from error
            raise
        self._owner = threading.get_ident()
        with contextlib.suppress(OSError):
            holder = {"pid": os.getpid(), "since": time.time()}
            with open(self._holder_file, "w", encoding="utf-8", opener=private) as file:
                json.dump(holder, file)
        return True

    def _wait(self, timeout_s: float) -> bool:
        """Waits for our turn; returns whether it came before one holder kept the gate for the timeout."""
        with self._queued() as ticket:
            holder, since = b"", time.monotonic()
            while True:
                if not is_wanted.get()():
                    raise Cancelled("The work was cancelled while it waited for another writer.")
                if (found := self._holder()) != holder:
                    holder, since = found, time.monotonic()
                waited = time.monotonic() - since
                is_stuck = waited >= timeout_s or (not holder and waited > _STUCK_S)
                if (is_stuck or not self._is_anyone_before(ticket)) and self._take():
                    return True
                if waited >= timeout_s:
                    return False
                time.sleep(_LOOK_S)

    @contextmanager
    def _queued(self) -> Iterator[str]:
        """A place in the queue, released on exit and on the death of the process."""
        from filelock import FileLock, Timeout

        ticket = f"{time.time_ns():020}-{os.getpid()}-{threading.get_ident()}"
        lock = FileLock(self._queue / ticket, mode=0o600)
        try:
            self._queue.mkdir(mode=0o700, exist_ok=True)
            lock.acquire(timeout=_STUCK_S, poll_interval=_LOOK_S)
        except (OSError, Timeout) as error:
            raise self._unwritable(error) from error
        try:
            yield ticket
        finally:
            lock.release()
            with contextlib.suppress(OSError):
                (self._queue / ticket).unlink()

    def _is_anyone_before(self, ticket: str) -> bool:
        """Whether an earlier waiter is still alive; places of dead processes are removed."""
        try:
            queue = sorted(file.name for file in self._queue.iterdir())
        except OSError:
            return False
        return any(self._is_alive(name) for name in queue if name < ticket)

    def _is_alive(self, ticket: str) -> bool:
        from filelock import FileLock, Timeout

        lock = FileLock(self._queue / ticket, mode=0o600)
        try:
            lock.acquire(timeout=0)
        except (OSError, Timeout):
            return True
        with contextlib.suppress(OSError):
            (self._queue / ticket).unlink()
        lock.release()
        return False

    def _holder(self) -> bytes:
        try:
            return self._holder_file.read_bytes()
        except OSError:
            return b""

    def _unwritable(self, error: Exception) -> StoreError:
        return StoreError(
            f"The library {self._lock_file.parent} can't be written to: {getattr(error, 'strerror', error)}.",
            "Make the folder writable, or choose another library folder.",
        )

    def _busy(self) -> LibraryBusy:
        holder, pid = "Another writer", ""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(self._holder())
            since = time.strftime("%H:%M:%S", time.localtime(found["since"]))
            pid = str(int(found["pid"]))
            holder = f"Another writer (process {pid}, since {since})"
        advice = f", or stop process {pid} if it hangs" if pid and pid != str(os.getpid()) else ""
        return LibraryBusy(
            f"{holder} has the library; waited {self._timeout_s:g} s.",
            f"Try again when it has finished{advice}; lock_timeout_s sets the wait.",
        )
