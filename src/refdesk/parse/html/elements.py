"""The elements of a page: where its main content is, what is boilerplate, and inline elements as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from refdesk.text import word_set

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# ── limits: building the tree of a deeply nested page, or of a tag with many attributes, takes too long ──

_FEW_TAGS = 12_000  # up to which no tree is too expensive
_MAX_DEPTH = 3_000  # building the tree takes time quadratic in it
_TAGS = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NO_NESTING = word_set("area base br col embed hr img input link meta source track wbr p li dt dd tr td th option path")
# A tag as browsers read it; possessive (*+, ++), so that no page can make it backtrack.
_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?+)?+"""
_CROWDED = re.compile(rf"<[a-zA-Z][^\s/>]*+((?:{_ATTRIBUTE})*+)")
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_LONG_TAG = 2_000  # characters
_MOST_COMPARISONS = 20_000_000  # of each attribute with all before it: 8,000 take 0.1 s, and several times over


def is_too_deep(html: str) -> bool:
    """Whether the nesting or the attributes of a tag exceed the limits."""
    comparisons = 0
    for tag in _CROWDED.finditer(html) if len(html) > _LONG_TAG else ():
        if tag.end(1) - tag.start(1) > _LONG_TAG:
            comparisons += len(_ATTRIBUTES.findall(tag[1])) ** 2
            if comparisons > _MOST_COMPARISONS:
                return True
    if html.count("<") <= _FEW_TAGS:
        return False
    depth = 0
    opened: Counter[str] = Counter()
    for closing, name in _TAGS.findall(html):
        nests = name.lower() not in _NO_NESTING
        if not closing:
            opened[name] += 1
            depth += nests
            if depth > _MAX_DEPTH:
                return True
        elif opened[name]:  # an end tag without a start is ignored
            opened[name] -= 1
            depth -= nests
    return False


