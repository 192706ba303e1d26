"""Are callers and subtypes right?  Compared with where jedi and pyright lead, on pinned Python packages.

A pair is true when either of the two, asked at the call or at the base, goes to the definition. Nothing is corrected by
hand.

`python -m bench.graph [--package NAME of bench/pins.txt ...] [--symbols N] [--json FILE]`
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.corpora import DEFAULT_CACHE, fetch, pins
from bench.truth import Jedi, Judge, Module, Place, Pyright
from refdesk.app import open_desk
from refdesk.graph import Graph, Node
from refdesk.settings import Settings

PACKAGES = (
    "marshmallow", "tenacity", "structlog", "lark", "kombu", "jsonschema",
    "arrow", "nox", "websockets", "fabric", "luigi",
)  # fmt: skip
FLOOR = 0.9


class Truth:
    """Which definitions of the package are called from where, or derived from, as either judge says."""

    def __init__(self, source: Path, judges: Sequence[Judge]) -> None:
        self._source = source
        self._judges = judges
        self._told: dict[tuple[Judge, Place], set[str]] = {}
        self._modules = {path: Module(path) for path in sorted(source.rglob("*.py")) if _is_python(path)}

    def of(self, node: Node, want: str) -> set[str]:
        """`path:qualified` of each caller or subtype: what stands around a use that a judge follows to the node."""
        places = [place for module in self._modules.values() for place in module.uses(node.name, want)]
        return {self._id(place.path, place.owner) for place in places if self._is_of(place, node)} - {
            node.id if want == "subtypes" else ""
        }

    def _is_of(self, place: Place, node: Node) -> bool:
        return any(node.id in self._meant(judge, place) for judge in self._judges)

    def _meant(self, judge: Judge, place: Place) -> set[str]:
        if (judge, place) not in self._told:
            inside = [(path, line) for path, line in judge.meant(place) if path in self._modules]
            known = [(path, self._modules[path].definitions.get(line)) for path, line in inside]
            self._told[judge, place] = {self._id(path, qualified) for path, qualified in known if qualified}
        return self._told[judge, place]

    def _id(self, path: Path, qualified: str) -> str:
        relative = path.relative_to(self._source).as_posix()
        return f"{relative}:{qualified}" if qualified else relative


def _is_python(path: Path) -> bool:
    try:
        Module(path).definitions  # noqa: B018
    except (SyntaxError, UnicodeDecodeError):
        return False
    return True


def source_of(package: str) -> Path:
    """The folder of the package's own modules."""
    root = fetch(pins()["pypi", package], DEFAULT_CACHE)
    return min(
        (one.parent for one in root.rglob("__init__.py") if one.parent.name == package), key=lambda one: len(one.parts)
    )


def sample(graph: Graph, names: list[str], kinds: tuple[str, ...], count: int) -> list[Node]:
    """The first definitions of those kinds, each once, in the order of the names."""
    found = {
        node.id: node
        for name in names
        for node in graph.find(name)
        if node.kind in kinds and node.language == "python" and not node.name.startswith("__")
    }
    return list(found.values())[:count]


def run(package: str, count: int) -> dict[str, Any]:
    source = source_of(package)
    with (
        tempfile.TemporaryDirectory() as library,
        open_desk(Settings(library=Path(library), embedder="none")) as desk,
        Pyright(source.parent) as pyright,
    ):
        desk.index(source, "code", name="package")
        graph = desk.graph("package")
        truth = Truth(source, [pyright, Jedi(source.parent)])
        names = sorted(
            {one.name for doc in desk.documents("package", 5000, 0) for one in desk._store.symbols_of(doc.id)}
        )
        random.Random(7).shuffle(names)
        return {
            want: compare(graph, truth, sample(graph, names, kinds, count), want)
            for want, kinds in (("calls", ("function", "method")), ("subtypes", ("class",)))
        }


def compare(graph: Graph, truth: Truth, nodes: list[Node], want: str) -> dict[str, Any]:
    right = ours = theirs = 0
    differences: list[str] = []
    for node in nodes:
        edges = graph.callers(node) if want == "calls" else graph.subtypes(node)
        # the judges know no types that conform to a protocol without saying so
        mine = {edge.source.id for edge in edges if want == "calls" or edge.kind == "inherits"}
        known = truth.of(node, want)
        right, ours, theirs = right + len(mine & known), ours + len(mine), theirs + len(known)
        differences += [f"{node.id}: wrong {one}" for one in sorted(mine - known)]
        differences += [f"{node.id}: missed {one}" for one in sorted(known - mine)]
    return {
        "symbols": len(nodes),
        "precision": right / ours if ours else 1.0,
        "recall": right / theirs if theirs else 1.0,
        "found": ours,
        "true": theirs,
        "differences": differences,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", nargs="*", default=PACKAGES)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--differences", type=int, default=0, help="how many differences to print of each kind")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for package in given.package:
        found[package] = run(package, given.symbols)
        for want, row in found[package].items():
            passed = min(row["precision"], row["recall"]) >= FLOOR
            print(
                f"{package:12} {want:9} precision {row['precision']:.3f} recall {row['recall']:.3f}"
                f" ({row['symbols']} symbols, {row['found']} found, {row['true']} true)"
                f" floor {FLOOR} {'pass' if passed else 'FAIL'}",
                flush=True,
            )
            for line in row["differences"][: given.differences]:
                print("   ", line)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
