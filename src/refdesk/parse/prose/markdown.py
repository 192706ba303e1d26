"""Markdown: sections by headings, with fences, tables, list items and html blocks left whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from refdesk.model import Chunking, Parsed
from refdesk.parse.prose.manifest import NO_RULES, Governing, Strategy, chunking_hint, read_front_matter
from refdesk.parse.prose.passages import (
    Block,
    BlockKind,
    Fence,
    Heading,
    Outline,
    Part,
    moved,
    paragraphs,
    split_lines,
    trim,
)
from refdesk.parse.prose.sections import cut
from refdesk.text import analyse

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

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
_NAMELESS = re.compile(r"(?:readme|index)\b|data-[0-9a-f]{12}\b", re.IGNORECASE)  # says nothing of what is in the file
_HTML_H1 = re.compile(r"<h1\b[^>]*>(.{0,500}?)</h1>", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(r"<[^>]*>")
_IMPORT = re.compile(r"import\s+(?:type\s+)?[\w*{'\"]")
_FROM = re.compile(r"(?:\bfrom|^import)\s*(['\"])[^'\"]+\1\s*;?\s*$")
_LONGEST_IMPORT = 50  # lines
_MAX_STEPS = 300_000  # a real text of 10 MB takes fewer
_ATTRIBUTES = re.compile(r"\s*(?:\{(?:\s*[#.:]|/\*)[^{}]*\}|\s#+)\s*$")


def parse_markdown(text: str, path: str, chunking: Chunking, rules: Governing = NO_RULES, title: str = "") -> Parsed:
    """The document, cut as its corpus asks or by tokens, with its front matter as metadata."""
    lines = split_lines(text)
    front = read_front_matter(lines)
    outline = read_outline(lines, _after_imports(lines, front.body))
    if not outline.blocks and not trim(lines, front.body, len(lines))[0] < len(lines):
        front, outline = replace(front, body=0), replace(outline, body=0)
    facets = rules.facets(front)
    outline = replace(outline, facets=facets)
    tops = [one.text for one in outline.headings if one.level == 1 and one.text]
    first = tops[0] if tops and (len(tops) == 1 or _is_named_after(path, tops[0])) else ""
    in_html = _HTML_H1.search(text[:5_000])  # of a page that starts with HTML, such as a readme with a logo
    first = first or (" ".join(_ANY_TAG.sub(" ", in_html[1]).split()) if in_html else "")
    title = title or front.title or first or PurePosixPath(path).stem
    strategy = front.strategy or rules.strategy
    if not front.strategy and (hint := chunking_hint(text)):
        strategy = replace(strategy or Strategy(), chunk_by=hint)
    return Parsed(
        title=title,
        content_type="markdown",
        text=text,
        chunks=cut(outline, title, chunking, strategy),
        metadata={**front.fields, **facets},
        notes=tuple(note for note in (front.problem, outline.note) if note),
    )


def _after_imports(lines: list[str], body: int) -> int:
    """The first line after the imports that an MDX page begins with: they are no text, and fill its first passage."""
    at = after = body
    while at < len(lines):
        line = lines[at].strip()
        if line.endswith("{") and _IMPORT.match(line):
            at = next((end for end in range(at, min(at + _LONGEST_IMPORT, len(lines))) if "}" in lines[end]), at)
        if line:
            if not _IMPORT.match(line) or not _FROM.search(lines[at].strip()):
                return after
            after = at + 1
        at += 1
    return body


def _is_named_after(path: str, heading: str) -> bool:
    """Whether the first of several headings is the title of the file: else it is a chapter, such as "Setup"."""
    if _NAMELESS.match(PurePosixPath(path).name):
        return True
    return not set(analyse.terms(path)).isdisjoint(analyse.terms(heading))


def read_outline(lines: list[str], body: int = 0) -> Outline:
    """The document's blocks and headings from a line on."""
    bare = [line.rstrip("\r").replace("\r", " ") for line in lines[body:]]
    try:
        parts = _parts(bare)
    except _TooIntricateError:
        found = moved(paragraphs(lines[body:]), body)
        return Outline(lines=lines, body=body, blocks=tuple(found), note="too intricate: read without its headings")
    headings, blocks, fences = moved(parts.headings, body), moved(parts.blocks, body), moved(parts.fences, body)
    covered = tuple(_with_gaps(lines, body, blocks))
    return Outline(lines=lines, body=body, headings=tuple(headings), blocks=covered, fences=tuple(fences))


