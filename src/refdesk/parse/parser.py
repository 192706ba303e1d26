"""AnyParser: decodes bytes, detects their type and calls the parser of that type."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse.detect import by_name, detect, is_code

if TYPE_CHECKING:
    from refdesk.parse.prose.manifest import Governing, ManifestSet

VERSION = "2"  # of what is made of a file; the next index run of a folder reads all of it again if this has changed
MAX_CHARS = 64_000_000  # of a text; eight times the default of max_file_bytes
MAX_LINE = 10_000_000  # characters; such lines are data, and cutting one takes seconds
_MOST_TAGS = 5_000  # that the grammar of HTML reads: its time grows with their square if none is closed, .4 s for 8,000
_ZIPPED = {"docx": "wordprocessingml", "epub": "epub+zip"}  # and what their media types say
_PROSE = frozenset({"markdown", "rst", "notebook"})
_RECORDS = frozenset({"json", "jsonl", "yaml", "toml", "ini", "csv"})


class AnyParser:
    """The parser for all types; with manifests it cuts prose as a docs corpus asks, else by token limits.

    Among sources, templates of pages and pages without text are read as code.
    """

    def __init__(self, manifests: ManifestSet | None = None, *, is_source: bool = False) -> None:
        self._manifests = manifests
        self._is_source = is_source

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        """The document's text, chunks and symbols; raises ParseFailed with the reason if it has no text."""
        path = content.path
        rules = self._manifests.for_path(path) if self._manifests is not None else None
        if office := _office_type(content):
            parsed = _parse_binary(content, office, chunking, _given(rules))
        else:
            decoded = decode(content.data, content.charset)
            text, notes = decoded.text, decoded.notes
            if len(text) > MAX_CHARS:
                raise ParseFailed(f"too large: {len(text):,} characters", f"The limit is {MAX_CHARS:,}.")
            if len(text) > MAX_LINE and (longest := max(map(len, text.split("\n")))) > MAX_LINE:
                raise ParseFailed(f"a single line of {longest:,} characters")
            kind = detect(path, text, content.content_type)
            notes = () if kind == "mail" else notes  # its parts have charsets of their own
            try:
                parsed = _parse_text(text, content, kind, chunking, rules, self._is_source)
            except (ParseFailed, MemoryError):
                raise
            except Exception as error:  # a parser's bug costs the structure of a file, not its text
                notes = (*notes, f"read as plain text: its parser failed: {type(error).__name__}: {error}"[:300])
                parsed = _parse_prose(text, content, kind, chunking, rules, is_plain=True)
            parsed = replace(parsed, notes=(*notes, *parsed.notes)) if notes else parsed
        if not parsed.chunks:
            raise ParseFailed("nothing to read: no text was found in it")
        given = rules.metadata if rules is not None else {}  # formats without front matter get it too
        if given.items() <= parsed.chunks[0].metadata.items():
            return parsed
        chunks = tuple(chunk._replace(metadata={**given, **chunk.metadata}) for chunk in parsed.chunks)
        return replace(parsed, chunks=chunks, metadata={**given, **parsed.metadata})


def _parse_binary(content: Content, kind: str, chunking: Chunking, rules: Governing) -> Parsed:
    if kind == "epub":
        from refdesk.parse.epub import parse_epub

        return parse_epub(content.data, content.path, chunking, rules)
    from refdesk.parse.documents import parse_pdf, parse_word

    if kind == "pdf":
        return parse_pdf(content.data, content.path, chunking)
    return parse_word(content.data, content.path, chunking, rules)


def _parse_text(
    text: str, content: Content, kind: str, chunking: Chunking, rules: Governing | None, is_source: bool
) -> Parsed:
    """Calls the parser of the type; parsers are imported on first use."""
    path = content.path
    if kind == "html":
        from refdesk.parse.html.page import is_template, parse_html

        try:
            if not (is_source and is_template(text)):
                return parse_html(text, path, chunking, content.uri, _given(rules))
        except ParseFailed:
            if not is_source:
                raise
        if text.count("<") > _MOST_TAGS:
            return _parse_prose(text, content, kind, chunking, rules, is_plain=True)
    elif kind in _RECORDS:
        from refdesk.parse.records import parse_records

        return parse_records(text, path, chunking, kind)
    elif kind == "mail":
        from refdesk.parse.mail import parse_mail

        return parse_mail(content.data, path, chunking, _given(rules))
    elif kind in _PROSE or not is_code(kind):
        return _parse_prose(text, content, kind, chunking, rules)
    from refdesk.parse.code.parser import parse_code

    return parse_code(text, path, kind, chunking)


