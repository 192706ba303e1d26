"""Is a page nested so deeply that it must not be read as a tree?"""

from __future__ import annotations

import re

_FEW_TAGS = 12_000  # whatever they are, their tree is built in a moment
_MAX_DEPTH = 3_000  # building the tree takes the square of it
_TAGS = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NO_NESTING = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "p", "li",
    "dt", "dd", "tr", "td", "th", "option", "path",
})  # fmt: skip


def is_too_deep(html: str) -> bool:
    """Whether more elements are open at once than a tree can well have."""
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
