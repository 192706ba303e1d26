"""Records (json, yaml, toml, ini, csv, json lines): cut at their keys, with the key paths as titles."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath

from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.prose.passages import Limits, cut_line
from refdesk.text import Unique, tokens

# ── the entries of a record, by layout alone, so that malformed input is no problem ──

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
_MAX_NAME = 60  # characters of a key in titles and chunk keys: some are whole sentences


@dataclass(frozen=True, slots=True)
class Entry:
    """A key or an item, and its start."""

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
        documents = [at for line, at in lines if line.startswith("---")]
        before = [start] if documents and text[start : documents[0]].strip() else []
        if len(starts := before + documents) > 1:
            found = []
            for number, (at, until) in enumerate(pairwise([*starts, end]), 1):
                names = _NAMING.findall(text[at : min(until, at + 2_000)])
                found.append(Entry(_short(" ".join(name.strip() for name in names[:2])) or f"document {number}", at))
            return found
    by_indent: dict[int, list[Entry]] = {}
    block = -1  # indentation of the key whose text block is being skipped
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
        entries = by_indent.setdefault(indent, [])
        key = _YAML_KEY.match(line)
        if key and not line.lstrip().startswith("- "):
            name = next((group for group in key.groups()[1:] if group), "")
        else:
            name = _item_name(text, at, end, len(entries)) if _YAML_ITEM.match(line) else ""
        if name:
            entries.append(Entry(_short(name), comment if comment >= 0 else at))
        if re.search(r"[:-] +[|>][+-]?\d?\s*(?:#.*)?$", line):
            block = indent
        comment = -1
    return next((entries for _, entries in sorted(by_indent.items()) if len(entries) > 1), [])


def csv_rows(text: str, start: int, end: int, depth: int) -> Sequence[Entry]:
    """The rows; a quoted row over several lines is one."""
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


def _item_name(text: str, at: int, end: int, number: int) -> str:
    """The name of a list item: its number and its name or id, if it has one."""
    named = _NAMING.match(text[at : min(end, at + 200)])
    return f"{number} {_short(named[1].strip())}" if named else str(number)


def _tables(table: re.Pattern[str], text: str, start: int, end: int, depth: int) -> list[Entry]:
    """The tables or sections of a file, or the keys of one."""
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


Scan = Callable[[str, int, int, int], Sequence[Entry]]
_SCANS: Mapping[str, Scan] = {
    "json": json_entries,
    "yaml": yaml_entries,
    "toml": partial(_tables, _TOML_TABLE),
    "ini": partial(_tables, _INI_SECTION),
    "csv": csv_rows,
    "jsonl": json_lines,
}
_MAX_DEPTH = 8  # of keys; each level scans the text of its parent again
_TITLE = 80  # characters, a line
_INDENT = 400  # characters of indentation at most: a file of one line must not take quadratic time


@dataclass(frozen=True, slots=True)
class _Span:
    """Characters from start to end that hold whole entries of one parent."""

    start: int
    end: int
    size: int
    parent: tuple[str, ...]
    names: tuple[str, ...]


def parse_records(text: str, path: str, chunking: Chunking, content_type: str) -> Parsed:
    """The records in order, by layout: nothing is executed, and every character belongs to exactly one of them."""
    limits = Limits(maximum=chunking.max_tokens, minimum=chunking.min_tokens)
    spans = _spans(text, 0, len(text), (), 0, _SCANS.get(content_type, json_lines), limits)
    name = PurePosixPath(path).name
    header = text[: text.find("\n")].strip() if content_type == "csv" and "\n" in text else ""
    writer = _Writer(text, name, content_type, header, limits)
    for span in _packed(spans, limits):
        writer.write(span)
    return Parsed(title=name, content_type=content_type, text=text, chunks=tuple(writer.chunks))


def _spans(
    text: str, start: int, end: int, path: tuple[str, ...], depth: int, scan: Scan, limits: Limits, own: int = 0
) -> list[_Span]:
    """The range split at its entries, and recursively the entries that are too large.

    What precedes `own` is a bracket of the object or array around it, which is not to be read again.
    """
    # A range that is far too long is split without counting.
    size = limits.measure(text[start:end]) if end - start < limits.maximum * 24 else end - start
    whole = [_Span(start, end, size, path[:-1], path[-1:])]
    if size <= limits.maximum or depth > _MAX_DEPTH:
        return whole
    entries = scan(text, own, end, depth)
    if not entries:
        return whole
    bounds = [start]
    for entry in entries[1:]:  # from the start of its line, if only indentation precedes it
        near = max(start, entry.start - _INDENT)
        begin = text.rfind("\n", near, entry.start) + 1 or near
        bounds.append(entry.start if text[begin : entry.start].strip() else begin)
    bounds.append(end)
    found: list[_Span] = []
    for at, entry in enumerate(entries):
        inner = (*path, entry.name)
        if len(entries) == 1 and depth and entry.start <= own:
            return whole
        found += _spans(text, bounds[at], bounds[at + 1], inner, depth + 1, scan, limits, entry.start)
    return found


def _packed(spans: list[_Span], limits: Limits) -> list[_Span]:
    """Adjacent spans of one parent merged while they fit; a small one also joins one of another parent."""
    packed: list[_Span] = []
    for span in spans:
        before = packed[-1] if packed else None
        if before is None or before.size + span.size > limits.maximum:
            packed.append(span)
            continue
        is_same = before.parent == span.parent
        shorter = min(len(before.parent), len(span.parent))
        is_near = before.parent[:shorter] == span.parent[:shorter] and min(before.size, span.size) < limits.minimum
        if not is_same and not is_near:
            packed.append(span)
            continue
        names = (*before.names, *span.names) if is_same else before.names
        packed[-1] = _Span(before.start, span.end, before.size + span.size, before.parent, names)
    return packed


class _Writer:
    """Turns spans into chunks with exact lines and unique keys."""

    def __init__(self, text: str, name: str, language: str, header: str, limits: Limits) -> None:
        self._text = text
        self._name = name
        self._language = language
        self._header = header
        self._limits = limits
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._given = Unique()
        self.chunks: list[Chunk] = []

    def write(self, span: _Span) -> None:
        lead, stripped = _without_blank_lines(self._text[span.start : span.end])
        if not stripped:
            return
        start = span.start + lead
        whole = span.start == 0 and span.end == len(self._text)
        name = "/".join((*span.parent, *span.names[:1])).replace(" ", "-")
        key = "" if whole else self._given.give(name or "_records")
        if span.size <= self._limits.maximum:
            self._add(span, stripped, start, key)
            return
        for number, (at, part) in enumerate(_parts(stripped, self._limits), 1):
            suffix = f"{key}-part-{number}" if key else f"_part-{number}"
            self._add(span, part, start + at, key if number == 1 else self._given.give(suffix))

    def _add(self, span: _Span, text: str, start: int, key: str) -> None:
        title = _title(span.names)
        end = start + len(text.rstrip()) - 1
        self.chunks.append(
            Chunk(
                text=text,
                kind="file" if not key else "record",
                type="config",
                language=self._language,
                start_line=bisect_right(self._breaks, start - 1) + 1,
                end_line=bisect_right(self._breaks, max(start, end) - 1) + 1,
                tokens=tokens.pieces(text),
                key=key,
                title=title or self._name,
                breadcrumb=(self._name, *span.parent, *(span.names if len(span.names) == 1 else ())),
                signature=self._header if start else "",
            )
        )


def _without_blank_lines(text: str) -> tuple[int, str]:
    """The length of leading blank lines, and the text without leading and trailing ones."""
    body = text.rstrip()
    lead = text[: len(text) - len(text.lstrip())].rfind("\n") + 1 if body else 0
    tail = text[len(body) :].split("\n", 1)[0].rstrip("\r")
    return lead, (body + tail)[lead:] if body else ""


def _title(names: tuple[str, ...]) -> str:
    """The names joined, numbered ones as a range, cut to one line."""
    if len(names) > 1 and names[-1].rpartition(" ")[2].isdecimal() and all(name[-1:].isdecimal() for name in names[1:]):
        return f"{names[0]} – {names[-1]}"
    title = ", ".join(names)
    return title if len(title) <= _TITLE else title[: _TITLE - 1].rsplit(", ", 1)[0] + ", …"


def _parts(text: str, limits: Limits) -> list[tuple[int, str]]:
    """A value too large for one chunk, split at lines, or within a line that is too long; with offsets."""
    parts: list[tuple[int, str]] = []
    begin = at = 0
    size = 0
    for line in text.split("\n"):
        weight = limits.measure(line)
        if size and size + weight > limits.maximum:
            parts.append((begin, text[begin : at - 1]))
            begin, size = at, 0
        if weight > limits.maximum:
            offset = at
            for cut in cut_line(line, limits):
                offset = text.index(cut, offset)
                parts.append((offset, cut))
                offset += len(cut)
            begin, size = at + len(line) + 1, 0
        else:
            size += weight or 1
        at += len(line) + 1
    if begin < len(text):
        parts.append((begin, text[begin:]))
    trimmed = ((offset, *_without_blank_lines(part)) for offset, part in parts)
    return [(offset + lead, part) for offset, lead, part in trimmed if part]
