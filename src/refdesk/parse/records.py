"""Records (json, yaml, toml, ini, csv, json lines): cut at their keys, with the key paths as titles."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from refdesk import tokens
from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.keys import Unique
from refdesk.parse.pack import Limits, cut_line
from refdesk.parse.record_scan import Entry, csv_rows, ini_entries, json_entries, json_lines, toml_entries, yaml_entries

Scan = Callable[[str, int, int, int], Sequence[Entry]]
_SCANS: Mapping[str, Scan] = {
    "json": json_entries,
    "yaml": yaml_entries,
    "toml": toml_entries,
    "ini": ini_entries,
    "csv": csv_rows,
    "jsonl": json_lines,
}
_MAX_DEPTH = 8
_TITLE = 80
_INDENT = 400  # as far as indentation is looked for


@dataclass(frozen=True, slots=True)
class _Span:
    """Characters from start to end that hold whole entries of one parent."""

    start: int
    end: int
    size: int
    parent: tuple[str, ...]
    names: tuple[str, ...]


class RecordsParser:
    """Reads structured data by its layout; nothing in it is executed, expanded or constructed."""

    def parse(self, text: str, path: str, chunking: Chunking, content_type: str) -> Parsed:
        """The records in order; every character belongs to exactly one of them."""
        limits = Limits(maximum=chunking.max_tokens, minimum=chunking.min_tokens)
        spans = _spans(text, 0, len(text), (), 0, _SCANS.get(content_type, json_lines), limits)
        name = PurePosixPath(path).name
        header = text[: text.find("\n")].strip() if content_type == "csv" and "\n" in text else ""
        writer = _Writer(text, name, content_type, header, limits)
        for span in _packed(spans, limits):
            writer.write(span)
        return Parsed(title=name, content_type=content_type, text=text, chunks=tuple(writer.chunks))


def _spans(
    text: str, start: int, end: int, path: tuple[str, ...], depth: int, scan: Scan, limits: Limits
) -> list[_Span]:
    """The range divided at its entries, and those too large at theirs."""
    # What is far too long is not counted only to be divided.
    size = limits.measure(text[start:end]) if end - start < limits.maximum * 24 else end - start
    whole = [_Span(start, end, size, path[:-1], path[-1:])]
    if size <= limits.maximum or depth > _MAX_DEPTH:
        return whole
    entries = scan(text, start, end, depth)
    if not entries:
        return whole
    bounds = [start, *(_line_start(text, entry.start, start) for entry in entries[1:]), end]
    found: list[_Span] = []
    for at, entry in enumerate(entries):
        inner = (*path, entry.name)
        if len(entries) == 1 and depth and entry.start <= start:
            return whole
        found += _spans(text, bounds[at], bounds[at + 1], inner, depth + 1, scan, limits)
    return found


def _line_start(text: str, at: int, floor: int) -> int:
    """Where the line begins, if nothing but indentation stands before on it."""
    near = max(floor, at - _INDENT)
    begin = text.rfind("\n", near, at) + 1
    if not begin:
        begin = floor if near == floor else at
    return begin if not text[begin:at].strip() else at


def _packed(spans: list[_Span], limits: Limits) -> list[_Span]:
    """Neighbours of one parent put together while they fit; a small one also joins a cousin."""
    packed: list[_Span] = []
    for span in spans:
        before = packed[-1] if packed else None
        fits = before is not None and before.size + span.size <= limits.maximum
        if before is None or not fits or not _related(before, span, limits):
            packed.append(span)
        else:
            names = (*before.names, *span.names) if before.parent == span.parent else before.names
            packed[-1] = _Span(before.start, span.end, before.size + span.size, before.parent, names)
    return packed


def _related(before: _Span, span: _Span, limits: Limits) -> bool:
    if before.parent == span.parent:
        return True
    shared = span.parent[: len(before.parent)] == before.parent or before.parent[: len(span.parent)] == span.parent
    return shared and min(before.size, span.size) < limits.minimum


class _Writer:
    """Turns spans into chunks with exact lines and keys given once."""

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
    """How many characters of blank lines come first, and the text without those and the last ones."""
    body = text.rstrip()
    lead = text[: len(text) - len(text.lstrip())].rfind("\n") + 1 if body else 0
    tail = text[len(body) :].split("\n", 1)[0].rstrip("\r")
    return lead, (body + tail)[lead:] if body else ""


def _title(names: tuple[str, ...]) -> str:
    """The names, numbered ones from the first to the last, no more than fit a line."""
    if len(names) > 1 and names[-1].rpartition(" ")[2].isdecimal() and all(name[-1:].isdecimal() for name in names[1:]):
        return f"{names[0]} – {names[-1]}"
    title = ", ".join(names)
    return title if len(title) <= _TITLE else title[: _TITLE - 1].rsplit(", ", 1)[0] + ", …"


def _parts(text: str, limits: Limits) -> list[tuple[int, str]]:
    """A value too large for one chunk, by lines and where a line is too long within it, with their offsets."""
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
