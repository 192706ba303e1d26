"""Formats values for pages and renders untrusted text safely: code, Markdown, HTML."""

from __future__ import annotations

import html
import posixpath
import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from markupsafe import Markup, escape

from refdesk.text import word_set
from refdesk.text.analyse import STOP_TERMS, terms

_WORD = re.compile(r"\w+|\W+")
_LEXERS = {"csharp": "csharp", "objc": "objective-c", "proto": "protobuf", "plain_text": "text", "toon": "yaml"}
_LONG_LINE = 2_000  # characters of a line that is highlighted
_LEXED_S = 0.15  # of processor time for a text, then the rest stays plain: lexers take quadratic time over some texts
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*\n", re.DOTALL)


# --- values ------------------------------------------------------------------------------------------


def ago(milliseconds: int) -> str:
    """The time since a moment, in words."""
    if not milliseconds:
        return "never"
    seconds = max(0, int(time.time() - milliseconds / 1000))
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            many = seconds // size
            return f"{many} {name}{'s' * (many > 1)} ago"
    return "just now"


def moment(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def number(count: float) -> str:
    return f"{count:,}".replace(",", "\u202f")


def many(count: int, one: str) -> str:
    """A count and its noun, in the plural if needed."""
    return f"{number(count)} {one}{'s' * (count != 1)}"


def lasted(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 90_000 else f"{milliseconds // 60_000} min"


_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), 127)}
_BIDI = {code: f"⟨U+{code:04X}⟩" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}  # embed and override


def name(text: str) -> str:
    """A name with control and bidirectional characters made visible."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS | _BIDI)


FILTERS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one for one in (ago, moment, size, number, many, lasted, name)
}


# --- code --------------------------------------------------------------------------------------------


def asked_terms(query: str) -> frozenset[str]:
    """The terms of a query that are highlighted in its hits."""
    return frozenset(terms(query)) - STOP_TERMS


@lru_cache(maxsize=4096)
def _word_terms(word: str) -> tuple[str, ...]:
    return tuple(terms(word))


def _with_marks(text: str, marked: Container[str]) -> str:
    """The escaped text with the words whose terms are in `marked` highlighted."""

    def shown(found: re.Match[str]) -> str:
        word = html.escape(found[0])
        return f"<mark>{word}</mark>" if any(term in marked for term in _word_terms(found[0])) else word

    return _WORD.sub(shown, text) if marked else html.escape(text)


def code_lines(text: str, language: str, marked: Container[str] = ()) -> list[Markup]:
    """The lines of a text, highlighted; words whose terms are in `marked` are marked."""
    lines: list[Markup] = []
    parts: list[str] = []
    for css, piece in _pieces(text if text.isascii() else text.translate(_BIDI), language):
        for at, row in enumerate(piece.split("\n")):
            if at:
                lines.append(Markup("".join(parts)))  # noqa: S704  (every piece is escaped)
                parts = []
            if row:
                shown = _with_marks(row, marked)
                parts.append(f'<span class="{css}">{shown}</span>' if css else shown)
    return [*lines, Markup("".join(parts))]  # noqa: S704  (as above)


_FINE = frozenset({"nf", "nc", "nd", "nt", "na", "gd", "gi", "gh", "gu"})  # kinds with a colour of their own
_PLAIN = frozenset({"n", "p", "w", "e", "l", "g"})  # kinds without one


def _pieces(text: str, language: str) -> list[tuple[str, str]]:
    """The text in pieces, each with its CSS class."""
    lexer = _lexer(language)
    if lexer is None or max(map(len, text.split("\n"))) > _LONG_LINE:
        return [("", text)]
    pieces: list[tuple[str, str]] = []
    until = time.thread_time() + _LEXED_S
    start = end = 0
    last = ""
    for number, (at, kind, value) in enumerate(lexer.get_tokens_unprocessed(text)):
        css = _css(kind)
        if css != last:  # those of one colour are one piece
            pieces.append((last, text[start:at]))
            start, last = at, css
        end = at + len(value)
        if number % 32 == 0 and time.thread_time() > until:
            break
    return [*pieces, (last, text[start:end]), ("", text[end:])]


@lru_cache(maxsize=256)
def _css(kind: Any) -> str:
    from pygments.token import STANDARD_TYPES

    while kind not in STANDARD_TYPES:
        kind = kind.parent
    fine = STANDARD_TYPES[kind]
    return fine if fine in _FINE else "" if fine[:1] in _PLAIN else fine[:1]


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_all_lexers, get_lexer_by_name

    name = _LEXERS.get(language, language)
    # Without a look at installed plugins, which takes 80 ms for a name that nobody knows.
    is_known = any(name in aliases for _, aliases, _, _ in get_all_lexers(plugins=False))
    return get_lexer_by_name(name) if is_known and name != "text" else None


# --- prose -------------------------------------------------------------------------------------------


_TAGS = word_set(
    "a abbr b blockquote br caption cite code dd del details dfn div dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li ol"
    " p pre q s samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var"
)
_ATTRIBUTES = {"a": {"href", "title"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}, "ol": {"start"}}
_OURS = re.compile(r"hit|picture|k|c|s|n[fcdta]?|o|m|g[dihu]?|l|p|e|w|")
_IDS = re.compile(r"L[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Prose:
    """A rendered page, its front matter, and the level, text and line of each heading."""

    body: Markup
    front: Mapping[str, str]
    headings: Sequence[tuple[int, str, int]]


def prose(
    text: str, collection: str, path: str, lines: tuple[int, int] = (0, 0), *, skipped: int = 0, breaks: bool = False
) -> Prose:
    """Markdown as sanitised HTML with a hit's lines marked; `skipped` lines precede the text in its document."""
    from markdown_it import MarkdownIt

    front: dict[str, str] = {}
    if not skipped and (found := _FRONT_MATTER.match(text)):
        pairs = (line.partition(":") for line in found[1].splitlines() if not line.startswith((" ", "-", "#")))
        front = {key.strip(): value.strip(" '\"") for key, mark, value in pairs if mark and value.strip()}
        skipped = found[0].count("\n")
        text = text[found.end() :]
    parser = MarkdownIt("commonmark", {"html": True, "breaks": breaks}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _picture)
    parser.add_render_rule("fence", _fence)
    tokens = parser.parse(text)
    headings = []
    for at, token in enumerate(tokens):
        if token.map is None or token.nesting < 0:
            continue
        first, last = token.map[0] + 1 + skipped, token.map[1] + skipped
        if token.type == "heading_open":
            headings.append((int(token.tag[1]), _plain(tokens[at + 1]), first))
        if token.type == "heading_open" or (token.level == 0 and token.type != "inline"):
            token.attrSet("id", f"L{first}")
            token.attrSet("dir", "auto")
        if token.level == 0 and lines[0] and first <= lines[1] and last >= lines[0] and token.type != "inline":
            token.attrJoin("class", "hit")
    return Prose(clean(parser.renderer.render(tokens, parser.options, {}), collection, path), front, headings)


