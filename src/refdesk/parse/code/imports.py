"""Reads import statements: one reader per family of languages, over the statement's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

_NAMES = re.compile(r"([\w.*]+)(?:\s+as\s+(\w+))?")
_PY_COMMENT = re.compile(r"#[^\n]*")
_JS_FROM = re.compile(r"""(?:from|require\(|import\(|^import)\s*["'`]([^"'`]+)["'`]""")
_JS_BRACES = re.compile(r"\{([^{}]*)\}")
_JS_NAME = re.compile(r"(?:\btype\s+)?([\w$]+)(?:(?:\s+as\s+|\s*:\s*)([\w$]+))?")
_GO_SPEC = re.compile(r"""(?:([\w.]+)\s+)?["`]([^"`]+)["`]""")
_RUST_TOKEN = re.compile(r"r#|[\w]+|::|[{},*]")


class Import(NamedTuple):
    """One name brought in; for a whole module `name` is the module's last part, "*" is everything."""

    module: str
    name: str
    alias: str = ""
    offset: int = 0  # where in the statement


def read_python(text: str) -> Iterator[Import]:
    text = _PY_COMMENT.sub(lambda m: " " * len(m[0]), text)
    if text.startswith("from"):
        head, _, tail = text.partition("import")
        module = head[4:].strip()
        for found in _NAMES.finditer(tail):
            is_alike = f".{module}".endswith(f".{found[1]}")  # from a import a, which else reads as import a
            yield Import(module, found[1], found[2] or (found[1] if is_alike else ""), len(head) + 6 + found.start())
        return
    for found in _NAMES.finditer(text, 6):
        yield Import(found[1], found[1].rpartition(".")[2], found[2] or "", found.start())


def read_javascript(text: str) -> Iterator[Import]:
    source = _JS_FROM.search(text)
    if not source:
        return
    module = source[1]
    head = text[: source.start()]
    whole = Import(module, module.rstrip("/").rpartition("/")[2] or module)
    if "require(" in source[0] or "import(" in source[0]:
        yield from _read_require(text, head, whole)
        return
    found = False
    for braces in _JS_BRACES.finditer(head):
        for name in _JS_NAME.finditer(braces[1]):
            found = True
            alias = name[2] if name[2] and name[2] != name[1] else ""
            yield Import(module, name[1], alias, braces.start(1) + name.start())
    bare = re.sub(r"^\s*(?:import|export)\s+(?:type\s+)?", "", _JS_BRACES.sub("", head))
    for part in bare.split(","):
        star = re.match(r"\s*\*(?:\s+as\s+([\w$]+))?", part)
        if star:
            found = True
            yield Import(module, "*", star[1] or "")
        elif re.fullmatch(r"\s*[\w$]+\s*", part) and text.lstrip().startswith("import"):
            found = True
            yield Import(module, "default", part.strip())
    if not found:
        yield whole


def _read_require(text: str, head: str, whole: Import) -> Iterator[Import]:
    bound = head.rpartition("=")[0]
    braces = _JS_BRACES.search(bound)
    if braces:
        for name in _JS_NAME.finditer(braces[1]):
            yield Import(whole.module, name[1], name[2] or "", braces.start(1) + name.start())
        return
    variable = re.search(r"([\w$]+)\s*$", bound)
    alias = variable[1] if variable and variable[1] != whole.name else ""
    yield Import(whole.module, whole.name, alias)


def read_go(text: str) -> Iterator[Import]:
    if found := _GO_SPEC.search(text):
        alias = found[1] or ""
        yield Import(found[2], found[2].rpartition("/")[2], "" if alias in ("_", "import") else alias)


def read_rust(text: str) -> Iterator[Import]:
    """`use a::{b::{c, d as e}, f::*}`; a leaf is yielded at each comma and closing brace."""
    text = re.sub(r"^[^;]*?\b(?:use|crate)\s+", lambda m: " " * len(m[0]), text, count=1)
    prefixes: list[list[str]] = [[]]
    path: list[str] = []
    alias, expects_alias = "", False
    for token in [*_RUST_TOKEN.finditer(text), None]:
        word = token[0] if token else ","
        if word in (",", "}"):
            if path:
                whole = [*prefixes[-1], *path]
                whole = whole[:-1] if whole[-1] == "self" and len(whole) > 1 else whole
                module = "::".join(whole[:-1]) or whole[-1]
                yield Import(module, whole[-1], alias, max(token.start() - 1, 0) if token else 0)
            path, alias, expects_alias = [], "", False
            if word == "}" and len(prefixes) > 1:
                prefixes.pop()
        elif word == "{":
            prefixes.append([*prefixes[-1], *path])
            path = []
        elif word == "as":
            expects_alias = True
        elif expects_alias:
            alias = word
        elif word not in ("::", "r#"):
            path.append(word)


def read_swift(text: str) -> Iterator[Import]:
    """`import struct Foo.Bar`."""
    if found := re.search(r"\bimport\s+(?:(class|struct|enum|protocol|func|var|let|typealias)\s+)?([\w.]+)", text):
        module, _, name = found[2].rpartition(".")
        yield Import(module if found[1] and module else found[2], name)


def read_jvm(text: str) -> Iterator[Import]:
    """Java, Kotlin and Scala: `import a.b.C as D`, `import a.b.{C => D, E}`."""
    found = re.match(r"\s*import\s+(?:static\s+)?([\w.$`*]+?)\.?\s*(?:\{([^}]*)\}|(?:as|=>)\s+(\w+))?\s*;?\s*$", text)
    if not found:
        return
    if found[2] is not None:
        for name, alias in re.findall(r"([\w*]+)(?:\s*(?:=>|as)\s*(\w+))?", found[2]):
            yield Import(found[1], "*" if name == "_" else name, alias)
        return
    module, _, name = found[1].rpartition(".")
    yield Import(module or name, "*" if name == "_" else name, found[3] or "")


def read_csharp(text: str) -> Iterator[Import]:
    if found := re.search(r"\busing\s+(static\s+)?(?:unsafe\s+)?(?:(\w+)\s*=\s*)?([\w.:]+)", text):
        module, _, name = found[3].rpartition(".")
        yield Import(module, name, found[2]) if found[2] and module else Import(found[3], name)


def read_php(text: str) -> Iterator[Import]:
    body = re.sub(r"^\s*use\s+(?:function\s+|const\s+)?|;\s*$", "", text)
    group = re.match(r"([\w\\]+)\\\s*\{([^}]*)\}", body)
    prefix, body = (group[1], group[2]) if group else ("", body)
    for path, alias in re.findall(r"([\w\\]+)(?:\s+as\s+(\w+))?", body):
        module, _, name = path.strip("\\").rpartition("\\")
        yield Import("\\".join(filter(None, (prefix, module))) or name, name, alias)


def read_include(text: str) -> Iterator[Import]:
    """`#include <a/b.h>`, `@import UIKit;`."""
    if found := re.search(r"""[<"]([^">]+)[">]|import\s+([\w.]+)""", text):
        path = found[1] or found[2]
        yield Import(path, path.rpartition("/")[2])


def read_quoted(text: str) -> Iterator[Import]:
    """Ruby and Lua: `local x = require("a.b")`."""
    if found := re.search(r"""(?:(\w+)\s*=\s*)?\b\w+[\s(]+["']([^"']+)["']""", text):
        name = re.split(r"[./]", found[2].strip("./"))[-1]
        yield Import(found[2], name, found[1] if found[1] and found[1] != name else "")


def read_shell(text: str) -> Iterator[Import]:
    path = text.split(None, 1)[1].strip().strip("\"'") if len(text.split(None, 1)) > 1 else ""
    if path:
        yield Import(path, path.rpartition("/")[2])


def read_elixir(text: str) -> Iterator[Import]:
    """`alias App.{Item, Cache}`, `alias App.Clock, as: Time`, `import Ecto.Query, only: [from: 2]`."""
    found = re.match(r"\w+[\s(]+([\w.]*\w)(?:\.\{([^}]*)\})?", text)
    if not found:
        return
    if found[2] is not None:
        yield from (Import(f"{found[1]}.{name}", name.rpartition(".")[2]) for name in re.findall(r"[\w.]+", found[2]))
        return
    alias = re.search(r"\bas:\s*(\w+)", text)
    yield Import(found[1], found[1].rpartition(".")[2], alias[1] if alias else "")


READERS: Mapping[str, Callable[[str], Iterator[Import]]] = {
    "python": read_python,
    "javascript": read_javascript,
    "go": read_go,
    "rust": read_rust,
    "swift": read_swift,
    "jvm": read_jvm,
    "csharp": read_csharp,
    "php": read_php,
    "include": read_include,
    "quoted": read_quoted,
    "shell": read_shell,
    "elixir": read_elixir,
}
