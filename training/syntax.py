"""What functions and types does a source file define, and what is said about each?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node, Parser, Query, QueryCursor
from tree_sitter_language_pack import get_language

MAX_BODY = 1_600
MAX_DOC = 900

_JS = """(function_declaration) @f (method_definition) @f (generator_function_declaration) @f (class_declaration) @t
(variable_declarator value: [(arrow_function) (function_expression)]) @f
(assignment_expression right: [(arrow_function) (function_expression)]) @f
(pair value: [(arrow_function) (function_expression)]) @f"""
QUERIES = {
    "python": "(function_definition) @f (class_definition) @t",
    "javascript": _JS,
    "typescript": _JS + "(interface_declaration) @t (type_alias_declaration) @t (function_signature) @d",
    "tsx": _JS + "(interface_declaration) @t",
    "go": "(function_declaration) @f (method_declaration) @f (type_declaration) @t",
    "rust": "(function_item) @f (struct_item) @t (enum_item) @t (trait_item) @t (macro_definition) @f",
    "java": "(method_declaration) @f (constructor_declaration) @f (class_declaration) @t (interface_declaration) @t",
    "c": "(function_definition) @f (declaration (function_declarator)) @d (struct_specifier body: (_)) @t",
    "cpp": "(function_definition) @f (class_specifier body: (_)) @t (struct_specifier body: (_)) @t "
    "(field_declaration (function_declarator)) @d (declaration (function_declarator)) @d",
    "ruby": "(method) @f (singleton_method) @f (class) @t (module) @t",
    "php": "(function_definition) @f (method_declaration) @f (class_declaration) @t",
    "lua": "(function_declaration) @f",
    "csharp": "(method_declaration) @f (constructor_declaration) @f (class_declaration) @t",
    "swift": "(function_declaration) @f (class_declaration) @t",
    "kotlin": "(function_declaration) @f (class_declaration) @t",
    "scala": "(function_definition) @f (class_definition) @t (object_definition) @t",
    "haskell": "(signature) @h",
    "bash": "(function_definition) @f",
}
_WRAPPERS = {
    "export_statement",
    "lexical_declaration",
    "variable_declaration",
    "expression_statement",
    "template_declaration",
    "decorated_definition",
    "type_declaration",
}
_BETWEEN = {"attribute_item", "attribute", "annotation", "marker_annotation", "decorator", "modifiers", "pragma"}
_TYPE_NODES = re.compile(r"class|struct|trait|impl_item|interface|module|object|enum|namespace")


@dataclass(slots=True)
class Unit:
    """One function or type: what is said about it, its signature and its body."""

    name: str
    owner: str
    kind: str
    signature: str
    body: str
    doc: str


@lru_cache(None)
def _tools(language: str) -> tuple[Parser, Query]:
    grammar = get_language(language)  # type: ignore[arg-type]
    return Parser(grammar), Query(grammar, QUERIES[language])


def units(source: bytes, language: str) -> list[Unit]:
    """The functions and types of a file; a declaration's comment goes to the definition of the same name."""
    parser, query = _tools(language)
    captures = QueryCursor(query).captures(parser.parse(source).root_node)
    if language == "haskell":
        return list(_haskell(captures.get("h", []), source))
    found = [unit for node in captures.get("f", []) if (unit := _unit(node, source, language, "function"))]
    found += [unit for node in captures.get("t", []) if (unit := _unit(node, source, language, "type"))]
    declared = {}
    for node in captures.get("d", []):
        unit = _unit(node, source, language, "declaration")
        if unit and unit.doc:
            declared[unit.name] = unit
    defined = {unit.name for unit in found}
    for unit in found:
        if not unit.doc and unit.name in declared:
            unit.doc = declared[unit.name].doc
    return found + [unit for name, unit in declared.items() if name not in defined]


def _unit(node: Node, source: bytes, language: str, kind: str) -> Unit | None:
    name = _name(node, source)
    if not name or len(name) < 2:
        return None
    body = node.child_by_field_name("body")
    if body is None:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        body = value.child_by_field_name("body") if value is not None else None
    top = node
    while top.parent is not None and top.parent.type in _WRAPPERS:
        top = top.parent
    start, end = (body.start_byte, body.end_byte) if body is not None else (node.end_byte, node.end_byte)
    doc = ""
    if language == "python" and body is not None:
        doc, start = _docstring(body, source)
    if not doc:
        doc = _comment_above(top, source)
    signature = _text(source, node.start_byte, body.start_byte if body is not None else node.end_byte, 400)
    return Unit(name, _owner(top, source), kind, signature.strip(), _text(source, start, end, MAX_BODY), doc[:MAX_DOC])


