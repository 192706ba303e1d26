"""Reads a page's links and instructions to crawlers, and decides its outcome.

HTML and Markdown are parsed in a worker process, so a hostile page can neither hang nor crash the crawl.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from refdesk.crawl.model import AGENT, MOST_HOPS, Scope
from refdesk.crawl.urls import clean, clean_all
from refdesk.model import Chunking, Content, Parsed, Skipped
from refdesk.parse.html.elements import is_too_deep
from refdesk.parse.parser import decode
from refdesk.system.retry import TRANSIENT, retry_after

if TYPE_CHECKING:  # workers import this module and don't need these
    from selectolax.lexbor import LexborNode

    from refdesk.crawl.state import PageState
    from refdesk.sources.web import Fetched

_GONE = (404, 410)
_MARKDOWN = ("text/markdown", "text/x-markdown")
_REFRESH = re.compile(r"\s*(\d{1,9})\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'>]+)", re.IGNORECASE)
_REFRESH_MOST_S = 5  # a page with a longer delay is meant to be read
_LINK_HEADER = re.compile(r"<([^<>]+)>\s*+;[^,<]*\brel\s*=\s*\"?canonical\b", re.IGNORECASE)
_MOUNTS = "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #q-app, app-root, #application, #main-app, redoc, #redoc"
_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_HREF = re.compile(r"<a\s[^>]{0,500}?href\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_BARE_URL = re.compile(r"(?<![(<\w])<?(https?://[^\s)<>\"'`]+)")
# Of 1,022 HTML files with scripts of pinned packages and sites, those that only scripts fill have up to 22 words, and
# pages that can be read at least 47.
_FEW_WORDS = 30
_HARDLY_ANY = 5  # a title, "Loading …"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """A page's links and its instructions to crawlers."""

    links: tuple[str, ...] = ()
    canonical: str = ""
    redirect: str = ""  # by meta refresh
    may_keep: bool = True
    needs_scripts: bool = False  # without JavaScript there is nothing to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    state: PageState
    status: int = 0
    reason: str = ""
    target: str = ""  # the URL that it redirects to, or its canonical URL
    links: tuple[str, ...] = ()
    is_transient: bool = False  # to be tried again
    pause_s: float = 0.0  # how long the site asks to wait


# --- reading -----------------------------------------------------------------------------------------


class PageReader:
    """Parses pages in a worker process that indexing does not use."""

    def __init__(self) -> None:
        from refdesk.parse.pool import Crew, Pool

        self._crew = Crew()
        self._pool = Pool(PageParser(), workers=1, crew=self._crew)

    def __enter__(self) -> PageReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._crew.end()

    async def read(self, page: Fetched) -> PageFacts | Skipped:
        """The page's facts, or why it can't be parsed."""
        import anyio.to_thread

        if not page.is_html and page.content_type not in _MARKDOWN and not page.url.endswith((".md", "/llms.txt")):
            return PageFacts(may_keep=_directives(page.headers.get("x-robots-tag", ""))[0])
        content = Content(
            uri=page.url, path=page.url, data=page.data, content_type="html" if page.is_html else "markdown",
            charset=page.charset, metadata=dict(page.headers),
        )  # fmt: skip

        def read() -> PageFacts | Skipped:
            [(_, found)] = self._pool.parse_all([content], Chunking(), lambda keys: set())
            assert found is not None, "there is no time limit"
            return found if isinstance(found, Skipped) else PageFacts(**found.parsed.metadata)

        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)


class PageParser:
    """The parser that runs in the worker; it returns the facts as the metadata of an empty document."""

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        text = decode(content.data, content.charset).text
        facts = facts_in(text, content.uri, content.metadata, is_html=content.content_type == "html")
        return Parsed(title="", content_type=content.content_type, text="", chunks=(), metadata=asdict(facts))


