"""When may Python look for unreachable cycles?  Not while somebody waits for an answer that makes none."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_mutex = threading.Lock()
_inside = 0
_was_on = False


@contextmanager
def without_collections() -> Iterator[None]:
    """No collection by age until the last of those inside is out; what is not in a cycle is freed as ever."""
    global _inside, _was_on  # as the collector's own switch, for the whole process
    with _mutex:
        if _inside == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _mutex:
            _inside -= 1
            if _inside == 0 and _was_on:
                gc.enable()
