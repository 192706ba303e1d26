"""HTML pages: their main content as Markdown, with the lines of the page."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import accumulate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin

from refdesk.errors import ParseFailed
from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.html.elements import is_too_deep, main_content, with_targets, without_targets
from refdesk.parse.prose.manifest import NO_RULES, Governing
from refdesk.text import analyse

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_STRIPPED = re.compile(r"(?is)<(script|style|template|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*(?:>|\Z)")
_NOT_SHOWN = re.compile(r"(?:script|style|template|noscript|title)\b", re.IGNORECASE)
_NO_LETTER = bytes(code for code in range(128) if not chr(code).isalnum() and code != 10)
_MARKER = re.compile(r"^\s*(?:[-*>]\s+)*(?:\d+\.\s|(?:```|~~~).*)?")  # Markdown markers, which the page does not have
_KEY = 40  # letters at the start and the end of a line that are looked up: its middle may have an image
_TRIES = 5  # lines of a chunk that are tried
_AHEAD = 100_000  # letters to search ahead; bounds the time for a page
_NEAR = 50  # letters of distance allowed per letter looked up: a short word occurs everywhere
_SITE_SUFFIX = re.compile(r"\s+(?:[|–—·»]|::|-)\s+[^|–—·»]+$")
_OPENING = re.compile(r"(#{2,6}) (.+)")
_REFRESH = re.compile(r"\s*[0-5](?:\.\d*)?\s*[;,]\s*url\s*=\s*[\"']?([^\"']+)", re.IGNORECASE)
_TEMPLATE_HEAD = re.compile(r"\s*(?:\{%|\{\{|<%|<#|@(?:page|model|using|inject)\b)")
# In a tag: pages about templates have these in their text alone.
_TEMPLATE_TAG = re.compile(
    r"<[a-zA-Z][^<>]{0,400}?(?:\{\{|\{%|<%|\s(?:\*ng\w+|\[\(?[\w.-]+\)?\]|\([\w.-]+\)|[:@][\w.:-]+|(?:th|ng|v)[:-][\w.:-]+)=)"
)
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
    """The content of a page, its title and its metadata."""

    title: str
    markdown: str
    linked: str = ""  # the same with link targets, for readers; in the index they would be noise
    metadata: Mapping[str, str] = field(default_factory=dict)
    redirect: str = ""  # target of an immediate redirect; then there is no content
    notes: tuple[str, ...] = ()


def is_template(text: str) -> bool:
    """Whether the text is made into a page by a template engine or a framework; what documents such a one is not."""
    return _TEMPLATE_HEAD.match(text) is not None or _TEMPLATE_TAG.search(text) is not None


def parse_html(text: str, path: str, chunking: Chunking, url: str = "", rules: Governing = NO_RULES) -> Parsed:
    """The content of a page as Markdown, with the lines of the page; raises ParseFailed if it has no text."""
    from refdesk.parse.prose.markdown import parse_markdown

    page = extract(text, url)
    if not page.markdown.strip():
        where = f"it only leads to {page.redirect}" if page.redirect else "it may be made by scripts in the browser"
        raise ParseFailed(f"the page holds no text: {where}")
    title = page.title or PurePosixPath(path).stem
    parsed = parse_markdown(page.markdown, path, chunking, rules, title)
    return replace(
        parsed,
        content_type="html",
        text=page.linked or parsed.text,
        chunks=placed(parsed.chunks, unescape(_shown(text))),
        metadata={**page.metadata, **parsed.metadata},
        notes=(*page.notes, *parsed.notes),
    )


def placed(chunks: Sequence[Chunk], source: str) -> tuple[Chunk, ...]:
    """The chunks with the lines of the source that their text came from, or none if it is not found.

    The HTML parser gives no positions, so letters and digits are searched in the page: first a chunk's longest line,
    then the lines before and after it, nearby. Chunks are in the order of the source.
    """
    lines = _letters(source).split(b"\n")
    letters = b"".join(lines)
    ends = list(accumulate(map(len, lines)))
    found_at: list[Chunk] = []
    reached = 0
    for chunk in chunks:
        wanted = [key for line in chunk.text.split("\n") if (key := _letters(_MARKER.sub("", line)))]
        first = last = -1
        for at in sorted(range(len(wanted)), key=lambda at: -len(wanted[at]))[:_TRIES]:
            first = letters.find(wanted[at][:_KEY], reached, reached + _AHEAD)
            if first >= 0:
                last = reached = first
                for key in reversed(wanted[:at]):
                    near = max(0, first - _NEAR * min(len(key), _KEY))
                    first = found if (found := letters.rfind(key[:_KEY], near, first)) >= 0 else first
                for key in wanted[at:]:
                    for part in (key[:_KEY], key[_KEY:][-_KEY:]):
                        found = letters.find(part, last, last + len(key) + _NEAR * len(part))
                        last = found + len(part) if found >= 0 else last
                break
        start, end = (bisect_right(ends, first) + 1, bisect_right(ends, last - 1) + 1) if first >= 0 else (0, 0)
        found_at.append(chunk._replace(start_line=start, end_line=end))
    return tuple(found_at)


def _letters(text: str) -> bytes:
    """The text without white space and ASCII punctuation, as bytes, which takes a tenth of the time."""
    return text.replace("\u00a0", " ").encode("utf-8", "surrogatepass").translate(None, _NO_LETTER)


def _shown(html: str) -> str:
    """The text of a page without its tags, on the same lines; in one pass."""
    before, *rest = html.split("<")
    kept = [before]
    inside = ""  # a comment or a hidden element
    for part in rest:
        if inside == "!--" or (not inside and part.startswith("!--")):
            tag, mark, text = part.partition("-->")
            inside = "" if mark else "!--"
        else:
            tag, _, text = part.partition(">")
            if inside:
                inside = "" if tag[: len(inside) + 1].lower() == f"/{inside}" else inside
            elif (found := _NOT_SHOWN.match(tag)) is not None:
                inside = found[0].lower()
        if "\n" in tag:
            kept.append("\n" * tag.count("\n"))
        kept.append("\n" * text.count("\n") if inside else text)
    return "".join(kept)


def extract(html: str, url: str = "") -> Extracted:
    """The page's main content as Markdown, its title and metadata."""
    if is_too_deep(html):
        note = "nested too deeply, or a tag with too many attributes: read without its structure"
        lines = (" ".join(line.split()) for line in unescape(_STRIPPED.sub("\n", html)).split("\n"))
        return Extracted(title="", markdown="\n\n".join(filter(None, lines)), notes=(note,))
    from selectolax.lexbor import LexborHTMLParser

    from refdesk.parse.html.markdown import to_markdown
    from refdesk.parse.prose.markdown import plain_text

    page = LexborHTMLParser(html)
    given = page.css_first("base[href]")
    base = _join(url, given.attributes.get("href") or "") if given is not None else url
    titles = [*page.css("head title"), *page.css("title")]
    named = next((text for one in titles if (text := " ".join(one.text(deep=True).split()))), "")
    for meta in page.css("meta[http-equiv][content]"):
        if (meta.attributes.get("http-equiv") or "").lower() == "refresh":
            found = _REFRESH.match(meta.attributes.get("content") or "")
            target = _join(base, found[1]) if found else ""
            if target and urldefrag(target).url != urldefrag(base).url:
                return Extracted(title=named, markdown="", redirect=target)
    metadata = _metadata(page)
    content = main_content(page)
    marked, heading = to_markdown(content) if content is not None else ("", "")
    title = plain_text(without_targets(heading))
    if heading and named and content is not None and len(content.css("h1")) > 1:
        # Of several, the first may be a chapter, such as "1. Overview".
        is_title = not set(analyse.terms(title)).isdisjoint(analyse.terms(f"{named} {url}"))
        title = title if is_title else _SITE_SUFFIX.sub("", named)
    opening = None if heading else _OPENING.match(marked)
    if opening is not None and not (named and f"\n{opening[1]} " in marked):  # else it is the first of several
        title, marked = plain_text(without_targets(opening[2])), f"# {marked[opening.start(2) :]}"
    elif not heading:  # the title of the head is used
        title = _SITE_SUFFIX.sub("", named)
        marked = f"# {title}\n\n{marked}" if title and marked.strip() else marked
    return Extracted(
        title=title or named,
        markdown=without_targets(marked),
        linked=with_targets(marked, lambda href: _join(base, href)),
        metadata=metadata,
    )


def _join(base: str, href: str) -> str:
    try:
        return urljoin(base, href.strip())
    except ValueError:
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
