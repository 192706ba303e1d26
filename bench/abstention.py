"""Does the engine say when it has nothing?  Queries that a library answers, and foreign ones that it cannot.

python -m bench.abstention [--sets python code docs authored] [--libraries FOLDER] [--json FILE]

Relevant queries are those of bench.quality's reported halves, everyday questions those of training/foreign.txt;
nothing was learned from either.  Each is asked of the whole library and of one package of it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import authored, corpora, metrics, sets, tables
from bench.quality import indexed
from bench.sets import KnownItems
from refdesk.desk import Desk
from refdesk.model import Filters, Query

FOREIGN = corpora.HELDOUT.parent / "foreign.txt"
MOST = 300  # queries of each kind asked of one package
FLOORS = {"relevant": 0.98, "everyday": 0.95}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a query was answered, and how near the nearest passage was."""

    set: str
    where: str
    what: str
    answered: bool


def ask(desk: Desk, known: KnownItems, foreign: Sequence[str]) -> Iterator[Outcome]:
    """Every query of the set's reported half and every foreign one."""
    pick = random.Random(known.name)
    packages = sorted({one.package for one in known.report})
    own = list(known.report)
    asked = [("whole library", "relevant", one.query, "") for one in own]
    asked += [("whole library", "everyday", text, "") for text in foreign]
    asked += [("package", "everyday", text, pick.choice(packages)) for text in foreign]
    for one in pick.sample(own, min(MOST, len(own))):
        other = pick.choice([package for package in packages if package != one.package])
        asked.append(("package", "relevant", one.query, one.package))
        asked.append(("package", "of another package", one.query, other))
    for where, what, text, package in asked:
        filters = Filters(paths=(package,)) if package else Filters()
        hits = desk.engine.search(Query(text=text, filters=filters, limit=3)).hits
        yield Outcome(known.name, where, what, bool(hits))


def rows(outcomes: Sequence[Outcome]) -> list[tables.Row]:
    """Kept shares of relevant queries and dropped shares of foreign ones, for each place and kind."""
    found = []
    for where in ("whole library", "package"):
        for what in ("relevant", "everyday", "of another package"):
            own = [one for one in outcomes if (one.where, one.what) == (where, what)]
            if not own:
                continue
            good = [float(one.answered == (what == "relevant")) for one in own]
            share = metrics.estimate(good)
            told = f"95% {share.low:.3f} to {share.high:.3f}, {len(own)} queries"
            each = [f"{name} {_share(own, name, what):.3f}" for name in dict.fromkeys(one.set for one in own)]
            verb = "kept" if what == "relevant" else "dropped"
            floor = FLOORS.get(what) if where == "whole library" else None
            label = f"{what} queries {verb}, asked of a {where}"
            found.append(tables.Row(label, share.mean, "", floor, at_least=True, note=f"{told}; {', '.join(each)}"))
    return found


def _share(own: Sequence[Outcome], name: str, what: str) -> float:
    good = [one.answered == (what == "relevant") for one in own if one.set == name]
    return sum(good) / len(good)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="*", default=[*sets.NAMES, "authored"], choices=[*sets.NAMES, "authored"])
    options.add_argument("--libraries", type=Path, help="where indexed sets are kept, to save time")
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    foreign = FOREIGN.read_text(encoding="utf-8").splitlines()
    outcomes: list[Outcome] = []
    for name in given.sets:
        known = authored.known_items(given.cache) if name == "authored" else sets.known_items(name, given.cache)
        with indexed(known, "static", given.libraries) as desk:
            outcomes += ask(desk, known, foreign)
        print(f"{name}: asked", flush=True)
    told = rows(outcomes)
    print(tables.show_rows("abstention", told))
    print("kept in", tables.keep("abstention", {"rows": [asdict(row) for row in told]}, given.json))


if __name__ == "__main__":
    main()
