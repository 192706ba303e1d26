"""Requests keep their distance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio

from refdesk.crawl.site import Pace
from refdesk.system.retry import backoff, retry_after


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


def test_starts_are_apart() -> None:
    clock = Clock()
    pace = Pace(0.5, clock, clock.sleep)

    async def four() -> None:
        for _ in range(3):
            await pace.wait_turn()
        clock.now += 10
        await pace.wait_turn()

    anyio.run(four)
    assert clock.slept == [0.5, 0.5]


def test_a_pause_holds_everybody_and_has_an_end() -> None:
    clock = Clock()
    pace = Pace(0.0, clock, clock.sleep)
    pace.pause(7)
    anyio.run(pace.wait_turn)
    pace.pause(100_000)
    anyio.run(pace.wait_turn)
    assert clock.slept == [7, 60]


def test_backoff_doubles() -> None:
    for tries, wanted in ((1, 0.5), (2, 1.0), (4, 4.0)):
        assert 0.79 * wanted <= backoff(tries, 0.5) <= 1.21 * wanted


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after({"retry-after": "12"}) == 12
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < retry_after({"retry-after": later}) <= 30
    for odd in ("", "soon", "-5", "inf", "nan", "Wed, 99 Nonsense"):
        assert retry_after({"retry-after": odd}) == 0
