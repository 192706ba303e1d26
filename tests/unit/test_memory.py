"""What was freed is given back, where the C library can."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from refdesk import memory


def _held() -> int:
    """Bytes of this process that are in memory and in no file."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


@pytest.mark.skipif(
    sys.platform != "linux" or memory._trim() is None, reason="only glibc gives memory back when it is asked"
)
def test_what_lies_between_things_in_use_is_given_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    libc.malloc.argtypes = [ctypes.c_size_t]
    blocks = [libc.malloc(60_000) for _ in range(1_000)]
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
        libc.free(block)
    before = _held()
    memory.give_back()
    after = _held()
    libc.free(blocks[-1])
    assert before - after > 30_000_000


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str | None) -> object:
        raise OSError(name)

    memory._trim.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    memory.give_back()
    memory._trim.cache_clear()