def _parse_prose(
    text: str, content: Content, kind: str, chunking: Chunking, rules: Governing | None, *, is_plain: bool = False
) -> Parsed:
    from refdesk.parse.prose.markdown import parse_markdown
    from refdesk.parse.prose.rst import parse_plain, parse_rst

    if kind == "markdown" and not is_plain:
        return parse_markdown(text, content.path, chunking, _given(rules))
    if kind == "rst" and not is_plain:
        return parse_rst(text, content.path, chunking, _given(rules))
    if kind == "notebook" and not is_plain:
        from refdesk.parse.documents import parse_notebook

        return parse_notebook(text, content.path, chunking, _given(rules))
    return parse_plain(text, content.path, chunking, kind, _given(rules))


def _given(rules: Governing | None) -> Governing:
    from refdesk.parse.prose.manifest import NO_RULES

    return rules or NO_RULES


def _office_type(content: Content) -> str:
    """ "pdf" for PDF bytes, "docx" or "epub" for an archive that is declared as one, else ""."""
    if content.data.startswith(b"%PDF-"):
        return "pdf"
    if content.data.startswith(b"PK\x03\x04"):
        for kind, said in _ZIPPED.items():
            if content.content_type == kind or said in content.content_type or by_name(content.path) == kind:
                return kind
    return ""


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
            text = data.decode(encoding, errors="replace")
            is_whole = "\ufffd" not in text
            note = f"some bytes are not {encoding.removesuffix('-sig')} and were replaced"
            return _unmarked(Decoded(text, () if is_whole else (note,)))
    if b"\0" in data:
        raise ParseFailed("binary file: it holds NUL bytes")
    try:
        return _unmarked(Decoded(data.decode("utf-8")))
    except UnicodeDecodeError:
        return _unmarked(_by_declaration(data, charset) or _by_detection(data))


def _by_declaration(data: bytes, charset: str) -> Decoded | None:
    names = [charset] if charset else []
    for found in _DECLARED.finditer(data[:_HEAD]):
        names += [group.decode("ascii", "ignore") for group in found.groups() if group]
    for name in names:
        try:
            encoding = codecs.lookup(name.strip()).name
            encoding = "cp1252" if encoding in ("iso8859-1", "ascii") else encoding  # as browsers read them
            if encoding != "utf-8":
                return Decoded(data.decode(encoding), (f"decoded as {encoding}",))
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return None


def _by_detection(data: bytes) -> Decoded:
    almost = data.decode("utf-8", errors="replace")
    bad = almost.count("\ufffd")
    if bad <= max(2, len(almost) // 2000) and len(almost) > 200:
        return Decoded(almost, (f"{bad} bytes are not UTF-8 and were replaced",))
    head = data[:_HEAD]
    if sum(byte < 32 and byte not in b"\t\n\r\f\x1b\b" for byte in head) > len(head) // 10:
        raise ParseFailed("binary file: it holds control characters")
    from charset_normalizer import from_bytes

    sample = data[:_SAMPLE]
    if len(data) > _SAMPLE:
        sample = sample[: sample.rfind(b"\n") + 1] or sample  # whole lines, so that no character is cut
    best = from_bytes(sample, threshold=0.3).best()
    if best is None:
        if sum(byte >= 128 for byte in sample) * 3 > len(sample):
            raise ParseFailed("unreadable encoding: neither UTF-8 nor any charset that could be guessed")
        return Decoded(data.decode("cp1252", errors="replace"), ("decoded as cp1252",))
    return Decoded(data.decode(best.encoding, errors="replace"), (f"decoded as {best.encoding}",))


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
