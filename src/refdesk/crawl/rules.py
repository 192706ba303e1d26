"""What does a site ask of crawlers, and which pages does it list itself?"""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refdesk.crawl.urls import clean

if TYPE_CHECKING:
    from protego import Protego

AGENT = "refdesk"
ROBOTS_BYTES = 512_000  # what lies behind it is not read, as RFC 9309 allows
_BARE = re.compile(r"(?<![(<\w])<?(https?://[^\s)<>\"'`]+)")
_LISTED_MOST = 50_000  # addresses of one sitemap, as its standard says


class Robots:
    """The rules of one robots.txt for this crawler."""

    def __init__(self, text: str) -> None:
        from protego import Protego

        self.text = text
        self._rules: Protego = Protego.parse(text)

    def allows(self, url: str) -> bool:
        """Whether the page may be asked for."""
        return bool(self._rules.can_fetch(url, AGENT))

    @property
    def delay_s(self) -> float:
        """The seconds that requests must be apart."""
        delay = self._rules.crawl_delay(AGENT)
        rate = self._rules.request_rate(AGENT)
        try:
            by_rate = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        except OverflowError:
            by_rate = math.inf
        return max(float(delay or 0.0), float(by_rate))

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The sitemaps that it names."""
        return tuple(dict.fromkeys(str(one) for one in self._rules.sitemaps))


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The pages and the further sitemaps that a sitemap lists."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def read_sitemap(data: bytes, url: str, limit: int) -> Sitemap:
    """What a sitemap lists: XML, plain or gzipped, or one address a line; nothing when it can't be read."""
    if data.startswith(b"\x1f\x8b"):
        data = _unzipped(data, limit)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = (clean(line) for line in data.decode("utf-8-sig", "replace").splitlines()[:_LISTED_MOST])
        return Sitemap(pages=tuple(dict.fromkeys(line for line in lines if line)))
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError):
        return Sitemap()
    found: list[str] = []
    for entry in root:
        for part in entry:
            if part.tag.rpartition("}")[2] == "loc" and (address := clean((part.text or "").strip(), url)):
                found.append(address)
                break
    listed = tuple(dict.fromkeys(found[:_LISTED_MOST]))
    return Sitemap(sitemaps=listed) if root.tag.rpartition("}")[2] == "sitemapindex" else Sitemap(pages=listed)


def _unzipped(data: bytes, limit: int) -> bytes:
    try:
        stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        plain = stream.decompress(data, limit)
        return plain if stream.eof else b""
    except zlib.error:
        return b""


def links_in_markdown(text: str, url: str) -> tuple[str, ...]:
    """The addresses that a markdown text links to, and then those that only stand in it."""
    from markdown_it import MarkdownIt

    found: dict[str, None] = {}
    for block in MarkdownIt("commonmark").parse(text):
        for part in block.children or ():
            href = str(part.attrs.get("href", "")).partition("#")[0] if part.type == "link_open" else ""
            if href and (address := clean(href, url)):
                found[address] = None
    for match in _BARE.finditer(text):
        if address := clean(match[1].rstrip(".,;:!?"), url):
            found[address] = None
    return tuple(found)
