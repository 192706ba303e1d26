"""One page has one address."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.crawl.model import Scope, crawl_options
from refdesk.crawl.urls import clean, folder_of, hide_keys, is_text, path_of, twins
from refdesk.errors import InvalidInput, InvalidUri


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("HTTP://Docs.Example.ORG:80/a", "http://docs.example.org/a"),
        ("https://e.org:443", "https://e.org/"),
        ("https://e.org:8443/x", "https://e.org:8443/x"),
        ("https://e.org./x", "https://e.org/x"),
        ("https://e.org/a#part", "https://e.org/a"),
        ("https://e.org/a?utm_source=x&b=1&gclid=2&fbclid=3", "https://e.org/a?b=1"),
        ("https://e.org/a?b=2&a=1", "https://e.org/a?b=2&a=1"),
        ("https://e.org/a;jsessionid=9F?PHPSESSID=1", "https://e.org/a"),
        ("https://e.org/a/../b/./c/..", "https://e.org/b/"),
        ("https://e.org/../../a", "https://e.org/a"),
        ("https://e.org//a", "https://e.org/a"),
        ("https://e.org/%7euser/%e2%82%ac", "https://e.org/~user/%E2%82%AC"),
        ("https://e.org/bücher und mehr", "https://e.org/b%C3%BCcher%20und%20mehr"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://e.org/100%", "https://e.org/100%"),
        ("  https://e.org/a \n", "https://e.org/a"),
        ("https://[2001:db8::1]:443/", "https://[2001:db8::1]/"),
        ("mailto:a@b.org", ""),
        ("javascript:void(0)", ""),
        ("ftp://e.org/", ""),
        ("https://user:secret@e.org/", ""),
        ("http://[::1", ""),
        ("http://e.org:99999/", ""),
        ("https:///nothing", ""),
    ],
)
def test_an_address_has_one_form(given: str, wanted: str) -> None:
    assert clean(given) == wanted
    assert clean(wanted) == wanted


def test_relative_addresses_are_joined() -> None:
    base = "https://e.org/docs/guide/page.html?x=1"
    assert clean("../api.html#top", base) == "https://e.org/docs/api.html"
    assert clean("//other.org/x", base) == "https://other.org/x"
    assert clean("?y=2", base) == "https://e.org/docs/guide/page.html?y=2"
    assert folder_of(base) == "https://e.org/docs/guide/"


def test_paths_are_those_people_read() -> None:
    assert path_of("https://e.org/") == "index.html"
    assert path_of("https://e.org/a/") == "a/index.html"
    assert path_of("https://e.org/a/b.html?v=2") == "a/b.html?v=2"


def test_names_that_are_never_text() -> None:
    assert not any(is_text(f"https://e.org/x.{ending}") for ending in ("png", "ZIP", "tar", "js", "woff2", "mp4"))
    assert all(
        is_text(f"https://e.org/{name}") for name in ("", "x", "x.html", "v1.2", "x.pdf", "x.md", "a.php?b=c.png")
    )


def test_markdown_twins() -> None:
    assert "https://e.org/a.html" in twins("https://e.org/a.html.md")
    assert "https://e.org/a/" in twins("https://e.org/a.md")
    assert "https://e.org/a/" in twins("https://e.org/a/index.html.md")
    assert "https://e.org/a/" in twins("https://e.org/a/index.md")
    assert twins("https://e.org/a.html") == ()


def test_the_scope_is_one_host() -> None:
    scope = Scope.of(crawl_options("https://docs.e.org/start", excludes=(r"/print/", r"\?")))
    assert scope.why_not("https://docs.e.org/a") == ""
    assert scope.why_not("https://www.docs.e.org/a") == ""
    for other in (
        "https://e.org/a",
        "https://api.docs.e.org/a",
        "https://docs.e.org.evil.org/",
        "https://docs.e.org:8443/",
    ):
        assert scope.why_not(other) == "on another host"
    assert "/print/" in scope.why_not("https://docs.e.org/print/a")
    assert scope.why_not("https://docs.e.org/a?b") != ""
    assert scope.why_not("https://docs.e.org/llms-full.txt") != ""
    assert scope.why_not("https://docs.e.org/_sources/index.rst.txt") == "the source of another page"
    assert scope.why_not("https://docs.e.org/" + "a" * 2_029) == ""
    assert scope.why_not("https://docs.e.org/" + "a" * 2_030) == "longer than 2,048 characters"
    local = Scope.of(crawl_options("http://127.0.0.1:8000/"))
    assert local.why_not("http://127.0.0.1:8001/") == "on another host"


def test_options_are_checked() -> None:
    assert crawl_options("docs.e.org/x").start == "https://docs.e.org/x"
    with pytest.raises(InvalidUri, match="not a web address"):
        crawl_options("ftp://e.org/")
    with pytest.raises(InvalidUri, match="'notaurl' is not a web address"):
        crawl_options("notaurl")
    with pytest.raises(InvalidUri, match="is longer than 2,048 characters"):
        crawl_options("https://e.org/" + "a" * 4_000)
    assert crawl_options("localhost:8000/x").start == "https://localhost:8000/x"
    assert crawl_options("https://wiki/").start == "https://wiki/"
    with pytest.raises(InvalidInput, match="regular expression"):
        crawl_options("https://e.org/", excludes=("(",))


@given(
    st.sampled_from(["https://e.org/", "https://e.org/a/b.html?x=/y", "https://e.org/a/b/", "http://e.org:81/a"]),
    st.text(alphabet="ab./?#:_-=&%é", max_size=12),
)
def test_joining_is_that_of_the_standard_library(base: str, href: str) -> None:
    assert clean(href, base) == clean(urljoin(base, href))


def test_keys_in_addresses_are_not_told() -> None:
    told = hide_keys("to https://e.org/a?page=2&api_key=s3cret&X-Amz-Signature=abc#x, or https://e.org/?q=1&sid=9")
    assert told == "to https://e.org/a?page=2&api_key=…&X-Amz-Signature=…#x, or https://e.org/?q=1&sid=…"
    harmless = "https://e.org/?keyword=a&author=b&code_style=c"
    assert hide_keys(harmless) == harmless
