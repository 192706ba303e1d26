"""A site's pace, its robots.txt and the pages it lists."""

from __future__ import annotations

import gzip
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
from hypothesis import given
from hypothesis import strategies as st

from refdesk.crawl.page import links_in_markdown
from refdesk.crawl.site import Pace, Robots, read_sitemap
from refdesk.system.retry import backoff, retry_after

ROOT = "https://e.org/"


def test_robots_rules_for_us_come_before_those_for_all() -> None:
    robots = Robots(
        "User-agent: *\nDisallow: /\n\nUser-agent: RefDesk\nDisallow: /private/\nAllow: /private/but-this\n"
        "Disallow: /*.pdf$\nCrawl-delay: 2.5\n\nSitemap: https://e.org/s.xml\n"
    )
    assert robots.allows(ROOT) and robots.allows(ROOT + "private/but-this")
    assert not robots.allows(ROOT + "private/x") and not robots.allows(ROOT + "a/b.pdf")
    assert robots.delay_s == 2.5
    assert robots.sitemaps == ("https://e.org/s.xml",)


def test_no_robots_allow_everything() -> None:
    for text in ("", "<html>not found</html>", "\0\0garbage", "Disallow: /"):
        assert Robots(text).allows(ROOT + "x")
    assert Robots("").delay_s == 0.0
    assert Robots("User-agent: *\nRequest-rate: 1/5").delay_s == 5.0
    assert Robots("User-agent: *\nCrawl-delay: soon").delay_s == 0.0
    assert Robots(f"User-agent: *\nRequest-rate: 1/{'9' * 400}").delay_s == math.inf


def _urlset(*urls: str) -> bytes:
    listed = "".join(f"<url><loc> {url} </loc><lastmod>2026-01-01</lastmod></url>" for url in urls)
    return (
        f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</urlset>'.encode()
    )


def test_sitemaps_in_all_their_forms() -> None:
    plain = _urlset(ROOT + "a#x", ROOT + "b?a=1&amp;c=2", "/relative", ROOT + "a")
    wanted = (ROOT + "a", ROOT + "b?a=1&c=2", ROOT + "relative")
    assert read_sitemap(plain, ROOT, 100_000).pages == wanted
    assert read_sitemap(gzip.compress(plain), ROOT, 100_000).pages == wanted
    index = b"<sitemapindex><sitemap><loc>/s1.xml.gz</loc></sitemap></sitemapindex>"
    assert read_sitemap(index, ROOT, 100_000).sitemaps == (ROOT + "s1.xml.gz",)
    assert read_sitemap(b"\xef\xbb\xbfhttps://e.org/x\nnonsense\nhttps://e.org/y\n", ROOT, 1000).pages == (
        ROOT + "x",
        ROOT + "y",
    )


def test_images_in_a_sitemap_are_no_pages() -> None:
    data = (
        b'<urlset xmlns="s" xmlns:image="i"><url><image:image><image:loc>https://e.org/p.png</image:loc></image:image>'
        b"<loc>https://e.org/a</loc></url></urlset>"
    )
    assert read_sitemap(data, ROOT, 1000).pages == (ROOT + "a",)


def test_sitemaps_that_bite() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
    outside = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>&a;</loc></url></urlset>'
    for data in (bomb, outside, b"<urlset><url>", b"<", b"", b"\x1f\x8b broken", gzip.compress(_urlset("x"))[:20]):
        found = read_sitemap(data, ROOT, 1000)
        assert not found.pages and not found.sitemaps
    assert read_sitemap(gzip.compress(b"https://e.org/a\n" * 1_000_000), ROOT, 1000).pages == ()  # not a part of it


@given(st.binary(max_size=300))
def test_no_sitemap_breaks_the_reader(data: bytes) -> None:
    read_sitemap(data, ROOT, 10_000)
    read_sitemap(b"<urlset>" + data, ROOT, 10_000)


def test_links_of_llms_txt() -> None:
    text = (
        '# Site\n\n> About [nothing](#here)\n\n- [A](/a.md): first\n- [B](https://e.org/b "title")\n- [C](<c d.md>)\n'
        "- https://e.org/bare.\n- [mail](mailto:x@e.org)\n"
    )
    found = links_in_markdown(text, ROOT + "docs/llms.txt")
    assert found == (ROOT + "a.md", ROOT + "b", ROOT + "docs/c%20d.md", ROOT + "bare")


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


def test_starts_are_apart() -> None:
    clock = Clock()
    pace = Pace(0.5, clock, clock.sleep)

    async def four() -> None:
        for _ in range(3):
            await pace.wait_turn()
        clock.now += 10
        await pace.wait_turn()

    anyio.run(four)
    assert clock.slept == [0.5, 0.5]


def test_a_pause_holds_everybody_and_has_an_end() -> None:
    clock = Clock()
    pace = Pace(0.0, clock, clock.sleep)
    pace.pause(7)
    anyio.run(pace.wait_turn)
    pace.pause(100_000)
    anyio.run(pace.wait_turn)
    assert clock.slept == [7, 60]


def test_backoff_doubles() -> None:
    for tries, wanted in ((1, 0.5), (2, 1.0), (4, 4.0)):
        assert 0.79 * wanted <= backoff(tries, 0.5) <= 1.21 * wanted


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after({"retry-after": "12"}) == 12
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < retry_after({"retry-after": later}) <= 30
    for odd in ("", "soon", "-5", "inf", "nan", "Wed, 99 Nonsense"):
        assert retry_after({"retry-after": odd}) == 0
