"""Who may write now?  One writer at a time, across threads and processes."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from refdesk.errors import LibraryBusy, StoreError
from refdesk.store.folder import private

if TYPE_CHECKING:
    from filelock import FileLock

_LOCK = "writer.lock"
_HOLDER = "writer.json"


class Gate:
    """A lock of the operating system: it ends with the process that holds it, however that ends."""

    def __init__(
        self, folder: Path, timeout_s: float, before_leaving: Callable[[], None], sequence: Callable[[], int]
    ) -> None:
        self._before_leaving = before_leaving
        self._sequence = sequence
        self._lock_file = folder / _LOCK
        self._holder_file = folder / _HOLDER
        self._timeout_s = timeout_s
        self._thread = threading.RLock()
        self._depth = 0
        self._lock: FileLock | None = None

    @contextmanager
    def held(self, wait: bool = True) -> Iterator[None]:
        """The gate, waited for if wanted; LibraryBusy when its holder does not finish in time."""
        timeout_s = self._timeout_s if wait else 0.0
        if not self._enter(timeout_s):
            raise self._busy(timeout_s)
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def held_if_free(self, within_s: float = 0.0) -> Iterator[bool]:
        """Whether the gate was free, now or within that time; if so it is held."""
        entered = self._enter(within_s)
        try:
            yield entered
        finally:
            if entered:
                self._leave()

    def _enter(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        if not self._thread.acquire(timeout=timeout_s):
            return False
        try:
            if self._depth == 0 and not self._acquire(max(0.0, deadline - time.monotonic())):
                self._thread.release()
                return False
        except BaseException:
            self._thread.release()
            raise
        self._depth += 1
        return True

    def _leave(self) -> None:
        try:
            if self._depth == 1:
                self._before_leaving()
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._release()
            self._thread.release()

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            self._holder_file.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release()

    def _acquire(self, timeout_s: float) -> bool:
        from filelock import FileLock, Timeout  # costs 40 ms, which a reader need not pay

        if self._lock is None:
            self._lock = FileLock(self._lock_file, thread_local=False, mode=0o600)
        try:
            self._lock.acquire(timeout=timeout_s, poll_interval=0.02)
        except Timeout:
            return False
        except OSError as error:
            raise StoreError(
                f"The library {self._lock_file.parent} can't be written to: {error.strerror}.",
                "Make the folder writable, or choose another library folder.",
            ) from error
        with contextlib.suppress(OSError):
            holder = {"pid": os.getpid(), "since": time.time(), "seq": self._sequence()}
            with open(self._holder_file, "w", encoding="utf-8", opener=private) as file:
                json.dump(holder, file)
        return True

    def entered_at(self) -> int | None:
        """The record's last commit when the holder came, if that can be told."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(self._holder_file.read_text(encoding="utf-8"))["seq"])
        return None

    def _busy(self, waited_s: float) -> LibraryBusy:
        holder, pid = "Another writer", ""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._holder_file.read_text(encoding="utf-8"))
            since = time.strftime("%H:%M:%S", time.localtime(found["since"]))
            pid = str(int(found["pid"]))
            holder = f"Another writer (process {pid}, since {since})"
        advice = f", or stop process {pid} if it hangs" if pid and pid != str(os.getpid()) else ""
        return LibraryBusy(
            f"{holder} has the library; waited {waited_s:g} s.",
            f"Try again when it has finished{advice}; lock_timeout_s sets the wait.",
        )
