"""Is a page nested so deeply, or has a tag so many attributes, that it must not be read as a tree?"""

from __future__ import annotations

import re

_FEW_TAGS = 12_000  # whatever they are, their tree is built in a moment
_MAX_DEPTH = 3_000  # building the tree takes the square of it
_TAGS = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NO_NESTING = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "p", "li",
    "dt", "dd", "tr", "td", "th", "option", "path",
})  # fmt: skip
# As browsers read a tag; nothing is tried twice (*+, ++), since pages are written by strangers.
_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?+)?+"""
_CROWDED = re.compile(rf"<[a-zA-Z][^\s/>]*+((?:{_ATTRIBUTE})*+)")
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_LONG_TAG = 2_000  # characters
_MOST_COMPARISONS = (
    20_000_000  # each attribute is compared with all before it; 8,000 take 0.1 s, and several times over
)


def is_too_deep(html: str) -> bool:
    """Whether more elements are open at once, or more attributes are in a tag, than a tree can well have."""
    return _is_nested_deep(html) or _is_crowded(html)


def _is_crowded(html: str) -> bool:
    if len(html) < _LONG_TAG:
        return False
    comparisons = 0
    for tag in _CROWDED.finditer(html):
        if tag.end(1) - tag.start(1) > _LONG_TAG:
            comparisons += len(_ATTRIBUTES.findall(tag[1])) ** 2
            if comparisons > _MOST_COMPARISONS:
                return True
    return False


def _is_nested_deep(html: str) -> bool:
    if html.count("<") <= _FEW_TAGS:
        return False
    depth = 0
    opened: dict[str, int] = {}
    for closing, name in _TAGS.findall(html):
        open_now = opened.get(name, 0)
        if not closing:
            opened[name] = open_now + 1
            depth += name.lower() not in _NO_NESTING
            if depth > _MAX_DEPTH:
                return True
        elif open_now:  # an end of what was never begun ends nothing
            opened[name] = open_now - 1
            depth -= name.lower() not in _NO_NESTING
    return False
