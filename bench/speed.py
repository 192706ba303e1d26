"""How fast is it?  Ratios to what nobody can do without, all measured in one run, sides in turn.

python -m bench.speed [--size small|medium|large|all] [--only index query] [--json FILE]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import clock, corpora, query_speed, tables
from bench.jobs import walk
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.model import Query
from refdesk.settings import Settings

SIZES = ("small", "medium", "large")


def measure_index(size: str, cache: Path, scratch: Path, rounds: int) -> tuple[list[Row], dict[str, Any]]:
    """Rows for indexing a corpus cold and again."""
    folder = corpora.speed_corpus(size, cache).resolve()
    library = scratch / size
    runs: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    for _ in range(rounds):
        shutil.rmtree(library, ignore_errors=True)
        runs.append(clock.child("index", str(folder), str(library)))
        floors.append(clock.child("floor", str(folder), str(library)))
    again, again_facts = _again(folder, library)
    return _cold_rows(size, runs, floors) + again, {"size": size, "runs": runs, "floors": floors, **again_facts}


def _cold_rows(size: str, runs: list[dict[str, Any]], floors: list[dict[str, Any]]) -> list[Row]:
    is_large = size == "large"
    ratio = statistics.median(run["seconds"] / floor["seconds"] for run, floor in zip(runs, floors, strict=True))
    rate = statistics.median(run["files"] / run["seconds"] for run in runs)
    took = statistics.median(run["seconds"] for run in runs)
    least = statistics.median(floor["seconds"] for floor in floors)
    memory = max(run["rss_mb"] for run in runs)
    shared = max(run["pss_mb"] for run in runs)
    work = statistics.median(run["cpu_s"] / floor["cpu_s"] for run, floor in zip(runs, floors, strict=True))
    note = (
        f"{took:.2f} s for {runs[0]['files']} files, {runs[0]['chunks']} chunks, against {least:.2f} s;"
        f" processor time {work:.2f} times"
    )
    return [
        Row(
            f"{size}: cold index over reading, hashing, embedding", ratio, "times", 6.0 if is_large else None, note=note
        ),
        Row(f"{size}: cold index", rate, "files/s", 300.0 if is_large else None, at_least=True),
        Row(
            f"{size}: peak memory of the process tree", memory, "MB", 600.0, note=f"{shared:.0f} MB, shared pages once"
        ),
    ]


def _again(folder: Path, library: Path, rounds: int = 7) -> tuple[list[Row], dict[str, Any]]:
    size = folder.name
    with open_desk(Settings(library=library)) as desk:
        paths = [folder / path for path, _ in desk.file_states(size)]

        def index() -> None:
            report = desk.index(folder, "code", name=size)
            assert report.written == report.removed == 0, report

        sides: dict[str, Callable[[], object]] = {
            "again": index,
            "walk": lambda: walk(str(folder)),
            "grep": lambda: sum(b"no such literal" in path.read_bytes() for path in paths),
            "query": lambda: desk.search(Query(text="no such literal")),
        }
        for side in sides.values():
            side()
        times = clock.alternate(sides, rounds)
    medians = {name: statistics.median(own) * 1e3 for name, own in times.items()}
    note = f"{medians['again']:.1f} ms against {medians['walk']:.1f} ms"
    reading = f"{medians['query']:.2f} ms against {medians['grep']:.1f} ms, every file read once"
    floor = 5.0 if size == "large" else None
    rows = [
        Row(
            f"{size}: re-index, nothing changed, over a stat walk",
            clock.ratio(times, "again", "walk"),
            "times",
            floor,
            note=note,
        ),
        Row(
            f"{size}: hybrid query over reading every file", clock.ratio(times, "query", "grep"), "times", note=reading
        ),
    ]
    return rows, {"again_ms": medians}


def _growth(results: list[dict[str, Any]]) -> list[Row]:
    """How memory grows with the corpus, from medium to large."""
    by_size = {one["size"]: max(run["rss_mb"] for run in one["runs"]) for one in results}
    if not {"medium", "large"} <= set(by_size):
        return []
    return [Row("peak memory, large over medium", by_size["large"] / by_size["medium"], "times")]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", choices=[*SIZES, "all"], default="all")
    options.add_argument("--only", nargs="*", choices=["index", "query"], default=["index", "query"])
    options.add_argument("--rounds", type=int, default=3, help="cold runs of each corpus")
    options.add_argument("--queries", type=int, default=300)
    options.add_argument(
        "--library", type=Path, help="where the 100,000 chunks are kept for the next run, to save time"
    )
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    rows: list[Row] = []
    results: dict[str, Any] = {"index": []}
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as name:
        scratch = Path(name)
        if "index" in given.only:
            for size in SIZES if given.size == "all" else (given.size,):
                own, facts = measure_index(size, given.cache, scratch, given.rounds)
                print(tables.show_rows(f"indexing, {size}", own), flush=True)
                rows += own
                results["index"].append(facts)
            rows += _growth(results["index"])
        if "query" in given.only:
            own, results["query"] = query_speed.measure(
                given.cache, given.library or scratch / "queries", given.queries
            )
            print(tables.show_rows("queries among 100,000 chunks", own), flush=True)
            print(f"\nstages of a hybrid query, median ms: {results['query']['stages']}")
            rows += own
    path = tables.keep("speed", {"rows": [asdict(row) | {"passed": row.passed} for row in rows], **results}, given.json)
    failed = [row.what for row in rows if row.passed is False]
    print(f"\n{len(failed)} under their floor: {'; '.join(failed) or 'none'}\nkept in {path}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
