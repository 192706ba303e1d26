"""data: URIs give the bytes they carry, whole or not at all."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.errors import InvalidUri, TooLarge
from refdesk.sources.files import read_data_uri


@pytest.mark.parametrize(
    ("uri", "data", "content_type", "charset", "ending"),
    [
        ('data:,fn main() { println!("Hi, %20%25"); }', b'fn main() { println!("Hi,  %"); }', "", "", ""),
        ("data:text/markdown,%23%20Title", b"# Title", "text/markdown", "", ".md"),
        ("DATA:Text/HTML;Charset=UTF-8;Base64,PGI+", b"<b>", "text/html", "utf-8", ".html"),
        ("data:;base64,SGk", b"Hi", "", "", ""),
        ("data:;base64,_-8=", b"\xff\xef", "", "", ""),
        ("data:;base64,S%47k%3D", b"Hi", "", "", ""),
        ("data:;base64, S G\nk = ", b"Hi", "", "", ""),
        ("data:text/x-python;x=1,a", b"a", "text/x-python", "", ".py"),
        ("data:,ü", "ü".encode(), "", "", ""),
        ("data:,", b"", "", "", ""),
        ("data:text/plain,x", b"x", "", "", ".txt"),
        ("data:application/x-unheard-of,x", b"x", "application/x-unheard-of", "", ""),
    ],
)
def test_what_a_uri_carries(uri: str, data: bytes, content_type: str, charset: str, ending: str) -> None:
    content = read_data_uri(uri, 1000)
    assert (content.data, content.content_type, content.charset) == (data, content_type, charset)
    assert content.uri == uri
    name, dot, found = content.path.partition(".")
    assert dot + found == ending
    assert name.startswith("data-")
    assert len(name) == len("data-") + 12


@pytest.mark.parametrize(
    "uri", ["data:", "data:text/plain", "data:;base64,a", "data:;base64,a*bc", "data:no type,x", "x:,a"]
)
def test_broken_uris_are_refused(uri: str) -> None:
    with pytest.raises(InvalidUri):
        read_data_uri(uri, 1000)


def test_more_than_the_limit_is_an_error_not_a_truncation() -> None:
    assert read_data_uri("data:,1234", 4).data == b"1234"
    assert read_data_uri("data:,%31%32%33%34", 4).data == b"1234"
    for uri in ("data:,12345", "data:;base64,MTIzNDU=", "data:," + "x" * 10_000):
        with pytest.raises(TooLarge):
            read_data_uri(uri, 4)


def test_a_long_uri_is_known_by_its_content() -> None:
    text = b"long text " * 500
    plain = read_data_uri("data:text/markdown," + text.decode(), 10_000)
    packed = read_data_uri("data:text/markdown;base64," + base64.b64encode(text).decode(), 10_000)
    assert plain.uri == packed.uri
    assert plain.uri.startswith("data:text/markdown;sha256=")
    assert plain.path == packed.path
    assert read_data_uri("data:text/markdown,x" + text.decode(), 10_000).uri != plain.uri


@given(st.binary(max_size=300), st.booleans())
def test_every_content_survives_base64(data: bytes, safe: bool) -> None:
    encode = base64.urlsafe_b64encode if safe else base64.b64encode
    assert read_data_uri("data:;base64," + encode(data).decode(), 1000).data == data
