"""Notebooks, PDF and Word files; the latter two need the extra `refdesk[office]`."""

from __future__ import annotations

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from refdesk.errors import ParseFailed
from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.html.markdown import fence, pipes
from refdesk.parse.prose.manifest import NO_RULES, Governing
from refdesk.parse.prose.passages import Block, Keys, Limits, Sizes, pack, split_lines
from refdesk.text import analyse, tokens

if TYPE_CHECKING:
    from docx.document import Document as WordDocument


_MAX_OUTPUT_LINES = 20  # of a cell's output: what it prints is seldom searched for, and tables of data fill passages
_MAX_OUTPUT_CHARS = 2_000


def parse_notebook(text: str, path: str, chunking: Chunking, rules: Governing = NO_RULES) -> Parsed:
    """The prose, code and start of textual output of the cells as Markdown; chunks have no lines of the file."""
    from refdesk.parse.prose.markdown import parse_markdown

    parsed = parse_markdown(to_markdown(text), path, chunking, rules)
    chunks = tuple(chunk._replace(start_line=0, end_line=0) for chunk in parsed.chunks)
    return replace(parsed, content_type="notebook", chunks=chunks)


def to_markdown(text: str) -> str:
    """The cells as Markdown; raises ParseFailed if the text is not a notebook."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseFailed(f"not a notebook: {error}") from error
    cells = given.get("cells") if isinstance(given, dict) else None
    if not isinstance(cells, list):
        raise ParseFailed("not a notebook: it has no cells")
    language = "python"
    metadata = given.get("metadata")
    for part, key in (("kernelspec", "language"), ("language_info", "name")):
        found = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(found, dict) and isinstance(found.get(key), str):
            language = found[key].lower()
    blocks = [block for cell in cells if isinstance(cell, dict) for block in _blocks(cell, language)]
    if not blocks:
        raise ParseFailed("nothing to read: the notebook has no filled cells")
    return "\n\n".join(blocks) + "\n"


def _blocks(cell: Mapping[str, Any], language: str) -> list[str]:
    source = _text(cell.get("source")).strip("\n")
    if not source.strip():
        return []
    if cell.get("cell_type") != "code":
        return [source]
    outputs = [text for output in cell.get("outputs") or [] if isinstance(output, dict) for text in _output(output)]
    return [fence(source, language), *(fence(text, "text") for text in outputs)]


def _output(output: Mapping[str, Any]) -> list[str]:
    """The text of an output; images and markup are left out."""
    data = output.get("data")
    given = output.get("text") or (data.get("text/plain") if isinstance(data, dict) else None)
    if output.get("output_type") == "error":
        given = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    text = _text(given).strip("\n")[:_MAX_OUTPUT_CHARS]
    lines = text.split("\n")
    if len(lines) > _MAX_OUTPUT_LINES:
        lines = [*lines[:_MAX_OUTPUT_LINES], "…"]
    return ["\n".join(lines)] if text.strip() else []


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str)).replace("\r\n", "\n")
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


_INSTALL = "Install it with: pip install 'refdesk[office]'"
_MAX_PAGES = 5_000  # read; twenty times a long book
_MAX_UNPACKED = 300_000_000  # bytes: python-docx builds a tree of all of it, several times as large
_PDF_METADATA = {"Title": "title", "Author": "author", "CreationDate": "published", "ModDate": "modified"}
_BROKEN_WORD = re.compile("(\\w*)\ufffe(\\w*)")  # PDFium's mark for a hyphen at the end of a line


def parse_pdf(data: bytes, path: str, chunking: Chunking) -> Parsed:
    """One or more chunks for each page, without lines; scanned text is not recognised."""
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
            chunks.append(
                Chunk(
                    text=piece.text,
                    kind="page",
                    type="prose",
                    language="plain_text",
                    start_line=0,
                    end_line=0,
                    tokens=tokens.pieces(piece.text),
                    key=keys.part(f"page-{number}", part),
                    title=f"{title}, page {number}",
                    breadcrumb=(title, f"Page {number}"),
                    metadata={"page": str(number)},
                )
            )
    if not chunks:
        raise ParseFailed("nothing to read: the pdf holds pictures of text or none")
    text = "\n".join(lines).rstrip() + "\n"
    return Parsed(
        title=title, content_type="pdf", text=text, chunks=tuple(chunks), metadata=metadata, notes=tuple(notes)
    )


def parse_word(data: bytes, path: str, chunking: Chunking, rules: Governing = NO_RULES) -> Parsed:
    """A Word document as Markdown: headings by style, tables and lists."""
    from refdesk.parse.prose.markdown import parse_markdown

    document = _word_document(data)
    properties = document.core_properties
    text = "\n\n".join(_word_blocks(document)) + "\n"
    if not text.strip():
        raise ParseFailed("nothing to read: the document holds no text")
    parsed = parse_markdown(text, path, chunking, rules, title=(properties.title or "").strip())
    given = {"author": properties.author or "", "modified": str(properties.modified or "")}
    metadata = {**{key: value for key, value in given.items() if value}, **parsed.metadata}
    chunks = tuple(chunk._replace(start_line=0, end_line=0) for chunk in parsed.chunks)  # it has none
    return replace(parsed, content_type="docx", chunks=chunks, metadata=metadata)


def _pdf_pages(data: bytes) -> tuple[list[str], dict[str, str], list[str]]:
    try:
        import pypdfium2
    except ImportError as error:
        raise ParseFailed("pdf files need an extra that is not installed.", _INSTALL) from error
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise ParseFailed("the pdf is encrypted", "Save it without a password.") from error
        raise ParseFailed(f"the pdf could not be read: {error}"[:300]) from error
    with contextlib.closing(document):
        pages, bad = [], 0
        for number in range(min(len(document), _MAX_PAGES)):
            try:
                with contextlib.closing(document[number]) as page, contextlib.closing(page.get_textpage()) as text:
                    written = text.get_text_range().replace("\r\n", "\n").replace("\0", "")
                    pages.append(_BROKEN_WORD.sub(_mended, written))
            except pypdfium2.PdfiumError:
                pages.append("")
                bad += 1
        notes = [f"{bad} pages could not be read"] if bad else []
        if len(document) > _MAX_PAGES:
            notes.append(f"only the first {_MAX_PAGES} of {len(document)} pages were read")
        said: dict[str, str] = {}
        for key, name in _PDF_METADATA.items():
            with contextlib.suppress(UnicodeDecodeError):  # half a character, where a title was cut off
                said[name] = document.get_metadata_value(key).replace("\0", "").strip()
        return pages, {name: value for name, value in said.items() if value}, notes


def _mended(broken: re.Match[str]) -> str:
    """A word that was broken at the end of a line; it keeps the hyphen if it is made of words, as in four-bit."""
    first, joined = broken[1], broken[1] + broken[2]
    is_compound = analyse.is_english(first.lower()) and not analyse.is_english(joined.lower())
    return f"{first}-{broken[2]}" if is_compound else joined


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
    """Headings, paragraphs and tables as Markdown; adjacent list items are one block."""
    from docx.table import Table

    listed: list[str] = []
    for item in document.iter_inner_content():
        if isinstance(item, Table):
            rows = [[" ".join(cell.text.split()).replace("|", "\\|") for cell in row.cells] for row in item.rows]
            block = pipes(filled) if (filled := [row for row in rows if any(row)]) else ""
        else:
            block = " ".join(item.text.split())
            style = (item.style.name or "") if item.style is not None else ""
            if block and style.startswith("List"):
                listed.append(f"{'1.' if 'Number' in style else '-'} {block}")
                continue
            if block and style == "Title":
                block = f"# {block}"
            elif block and style.startswith("Heading ") and style[8:].isdecimal():
                block = f"{'#' * min(6, int(style[8:]))} {block}"
            elif block.startswith(("#", ">", "```")):
                block = f"\\{block}"
        if listed:
            yield "\n".join(listed)
            listed = []
        if block:
            yield block
    if listed:
        yield "\n".join(listed)