# Where documentation generators put the content: Docusaurus, VitePress, Material, Read the Docs, Furo, Sphinx,
# Starlight, GitBook, JavaDoc, GitHub. The first with text is used.
_KNOWN = (
    ".theme-doc-markdown",
    ".vp-doc",
    "article.md-content__inner",
    "div[itemprop=articleBody]",
    "article#furo-main-content",
    "div.documentwrapper div.body",
    "article.bd-article",
    ".sl-markdown-content",
    "article.markdown-body",
    "#content > main, #mdbook-content > main",
    "body.class-declaration-page main, body.package-declaration-page main, body.module-declaration-page main",
    "div.rst-content",
)
_USUAL = ("main article", "main", "[role=main]", "article", "#main-content", "#content", "#main")
_MAIN = ("main article", "main", "[role=main]")  # with a title of its own it is the content, even if short
_NEVER = (
    "script, style, noscript, template, iframe, object, embed, canvas, svg, form, button, input, select, textarea, "
    "dialog, nav, footer, link, meta, audio, video, map, "
    "a.headerlink, a.hash-link, a.header-anchor, a.anchor-link, a.heading-link, a.anchorjs-link, a.permalink, "
    "a.copiable-anchor, a.copiable-link, .nav-panel, div.header:has(> p > a[accesskey=u]), "
    "[role=navigation], [role=search], [role=banner], [role=contentinfo], [role=dialog], [role=alertdialog], "
    "a.src, a.srclink, .rightside, span.since, summary.hideme, .viewcode-back, div[class*='language-'] > span.lang, "
    ".view-source-button, div.pdoc-code, #blanket-implementations, #blanket-implementations-list, "
    ".linenos, .linenodiv, .lineno, .line-numbers-wrapper, .line-numbers-rows, .highlight-linenos"
)
_ASIDE = "aside, [hidden], [aria-hidden=true], [style*='display:none'], [style*='display: none']"
_KEPT_ASIDE = re.compile(r"admonition|aside-|starlight-aside|callout|note|tip|warning|caution|danger|alert|tabpanel")
_SURROUNDING = re.compile(
    r"^(?:(?:page-|local-|mobile-|on-this-page-?|md-|wy-|theme-doc-)?(?:toc|tocs|toc-.*|tableofcontents|"
    r"table-of-contents|tableOfContents.*)"
    r"|(?:.*[-_])?breadcrumbs?(?:[-_].*)?|tsd-index-.*|pagination(?:[-_].*)?|pager|prev-next.*|"
    r"next-prev.*|rst-footer-buttons|related-pages|page-nav.*|pagination-nav.*|sphinxsidebar.*|sidebar(?:[-_].*)?|"
    r".*-sidebar|edit-(?:this-)?page|edit-link|editlink|theme-edit-this-page|md-content__button|md-source-file.*|"
    r"theme-last-updated|last-updated|lastupdated|git-revision.*|page-metadata|"
    r"copy(?:-?(?:btn|button|code).*)|copybtn|clipboard.*|buttonGroup.*|"
    r".*cookie.*|.*consent.*|gdpr.*|newsletter.*|subscribe.*|social(?:[-_].*)?|share(?:[-_].*)?|sharing.*|"
    r"skip-?(?:to|link|nav).*|sr-only|visually-hidden|visuallyhidden|screen-reader.*|"
    r"ad|ads|advert.*|adsbygoogle|sponsors?|promo(?:[-_].*)?|comments?|comment-(?:list|form)|disqus.*|giscus.*|"
    r"feedback.*|rating.*|related|related-(?:posts|articles).*|site-?(?:header|footer|nav).*|nav(?:header|footer)|navbar.*|navigation|"
    r"menu-bar|mobile-nav.*|theme-doc-toc.*|VPDocAside.*|VPDocFooter|VPLocalNav|theme-doc-version-badge|"
    r"theme-doc-footer.*|tocCollapsible.*|announcement.*|search(?:box|-.*)?|footer|header-nav|topnav|bottomnav|subnav|"
    r"sub-nav|nav-wrapper|nav-wide-wrapper|hidden-search|back-to-top.*|viewcode-link|lang-switch.*|version-switch.*)$"
)

_FOUND_NOTHING = re.compile(r"(?<!\S)search-results(?!\S)")  # a heading in it is not the page's
_CONTENT = frozenset({"pre", "h1", "h2", "h3", "h4", "h5", "h6"})  # names in it are those of tokens and references
_A_TOOL = re.compile(r"copy|clipboard|button|sr-only|visually-?hidden")
_NAMED_BY_TITLE = frozenset({"section", "span", "a", "p", "li", "dl", "dd", "tr", "td"})  # their ids are slugs
_NEVER_SURROUNDING = word_set("html body main article h1 h2 h3 h4 h5 h6 pre code dt")


def main_content(page: LexborHTMLParser) -> LexborNode | None:
    """The element with the content, boilerplate removed; None for an empty page."""
    body = page.body
    if body is None:
        return None
    _drop_surroundings(page)
    for selector in _KNOWN:
        found = page.css_first(selector)
        if found is not None and (found.css_first("h1") is not None or len(_text(found)) > 40):
            return found
    whole = len(_text(body))
    if not whole:
        return None
    for selector in _USUAL:
        candidates = page.css(selector)
        # Several articles are a list of posts: their parent is the content.
        if len(candidates) != 1:
            continue
        titled = selector in _MAIN and candidates[0].css_first("h1") is not None
        if titled or len(_text(candidates[0])) * 4 > whole:
            return candidates[0]
    return _densest(body)


