"""What a page says to a crawler."""

from __future__ import annotations

import anyio
import pytest

from refdesk.crawl.model import Scope, crawl_options
from refdesk.crawl.page import Outcome, PageReader, facts_in, outcome_of_answer, outcome_of_page
from refdesk.sources.web import Fetched

URL = "https://e.org/docs/page.html"
SCOPE = Scope.of(crawl_options("https://e.org/docs/"))
WORDS = " ".join(f"word{n}" for n in range(40))


def html(body: str, head: str = "") -> str:
    return f"<html><head>{head}</head><body>{body}</body></html>"


def answer(body: str = "", status: int = 200, content_type: str = "text/html", **headers: str) -> Fetched:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Fetched(url=URL, status=status, data=body.encode(), content_type=content_type, headers=named)


def judged(answer: Fetched, hops: int = 0) -> Outcome:
    """What becomes of a page, read by a worker process as a crawl reads it."""
    outcome = outcome_of_answer(URL, answer, SCOPE, hops)
    if outcome is None:
        with PageReader() as reader:
            outcome = outcome_of_page(URL, anyio.run(reader.read, answer), SCOPE, hops)
    return outcome


def test_no_page_is_parsed_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refdesk.crawl.page.facts_in", lambda *_, **__: pytest.fail("it must be left to a worker"))
    assert judged(answer(html(f"<p>{WORDS}</p><a href='/x'>x</a>"))).links == ("https://e.org/x",)
    assert judged(answer("[x](/x)", content_type="text/markdown")).links == ("https://e.org/x",)


def test_links_are_absolute_and_each_once() -> None:
    body = "<a href='a.html'>1</a><a href='/b#x'>2</a><a href='#y'>3</a><a>4</a><area href='a.html#z'><a href=''>5</a>"
    assert facts_in(html(body), URL, {}).links == ("https://e.org/docs/a.html", "https://e.org/b")
    based = facts_in(html(body, "<base href='/other/'>"), URL, {}).links
    assert based[0] == "https://e.org/other/a.html"


def test_canonical_links_in_the_page_and_in_its_header() -> None:
    assert facts_in(html("", "<link rel='canonical' href='/c?utm_source=1'>"), URL, {}).canonical == "https://e.org/c"
    assert facts_in(html(""), URL, {"link": '<https://e.org/h>; rel="canonical"'}).canonical == "https://e.org/h"
    assert facts_in(html(""), URL, {"link": '<https://e.org/h>; rel="next"'}).canonical == ""


@pytest.mark.parametrize(
    ("head", "headers", "keep", "follow"),
    [
        ("<meta name='robots' content='noindex'>", {}, False, True),
        ("<meta name='ROBOTS' content='NoFollow, index'>", {}, True, False),
        ("<meta name='refdesk' content='none'>", {}, False, False),
        ("<meta name='googlebot' content='noindex'>", {}, True, True),
        ("", {"x-robots-tag": "noindex"}, False, True),
        ("", {}, True, True),
    ],
)
def test_directives(head: str, headers: dict[str, str], keep: bool, follow: bool) -> None:
    facts = facts_in(html("<a href='/x'>x</a>", head), URL, headers)
    assert (facts.may_keep, bool(facts.links)) == (keep, follow)


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        ("<div id='root'></div><script src='/app.js'></script>", True),
        ("<noscript>You need to enable JavaScript to run this app.</noscript><div id='x'>Loading the app, please "
         "wait a moment</div><script>boot()</script>", True),
        ("<div id='app'>One moment please</div><script src='a.js'></script>", True),
        ("<p>Loading …</p><script>boot()</script>", True),
        (f"<div id='root'><p>{WORDS}</p></div><script src='/app.js'></script>", False),
        ("<p>A short page, but with all that it has to say.</p><script src='/analytics.js'></script>", False),
        ("<p>Short.</p>", False),
        ("", False),
    ],
)  # fmt: skip
def test_pages_that_scripts_write(body: str, needs: bool) -> None:
    assert facts_in(html(body), URL, {}).needs_scripts is needs


def test_pages_nested_without_end_are_read_soon() -> None:
    deep = "<div>" * 200_000 + "<a href='/x#y'>x</a>" + "</div>" * 200_000
    assert facts_in(deep, URL, {}).links == ("https://e.org/x",)
    flat = "<div></div>" * 20_000 + "<a href='/x'>x</a>"
    assert facts_in(flat, URL, {}).links == ("https://e.org/x",)


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        (answer(status=404), "gone", "404"),
        (answer(status=410), "gone", "410"),
        (answer(status=403), "failed", "403"),
        (answer(status=500), "failed", "500"),
        (answer(status=304), "stored", ""),
        (answer(html(f"<p>{WORDS}</p>")), "fetched", ""),
        (answer("# Title", content_type="text/markdown"), "fetched", ""),
        (answer("x", content_type="text/plain", x_robots_tag="noindex"), "skipped", "noindex"),
        (Fetched(url=URL, status=200, unread="not a text: image/png"), "skipped", "image/png"),
        (Fetched(url=URL, status=301, location="https://e.org/new"), "moved", ""),
        (Fetched(url=URL, status=301, location="https://other.org/"), "skipped", "other.org"),
        (Fetched(url=URL, status=301, location=f"{URL}#top"), "failed", "itself"),
        (answer(html("", "<meta http-equiv=refresh content='0;url=new.html'>")), "moved", ""),
        (answer(html(f"<p>{WORDS}</p>", "<meta http-equiv=refresh content='30;url=new.html'>")), "fetched", ""),
        (answer(html(f"<p>{WORDS}</p>", "<link rel=canonical href='/c'>")), "alias", ""),
        (answer(html(f"<p>{WORDS}</p>", "<link rel=canonical href='https://other.org/c'>")), "fetched", ""),
        (answer(html(f"<p>{WORDS}</p>", f"<link rel=canonical href='{URL}'>")), "fetched", ""),
    ],
)
def test_what_becomes_of_a_page(given: Fetched, state: str, said: str) -> None:
    outcome = judged(given)
    assert outcome.state == state and said in outcome.reason


def test_failures_that_may_heal() -> None:
    assert judged(answer(status=503, retry_after="7")).pause_s == 7
    assert judged(answer(status=429)).is_transient
    assert not judged(answer(status=401)).is_transient


def test_a_chain_of_redirects_and_canonical_links_has_an_end() -> None:
    moved = Fetched(url=URL, status=302, location="https://e.org/new")
    assert (judged(moved, hops=9).state, judged(moved, hops=10).state) == ("moved", "failed")
    named = answer(html(f"<p>{WORDS}</p>", "<link rel=canonical href='/c'>"))
    assert (judged(named, hops=9).state, judged(named, hops=10).state) == ("alias", "fetched")


def test_a_refresh_after_a_number_beyond_all_numbers_is_none() -> None:
    head = f"<meta http-equiv=refresh content='{'0' * 5000};url=new.html'>"
    assert facts_in(html("<a href='a.html'>1</a>", head), URL, {}).links == ("https://e.org/docs/a.html",)
