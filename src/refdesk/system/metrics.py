"""Counts, latencies and states of this process, in Prometheus' text format."""

from __future__ import annotations

import bisect
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_HELP = {
    "refdesk_calls_total": "Calls of tools, by outcome.",
    "refdesk_call_seconds": "How long calls of tools took.",
    "refdesk_index_behind": "Commits that the index lacks.",
    "refdesk_index_away_total": "Queries that were answered from the record since no node of the index did.",
    "refdesk_index_node_errors_total": "Requests that a node of the index did not answer.",
    "refdesk_index_points_total": "Passages that this process wrote to the index.",
}
MEDIA_TYPE = "text/plain; version=0.0.4"
_Labels = tuple[tuple[str, str], ...]

_mutex = threading.Lock()
_counts: dict[tuple[str, _Labels], float] = defaultdict(float)
_times: dict[tuple[str, _Labels], list[float]] = {}  # a count for each bound, one beyond, and the sum


def count(name: str, by: float = 1, **labels: str) -> None:
    with _mutex:
        _counts[name, tuple(labels.items())] += by


def took(name: str, seconds: float, **labels: str) -> None:
    with _mutex:
        times = _times.setdefault((name, tuple(labels.items())), [0.0] * (len(_BOUNDS) + 2))
        times[bisect.bisect_left(_BOUNDS, seconds)] += 1
        times[-1] += seconds


def render(gauges: Mapping[str, float]) -> str:
    """Everything so far, and these gauges; with several serving processes each has its own, told apart by a label."""
    lines: list[str] = []
    process = ("process", str(os.getpid()))
    told: set[str] = set()

    def head(name: str, kind: str) -> None:
        if name not in told:
            told.add(name)
            lines.extend((f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {kind}"))

    def line(name: str, labels: _Labels, value: float) -> None:
        named = ",".join(f'{key}="{text}"' for key, text in (*labels, process))
        lines.append(f"{name}{{{named}}} {value:g}")

    with _mutex:
        for (name, labels), value in sorted(_counts.items()):
            head(name, "counter")
            line(name, labels, value)
        for name, value in sorted(gauges.items()):
            head(name, "gauge")
            line(name, (), value)
        for (name, labels), times in sorted(_times.items()):
            head(name, "histogram")
            for place, bound in enumerate((*map(str, _BOUNDS), "+Inf")):
                line(f"{name}_bucket", (*labels, ("le", bound)), sum(times[: place + 1]))
            line(f"{name}_count", labels, sum(times[:-1]))
            line(f"{name}_sum", labels, times[-1])
    return "\n".join(lines) + "\n"


def united(rendered: Iterable[str]) -> str:
    """What several processes render, as one: the lines of each metric must be together."""
    found: dict[str, dict[str, None]] = {}
    of_metric: dict[str, None] = {}
    for text in rendered:
        for line in text.splitlines():
            if line.startswith("# HELP "):
                of_metric = found.setdefault(line, {})
            else:
                of_metric[line] = None
    return "".join(f"{line}\n" for head, lines in found.items() for line in (head, *lines))
