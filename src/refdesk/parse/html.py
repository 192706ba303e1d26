"""HTML: the page's own content as markdown, without what surrounds it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Parsed
from refdesk.parse.html_depth import is_too_deep
from refdesk.parse.manifest import NO_RULES, Governing

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_STRIPPED = re.compile(r"(?is)<(script|style|template|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*>")
_SITE_SUFFIX = re.compile(r"\s+(?:[|–—·»]|::|-)\s+[^|–—·»]+$")
_OPENING = re.compile(r"#{2,6} (.+)")
_REFRESH = re.compile(r"\s*[0-5](?:\.\d*)?\s*[;,]\s*url\s*=\s*[\"']?([^\"']+)", re.IGNORECASE)
_META = {
    "description": ("description", "og:description"),
    "author": ("author", "article:author", "dc.creator"),
    "published": ("article:published_time", "datepublished", "dc.date", "date", "pubdate"),
    "modified": (
        "article:modified_time",
        "og:updated_time",
        "datemodified",
        "last-modified",
        "docusaurus_version_date",
    ),
    "site": ("og:site_name",),
    "generator": ("generator",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What a page says, and what it calls itself."""

    title: str
    markdown: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    canonical: str = ""  # the address the page gives itself, absolute, "" for none
    redirect: str = ""  # where the page sends its readers at once; it has no content then
    notes: tuple[str, ...] = ()


class HtmlParser:
    """Reads a page through its markdown, so that chunks and lines are those of the markdown."""

    def __init__(self, rules: Governing = NO_RULES) -> None:
        self._rules = rules

    def parse(self, text: str, path: str, chunking: Chunking, url: str = "") -> Parsed:
        """The page's content; ParseFailed where the page holds no text."""
        from refdesk.parse.markdown import MarkdownParser

        page = extract(text, url)
        if not page.markdown.strip():
            where = f"it only leads to {page.redirect}" if page.redirect else "it may be made by scripts in the browser"
            raise ParseFailed(f"the page holds no text: {where}")
        title = page.title or PurePosixPath(path).stem
        parsed = MarkdownParser(self._rules).parse(page.markdown, path, chunking, title=title)
        metadata = {**page.metadata, **parsed.metadata}
        return replace(parsed, content_type="html", metadata=metadata, notes=(*page.notes, *parsed.notes))


def extract(html: str, url: str = "") -> Extracted:
    """The page's main content as markdown, its title and metadata."""
    if is_too_deep(html):
        note = "nested too deeply, or a tag with too many attributes: read without its structure"
        return Extracted(title="", markdown=_stripped(html), notes=(note,))
    from selectolax.lexbor import LexborHTMLParser

    from refdesk.parse.html_content import main_content
    from refdesk.parse.html_markdown import to_markdown

    page = LexborHTMLParser(html)
    base = _base(page, url)
    canonical, metadata = _canonical(page, base), _metadata(page)
    named, redirect = _named(page), _redirect(page, base)
    if redirect:
        return Extracted(title=named, markdown="", canonical=canonical, redirect=redirect)
    content = main_content(page)
    markdown, heading = to_markdown(content) if content is not None else ("", "")
    title, markdown = _titled(markdown, heading, _SITE_SUFFIX.sub("", named))
    return Extracted(title=title or named, markdown=markdown, metadata=metadata, canonical=canonical)


def _titled(markdown: str, heading: str, named: str) -> tuple[str, str]:
    """The title and the text that holds it as a heading; where it has none, its first heading or the head's title."""
    if heading:
        return _plain(heading), markdown
    opening = _OPENING.match(markdown)
    if opening:
        return _plain(opening[1]), f"# {markdown[opening.start(1) :]}"
    return named, f"# {named}\n\n{markdown}" if named and markdown.strip() else markdown


def _stripped(html: str) -> str:
    lines = (" ".join(line.split()) for line in unescape(_STRIPPED.sub("\n", html)).split("\n"))
    return "\n\n".join(line for line in lines if line)


def _plain(markup: str) -> str:
    from refdesk.parse.markdown import plain_text

    return plain_text(markup)


def _base(page: LexborHTMLParser, url: str) -> str:
    given = page.css_first("base[href]")
    return _join(url, given.attributes.get("href") or "") if given is not None else url


def _join(base: str, href: str) -> str:
    try:
        return urljoin(base, href.strip())
    except ValueError:
        return ""


def _canonical(page: LexborHTMLParser, base: str) -> str:
    given = page.css_first("link[rel=canonical][href]")
    address = _join(base, given.attributes.get("href") or "") if given is not None else ""
    return address if address.startswith(("http://", "https://")) else ""


def _redirect(page: LexborHTMLParser, base: str) -> str:
    for meta in page.css("meta[http-equiv][content]"):
        if (meta.attributes.get("http-equiv") or "").lower() == "refresh":
            found = _REFRESH.match(meta.attributes.get("content") or "")
            address = _join(base, found[1]) if found else ""
            if address and urldefrag(address).url != urldefrag(base).url:
                return address
    return ""


def _metadata(page: LexborHTMLParser) -> dict[str, str]:
    given: dict[str, str] = {}
    for meta in page.css("meta[content]"):
        attributes = meta.attributes
        name = (attributes.get("name") or attributes.get("property") or attributes.get("itemprop") or "").lower()
        given.setdefault(name, " ".join((attributes.get("content") or "").split()))
    found = {key: next((given[name] for name in names if given.get(name)), "") for key, names in _META.items()}
    root: LexborNode | None = page.root
    found["lang"] = (root.attributes.get("lang") or "") if root is not None else ""
    if not found["published"]:
        time = page.css_first("article time[datetime], main time[datetime]")
        found["published"] = (time.attributes.get("datetime") or "") if time is not None else ""
    return {key: value[:500] for key, value in found.items() if value}


def _named(page: LexborHTMLParser) -> str:
    """What the head calls the page."""
    for selector in ("head title", "title"):
        found = page.css_first(selector)
        if found is not None and found.text(deep=True).strip():
            return " ".join(found.text(deep=True).split())
    return ""
