"""Inline elements as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

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
    formula = _formula(node) if only is None and tag in ("span", "math") else None
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
    if tag == "a":
        core = inner.strip()
        if core in _MARKS or not core:
            return ""
        href = node.attributes.get("href")
        return _linked(inner, core, href) if href and _LEADS.match(href) and "\n" not in core else inner
    mark = _MARK_OF.get(tag or "", "")
    return _marked(inner, mark) if mark else inner


def _linked(inner: str, core: str, href: str) -> str:
    """A link marked by noncharacters after its first character, so that lines start as they do without it."""
    start = inner[: len(inner) - len(inner.lstrip())]
    return f"{start}{core[0]}{_TEXT}{core[1:]}{_TARGET}{href.strip()}{_END}{inner[len(inner.rstrip()) :]}"


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


def _formula(node: LexborNode) -> LexborNode | None:
    """The source of a formula, which is beside its rendering."""
    if node.tag == "span" and not _FORMULA.search(node.attributes.get("class") or ""):
        return None
    return node.css_first("annotation[encoding='application/x-tex']")


def _marked(inner: str, mark: str) -> str:
    core = inner.strip()
    if not core or "\n" in core or core.startswith(mark):
        return inner
    start = inner[: len(inner) - len(inner.lstrip())]
    return f"{start}{mark}{core}{mark}{inner[len(inner.rstrip()) :]}"


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
