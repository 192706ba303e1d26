"""How much memory may the process use, and how does it keep to that?  What was freed goes back to the system."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from refdesk.errors import MemoryLimit

_DEFAULT = 2 << 30  # bytes, at most
_NEAR = 0.8  # of the limit, from which on something is done
_SMALLER = 4  # times, that work is done in smaller groups
_MANY = 1000  # results of a function
_ARENA_MAX = -8  # glibc's M_ARENA_MAX
_STATUS = Path("/proc/self/status")
_LOOSE = ("RssAnon:", "RssShmem:")  # pages of mapped files go back to the system by themselves


@dataclass(slots=True)
class Kept:
    """What was done to keep to the limit, how many times."""

    dropped: int = 0  # caches
    reduced: int = 0  # groups of work
    refused: int = 0


kept = Kept()
_limit = 0
_drops: list[weakref.WeakMethod[Callable[[], object]]] = []
_mutex = threading.Lock()


def allow(most: int) -> None:
    """Sets the limit of this process in bytes; 0 for a quarter of the machine's memory, at most 2 GB."""
    global _limit  # of the process, as its memory is
    _limit = most or min(_DEFAULT, machine() // 4 or _DEFAULT)
    # glibc gives a thread an arena of its own, up to eight for each processor; what calls free in one is of no use to
    # the next call in another. Over 60,000 wrong calls a server came from 81 MB to
    # 90-107; with fewer arenas to 88, and to 90 after 100,000.
    if (mallopt := _libc("mallopt")) is not None:
        mallopt(_ARENA_MAX, os.cpu_count() or 1)


def limit() -> int:
    """The limit in bytes, 0 before one is set."""
    return _limit


def machine() -> int:
    """The machine's memory in bytes, 0 where it can't be told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return 0


def used() -> int:
    """Bytes of this process that are in memory and in no file, 0 where the system does not tell them."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_LOOSE))


def drop_when_short(drop: Callable[[], object]) -> None:
    """Has a cache emptied, by a method of it, when memory is short."""
    _drops[:] = [known for known in _drops if known() is not None]
    _drops.append(weakref.WeakMethod(drop))


def relieve() -> bool:
    """Whether there is room, after caches were dropped where there was little."""
    if not _limit or used() < _NEAR * _limit:
        return True
    with _mutex:
        kept.dropped += 1
        for known in _drops:
            if (drop := known()) is not None:
                drop()
        for remembered in _remembering():
            remembered.cache_clear()
        gc.collect()
        give_back()
    return used() < _NEAR * _limit


def _remembering() -> list[Any]:
    """The functions of the package that remember many results."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("refdesk.")]
    found = [value for module in loaded for value in list(vars(module).values()) if hasattr(value, "cache_parameters")]
    return [one for one in found if (one.cache_parameters()["maxsize"] or 0) >= _MANY]


def share() -> float:
    """The share of a group of work that may be done at a time; MemoryLimit when even a small one is too much."""
    if relieve():
        return 1.0
    if (now := used()) <= _limit:
        kept.reduced += 1
        return 1 / _SMALLER
    kept.refused += 1
    raise MemoryLimit(
        f"The process uses {now >> 20} MB of memory, more than the {_limit >> 20} MB that max_memory allows.",
        "Raise max_memory, or index fewer files at a time; what was indexed so far is kept.",
    )


def told() -> dict[str, int]:
    """What is used and allowed, and what was done to keep to it since the process began."""
    return {
        "used_bytes": used(),
        "limit_bytes": _limit,
        "caches_dropped": kept.dropped,
        "groups_reduced": kept.reduced,
        "refused": kept.refused,
    }


def give_back() -> None:
    """Gives back what can be, where the C library knows how; a few milliseconds."""
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
