"""A fast scan for the simple blocks of Markdown: headings, fenced code, text and simple lists."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# A line that can only be text: it starts and ends no other block, and is no rule, table or link definition.
_TEXT = re.compile(
    r"(?:[^\W\d_]|[(\"'“‘]|`(?!``)|\*\*(?![*\s])|\[(?!.*\]:)|\d(?!\d{0,8}[.)](?:[ \t]|$)))",
)
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r"(`{3,})([^`]*)|(~{3,})(.*)")
_INDENTED_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)]) {1,4}(?=\S)")
_RULE = re.compile(r"[-*_= \t]+")
_QUOTED = re.compile(r"> ?|> {1,4}(?![`~]{3}|<)[^\s|>][^|\t]*")
_BLANKS = " \t"
_SPANS_BLANK_LINES = re.compile(r"<(?:script|pre|style|textarea|!|\?)", re.IGNORECASE)  # as HTML blocks


@dataclass(slots=True)
class Scan:
    """The lines of a text by kind; the ends of ranges are exclusive."""

    headings: list[tuple[int, int, str]] = field(default_factory=list)  # line, level, text
    fences: list[tuple[int, int, str]] = field(default_factory=list)  # with the info string
    texts: list[tuple[int, int]] = field(default_factory=list)  # and quotes that contain only text
    items: list[tuple[int, int]] = field(default_factory=list)
    inner: list[tuple[int, int, str]] = field(default_factory=list)  # fences within items
    others: list[tuple[int, int]] = field(default_factory=list)  # left to the parser


def scan(lines: list[str]) -> Scan | None:
    """Scans lines without carriage returns; None if only the parser can tell."""
    found = Scan()
    at, count = 0, len(lines)
    while at < count:
        line = lines[at]
        if not line.strip(_BLANKS):
            at += 1
            continue
        end = _known(lines, at, found)
        if end is None:
            end = _region_end(lines, at)
            if not _ends_for_sure("\n".join(lines[at:end])):
                return None
            found.others.append((at, end))
        at = end
    return found


def _known(lines: list[str], at: int, found: Scan) -> int | None:
    """Records the block that starts here and returns the line after it; None if its kind is unclear."""
    line = lines[at]
    if line[0] == "#":
        heading = _HEADING.fullmatch(line)
        if heading is None or heading[2].rstrip(_BLANKS).endswith("#"):
            return None
        found.headings.append((at, len(heading[1]), heading[2].strip(_BLANKS)))
        return at + 1
    if line[0] in "`~" and (fence := _FENCE.fullmatch(line)):
        end = _fence_end(lines, at + 1, fence[1] or fence[3])
        found.fences.append((at, end, fence[2] if fence[1] else fence[4]))
        return end
    if line[0] == ">":
        return _quote(lines, at, found)
    if _ITEM.match(line):
        return _list(lines, at, found)
    end = at
    while end < len(lines) and lines[end].strip(_BLANKS):
        if not _TEXT.match(lines[end]):
            return None
        end += 1
    found.texts.append((at, end))
    return end


def _quote(lines: list[str], at: int, found: Scan) -> int | None:
    """The line after a quote of text and lists; None if it contains more or continues lazily."""
    end = at
    while end < len(lines) and lines[end].strip(_BLANKS):
        if not _QUOTED.fullmatch(lines[end]):
            return None
        end += 1
    found.texts.append((at, end))
    return end


def _list(lines: list[str], at: int, found: Scan) -> int | None:
    """The line after a list whose items contain text, lists and fenced code; None if they contain more."""
    starts: list[int] = []
    inner: list[tuple[int, int, str]] = []
    inside = 0  # column of the last item's text
    end = at  # after the last line that is not blank
    while at < len(lines):
        line = lines[at]
        text = line.lstrip(" ")
        if not text.strip(_BLANKS):
            at += 1
            continue
        indent = len(line) - len(text)
        if not indent and end < at and starts and line[0] != "\t" and not _ITEM.match(line):
            break
        if "\t" in line or "|" in line or text[0] in "<>" or _RULE.fullmatch(text) or indent > inside + 3:
            return None
        if item := _ITEM.match(text):
            if indent and (indent < _least(lines[starts[-1]]) or _goes_on(lines, at, end, item)):
                return None
            starts += [] if indent else [at]
            inside = indent + item.end()
            text = text[item.end() :]
            if text[0] in "`~<>#" and not _TEXT.match(text):
                return None
        elif not indent or indent < _least(lines[starts[-1]]):
            return None
        elif text[0] in "`~" and (fence := _FENCE.fullmatch(text)):
            stop = _inner_fence_end(lines, at + 1, fence[1] or fence[3], indent) if indent >= inside else None
            if stop is None:
                return None
            inner.append((at, stop, fence[2] if fence[1] else fence[4]))
            at = end = stop
            continue
        at += 1
        end = at
    found.items += zip(starts, [*starts[1:], end], strict=True)
    found.inner += inner
    return end


def _goes_on(lines: list[str], at: int, end: int, item: re.Match[str]) -> bool:
    """Whether an apparent inner item may be continued text: only a first item interrupts a paragraph."""
    return end == at and item[0][0].isdecimal() and not _ITEM.match(lines[at - 1].lstrip(" "))


def _least(line: str) -> int:
    """The least indentation of an item's lines."""
    item = _ITEM.match(line)
    return item.end() if item else 0


def _inner_fence_end(lines: list[str], at: int, marks: str, indent: int) -> int | None:
    """The line after fenced code with this indentation; None if it is not closed properly."""
    for end in range(at, len(lines)):
        line = lines[end]
        bare = line.strip(_BLANKS)
        if bare and len(line) - len(line.lstrip(" ")) < indent:
            return None
        if bare.startswith(marks) and bare.strip(marks[0]) == "":
            return end + 1 if len(line) - len(line.lstrip(" ")) == indent else None
    return None


def _fence_end(lines: list[str], at: int, marks: str) -> int:
    for end in range(at, len(lines)):
        line = lines[end]
        if marks in line:
            bare = line.strip(_BLANKS)
            if bare.strip(marks[0]) == "" and len(line) - len(line.lstrip(" ")) < 4 and line.lstrip(" ")[0] == marks[0]:
                return end + 1
    return len(lines)


def _region_end(lines: list[str], at: int) -> int:
    """The next line that starts a top-level block: unindented, after a blank line."""
    was_blank = False
    for end in range(at + 1, len(lines)):
        line = lines[end]
        if not line.strip(_BLANKS):
            was_blank = True
        else:
            if was_blank and (_TEXT.match(line) or _HEADING.fullmatch(line) or _FENCE.fullmatch(line)):
                return end
            was_blank = False
    return len(lines)


def _ends_for_sure(region: str) -> bool:
    """Whether no code and no HTML of the region can continue after it."""
    return not _SPANS_BLANK_LINES.search(region) and not _INDENTED_FENCE.search(region)
