"""What is defined in a language without a query of its own?  Read from how grammars name their nodes."""

from __future__ import annotations

import re
from collections import defaultdict

from tree_sitter import Node

_DEFINES = re.compile(r"(?:definition|declaration|declarator|decl|item|specifier|defn?|binding|statement|signature)$")
_IMPORTS = re.compile(r"^(?:import|include|use|using|require|open)(?:_|$)")
_KINDS = (
    (re.compile(r"func|procedure|subroutine|subprogram|^proc_|^sub_|rpc|^fn_"), "function"),
    (re.compile(r"method"), "method"),
    (re.compile(r"constructor"), "constructor"),
    (re.compile(r"class|contract"), "class"),
    (re.compile(r"struct|message"), "struct"),
    (re.compile(r"enum"), "enum"),
    (re.compile(r"interface|service"), "interface"),
    (re.compile(r"protocol"), "protocol"),
    (re.compile(r"trait|mixin"), "trait"),
    (re.compile(r"module|package_def|namespace"), "module"),
    (re.compile(r"macro"), "macro"),
    (re.compile(r"record"), "record"),
    (re.compile(r"type"), "type"),
)
_NAME = re.compile(r"identifier|name$|^(?:word|atom|variable|symbol|constant|value_name)$")
_BODY = re.compile(r"body|block$")
_DEEPEST = 6
_CALLABLE = ("function", "method", "constructor", "macro")


def generic(root: Node) -> dict[str, list[Node]]:
    """What a query would capture: definitions with their names and bodies, comments, imports and errors."""
    found: defaultdict[str, list[Node]] = defaultdict(list)
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        for child in node.named_children:
            kind = _take(child, found)
            if depth < _DEEPEST and kind not in _CALLABLE and child.child_count:
                stack.append((child, depth + 1))
    return {role: sorted(found[role], key=lambda node: node.byte_range) for role in sorted(found)}


def _take(node: Node, found: defaultdict[str, list[Node]]) -> str:
    """The kind of definition a node is, noted with its name; "" when it is none."""
    what = node.type
    if "comment" in what:
        found["comment"].append(node)
    elif what == "ERROR":
        found["error"].append(node)
    elif _IMPORTS.match(what):
        found["import"].append(node)
    elif _DEFINES.search(what):
        kind = next((kind for pattern, kind in _KINDS if pattern.search(what)), "")
        name = _name(node) if kind else None
        if name is not None:
            found[f"def.{kind}"].append(node)
            found["name"].append(name)
            body = node.child_by_field_name("body") or next(
                (c for c in node.named_children if _BODY.search(c.type)), None
            )
            if body is not None:
                found["body"].append(body)
            return kind
    return ""


def _name(node: Node) -> Node | None:
    named = node.child_by_field_name("name")
    if named is not None:
        return named
    for child in node.named_children[:4]:
        if _NAME.search(child.type) and child.child_count == 0:
            return child
        inner = child.child_by_field_name("name")
        if inner is not None and "signature" in child.type:
            return inner
    return None
