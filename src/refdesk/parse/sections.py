"""Where does one passage end and the next begin?  An outline becomes chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from refdesk import tokens
from refdesk.model import Chunk, Chunking
from refdesk.parse.classify import Kinds
from refdesk.parse.keys import PREAMBLE, Keys, places
from refdesk.parse.outline import Block, Heading, Outline, text_of, trim
from refdesk.parse.pack import Limits, Piece, Sizes, pack
from refdesk.parse.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under one heading, or before the first."""

    start: int
    end: int
    level: int
    key: str
    path: tuple[str, ...]  # heading texts under the document's title
    kind: str = "section"


def cut(outline: Outline, title: str, chunking: Chunking, strategy: Strategy | None) -> tuple[Chunk, ...]:
    """The chunks in order: as the corpus asks when it has a strategy, else by the collection's token limits."""
    limits = limits_of(chunking, strategy)
    sizes = Sizes(outline.lines, limits)
    sections, below = _sections(outline, strategy or Strategy())
    refined = [part for section in sections for part in _refine(outline, section, below, limits, sizes)]
    if strategy is None and limits.minimum:
        refined = _merge(refined, limits, sizes)
    keys = Keys(section.key for section in [*sections, *below])
    kinds = Kinds(outline)
    chunks: list[Chunk] = []
    for section in refined:
        for number, piece in enumerate(_pieces(outline, section, limits, sizes), 1):
            key = keys.part(section.key, number)
            size = tokens.pieces(piece.text) if piece.cut or not sizes.counted else sizes.of(piece.start, piece.end)
            chunks.append(_chunk(outline, kinds, section, piece, key, title, size))
    return tuple(chunks)


def title_heading(headings: Iterable[Heading]) -> Heading | None:
    """The heading that is the document's title: the first, where it is the only one of level 1."""
    listed = list(headings)
    if not listed or listed[0].level != 1 or sum(heading.level == 1 for heading in listed) > 1:
        return None
    return listed[0]


def limits_of(chunking: Chunking, strategy: Strategy | None) -> Limits:
    """Characters where a corpus has a strategy, else tokens."""
    if strategy:
        return Limits(maximum=strategy.max_chunk_size, minimum=strategy.min_chunk_size, measure=len)
    return Limits(maximum=chunking.max_tokens, minimum=chunking.min_tokens, overlap=chunking.overlap_tokens)


def _sections(outline: Outline, strategy: Strategy) -> tuple[list[Section], list[Section]]:
    """The sections, and every heading's own for the case that one of them is too large."""
    headings, lines = outline.headings, outline.lines
    title = title_heading(headings)
    found = places(headings, title)
    level = _level(strategy, [heading for heading in headings if heading is not title])
    # With several headings of level 1 the first opens the document, and its own text is the preamble.
    opening = headings[0] if headings and headings[0].level == 1 and level > 1 else title
    bounds = [heading for heading in headings if heading.level <= level and heading is not opening and heading in found]
    ends = [*(heading.start for heading in bounds), len(lines)]
    first = _trimmed(lines, Section(outline.body, ends[0], 0, PREAMBLE if bounds else "", ()))
    sections = [replace(first, kind="preamble" if bounds else "file")] if first.start < first.end else []
    for heading, end in zip(bounds, ends[1:], strict=True):
        place = found[heading]
        sections.append(_trimmed(lines, Section(heading.start, end, heading.level, place.key, place.texts)))
    below = [Section(h.start, h.start, h.level, p.key, p.texts) for h, p in found.items() if h is not opening]
    return sections, below


def _level(strategy: Strategy, headings: list[Heading]) -> int:
    """The deepest level that begins a section; a document that skips level 2 is cut at what it uses instead."""
    if strategy.chunk_by != "auto" or not headings or any(heading.level <= 2 for heading in headings):
        return strategy.level
    return min(heading.level for heading in headings)


