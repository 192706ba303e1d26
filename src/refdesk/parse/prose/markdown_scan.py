"""Which blocks of markdown are plain to see?  Headings, code, text and simple lists, told apart without a parser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# A line that can only be text: it begins no other block, ends none, and is no rule, table or definition of a link.
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
    """The lines of a text by what they are; all ranges are without their last line."""

    headings: list[tuple[int, int, str]] = field(default_factory=list)  # line, level, text
    fences: list[tuple[int, int, str]] = field(default_factory=list)  # with what stands behind the opening
    texts: list[tuple[int, int]] = field(default_factory=list)  # and quotes of no more than text
    items: list[tuple[int, int]] = field(default_factory=list)
    inner: list[tuple[int, int, str]] = field(default_factory=list)  # fences within items
    others: list[tuple[int, int]] = field(default_factory=list)  # for a parser; whatever is next ends them


def scan(lines: list[str]) -> Scan | None:
    """What is plain to see in lines that hold no carriage return; None where only a parser can tell."""
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
    """The line after the block that begins here, taken down; None when it is not plain which it is."""
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
    """The line after a quote of text and lists; None when it holds more, or goes on without its mark."""
    end = at
    while end < len(lines) and lines[end].strip(_BLANKS):
        if not _QUOTED.fullmatch(lines[end]):
            return None
        end += 1
    found.texts.append((at, end))
    return end


def _list(lines: list[str], at: int, found: Scan) -> int | None:
    """The line after a list whose items hold text, lists and fenced code; None when they hold more."""
    starts: list[int] = []
    inner: list[tuple[int, int, str]] = []
    inside = 0  # where the text of the last item begins, outer or inner
    end = at  # behind the last line that is not blank
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
    """Whether what looks like an inner item may be text that goes on: only a first item ends a paragraph."""
    return end == at and item[0][0].isdecimal() and not _ITEM.match(lines[at - 1].lstrip(" "))


def _least(line: str) -> int:
    """How far the lines of an item are indented at least."""
    item = _ITEM.match(line)
    return item.end() if item else 0


def _inner_fence_end(lines: list[str], at: int, marks: str, indent: int) -> int | None:
    """The line after the end of code that is indented like this; None when it does not end as it should."""
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
    """The next line that begins a block of the text itself: it stands behind a blank one, at the margin."""
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
    """Whether no code and no HTML that began in the region can go on behind it."""
    return not _SPANS_BLANK_LINES.search(region) and not _INDENTED_FENCE.search(region)
