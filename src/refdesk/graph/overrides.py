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
        if _takes_its_place(edge)
        for document, symbol in graph.named(name)
        if symbol.qualified == f"{edge.source.qualified}.{name}"
        if languages.home(document) == languages.home(graph.file_of(edge.source).document)
        or document.content_type not in languages.WHOLE
    ]


def overridden(graph: Graph, node: Node) -> list[Node]:
    """The methods of that name of the types that the method's own type derives from or conforms to."""
    owner = _owner(graph, node)
    if owner is None:
        return []
    level, above = [owner], dict[str, Node]()
    for _ in range(_GENERATIONS):
        bases = [edge.target for one in level for edge in graph.supertypes(one) if _takes_its_place(edge)]
        level = [one for one in bases if one.id not in above and one.id != level[0].id]
        above |= {one.id: one for one in level}
    found = [member for one in above.values() for member in graph.members(one) if member.name == node.name]
    return found or (_declared_by_interfaces(graph, node, owner.qualified) if node.language == "go" else [])


def _owner(graph: Graph, node: Node) -> Node | None:
    """The type that a method belongs to, which in Go may stand in another file."""
    inside, around = graph.file_of(node), node.qualified.rpartition(".")[0]
    here = inside.by_qualified.get(around)
    if here is not None or node.language != "go" or not around:
        return symbol_node(inside.document, here) if here is not None and here.kind in TYPES else None
    home = languages.home(inside.document)
    types = [one for one in graph.find(around) if one.kind in TYPES and one.language == "go"]
    return next((one for one in types if languages.home(graph.file_of(one).document) == home), None)


def _takes_its_place(edge: Edge) -> bool:
    """Whether the subtype's methods are called through the type: not through a struct that another one embeds."""
    return edge.kind != "embeds" or edge.target.kind == "interface"


def _declared_by_interfaces(graph: Graph, node: Node, owner: str) -> list[Node]:
    """The methods of that name of Go interfaces that the type conforms to by its methods."""
    methods = [one for one in graph.find(node.name) if one.language == "go" and one.kind in CALLABLES]
    return [
        method
        for method in methods
        if (holder := graph.container(method)) and holder.kind == "interface"
        if owner in {edge.source.qualified for edge in graph.subtypes(holder)}
    ]
