"""What does a file's query capture?  With a second look where its grammar stumbles over what it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node, Tree

from refdesk.parse.code import syntax
from refdesk.parse.code.generic import generic
from refdesk.parse.code.languages import Language

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elseif|else|endif)\b[^\r\n]*", re.MULTILINE)
_PLATFORM = re.compile(rb"\b(?:expect|actual)(?=\s+[a-z])")  # modifiers of as many letters as the one put for them
# The words before a primary constructor, where a line ends between them and the name of the class.
_CONSTRUCTOR = re.compile(
    rb"(\bclass\s+\w+(?:<[^<>{}()]*>)?(?:\s{0,99}/\*(?:[^*]|\*(?!/))*\*/|\s{0,99}//[^\n]*)*\s{0,99}\n\s{0,99})"
    rb"((?:\w+[ \t]+)*constructor)(?=[ \t]*\()"
)
_VISIBLE = re.compile(rb"[^\s]")

Captures = Mapping[str, list[Node]]


def read(data: bytes, language: Language) -> tuple[Tree | None, Captures]:
    """The tree and what the language's query captured in it."""
    tree, found = _read(data, language)
    if tree is None or not tree.root_node.has_error:
        return tree, found
    for simpler in _simpler(data, language):
        other, captured = _read(simpler, language)
        if other is not None and _damage(other, captured) < _damage(tree, found):
            tree, found = other, captured
        if not tree.root_node.has_error:
            break
    return tree, found


def _read(data: bytes, language: Language) -> tuple[Tree | None, Captures]:
    tree = syntax.parse(data, language.grammar)
    if tree is None:
        return None, {}
    asked = syntax.query(language.grammar, language.queries)
    return tree, syntax.captures(tree, asked) if asked is not None else generic(tree.root_node)


def _damage(tree: Tree, found: Captures) -> int:
    """How many bytes are in errors; a tree in which only something is missing has one."""
    return sum(node.end_byte - node.start_byte + 1 for node in found.get("error", ())) + tree.root_node.has_error


def _simpler(data: bytes, language: Language) -> Iterator[bytes]:
    """The text, each byte in its place, without what the grammar may not know."""
    if language.has_conditionals and b"#if" in data:
        yield from _without_directives(data)
    if language.id == "kotlin":
        plain = _PLATFORM.sub(b"public", data)
        yield plain
        yield _CONSTRUCTOR.sub(lambda m: m[1] + _VISIBLE.sub(b" ", m[2]), plain)


def _without_directives(data: bytes) -> Iterator[bytes]:
    """The text with blanks for the directives, then with blanks for all branches but the first."""
    yield _DIRECTIVE.sub(lambda m: _VISIBLE.sub(b" ", m[0]), data)
    kept = bytearray(data)
    hidden_since: list[int] = []  # per open #if: where a branch to hide starts, -1 in the first one
    for directive in _DIRECTIVE.finditer(data):
        word = directive[1]
        if not word.startswith(b"if") and hidden_since:
            since = hidden_since.pop()
            if since >= 0:
                kept[since : directive.start()] = _VISIBLE.sub(b" ", data[since : directive.start()])
        if word.startswith(b"if"):
            hidden_since.append(-1)
        elif word != b"endif":
            hidden_since.append(directive.end())
        kept[directive.start() : directive.end()] = _VISIBLE.sub(b" ", directive[0])
    yield bytes(kept)
