"""How long does the second stage take?  Processor time of weighing the candidates, for the queries of a quality set.

python -m bench.second_stage [--set python] [--libraries FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median

from bench import corpora, metrics, sets, tables
from bench.quality import indexed
from refdesk.model import Query
from refdesk.search import engine, rerank
from refdesk.search.understand import understand

QUERIES = 200


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--set", default="python", choices=sets.NAMES)
    options.add_argument("--libraries", type=Path, help="where indexed sets are kept, to save time")
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    known = sets.known_items(given.set, given.cache)
    spent: list[float] = []
    with indexed(known, "static", given.libraries) as desk:
        own = desk.engine
        for item in random.Random(1).sample(known.tune, QUERIES):
            query, asked = Query(text=item.query), understand(item.query)
            found, fused, window = own._candidates(desk.view(), query, asked, engine.RERANKED)
            first = window[: engine.RERANKED]
            stored = desk._store.chunks([found.ids[at] for at in first])
            passages, scores = [stored[found.ids[at]] for at in first], [fused[at] for at in first]
            started = time.process_time()
            counting = rerank.weighing(with_words=True)
            rerank.gains(rerank.values(passages, scores, asked, item.query, own._matcher, counting), counting)
            spent.append(1000 * (time.process_time() - started))
    rows = [
        tables.Row("second stage, median", median(spent), "ms", 5.0, note=f"{QUERIES} queries, {given.set} set"),
        tables.Row("second stage, 95th percentile", metrics.percentile(spent, 95), "ms"),
    ]
    print(tables.show_rows(f"second stage, processor time of {engine.RERANKED} candidates", rows))
    print("kept in", tables.keep("second_stage", {"rows": [asdict(row) for row in rows]}, given.json))


if __name__ == "__main__":
    main()
