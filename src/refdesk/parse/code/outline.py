"""What does a large type look like from far away?"""

from __future__ import annotations

from refdesk import tokens
from refdesk.parse.code.definitions import TYPES, Definition

_INDENT = "    "


def outline(d: Definition, max_tokens: int) -> str:
    """A type's head, its documentation and its members' signatures, within a budget of tokens."""
    head = [d.signature or d.name, *_doc_lines(d.doc)]
    members = _members(d)
    text = "\n".join([*head, *(f"{_INDENT * depth}{m.signature}" for m, depth in members)])
    if tokens.pieces(text) <= max_tokens:
        return text
    budget = max_tokens - tokens.pieces("\n".join(head)) - 8
    kept: list[str] = []
    for m, depth in members:
        line = f"{_INDENT * depth}{m.name}"
        budget -= tokens.pieces(line) + 1
        if budget < 0:
            break
        kept.append(line)
    left = len(members) - len(kept)
    return "\n".join([*head, *kept, *([f"{_INDENT}… {left} more"] if left else [])])


def _doc_lines(doc: str) -> list[str]:
    paragraph = doc.split("\n\n", 1)[0][:600]
    return [f"{_INDENT}{line}" for line in paragraph.splitlines()]


def _members(d: Definition) -> list[tuple[Definition, int]]:
    found: list[tuple[Definition, int]] = []
    stack = [(child, 1) for child in reversed(d.children)]
    while stack:
        member, depth = stack.pop()
        found.append((member, depth))
        if member.kind in TYPES and depth < 4:
            stack += [(child, depth + 1) for child in reversed(member.children)]
    return found
