"""A walk in hops: from what search and the question name, along the relations that the focus asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from refdesk.graph import Edge, Graph, Node
from refdesk.model import Filters, Hit, Query
from refdesk.research.answer import Answer
from refdesk.research.question import Question, read_question
from refdesk.research.views import add_views
from refdesk.search.engine import Engine

Focus = Literal["architecture", "dependencies", "patterns", "flow"]
Step = Callable[[Graph, Node], Iterable[tuple[Edge, bool]]]  # an edge, and whether it leads forward

_SEEDS = 6
_BREADTH = 12  # new nodes from one node
_MOST = 120  # nodes in all


def research(
    question: str,
    graph: Graph,
    engine: Engine,
    filters: Filters,
    *,
    depth: int = 2,
    focus: Focus | None = None,
    on_hop: Callable[[int, int, str], None] = lambda hop, depth, what: None,
) -> Answer:
    """Everything within `depth` hops of what the question is about, along the relations of its intent and focus."""
    asked = read_question(question)
    answer = Answer(question=question, intent=asked.intent, focus=focus or "", depth=depth)
    on_hop(0, depth, "finding where to start")
    level = _seeds(asked, answer, graph, engine, filters)
    steps = _steps(answer.intent, focus)
    for hop in range(1, depth + 1):
        if not level or len(answer.findings) >= _MOST:
            break
        on_hop(hop, depth, f"hop {hop}: {len(level)} places")
        level = _hop(answer, graph, level, steps, hop)
    add_views(answer, graph, focus)
    return answer


def _seeds(asked: Question, answer: Answer, graph: Graph, engine: Engine, filters: Filters) -> list[Node]:
    """The definitions the question names; where it names none that exist, those of the best hits."""
    found = graph.find(asked.name) if asked.name else []
    if asked.name and not found:
        answer.notes.append(f"No definition of {asked.name} was found; the answer starts from what search finds.")
    if not found:
        hits = engine.search(Query(text=asked.text, filters=filters, limit=_SEEDS)).hits
        found = [node for hit in hits for node in _nodes_of(hit, graph)]
        answer.intent = "general"  # a caller tree of something else would mislead
    started = [node for node in found[: 3 * _SEEDS] if answer.start(node)]
    return started[: 2 * _SEEDS]


def _nodes_of(hit: Hit, graph: Graph) -> list[Node]:
    chunk, document = hit.stored.chunk, hit.stored.document
    inside = graph.file(document)
    named = [
        symbol
        for symbol in inside.symbols
        if symbol.name in {one.rpartition(".")[2] for one in chunk.symbols}
        and chunk.start_line <= symbol.start_line <= chunk.end_line
    ]
    return [graph.node(document, symbol) for symbol in named[:2]]


def _hop(answer: Answer, graph: Graph, level: Sequence[Node], steps: Sequence[Step], hop: int) -> list[Node]:
    reached: list[Node] = []
    for node in level:
        new = 0
        for step in steps:
            for edge, forward in step(graph, node):
                if new >= _BREADTH or len(answer.findings) >= _MOST:
                    answer.notes.append(f"More is related to {node.qualified or node.path} than is shown.")
                    break
                if (there := answer.follow(edge, hop, forward=forward)) is not None:
                    reached.append(there)
                    new += 1
    answer.notes = list(dict.fromkeys(answer.notes))
    return reached


# --- what is followed ----------------------------------------------------------------------------------


def _callers(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.callers(node))


def _callees(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in graph.callees(node))


def _subtypes(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.subtypes(node))


def _supertypes(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in graph.supertypes(node))


def _overrides(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.overriders(node))


def _imports(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in graph.imports(node))


def _importers(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.importers(node))


def _users(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.users(node))


def _contained(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    for member in graph.members(node)[:_BREADTH]:
        yield Edge(node, member, "contains", member.start_line, 1.0), True


def _container(graph: Graph, node: Node) -> Iterable[tuple[Edge, bool]]:
    around = graph.container(node)
    if around is not None:
        yield Edge(around, node, "contains", node.start_line, 1.0), False


_BY_INTENT: dict[str, tuple[Step, ...]] = {
    "callers": (_callers,),
    "callees": (_callees,),
    "implementations": (_subtypes,),
    "users": (_callers, _users),
}
_BY_FOCUS: dict[str, tuple[Step, ...]] = {
    "architecture": (_container, _contained, _subtypes, _supertypes, _callers, _imports),
    "dependencies": (_imports, _importers, _callees, _users),
    "patterns": (_subtypes, _supertypes, _overrides, _contained),
    "flow": (_callees, _callers),
}
_GENERAL: tuple[Step, ...] = (_callees, _callers, _subtypes, _supertypes, _container)


def _steps(intent: str, focus: Focus | None) -> tuple[Step, ...]:
    if intent in _BY_INTENT:
        return _BY_INTENT[intent]
    return _BY_FOCUS[focus] if focus else _GENERAL
