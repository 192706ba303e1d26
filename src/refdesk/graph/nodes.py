"""What is a place in the graph, and what is a relation between two?"""

from __future__ import annotations

from dataclasses import dataclass

from refdesk.graph.candidates import Resolved
from refdesk.graph.languages import TYPES
from refdesk.model import Document, Reference, Symbol


@dataclass(frozen=True, slots=True)
class Node:
    """A symbol, or a whole file where `qualified` is empty."""

    path: str
    qualified: str
    kind: str
    start_line: int
    end_line: int
    signature: str = ""
    document_id: str = ""
    language: str = ""

    @property
    def id(self) -> str:
        return f"{self.path}:{self.qualified}" if self.qualified else self.path

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2] or self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` does `kind` to `target` at a line of source's file."""

    source: Node
    target: Node
    kind: str
    line: int
    confidence: float


def file_node(document: Document) -> Node:
    return Node(document.path, "", "file", 1, 1, "", document.id, document.content_type)


def symbol_node(document: Document, symbol: Symbol) -> Node:
    return Node(
        document.path,
        symbol.qualified,
        symbol.kind,
        symbol.start_line,
        symbol.end_line,
        symbol.signature,
        document.id,
        document.content_type,
    )


def is_same(one: Resolved, node: Node) -> bool:
    """Whether the symbol is the node; a type's initialiser is meant where the type is called."""
    same_file = one.document.id == node.document_id
    if same_file and one.symbol.qualified == node.qualified:
        return True
    return same_file and f"{one.symbol.qualified}.{node.name}" == node.qualified and one.symbol.kind in TYPES


def stands_in(ref: Reference, node: Node) -> bool:
    if not node.qualified:
        return ref.source == "" or ref.kind == "imports"
    return ref.source == node.qualified or ref.source.startswith(f"{node.qualified}.")


def told(document: Document, ref: Reference) -> str:
    """What the relation is called: a Go type that names another among its fields or methods embeds it."""
    return "embeds" if ref.kind == "inherits" and document.content_type == "go" else ref.kind
