"""When may the next request go out?"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping

import anyio

MOST_PAUSE_S = 60.0  # that a site is waited for, once or between two requests


class Pace:
    """Keeps the starts of requests to one site apart, and stops for as long as the site asks."""

    def __init__(
        self,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.delay_s = delay_s
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    async def turn(self) -> None:
        """Returns when it is this request's turn."""
        if wait_s := self.take():
            await self._sleep(wait_s)

    @property
    def is_due(self) -> bool:
        """Whether a request may go out at once."""
        return self._clock() >= self._next

    def take(self) -> float:
        """Takes the next turn, and tells how long it is until then."""
        now = self._clock()
        start = max(now, self._next)
        self._next = start + self.delay_s
        return start - now

    def pause(self, seconds: float) -> None:
        """Nothing more goes out for so long, a minute at most."""
        self._next = max(self._next, self._clock() + min(seconds, MOST_PAUSE_S))


def backoff(tries: int, first_s: float) -> float:
    """How long to wait after so many failures: doubled each time, and a little uneven."""
    import random

    return float(first_s * 2 ** (tries - 1) * random.uniform(0.8, 1.2))


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that the server asks to be left alone, 0 when it does not."""
    given = headers.get("retry-after", "").strip()
    if not given:
        return 0.0
    try:
        seconds = float(given)
        return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
