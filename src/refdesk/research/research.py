"""A walk in hops: from what search and the question name, along the relations that the focus asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from rapidfuzz.distance.OSA import normalized_similarity

from refdesk.graph import Edge, Graph, Node
from refdesk.graph.dependencies import needed_by, needs
from refdesk.graph.languages import CALLABLES, TYPES, is_test
from refdesk.graph.multiplatform import implementing
from refdesk.graph.overrides import overridden, overriders
from refdesk.model import Filters, Hit, Query
from refdesk.pause import without_collections
from refdesk.research.answer import Answer
from refdesk.research.question import Question, content_of, named_in, read_question
from refdesk.research.tell import INSTEAD
from refdesk.research.views import add_views
from refdesk.search.engine import Engine

Focus = Literal["architecture", "dependencies", "patterns", "flow"]
Step = Callable[[Graph, Node, int], Iterable[tuple[Edge, bool]]]  # an edge, and whether it leads forward

_SEEDS = 6
_FEW_SEEDS = 3  # fewer tell little of how a codebase is built
_LOOKED_AT = 4  # hits for each one that is wanted
_TELLING = TYPES | CALLABLES  # not fields, cases and constants
_INTERFACES = frozenset(["interface", "protocol", "trait"])
_BREADTH = 12  # new nodes from one node
_ASKED = 200  # new nodes in the first hop of a question for all callers or implementations
_ALIKE = 0.8  # of 1: two edits in ten letters
_MOST = 60  # nodes in all, else: about what an answer has room for


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
    with without_collections():
        level = _seeds(asked, answer, graph, engine, filters, focus)
        if answer.meant:
            return answer
        _walk(answer, graph, level, _steps(answer.intent, focus), on_hop)
        if not answer.relations and (instead := _INSTEAD.get(answer.intent or "", _GENERAL if focus else None)):
            answer.note(INSTEAD.get(answer.intent, "Nothing of that kind was found; related code is shown."))
            _walk(answer, graph, level, instead, on_hop)
        add_views(answer, graph, focus)
    return answer


def _walk(
    answer: Answer,
    graph: Graph,
    level: Sequence[Node],
    steps: Sequence[Step],
    on_hop: Callable[[int, int, str], None],
) -> None:
    for hop in range(1, answer.depth + 1):
        breadth = _ASKED if hop == 1 and answer.intent in _BY_INTENT else _BREADTH
        if not level or len(answer.findings) >= max(breadth, _MOST):
            break
        on_hop(hop, answer.depth, f"hop {hop}: {len(level)} places")
        level = _hop(answer, graph, level, steps, hop, breadth)


def _seeds(
    asked: Question, answer: Answer, graph: Graph, engine: Engine, filters: Filters, focus: Focus | None
) -> list[Node]:
    """The definitions the question names; where it names none that exist, those of the best hits."""
    found = graph.find(asked.name) or _alike(asked.name, answer, graph, engine, filters) if asked.name else []
    found = [node for node in found if node.kind in _TELLING] or found  # not the fields of that name
    if len(found) > _SEEDS and asked.intent in ("callers", "users"):  # of many, those first that are called at all
        found = sorted(found[:_ASKED], key=lambda node: not graph.callers(node, 1))
    if asked.name and not found and (near := _spelt_alike(asked.name, graph, engine, filters)):
        answer.meant = asked.name
        for node in near:
            answer.start(node, note="spelt alike")
        return []
    if asked.name and not found:
        answer.note(f"No definition of {asked.name} was found; the answer starts from what search finds.")
    if not found:
        named = [node for name in named_in(asked.text) for node in graph.find(name)[:2] if node.kind in _TELLING]
        hits = engine.search(Query(text=content_of(asked.text), filters=filters, limit=_LOOKED_AT * _SEEDS)).hits
        by_search = [node for hit in hits for node in _nodes_of(hit, graph)]  # prose has none
        by_search.sort(key=lambda node: is_test(node.path))
        found = [*named[:_SEEDS], *by_search[:_SEEDS]]
        answer.intent = "general"  # a caller tree of something else would mislead
    if focus == "architecture" and len(found) < _FEW_SEEDS and answer.intent == "general":
        answer.note("Little matches the question's words; the answer starts from the entry files.")
        found = [*graph.entry_files()[:_SEEDS], *found]
    if focus == "dependencies" and answer.intent == "general":  # told by files
        found = [graph.file_node(node) for node in found]
    if asked.intent == "callers" and len(found) <= _FEW_SEEDS and "." in asked.name:
        found = [*found, *_called_through(answer, graph, found)]
    started = [node for node in found[: 3 * _SEEDS] if answer.start(node)]
    return started[: 2 * _SEEDS]


def _called_through(answer: Answer, graph: Graph, found: Sequence[Node]) -> list[Node]:
    """The methods that those asked about implement or override: calls of these may reach them."""
    above = [(node, one) for node in found for one in overridden(graph, node) if graph.callers(one, 1)]
    for node, one in above:
        answer.note(f"{node.qualified} implements {one.qualified}: a call of that may reach it.")
    return list({one.id: one for _, one in above}.values())


def _alike(name: str, answer: Answer, graph: Graph, engine: Engine, filters: Filters) -> list[Node]:
    """The definitions of a name in another spelling: handle_login for handleLogin."""
    last = re.split(r"\.|::|#", name)[-1]
    hits = engine.search(Query(text=last, filters=filters, limit=_SEEDS)).hits
    spelt = {one for hit in hits for symbol in hit.stored.chunk.symbols if _folded(one := symbol.rpartition(".")[2])}
    for other in sorted(one for one in spelt if _folded(one) == _folded(last)):
        if found := graph.find(other):
            answer.note(f"{name} is read as {other}.")
            return found
    return []


def _spelt_alike(name: str, graph: Graph, engine: Engine, filters: Filters) -> list[Node]:
    """Definitions whose name is a slip of the pen away, nearest first: merge_setting for merge_settings."""
    last = re.split(r"\.|::|#", name)[-1]
    hits = engine.search(Query(text=last, filters=filters, limit=_LOOKED_AT * _SEEDS)).hits
    spelt = {symbol.rpartition(".")[2] for hit in hits for symbol in hit.stored.chunk.symbols}
    rated = sorted((-normalized_similarity(_folded(last), _folded(one)), one) for one in spelt)
    near = [one for likeness, one in rated if -likeness >= _ALIKE][:_FEW_SEEDS]
    return [node for one in near for node in graph.find(one)[:2] if node.kind in _TELLING][:_FEW_SEEDS]


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _nodes_of(hit: Hit, graph: Graph) -> list[Node]:
    chunk, document = hit.stored.chunk, hit.stored.document
    inside = graph.file(document)
    named = [
        symbol
        for symbol in inside.symbols
        if symbol.name in {one.rpartition(".")[2] for one in chunk.symbols}
        and chunk.start_line <= symbol.start_line <= chunk.end_line
    ]
    named = [symbol for symbol in named if symbol.kind in _TELLING] or named
    return [graph.node(document, symbol) for symbol in named[:1]]


def _hop(
    answer: Answer, graph: Graph, level: Sequence[Node], steps: Sequence[Step], hop: int, breadth: int
) -> list[Node]:
    reached: list[Node] = []
    for node in level:
        new = 0
        for step in steps:
            for edge, forward in step(graph, node, breadth):
                if new >= breadth or len(answer.findings) >= max(breadth, _MOST):
                    answer.note(f"More is related to {node.qualified or node.path} than is shown.")
                    break
                if (there := answer.follow(edge, hop, forward=forward)) is not None:
                    reached.append(there)
                    new += 1
            if len(answer.findings) >= max(breadth, _MOST):
                return reached
    return reached


# --- what is followed ----------------------------------------------------------------------------------


def _callers(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.callers(node, most))


def _callees(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in graph.callees(node, most) if edge.target.kind in _TELLING)


def _subtypes(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.subtypes(node, most))


def _supertypes(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in graph.supertypes(node))


def _overrides(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in overriders(graph, node))


def _actuals(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in implementing(graph, node))


def _carried_out(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    """The methods that a call of an interface's method reaches, and what is declared for each platform apart."""
    yield from _actuals(graph, node, most)
    around = graph.container(node) if node.kind in CALLABLES else None
    if around is not None and around.kind in _INTERFACES:
        yield from ((edge, False) for edge in overriders(graph, node))


