"""How do blocks become pieces of a bearable size?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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


def pack(lines: list[str], blocks: Sequence[Block], limits: Limits) -> list[Piece]:
    """Whole blocks put together while they fit; what may not be cut stays whole however large it is."""
    pieces: list[Piece] = []
    pending: list[tuple[int, int]] = []
    size = 0
    for start, end, weight, text in _atoms(lines, blocks, limits):
        gap = limits.measure("\n" * (start - pending[-1][1] + 1)) if pending else 0
        if pending and (size + gap + weight > limits.maximum or text is not None):
            pieces.append(_piece(lines, pending))
            pending, gap = _overlap(lines, pending, limits, weight), 0
            size = limits.measure(text_of(lines, pending[0][0], start)) if pending else 0
        if text is not None:
            pending, size = [], 0
            pieces.append(Piece(start, end, text, cut=True))
        else:
            pending.append((start, end))
            size += gap + weight
    if pending:
        pieces.append(_piece(lines, pending))
    return _merge_small(lines, pieces, limits)


def cut_line(text: str, limits: Limits) -> list[str]:
    """A text too long for a piece, cut after sentences, else after words, else anywhere."""
    rest, cuts = text, []
    while rest:
        weight = limits.measure(rest[: limits.maximum * 8])
        room = max(1, int(min(len(rest), limits.maximum * 8) * limits.maximum / max(1, weight)))
        if room >= len(rest) and weight <= limits.maximum:
            cuts.append(rest)
            break
        while room > 1 and limits.measure(rest[:room]) > limits.maximum:
            room = room * 3 // 4
        at = _last_end(rest, room)
        cuts.append(rest[:at])
        rest = rest[at:]
    return [cut for cut in cuts if cut.strip()]


def _atoms(lines: list[str], blocks: Sequence[Block], limits: Limits) -> Iterator[tuple[int, int, int, str | None]]:
    """Ranges with their weight, in order; with a text where it is only a part of a line."""
    for block in blocks:
        start, end = trim(lines, block.start, block.end)
        if start == end:
            continue
        weight = limits.measure(text_of(lines, start, end))
        if block.whole or weight <= limits.maximum:
            yield start, end, weight, None
            continue
        for at in range(start, end):
            weight = limits.measure(lines[at])
            if weight <= limits.maximum:
                yield at, at + 1, weight, None
            else:
                for part in cut_line(lines[at].rstrip("\r"), limits):
                    yield at, at + 1, 0, part


def _piece(lines: list[str], spans: list[tuple[int, int]]) -> Piece:
    start, end = trim(lines, spans[0][0], spans[-1][1])
    return Piece(start, end, text_of(lines, start, end))


def _overlap(lines: list[str], spans: list[tuple[int, int]], limits: Limits, coming: int) -> list[tuple[int, int]]:
    """The last spans that the next piece repeats."""
    room = min(limits.overlap, limits.maximum - coming)
    kept: list[tuple[int, int]] = []
    for start, end in reversed(spans[1:]):
        room -= limits.measure(text_of(lines, start, end))
        if room < 0:
            break
        kept.insert(0, (start, end))
    return kept


def _merge_small(lines: list[str], pieces: list[Piece], limits: Limits) -> list[Piece]:
    """A piece under the minimum joins the one before it, unless it is part of a line."""
    merged: list[Piece] = []
    for piece in pieces:
        before = merged[-1] if merged else None
        whole = before and not (before.cut or piece.cut) and before.end <= piece.start
        if before and whole and limits.measure(piece.text) < limits.minimum:
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
