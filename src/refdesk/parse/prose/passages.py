"""Outlines of documents, the keys of their sections, and how blocks are packed into passages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal, TypeVar

from refdesk.text import Unique, tokens

BlockKind = Literal["heading", "prose", "code", "table", "list", "html", "item"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A top-level heading: not one inside a quote, a list or a code block."""

    start: int  # its first line, counted from 0
    end: int  # the line after it
    level: int
    text: str  # without markup


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together; a `whole` block is never cut."""

    start: int
    end: int
    kind: BlockKind
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Fence:
    """A code block or a table at any level."""

    start: int
    end: int
    kind: Literal["code", "table"]
    info: str = ""  # a code block's language, a table's head


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The structure of a text; the blocks cover all lines from `body` on that are not blank."""

    lines: list[str]
    body: int = 0  # the first line after the front matter
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    fences: tuple[Fence, ...] = ()
    title: str = ""  # a title from elsewhere than a heading
    language: str = "markdown"
    facets: Mapping[str, str] = field(default_factory=dict)  # metadata of every chunk
    note: str = ""  # a problem that was found


def split_lines(text: str) -> list[str]:
    """The lines without \\n, numbered as in editors; an empty last line does not count."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def trim(lines: list[str], start: int, end: int) -> tuple[int, int]:
    """The range without leading and trailing blank lines."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, end


def text_of(lines: list[str], start: int, end: int) -> str:
    """The lines as found, without the last line's end."""
    return "\n".join(lines[start:end]).rstrip("\r\n")


def paragraphs(lines: list[str]) -> list[Block]:
    """The paragraphs: blocks between blank lines."""
    blocks: list[Block] = []
    start = 0
    for at, line in enumerate(lines):
        if not line.strip():
            if start < at:
                blocks.append(Block(start, at, "prose", whole=False))
            start = at + 1
    start, end = trim(lines, start, len(lines))
    if start < end:
        blocks.append(Block(start, end, "prose", whole=False))
    return blocks


Part = TypeVar("Part", Heading, Block, Fence)


def moved(parts: Iterable[Part], by: int) -> list[Part]:
    """The parts with their line numbers shifted."""
    return [replace(one, start=one.start + by, end=one.end + by) for one in parts] if by else list(parts)


# ── keys: the fragments of the docs contract's chunk ids ──

PREAMBLE = "_preamble"
_DROPPED = re.compile(r"[^\w\s-]|_")
_BLANKS = re.compile(r"[\s-]+")


def slug(text: str) -> str:
    """The slug of a text: lower-case letters and digits of any script, and hyphens."""
    normal = unicodedata.normalize("NFC", text).lower()
    if normal.isascii():
        kept = _DROPPED.sub("", normal)
    else:
        # Combining marks are vowels in many scripts, but \\w does not match them.
        kept = "".join(c for c in normal if c in "- " or c.isspace() or unicodedata.category(c)[0] in "LNM")
    return _BLANKS.sub("-", kept).strip("-") or "section"


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a heading: texts and slugs of its ancestors and itself."""

    texts: tuple[str, ...]
    slugs: tuple[str, ...]

    @property
    def key(self) -> str:
        return "/".join(self.slugs)


def places(headings: Iterable[Heading], title: Heading | None) -> dict[Heading, Place]:
    """The place of each heading under the document's title; equal siblings are numbered."""
    found: dict[Heading, Place] = {}
    stack: list[tuple[int, Place]] = []
    used = Unique()
    for heading in headings:
        if heading is title:
            continue
        while stack and stack[-1][0] >= heading.level:
            stack.pop()
        above = stack[-1][1] if stack else Place((), ())
        given = used.give("/".join((*above.slugs, slug(heading.text))))
        place = Place((*above.texts, heading.text), (*above.slugs, given.rpartition("/")[2]))
        stack.append((heading.level, place))
        found[heading] = place
    return found


class Keys:
    """Unique keys of sections and of their parts."""

    def __init__(self, sections: Iterable[str]) -> None:
        self._given = Unique(sections)

    def part(self, key: str, number: int) -> str:
        """The key of a part of an oversize section; the first keeps the section's own."""
        if number == 1:
            return key
        return self._given.give(f"{key}-part-{number}" if key else f"_part-{number}")


