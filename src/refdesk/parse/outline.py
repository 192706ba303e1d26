"""What is a text made of?  Headings, blocks and the code and tables within them, by lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
