"""Builds the quality sets from the held-out packages: docstring to function, comment to function, heading to section.

python training/sets.py --out sets.json --pypi URL --npm URL
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path
from typing import Any

from compose import split_lead
from mine import _npm, _pypi, fetch, records, take_addresses
from pairs import sketch

HERE = Path(__file__).parent
QUERIES, PASSAGES, PER_PACKAGE = 1_500, 12_000, 700
HARDEST = 3  # words a query must have


def packages() -> list[tuple[str, str, str, str]]:
    """Each held-out package as its set, registry, name and version."""
    found = []
    for line in (HERE / "heldout.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            of, registry, pinned = line.split()[:3]
            found.append((of, registry, *pinned.split("==")))
    return found  # type: ignore[return-value]


def examples(of: str, found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Query and passage of each record that fits a set."""
    pairs = []
    for one in found:
        if of == "docs" and one["k"] == "s":
            query, passage = " ".join(one["h"][-2:]), one["b"]
        elif (
            of != "docs"
            and one["k"] == "f"
            and one["d"]
            and not one["x"]
            and one["t"] == "function"
            and (one["l"] == "python") == (of == "python")
        ):
            query, passage = split_lead(one["d"])[0], f"{one['s']}\n{one['b']}"
        else:
            continue
        if len(re.findall(r"[A-Za-z]+", query)) >= (2 if of == "docs" else HARDEST) and len(passage) > 80:
            pairs.append((query, passage[:1_300]))
    return pairs


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--archives", type=Path, help="a folder of archives fetched before")
    options = take_addresses(arguments)
    collected: dict[str, list[tuple[str, str]]] = {"python": [], "code": [], "docs": []}
    generator = random.Random(11)
    for of, registry, name, version in packages():
        kept = options.archives / f"{name}-{version}.tgz" if options.archives else None
        url = "" if kept and kept.exists() else (_pypi if registry == "pypi" else _npm)(name, version)[0]
        archive = kept.read_bytes() if kept and kept.exists() else fetch(url)
        mine = examples(of, records(archive, allow_heldout=True))
        generator.shuffle(mine)
        collected[of] += mine[:PER_PACKAGE]
        print(of, name, len(mine), flush=True)
    sets = {}
    for of, pairs in collected.items():
        seen: set[object] = set()
        unique = []
        generator.shuffle(pairs)
        # A passage twice in a set, or a query twice, would have two right answers.
        for pair in pairs:
            marks = {sketch(pair[1]), pair[0].lower()}
            if not marks & seen:
                seen |= marks
                unique.append(pair)
        unique = unique[:PASSAGES]
        asked = generator.sample(range(len(unique)), min(QUERIES, len(unique)))
        sets[of] = {"queries": [unique[i][0] for i in asked], "passages": [pair[1] for pair in unique], "gold": asked}
        print(of, len(asked), "queries", len(unique), "passages")
    options.out.write_text(json.dumps(sets))


if __name__ == "__main__":
    main()
