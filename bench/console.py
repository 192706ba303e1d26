"""How long does the server take for each view of the console, among 100,000 chunks?  At most 100 ms is the aim.

The time is the server's own, as it says in the header Server-Timing. Each view is asked for again and again with
other queries, documents and symbols, so that none finds what it has just looked up; its first time stands beside it.

    python -m bench.console [--library DIR] [--rounds 20]
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench import clock, corpora, http_load, metrics, query_speed, tables
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.settings import Settings

_AIM_MS = 100
_TYPED_S = 5.0  # from the first page to the first search; what both need is loaded meanwhile
_DOCUMENTS = 2_000  # of the largest collection, among which some are read


def measure(library: Path, rounds: int) -> list[Row]:
    """A row for each view: the median of its times, with the first and the 95th percentile."""
    with open_desk(Settings(library=library)) as desk:
        chunks = desk.stats().chunks
        held = desk.contents()
        name = max(held, key=lambda one: held[one].chunks)
        sample = list(query_speed.sampled(desk, 8 * rounds))
        texts = list(query_speed.queries_from(sample, 2 * rounds))
        paths = [one.path for one in desk.documents(name, _DOCUMENTS, 0)]
        symbols = [one.chunk.symbols[0] for one in sample if one.chunk.symbols and one.document.collection == name]
    draw = random.Random(7)
    draw.shuffle(paths)
    views: dict[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
        "search": lambda turn: ("/", {"q": texts[turn]}),
        "search, with filters": lambda turn: ("/", {"q": texts[-turn - 1], "collection": name, "language": "python"}),
        "reader": lambda turn: (f"/read/{name}/{paths[turn]}", {}),
        "library": lambda turn: ("/library", {}),
        "collection": lambda turn: (f"/library/{name}", {"page": turn + 1}),
        "graph, map": lambda turn: (f"/graph/{name}", {}),
        "graph, symbol": lambda turn: (f"/graph/{name}", {"symbol": symbols[turn % len(symbols)]}),
        "playbooks": lambda turn: ("/playbooks", {}),
        "agents": lambda turn: ("/agents", {}),
        "set-up": lambda turn: ("/setup", {}),
    }
    times: dict[str, list[float]] = {view: [] for view in views}
    used: dict[str, float] = {}
    with http_load.served(library, 1) as (port, pid), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        client.timeout = httpx.Timeout(60)
        client.get("/")
        time.sleep(_TYPED_S)
        for view, place in views.items():
            before = _processor_ms(pid)
            for turn in range(rounds):
                path, query = place(turn)
                answer = client.get(path, params=query)
                answer.raise_for_status()
                times[view].append(float(answer.headers["server-timing"].rpartition("=")[2]))
            used[view] = (_processor_ms(pid) - before) / rounds
    rows = [Row("chunks in the library", chunks, "", 100_000, at_least=True)]
    for view, own in times.items():
        note = f"first {own[0]:.0f} ms, p95 {metrics.percentile(own, 95):.0f} ms, processor {used[view]:.0f} ms"
        rows.append(Row(view, metrics.percentile(own, 50), "ms", _AIM_MS, note=note))
    return rows


def _processor_ms(pid: int) -> float:
    """The processor time of the server so far, which a busy machine does not stretch."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--library", type=Path, help="keeps what was indexed for the next run")
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = asked.library or Path(folder, "library")
        clock.child("index_each", str(corpora.speed_corpus("chunks100k", asked.cache)), str(library))
        rows = measure(library, asked.rounds)
    print(tables.show_rows("the console's views, server time", rows))
    tables.keep("console", {"rows": [(row.what, row.value, row.note) for row in rows]}, asked.json)


if __name__ == "__main__":
    main()
