"""What is defined where the syntax is broken?  Read from the lines themselves, by keyword and indentation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

from tree_sitter import Node

from refdesk.parse.code.definitions import Definition, kind_within, rows_of
from refdesk.parse.code.lines import Lines

_KINDS = {"def": "function", "func": "function", "fn": "function", "fun": "function", "function": "function"}
_DEFINITION = re.compile(
    r"[ \t]*(?:@\w+[ \t]+)*(?:(?:[a-z]+|pub\([a-z]+\))[ \t]+){0,6}?"
    r"(def|func|fn|fun|function|class|struct|enum|interface|protocol|trait|extension|actor|object)"
    r"[ \t]+([^\W\d]\w*)[ \t]*(?=[({:<\[=;]|$|[a-z])"
)
_MAX_ROWS = 20_000


def recover(found: list[Definition], errors: Iterable[Node], lines: Lines, data: bytes) -> list[Definition]:
    """The definitions with those added that stand in the rows of syntax errors, nested anew."""
    rows = sorted({row for node in errors for row in range(*rows_of(node)) if row < lines.count})[:_MAX_ROWS]
    known = {d.start for d in found}
    starts = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]
    added = []
    for row in rows:
        match = _DEFINITION.match(lines.contents[row]) if row not in known else None
        if match is not None:
            end = _end(row, lines)
            kind = _KINDS.get(match[1], match[1])
            start_byte, line_end = starts[row], starts[row + 1] - 1
            d = Definition(kind, start_byte, min(starts[end], len(data)), row, row, end, None, match[2])
            d.head_byte, d.body_byte = start_byte, line_end
            added.append(d)
    return _nest([*found, *added]) if added else found


def _end(start: int, lines: Lines) -> int:
    """The row after a definition: the first that is not indented deeper, or the one after its closing bracket."""
    indent = _indent(lines.contents[start])
    for row in range(start + 1, lines.count):
        content = lines.contents[row]
        if content.strip() and _indent(content) <= indent and content.lstrip()[0] != "{":
            return row + 1 if content.lstrip()[0] in "})]" or content.strip() == "end" else row
    return lines.count


def _indent(content: str) -> int:
    return len(content) - len(content.lstrip())


def _nest(definitions: list[Definition]) -> list[Definition]:
    ordered = sorted(definitions, key=lambda d: (d.start_byte, -d.end_byte))
    opened: list[Definition] = []
    for d in ordered:
        while opened and opened[-1].end_byte <= d.start_byte:
            opened.pop()
        if opened and opened[-1].end_byte < d.end_byte:  # crossing ranges can't be nested
            d.end_byte, d.end = opened[-1].end_byte, max(min(d.end, opened[-1].end), d.start + 1)
        d.parent = opened[-1] if opened else None
        d.kind = kind_within(d.kind, d.parent)
        opened.append(d)
    return ordered
