"""Which thread does the work?

Daemon threads of our own: a handler that never returns must not keep the process alive, and the standard pools
join their threads at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    """At most `limit` threads, started when needed and kept."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._pending = 0

    @property
    def pending(self) -> int:
        """How many jobs wait or run."""
        return self._pending

    def submit(self, job: Callable[[], None]) -> None:
        """Runs `job`, which must not raise, in a thread when one is free."""
        with self._lock:
            self._pending += 1
            if self._pending > self._threads and self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._jobs.put(job)

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises; a caller that is cancelled leaves the work running."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(how: Callable[[Any], None], value: Any) -> None:
            if not done.done():
                how(value)

        def job() -> None:
            try:
                outcome: tuple[Callable[[Any], None], Any] = (done.set_result, context.run(work))
            except BaseException as error:
                outcome = (done.set_exception, error)
            try:
                loop.call_soon_threadsafe(settle, *outcome)
            except RuntimeError:
                return  # the loop has closed: nobody waits any more

        self.submit(job)
        return await done

    def wait_idle(self, seconds: float) -> bool:
        """Whether all work ended within `seconds`."""
        until = time.monotonic() + seconds
        while self._pending and time.monotonic() < until:
            time.sleep(0.01)
        return not self._pending

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            job()
            del job
            with self._lock:
                self._pending -= 1
