"""Turns the outline of a document into chunks, and classifies them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

from refdesk.model import Chunk, Chunking, ChunkType
from refdesk.parse.prose.manifest import Strategy
from refdesk.parse.prose.passages import (
    PREAMBLE,
    Block,
    Fence,
    Heading,
    Keys,
    Limits,
    Outline,
    Piece,
    Sizes,
    pack,
    places,
    slug,
    text_of,
    trim,
)
from refdesk.text import Unique, word_set, word_table

_start = attrgetter("start")
_TERM = re.compile(r"- (?:\*\*(.+?)\*\*|(`.+?`.*?))(?:: |:?$)")  # of a definition, as HTML is converted
_FEW_TERMS = 3

# ── the type of a passage: prose, code, api, config or cmd ──

_COMMANDS = word_set(
    "bash sh shell zsh fish console shell-session shellsession sh-session terminal cmd bat batch powershell ps1 "
    "pwsh doscon"
)
_CONFIGS = word_set(
    "yaml yml json json5 jsonc toml ini cfg conf properties env dotenv xml hcl terraform nginx apache dockerfile "
    "docker makefile"
)
_NO_CODE = word_set("text txt plain plaintext none output log mermaid diff")
_ALIASES = word_table(
    """
    python: py python3 py3 pycon ipython;  javascript: js mjs cjs node jsx;  typescript: ts tsx;  rust: rs;
    go: golang;  cpp: c++ cxx hpp;  csharp: cs c#;  kotlin: kt;  ruby: rb;  objc: objective-c objectivec;  yaml: yml;
    json: jsonc json5;  bash: sh shell zsh console shell-session shellsession sh-session terminal;  markdown: md;
    dockerfile: dockerfile docker;  powershell: ps1 pwsh;
    """
)
_SIGNATURE = re.compile(
    r"^(?:(?:async |static |public |export )*"
    r"(?:def|func|fn|function|class|struct|enum|interface|trait|type|module)\s+[\w.$]+(?:[(<:]|$)"
    r"|(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+/"
    r"|[\w.:#$]+(?:<[^>]*>)?\([^)]*\)?(?:\s*(?:->|:|=>).*)?$"
    r"|[\w$]+(?:(?:\.|::|#)[\w$]+)+$)"
)
_REFERENCE_TITLE = re.compile(
    r"\b(?:api|reference|parameters?|arguments?|options?|properties|props|methods?|attributes|returns?|signature)\b",
    re.IGNORECASE,
)
_REFERENCE_HEAD = re.compile(
    r"\b(?:parameters?|params?|arguments?|args?|options?|flags?|field|property|prop|attribute|method|type|default|"
    r"returns?|signature|required)\b",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"^[^\S\n]*+(?:\$|>|PS [^>]*>|[\w.-]+@[\w.-]+[:~ ][^$#]*[$#])\s+\S", re.MULTILINE)
_RUNNER = re.compile(
    r"^[^\S\n]*+(?:sudo |npx? |pip3? |uv |yarn |pnpm |brew |apt(?:-get)? |docker |git |cargo |"
    r"go (?:get|install|run|build) |curl |wget |make |cd |export |python3? -m )",
    re.MULTILINE,
)
_SETTING = re.compile(r"^[^\S\n]*+[\"'\w.-]++\s*+[:=]\s*\S*", re.MULTILINE)


class Kinds:
    """The type and language of any range of an outline's lines."""

    def __init__(self, outline: Outline) -> None:
        self._lines = outline.lines
        self._fences = sorted(outline.fences, key=lambda fence: fence.start)
        self._starts = [fence.start for fence in self._fences]
        self._language = outline.language

    def of(self, start: int, end: int, heading: str) -> tuple[ChunkType, str]:
        """The type and language of most of the range's characters."""
        inside = self._fences[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        sizes: Counter[tuple[ChunkType, str]] = Counter()
        tables = 0
        for fence in inside:
            size = self._size(fence.start, fence.end)
            if fence.kind == "code":
                # The first word of a fence's info string names its language.
                word = re.split(r"[\s,{:]", fence.info.strip().lstrip("{.").lower(), maxsplit=1)[0].strip(".}")
                type_: ChunkType = "cmd" if word in _COMMANDS else "config" if word in _CONFIGS else "code"
                language = "" if word in _NO_CODE else _ALIASES.get(word, word)
                sizes[type_ if word else self._guess(fence), language] += size
            elif _REFERENCE_HEAD.search(fence.info):
                tables += size
        (main, language), _ = sizes.most_common(1)[0] if sizes else (("prose", ""), 0)
        if _SIGNATURE.match(heading) or (tables and _REFERENCE_TITLE.search(heading)):
            return "api", language or self._language
        total = self._size(start, end) if inside else 0
        if tables * 2 > total:
            return "api", language or self._language
        if sizes and sum(sizes.values()) * 2 >= total:
            return main, language or self._language
        return "prose", self._language

    def _guess(self, fence: Fence) -> ChunkType:
        """The type of a code block without an info string."""
        lines = [line for line in self._lines[fence.start + 1 : fence.end - 1] if line.strip()]
        text = "\n".join(lines)
        if len(_PROMPT.findall(text)) * 4 > len(lines) or len(_RUNNER.findall(text)) * 2 > len(lines):
            return "cmd"
        return "config" if lines and len(_SETTING.findall(text)) * 10 > len(lines) * 9 else "code"

    def _size(self, start: int, end: int) -> int:
        return sum(len(line.strip()) for line in self._lines[start:end])


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
    if strategy is not None:
        refined = [part for section in refined for part in _defined(outline, section, limits, sizes)]
    elif limits.minimum:
        refined = _merge(refined, limits, sizes)
    keys = Keys(section.key for section in [*sections, *below, *refined])
    kinds = Kinds(outline)
    chunks: list[Chunk] = []
    for section in refined:
        if sizes.of(section.start, section.end) <= limits.maximum:
            pieces = [Piece(section.start, section.end, text_of(outline.lines, section.start, section.end))]
        else:
            pieces = pack(outline.lines, _within(outline.blocks, section), limits, sizes)
        heading = section.path[-1] if section.path else title
        for number, piece in enumerate(pieces, 1):
            type_, language = kinds.of(piece.start, piece.end, heading)
            chunks.append(
                Chunk(
                    text=piece.text,
                    kind=section.kind,
                    type=type_,
                    language=language,
                    start_line=piece.start + 1,
                    end_line=piece.end,
                    tokens=sizes.tokens(piece),
                    key=keys.part(section.key, number),
                    title=heading,
                    breadcrumb=(title, *section.path),
                    metadata=outline.facets,
                )
            )
    return tuple(chunks)


def title_heading(headings: Iterable[Heading]) -> Heading | None:
    """The title of the document: the first heading, if it is the only one of level 1."""
    listed = list(headings)
    if not listed or listed[0].level != 1 or sum(heading.level == 1 for heading in listed) > 1:
        return None
    return listed[0]


def limits_of(chunking: Chunking, strategy: Strategy | None) -> Limits:
    """The limits in characters if the corpus has a strategy, else in tokens."""
    if strategy:
        return Limits(maximum=strategy.max_chunk_size, minimum=strategy.min_chunk_size, measure=len)
    return Limits(maximum=chunking.max_tokens, minimum=chunking.min_tokens, overlap=chunking.overlap_tokens)


def _sections(outline: Outline, strategy: Strategy) -> tuple[list[Section], list[Section]]:
    """The sections, and those of all headings, to split a section that is too large."""
    headings, lines = outline.headings, outline.lines
    title = title_heading(headings)
    found = places(headings, title)
    level = strategy.level
    used = [heading.level for heading in headings if heading is not title]
    if strategy.chunk_by == "auto" and used:
        level = max(level, min(used))  # for a document without level 2, the next level that it uses
    # With several headings of level 1, the first is the document's, and its own text is the preamble.
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


def _refine(outline: Outline, section: Section, below: list[Section], limits: Limits, sizes: Sizes) -> list[Section]:
    """Splits an oversize section at the highest heading level within it, repeatedly."""
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


def _defined(outline: Outline, section: Section, limits: Limits, sizes: Sizes) -> list[Section]:
    """Splits an oversize section at the terms of a list that defines them, such as settings."""
    if sizes.of(section.start, section.end) <= limits.maximum:
        return [section]
    fenced = {at for fence in outline.fences for at in range(fence.start, fence.end)}
    lines = ((at, outline.lines[at]) for at in range(section.start, section.end) if at not in fenced)
    terms = [(at, found[1] or found[2]) for at, line in lines if (found := _TERM.match(line))]
    if len(terms) < _FEW_TERMS:
        return [section]
    used = Unique()
    ends = [*(at for at, _ in terms), section.end]
    parts = [replace(section, end=ends[0])]
    for (at, written), end in zip(terms, ends[1:], strict=True):
        term = " ".join(written.replace("`", "").split())
        key = used.give(f"{section.key}/{slug(term)}".lstrip("/"))
        parts.append(Section(at, end, section.level + 1, key, (*section.path, term)))
    return [one for part in parts if (one := _trimmed(outline.lines, part)).start < one.end]


def _trimmed(lines: list[str], section: Section) -> Section:
    start, end = trim(lines, section.start, section.end)
    return replace(section, start=start, end=end)


def _merge(sections: list[Section], limits: Limits, sizes: Sizes) -> list[Section]:
    """Merges sections that are too small with a neighbour, if the two fit together."""

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
            # A heading with little text introduces the next section; otherwise the first one gives the name.
            gathered[-1] = replace(section if nested else before, start=before.start, end=section.end)
    merged: list[Section] = []
    for section in gathered:
        before = merged[-1] if merged else None
        # One is below the other, or both are below the same heading.
        related = before is not None and section.path[:-1] in (before.path, before.path[:-1])
        if before is not None and small(section) and related and fit(before, section):
            merged[-1] = replace(before, end=section.end)
        elif before is not None and small(before) and fit(before, section):
            merged[-1] = replace(section, start=before.start)
        else:
            merged.append(section)
    if len(merged) == 1 and len(sections) > 1 and not is_cut(merged[0]):
        merged = [replace(merged[0], key="", path=(), kind="file", level=0)]
    return merged


def _within(blocks: Sequence[Block], section: Section) -> list[Block]:
    """The section's blocks, each extended to the next, so that no line is left out; headings join the next block."""
    inside = blocks[bisect_left(blocks, section.start, key=_start) : bisect_left(blocks, section.end, key=_start)]
    if not inside:
        return [Block(section.start, section.end, "prose", whole=False)]
    bounds = [section.start, *(block.start for block in inside[1:]), section.end]
    joined: list[Block] = []
    for block, (start, end) in zip(inside, pairwise(bounds), strict=True):
        if joined and joined[-1].kind == "heading":
            start = joined.pop().start
        joined.append(replace(block, start=start, end=end))
    return joined
