"""Which files need which?  By import where the language names files or modules, else by what they call and mention."""

from __future__ import annotations

from collections.abc import Iterable

from refdesk.graph.graph import SURE, Graph
from refdesk.graph.languages import TYPES
from refdesk.graph.nodes import Edge, Node, file_node

_MOST_SYMBOLS = 30  # definitions of a file whose users are looked up


def needs(graph: Graph, node: Node) -> list[Edge]:
    """The files that the node's file imports from; where it imports none, those it uses."""
    inside = graph.file_of(node)
    here = file_node(inside.document)
    found: dict[str, Edge] = {}
    for kinds, kind in ((("imports",), "imports"), (("calls", "inherits", "conforms", "references"), "uses")):
        seen: set[tuple[str, str]] = set()
        for ref in inside.references:
            if ref.kind not in kinds or (ref.target, ref.receiver) in seen:
                continue
            seen.add((ref.target, ref.receiver))
            for one in graph.meant(inside.document, ref):
                if one.confidence > SURE and one.document.id != inside.document.id:
                    edge = Edge(here, file_node(one.document), kind, ref.line, one.confidence)
                    found.setdefault(one.document.path, edge)
        if found:
            break
    return list(found.values())


def needed_by(graph: Graph, node: Node) -> list[Edge]:
    """The files that import from the node's file; where none does, those that use its types and functions."""
    inside = graph.file_of(node)
    here = file_node(inside.document)
    top = [graph.node(inside.document, one) for one in inside.symbols if "." not in one.qualified]
    top.sort(key=lambda one: one.kind not in TYPES)
    found: dict[str, Edge] = {}

    def add(edges: Iterable[Edge], kind: str) -> None:
        for edge in edges:
            if edge.source.path != here.path:
                source = file_node(graph.file_of(edge.source).document)
                found.setdefault(source.path, Edge(source, here, kind, edge.line, edge.confidence))

    for one in top[:_MOST_SYMBOLS]:
        add(graph.importers(one), "imports")
    if not found:
        for one in top[:_MOST_SYMBOLS]:
            add([*graph.subtypes(one), *graph.callers(one), *graph.users(one)], "uses")
    return list(found.values())
