"""AnyParser: decodes bytes, detects their type and calls the parser of that type."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse.detect import by_name, detect, is_code
from refdesk.parse.prose.manifest import NO_RULES, Governing, ManifestSet

MAX_CHARS = 64_000_000  # of a text; eight times the default of max_file_bytes
MAX_LINE = 10_000_000  # characters; such lines are data, and cutting one takes seconds
_OFFICE = {b"%PDF-": "pdf", b"PK\x03\x04": "docx"}
_PROSE = frozenset({"markdown", "html", "rst", "notebook"})
_RECORDS = frozenset({"json", "jsonl", "yaml", "toml", "ini", "csv"})


class AnyParser:
    """The parser for all types; with manifests it cuts prose as a docs corpus asks, else by token limits."""

    def __init__(self, manifests: ManifestSet | None = None) -> None:
        self._manifests = manifests

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        """The document's text, chunks and symbols; raises ParseFailed with the reason if it has no text."""
        office = _office_type(content)
        if office:
            return self._finished(self._office(content, office, chunking), content.path)
        decoded = decode(content.data, content.charset)
        _refuse_giants(decoded.text)
        kind = detect(content.path, decoded.text, content.content_type)
        notes = decoded.notes
        try:
            parsed = self._read(decoded.text, content, kind, chunking)
        except (ParseFailed, MemoryError):
            raise
        except Exception as error:  # a parser's bug costs the structure of a file, not its text
            notes = (*notes, f"read as plain text: its parser failed: {type(error).__name__}: {error}"[:300])
            parsed = self._plain(decoded.text, content.path, kind, chunking)
        parsed = self._finished(parsed, content.path)
        return replace(parsed, notes=(*notes, *parsed.notes)) if notes else parsed

    def _read(self, text: str, content: Content, kind: str, chunking: Chunking) -> Parsed:
        """Calls the parser of the type; parsers are imported on first use."""
        path = content.path
        if kind in _PROSE:
            return self._prose(text, content, kind, chunking)
        if kind in _RECORDS:
            from refdesk.parse.records import RecordsParser

            return RecordsParser().parse(text, path, chunking, kind)
        if is_code(kind):
            from refdesk.parse.code.parser import CodeParser

            return CodeParser().parse(text, path, kind, chunking)
        return self._plain(text, path, kind, chunking)

    def _plain(self, text: str, path: str, kind: str, chunking: Chunking) -> Parsed:
        from refdesk.parse.prose.rst import PlainParser

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
        """The document with its manifest's metadata added, for formats without front matter too."""
        if not parsed.chunks:
            raise ParseFailed("nothing to read: no text was found in it")
        given = self._rules(path).metadata
        if not given or given.items() <= parsed.chunks[0].metadata.items():
            return parsed
        chunks = tuple(chunk._replace(metadata={**given, **chunk.metadata}) for chunk in parsed.chunks)
        return replace(parsed, chunks=chunks, metadata={**given, **parsed.metadata})


def _office_type(content: Content) -> str:
    """ "pdf" for PDF bytes, "docx" for a Word document that is declared as one, else ""."""
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


# UTF-32 comes first: its little-endian BOM starts with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)"""
    rb"""|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)"""
    rb"""|^[ \t\f]*(?:\#|//|/\*|;|")[^\n]{0,80}?coding[:=][ \t]*([-\w.]+)""",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = 4096  # bytes in which a charset is declared: browsers look at 1,024
