"""How often is a model asked, and how long in all?  Again after a busy or broken answer, within one budget."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class Failed(Exception):
    """One attempt that gave no answer."""

    def __init__(self, detail: str, *, again: bool = False, wait_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.again = again
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Patience:
    """How many attempts there are, and how long one waits between them."""

    attempts: int = 4
    first_wait_s: float = 0.5
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def persist(self, attempt: Callable[[float], T], budget_s: float) -> T:
        """What an attempt gives; each is told how long it may take.  Failed when none gives anything in time."""
        ends = self.clock() + budget_s
        for number in range(1, self.attempts + 1):
            try:
                return attempt(max(0.001, ends - self.clock()))
            except Failed as failure:
                wait = self._wait(failure, number)
                left = ends - self.clock()
                if not failure.again or number == self.attempts or wait >= left:
                    raise
                self.sleep(wait)
        raise AssertionError("unreachable")

    def _wait(self, failure: Failed, number: int) -> float:
        # What the server asks for is kept; otherwise the wait doubles, with some chance in it so that callers spread.
        if failure.wait_s is not None:
            return failure.wait_s
        return self.first_wait_s * float(2 ** (number - 1)) * random.uniform(0.75, 1.25)
