"""How do blocks become pieces of a bearable size?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from refdesk.text import tokens

# What is a text made of?  Headings, blocks and the code and tables within them, by lines.

BlockKind = Literal["heading", "prose", "code", "table", "list", "html", "item"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the text itself, never one inside a quote, a list or a code block."""

    start: int  # its first line, counted from 0
    end: int  # the line after it
    level: int
    text: str  # without markup


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together; only a block that is not whole may be cut."""

    start: int
    end: int
    kind: BlockKind
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Fence:
    """A code block or a table, wherever it stands."""

    start: int
    end: int
    kind: Literal["code", "table"]
    info: str = ""  # a code block's language, a table's head


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A text as its syntax divides it; the blocks cover every line from body on that is not blank."""

    lines: list[str]
    body: int = 0  # the first line after the front matter
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    fences: tuple[Fence, ...] = ()
    title: str = ""  # where something other than a heading names the document
    language: str = "markdown"
    facets: Mapping[str, str] = field(default_factory=dict)  # what every chunk carries
    note: str = ""  # what was odd


def split_lines(text: str) -> list[str]:
    """The lines without their ends' \\n, numbered as editors and grep number them; a last empty one is none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def trim(lines: list[str], start: int, end: int) -> tuple[int, int]:
    """The range without blank lines at either side."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, end


def text_of(lines: list[str], start: int, end: int) -> str:
    """The lines as found, without the last line's end."""
    return "\n".join(lines[start:end]).rstrip("\r\n")


def paragraphs(lines: list[str]) -> list[Block]:
    """What stands between blank lines."""
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


# Under which key is a section found?  The fragment of the docs contract's chunk ids.

PREAMBLE = "_preamble"
_DROPPED = re.compile(r"[^\w\s-]|_")
_BLANKS = re.compile(r"[\s-]+")


def slug(text: str) -> str:
    """Lower-case letters, digits and hyphens; those of any script."""
    normal = unicodedata.normalize("NFC", text).lower()
    if normal.isascii():
        kept = _DROPPED.sub("", normal)
    else:
        # Marks carry vowels in many scripts, though \\w leaves them out.
        kept = "".join(c for c in normal if c in "- " or c.isspace() or unicodedata.category(c)[0] in "LNM")
    return _BLANKS.sub("-", kept).strip("-") or "section"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a heading stands: its texts and slugs from the top down to its own."""

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


class Unique:
    """Names given so far; one that is wanted again gets the next free number."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        given = wanted
        number = self._next.get(wanted, 2)
        while given in self._taken:
            given, number = f"{wanted}-{number}", number + 1
        self._next[wanted] = number
        self._taken.add(given)
        return given


class Keys:
    """The keys of sections and of their parts, none given twice."""

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
    """How large a piece may be, in what `measure` counts."""

    maximum: int
    minimum: int = 0
    overlap: int = 0
    measure: Callable[[str], int] = tokens.pieces


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage: lines counted from 0, the end not included; the text is that of the lines unless it was cut."""

    start: int
    end: int
    text: str
    cut: bool = False  # a part of a line


class Sizes:
    """How large any range of lines is, each line measured once."""

    def __init__(self, lines: list[str], limits: Limits) -> None:
        counted = limits.measure is tokens.pieces
        bare = [line.rstrip("\r") for line in lines]
        self.counted = counted and not any("\r" in line for line in bare)  # in tokens, and to the last one
        self._weights = [0, *accumulate(tokens.pieces_of_rows(bare) if counted else map(limits.measure, bare))]
        # Line ends in a row are one token, but as many characters as they are.
        self._ends = [0, *accumulate(1 if line or not counted else 0 for line in bare)]

    def of(self, start: int, end: int) -> int:
        """The size of lines of which the first and the last are not blank."""
        ends = self._ends[end] - self._ends[start] - 1
        return self._weights[end] - self._weights[start] + max(0, ends)


def pack(lines: list[str], blocks: Sequence[Block], limits: Limits, sizes: Sizes) -> list[Piece]:
    """Whole blocks put together while they fit; what may not be cut stays whole however large it is."""
    pieces: list[Piece] = []
    pending: list[tuple[int, int]] = []
    for start, end, is_long in _atoms(lines, blocks, limits, sizes):
        if is_long:
            pieces += _cut(lines, start, pending, limits, sizes)
            pending = []
            continue
        if pending and sizes.of(pending[0][0], end) > limits.maximum:
            pieces.append(_piece(lines, pending))
            pending = _overlap(pending, end, limits, sizes)
        pending.append((start, end))
    if pending:
        pieces.append(_piece(lines, pending))
    return _merge_small(lines, pieces, limits, sizes)


def cut_line(text: str, limits: Limits, taken: int = 0) -> list[str]:
    """A text too long for a piece, cut after sentences, else after words, else anywhere; the first has less room."""
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
        end = _last_end(near, room)
        cuts.append(near[:end])
        begin, window, maximum = begin + end, max(64, room * 2), limits.maximum
    return [cut for cut in cuts if cut.strip()]


def _cut(lines: list[str], at: int, before: list[tuple[int, int]], limits: Limits, sizes: Sizes) -> Iterator[Piece]:
    """A line too long for a piece, in parts; what is too small to stand alone before it, as a heading, goes with the
    first of them."""
    lead = _piece(lines, before) if before else None
    taken = sizes.of(lead.start, lead.end) + 1 if lead else 0
    if lead and taken > min(limits.minimum, limits.maximum // 2):
        yield lead
        lead, taken = None, 0
    for part in cut_line(lines[at].rstrip("\r"), limits, taken):
        if lead:
            gap = "\n" * (at - lead.end + 1)
            yield Piece(lead.start, at + 1, f"{lead.text}{gap}{part}", cut=True)
            lead = None
        else:
            yield Piece(at, at + 1, part, cut=True)


def _atoms(lines: list[str], blocks: Sequence[Block], limits: Limits, sizes: Sizes) -> Iterator[tuple[int, int, bool]]:
    """Ranges in order; and whether one is a line that must be cut."""
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


def _piece(lines: list[str], spans: list[tuple[int, int]]) -> Piece:
    start, end = trim(lines, spans[0][0], spans[-1][1])
    return Piece(start, end, text_of(lines, start, end))


def _overlap(spans: list[tuple[int, int]], coming: int, limits: Limits, sizes: Sizes) -> list[tuple[int, int]]:
    """The last spans that the next piece repeats, as many as leave room for what is coming."""
    if not limits.overlap:
        return []
    last = spans[-1][1]
    kept = 0
    for at in range(len(spans) - 1, 0, -1):
        start = spans[at][0]
        if sizes.of(start, last) > limits.overlap or sizes.of(start, coming) > limits.maximum:
            break
        kept = len(spans) - at
    return spans[len(spans) - kept :]


def _merge_small(lines: list[str], pieces: list[Piece], limits: Limits, sizes: Sizes) -> list[Piece]:
    """A piece under the minimum joins the one before it, unless it is part of a line."""
    merged: list[Piece] = []
    for piece in pieces:
        before = merged[-1] if merged else None
        whole = before and not (before.cut or piece.cut) and before.end <= piece.start
        if before and whole and sizes.of(piece.start, piece.end) < limits.minimum:
            merged[-1] = Piece(before.start, piece.end, text_of(lines, before.start, piece.end))
        else:
            merged.append(piece)
    return merged


def _last_end(text: str, room: int) -> int:
    for pattern in (_SENTENCE_END, _WORD_END):
        ends = [found.end() for found in pattern.finditer(text, room // 2, room)]
        if ends:
            return ends[-1]
    return max(1, room)
