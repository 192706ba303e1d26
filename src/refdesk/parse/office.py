"""PDF and Word files, by the libraries of the extra `refdesk[office]`."""

from __future__ import annotations

import io
import logging
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from refdesk import tokens
from refdesk.errors import ParseFailed
from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.keys import Keys
from refdesk.parse.manifest import NO_RULES, Governing
from refdesk.parse.outline import Block, split_lines
from refdesk.parse.pack import Limits, Piece, Sizes, pack

if TYPE_CHECKING:
    from docx.document import Document as WordDocument

_INSTALL = "Install it with: pip install 'refdesk[office]'"
_MAX_PAGES = 5_000
_MAX_UNPACKED = 300_000_000


class PdfParser:
    """Reads the text of each page; pictures of text are not read."""

    def parse(self, data: bytes, path: str, chunking: Chunking) -> Parsed:
        """One chunk or more for each page; the file has no lines."""
        pages, metadata, notes = _pdf_pages(data)
        title = metadata.get("title") or PurePosixPath(path).stem
        lines = [line for page in pages for line in [*split_lines(page), ""]]
        limits = Limits(maximum=chunking.max_tokens, minimum=chunking.min_tokens, overlap=chunking.overlap_tokens)
        sizes = Sizes(lines, limits)
        keys = Keys(f"page-{number}" for number in range(1, len(pages) + 1))
        chunks: list[Chunk] = []
        start = 0
        for number, page in enumerate(pages, 1):
            end = start + len(split_lines(page)) + 1
            pieces = pack(lines, [Block(at, at + 1, "prose", whole=False) for at in range(start, end)], limits, sizes)
            start = end
            for part, piece in enumerate(pieces, 1):
                chunks.append(_page(piece, title, number, keys.part(f"page-{number}", part)))
        if not chunks:
            raise ParseFailed("nothing to read: the pdf holds pictures of text or none")
        text = "\n".join(lines).rstrip() + "\n"
        return Parsed(
            title=title, content_type="pdf", text=text, chunks=tuple(chunks), metadata=metadata, notes=tuple(notes)
        )


class WordParser:
    """Reads a document through its markdown: headings by style, tables and lists as such."""

    def __init__(self, rules: Governing = NO_RULES) -> None:
        self._rules = rules

    def parse(self, data: bytes, path: str, chunking: Chunking) -> Parsed:
        """The document cut at its headings."""
        from refdesk.parse.markdown import MarkdownParser

        document = _word_document(data)
        properties = document.core_properties
        text = "\n\n".join(_word_blocks(document)) + "\n"
        if not text.strip():
            raise ParseFailed("nothing to read: the document holds no text")
        parsed = MarkdownParser(self._rules).parse(text, path, chunking, title=(properties.title or "").strip())
        given = {"author": properties.author or "", "modified": str(properties.modified or "")}
        metadata = {**{key: value for key, value in given.items() if value}, **parsed.metadata}
        chunks = tuple(replace(chunk, start_line=0, end_line=0) for chunk in parsed.chunks)  # it has none
        return replace(parsed, content_type="docx", chunks=chunks, metadata=metadata)


def _page(piece: Piece, title: str, number: int, key: str) -> Chunk:
    return Chunk(
        text=piece.text,
        kind="page",
        type="prose",
        language="plain_text",
        start_line=0,
        end_line=0,
        tokens=tokens.pieces(piece.text),
        key=key,
        title=f"{title}, page {number}",
        breadcrumb=(title, f"Page {number}"),
        metadata={"page": str(number)},
    )


def _pdf_pages(data: bytes) -> tuple[list[str], dict[str, str], list[str]]:
    try:
        import pypdf
    except ImportError as error:
        raise ParseFailed("pdf files need an extra that is not installed.", _INSTALL) from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it would tell of every font, with all its widths
    try:
        reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise ParseFailed("the pdf is encrypted", "Save it without a password.")
        count = len(reader.pages)
        pages, bad = [], 0
        for page in reader.pages[:_MAX_PAGES]:
            try:
                pages.append(page.extract_text().replace("\0", ""))
            except Exception:  # a page's font or stream may break the library in any way
                pages.append("")
                bad += 1
        notes = [f"{bad} pages could not be read"] if bad else []
        notes += [f"only the first {_MAX_PAGES} of {count} pages were read"] if count > _MAX_PAGES else []
        return pages, _pdf_metadata(reader.metadata), notes
    except ParseFailed:
        raise
    except Exception as error:
        raise ParseFailed(f"the pdf could not be read: {type(error).__name__}: {error}"[:300]) from error


def _pdf_metadata(given: Any) -> dict[str, str]:
    names = {"/Title": "title", "/Author": "author", "/CreationDate": "published", "/ModDate": "modified"}
    found = {names[key]: str(value).strip() for key, value in (given or {}).items() if key in names}
    return {key: value for key, value in found.items() if value}


def _word_document(data: bytes) -> WordDocument:
    try:
        import docx
    except ImportError as error:
        raise ParseFailed("docx files need an extra that is not installed.", _INSTALL) from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_UNPACKED:
                raise ParseFailed("too large: the document unpacks to more than 300 MB")
        document: WordDocument = docx.Document(io.BytesIO(data))
        return document
    except ParseFailed:
        raise
    except Exception as error:
        raise ParseFailed(f"the document could not be read: {type(error).__name__}: {error}"[:300]) from error


def _word_blocks(document: WordDocument) -> Iterator[str]:
    from docx.table import Table

    listed: list[str] = []
    for item in document.iter_inner_content():
        block, in_list = ("", False) if isinstance(item, Table) else _word_paragraph(item)
        if in_list:
            listed.append(block)
            continue
        if listed:
            yield "\n".join(listed)
            listed = []
        if isinstance(item, Table):
            block = _word_table(item)
        if block:
            yield block
    if listed:
        yield "\n".join(listed)


def _word_paragraph(paragraph: Any) -> tuple[str, bool]:
    text = " ".join(paragraph.text.split())
    style = (paragraph.style.name or "") if paragraph.style is not None else ""
    if not text:
        return "", False
    if style == "Title":
        return f"# {text}", False
    if style.startswith("Heading ") and style[8:].isdecimal():
        return f"{'#' * min(6, int(style[8:]))} {text}", False
    if style.startswith("List"):
        return f"{'1.' if 'Number' in style else '-'} {text}", True
    return ("\\" + text if text.startswith(("#", ">", "```")) else text), False


def _word_table(table: Any) -> str:
    rows = [[" ".join(cell.text.split()).replace("|", "\\|") for cell in row.cells] for row in table.rows]
    rows = [row for row in rows if any(row)]
    if not rows:
        return ""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