def _drop_surroundings(page: LexborHTMLParser) -> None:
    for node in page.css(_NEVER):
        node.decompose()
    for node in page.css(_ASIDE):
        described = f"{node.attributes.get('class') or ''} {node.attributes.get('role') or ''}"
        formula = node.css_first("annotation") is not None
        if not formula and not _KEPT_ASIDE.search(described):
            node.decompose()
    for node in page.css("[class], [id]"):
        attributes = node.attributes
        classes = attributes.get("class") or ""
        named = node.tag not in _NAMED_BY_TITLE and "section" not in classes
        if not _surrounds(classes) and not (named and _surrounds(attributes.get("id") or "")):
            continue
        above = node.parent
        while above is not None and above.tag not in _CONTENT:
            above = above.parent
        is_content = above is not None  # part of a heading or of code
        if node.tag in _NEVER_SURROUNDING or (is_content and not _A_TOOL.search(classes)):
            continue
        if node.css_first("h1") is None or _FOUND_NOTHING.search(classes):
            node.decompose()
    for node in page.css("body > header, body > div > header"):
        if node.css_first("h1") is None:
            node.decompose()


@lru_cache(maxsize=8192)
def _surrounds(words: str) -> bool:
    """Whether one of these classes names boilerplate."""
    return any(_SURROUNDING.match(word) for word in words.split())


def _densest(node: LexborNode) -> LexborNode:
    """The innermost element that holds most of the text."""
    for _ in range(50):
        whole = _prose(node)
        heavy = [child for child in node.iter() if _prose(child) * 5 > whole * 4]
        if len(heavy) != 1 or heavy[0].tag not in ("div", "section", "article", "main", "table", "tbody", "tr", "td"):
            return node
        # If its siblings have headings too, it is only a section of the page, as in DocBook.
        if any(child.tag in ("h1", "h2") or child.css_first("h1, h2") for child in node.iter() if child != heavy[0]):
            return node
        node = heavy[0]
    return node


def _prose(node: LexborNode) -> int:
    """The length of the text outside links."""
    return len(_text(node)) - sum(len(_text(link)) for link in node.css("a"))


def _text(node: LexborNode) -> str:
    return " ".join(node.text(deep=True).split())


# ── inline elements as Markdown ──

_SPACES = re.compile(r" {2,}")
_TICKS = re.compile(r"`+")
_MARK_OF = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_ODD_SPACE = re.compile(r"[\t\r\n\f\u00a0]|  ")
_MARKS = frozenset({"¶", "#", "🔗", "§", "\uf0c1", "Link", "Permalink", "\u200b", "Read more"})
_FORMULA = re.compile(r"katex|math", re.IGNORECASE)
_TEXT, _TARGET, _END = "\ufdd0", "\ufdd1", "\ufdd2"  # noncharacters
_LINK = re.compile("(\\\\?.)\ufdd0([^\ufdd0-\ufdd2]*)\ufdd1([^\ufdd0-\ufdd2]*)\ufdd2", re.DOTALL)
_LEADS = re.compile(r"\s*(?!#|javascript:|mailto:|tel:|data:)\S", re.IGNORECASE)  # to another page
MAX_DEPTH = 150  # of nesting; deeper elements are read as text


def inline(node: LexborNode) -> str:
    """An element's text with emphasis and code marked, on one line unless it breaks."""
    return tidy("".join([inline_of(child, 0) for child in node.iter(include_text=True)]))