_SENTENCE_END = re.compile(r"[.!?;。！？；]\s*")
_WORD_END = re.compile(r"\s+|(?<=[,，、)\]}>])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The size limits of a piece, in units of `measure`."""

    maximum: int
    minimum: int = 0
    overlap: int = 0
    measure: Callable[[str], int] = tokens.pieces


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage: lines from 0, the end exclusive; its text is that of the lines unless it was cut."""

    start: int
    end: int
    text: str
    cut: bool = False  # a part of a line


class Sizes:
    """The sizes of line ranges; each line is measured once."""

    def __init__(self, lines: list[str], limits: Limits) -> None:
        counted = limits.measure is tokens.pieces
        bare = [line.rstrip("\r") for line in lines]
        self._counted = counted and not any("\r" in line for line in bare)  # exact, in tokens
        self._weights = [0, *accumulate(tokens.pieces_of_rows(bare) if counted else map(limits.measure, bare))]
        # Consecutive line ends are one token, but several characters.
        self._ends = [0, *accumulate(1 if line or not counted else 0 for line in bare)]

    def of(self, start: int, end: int) -> int:
        """The size of a range whose first and last lines are not blank."""
        ends = self._ends[end] - self._ends[start] - 1
        return self._weights[end] - self._weights[start] + max(0, ends)

    def tokens(self, piece: Piece) -> int:
        return tokens.pieces(piece.text) if piece.cut or not self._counted else self.of(piece.start, piece.end)


def pack(lines: list[str], blocks: Sequence[Block], limits: Limits, sizes: Sizes) -> list[Piece]:
    """Packs blocks into pieces while they fit, and merges pieces below the minimum with the one before.

    A whole block is never cut, however large.
    """
    pieces: list[Piece] = []
    pending: list[tuple[int, int]] = []
    for start, end, is_long in _atoms(lines, blocks, limits, sizes):
        if is_long:
            pieces += _cut(lines, start, pending, limits, sizes)
            pending = []
            continue
        if pending and sizes.of(pending[0][0], end) > limits.maximum:
            pieces.append(_joined(lines, pending[0][0], pending[-1][1]))
            pending = _overlap(pending, end, limits, sizes)
        pending.append((start, end))
    if pending:
        pieces.append(_joined(lines, pending[0][0], pending[-1][1]))
    merged: list[Piece] = []
    for piece in pieces:
        before = merged[-1] if merged else None
        whole = before and not (before.cut or piece.cut) and before.end <= piece.start
        if before and whole and sizes.of(piece.start, piece.end) < limits.minimum:
            merged[-1] = _joined(lines, before.start, piece.end)
        else:
            merged.append(piece)
    return merged


def _joined(lines: list[str], start: int, end: int) -> Piece:
    return Piece(start, end, text_of(lines, start, end))


def cut_line(text: str, limits: Limits, taken: int = 0) -> list[str]:
    """Cuts a long text after sentences, else after words, else anywhere; the first part is shorter by `taken`."""
    cuts: list[str] = []
    maximum = limits.maximum - taken
    begin, window = 0, maximum * 8
    while begin < len(text):
        near = text[begin : begin + window]
        weight = limits.measure(near)
        if weight <= maximum and begin + window >= len(text):
            cuts.append(near)
            break
        room = max(1, len(near) * maximum // max(1, weight)) if weight > maximum else len(near)
        while room > 1 and limits.measure(near[:room]) > maximum:
            room = room * 3 // 4
        end = room
        for pattern in (_SENTENCE_END, _WORD_END):
            if ends := [found.end() for found in pattern.finditer(near, room // 2, room)]:
                end = ends[-1]
                break
        cuts.append(near[:end])
        begin, window, maximum = begin + end, max(64, room * 2), limits.maximum
    return [cut for cut in cuts if cut.strip()]


def _cut(lines: list[str], at: int, before: list[tuple[int, int]], limits: Limits, sizes: Sizes) -> Iterator[Piece]:
    """Cuts a line that is too long; a small block before it, such as a heading, goes with the first part."""
    lead = _joined(lines, before[0][0], before[-1][1]) if before else None
    taken = sizes.of(lead.start, lead.end) + 1 if lead else 0
    if lead and taken > min(limits.minimum, limits.maximum // 2):
        yield lead
        lead, taken = None, 0
    for part in cut_line(lines[at].rstrip("\r"), limits, taken):
        if lead:
            yield Piece(lead.start, at + 1, "\n".join((*lines[lead.start : at], part)), cut=True)
            lead = None
        else:
            yield Piece(at, at + 1, part, cut=True)


def _atoms(lines: list[str], blocks: Sequence[Block], limits: Limits, sizes: Sizes) -> Iterator[tuple[int, int, bool]]:
    """Line ranges in order, and whether each is a line that must be cut."""
    for block in blocks:
        start, end = trim(lines, block.start, block.end)
        if start == end:
            continue
        if block.whole or sizes.of(start, end) <= limits.maximum:
            yield start, end, False
            continue
        for at in range(start, end):
            if lines[at].strip():
                yield at, at + 1, sizes.of(at, at + 1) > limits.maximum


def _overlap(spans: list[tuple[int, int]], coming: int, limits: Limits, sizes: Sizes) -> list[tuple[int, int]]:
    """The last spans that the next piece repeats, as many as leave room for the coming one."""
    if not limits.overlap:
        return []
    first = len(spans)
    while first > 1:
        start = spans[first - 1][0]
        if sizes.of(start, spans[-1][1]) > limits.overlap or sizes.of(start, coming) > limits.maximum:
            break
        first -= 1
    return spans[first:]
