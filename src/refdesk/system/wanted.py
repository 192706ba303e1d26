"""Whether a caller still waits for the result, and since when: for code that waits itself, such as for a lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar

is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)
wanted_since: ContextVar[float] = ContextVar("wanted_since")  # by time.monotonic; not set outside of a server

_SHORTLY_S = 1.0


def waited_for(failed_at: float) -> bool:
    """Whether the caller was waiting already when an attempt failed, just now: another would fail like it.

    Calls wait for their turn, so each would wait for what hangs after all those before it have.
    """
    now = time.monotonic()
    return wanted_since.get(now) < failed_at and now < failed_at + _SHORTLY_S


class Outage:
    """A server that did not answer in time: one call looks whether it is back, others fail at once meanwhile."""

    def __init__(self) -> None:
        self.problem = ""  # while there is one
        self._failed_at = 0.0
        self._looking, self._until = 0, 0.0  # the thread that looks, and until when at most

    def hinders(self, limit_s: float) -> bool:
        """Whether the caller must not try; else it looks, for so long."""
        if not self.problem:
            return False
        now, own = time.monotonic(), threading.get_ident()
        if waited_for(self._failed_at) or (now < self._until and self._looking != own):
            return True
        self._looking, self._until = own, now + limit_s
        return False

    def begins(self, problem: str) -> None:
        self.problem, self._failed_at, self._until = problem, time.monotonic(), 0.0

    def ends(self) -> None:
        self.problem = ""
