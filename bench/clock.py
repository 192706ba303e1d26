"""How long does it take and how much memory does it hold?"""

from __future__ import annotations

import compileall
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def seconds(work: Callable[[], object]) -> float:
    """The wall time of one call."""
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Wall times of every side, one after the other in each round, so that a busy machine is busy for all of them."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        order = list(sides)[:: 1 if number % 2 == 0 else -1]
        for name in order:
            times[name].append(seconds(sides[name]))
    return times


def ratio(times: Mapping[str, Sequence[float]], over: str, under: str) -> float:
    """The median of the rounds' own ratios."""
    return statistics.median(a / b for a, b in zip(times[over], times[under], strict=True))


def child(job: str, *arguments: str) -> dict[str, Any]:
    """What a job of bench.jobs says of itself in a fresh process, with the peak memory of its process tree."""
    command = [sys.executable, "-m", "bench.jobs", job, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    peaks = _Peaks(process.pid)
    peaks.start()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out, _ = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peaks.stop()
    if process.returncode:
        raise RuntimeError(f"{job} ended with {process.returncode}")
    said: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**said, "process_cpu_s": cpu, "rss_mb": peaks.rss / 1e6, "pss_mb": peaks.pss / 1e6}


@cache
def _compiled() -> None:
    """The package as pip installs it, so that no process is measured compiling what it imports."""
    compileall.compile_dir(ROOT / "src" / "refdesk", quiet=2)


def processor_ms(pid: int) -> float:
    """The processor time of a process's threads so far; 0 where the system does not say."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e6


def environment() -> dict[str, str]:
    """The environment for child processes: they import this checkout."""
    _compiled()
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


class _Peaks(threading.Thread):
    """Samples what a process and its children hold: resident pages, and without counting shared pages twice."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self.rss = 0
        self.pss = 0

    def run(self) -> None:
        number = 0
        while not self._ended.wait(0.2):  # seldom: looking takes from what is measured
            pids = _tree(self._pid)
            self.rss = max(self.rss, sum(map(_rss, pids)))
            if number % 10 == 0:  # dear: the kernel walks all pages
                self.pss = max(self.pss, sum(map(_pss, pids)))
            number += 1

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _tree(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
