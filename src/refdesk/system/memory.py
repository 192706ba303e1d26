"""The memory limit of the process, and what is paused while a query is answered."""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from refdesk.errors import MemoryLimit

_DEFAULT = 2 << 30  # bytes: the most that the default limit is
_NEAR = 0.8  # share of the limit from which caches are dropped
_SMALLER = 4  # how much smaller groups of work are when memory stays short
_MANY = 1000  # cached results, from which a function's cache is worth dropping
_LOOK_S = 0.1  # a look takes 0.04 ms, a hundredth of a query
_ARENA_MAX = -8  # glibc's M_ARENA_MAX
_STATUS = Path("/proc/self/status")
_COUNTED = ("RssAnon:", "RssShmem:")  # not RssFile: the system reclaims pages of mapped files by itself


@dataclass(slots=True)
class Counters:
    """How often each measure was taken to stay below the limit."""

    dropped: int = 0  # caches
    reduced: int = 0  # groups of work
    refused: int = 0


counters = Counters()
_limit = 0
_looked = 0.0
_drops: list[weakref.WeakMethod[Callable[[], object]]] = []
_mutex = threading.Lock()


def allow(most: int) -> None:
    """Sets the limit of this process in bytes; 0 means a quarter of the machine's memory, at most 2 GB."""
    global _limit  # of the process, as its memory is
    _limit = most or min(_DEFAULT, machine() // 4 or _DEFAULT)
    # glibc gives each thread its own arena, up to eight per core; memory freed in one is not reused by another.
    # Measured over 60,000 invalid calls: a server grew from 81 MB to 90-107, with one arena per core to 88 (90 after
    # 100,000).
    if (mallopt := _libc("mallopt")) is not None:
        mallopt(_ARENA_MAX, os.cpu_count() or 1)


def limit() -> int:
    return _limit


def machine() -> int:
    """The machine's memory in bytes, or 0 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return 0


def used() -> int:
    """The resident bytes of this process that no file backs, or 0 if the system does not report them."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_COUNTED))


def drop_when_short(drop: Callable[[], object]) -> None:
    """Registers a method that empties a cache, to be called when memory is short."""
    _drops[:] = [known for known in _drops if known() is not None]
    _drops.append(weakref.WeakMethod(drop))


def relieve_for_query() -> None:
    """Drops caches if memory is short, looked at not more than every tenth of a second."""
    global _looked  # of the process, as its memory is
    if (now := time.monotonic()) >= _looked + _LOOK_S:
        _looked = now
        relieve()


def relieve() -> bool:
    """Drops caches if memory is short; returns whether there is room."""
    if not _limit or used() < _NEAR * _limit:
        return True
    with _mutex:
        counters.dropped += 1
        for known in _drops:
            if (drop := known()) is not None:
                drop()
        for remembered in _remembering():
            remembered.cache_clear()
        gc.collect()
        give_back()
    return used() < _NEAR * _limit


def _remembering() -> list[Any]:
    """The package's functions with large caches."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("refdesk.")]
    values = [value for module in loaded for value in list(vars(module).values()) if not isinstance(value, type)]
    found = [value for value in values if hasattr(value, "cache_parameters")]
    return [one for one in found if (one.cache_parameters()["maxsize"] or 0) >= _MANY]


def share() -> float:
    """The share of a usual batch that may be processed at a time; raises MemoryLimit above the limit."""
    if relieve():
        return 1.0
    if (now := used()) <= _limit:
        counters.reduced += 1
        return 1 / _SMALLER
    counters.refused += 1
    raise MemoryLimit(
        f"The process uses {now >> 20} MB of memory, more than the {_limit >> 20} MB that max_memory allows.",
        "Raise max_memory, or index fewer files at a time; what was indexed so far is kept.",
    )


def usage() -> dict[str, int]:
    """The memory in use, the limit, and the measures taken since the process started."""
    return {
        "used_bytes": used(),
        "limit_bytes": _limit,
        "caches_dropped": counters.dropped,
        "groups_reduced": counters.reduced,
        "refused": counters.refused,
    }


def give_back() -> None:
    """Returns freed memory to the system, where the C library can; takes a few milliseconds."""
    if (trim := _libc("malloc_trim")) is not None:
        trim(0)


@cache
def _libc(name: str) -> Callable[..., int] | None:
    import ctypes

    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # macOS, musl, Windows
        return None
    return found


# Queries create no reference cycles, so the garbage collector finds nothing, and took a tenth of a query's time.

MOST = 500  # entries without the count reaching zero, after which collection is allowed again
_PAUSE_S = 0.02  # about the time of one query
_gc_mutex = threading.Lock()
_inside = _came = 0
_was_on = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses automatic garbage collection until the last overlapping context exits.

    After `MOST` overlapping entries new ones no longer extend the pause, so that collection runs now and then.
    """
    global _inside, _came, _was_on  # process-wide, as gc.disable is
    with _gc_mutex:
        if _inside == 0:
            _was_on, _came = gc.isenabled(), 0
            gc.disable()
        counts = int(_came < MOST)
        _inside += counts
        _came += counts
    try:
        yield
    finally:
        with _gc_mutex:
            _inside -= counts
            if counts and _inside == 0 and _was_on:
                gc.enable()


# Threads that compete for Python's lock take longer for the same work: of 16 clients a process answers 63 a second with
# 19 ms of processor time each without a limit, 80 with three at once, 93 (12 ms) with two, 96 with one.
_AT_ONCE = 2


class RunningQueries:
    """Lets two queries run at once and counts those that want to, so that indexing in this process yields to them."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._running = 0
        self._next = 0.0
        self._slots: queue.SimpleQueue[None] = queue.SimpleQueue()  # in C, unlike threading.Semaphore
        for _ in range(_AT_ONCE):
            self._slots.put(None)

    def __enter__(self) -> None:
        with self._mutex:
            self._running += 1
        self._slots.get()

    def __exit__(self, *_: object) -> None:
        self._slots.put(None)
        with self._mutex:
            self._running -= 1

    def wait_for_queries(self) -> None:
        """Waits up to 20 ms for running queries, and not again for as long."""
        if not self._running or (now := time.monotonic()) < self._next:
            return
        until = now + _PAUSE_S
        while self._running and time.monotonic() < until:
            time.sleep(_PAUSE_S / 10)
        self._next = time.monotonic() + _PAUSE_S
