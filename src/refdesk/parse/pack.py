"""How do blocks become pieces of a bearable size?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from refdesk import tokens
from refdesk.parse.outline import Block, text_of, trim

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
