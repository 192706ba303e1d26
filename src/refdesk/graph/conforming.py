"""Which types conform without saying so?  Those that have every method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refdesk.graph import golang
from refdesk.graph.languages import CALLABLES, TYPES
from refdesk.graph.nodes import Edge, Node

if TYPE_CHECKING:
    from refdesk.graph.graph import Graph


def by_method_set(graph: Graph, node: Node) -> list[Edge]:
    """Go interfaces and Python protocols: types that have every method."""
    is_protocol = node.language == "python" and "Protocol" in graph.supertype_names(node.name)
    if not is_protocol and (node.language != "go" or node.kind != "interface"):
        return []
    methods = {member.name: member for member in graph.members(node) if member.kind in CALLABLES}
    if is_protocol and sum(not name.startswith("__") for name in methods) < 2:
        return []  # one method alone is shared by chance
    holders: dict[tuple[str, str], int] = {}
    for name, method in methods.items():
        for key in {
            (document.path, symbol.qualified.rpartition(".")[0])
            if is_protocol
            else (document.path.rpartition("/")[0], symbol.qualified.rpartition(".")[0])
            for document, symbol in graph.named(name)
            if document.content_type == node.language and symbol.kind == "method"
            if is_protocol or golang.is_alike(name, symbol.signature, method.signature)
        }:
            holders[key] = holders.get(key, 0) + 1
    return [
        Edge(one, node, "conforms", one.start_line, 0.8)
        for (place, owner), count in sorted(holders.items())
        if methods and count == len(methods) and owner
        for one in graph.find(owner)
        if one.kind in TYPES and one.kind != "interface" and one.qualified == owner
        if one.id != node.id and one.language == node.language
        if place in (one.path, one.path.rpartition("/")[0])
        if "Protocol" not in graph.supertype_names(one.name)
    ]