def facts_in(text: str, url: str, headers: Mapping[str, Any], *, is_html: bool = True) -> PageFacts:
    """The facts of a page; links are normalised, each once, in order."""
    said = str(headers.get("x-robots-tag", ""))
    if not is_html or is_too_deep(text):
        may_keep, may_follow = _directives(said)
        links = clean_all(_HREF.findall(text), url) if is_html else links_in_markdown(text, url)
        return PageFacts(links=links if may_follow else (), may_keep=may_keep)
    from selectolax.lexbor import LexborHTMLParser

    page = LexborHTMLParser(text)
    base = page.css_first("base[href]")
    base_url = clean(base.attributes.get("href") or "", url) or url if base is not None else url
    tags = [(meta.attributes.get("name"), meta.attributes.get("content")) for meta in page.css("meta[name][content]")]
    asked = [content or "" for name, content in tags if (name or "").lower() in ("robots", AGENT)]
    may_keep, may_follow = _directives(",".join((said, *asked)))
    link, in_header = page.css_first("link[rel=canonical][href]"), _LINK_HEADER.search(str(headers.get("link", "")))
    canonical = link.attributes.get("href") or "" if link is not None else in_header[1] if in_header else ""
    redirect = ""
    for meta in page.css("meta[http-equiv][content]"):
        if (meta.attributes.get("http-equiv") or "").lower() == "refresh":
            found = _REFRESH.match(meta.attributes.get("content") or "")
            if found and int(found[1]) <= _REFRESH_MOST_S:
                redirect = clean(found[2], base_url)
                break
    needs_scripts = False
    if (
        page.body is not None
        and page.css_first("script") is not None
        and (words := _count_words(page.body)) < _FEW_WORDS
    ):
        mount = page.css_first(_MOUNTS)
        asks = any("javascript" in node.text(deep=True).lower() for node in page.css("noscript"))
        needs_scripts = words < _HARDLY_ANY or asks or (mount is not None and _count_words(mount) < _HARDLY_ANY)
    hrefs = (anchor.attributes.get("href") or "" for anchor in page.css("a[href], area[href]"))
    return PageFacts(
        links=clean_all(hrefs, base_url) if may_follow else (),
        canonical=clean(canonical, base_url) if canonical else "",
        redirect=redirect,
        may_keep=may_keep,
        needs_scripts=needs_scripts,
    )


def links_in_markdown(text: str, url: str) -> tuple[str, ...]:
    """The targets of a Markdown text's links, then the bare URLs in it."""
    from markdown_it import MarkdownIt

    blocks = MarkdownIt("commonmark").parse(text)
    parts = (part for block in blocks for part in block.children or ())
    hrefs = [str(part.attrs.get("href", "")) for part in parts if part.type == "link_open"]
    return clean_all((*hrefs, *(match[1].rstrip(".,;:!?") for match in _BARE_URL.finditer(text))), url)


def _directives(said: str) -> tuple[bool, bool]:
    """Whether a page may be indexed, and whether its links may be followed."""
    words = set(re.split(r"[\s,:]+", said.lower()))
    return not words & {"noindex", "none"}, not words & {"nofollow", "none"}


def _count_words(node: LexborNode) -> int:
    """The number of visible words, counted up to `_FEW_WORDS`."""
    words = 0
    waiting = [node]
    while waiting and words < _FEW_WORDS:
        one = waiting.pop()
        if one.tag == "-text":
            words += len((one.text_content or "").split())
        elif one.tag not in _UNSEEN:
            waiting.extend(one.iter(include_text=True))
    return words


# --- deciding ----------------------------------------------------------------------------------------


def outcome_of_answer(url: str, answer: Fetched, scope: Scope, hops: int = 0) -> Outcome | None:
    """The outcome of a response without a page; None if there is a page to parse."""
    if answer.location:
        return _moved(url, clean(answer.location), scope, hops, answer.status)
    if answer.status == 304:
        return Outcome(state="stored", status=304)
    reason = f"status {answer.status}"
    if answer.status in _GONE:
        return Outcome(state="gone", status=answer.status, reason=reason)
    if answer.status != 200:
        is_transient = answer.status in TRANSIENT
        pause_s = retry_after(answer.headers) if is_transient else 0.0
        return Outcome(state="failed", status=answer.status, reason=reason, is_transient=is_transient, pause_s=pause_s)
    return Outcome(state="skipped", status=200, reason=answer.unread) if answer.unread else None


def outcome_of_page(url: str, facts: PageFacts | Skipped, scope: Scope, hops: int = 0) -> Outcome:
    if isinstance(facts, Skipped):
        return Outcome(state="failed" if facts.failed else "skipped", status=200, reason=facts.reason)
    if facts.redirect and facts.redirect != url:
        return _moved(url, facts.redirect, scope, hops, 200)
    if not facts.may_keep:
        reason = "the site asks not to keep it (noindex)"
        return Outcome(state="skipped", status=200, reason=reason, links=facts.links)
    if facts.needs_scripts:
        return Outcome(state="scripts", status=200, reason="empty without JavaScript", links=facts.links)
    canonical = facts.canonical
    if canonical and canonical != url and hops < MOST_HOPS and not scope.why_not(canonical):
        return Outcome(state="alias", status=200, target=canonical, links=facts.links)
    return Outcome(state="fetched", status=200, links=facts.links)


def _moved(url: str, target: str, scope: Scope, hops: int, status: int) -> Outcome:
    if not target or not scope.has(target):
        return Outcome(state="skipped", status=status, reason=f"redirects away, to {target or 'no web address'}")
    if target == url:
        return Outcome(state="failed", status=status, reason="redirects to itself")
    if hops >= MOST_HOPS:
        return Outcome(state="failed", status=status, reason=f"redirects more than {MOST_HOPS} times")
    if reason := scope.why_not(target):
        return Outcome(state="skipped", status=status, reason=f"redirects to {target}, {reason}")
    return Outcome(state="moved", status=status, target=target)