def inline_of(node: LexborNode, depth: int) -> str:
    """One node's text with emphasis and code marked, spaces as they come."""
    tag = node.tag
    if tag == "-text":
        return _spaced(node.text_content or "")
    if tag == "br":
        return "\n"
    if tag == "img":
        alt = squeeze(node.attributes.get("alt") or "")
        return f"[image: {alt}]" if len(alt) > 2 and not re.search(r"\.\w{3,4}$", alt) else ""
    if node.is_comment_node or tag in ("rp", "rt", "wbr"):
        return ""
    only = _only_text(node)
    if only is None and (tag == "math" or (tag == "span" and _FORMULA.search(node.attributes.get("class") or ""))):
        formula = node.css_first("annotation[encoding='application/x-tex']")  # its source, beside its rendering
        if formula is not None:
            return f"${squeeze(formula.text(deep=True))}$"
    if tag in ("code", "tt", "kbd", "samp"):
        return code_span(_spaced(code_text(node)))
    if depth > MAX_DEPTH:
        return squeeze(node.text(deep=True))
    if only is None:
        inner = "".join([inline_of(child, depth + 1) for child in node.iter(include_text=True)])
    else:
        inner = _spaced(only)
    core = inner.strip()
    start, end = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    if tag == "a":
        if core in _MARKS or not core:
            return ""
        href = node.attributes.get("href")
        if not href or not _LEADS.match(href) or "\n" in core:
            return inner
        # Marked by noncharacters after its first character, so that lines start as they do without it.
        return f"{start}{core[0]}{_TEXT}{core[1:]}{_TARGET}{href.strip()}{_END}{end}"
    mark = _MARK_OF.get(tag or "", "")
    return f"{start}{mark}{core}{mark}{end}" if core and "\n" not in core and not core.startswith(mark) else inner


def without_targets(text: str) -> str:
    """The text with its links reduced to their words."""
    return _LINK.sub(r"\1\2", text) if _TEXT in text else text


def with_targets(text: str, join: Callable[[str], str]) -> str:
    """The text with its links as Markdown; `join` makes an address absolute, or returns "" for a dead one."""

    def link(found: re.Match[str]) -> str:
        address = join(found[3])
        words = found[1] + found[2]
        return f"[{words}]({address.replace(' ', '%20').replace(')', '%29')})" if address else words

    return _LINK.sub(link, text) if _TEXT in text else text


def _only_text(node: LexborNode) -> str | None:
    """The text of an element without child elements; None for any other."""
    child = node.first_child
    return child.text_content or "" if child is not None and child.tag == "-text" and child.next is None else None


def _spaced(text: str) -> str:
    """The text with runs of white space replaced by one blank."""
    return _SPACE.sub(" ", text) if _ODD_SPACE.search(text) else text


def code_span(text: str) -> str:
    """The text as code within a line."""
    core = text.strip()
    if not core:
        return text
    if "`" not in core:
        return f"`{core}`"
    ticks = "`" * (max(len(run) for run in _TICKS.findall(core)) + 1)
    pad = " " if core.startswith("`") or core.endswith("`") else ""
    return f"{ticks}{pad}{core}{pad}{ticks}"


def tidy(text: str) -> str:
    """The text without needless spaces and empty lines."""
    if text.isspace():
        return ""
    if "  " in text:
        text = _SPACES.sub(" ", text)
    if "\n" not in text:
        return text.strip()
    return "\n".join([line for line in (line.strip() for line in text.split("\n")) if line])


def squeeze(text: str) -> str:
    """The text on one line."""
    return _spaced(text).strip()


def code_text(node: LexborNode) -> str:
    """The text of code unchanged, with <br> as line ends."""
    return _broken(node).replace("\r\n", "\n").replace("\u00a0", " ")


def _broken(node: LexborNode) -> str:
    child = node.first_child
    if child is not None and child.next is None:
        if child.tag == "-text":
            return child.text_content or ""
        if child.tag == "span" and (only := _only_text(child)) is not None:
            return only
    if node.tag == "pre" and node.css_first("br, div, code") is None:
        return node.text(deep=True)
    parts: list[str] = []
    # Some generators put each line in a <code>; with other text around it is inline code, as in DocBook.
    held = node.iter(include_text=True) if node.tag == "pre" else ()
    own_lines = ("div", "code") if all(one.tag == "code" or one.is_empty_text_node for one in held) else ("div",)
    for child in node.traverse(include_text=True):
        if child.tag == "-text":
            parts.append(child.text_content or "")
        elif child.tag == "br" or (child.tag in own_lines and parts and not parts[-1].endswith("\n")):
            parts.append("\n")
    return "".join(parts)
