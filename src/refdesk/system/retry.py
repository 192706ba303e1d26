"""Time budgets: when a request arrived, and retries of failed ones with exponential backoff."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from refdesk.errors import AttemptFailed

T = TypeVar("T")

# When the request that is being answered arrived, by time.monotonic(); None outside a server.
arrived: ContextVar[float | None] = ContextVar("refdesk_arrived", default=None)

# Statuses after which the same request may succeed; 5xx above 504 are those of proxies and of overloaded models.
TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524, 529))


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts and the waits between them."""

    attempts: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = math.inf
    sleep: Callable[[float], None] = time.sleep

    def call(self, attempt: Callable[[float], T], budget_s: float = math.inf) -> T:
        """The result of the first attempt that succeeds; each gets the seconds left. Raises the last AttemptFailed."""
        ends = time.monotonic() + budget_s
        number = 1
        while True:
            try:
                return attempt(max(0.001, ends - time.monotonic()))
            except AttemptFailed as failure:
                wait_s = failure.wait_s if failure.wait_s is not None else backoff(number, self.first_wait_s)
                wait_s = min(wait_s, self.longest_wait_s)
                if not failure.is_transient or number == self.attempts or wait_s >= ends - time.monotonic():
                    raise
            self.sleep(wait_s)
            number += 1


def backoff(failures: int, first_s: float) -> float:
    """The seconds to wait after so many failures: doubled each time, with jitter."""
    return float(first_s * 2 ** (failures - 1) * random.uniform(0.8, 1.2))


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds in the server's Retry-After header, or 0."""
    given = headers.get("retry-after", "").strip()
    if not given:
        return 0.0
    try:
        seconds = float(given)
        return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