def _text(source: bytes, start: int, end: int, limit: int) -> str:
    return source[start : min(end, start + limit)].decode("utf-8", "ignore")


def _name(node: Node, source: bytes) -> str:
    found = node.child_by_field_name("name") or node.child_by_field_name("left") or node.child_by_field_name("key")
    if found is None and node.type == "type_declaration" and node.named_child_count:
        found = node.named_children[0].child_by_field_name("name")
    if found is None:
        found = node.child_by_field_name("declarator")
        while found is not None and (inner := found.child_by_field_name("declarator")) is not None:
            found = inner
        if found is not None and (last := found.child_by_field_name("name")) is not None:
            found = last
    if found is None:
        found = next((child for child in node.named_children if child.type.endswith("identifier")), None)
    text = _text(source, found.start_byte, found.end_byte, 120) if found is not None else ""
    text = re.split(r"[.:]", text.strip("'\"* "))[-1]
    return text if re.fullmatch(r"[\w$!?=~]+", text) else ""


def _owner(node: Node, source: bytes) -> str:
    parent = node.parent
    for _ in range(8):
        if parent is None:
            return ""
        if _TYPE_NODES.search(parent.type) and not parent.type.endswith("body"):
            found = parent.child_by_field_name("name") or parent.child_by_field_name("type")
            if found is not None:
                return _text(source, found.start_byte, found.end_byte, 80)
        parent = parent.parent
    return ""


def _docstring(body: Node, source: bytes) -> tuple[str, int]:
    first = body.named_children[0] if body.named_child_count else None
    while first is not None and first.type == "comment":
        first = first.next_named_sibling
    string = first
    if string is not None and string.type == "expression_statement" and string.named_child_count:
        string = string.named_children[0]
    if first is None or string is None or string.type != "string":
        return "", body.start_byte
    text = _text(source, string.start_byte, string.end_byte, 4 * MAX_DOC)
    return clean_doc(re.sub(r"^[rRuUbB]*('''|\"\"\"|'|\")|('''|\"\"\"|'|\")$", "", text)), first.end_byte


def _comment_above(node: Node, source: bytes) -> str:
    lines: list[str] = []
    row, sibling = node.start_point[0], node.prev_sibling
    while sibling is not None and row - sibling.end_point[0] <= 1:
        if "comment" in sibling.type or sibling.type == "haddock":
            lines.append(_text(source, sibling.start_byte, sibling.end_byte, 4 * MAX_DOC))
        elif sibling.type not in _BETWEEN:
            break
        row, sibling = sibling.start_point[0], sibling.prev_sibling
        if len(lines) > 30:
            break
    return clean_doc("\n".join(reversed(lines)))


_MARKERS = re.compile(
    r"^[ \t]*(?:/\*\*?!?|\*+/|\*(?!\*)|///?!?<?|//!|#+!?|--+[|^]?|=begin|=end|%+|;+)[ \t]?", re.MULTILINE
)
_TAIL = re.compile(r"[ \t]*\*+/[ \t]*$", re.MULTILINE)
_TAGS = re.compile(r"<(?:/?(?:p|code|pre|b|i|em|tt|ul|li|summary|remarks|para|br|c)\b[^>]*/?)>")
_LINK = re.compile(r"\{@\w+\s+([^}]*)\}|:\w+:`~?([^`]*)`")
_NOT_DOC = re.compile(
    r"copyright|licen[sc]e|eslint|noqa|pylint|type: ignore|nolint|SPDX|@author|vim:|TODO|FIXME", re.IGNORECASE
)


def clean_doc(text: str) -> str:
    """A comment or docstring without its markers, or nothing if it documents nothing."""
    text = _TAIL.sub("", text)
    text = _MARKERS.sub("", text)
    text = _LINK.sub(lambda found: found[1] or found[2] or "", _TAGS.sub(" ", text))
    lines = [line.strip() for line in text.strip().splitlines()]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in lines if not re.fullmatch(r"[-=*#/_~]{3,}", line)))
    if len(text) < 12 or _NOT_DOC.search(text[:200]) or text.count(" ") < 2:
        return ""
    letters = sum(c.isalpha() or c == " " for c in text)
    return text.strip() if letters > 0.6 * len(text) else ""


def _haskell(nodes: list[Node], source: bytes) -> Iterator[Unit]:
    for node in nodes:
        name = _name(node, source)
        following = node.next_named_sibling
        if not name or following is None or following.type not in ("function", "bind"):
            continue
        signature = _text(source, node.start_byte, node.end_byte, 400)
        body = _text(source, following.start_byte, following.end_byte, MAX_BODY)
        yield Unit(name, "", "function", signature, body, _comment_above(node, source)[:MAX_DOC])