def _imports(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in graph.imports(node))


def _needs(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, True) for edge in needs(graph, node))


def _needed_by(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in needed_by(graph, node))


def _users(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    return ((edge, False) for edge in graph.users(node, most))


def _contained(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    telling = sorted(graph.members(node), key=lambda one: (_rank(one), one.name.startswith("_")))
    for member in telling[:most]:
        yield Edge(node, member, "contains", member.start_line, 1.0), True


def _rank(node: Node) -> int:
    """Types before functions before the rest."""
    return 0 if node.kind in TYPES else 1 if node.kind in CALLABLES else 2


def _container(graph: Graph, node: Node, most: int) -> Iterable[tuple[Edge, bool]]:
    around = graph.container(node)
    if around is not None:
        yield Edge(around, node, "contains", node.start_line, 1.0), False


_BY_INTENT: dict[str, tuple[Step, ...]] = {
    "callers": (_callers,),
    "callees": (_callees, _actuals),
    "implementations": (_subtypes, _actuals),
    "users": (_callers, _users),
}
_BY_FOCUS: dict[str, tuple[Step, ...]] = {
    "architecture": (_container, _contained, _subtypes, _supertypes, _callers, _imports),
    "dependencies": (_needs, _needed_by),
    "patterns": (_subtypes, _actuals, _supertypes, _overrides, _contained),
    "flow": (_callees, _carried_out, _callers),
}
_GENERAL: tuple[Step, ...] = (_callees, _callers, _subtypes, _actuals, _supertypes, _container)
_INSTEAD: dict[str, tuple[Step, ...]] = {"callers": (_users,), "implementations": (_callers, _users)}


def _steps(intent: str, focus: Focus | None) -> tuple[Step, ...]:
    if intent in _BY_INTENT:
        return _BY_INTENT[intent]
    return _BY_FOCUS[focus] if focus else _GENERAL
