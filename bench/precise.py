"""What does the precise mode cost?  Processor time of searches with it and without, in turn, on one core.

python -m bench.precise [--queries 60] [--libraries FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from dataclasses import asdict
from pathlib import Path

from refdesk_precise import PreciseModel

from bench import corpora, sets, tables
from bench.quality import indexed
from refdesk.model import Query
from refdesk.search.engine import Engine


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--queries", type=int, default=60)
    options.add_argument("--libraries", type=Path)
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    rows = []
    for name in sets.NAMES:
        known = sets.known_items(name, given.cache)
        asked = [one.query for one in random.Random(1).sample(known.report, min(given.queries, len(known.report)))]
        with indexed(known, "static", given.libraries) as desk:
            model = PreciseModel()
            ways = {"hybrid": Engine(desk._store, desk.embedder), "precise": Engine(desk._store, desk.embedder, model)}
            spent = timed(ways, asked)
        plain, precise = (statistics.median(spent[way]) for way in ("hybrid", "precise"))
        added = sorted(slow - fast for slow, fast in zip(spent["precise"], spent["hybrid"], strict=True))
        late = added[int(0.95 * len(added))]
        note = f"95% of queries under {late:.0f} ms; a search takes {plain:.1f} ms without and {precise:.1f} ms with it"
        rows.append(tables.Row(f"{name}: added by reading 20 hits", statistics.median(added), "ms", 100, note=note))
        rows.append(tables.Row(f"{name}: a search with it over one without", precise / plain, "times"))
    print(tables.show_rows("precise mode, processor time on one core", rows))
    print("kept in", tables.keep("precise", {"rows": [asdict(row) for row in rows]}, given.json))


def timed(ways: dict[str, Engine], asked: list[str]) -> dict[str, list[float]]:
    """Milliseconds of processor time of each query, each way in turn; one round before warms both."""
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for text in (asked[0], *asked):
        for way, engine in ways.items():
            began = time.process_time()
            engine.search(Query(text=text))
            spent[way].append(1_000 * (time.process_time() - began))
    return {way: own[1:] for way, own in spent.items()}


if __name__ == "__main__":
    main()