class _Parts(NamedTuple):
    headings: list[Heading]
    blocks: list[Block]
    fences: list[Fence]


def _parts(lines: list[str]) -> _Parts:
    """The headings, blocks and fences of the lines: by a fast scan where possible, else by the CommonMark parser."""
    scanned = scan(lines)
    if scanned is None:
        return _parsed(lines)
    found, regions = scanned
    if regions:
        # What the scan left out is parsed at once, with a line of text between regions to end each.
        put: list[str] = []
        origin: list[int] = []
        for start, end in regions:
            put += (*lines[start:end], "", "x", "")
            origin += (*range(start, end), -1, -1, -1)
        parsed = _parsed(put)
        found.headings.extend(_back(parsed.headings, origin))
        found.blocks.extend(_back(parsed.blocks, origin))
        found.fences.extend(_back(parsed.fences, origin))
    for parts in found:
        parts.sort(key=attrgetter("start"))
    return found


def _back(parts: list[Part], origin: Sequence[int]) -> list[Part]:
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
            headings.append(Heading(start, end, int(token.tag[1]), plain_text(tokens[at + 1].content[:1000])))
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


# ── a fast scan for the simple blocks: headings, fenced code, text and simple lists ──

# A line that can only be text: it starts and ends no other block, and is no rule, table or link definition.
_TEXT = re.compile(r"(?:[^\W\d_]|[(\"'“‘]|`(?!``)|\*\*(?![*\s])|\[(?!.*\]:)|\d(?!\d{0,8}[.)](?:[ \t]|$)))")
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r"(`{3,})([^`]*)|(~{3,})(.*)")
_INDENTED_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)]) {1,4}(?=\S)")
_RULE = re.compile(r"[-*_= \t]+")
_QUOTED = re.compile(r"> ?|> {1,4}(?![`~]{3}|<)[^\s|>][^|\t]*")
_BLANKS = " \t"
_SPANS_BLANK_LINES = re.compile(r"<(?:script|pre|style|textarea|!|\?)", re.IGNORECASE)  # as HTML blocks


def scan(lines: list[str]) -> tuple[_Parts, list[tuple[int, int]]] | None:
    """The simple blocks of lines without carriage returns, and the regions of the others; None if neither is clear."""
    found = _Parts([], [], [])
    others: list[tuple[int, int]] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip(_BLANKS):
            at += 1
            continue
        end = _known(lines, at, found)
        if end is None:
            end = _region_end(lines, at)
            region = "\n".join(lines[at:end])
            if _SPANS_BLANK_LINES.search(region) or _INDENTED_FENCE.search(region):
                return None  # its code or HTML may continue after it
            others.append((at, end))
        at = end
    return found, others


