"""EPUB books: their chapters in reading order, converted as HTML pages are."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Parsed
from refdesk.parse.html.page import extract
from refdesk.parse.parser import decode
from refdesk.parse.prose.manifest import NO_RULES, Governing
from refdesk.parse.prose.markdown import parse_markdown

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MOST_BYTES = 64_000_000  # unpacked, of all chapters together; a long reference has 5 million
_MOST_CHAPTERS = 5_000
_METADATA = {"creator": "author", "date": "published", "language": "lang", "publisher": "site"}
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")


def parse_epub(data: bytes, path: str, chunking: Chunking, rules: Governing = NO_RULES) -> Parsed:
    """The book as Markdown, a chapter after the other; its chunks have no lines."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            book = _Book(archive)
            chapters = list(book.chapters())
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        # RuntimeError for a password, NotImplementedError for an unknown compression.
        raise ParseFailed(f"the book could not be read: {type(error).__name__}: {error}"[:300]) from error
    if not chapters:
        raise ParseFailed("nothing to read: the book has no text, or it is encrypted")
    title = book.metadata.pop("title", "") or PurePosixPath(path).stem
    parsed = parse_markdown("\n".join(chapters), path, chunking, rules, title)
    return replace(
        parsed,
        content_type="epub",
        chunks=tuple(chunk._replace(start_line=0, end_line=0) for chunk in parsed.chunks),
        metadata={**book.metadata, **parsed.metadata},
        notes=(*book.notes, *parsed.notes),
    )


class _Book:
    """The package document of an open archive; nothing is ever written to disk, so names can't lead out of it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._left = _MOST_BYTES
        self.notes: list[str] = []
        container = self._xml("META-INF/container.xml")
        root = next((one.get("full-path", "") for one in _all(container, "rootfile")), "")
        self._package = self._xml(root)
        self._folder = posixpath.dirname(root)
        said = {
            name: next((text for one in _all(self._package, key) if (text := _words(one))), "")
            for key, name in {"title": "title", **_METADATA}.items()
        }
        self.metadata = {name: text[:500] for name, text in said.items() if text}

    def chapters(self) -> Iterator[str]:
        """The Markdown of the chapters in reading order, without the table of contents."""
        pages = {
            item.get("id", ""): item.get("href", "")
            for item in _all(self._package, "item")
            if item.get("media-type", "") in _PAGES and "nav" not in item.get("properties", "").split()
        }
        order = [href for one in _all(self._package, "itemref") if (href := pages.get(one.get("idref", "")))]
        unread = 0
        for number, href in enumerate(dict.fromkeys(order)):
            name = posixpath.normpath(posixpath.join(self._folder, unquote(href.partition("#")[0])))
            try:
                if number >= _MOST_CHAPTERS:
                    raise ParseFailed("too many chapters")
                page = extract(decode(self._read(name)).text)
            except ParseFailed:
                unread += 1
                continue
            # A page without a heading is headed by its title, which is often the book's.
            text = page.markdown.removeprefix(f"# {self.metadata.get('title', '')}\n\n")
            if text.strip():
                yield text
        if unread:
            self.notes.append(f"{unread} chapters could not be read")

    def _xml(self, name: str) -> Element:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring

        try:
            root: Element = fromstring(self._read(name))
            return root
        except (ParseError, DefusedXmlException, LookupError, ValueError, RecursionError) as error:
            raise ParseFailed(f"the book could not be read: {name}: {type(error).__name__}: {error}"[:300]) from error

    def _read(self, name: str) -> bytes:
        try:
            member = self._archive.getinfo(name)
        except KeyError as error:
            raise ParseFailed(f"not a book: it has no {name or 'package document'}"[:300]) from error
        self._left -= member.file_size  # zipfile unpacks no more than this
        if self._left < 0:
            raise ParseFailed(f"too large: the book unpacks to more than {_MOST_BYTES // 1_000_000} MB")
        return self._archive.read(member)


def _all(root: Element, name: str) -> Iterator[Element]:
    """The elements of a name in any namespace."""
    return (one for one in root.iter() if isinstance(one.tag, str) and one.tag.rpartition("}")[2] == name)


def _words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())
