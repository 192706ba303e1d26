"""Where is a text cut that is too long for one answer, and which part is asked for?"""

from __future__ import annotations

import re

from refdesk.tokens import count
from refdesk.toolsets.budget import READ

_PART_TOKENS = 18_000  # clients cut an answer at 25,000
_LONGEST_LINE = 20_000  # characters; a longer line is cut
_HEADING = re.compile(r"#{1,6} ")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def address_and_number(text: str, mark: str, first: int = 1) -> tuple[str, int]:
    """The address before `#mark=N` and that N; the first where there is none."""
    found = re.fullmatch(rf"(.*)#{mark}=(\d{{1,9}})", text.strip(), re.DOTALL)
    return (found[1], int(found[2])) if found else (text.strip(), first)


def parts_of(text: str) -> list[str]:
    """The text in parts that joined give it again; cut before headings where that makes no part small."""
    if count(text) <= READ:
        return [text]
    parts: list[str] = []
    part: list[str] = []
    sizes: list[int] = []
    total = 0
    for line in _lines(text):
        size = count(line)
        if part and total + size > _PART_TOKENS:
            cut = _best_cut(part, sizes)
            parts.append("".join(part[:cut]))
            part, sizes = part[cut:], sizes[cut:]
            total = sum(sizes)
        part.append(line)
        sizes.append(size)
        total += size
    return [*parts, "".join(part)]


def _lines(text: str) -> list[str]:
    return [
        line[start : start + _LONGEST_LINE]
        for line in text.splitlines(keepends=True)
        for start in range(0, len(line), _LONGEST_LINE)
    ]


def _best_cut(lines: list[str], sizes: list[int]) -> int:
    """How many lines to take: up to the last heading in the second half, else paragraph, outside of code."""
    heading = blank = 0
    fence = ""
    after_heading = False  # a heading right below another one is no place to cut
    taken, half = 0, sum(sizes) // 2
    for number, line in enumerate(lines):
        if taken > half and not fence:
            if _HEADING.match(line):
                heading = heading if after_heading else number
            elif not line.strip():
                blank = number + 1
        if line.strip():
            after_heading = not fence and _HEADING.match(line) is not None
        marked = _FENCE.match(line)
        if marked and not fence:
            fence = marked[1]
        elif marked and marked[1].startswith(fence):
            fence = ""
        taken += sizes[number]
    return heading or blank or len(lines)
