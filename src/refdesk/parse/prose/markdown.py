"""Markdown: sections by headings, with fences, tables, list items and html blocks left whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from refdesk.model import Chunking, Parsed
from refdesk.parse.prose.frontmatter import FrontMatter, Strategy, chunking_hint, read_front_matter
from refdesk.parse.prose.manifest import NO_RULES, Governing
from refdesk.parse.prose.markdown_scan import scan
from refdesk.parse.prose.passages import Block, BlockKind, Fence, Heading, Outline, paragraphs, split_lines, trim
from refdesk.parse.prose.sections import cut

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_BLOCKS: dict[str, tuple[BlockKind, bool]] = {
    "heading_open": ("heading", True),
    "paragraph_open": ("prose", False),
    "fence": ("code", True),
    "code_block": ("code", True),
    "table_open": ("table", True),
    "html_block": ("html", True),
    "blockquote_open": ("prose", False),
    "list_item_open": ("item", True),
    "hr": ("prose", True),
}
# Only HTML's own elements are tags: the T of Vec<T> is not.
_TAG = re.compile(
    r"</?(?:a|b|br|i|em|strong|code|span|img|sup|sub|kbd|small|big|font|del|ins|mark|u|s|tt|abbr|picture|source|div|p"
    r"|center|badge|details|summary|svg|path|button|wbr)\b|<!--",
    re.IGNORECASE,
)
_HTML_H1 = re.compile(r"<h1\b[^>]*>(.{0,500}?)</h1>", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(r"<[^>]*>")
_MAX_STEPS = 300_000  # a real text of 10 MB takes fewer
_Part = TypeVar("_Part", Heading, Block, Fence)
_ATTRIBUTES = re.compile(r"\s*(?:\{[#.:][^{}]*\}|\s#+)\s*$")


class MarkdownParser:
    """Cuts Markdown as its corpus asks, or by tokens without a corpus."""

    def __init__(self, rules: Governing = NO_RULES) -> None:
        self._rules = rules

    def parse(self, text: str, path: str, chunking: Chunking, title: str = "") -> Parsed:
        """The document with its front matter as metadata and one or more chunks for each section."""
        lines = split_lines(text)
        front = read_front_matter(lines)
        outline = read_outline(lines, front.body)
        if not outline.blocks and not trim(lines, front.body, len(lines))[0] < len(lines):
            front, outline = replace(front, body=0), replace(outline, body=0)
        facets = self._rules.facets(front)
        outline = replace(outline, facets=facets)
        title = title or front.title or _first_title(outline) or _html_title(text) or PurePosixPath(path).stem
        return Parsed(
            title=title,
            content_type="markdown",
            text=text,
            chunks=cut(outline, title, chunking, self._strategy(front, text)),
            metadata={**front.fields, **facets},
            notes=tuple(note for note in (front.problem, outline.note) if note),
        )

    def _strategy(self, front: FrontMatter, text: str) -> Strategy | None:
        """The front matter's strategy, else the manifest's; None without either."""
        if front.strategy:
            return front.strategy
        hint = chunking_hint(text)
        if hint:
            return replace(self._rules.strategy or Strategy(), chunk_by=hint)  # type: ignore[arg-type]
        return self._rules.strategy


def read_outline(lines: list[str], body: int = 0) -> Outline:
    """The document's blocks and headings from a line on."""
    bare = [line.rstrip("\r").replace("\r", " ") for line in lines[body:]]
    try:
        parts = _parts(bare)
    except _TooIntricateError:
        found = [replace(one, start=one.start + body, end=one.end + body) for one in paragraphs(lines[body:])]
        return Outline(lines=lines, body=body, blocks=tuple(found), note="too intricate: read without its headings")
    headings, blocks, fences = (_moved(some, body) for some in parts)
    covered = tuple(_with_gaps(lines, body, blocks))
    return Outline(lines=lines, body=body, headings=tuple(headings), blocks=covered, fences=tuple(fences))


class _Parts(NamedTuple):
    headings: list[Heading]
    blocks: list[Block]
    fences: list[Fence]


def _moved(parts: list[_Part], by: int) -> list[_Part]:
    return [replace(one, start=one.start + by, end=one.end + by) for one in parts] if by else parts


