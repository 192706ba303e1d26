"""What does Go's text say?  Which folder a package is, what a variable is made of, which methods are alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

_VERSION = re.compile(r"(?:/v\d+|\.v\d+)$")  # echo/v5, yaml.v3
_MODULE = re.compile(r'^module\s+"?([^\s"]+)', re.M)
_PACKAGE = re.compile(r"\b[A-Za-z_]\w*\.(?=[A-Za-z_])")  # of http.Request, http
_OPEN, _CLOSE = "([{", ")]}"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_TYPE = r"(?:\.\.\.|\[[^\]\n]*\]|\*|map\[[^\]\n]*\]|chan\s+|<-\s*chan\s+)*((?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*)"
_NO_TYPES = frozenset(
    [
        "any", "bool", "byte", "case", "complex128", "complex64", "default", "else", "error", "float32", "float64",
        "func", "if", "in", "int", "int16", "int32", "int64", "int8", "interface", "map", "range", "return", "rune",
        "string", "struct", "switch", "uint", "uint16", "uint32", "uint64", "uint8", "uintptr",
    ]
)  # fmt: skip


def bound_name(module: str) -> str:
    """What an import without an alias is called: the last part that is no version."""
    return _VERSION.sub("", module).rpartition("/")[2]


class Packages:
    """Finds the files that an import path means, by the go.mod above the file that imports."""

    def __init__(self, text_at: Callable[[str], str | None]) -> None:
        self._text_at = text_at
        self._modules: dict[str, tuple[str, str] | None] = {}

    def holds(self, module: str, importer: str, path: str) -> bool | None:
        """Whether the file belongs to the package that is imported; None where it can't be told."""
        there = path.rpartition("/")[0]
        home = self._module_of(importer.rpartition("/")[0])
        if home is None:  # the codebase is a part of a module: the folder's name has to do
            is_standard = "." not in module.partition("/")[0]
            return not is_standard and there.rpartition("/")[2] == bound_name(module)
        folder, name = home
        if module == name:
            return there == folder
        if module.startswith(f"{name}/"):
            return there == f"{folder}/{module[len(name) + 1 :]}".lstrip("/")
        return None

    def _module_of(self, folder: str) -> tuple[str, str] | None:
        """The folder of the nearest go.mod and the module's name."""
        if folder not in self._modules:
            text = self._text_at(f"{folder}/go.mod" if folder else "go.mod")
            named = _MODULE.search(text) if text else None
            if named:
                self._modules[folder] = (folder, named[1])
            else:
                self._modules[folder] = self._module_of(folder.rpartition("/")[0]) if folder else None
        return self._modules[folder]


def is_alike(name: str, one: str, other: str) -> bool:
    """Whether two methods of the name take and give the same, as far as their signatures show it."""
    first, second = shape(one, name), shape(other, name)
    return first is None or second is None or first == second


def shape(signature: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The types that a method takes and gives, without packages; None where the signature does not show them."""
    found = _parts(signature, name)
    return (_types(found[0]), _types(found[1])) if found else None


def _parts(signature: str, name: str) -> tuple[str, str] | None:
    """What stands in the brackets of the parameters and of the results."""
    at = re.search(rf"(?:^|[\s)]){re.escape(name)}\s*(?:\[[^\]]*\])?\(", signature)
    end = _closing(signature, at.end() - 1) if at else None
    if at is None or end is None:
        return None
    given = signature[end + 1 :].strip().removesuffix("{").strip()
    if given.startswith("(") and _closing(given, 0) == len(given) - 1:
        given = given[1:-1]
    return signature[at.end() : end], given


def _closing(text: str, at: int) -> int | None:
    depth = 0
    for number in range(at, len(text)):
        depth += (text[number] in _OPEN) - (text[number] in _CLOSE)
        if depth == 0:
            return number
    return None


def _types(text: str) -> tuple[str, ...]:
    return tuple(_plain(one) for one in _written(text))


def _written(text: str) -> list[str]:
    """The types of a list of parameters: of `a, b string, c *pkg.T`, string, string and *pkg.T."""
    parts = list(_split(text))
    if not any(_is_named(part) for part in parts):
        return parts
    found: list[str] = []
    for part in reversed(parts):  # a name without a type has that of the next
        found.append(part.partition(" ")[2] if _is_named(part) else found[-1] if found else part)
    return found[::-1]


def _is_named(part: str) -> bool:
    name, space, _ = part.partition(" ")
    return bool(space) and name.isidentifier() and name not in ("chan", "func", "interface", "map", "struct")


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for number, character in enumerate(f"{text},"):
        depth += (character in _OPEN) - (character in _CLOSE)
        if character == "," and depth == 0:
            if part := " ".join(text[start:number].split()):
                yield part
            start = number + 1


def _plain(written: str) -> str:
    return _PACKAGE.sub("", written).replace("interface{}", "any").replace(" ", "")


# --- what a function says of its variables ------------------------------------------------------------


class Origin(NamedTuple):
    """Where a variable's value comes from."""

    kind: Literal["type", "call", "value", "items"]
    name: str  # of the type or function, or a dotted value
    place: int = 0  # which of the results


def without_comments(text: str) -> str:
    return _COMMENT.sub("", text)


def origins(name: str, text: str) -> Iterator[Origin]:
    """What the text declares the variable to be, or makes it of."""
    for match in _declared(name).finditer(text):
        if match[1] not in _NO_TYPES:
            yield Origin("type", match[1])
    for match in _assigned(name).finditer(text):
        place = match["before"].count(",")
        if literal := match["literal"] or match["literal_new"]:
            yield Origin("type", literal)
        elif match["items"]:
            if place == 1:  # the first is the index
                yield Origin("items", match["items"])
        elif match["cast"]:
            if place == 0:
                yield Origin("type", match["cast"])
        elif match["call"]:
            yield Origin("call", match["call"], place)
        elif match["value"]:
            yield Origin("value", match["value"])


@lru_cache(maxsize=4096)
def _declared(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.])(?:{re.escape(name)})(?:\s*,\s*\w+)*[ \t]+{_TYPE}")


@lru_cache(maxsize=4096)
def _assigned(name: str) -> re.Pattern[str]:
    dotted = r"[A-Za-z_][\w.]*"
    return re.compile(
        rf"(?P<before>(?:\b\w+\s*,\s*)*)(?<![\w.]){re.escape(name)}(?P<after>(?:\s*,\s*\w+)*)\s*:?=\s*"
        rf"(?:range\s+(?P<items>{dotted})|new\((?P<literal_new>{dotted})\)"
        rf"|&?(?P<literal>{dotted})\{{|(?:{dotted})\.\(\*?(?P<cast>{dotted})\)"
        rf"|(?P<call>{dotted})(?:\[[^\]\n]*\])?\(|(?P<value>{dotted})\s*(?:$|[\n;}}]))"
    )


def results(signature: str, name: str) -> tuple[str, ...]:
    """The types that a function gives, with their packages, without stars and brackets."""
    found = _parts(signature, name)
    return tuple(_bare(one) for one in _written(found[1])) if found else ()


def _bare(written: str) -> str:
    match = re.match(_TYPE, written)
    return match[1] if match and match[1] not in _NO_TYPES else ""
