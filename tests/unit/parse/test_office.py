"""PDF and Word files are read where the extra is installed, and say so where it is not."""

from __future__ import annotations

import builtins
import io
import zipfile
from typing import Any

import pytest

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse import AnyParser
from refdesk.parse.prose.manifest import ManifestSet


def read(data: bytes, path: str, chunking: Chunking | None = None) -> Parsed:
    return AnyParser(ManifestSet()).parse(Content(uri="", path=path, data=data), chunking or Chunking())


def pdf(*pages: list[str], about: str = "") -> bytes:
    """A pdf of the given lines, with nothing that is not needed."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {about} >>",
    ]
    for number, lines in enumerate(pages):
        shown = " ".join(f"({line}) Tj 0 -14 Td" for line in lines)
        stream = f"BT /F1 12 Tf 72 720 Td {shown} ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    text = "%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(text)
    text += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    text += "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    text += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 3 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return text.encode("latin-1")


def test_pdf_pages() -> None:
    pytest.importorskip("pypdfium2")
    parsed = read(pdf(["First page.", "More words."], ["Second page."]), "a.pdf")
    assert parsed.content_type == "pdf"
    assert [chunk.key for chunk in parsed.chunks] == ["page-1", "page-2"]
    assert parsed.chunks[1].text == "Second page."
    assert parsed.chunks[1].breadcrumb == ("a", "Page 2")
    assert {chunk.lines for chunk in parsed.chunks} == {""}  # the file has none; the text that was made of it has


def test_words_that_a_pdf_breaks_at_the_end_of_a_line_are_mended() -> None:
    pytest.importorskip("pypdfium2")
    parsed = read(pdf(["Set the little-", "endian order for the manip-", "ulation of numbers."]), "a.pdf")
    assert parsed.chunks[0].text == "Set the little-endian order for the manipulation of numbers."


def test_an_encrypted_pdf_says_what_to_do() -> None:
    pytest.importorskip("pypdfium2")
    locked = pdf(["Secret."]).replace(
        b"/Root 1 0 R",
        b"/Root 1 0 R /ID [<00><00>] /Encrypt << /Filter /Standard /V 1"
        b" /R 2 /P -4 /O (" + b"o" * 32 + b") /U (" + b"u" * 32 + b") >>",
    )
    with pytest.raises(ParseFailed, match="encrypted"):
        read(locked, "a.pdf")


def test_a_damaged_pdf_is_read_without_a_word_to_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pypdfium2")
    whole = pdf(["First page."])
    start = whole.rindex(b"startxref\n") + len(b"startxref\n")
    damaged = whole[:start] + b"7\n%%EOF\n"
    assert read(damaged, "a.pdf").chunks[0].text == "First page."
    assert not caplog.records


def test_a_pdf_with_half_a_character_in_its_title_is_read() -> None:
    pytest.importorskip("pypdfium2")
    parsed = read(pdf(["First page."], about="/Title <FEFF0041D83D> /Author <FEFF00420000>"), "a.pdf")
    assert parsed.chunks[0].text == "First page."
    assert parsed.title == "a" and parsed.metadata == {"author": "B"}


def test_a_pdf_without_text_says_so() -> None:
    pytest.importorskip("pypdfium2")
    with pytest.raises(ParseFailed, match="nothing to read"):
        read(pdf([]), "a.pdf")


def test_word_documents() -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("Manual", 0)
    document.add_paragraph("Intro words.")
    document.add_heading("Install", 2)
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for at, text in enumerate(["Key", "Value", "a|b", "1"]):
        table.cell(at // 2, at % 2).text = text
    data = io.BytesIO()
    document.save(data)
    parsed = read(data.getvalue(), "a.docx")
    assert parsed.content_type == "docx"
    assert [chunk.key for chunk in parsed.chunks] == ["_preamble", "install"]
    assert "- one\n- two\n\n| Key | Value |\n| --- | --- |\n| a\\|b | 1 |" in parsed.text


def test_a_document_that_unpacks_without_end_is_refused() -> None:
    pytest.importorskip("docx")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"\0" * 310_000_000)
    with pytest.raises(ParseFailed, match="too large"):
        read(data.getvalue(), "a.docx")


@pytest.mark.parametrize(
    ("name", "library", "data"), [("a.pdf", "pypdfium2", b"%PDF-1.4"), ("a.docx", "docx", b"PK\x03\x04")]
)
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, name: str, library: str, data: bytes) -> None:
    real = builtins.__import__

    def refuse(module: str, *rest: Any, **named: Any) -> Any:
        if module == library:
            raise ImportError(module)
        return real(module, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ParseFailed, match=r"pip install 'refdesk\[office\]'"):
        read(data, name)
