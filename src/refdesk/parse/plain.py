"""Plain text: paragraphs put together while they fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from refdesk import tokens
from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.keys import Keys
from refdesk.parse.outline import Block, split_lines, trim
from refdesk.parse.pack import Limits, pack


class PlainParser:
    """Reads anything as lines of text."""

    def parse(self, text: str, path: str, chunking: Chunking, content_type: str = "plain_text") -> Parsed:
        """The text in pieces of whole paragraphs; lines are cut only where one alone is too long."""
        lines = split_lines(text)
        name = PurePosixPath(path).name
        return Parsed(
            title=name, content_type=content_type, text=text, chunks=plain_chunks(lines, name, chunking, content_type)
        )


def plain_chunks(
    lines: list[str], title: str, chunking: Chunking, language: str, facets: Mapping[str, str] | None = None
) -> tuple[Chunk, ...]:
    """The chunks of lines that have no other structure than blank lines between paragraphs."""
    limits = Limits(maximum=chunking.max_tokens, minimum=chunking.min_tokens, overlap=chunking.overlap_tokens)
    pieces = pack(lines, paragraphs(lines), limits)
    keys = Keys([""])
    return tuple(
        Chunk(
            text=piece.text,
            kind="file" if len(pieces) == 1 else "paragraph",
            type="prose",
            language=language,
            start_line=piece.start + 1,
            end_line=piece.end,
            tokens=tokens.count(piece.text),
            key=keys.part("", number),
            title=title,
            breadcrumb=(title,),
            metadata=facets or {},
        )
        for number, piece in enumerate(pieces, 1)
    )


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