def _parts(lines: list[str]) -> _Parts:
    """The headings, blocks and fences of the lines: by a fast scan where possible, else by the CommonMark parser."""
    seen = scan(lines)
    if seen is None:
        return _parsed(lines)
    found = _parsed_apart(lines, seen.others)
    for at, level, text in seen.headings:
        found.headings.append(Heading(at, at + 1, level, plain_text(text[:1000])))
        found.blocks.append(Block(at, at + 1, "heading"))
    for at, end, info in seen.fences:
        found.fences.append(Fence(at, end, "code", info))
        found.blocks.append(Block(at, end, "code"))
    found.blocks.extend([Block(at, end, "prose", whole=False) for at, end in seen.texts])
    found.blocks.extend([Block(at, end, "item") for at, end in seen.items])
    found.fences.extend([Fence(at, end, "code", info) for at, end, info in seen.inner])
    found.headings.sort(key=_start)
    found.blocks.sort(key=_start)
    found.fences.sort(key=_start)
    return found


def _start(part: Heading | Block | Fence) -> int:
    return part.start


def _parsed_apart(lines: list[str], regions: Sequence[tuple[int, int]]) -> _Parts:
    """The same for regions of the lines, parsed at once with a line of text between them to end each."""
    if not regions:
        return _Parts([], [], [])
    put: list[str] = []
    origin: list[int] = []
    for start, end in regions:
        put += (*lines[start:end], "", "x", "")
        origin += (*range(start, end), -1, -1, -1)
    found = _parsed(put)
    return _Parts(_back(found.headings, origin), _back(found.blocks, origin), _back(found.fences, origin))


def _back(parts: list[_Part], origin: list[int]) -> list[_Part]:
    """The parts with their original line numbers."""
    found = []
    for one in parts:
        end = one.end
        while end > one.start and origin[end - 1] < 0:
            end -= 1
        if end > one.start:
            found.append(replace(one, start=origin[one.start], end=origin[end - 1] + 1))
    return found


def _parsed(lines: list[str]) -> _Parts:
    """The same by the CommonMark parser."""
    found = _Parts([], [], [])
    headings, blocks, fences = found
    tokens = _block_parser().parse("\n".join(lines), {"steps": 0})
    for at, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map
        if token.type == "heading_open" and token.level == 0:
            headings.append(Heading(start, end, int(token.tag[1]), _plain(tokens[at + 1])))
        elif token.type in ("fence", "code_block"):
            fences.append(Fence(start, end, "code", token.info))
        elif token.type == "table_open":
            fences.append(Fence(start, end, "table", lines[start]))
        elif token.type == "html_block" and token.content.lstrip()[:6].lower() == "<table":
            fences.append(Fence(start, end, "table", token.content[:300]))
        if token.level and blocks and token.type in ("fence", "code_block", "table_open", "html_block"):
            blocks[-1] = replace(blocks[-1], whole=True)  # a quote that contains one is not cut either
        kind = _BLOCKS.get(token.type)
        if kind and (token.level == 0 or (token.level == 1 and token.type == "list_item_open")):
            blocks.append(Block(start, end, *kind))
    return found


def _with_gaps(lines: list[str], body: int, blocks: list[Block]) -> Iterator[Block]:
    """The blocks, and the lines between them: link definitions."""
    at = body
    for block in [*blocks, Block(len(lines), len(lines), "prose")]:
        start, end = trim(lines, at, block.start)
        if start < end:
            yield Block(start, end, "prose", whole=False)
        if block.start < len(lines):
            yield block
        at = max(at, block.end)


def plain_text(markup: str) -> str:
    """Inline markdown as it reads: without emphasis, links, tags and heading attributes."""
    stripped = _ATTRIBUTES.sub("", markup)
    if not any(mark in stripped for mark in "\\`*_[&!<~"):
        return " ".join(stripped.split())
    found: list[str] = []
    for token in _inline_parser().parseInline(stripped)[0].children or []:
        if token.type in ("softbreak", "hardbreak"):
            found.append(" ")
        elif token.type != "html_inline" or not _TAG.match(token.content):
            found.append(token.content)
    return " ".join("".join(found).split())


class _TooIntricateError(Exception):
    """A text that takes too many steps to parse, by intent or not."""


@cache
def _block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    containers = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("table", "steps", _count_step, {"alt": containers})
    return parser


def _count_step(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A parser rule that only counts steps and stops at too many: the same limit on every machine."""
    state.env["steps"] += 1
    if state.env["steps"] > _MAX_STEPS:
        raise _TooIntricateError
    return False


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _plain(inline: Token) -> str:
    return plain_text(inline.content[:1000])


def _first_title(outline: Outline) -> str:
    for heading in outline.headings:
        if heading.level == 1 and heading.text:
            return heading.text
    return ""


def _html_title(text: str) -> str:
    """The heading of a page that starts with HTML, such as a readme with a logo."""
    found = _HTML_H1.search(text[:5_000])
    return " ".join(_ANY_TAG.sub(" ", found[1]).split()) if found else ""
