"""How much should the precise model's judgement count?  NDCG@10 by its share, on queries that are never reported.

    python training/precise_share.py --out FOLDER [--queries 500]

FOLDER is collect.py's.  Needs the package in extras/refdesk-precise.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from collect import known_items
from refdesk_precise import PreciseModel

from bench import metrics
from bench.quality import indexed
from refdesk.model import Query
from refdesk.search import engine
from refdesk.search import engine as precise
from refdesk.search.understand import understand

NAMES = ("tune-python", "tune-code", "tune-docs")
SHARES = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
Read = tuple[list[float], list[float], list[bool]]  # scores, judgements, and which hits are right


def reached(read: list[Read], share: float) -> float:
    """Mean NDCG@10 with that share."""
    precise._SHARE = share
    gains = []
    for scores, judged, right in read:
        order = precise.order(scores, judged)
        rank = next((rank for rank, place in enumerate(order[: metrics.CUT], 1) if right[place]), None)
        gains.append(metrics.ndcg(rank))
    return statistics.fmean(gains)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--queries", type=int, default=500)
    options = arguments.parse_args()
    model = PreciseModel()
    for name in NAMES:
        known = known_items(name, options.out)
        items = [one for one in known.tune if understand(one.query).kind in engine._READ]
        read: list[Read] = []
        with indexed(known, "static", options.out / "tuning") as desk:
            for one in random.Random(1).sample(items, min(options.queries, len(items))):
                hits = desk.engine.search(Query(text=one.query, limit=precise.DEPTH)).hits
                stored = [hit.stored for hit in hits]
                judged = list(model.judge(one.query, stored)) if stored else []
                read.append(([hit.score for hit in hits], judged, [one.is_met_by(each) for each in stored]))
        print(name, len(read), *(f"{share}: {reached(read, share):.3f}" for share in SHARES), flush=True)


if __name__ == "__main__":
    main()
