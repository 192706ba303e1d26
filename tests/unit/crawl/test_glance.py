"""A page that is read without its tree says what its tree says."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk.crawl.glance import glance
from refdesk.crawl.look import look, look_at

PAGES = sorted((Path(__file__).parents[1] / "parse").rglob("*.html"))
URL = "https://docs.example.org/guide/page.html"
WORDS = "<p>" + "So that there is something to read on this page. " * 5 + "</p>"


def page(body: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head><title>T</title>{head}</head><body>{WORDS}{body}</body></html>".encode()


@pytest.mark.parametrize("file", PAGES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_real_pages(file: Path) -> None:
    data = file.read_bytes()
    assert look_at(data, "utf-8", URL, {}) == look(data.decode("utf-8"), URL, {})


def test_most_real_pages_need_no_tree() -> None:
    plain = [file for file in PAGES if glance(file.read_bytes(), 30) is not None]
    assert len(plain) > len(PAGES) * 0.7


PLAIN = [
    page("<a href='one'>1</a> <a class=\"x\" href=\"two#three\">2</a> <a id='no'>-</a> <area href='four'>"),
    page("<a href='?a=1&amp;b=2'>x</a><a href='/from/root'>x</a><a href='../up'>x</a><a href='#here'>x</a>"),
    page("<a href='seen'>x</a><!-- <a href='hidden'>x</a> --><script>'<a href=\"made\">'</script><a href='last'>x</a>"),
    page("<svg><title>t</title></svg><noscript><a href='without-scripts'>x</a></noscript>"),
    page("<a title='a > b' href='quoted'>x</a><abbr href='none'>x</abbr><a\n href='broken-line'>x</a>"),
    page("<a href='x'>x</a>", "<base href='/elsewhere/'><link rel='canonical' href='here'>"),
    page("<a href='x'>x</a>", "<meta name='robots' content='noindex, nofollow'>"),
    page("<a href='x'>x</a>", "<meta http-equiv='Refresh' content='0; url=/next'><script>if (a < b) {}</script>"),
    page("<a href='größe'>x</a>"),
    b"\xef\xbb\xbf" + page("<a href='marked'>x</a>", "<link rel='canonical' href='here'>"),
    page("<!-- <script> <!-- --><a href='seen'>x</a><!-- </script> --><style>a > b {}</style>"),
]
ODD = [
    page("<a href=bare>x</a><a href='x'>x</a>"),
    page("<A HREF='loud'>x</A>"),
    page("<a href='x'>x</a><base href='/late/'>"),
    page("<a href='x'>x</a><meta name='robots' content='none'>"),
    page("<textarea><a href='text'>x</a></textarea><template><a href='inert'>x</a></template>"),
    page("<a href='&lt;odd&gt;?a=1&copy=2'>x</a>"),
    page("<a title='<a href=\"inside\">' href = 'spaced'>x</a>"),
    page("<!--> <a href='after'>x</a> --> <a href='b'>x</a>"),
    page("<a href='un closed>x</a>"),
    page("<a href='two\nlines'>x</a>"),
    page("<script><!-- <script> </script> <a href='hidden'>x</a> --></script><a href='b'>x</a>"),
    page("<script>var a = '<!--';</script><a href='seen'>x</a><!-- -->"),
    page("", "<script>var a = '</head>';</script>"),
    page("", "<div><a href='in-head'>x</a></div>"),
    b"<a href='no-head'>x</a>" + WORDS.encode(),
    page("<a href='x'>x</a>").replace(WORDS.encode(), b"<script></script>"),
    page("<svg><a href='x'>" + "word " * 50).replace(WORDS.encode(), b"<script></script>"),
]


@pytest.mark.parametrize("data", PLAIN)
def test_plain_pages(data: bytes) -> None:
    assert glance(data, 30) is not None
    assert look_at(data, "utf-8", URL, {}) == look(data.decode(), URL, {})


@pytest.mark.parametrize("data", ODD)
def test_what_only_the_tree_can_tell(data: bytes) -> None:
    assert glance(data, 30) is None
    assert look_at(data, "utf-8", URL, {}) == look(data.decode(), URL, {})


def test_what_is_no_text_is_left_to_the_decoder() -> None:
    assert glance(page("\0"), 30) is None


@pytest.mark.parametrize(
    "piece",
    ['<a href="" " ', "<a x x x ", '<a href="', "<svg>", "<!-- -->", "<", "<!-- <script>", "</head", "<a " + " " * 999],
)
def test_nothing_is_read_twice(piece: str) -> None:
    """What is written to take long does not: this would run for hours otherwise."""
    glance(page(piece * (1_000_000 // len(piece))), 30)
