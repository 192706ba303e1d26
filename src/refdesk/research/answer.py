"""What is found on the way?  Places with how they were reached, and the relations between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from refdesk.graph import Edge, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place in the code: what it is, how it was reached and in how many hops."""

    node: Node
    relationship: str  # "match" for where the walk began; else what leads to it: "calls X", "conforms to X"
    hop: int
    line: int  # where the relation stands; the node's own line for a match
    confidence: float
    path: str  # the file of that line
    note: str = ""
    opposite: str = ""  # the relationship from where it was reached: "X is called by"


@dataclass(frozen=True, slots=True)
class Relation:
    source: Node
    target: Node
    kind: str
    line: int
    confidence: float


@dataclass(slots=True)
class Answer:
    """Everything a walk found, in the order it was found, each node once."""

    question: str
    intent: str
    focus: str
    depth: int
    findings: dict[str, Finding] = field(default_factory=dict)
    relations: dict[tuple[str, str, str], Relation] = field(default_factory=dict)
    sections: dict[str, list[str]] = field(default_factory=dict)  # a focus's own view: title → lines
    trees: set[str] = field(default_factory=set)  # sections that say what findings say
    told: set[tuple[str, str, str]] = field(default_factory=set)  # the relations by which places were reached
    meant: str = ""  # the name that was asked for, where only others that are spelt alike were found
    notes: list[str] = field(default_factory=list)

    def start(self, node: Node, note: str = "") -> bool:
        """Takes a node as a place to begin from; false if it is there already."""
        if node.id in self.findings:
            return False
        self.findings[node.id] = Finding(
            node=node, relationship="match", hop=0, line=node.start_line, confidence=1.0, path=node.path, note=note
        )
        return True

    def note(self, text: str) -> None:
        """Says something once."""
        if text not in self.notes:
            self.notes.append(text)

    def follow(self, edge: Edge, hop: int, *, forward: bool) -> Node | None:
        """Takes an edge and gives the node it newly leads to, None if that was known."""
        self.relations.setdefault(
            (edge.source.id, edge.target.id, edge.kind),
            Relation(edge.source, edge.target, edge.kind, edge.line, edge.confidence),
        )
        new, known = (edge.target, edge.source) if forward else (edge.source, edge.target)
        if new.id in self.findings:
            return None
        self.told.add((edge.source.id, edge.target.id, edge.kind))
        self.findings[new.id] = Finding(
            node=new,
            relationship=f"{_way(edge.kind, forward)} {known.qualified or known.path}",
            opposite=f"{known.qualified or known.path} {_TOLD.get(way := _way(edge.kind, not forward), way)}",
            hop=hop,
            line=edge.line,
            confidence=edge.confidence,
            path=edge.source.path,
        )
        return new


def _way(kind: str, forward: bool) -> str:
    return (_PASSIVE if forward else _ACTIVE).get(kind, kind)


_ACTIVE = {
    "calls": "calls",
    "references": "refers to",
    "imports": "imports",
    "inherits": "inherits from",
    "conforms": "conforms to",
    "embeds": "embeds",
    "implements": "is the actual of",
    "overrides": "overrides",
    "contains": "contains",
}
_PASSIVE = {
    "calls": "called by",
    "references": "referred to by",
    "uses": "used by",
    "imports": "imported by",
    "inherits": "base of",
    "conforms": "implemented by",
    "embeds": "embedded in",
    "implements": "carried out by",
    "overrides": "overridden by",
    "contains": "part of",
}
_TOLD = {passive: f"is {passive}" for passive in _PASSIVE.values()} | {"base of": "is the base of"}
