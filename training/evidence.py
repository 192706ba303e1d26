"""What speaks for there being an answer, for queries that have one in a library and for foreign ones that have none.

    python training/evidence.py --out FOLDER

Each library of collect.py is asked its own queries, those written by hand first, and everyday questions of
foreign_tuning.txt, as a whole and one package at a time; a package is also asked what another one of its set is.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import yaml
from collect import known_items

from bench.quality import indexed
from bench.sets import Asked
from refdesk.model import Filters, Query
from refdesk.search import confidence, engine
from refdesk.search.engine import Engine
from refdesk.search.understand import understand

HERE = Path(__file__).parent
NAMES = ("tune-python", "tune-code", "tune-docs", "whole", "python", "code", "docs")
SAMPLE = 500
SMALL = 200


def ask(asking: Engine, text: str, filters: Filters = Filters()) -> dict[str, float] | None:  # noqa: B008
    """The evidence for one query; None where the engine does not judge."""
    asked = understand(text)
    if not confidence.is_judged(asked):
        return None
    query = Query(text=text, filters=filters)
    found, fused, window = asking._candidates(asking._store.view(filters), query, asked, engine.RERANKED)
    if len(found.nearest) < confidence.COMPARED or not found.cosines:
        return None
    ranked = asking._rerank(query, asked, found, fused, window[: engine.RERANKED], engine.RERANKED)
    return asking._evidence(asked, found, ranked)


def rows(asking: Engine, name: str, items: Sequence[Asked], foreign: Sequence[str]) -> Iterator[dict[str, object]]:
    """One row a query: where it was asked, whether an answer is there, and the evidence."""
    pick = random.Random(name)
    packages = sorted({one.package for one in items})
    written = by_hand()
    judged = [one for one in items if confidence.is_judged(understand(one.query))]
    own = sorted(pick.sample(judged, len(judged)), key=lambda one: one.query not in written)[:SAMPLE]
    asked = [("whole library", "relevant", one.query, "") for one in own]
    asked += [("whole library", "everyday", text, "") for text in foreign]
    for one in own[:SMALL]:
        other = pick.choice([package for package in packages if package != one.package])
        asked.append(("one package", "relevant", one.query, one.package))
        asked.append(("one package", "other package", one.query, other))
    asked += [("one package", "everyday", text, pick.choice(packages)) for text in foreign]
    for where, what, text, package in asked:
        filters = Filters(paths=(package,)) if package else Filters()
        evidence = ask(asking, text, filters)
        if evidence is not None:
            yield {
                "set": name, "where": where, "what": what, "query": text, "written": text in written,
                "evidence": evidence,
            }  # fmt: skip


@cache
def by_hand() -> frozenset[str]:
    """The questions that somebody wrote."""
    read = yaml.safe_load((HERE / "second_stage.yaml").read_text(encoding="utf-8"))
    return frozenset(one["ask"] for own in read.values() for one in own)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    foreign = (HERE / "foreign_tuning.txt").read_text().splitlines()
    with (options.out / "evidence.jsonl").open("w", encoding="utf-8") as file:
        for name in NAMES:
            known = known_items(name, options.out)
            libraries = options.out / ("tuning" if name.startswith("tune-") else "libraries")
            with indexed(known, "static", libraries) as desk:
                for row in rows(desk.engine, name, known.tune, foreign):
                    file.write(json.dumps(row) + "\n")
            print(name, flush=True)


if __name__ == "__main__":
    main()
