"""Markdown: sections by headings, with fences, tables, list items and html blocks left whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from refdesk.model import Chunking, Parsed
from refdesk.parse.frontmatter import FrontMatter, chunking_hint, read_front_matter
from refdesk.parse.manifest import NO_RULES, Governing
from refdesk.parse.outline import Block, BlockKind, Fence, Heading, Outline, paragraphs, split_lines, trim
from refdesk.parse.sections import cut
from refdesk.parse.strategy import Strategy

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
# Only what HTML knows is a tag: the T of Vec<T> is not.
_TAG = re.compile(
    r"</?(?:a|b|br|i|em|strong|code|span|img|sup|sub|kbd|small|big|font|del|ins|mark|u|s|tt|abbr|picture|source|div|p"
    r"|center|badge|details|summary|svg|path|button|wbr)\b|<!--",
    re.IGNORECASE,
)
_HTML_H1 = re.compile(r"<h1\b[^>]*>(.{0,500}?)</h1>", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(r"<[^>]*>")
_MAX_STEPS = 300_000  # a text of 10 MB that somebody wrote takes fewer
_ATTRIBUTES = re.compile(r"\s*(?:\{[#.:][^{}]*\}|\s#+)\s*$")


class MarkdownParser:
    """Cuts markdown as its corpus asks, or by tokens where no corpus rules."""

    def __init__(self, rules: Governing = NO_RULES) -> None:
        self._rules = rules

    def parse(self, text: str, path: str, chunking: Chunking, title: str = "") -> Parsed:
        """The document with its front matter as metadata and one chunk or more for each section."""
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
        """The front matter's own, else the manifest's; None where no corpus rules and none was asked for."""
        if front.strategy:
            return front.strategy
        hint = chunking_hint(text)
        if hint:
            return replace(self._rules.strategy or Strategy(), chunk_by=hint)  # type: ignore[arg-type]
        return self._rules.strategy


def read_outline(lines: list[str], body: int = 0) -> Outline:
    """The document's blocks and headings from a line on."""
    source = "\n".join(line.rstrip("\r").replace("\r", " ") for line in lines[body:])
    headings: list[Heading] = []
    blocks: list[Block] = []
    fences: list[Fence] = []
    try:
        tokens = _block_parser().parse(source, {"steps": 0})
    except _TooIntricateError:
        found = [replace(one, start=one.start + body, end=one.end + body) for one in paragraphs(lines[body:])]
        return Outline(lines=lines, body=body, blocks=tuple(found), note="too intricate: read without its headings")
    for at, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map[0] + body, token.map[1] + body
        if token.type == "heading_open" and token.level == 0:
            headings.append(Heading(start, end, int(token.tag[1]), _plain(tokens[at + 1])))
        elif token.type in ("fence", "code_block"):
            fences.append(Fence(start, end, "code", token.info))
        elif token.type == "table_open":
            fences.append(Fence(start, end, "table", lines[start]))
        elif token.type == "html_block" and token.content.lstrip()[:6].lower() == "<table":
            fences.append(Fence(start, end, "table", token.content[:300]))
        if token.level and blocks and token.type in ("fence", "code_block", "table_open", "html_block"):
            blocks[-1] = replace(blocks[-1], whole=True)  # a quote that holds one is not cut either
        kind = _BLOCKS.get(token.type)
        if kind and (token.level == 0 or (token.level == 1 and token.type == "list_item_open")):
            blocks.append(Block(start, end, *kind))
    covered = tuple(_with_gaps(lines, body, blocks))
    return Outline(lines=lines, body=body, headings=tuple(headings), blocks=covered, fences=tuple(fences))


def _with_gaps(lines: list[str], body: int, blocks: list[Block]) -> Iterator[Block]:
    """The blocks, and between them the lines that are no block: definitions of links."""
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
    """A text that was made to take long, or that takes long all the same."""


@cache
def _block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    containers = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("table", "steps", _count_step, {"alt": containers})
    return parser


def _count_step(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A rule that matches nothing but stops a text of too many steps; by count, so on every machine alike."""
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
    """The heading of a page that begins with HTML, as readme files with a logo do."""
    found = _HTML_H1.search(text[:5_000])
    return " ".join(_ANY_TAG.sub(" ", found[1]).split()) if found else ""
