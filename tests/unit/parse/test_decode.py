"""Bytes become text whatever their encoding, or a reason why not."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.errors import ParseFailed
from refdesk.parse.parser import decode

GERMAN = "Größere Bären fressen süße Äpfel, während die Mädchen über die Brücke gehen.\n" * 8


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marks_are_read_and_dropped(encoding: str) -> None:
    assert decode(GERMAN.encode(encoding)).text == GERMAN


@pytest.mark.parametrize(("mark", "encoding"), [(codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF32_BE, "utf-32-be")])
def test_big_endian_marks(mark: bytes, encoding: str) -> None:
    assert decode(mark + GERMAN.encode(encoding)).text == GERMAN


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<html><head><meta charset="iso-8859-2"></head>', "iso-8859-2"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "windows-1251"),
        ('<?xml version="1.0" encoding="koi8-r"?>', "koi8-r"),
        ("# -*- coding: shift_jis -*-", "shift_jis"),
    ],
)
def test_declarations_are_believed(head: str, encoding: str) -> None:
    words = {"iso-8859-2": "Zażółć gęślą jaźń", "shift_jis": "日本語のテキスト"}.get(encoding, "Съешь ещё этих булок")
    text = f"{head}\n{words}\n"
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert decoded.notes == (f"decoded as {codecs.lookup(encoding).name}",)


def test_the_headers_charset_comes_first() -> None:
    assert decode("naïve café".encode("cp1252"), "ISO-8859-1").text == "naïve café"
    assert decode("naïve café".encode(), "ISO-8859-1").text == "naïve café"


def test_undeclared_encodings_are_guessed_with_a_note() -> None:
    decoded = decode(GERMAN.encode("cp1252"))
    assert decoded.text == GERMAN
    assert decoded.notes


def test_a_stray_byte_does_not_make_a_file_foreign() -> None:
    decoded = decode(GERMAN.encode() + b"\xff")
    assert decoded.text.startswith(GERMAN)
    assert decoded.notes == ("1 bytes are not UTF-8 and were replaced",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b" \n\t\n", "empty file"),
        (b"text\0text", "NUL"),
        (bytes(range(256)) * 20, "binary|NUL"),
        (b"\xef\xbb\xbf", "empty file"),
    ],
)
def test_what_can_not_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ParseFailed, match=reason):
        decode(data)


def test_line_ends_are_kept_except_old_macs() -> None:
    assert decode(b"a\r\nb\n").text == "a\r\nb\n"
    assert decode(b"a\rb\r").text == "a\nb\n"


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_a_reason(data: bytes) -> None:
    try:
        assert decode(data).text.strip()
    except ParseFailed as error:
        assert str(error)


@given(st.text(min_size=1))
def test_utf8_round_trips(text: str) -> None:
    try:
        decoded = decode(text.encode("utf-8", "ignore"))
    except ParseFailed:
        return
    if "\r" not in text:
        assert decoded.text == text.encode("utf-8", "ignore").decode().removeprefix("\ufeff")
