"""How are results shown and kept?  Tables on stdout, JSON in a file."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing measured, with its floor where it has one."""

    what: str
    value: float
    unit: str
    floor: float | None = None
    at_least: bool = False  # the floor is a lower bound
    note: str = ""

    @property
    def passed(self) -> bool | None:
        if self.floor is None:
            return None
        return self.value >= self.floor if self.at_least else self.value <= self.floor

    def cells(self) -> tuple[str, ...]:
        mark = {None: "", True: "pass", False: "FAIL"}[self.passed]
        bound = "" if self.floor is None else f"{'≥' if self.at_least else '≤'} {self.floor:g} {self.unit}"
        return self.what, f"{self.value:.4g} {self.unit}", bound, mark, self.note


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table with columns of even width."""
    table = [list(head), *(list(map(str, row)) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return f"\n## {title}\n\n" + "\n".join(lines)


def show_rows(title: str, rows: Sequence[Row]) -> str:
    return show(title, ("what", "measured", "floor", "", "note"), [row.cells() for row in rows])


def keep(name: str, results: Mapping[str, Any], path: Path | None) -> Path:
    """Writes the results with the machine's facts; returns where."""
    target = path or RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"machine": machine(), **results}, indent=1, ensure_ascii=False) + "\n")
    return target


def machine() -> dict[str, Any]:
    """What a reader needs to compare two results."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": [round(one, 2) for one in os.getloadavg()] if hasattr(os, "getloadavg") else [],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
