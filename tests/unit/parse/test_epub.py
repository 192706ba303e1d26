"""EPUB books are read in their order, and hostile ones cost little and lead nowhere."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import pytest

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse import AnyParser, epub
from refdesk.sources.allowed import why_not_file_name
from refdesk.sources.files import why_binary

CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>The Sea</dc:title><dc:creator>Ann</dc:creator></metadata><manifest>
<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="text/one%20.xhtml" media-type="application/xhtml+xml"/>
<item id="p" href="sea.png" media-type="image/png"/>
</manifest><spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/><itemref idref="p"/></spine></package>"""


def page(title: str, text: str) -> str:
    return f"<html><head><title>The Sea</title></head><body><h1>{title}</h1><h2>Tides</h2><p>{text}</p></body></html>"


BOOK = {
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/nav.xhtml": page("Contents", "Waves, Shores"),
    "OEBPS/text/one .xhtml": page("Waves", "They rise and fall."),
    "OEBPS/two.xhtml": page("Shores", "They wear away."),
    "OEBPS/sea.png": "x",
}


def zipped(members: Mapping[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return target.getvalue()


def read(members: Mapping[str, str]) -> Parsed:
    return AnyParser().parse(Content(uri="", path="sea.epub", data=zipped(members)), Chunking(min_tokens=0))


def test_a_book_is_its_chapters_in_reading_order() -> None:
    parsed = read(BOOK)
    assert (parsed.title, parsed.content_type, parsed.metadata["author"]) == ("The Sea", "epub", "Ann")
    assert parsed.text == "# Waves\n\n## Tides\n\nThey rise and fall.\n\n# Shores\n\n## Tides\n\nThey wear away.\n"
    assert ("The Sea", "Shores", "Tides") in {chunk.breadcrumb for chunk in parsed.chunks}
    assert {chunk.lines for chunk in parsed.chunks} == {""}


def test_books_are_not_skipped_as_binary() -> None:
    assert not why_not_file_name("sea.epub")
    assert not why_binary("sea.epub", zipped(BOOK)[:8192])


def test_a_chapter_outside_the_archive_is_not_read() -> None:
    there = BOOK | {"OEBPS/book.opf": PACKAGE.replace("two.xhtml", "../../../../etc/hostname")}
    parsed = read(there)
    assert "They rise" in parsed.text and parsed.notes == ("1 chapters could not be read",)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"a.txt": "x"}, "not a book: it has no META-INF/container.xml"),
        ({**BOOK, "OEBPS/book.opf": "<package"}, "could not be read"),
        ({**BOOK, "OEBPS/book.opf": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "EntitiesForbidden"),
        ({**BOOK, "OEBPS/text/one .xhtml": "\0\1", "OEBPS/two.xhtml": "\0\1"}, "nothing to read"),
        ({**BOOK, "META-INF/container.xml": "<container/>"}, "no package document"),
    ],
)
def test_a_damaged_or_hostile_book_says_why(members: Mapping[str, str], reason: str) -> None:
    with pytest.raises(ParseFailed, match=reason):
        read(members)


def test_a_book_that_unpacks_to_too_much_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epub, "_MOST_BYTES", 100_000)
    parsed = read({**BOOK, "OEBPS/two.xhtml": page("Shores", "x " * 100_000)})
    assert "They rise" in parsed.text and "Shores" not in parsed.text
    assert parsed.notes == ("1 chapters could not be read",)


def test_half_a_book_is_an_error_and_no_crash() -> None:
    data = zipped(BOOK)
    for end in range(4, len(data), 50):
        with pytest.raises(ParseFailed):
            AnyParser().parse(Content(uri="", path="sea.epub", data=data[:end]), Chunking())
    damaged = bytearray(data)
    for at in range(100, len(data) - 100, 7):
        damaged[at] ^= 255
        try:
            AnyParser().parse(Content(uri="", path="sea.epub", data=bytes(damaged)), Chunking())
        except ParseFailed:
            continue
