"""Runs the engine over the training libraries and keeps what it knows of each query's candidates.

    python training/collect.py --out FOLDER [--sets whole python docs tune-python tune-code tune-docs]

Libraries and sets are kept in FOLDER, as is NAME.pkl for each set, so a stopped run goes on where it was.  The sets
named tune-… are the halves of bench.quality's sets that are never reported.  The set `code` can be asked for too; the
shipped weights were learned without it.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import queries
from judged import Found

from bench import corpora, sets
from bench.quality import indexed
from bench.sets import Asked, KnownItems
from refdesk.desk.desk import Desk
from refdesk.model import Query
from refdesk.search import engine, group, rerank
from refdesk.search import lookup as fuse
from refdesk.search import rerank as features
from refdesk.search.understand import understand

NAMES = ("whole", "python", "docs", "tune-python", "tune-code", "tune-docs")
# Every share of meaning the candidates may be chosen with; what any of them chooses is kept.
SHARES = (0.2, 0.4, 0.6, 0.7, 0.8)


def collect(desk: Desk, item: Asked, name: str) -> Found | None:
    """What the engine finds for one query."""
    asked = understand(item.query)
    query = Query(text=item.query)
    view = desk.view()
    found = desk.engine._look_up.find(view, query, asked, engine._POOL)
    if not found.ids:
        return None
    origins = view.origins(found.ids)
    places: dict[int, None] = {}
    for share in SHARES:
        ordered = fuse.order(engine._fuse(query, found, share), found.ids)
        turns = engine.in_turn([(at, origins.get(found.ids[at])) for at in ordered], 0, len(ordered))
        places.update(dict.fromkeys(turns[: engine.RERANKED]))
    kept = list(places)
    stored = desk._store.chunks(found.ids)
    passages = [stored[found.ids[at]] for at in kept]
    known = rerank.values(passages, [0.0] * len(kept), asked, item.query, desk.engine._matcher)
    top = max(found.words) or 1.0
    cosines = found.cosines or [0.0] * len(found.ids)
    return Found(
        query=item.query,
        kind=asked.kind,
        package=item.package,
        set=name,
        bm25=np.array([found.words[at] / top for at in kept]),
        cosine=np.array([min(1.0, max(0.0, cosines[at])) for at in kept]),
        values=np.array([[own.get(one, 0.0) for one in features.NAMES] for own in known]),
        right=np.array([item.is_met_by(one) for one in passages]),
        document=_numbered([one.document.id for one in passages]),
        passage=_numbered([f"{one.document.id}#{group.unsplit(one.chunk.key)}" for one in passages]),
        pool_right=any(item.is_met_by(stored[one]) for one in found.ids if one in stored),
    )


def _numbered(names: list[str]) -> np.ndarray:
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names])


def known_items(name: str, out: Path) -> KnownItems:
    """A training set, or the half of a reported one that is for tuning."""
    if name.startswith("tune-"):
        return sets.known_items(name.removeprefix("tune-"), corpora.DEFAULT_CACHE)
    return queries.known_items(name, corpora.DEFAULT_CACHE, out / "sets")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--sets", nargs="*", default=NAMES)
    options = arguments.parse_args()
    for name in options.sets:
        file = options.out / f"{name}.pkl"
        if file.is_file():
            continue
        started = time.perf_counter()
        known = known_items(name, options.out)
        libraries = options.out / ("tuning" if name.startswith("tune-") else "libraries")
        with indexed(known, "static", libraries) as desk:
            found = [one for item in known.tune if (one := collect(desk, item, name)) is not None]
        file.write_bytes(pickle.dumps(found))
        print(f"{name}: {len(found)} queries in {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