_SAMPLE = 65_536  # bytes from which a charset is guessed; the guess takes .05 s for these, .8 s for a megabyte


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded text, and notes on how it was decoded."""

    text: str
    notes: tuple[str, ...] = ()


def decode(data: bytes, charset: str = "") -> Decoded:
    """The text with its line ends unchanged; raises ParseFailed for empty or binary data."""
    if not data:
        raise ParseFailed("empty file")
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _unmarked(_by_mark(data, encoding))
    wide = _wide_encoding(data)
    if wide:
        return _checked(data, wide, f"decoded as {wide}")
    if b"\0" in data:
        raise ParseFailed("binary file: it holds NUL bytes")
    try:
        return _unmarked(Decoded(data.decode("utf-8")))
    except UnicodeDecodeError:
        return _unmarked(_by_declaration(data, charset) or _by_detection(data))


def is_binary(data: bytes) -> bool:
    """Whether the first bytes are not text; UTF-16 and UTF-32 are text."""
    head = data[:_HEAD]
    if any(head.startswith(mark) for mark, _ in _MARKS):
        return False
    if b"\0" in head:
        return not _wide_encoding(head)
    controls = sum(1 for byte in head if byte < 32 and byte not in b"\t\n\r\f\x1b\b")
    return controls > len(head) // 10


def _by_mark(data: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(data.decode(encoding))
    except UnicodeDecodeError:
        text = data.decode(encoding, errors="replace")
        return Decoded(text, (f"some bytes are not {encoding.removesuffix('-sig')} and were replaced",))


def _wide_encoding(data: bytes) -> str:
    """The encoding of UTF-16 without a BOM: every other byte of mostly Latin text is NUL."""
    head = data[:_SAMPLE]
    if len(head) < 8 or len(data) % 2 or b"\0" not in head:
        return ""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > half * 0.6 and even < half * 0.02:
        return "utf-16-le"
    if even > half * 0.6 and odd < half * 0.02:
        return "utf-16-be"
    return ""


def _checked(data: bytes, encoding: str, note: str) -> Decoded:
    try:
        return _unmarked(Decoded(data.decode(encoding), (note,)))
    except UnicodeDecodeError as error:
        raise ParseFailed("binary file: it holds NUL bytes") from error


def _by_declaration(data: bytes, charset: str) -> Decoded | None:
    names = [charset] if charset else []
    for found in _DECLARED.finditer(data[:_HEAD]):
        names += [group.decode("ascii", "ignore") for group in found.groups() if group]
    for name in names:
        try:
            encoding = codecs.lookup(_browser_name(name)).name
            if encoding != "utf-8":
                return Decoded(data.decode(encoding), (f"decoded as {encoding}",))
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return None


def _browser_name(name: str) -> str:
    """The encoding that browsers use for a name: Windows-1252 for Latin-1."""
    plain = name.strip().lower().replace("_", "-")
    return "cp1252" if plain in {"iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"} else plain


def _by_detection(data: bytes) -> Decoded:
    almost = data.decode("utf-8", errors="replace")
    bad = almost.count("\ufffd")
    if bad <= max(2, len(almost) // 2000) and len(almost) > 200:
        return Decoded(almost, (f"{bad} bytes are not UTF-8 and were replaced",))
    if is_binary(data):
        raise ParseFailed("binary file")
    from charset_normalizer import from_bytes

    best = from_bytes(_whole_lines(data), threshold=0.3).best()
    if best is None:
        if sum(byte >= 128 for byte in data[:_SAMPLE]) * 3 > len(data[:_SAMPLE]):
            raise ParseFailed("unreadable encoding: neither UTF-8 nor any charset that could be guessed")
        return Decoded(data.decode("cp1252", errors="replace"), ("decoded as cp1252",))
    return Decoded(data.decode(best.encoding, errors="replace"), (f"decoded as {best.encoding}",))


def _whole_lines(data: bytes) -> bytes:
    """The sample cut at a line end, so that no character is cut."""
    if len(data) <= _SAMPLE:
        return data
    end = data.rfind(b"\n", 0, _SAMPLE)
    return data[: end + 1] if end > 0 else data[:_SAMPLE]


def _unmarked(decoded: Decoded) -> Decoded:
    """The text without its BOM; a text with bare carriage returns only gets line feeds."""
    text, notes = decoded.text.removeprefix("\ufeff"), decoded.notes
    if "\r" in text and "\n" not in text:
        text, notes = text.replace("\r", "\n"), (*notes, "old Mac line ends")
    if "\0" in text:
        raise ParseFailed("binary file: it holds NUL characters")
    if not text.strip():
        raise ParseFailed("empty file: nothing but blanks")
    return Decoded(text, notes)
