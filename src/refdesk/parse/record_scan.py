"""Where do the entries of a record begin?  By layout alone, so that no input is too clever."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_JSON = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|//[^\n]*|/\*.*?\*/|[^\s"{}\[\],:/]+|/', re.DOTALL)
_YAML_KEY = re.compile(
    r"^( *)(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s#'\"&*!|>%@`{\[-][^\n]*?|-[^\s\n][^\n]*?)) *:(?:\s|$)"
)
_YAML_ITEM = re.compile(r"^( *)- +(.*)$|^( *)-$")
_NAMING = re.compile(
    r"""^[\s{-]*["']?(?:name|id|title|key|operationId|kind|path|uses|url)["']?\s*:\s*["']?([^"',\n}]+)""", re.M
)
_TOML_TABLE = re.compile(r"^\[\[?\s*([^\]\n]+?)\s*\]\]?\s*(?:#.*)?$")
_INI_SECTION = re.compile(r"^\s*\[([^\]\n]+)\]\s*(?:[#;].*)?$")
_ASSIGNED = re.compile(r"^\s*(?:export\s+)?([^\s#;=:\[][^=:\n]*?)\s*[=:]")
_COMMENT = re.compile(r"^\s*(?:#|;|//)")
_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class Entry:
    """A key or an item, and where it begins."""

    name: str
    start: int


def json_entries(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """The members of the first object or array in the range; comments are allowed."""
    found: list[Entry] = []
    level = count = 0
    list_like = fresh = False
    key = ""
    for token in _JSON.finditer(text, start, end):
        mark = token[0][0]
        if mark == "/" and token[0] != "/":
            continue
        if level == 1 and fresh and mark not in ",}]:":
            key = token[0].strip("\"'") if not list_like else _item_name(text, token.start(), end, count)
            found.append(Entry(_short(key), token.start()))
            fresh, count = False, count + 1
        if mark in "{[":
            level += 1
            if level == 1:
                list_like, fresh = mark == "[", True
        elif mark in "}]":
            level -= 1
            if level <= 0:
                break
        elif mark == "," and level == 1:
            fresh = True
    return found


def yaml_entries(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """The documents of a stream, else the keys or items at the least indentation that has several."""
    lines = _lines(text, start, end)
    if not depth:
        documents = [(line, at) for line, at in lines if line.startswith("---")]
        if len(documents) > 1 or (documents and text[start : documents[0][1]].strip()):
            return _documents(text, start, documents, end)
    by_indent: dict[int, list[Entry]] = {}
    block = -1  # the indentation of a key whose text block is being passed over
    comment = -1
    for line, at in lines:
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            continue
        if block >= 0 and indent > block:
            continue
        block = -1
        if _COMMENT.match(line):
            comment = at if comment < 0 else comment
            continue
        name = _yaml_name(text, line, at, end, len(by_indent.get(indent, [])))
        if name:
            by_indent.setdefault(indent, []).append(Entry(_short(name), comment if comment >= 0 else at))
        if re.search(r"[:-] +[|>][+-]?\d?\s*(?:#.*)?$", line):
            block = indent
        comment = -1
    indents = sorted(by_indent)
    return next((by_indent[indent] for indent in indents if len(by_indent[indent]) > 1), [])


def toml_entries(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """The tables of a file, the keys of a table."""
    return _tables(text, start, end, depth, _TOML_TABLE)


def ini_entries(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """The sections of a file, the keys of a section."""
    return _tables(text, start, end, depth, _INI_SECTION)


def csv_rows(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """The rows, a quoted one over several lines as one."""
    if depth:
        return []
    rows: list[Entry] = []
    quotes = 0
    for line, at in _lines(text, start, end):
        if quotes % 2 == 0 and line.strip():
            rows.append(Entry(f"row {len(rows)}" if rows else "header", at))
        quotes += line.count('"')
    return rows


def json_lines(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """One entry for each line, then the members of one."""
    if depth:
        return json_entries(text, start, end, depth)
    found: list[Entry] = []
    for line, at in _lines(text, start, end):
        if line.strip():
            found.append(Entry(_item_name(text, at, at + len(line), len(found) + 1), at))
    return found


def _lines(text: str, start: int, end: int) -> list[tuple[str, int]]:
    lines: list[tuple[str, int]] = []
    at = start
    for line in text[start:end].split("\n"):
        lines.append((line.rstrip("\r"), at))
        at += len(line) + 1
    return lines


def _documents(text: str, start: int, marks: list[tuple[str, int]], end: int) -> list[Entry]:
    starts = [at for _, at in marks]
    if text[start : starts[0]].strip():
        starts.insert(0, start)
    bounds = [*starts, end]
    found = []
    for number, at in enumerate(starts):
        names = _NAMING.findall(text[at : min(bounds[number + 1], at + 2_000)])
        found.append(Entry(_short(" ".join(name.strip() for name in names[:2])) or f"document {number + 1}", at))
    return found


def _yaml_name(text: str, line: str, at: int, end: int, number: int) -> str:
    key = _YAML_KEY.match(line)
    if key and not line.lstrip().startswith("- "):
        return next((group for group in key.groups()[1:] if group), "")
    return _item_name(text, at, end, number) if _YAML_ITEM.match(line) else ""


def _item_name(text: str, at: int, end: int, number: int) -> str:
    """An item of a list by its number and by what names it."""
    named = _NAMING.match(text[at : min(end, at + 200)])
    return f"{number} {_short(named[1].strip())}" if named else str(number)


def _tables(text: str, start: int, end: int, depth: int, table: re.Pattern[str]) -> list[Entry]:
    found: list[Entry] = []
    comment = -1
    quoted = ""
    brackets = 0
    for line, at in _lines(text, start, end):
        if quoted:
            quoted = "" if quoted in line else quoted
            continue
        head = table.match(line) if not brackets else None
        if _COMMENT.match(line):
            comment = at if comment < 0 else comment
            continue
        name = head[1] if head and not depth else ""
        if not name and not brackets and (depth or not found):
            assigned = _ASSIGNED.match(line) if not head else None
            name = assigned[1] if assigned else ""
        if name:
            found.append(Entry(_short(name), comment if comment >= 0 else at))
        comment = -1
        for mark in ('"""', "'''"):
            quoted = mark if line.count(mark) % 2 else quoted
        if not head and table is _TOML_TABLE:
            bare = re.sub(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*', "", line)
            brackets = max(0, brackets + bare.count("[") - bare.count("]"))
    return found


def _short(name: str) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= _MAX_NAME else flat[: _MAX_NAME - 1] + "…"
