"""Does the right page stand first?  Questions over manuals of public projects, asked of the engine as tools ask it.

python -m bench.pages --clones FOLDER [--split tune|report|check] [--libraries FOLDER]

FOLDER holds clones as bench.files takes them.  Of each, the pages in a folder are indexed as they were at a commit.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from bench import metrics, tables
from bench.files import clone_of, git
from refdesk.app import open_desk
from refdesk.model import Query
from refdesk.settings import Settings

_FILE = Path(__file__).parent / "pages.yaml"
_ENDINGS = (".md", ".mdx", ".rst")


def judged(shown: list[str], right: list[str]) -> tuple[float, float, float]:
    """The reciprocal rank of the first right page, nDCG@5, and whether one is among five."""
    ranks = [rank for rank, page in enumerate(shown) if page in right]
    gain = sum(1 / math.log2(rank + 2) for rank in ranks if rank < 5)
    best = sum(1 / math.log2(rank + 2) for rank in range(len(right)))
    return 1 / (ranks[0] + 1) if ranks else 0.0, gain / best, float(any(rank < 5 for rank in ranks))


def unpack(clone: Path, commit: str, folder: str, into: Path) -> None:
    """Writes the pages of the folder as they were at the commit."""
    listed = git(clone, "ls-tree", "-r", "--name-only", commit, folder).splitlines()
    into.mkdir(parents=True)
    for page in listed:
        if page.endswith(_ENDINGS):
            (into / page).parent.mkdir(parents=True, exist_ok=True)
            command = ["git", "-C", str(clone), "show", f"{commit}:{page}"]
            (into / page).write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clones", type=Path, required=True)
    options.add_argument("--split", choices=["tune", "report", "check"], default="report")
    options.add_argument("--libraries", type=Path, help="keeps what was indexed for the next run")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    results: dict[str, list[tuple[float, float, float]]] = {}
    for entry in yaml.safe_load(_FILE.read_text(encoding="utf-8")):
        if entry["split"] != given.split:
            continue
        with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
            tree = Path(scratch).resolve() / "tree"
            library = (given.libraries or Path(scratch)) / entry["repo"].replace("/", "+")
            with open_desk(Settings(library=library)) as desk:
                if not desk.collections():
                    unpack(clone_of(given.clones, entry["repo"]), entry["commit"], entry["folder"], tree)
                    desk.index(tree, "docs", name="manual")
                for one in entry["questions"]:
                    hits = desk.search(Query(text=one["ask"], limit=10)).hits
                    shown = list(dict.fromkeys(hit.stored.document.path for hit in hits))
                    row = judged(shown, [f"{entry['folder']}/{page}" for page in one["pages"]])
                    results.setdefault(entry["repo"], []).append(row)
                    results.setdefault("all", []).append(row)
    means = {
        name: [metrics.estimate(list(column)) for column in zip(*own, strict=True)] for name, own in results.items()
    }
    rows = [(name, str(len(results[name])), *map(str, own)) for name, own in means.items()]
    print(tables.show(f"pages, {given.split}", ("of", "questions", "MRR", "nDCG@5", "Hit@5"), rows))
    tables.keep("pages", {name: [one.mean for one in own] for name, own in means.items()}, given.json)


if __name__ == "__main__":
    main()
