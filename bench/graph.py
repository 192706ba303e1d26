"""Are callers and subtypes right?  Compared with what jedi finds, on a pinned Python package.

`python -m bench.graph [--package NAME of bench/pins.txt] [--symbols N] [--json FILE]`
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.corpora import DEFAULT_CACHE, fetch, pins
from refdesk.app import open_desk
from refdesk.graph import Graph, Node
from refdesk.settings import Settings

PACKAGE = "marshmallow"
FLOOR = 0.9


def enclosing(jedi_script: Any, line: int, column: int) -> str:
    """The qualified name of the function or class around a place, "" at module level."""
    context = jedi_script.get_context(line, column)
    parts: list[str] = []
    while context is not None and context.type in ("function", "class"):
        parts.insert(0, context.name)
        context = context.parent()
    return ".".join(parts)


def truth(project: Any, root: Path, node: Node, want: str) -> set[str]:
    """Who jedi says calls the function, or derives from the class: `path:qualified` of each."""
    import jedi

    script = jedi.Script(path=root / node.path, project=project)
    lines = (root / node.path).read_text(encoding="utf-8").split("\n")
    found: set[str] = set()
    line, column = next(
        (number, text.index(f" {node.name}") + 1)
        for number, text in enumerate(lines[node.start_line - 1 :], node.start_line)
        if text.lstrip().startswith((f"def {node.name}(", f"class {node.name}", f"async def {node.name}("))
    )
    for ref in script.get_references(line, column, scope="project"):
        if ref.is_definition() or ref.module_path is None or not Path(ref.module_path).is_relative_to(root):
            continue
        text = Path(ref.module_path).read_text(encoding="utf-8").split("\n")[ref.line - 1]
        after = text[ref.column + len(ref.name) :]
        is_base = text.lstrip().startswith("class ") and "(" in text[: ref.column] and not is_metaclass(text, ref)
        if (want == "calls" and not after.startswith("(")) or (want == "subtypes" and not is_base):
            continue
        where = jedi.Script(path=ref.module_path, project=project)
        if is_another(where.goto(ref.line, ref.column, follow_imports=True), root / node.path, node.qualified):
            continue
        path = Path(ref.module_path).relative_to(root).as_posix()
        owner = text.split("class ")[1].split("(")[0].strip() if is_base else enclosing(where, ref.line, ref.column)
        found.add(f"{path}:{owner}" if owner else path)
    return found


def is_metaclass(text: str, ref: Any) -> bool:
    return text[: ref.column].rstrip().endswith("metaclass=")


def is_another(meant: list[Any], path: Path, qualified: str) -> bool:
    """Whether jedi itself, asked at the use, goes elsewhere: its references lump overrides of one name together."""
    places = {(Path(one.module_path), one.full_name or "") for one in meant if one.module_path}
    return bool(places) and not any(there == path and f".{name}".endswith(f".{qualified}") for there, name in places)


def source_of(package: str) -> Path:
    """The folder of the package's own modules."""
    root = fetch(pins()["pypi", package], DEFAULT_CACHE)
    return min(
        (one.parent for one in root.rglob("__init__.py") if one.parent.name == package), key=lambda one: len(one.parts)
    )


def sample(graph: Graph, names: list[str], kinds: tuple[str, ...], count: int) -> Iterator[Node]:
    for name in names:
        for node in graph.find(name):
            if node.kind in kinds and count > 0 and not node.name.startswith("__"):
                count -= 1
                yield node


def run(package: str, count: int) -> dict[str, Any]:
    import jedi

    source = source_of(package)
    project = jedi.Project(source.parent, added_sys_path=[str(source.parent)], load_unsafe_extensions=False)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as library, open_desk(Settings(library=Path(library), embedder="none")) as desk:
        desk.index(source, "code", name="package")
        graph = Graph(desk.store, "package")
        names = sorted(
            {one.name for doc in desk.store.documents("package", 5000, 0) for one in desk.store.symbols_of(doc.id)}
        )
        random.Random(7).shuffle(names)
        for want, kinds in (("calls", ("function", "method")), ("subtypes", ("class",))):
            right = ours = theirs = 0
            misses: list[str] = []
            for node in sample(graph, names, kinds, count):
                edges = graph.callers(node) if want == "calls" else graph.subtypes(node)
                # jedi knows no types that conform to a protocol without saying so
                mine = {edge.source.id for edge in edges if want == "calls" or edge.kind == "inherits"}
                known = truth(project, source, node, want)
                right, ours, theirs = right + len(mine & known), ours + len(mine), theirs + len(known)
                misses += [f"{node.id}: wrong {one}" for one in sorted(mine - known)]
                misses += [f"{node.id}: missed {one}" for one in sorted(known - mine)]
            rows[want] = {
                "symbols": count,
                "precision": right / ours if ours else 1.0,
                "recall": right / theirs if theirs else 1.0,
                "found": ours,
                "true": theirs,
                "differences": misses,
            }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", default=PACKAGE)
    parser.add_argument("--symbols", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = run(given.package, given.symbols)
    for want, row in rows.items():
        passed = min(row["precision"], row["recall"]) >= FLOOR
        print(
            f"{given.package} {want:9} precision {row['precision']:.3f} recall {row['recall']:.3f}"
            f" ({row['found']} found, {row['true']} true) floor {FLOOR} {'pass' if passed else 'FAIL'}"
        )
        for line in row["differences"][:40]:
            print("   ", line)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
