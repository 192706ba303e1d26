"""When may Python look for unreachable cycles?  Not while somebody waits for an answer, or rows are written: both make
none, and would be looked through again and again."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 500  # that may come in before the last one is out: then the collector has its turn
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