def _known(lines: list[str], at: int, found: _Parts) -> int | None:
    """Records the block that starts here and returns the line after it; None if its kind is unclear."""
    line = lines[at]
    if line[0] == "#":
        heading = _HEADING.fullmatch(line)
        if heading is None or heading[2].rstrip(_BLANKS).endswith("#"):
            return None
        text = heading[2].strip(_BLANKS)
        found.headings.append(Heading(at, at + 1, len(heading[1]), plain_text(text[:1000])))
        found.blocks.append(Block(at, at + 1, "heading"))
        return at + 1
    if line[0] in "`~" and (fence := _FENCE.fullmatch(line)):
        end = _fence_end(lines, at + 1, fence[1] or fence[3])
        found.fences.append(Fence(at, end, "code", fence[2] if fence[1] else fence[4]))
        found.blocks.append(Block(at, end, "code"))
        return end
    if line[0] != ">" and _ITEM.match(line):
        return _list(lines, at, found)
    # A text, or a quote of text and lists; with other lines in it, or continued lazily, it is unclear.
    fits = _QUOTED.fullmatch if line[0] == ">" else _TEXT.match
    end = at
    while end < len(lines) and lines[end].strip(_BLANKS):
        if not fits(lines[end]):
            return None
        end += 1
    found.blocks.append(Block(at, end, "prose", whole=False))
    return end


def _list(lines: list[str], at: int, found: _Parts) -> int | None:
    """The line after a list whose items contain text, lists and fenced code; None if they contain more."""
    starts: list[int] = []
    inner: list[Fence] = []
    least = 0  # indentation of the last top-level item's lines
    inside = 0  # column of the last item's text
    end = at  # after the last line that is not blank
    while at < len(lines):
        line = lines[at]
        text = line.lstrip(" ")
        if not text.strip(_BLANKS):
            at += 1
            continue
        indent = len(line) - len(text)
        if not indent and end < at and starts and line[0] != "\t" and not _ITEM.match(line):
            break
        if "\t" in line or "|" in line or text[0] in "<>" or _RULE.fullmatch(text) or indent > inside + 3:
            return None
        if item := _ITEM.match(text):
            # Only a first item interrupts a paragraph: any other number may be its continued text.
            is_text = end == at and item[0][0].isdecimal() and not _ITEM.match(lines[at - 1].lstrip(" "))
            if indent and (indent < least or is_text):
                return None
            inside = indent + item.end()
            if not indent:
                starts.append(at)
                least = inside
            text = text[item.end() :]
            if text[0] in "`~<>#" and not _TEXT.match(text):
                return None
        elif not indent or indent < least:
            return None
        elif text[0] in "`~" and (fence := _FENCE.fullmatch(text)):
            stop = _inner_fence_end(lines, at + 1, fence[1] or fence[3], indent) if indent >= inside else None
            if stop is None:
                return None
            inner.append(Fence(at, stop, "code", fence[2] if fence[1] else fence[4]))
            at = end = stop
            continue
        at += 1
        end = at
    found.blocks.extend(Block(*span, "item") for span in zip(starts, [*starts[1:], end], strict=True))
    found.fences.extend(inner)
    return end


def _inner_fence_end(lines: list[str], at: int, marks: str, indent: int) -> int | None:
    """The line after fenced code with this indentation; None if it is not closed properly."""
    for end in range(at, len(lines)):
        line = lines[end]
        bare = line.strip(_BLANKS)
        if bare and len(line) - len(line.lstrip(" ")) < indent:
            return None
        if bare.startswith(marks) and bare.strip(marks[0]) == "":
            return end + 1 if len(line) - len(line.lstrip(" ")) == indent else None
    return None


def _fence_end(lines: list[str], at: int, marks: str) -> int:
    for end in range(at, len(lines)):
        line = lines[end]
        if marks in line:
            bare = line.strip(_BLANKS)
            if bare.strip(marks[0]) == "" and len(line) - len(line.lstrip(" ")) < 4 and line.lstrip(" ")[0] == marks[0]:
                return end + 1
    return len(lines)


def _region_end(lines: list[str], at: int) -> int:
    """The next line that starts a top-level block: unindented, after a blank line."""
    was_blank = False
    for end in range(at + 1, len(lines)):
        line = lines[end]
        if was_blank and (_TEXT.match(line) or _HEADING.fullmatch(line) or _FENCE.fullmatch(line)):
            return end
        was_blank = not line.strip(_BLANKS)
    return len(lines)
