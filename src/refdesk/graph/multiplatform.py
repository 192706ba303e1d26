"""What is declared once and carried out on each platform?  Kotlin's expect and actual."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from refdesk.graph.candidates import Candidate
from refdesk.graph.files import File
from refdesk.graph.nodes import Edge, Node, symbol_node
from refdesk.model import Document, Symbol

if TYPE_CHECKING:
    from refdesk.graph.graph import Graph

_DECLARES = r"\s+(?:[a-z]+\s+)*(?:class|interface|object|fun|val|var|typealias|constructor)\b"
_EXPECT = re.compile(r"\bexpect" + _DECLARES)
_ACTUAL = re.compile(r"\bactual" + _DECLARES)


def declared(found: Sequence[Candidate], file: Callable[[Document], File]) -> list[Candidate]:
    """The definitions without those that carry out another one of them."""
    if not any(_is_actual(one) for one in found):
        return list(found)
    expected = {_place(one, file) for one in found if _is_expected(one, file)}
    return [one for one in found if not _is_actual(one) or _place(one, file) not in expected]


def expected_by(graph: Graph, node: Node) -> Node:
    """What is declared for all platforms, where the node carries it out on one; else the node itself."""
    for one in _same(graph, node) if node.language == "kotlin" and _ACTUAL.search(node.signature) else ():
        if _is_expected(one, graph.file):
            return symbol_node(*one)
    return node


def implementing(graph: Graph, node: Node) -> list[Edge]:
    """What carries out the declaration, on one platform each."""
    inside = graph.file_of(node)
    here = inside.by_qualified.get(node.qualified) if node.language == "kotlin" else None
    if here is None or not _is_expected((inside.document, here), graph.file):
        return []
    found = {one.id: one for document, symbol in _same(graph, node) if (one := symbol_node(document, symbol))}
    return [Edge(one, node, "implements", one.start_line, 0.95) for one in found.values() if one.id != node.id]


def _same(graph: Graph, node: Node) -> list[Candidate]:
    """Both sides of what the node declares or carries out."""
    package = graph.file_of(node).package
    return [
        (document, symbol)
        for document, symbol in graph.named(node.name)
        if symbol.qualified == node.qualified and document.content_type == "kotlin"
        if _is_actual((document, symbol)) or _is_expected((document, symbol), graph.file)
        if graph.file(document).package == package
    ]


def _place(candidate: Candidate, file: Callable[[Document], File]) -> tuple[str, str]:
    document, symbol = candidate
    return file(document).package, symbol.qualified


def _is_actual(candidate: Candidate) -> bool:
    document, symbol = candidate
    return document.content_type == "kotlin" and _ACTUAL.search(symbol.signature) is not None


def _is_expected(candidate: Candidate, file: Callable[[Document], File]) -> bool:
    """Whether the symbol or a class around it says so; what is in an expected class does not repeat it."""
    document, symbol = candidate
    if document.content_type != "kotlin" or _ACTUAL.search(symbol.signature):
        return False
    around: Symbol | None = symbol
    while around is not None:
        if _EXPECT.search(around.signature):
            return True
        around = file(document).by_qualified.get(around.qualified.rpartition(".")[0])
    return False
