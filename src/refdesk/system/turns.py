"""What waits while somebody waits for an answer?

Whoever indexes, for a moment; and Python's search for unreachable cycles, also while rows are written: both make none,
and would be looked through again and again.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 500  # that may come in before the last one is out: then the collector has its turn
_PAUSE_S = 0.02  # about a query
_mutex = threading.Lock()
_inside = _came = 0
_was_on = False


@contextmanager
def without_collections() -> Iterator[None]:
    """No collection by age until the last of those inside is out; what is not in a cycle is freed as ever.

    Where one comes in before the other is out for long, later ones are not waited for.
    """
    counts = _enter()
    try:
        yield
    finally:
        if counts:
            _leave()


def _enter() -> bool:
    global _inside, _came, _was_on  # as the collector's own switch, for the whole process
    with _mutex:
        if _inside == 0:
            _was_on, _came = gc.isenabled(), 0
            gc.disable()
        elif _came >= MOST:
            return False
        _inside += 1
        _came += 1
        return True


def _leave() -> None:
    global _inside
    with _mutex:
        _inside -= 1
        if _inside == 0 and _was_on:
            gc.enable()


class Queries:
    """The queries that are being answered: whoever indexes in this process lets them go first, half of the time."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._running = 0
        self._next = 0.0

    def __enter__(self) -> None:
        with self._mutex:
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._running -= 1

    def let_go_first(self) -> None:
        """Waits while a query is being answered, but not for long and not again at once."""
        if not self._running or (now := time.monotonic()) < self._next:
            return
        until = now + _PAUSE_S
        while self._running and time.monotonic() < until:
            time.sleep(_PAUSE_S / 10)
        self._next = time.monotonic() + _PAUSE_S
