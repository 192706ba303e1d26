"""Plain text, AsciiDoc and Org: paragraphs packed into passages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.prose.frontmatter import FrontMatter
from refdesk.parse.prose.manifest import NO_RULES, Governing
from refdesk.parse.prose.passages import (
    Block,
    Fence,
    Heading,
    Keys,
    Limits,
    Outline,
    Sizes,
    pack,
    paragraphs,
    split_lines,
)
from refdesk.parse.prose.sections import cut, limits_of
from refdesk.text import tokens

_ASCIIDOC = re.compile(r"^(={1,6})\s+(\S.*)$")
_ORG = re.compile(r"^(\*{1,6})\s+(?:TODO |DONE )?(\S.*)$")
_HEADINGS = {".adoc": _ASCIIDOC, ".asciidoc": _ASCIIDOC, ".org": _ORG}


class PlainParser:
    """Parses any text by its lines and paragraphs."""

    def parse(
        self, text: str, path: str, chunking: Chunking, content_type: str = "plain_text", rules: Governing = NO_RULES
    ) -> Parsed:
        """The text as chunks of whole paragraphs; only a line that is too long is cut."""
        lines = split_lines(text)
        name = PurePosixPath(path).name
        outline = _outline(lines, content_type, PurePosixPath(path).suffix.lower())
        if outline is not None:
            facets = rules.facets(FrontMatter())
            title = next((heading.text for heading in outline.headings if heading.level == 1), "") or name
            chunks = cut(replace(outline, facets=facets), title, chunking, rules.strategy)
            return Parsed(title=title, content_type=content_type, text=text, chunks=chunks, metadata=facets)
        chunks = plain_chunks(lines, name, limits_of(chunking, rules.strategy), content_type, rules.metadata)
        return Parsed(title=name, content_type=content_type, text=text, chunks=chunks, metadata=dict(rules.metadata))


def _outline(lines: list[str], content_type: str, suffix: str) -> Outline | None:
    """The outline of AsciiDoc and Org, whose headings are single lines; None for other formats."""
    heading = _HEADINGS.get(suffix)
    if heading is None or content_type != "plain_text":
        return None
    headings: list[Heading] = []
    fences: list[Fence] = []
    opened, closing = -1, ""
    for at, line in enumerate(lines):
        stripped = line.strip()
        if opened >= 0:
            if stripped.lower().startswith(closing):
                fences.append(Fence(opened, at + 1, "code"))
                opened = -1
        elif stripped in ("----", "....") or stripped.lower().startswith("#+begin_"):
            opened, closing = at, stripped if stripped[0] != "#" else "#+end_"
        elif found := heading.match(line):
            headings.append(Heading(at, at + 1, len(found[1]), found[2].strip()))
    return Outline(
        lines=lines,
        headings=tuple(headings),
        blocks=tuple(_around(lines, headings, fences)),
        fences=tuple(fences),
        language=content_type,
    )


def _around(lines: list[str], headings: list[Heading], fences: list[Fence]) -> list[Block]:
    """Paragraphs, with code blocks whole and headings separate."""
    special = {heading.start: Block(heading.start, heading.end, "heading") for heading in headings}
    special |= {fence.start: Block(fence.start, fence.end, "code") for fence in fences}
    blocks: list[Block] = []
    at = 0
    for start in [*sorted(special), len(lines)]:
        inner = paragraphs(lines[at:start])
        blocks += [replace(block, start=block.start + at, end=block.end + at) for block in inner]
        if start < len(lines):
            blocks.append(special[start])
            at = special[start].end
    return blocks


def plain_chunks(
    lines: list[str], title: str, limits: Limits, language: str, facets: Mapping[str, str] | None = None
) -> tuple[Chunk, ...]:
    """The chunks of text without structure other than paragraphs."""
    sizes = Sizes(lines, limits)
    pieces = pack(lines, paragraphs(lines), limits, sizes)
    keys = Keys([""])
    return tuple(
        Chunk(
            text=piece.text,
            kind="file" if len(pieces) == 1 else "paragraph",
            type="prose",
            language=language,
            start_line=piece.start + 1,
            end_line=piece.end,
            tokens=tokens.pieces(piece.text) if piece.cut or not sizes.counted else sizes.of(piece.start, piece.end),
            key=keys.part("", number),
            title=title,
            breadcrumb=(title,),
            metadata=facets or {},
        )
        for number, piece in enumerate(pieces, 1)
    )
