"""Which methods take the place of which?  Those of subtypes under the same name."""

from __future__ import annotations

from refdesk.graph import languages
from refdesk.graph.graph import Graph
from refdesk.graph.languages import CALLABLES, TYPES
from refdesk.graph.nodes import Edge, Node, symbol_node

_GENERATIONS = 4  # of supertypes


def overriders(graph: Graph, node: Node) -> list[Edge]:
    """Methods of subtypes with the method's name."""
    container, _, name = node.qualified.rpartition(".")
    return [
        Edge(symbol_node(document, symbol), node, "overrides", symbol.start_line, edge.confidence)
        for owner in (graph.find(container) if container else [])
        for edge in graph.subtypes(owner)
        for document, symbol in graph.named(name)
        if symbol.qualified == f"{edge.source.qualified}.{name}"
        if languages.home(document) == languages.home(graph.file_of(edge.source).document)
        or document.content_type not in languages.WHOLE
    ]


def overridden(graph: Graph, node: Node) -> list[Node]:
    """The methods of that name of the types that the method's own type derives from or conforms to."""
    inside = graph.file_of(node)
    owner = inside.by_qualified.get(node.qualified.rpartition(".")[0])
    if owner is None or owner.kind not in TYPES:
        return []
    level, above = [symbol_node(inside.document, owner)], dict[str, Node]()
    for _ in range(_GENERATIONS):
        bases = [edge.target for one in level for edge in graph.supertypes(one)]
        level = [one for one in bases if one.id not in above and one.id != level[0].id]
        above |= {one.id: one for one in level}
    found = [member for one in above.values() for member in graph.members(one) if member.name == node.name]
    return found or (_declared_by_interfaces(graph, node, owner.qualified) if node.language == "go" else [])


def _declared_by_interfaces(graph: Graph, node: Node, owner: str) -> list[Node]:
    """The methods of that name of Go interfaces that the type conforms to by its methods."""
    methods = [one for one in graph.find(node.name) if one.language == "go" and one.kind in CALLABLES]
    return [
        method
        for method in methods
        if (holder := graph.container(method)) and holder.kind == "interface"
        if owner in {edge.source.qualified for edge in graph.subtypes(holder)}
    ]