def _plain(inline: Any) -> str:
    """The text of a heading without its marks."""
    return "".join(one.content for one in inline.children or () if one.type in ("text", "code_inline")).strip()


def clean(source: str, collection: str, path: str) -> Markup:
    """Sanitised HTML; links to files of the collection lead to the reader."""
    import nh3

    def kept(tag: str, name: str, value: str) -> str | None:
        if name == "class":
            return value if all(map(_OURS.fullmatch, value.split())) else None
        if name == "id":
            return value if _IDS.fullmatch(value) else None
        if name == "dir":
            return value if value in ("auto", "ltr", "rtl") else None
        return _target(value, collection, path) if name == "href" else value

    attributes = {**_ATTRIBUTES, "*": {"class", "id", "dir"}}
    schemes = {"http", "https", "mailto"}
    cleaned = nh3.clean(source, tags=set(_TAGS), attributes=attributes, attribute_filter=kept, url_schemes=schemes)
    return Markup(cleaned)  # noqa: S704  (what nh3 is for)


def _target(link: str, collection: str, path: str) -> str | None:
    try:
        parts = urlsplit(link)
    except ValueError:
        return None
    if parts.scheme or parts.netloc:
        return link
    if not parts.path:
        return None
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path)))
    return None if inside.startswith(("..", "/")) else f"/read/{quote(collection)}/{quote(inside)}"


def _picture(renderer: Any, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
    """A picture's description: pictures are not fetched."""
    return f'<span class="picture">{escape(tokens[at].content or "picture")}</span>'


def _fence(renderer: Any, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    shown = Markup("\n").join(code_lines(token.content.rstrip("\n"), token.info.strip().partition(" ")[0] or "text"))
    own = "".join(f' {name}="{escape(value)}"' for name, value in token.attrs.items())
    return f"<pre{own}><code>{shown}</code></pre>\n"