def _refine(outline: Outline, section: Section, below: list[Section], limits: Limits, sizes: Sizes) -> list[Section]:
    """An oversize section divided at the highest level of headings within it, as often as needed."""
    if sizes.of(section.start, section.end) <= limits.maximum:
        return [section]
    inner = below[bisect_right(below, section.start, key=_start) : bisect_left(below, section.end, key=_start)]
    if not inner:
        return [section]
    level = min(head.level for head in inner)
    bounds = [head for head in inner if head.level == level]
    ends = [*(head.start for head in bounds), section.end]
    parts = [replace(section, end=ends[0])]
    parts += [replace(head, end=end) for head, end in zip(bounds, ends[1:], strict=True)]
    trimmed = [_trimmed(outline.lines, part) for part in parts]
    return [one for part in trimmed if part.start < part.end for one in _refine(outline, part, inner, limits, sizes)]


def _start(item: Section | Block) -> int:
    return item.start


def _trimmed(lines: list[str], section: Section) -> Section:
    start, end = trim(lines, section.start, section.end)
    return replace(section, start=start, end=end)


def _merge(sections: list[Section], limits: Limits, sizes: Sizes) -> list[Section]:
    """Sections too small to stand alone joined with a neighbour, while the two fit together."""

    def small(section: Section) -> bool:
        return sizes.of(section.start, section.end) < limits.minimum

    def fit(first: Section, second: Section) -> bool:
        return sizes.of(first.start, second.end) <= limits.maximum

    def is_cut(section: Section) -> bool:
        return sizes.of(section.start, section.end) > limits.maximum

    gathered: list[Section] = []
    for section in sections:
        before = gathered[-1] if gathered else None
        nested = before is not None and section.path[: len(before.path)] == before.path
        joined = (
            before is not None
            and small(before)
            and ((fit(before, section) and (nested or small(section))) or (nested and is_cut(section)))
        )
        if before is None or not joined:
            gathered.append(section)
        else:
            # A heading with little under it introduces what follows; else the first of the two gives its name.
            gathered[-1] = replace(section if nested else before, start=before.start, end=section.end)
    merged: list[Section] = []
    for section in gathered:
        before = merged[-1] if merged else None
        if before is not None and small(section) and _related(before, section) and fit(before, section):
            merged[-1] = replace(before, end=section.end)
        elif before is not None and small(before) and fit(before, section):
            merged[-1] = replace(section, start=before.start)
        else:
            merged.append(section)
    if len(merged) == 1 and len(sections) > 1 and not is_cut(merged[0]):
        merged = [replace(merged[0], key="", path=(), kind="file", level=0)]
    return merged


def _related(before: Section, section: Section) -> bool:
    """Whether one is below the other, or both below the same."""
    return section.path[:-1] in (before.path, before.path[:-1])


def _pieces(outline: Outline, section: Section, limits: Limits, sizes: Sizes) -> list[Piece]:
    if sizes.of(section.start, section.end) <= limits.maximum:
        return [Piece(section.start, section.end, text_of(outline.lines, section.start, section.end))]
    return pack(outline.lines, _with_heading(_within(outline.blocks, section)), limits, sizes)


def _within(blocks: Sequence[Block], section: Section) -> list[Block]:
    """The section's blocks, each reaching to the next so that no line is between them."""
    inside = blocks[bisect_left(blocks, section.start, key=_start) : bisect_left(blocks, section.end, key=_start)]
    if not inside:
        return [Block(section.start, section.end, "prose", whole=False)]
    bounds = [section.start, *(block.start for block in inside[1:]), section.end]
    return [replace(block, start=a, end=b) for block, (a, b) in zip(inside, pairwise(bounds), strict=True)]


def _with_heading(blocks: list[Block]) -> list[Block]:
    """The blocks, a heading, or several of them, glued to the block they introduce."""
    glued: list[Block] = []
    for block in blocks:
        if glued and glued[-1].kind == "heading":
            glued[-1] = replace(block, start=glued[-1].start)
        else:
            glued.append(block)
    return glued


def _chunk(outline: Outline, kinds: Kinds, section: Section, piece: Piece, key: str, title: str, size: int) -> Chunk:
    heading = section.path[-1] if section.path else title
    type_, language = kinds.of(piece.start, piece.end, heading)
    return Chunk(
        text=piece.text,
        kind=section.kind,
        type=type_,
        language=language,
        start_line=piece.start + 1,
        end_line=piece.end,
        tokens=size,
        key=key,
        title=heading,
        breadcrumb=(title, *section.path),
        metadata=outline.facets,
    )
