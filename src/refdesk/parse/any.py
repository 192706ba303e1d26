"""What is inside?  Decoded, detected, and read by the parser of its kind."""

from __future__ import annotations

from dataclasses import replace

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse.decode import decode
from refdesk.parse.detect import by_name, detect, is_code
from refdesk.parse.prose.manifest import NO_RULES, Governing, ManifestSet

MAX_CHARS = 64_000_000
MAX_LINE = 10_000_000
_OFFICE = {b"%PDF-": "pdf", b"PK\x03\x04": "docx"}
_PROSE = frozenset({"markdown", "html", "rst", "notebook"})
_RECORDS = frozenset({"json", "jsonl", "yaml", "toml", "ini", "csv"})


class AnyParser:
    """The parser for everything; with manifests it cuts prose as a docs corpus does, else by token limits."""

    def __init__(self, manifests: ManifestSet | None = None) -> None:
        self._manifests = manifests

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        """The document's text, chunks and symbols; ParseFailed with the reason when there is nothing to read."""
        office = _office_type(content)
        if office:
            return self._finished(self._office(content, office, chunking), content.path)
        decoded = decode(content.data, content.charset)
        _refuse_giants(decoded.text)
        kind = detect(content.path, decoded.text, content.content_type)
        parsed = self._finished(self._read(decoded.text, content, kind, chunking), content.path)
        return replace(parsed, notes=(*decoded.notes, *parsed.notes)) if decoded.notes else parsed

    def _read(self, text: str, content: Content, kind: str, chunking: Chunking) -> Parsed:
        """Each parser is loaded when the first file of its kind comes."""
        path = content.path
        if kind in _PROSE:
            return self._prose(text, content, kind, chunking)
        if kind in _RECORDS:
            from refdesk.parse.records import RecordsParser

            return RecordsParser().parse(text, path, chunking, kind)
        if is_code(kind):
            from refdesk.parse.code import CodeParser

            return CodeParser().parse(text, path, kind, chunking)
        from refdesk.parse.prose.plain import PlainParser

        return PlainParser().parse(text, path, chunking, kind, self._rules(path))

    def _prose(self, text: str, content: Content, kind: str, chunking: Chunking) -> Parsed:
        path, rules = content.path, self._rules(content.path)
        if kind == "html":
            from refdesk.parse.html.page import HtmlParser

            return HtmlParser(rules).parse(text, path, chunking, content.uri)
        if kind == "rst":
            from refdesk.parse.prose.rst import RstParser

            return RstParser(rules).parse(text, path, chunking)
        if kind == "notebook":
            from refdesk.parse.documents import NotebookParser

            return NotebookParser(rules).parse(text, path, chunking)
        from refdesk.parse.prose.markdown import MarkdownParser

        return MarkdownParser(rules).parse(text, path, chunking)

    def _office(self, content: Content, kind: str, chunking: Chunking) -> Parsed:
        from refdesk.parse.documents import PdfParser, WordParser

        if kind == "pdf":
            return PdfParser().parse(content.data, content.path, chunking)
        return WordParser(self._rules(content.path)).parse(content.data, content.path, chunking)

    def _rules(self, path: str) -> Governing:
        return self._manifests.for_path(path) if self._manifests is not None else NO_RULES

    def _finished(self, parsed: Parsed, path: str) -> Parsed:
        """The document with its manifest's metadata, also where its format has no front matter of its own."""
        if not parsed.chunks:
            raise ParseFailed("nothing to read: no text was found in it")
        given = self._rules(path).metadata
        if not given or given.items() <= parsed.chunks[0].metadata.items():
            return parsed
        chunks = tuple(replace(chunk, metadata={**given, **chunk.metadata}) for chunk in parsed.chunks)
        return replace(parsed, chunks=chunks, metadata={**given, **parsed.metadata})


def _office_type(content: Content) -> str:
    """Whether the bytes are those of a pdf or, where name or source say so, of a Word document."""
    for mark, kind in _OFFICE.items():
        if content.data.startswith(mark):
            said = by_name(content.path) == kind or "wordprocessingml" in content.content_type
            return kind if kind == "pdf" or said or content.content_type == kind else ""
    return ""


def _refuse_giants(text: str) -> None:
    if len(text) > MAX_CHARS:
        raise ParseFailed(f"too large: {len(text):,} characters", f"The limit is {MAX_CHARS:,}.")
    if len(text) > MAX_LINE:
        start = 0
        while start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            if end - start > MAX_LINE:
                raise ParseFailed(f"a single line of {end - start:,} characters")
            start = end + 1
