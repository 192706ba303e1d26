"""Relations that no single reference states: method sets, overrides, expect and actual, dependencies of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from refdesk.graph.languages import CALLABLES, TYPES, WHOLE, home
from refdesk.graph.nodes import CERTAIN, LIKELY, SURE, Candidate, Edge, File, Node, file_node, said, symbol_node
from refdesk.model import Document, Symbol

if TYPE_CHECKING:
    from refdesk.graph.graph import Graph

_GENERATIONS = 4  # of supertypes
_MOST_SYMBOLS = 30  # definitions of a file whose users are looked up


# --- types that conform without saying so ----------------------------------------------------------------


def by_method_set(graph: Graph, node: Node) -> list[Edge]:
    """Go interfaces and Python protocols: types that have every method."""
    is_protocol = node.language == "python" and "Protocol" in graph.supertype_names(node.name)
    if not is_protocol and (node.language != "go" or node.kind != "interface"):
        return []
    methods = {member.name: member for member in graph.members(node) if member.kind in CALLABLES}
    if is_protocol and sum(not name.startswith("__") for name in methods) < 2:
        return []  # one method alone is shared by chance
    inside = graph.file_of(node).by_qualified
    holders: dict[tuple[str, str], int] = {}
    for name, method in methods.items():
        wanted = said(inside[method.qualified], "(") if method.qualified in inside else None
        places = set()
        for document, symbol in graph.named(name):
            shape = None if is_protocol else said(symbol, "(")  # what a Go method takes and gives
            is_alike = shape is None or wanted is None or shape == wanted
            if document.content_type == node.language and symbol.kind == "method" and is_alike:
                place = document.path if is_protocol else document.path.rpartition("/")[0]
                places.add((place, symbol.qualified.rpartition(".")[0]))
        for one in places:
            holders[one] = holders.get(one, 0) + 1
    return [
        Edge(one, node, "conforms", one.start_line, LIKELY)
        for (place, owner), count in sorted(holders.items())
        if methods and count == len(methods) and owner
        for one in graph.find(owner)
        if one.kind in TYPES and one.kind != "interface" and one.qualified == owner
        if one.id != node.id and one.language == node.language
        if place in (one.path, one.path.rpartition("/")[0])
        if "Protocol" not in graph.supertype_names(one.name)
    ]


# --- overrides ---------------------------------------------------------------------------------------------


def overriders(graph: Graph, node: Node) -> list[Edge]:
    """Methods of subtypes with the method's name."""
    container, _, name = node.qualified.rpartition(".")
    return [
        Edge(symbol_node(document, symbol), node, "overrides", symbol.start_line, edge.confidence)
        for owner in (graph.find(container) if container else [])
        for edge in graph.subtypes(owner)
        if _overrides(edge)
        for document, symbol in graph.named(name)
        if symbol.qualified == f"{edge.source.qualified}.{name}"
        if home(document) == home(graph.file_of(edge.source).document) or document.content_type not in WHOLE
    ]


def overridden(graph: Graph, node: Node) -> list[Node]:
    """The methods of that name of the types that the method's own type derives from or conforms to."""
    inside, around = graph.file_of(node), node.qualified.rpartition(".")[0]
    here = inside.by_qualified.get(around)
    owner = symbol_node(inside.document, here) if here is not None and here.kind in TYPES else None
    if here is None and around and node.language == "go":  # the type may stand in another file
        types = [one for one in graph.find(around) if one.kind in TYPES and one.language == "go"]
        place = home(inside.document)
        owner = next((one for one in types if home(graph.file_of(one).document) == place), None)
    if owner is None:
        return []
    level, above = [owner], dict[str, Node]()
    for _ in range(_GENERATIONS):
        bases = [edge.target for one in level for edge in graph.supertypes(one) if _overrides(edge)]
        level = [one for one in bases if one.id not in above and one.id != level[0].id]
        above |= {one.id: one for one in level}
    found = [member for one in above.values() for member in graph.members(one) if member.name == node.name]
    if found or node.language != "go":
        return found
    return [  # of the interfaces that the type conforms to by its methods
        method
        for method in graph.find(node.name)
        if method.language == "go" and method.kind in CALLABLES
        if (holder := graph.container(method)) and holder.kind == "interface"
        if owner.qualified in {edge.source.qualified for edge in graph.subtypes(holder)}
    ]


def _overrides(edge: Edge) -> bool:
    """Whether a call through the type may reach the subtype's methods: not through an embedded struct."""
    return edge.kind != "embeds" or edge.target.kind == "interface"


# --- Kotlin's expect and actual: declared once, implemented on each platform -------------------------------


def without_actuals(found: Sequence[Candidate], file: Callable[[Document], File]) -> list[Candidate]:
    """The definitions without the actual ones whose expect declaration is among them."""
    if not any(said(symbol, "!") == "actual" for _, symbol in found):
        return list(found)
    expected = {_place(one, file) for one in found if _is_expected(one, file)}
    return [one for one in found if said(one[1], "!") != "actual" or _place(one, file) not in expected]


def expected_by(graph: Graph, node: Node) -> Node:
    """The expect declaration of an actual one; any other node itself."""
    here = graph.file_of(node).by_qualified.get(node.qualified) if node.language == "kotlin" else None
    if here is None or said(here, "!") != "actual":
        return node
    expected = (symbol_node(*one) for one in _both_sides(graph, node) if _is_expected(one, graph.file))
    return next(expected, node)


def implementing(graph: Graph, node: Node) -> list[Edge]:
    """The actual declarations of an expect declaration, one for each platform."""
    if node.language != "kotlin":
        return []
    inside = graph.file_of(node)
    here = inside.by_qualified.get(node.qualified)
    if here is None or not _is_expected((inside.document, here), graph.file):
        return []
    found = {one.id: one for candidate in _both_sides(graph, node) if (one := symbol_node(*candidate))}
    return [Edge(one, node, "implements", one.start_line, CERTAIN) for one in found.values() if one.id != node.id]


def _both_sides(graph: Graph, node: Node) -> list[Candidate]:
    """The expect declaration and the actual ones, of which the node is one."""
    package = graph.file_of(node).package
    return [
        (document, symbol)
        for document, symbol in graph.named(node.name)
        if symbol.qualified == node.qualified and document.content_type == "kotlin"
        if said(symbol, "!") == "actual" or _is_expected((document, symbol), graph.file)
        if graph.file(document).package == package
    ]


def _place(candidate: Candidate, file: Callable[[Document], File]) -> tuple[str, str]:
    document, symbol = candidate
    return file(document).package, symbol.qualified


def _is_expected(candidate: Candidate, file: Callable[[Document], File]) -> bool:
    """Whether the symbol or a class around it is an expect declaration: members of an expect class don't repeat it."""
    document, symbol = candidate
    if document.content_type != "kotlin" or said(symbol, "!") == "actual":
        return False
    around: Symbol | None = symbol
    while around is not None:
        if said(around, "!") == "expect":
            return True
        around = file(document).by_qualified.get(around.qualified.rpartition(".")[0])
    return False


# --- dependencies of files ----------------------------------------------------------------------------------


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
    top = [symbol_node(inside.document, one) for one in inside.symbols if "." not in one.qualified]
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
