"""What does a fetched page say to a crawler?  Where it leads, what it calls itself, whether it may be kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refdesk.crawl.glance import Glanced, glance
from refdesk.crawl.rules import AGENT
from refdesk.crawl.urls import clean, clean_all
from refdesk.parse.decode import decode
from refdesk.parse.html_depth import is_too_deep

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_REFRESH = re.compile(r"\s*(\d+)\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'>]+)", re.IGNORECASE)
_REFRESH_MOST_S = 5  # a page that waits longer is meant to be read
_LINK_HEADER = re.compile(r"<([^<>]+)>\s*+;[^,]*\brel\s*=\s*\"?canonical\b", re.IGNORECASE)
_MOUNTS = "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #q-app, app-root, #application, #main-app, redoc, #redoc"
_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_HREF = re.compile(r"<a\s[^>]{0,500}?href\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_FEW_WORDS = 30
_HARDLY_ANY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a page says to a crawler."""

    links: tuple[str, ...] = ()
    canonical: str = ""
    onward: str = ""  # where the page sends its reader at once
    may_keep: bool = True
    may_follow: bool = True
    needs_scripts: bool = False  # what is to be read there is made by scripts


def look_at(data: bytes, charset: str, url: str, headers: Mapping[str, str]) -> Looked:
    """What the fetched page says; its tree is built only where a glance can't tell."""
    if charset in ("utf-8", "utf8") and (glanced := glance(data, _FEW_WORDS)) is not None:
        return _of_plain(glanced, url, headers)
    return look(decode(data, charset).text, url, headers)


def _of_plain(glanced: Glanced, url: str, headers: Mapping[str, str]) -> Looked:
    if not glanced.head:
        keep, follow = _allowed(headers.get("x-robots-tag", ""))
        links = clean_all(glanced.hrefs, url) if follow else ()
        return Looked(links=links, canonical=_canonical_told(url, headers), may_keep=keep, may_follow=follow)
    from selectolax.lexbor import LexborHTMLParser

    head = LexborHTMLParser(glanced.head)
    base = _base(head, url)
    keep, follow = _directives(head, headers)
    return Looked(
        links=clean_all(glanced.hrefs, base) if follow else (),
        canonical=_canonical(head, base, headers),
        onward=_onward(head, base),
        may_keep=keep,
        may_follow=follow,
    )


def look(html: str, url: str, headers: Mapping[str, str]) -> Looked:
    """What the page says; links are cleaned, each once, in order."""
    if is_too_deep(html):
        return Looked(links=_hrefs(html, url))
    from selectolax.lexbor import LexborHTMLParser

    page = LexborHTMLParser(html)
    base = _base(page, url)
    keep, follow = _directives(page, headers)
    return Looked(
        links=_links(page, base) if follow else (),
        canonical=_canonical(page, base, headers),
        onward=_onward(page, base),
        may_keep=keep,
        may_follow=follow,
        needs_scripts=_needs_scripts(page),
    )


def _hrefs(html: str, url: str) -> tuple[str, ...]:
    """The links of a page whose tree is not built."""
    found = (clean(href.partition("#")[0], url) for href in _HREF.findall(html) if not href.startswith("#"))
    return tuple(dict.fromkeys(one for one in found if one))


def _base(page: LexborHTMLParser, url: str) -> str:
    given = page.css_first("base[href]")
    return (clean((given.attributes.get("href") or ""), url) or url) if given is not None else url


def _links(page: LexborHTMLParser, base: str) -> tuple[str, ...]:
    return clean_all((anchor.attributes.get("href") or "" for anchor in page.css("a[href], area[href]")), base)


def _canonical(page: LexborHTMLParser, base: str, headers: Mapping[str, str]) -> str:
    given = page.css_first("link[rel=canonical][href]")
    if given is not None:
        return clean(given.attributes.get("href") or "", base)
    return _canonical_told(base, headers)


def _canonical_told(base: str, headers: Mapping[str, str]) -> str:
    told = _LINK_HEADER.search(headers.get("link", ""))
    return clean(told[1], base) if told else ""


def _onward(page: LexborHTMLParser, base: str) -> str:
    for meta in page.css("meta[http-equiv][content]"):
        if (meta.attributes.get("http-equiv") or "").lower() == "refresh":
            found = _REFRESH.match(meta.attributes.get("content") or "")
            if found and int(found[1]) <= _REFRESH_MOST_S:
                return clean(found[2], base)
    return ""


def _directives(page: LexborHTMLParser, headers: Mapping[str, str]) -> tuple[bool, bool]:
    said = headers.get("x-robots-tag", "").lower()
    for meta in page.css("meta[name][content]"):
        if (meta.attributes.get("name") or "").lower() in ("robots", AGENT):
            said += "," + (meta.attributes.get("content") or "").lower()
    return _allowed(said)


def _allowed(said: str) -> tuple[bool, bool]:
    """Whether a page may be kept, and followed."""
    words = set(re.split(r"[\s,:]+", said.lower()))
    return not words & {"noindex", "none"}, not words & {"nofollow", "none"}


def _needs_scripts(page: LexborHTMLParser) -> bool:
    """Whether a page has scripts and next to nothing to read."""
    body = page.body
    if body is None or page.css_first("script") is None:
        return False
    words = _count_words(body)
    if words >= _FEW_WORDS:
        return False
    if words < _HARDLY_ANY:
        return True
    mount = page.css_first(_MOUNTS)
    asks = any("javascript" in node.text(deep=True).lower() for node in page.css("noscript"))
    return asks or (mount is not None and _count_words(mount) < _HARDLY_ANY)


def _count_words(node: LexborNode) -> int:
    """How many words can be read in it, counted no further than it matters."""
    words = 0
    waiting = [node]
    while waiting and words < _FEW_WORDS:
        one = waiting.pop()
        if one.tag == "-text":
            words += len((one.text_content or "").split())
        elif one.tag not in _UNSEEN:
            waiting.extend(one.iter(include_text=True))
    return words
