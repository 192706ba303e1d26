"""What was freed is given back, where the C library can."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refdesk.desk.desk import Desk
from refdesk.system import memory
from refdesk.text import tokens
from tests.conftest import Tree
from tests.mcp_client.stdio import StdioClient, environment

FILES = {f"m{n}.py": f'def function_{n}():\n    """Does thing number {n}."""\n    return {n}\n' for n in range(30)}
measured = pytest.mark.skipif(not memory.used(), reason="the system does not tell how much memory a process uses")


def _held() -> int:
    """Bytes of this process that are in memory and in no file."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


@pytest.mark.skipif(
    sys.platform != "linux" or memory._libc("malloc_trim") is None,
    reason="only glibc gives memory back when it is asked",
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

    memory._libc.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    memory.give_back()
    memory._libc.cache_clear()


@measured
def test_near_the_limit_caches_are_dropped_and_work_goes_on_in_smaller_groups(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="warm")
    memory.allow(1)
    try:
        memory.relieve()  # leaves what can't be dropped
        remembering = memory._remembering()
        assert {one.cache_info().currsize for one in remembering if hasattr(one, "cache_info")} == {0}
        assert any(one is tokens.count for one in remembering) and not tokens.count._known
        memory.allow(int(memory.used() * 1.15))
        before = memory.usage()
        assert desk.index(root, "code", name="c").written == 30
    finally:
        memory.allow(0)
    after = memory.usage()
    assert after["caches_dropped"] > before["caches_dropped"]
    assert after["groups_reduced"] > before["groups_reduced"]
    assert after["refused"] == before["refused"]


@measured
def test_an_index_run_over_the_limit_ends_with_an_error_and_keeps_what_it_has(tree: Tree, tmp_path: Path) -> None:
    root = tree(FILES)

    def refdesk(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), *arguments]
        given = {**environment(), **more}
        return subprocess.run(command, capture_output=True, text=True, env=given, check=False)

    done = refdesk("index", str(root), "--name", "c", REFDESK_MAX_MEMORY="10000000")
    assert done.returncode == 10
    assert "more than the 9 MB that max_memory allows" in done.stderr
    stats = json.loads(refdesk("stats", "--json", REFDESK_MAX_MEMORY="500000000").stdout)
    assert stats["documents"] == 30  # of one batch, which was written before the limit was looked at
    assert stats["memory"]["limit_bytes"] == 500_000_000
    assert 0 < stats["memory"]["used_bytes"] < 500_000_000


@measured
def test_a_server_keeps_to_the_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "serve", "--toolsets", "rag"]
    monkeypatch.setenv("REFDESK_MAX_MEMORY", "500000000")
    with StdioClient(command) as client:
        client.initialize()
        told = client.call("rag_stats", {})["result"]["_meta"]["refdesk/memory"]
    assert told["limit_bytes"] == 500_000_000


ARENAS = """
import ctypes, os, sys, threading
from refdesk.system import memory
from refdesk.text import tokens
memory.allow(0)
done, many = threading.Event(), 6 * (os.cpu_count() or 1)
threads = [threading.Thread(target=lambda: (bytearray(5000), done.wait())) for _ in range(many)]
for each in threads:
    each.start()
libc = ctypes.CDLL(None)
libc.fopen.restype, libc.malloc_info.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]
out = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, out)
libc.fclose(out)
done.set()
"""


@pytest.mark.skipif(
    sys.platform != "linux" or memory._libc("mallopt") is None, reason="only glibc has arenas that can be counted"
)
def test_threads_share_the_memory_that_calls_freed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ARENAS, str(tmp_path / "heaps")], env=environment(), check=True)
    assert (tmp_path / "heaps").read_text().count("<heap nr") <= (os.cpu_count() or 1)
