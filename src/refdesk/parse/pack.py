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
    measure: Callable[[str], int] = tokens.count


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
        counted = limits.measure is tokens.count
        bare = [line.rstrip("\r") for line in lines]
        self.counted = counted and not any("\r" in line for line in bare)  # in tokens, and to the last one
        self._weights = [0, *accumulate(tokens.count_rows(bare) if counted else map(limits.measure, bare))]
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
    for start, end, text in _atoms(lines, blocks, limits, sizes):
        if pending and (text is not None or sizes.of(pending[0][0], end) > limits.maximum):
            pieces.append(_piece(lines, pending))
            pending = _overlap(pending, end, limits, sizes)
        if text is not None:
            pending = []
            pieces.append(Piece(start, end, text, cut=True))
        else:
            pending.append((start, end))
    if pending:
        pieces.append(_piece(lines, pending))
    return _merge_small(lines, pieces, limits, sizes)


def cut_line(text: str, limits: Limits) -> list[str]:
    """A text too long for a piece, cut after sentences, else after words, else anywhere."""
    cuts: list[str] = []
    begin, window = 0, limits.maximum * 8
    while begin < len(text):
        near = text[begin : begin + window]
        weight = limits.measure(near)
        if weight <= limits.maximum and begin + window >= len(text):
            cuts.append(near)
            break
        room = max(1, len(near) * limits.maximum // max(1, weight)) if weight > limits.maximum else len(near)
        while room > 1 and limits.measure(near[:room]) > limits.maximum:
            room = room * 3 // 4
        end = _last_end(near, room)
        cuts.append(near[:end])
        begin, window = begin + end, max(64, room * 2)
    return [cut for cut in cuts if cut.strip()]


def _atoms(
    lines: list[str], blocks: Sequence[Block], limits: Limits, sizes: Sizes
) -> Iterator[tuple[int, int, str | None]]:
    """Ranges in order; with a text where it is only a part of a line."""
    for block in blocks:
        start, end = trim(lines, block.start, block.end)
        if start == end:
            continue
        if block.whole or sizes.of(start, end) <= limits.maximum:
            yield start, end, None
            continue
        for at in range(start, end):
            if not lines[at].strip():
                continue
            if sizes.of(at, at + 1) <= limits.maximum:
                yield at, at + 1, None
            else:
                for part in cut_line(lines[at].rstrip("\r"), limits):
                    yield at, at + 1, part


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
