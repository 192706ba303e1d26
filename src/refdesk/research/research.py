"""Research, in order: read the question, find the starts, walk the graph, add sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from rapidfuzz.distance.OSA import normalized_similarity

from refdesk.graph import Edge, Graph, Node
from refdesk.graph.graph import parted
from refdesk.graph.languages import CALLABLES, TYPES, is_test
from refdesk.graph.nodes import file_node, symbol_node
from refdesk.graph.relations import implementing, needed_by, needs, overridden, overriders
from refdesk.model import Filters, Query, Symbol
from refdesk.research.answer import Answer, add_sections
from refdesk.research.question import Question, content_of, named_in, read_question
from refdesk.research.render import INSTEAD
from refdesk.search.engine import Engine
from refdesk.system.memory import gc_paused
from refdesk.text import analyse

Focus = Literal["architecture", "dependencies", "patterns", "flow"]
Step = Callable[[Graph, Node, int], Iterable[Edge]]  # the edges to follow from a node, few more than the number

_SEEDS = 6  # starts of a walk: with _BREADTH, one hop fills an answer
_FEW_SEEDS = 3  # with fewer, the architecture starts from entry files
_LOOKED_AT = 4  # hits per start
_TELLING = TYPES | CALLABLES  # not fields, cases and constants
_INTO = frozenset(["callers", "users", "implementations"])  # what has answers for a name that is defined elsewhere
_INTERFACES = frozenset(["interface", "protocol", "trait"])
_BREADTH = 12  # new nodes from one node
_ASKED = 200  # new nodes in the first hop of a question for callers or implementations
_LONGEST = 9  # calls of a way from one symbol to another
_TRIED = 400  # symbols that are looked at for it
_ALIKE = 0.8  # similarity of names: two edits in ten letters
_MOST = 60  # nodes in total otherwise: about what fits into an answer


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
    """Everything within `depth` hops of the question's symbols, along the relations of its intent and focus."""
    asked = read_question(question)
    answer = Answer(question=question, intent=asked.intent, focus=focus or "", depth=depth)
    on_hop(0, depth, "finding where to start")
    with gc_paused():
        if asked.to:
            if _find_way(asked, answer, graph, engine, filters):
                return answer
            asked = asked._replace(name="")
        start = _seeds(asked, answer, graph, engine, filters, focus)
        if answer.meant:
            return answer
        by_focus = _BY_FOCUS[focus] if focus else _GENERAL
        _walk(answer, graph, start, _BY_INTENT.get(answer.intent, by_focus), on_hop)
        if not answer.relations and (instead := _INSTEAD.get(answer.intent, _GENERAL if focus else None)):
            _walk(answer, graph, start, instead, on_hop)
            if answer.relations:
                answer.note(INSTEAD.get(answer.intent, "Nothing of that kind was found; related code is shown."))
        add_sections(answer, graph, focus)
    return answer


# --- where to start ------------------------------------------------------------------------------------


def _seeds(
    asked: Question, answer: Answer, graph: Graph, engine: Engine, filters: Filters, focus: Focus | None
) -> list[Node]:
    """The definitions that the question names, or else those in the best hits."""
    if asked.name[-1:] in ("!", "?"):  # part of a name in some languages, else the end of the question
        plain, is_last = asked.name[:-1], asked.text.rstrip().endswith(asked.name)
        spellings = [plain, asked.name] if is_last and asked.name[-1] == "?" else [asked.name, plain]
        asked = asked._replace(name=next((one for one in spellings if graph.find(one)), plain))
    found = graph.find(asked.name) if asked.name else []
    outside = graph.outside(asked.name) if asked.intent in _INTO and asked.name and not found else None
    if outside is not None:
        answer.note(f"{asked.name} is not defined in this codebase; its uses are found by their name alone.")
        found = [outside]
    if asked.name and not found:
        found, near = _spelt_otherwise(asked, answer, graph, engine, filters)
        is_code = bool(named_in(asked.name))
        mentions = _mentions(asked.name, engine, filters) if is_code and not found else []
        if not found and (near or is_code):
            answer.meant, answer.intent = asked.name, "mentions" if mentions else asked.intent
            for node in mentions or near:
                answer.start(node, note="mentions it" if mentions else "spelt alike")
            return []
        if not found:
            answer.note(f"No definition of {asked.name} was found; the answer starts from what search finds.")
    found = [node for node in found if node.kind in _TELLING] or found  # rather than fields of that name
    if len(found) > 1 and asked.intent in ("callers", "users"):  # first those that are called
        found = sorted(found[:_ASKED], key=lambda node: not graph.callers(node, 1))
    if not found:
        named = [node for name in named_in(asked.text) for node in graph.find(name)[:2] if node.kind in _TELLING]
        by_search = []
        text = content_of(asked.text)
        terms = set(analyse.terms(text))

        def telling(symbol: Symbol) -> tuple[int, int]:
            """How much of the question is in its name, and how many lines it has."""
            return len(terms.intersection(analyse.terms(symbol.name))), symbol.end_line - symbol.start_line

        for hit in engine.search(Query(text=text, filters=filters, limit=_LOOKED_AT * _SEEDS, prefer="code")).hits:
            chunk, document = hit.stored.chunk, hit.stored.document
            first, last = chunk.start_line, chunk.end_line
            defined = {one.rpartition(".")[2] for one in chunk.symbols}  # none in prose
            inside = [
                symbol
                for symbol in graph.file(document).symbols
                if symbol.name in defined and symbol.start_line <= last and symbol.end_line >= first
            ]
            inside = [symbol for symbol in inside if symbol.kind in _TELLING] or inside
            by_search += [symbol_node(document, max(inside, key=telling))] if inside else []
        by_search.sort(key=lambda node: is_test(node.path))
        found = [*named[:_SEEDS], *by_search[:_SEEDS]]
        answer.intent = "general"  # a caller tree of another symbol would mislead
    if focus == "architecture" and len(found) < _FEW_SEEDS and answer.intent == "general":
        answer.note("Little matches the question's words; the answer starts from the entry files.")
        found = [*graph.entry_files()[:_SEEDS], *found]
    if focus == "dependencies" and answer.intent == "general":  # which are between files
        found = [graph.file_node(node) for node in found]
    if asked.intent == "callers" and len(found) <= _FEW_SEEDS and "." in asked.name and outside is None:
        # Calls of the methods that they implement or override may reach them.
        above = [(node, one) for node in found for one in overridden(graph, node) if graph.callers(one, 1)]
        for node, one in above:
            answer.note(f"{node.qualified} implements {one.qualified}: a call of that may reach it.")
        found = [*found, *{one.id: one for _, one in above}.values()]
    started = [node for node in found[: 3 * _SEEDS] if answer.start(node)]
    return started[: 2 * _SEEDS]


def _spelt_otherwise(
    asked: Question, answer: Answer, graph: Graph, engine: Engine, filters: Filters
) -> tuple[list[Node], list[Node]]:
    """The definitions of the name in another convention (handle_login for handleLogin), or else of similar names.

    A member of a type that is known is one of that type or of those that it derives from.
    """
    name, wanted = asked.name, TYPES if asked.intent == "implementations" else _TELLING
    owner, _, last = parted(name).rpartition(".")
    owners = [node for node in graph.find(owner) if node.kind in TYPES] if owner else []
    kin = {one for node in owners for one in graph.line_of(node.name)}

    def meant(other: str) -> list[Node]:
        return [node for node in graph.find(other) if not kin or kin.intersection(node.qualified.split(".")[:-1])]

    def folded(one: str) -> str:
        return one.replace("_", "").lower()

    hits = engine.search(Query(text=last, filters=filters, limit=_LOOKED_AT * _SEEDS)).hits
    spelt = {symbol.rpartition(".")[2] for hit in hits for symbol in hit.stored.chunk.symbols}
    spelt |= {last, *(member.name for node in owners for member in graph.members(node))}
    for other in sorted(one for one in spelt if folded(one) == folded(last)):
        if found := [node for node in meant(other) if node.kind in wanted or wanted is _TELLING]:
            answer.note(f"{name} is read as {found[0].qualified if kin else other}.")
            return found, []
    rated = sorted((-normalized_similarity(folded(last), folded(one)), one) for one in spelt)
    near = [one for likeness, one in rated if -likeness >= _ALIKE]
    own = [node for one in near for node in meant(one)[:2] if node.kind in wanted]
    others = [node for one in near for node in graph.find(one)[:2] if node.kind in wanted and not is_test(node.path)]
    return [], own[:_FEW_SEEDS] or [*others[:_FEW_SEEDS], *owners[:1]]


def _mentions(name: str, engine: Engine, filters: Filters) -> list[Node]:
    """The files that hold the name, each with its first such line: a setting, a template, an unknown language."""
    found: list[Node] = []
    for hit in engine.search(Query(text=name, filters=filters, limit=_BREADTH, by="file", exact=True)).hits:
        chunk, document = hit.stored.chunk, hit.stored.document
        line = min(chunk.start_line + chunk.text.partition(name)[0].count("\n"), chunk.end_line)
        found.append(replace(file_node(document), start_line=line, end_line=line))
    return found


# --- the walk ------------------------------------------------------------------------------------------


def _walk(
    answer: Answer,
    graph: Graph,
    level: Sequence[Node],
    steps: Sequence[Step],
    on_hop: Callable[[int, int, str], None],
) -> None:
    """Follows the steps from each level of nodes to the next, within the limits of an answer."""
    for hop in range(1, answer.depth + 1):
        breadth = _ASKED if hop == 1 and answer.intent in _BY_INTENT else _BREADTH
        most = max(breadth, _MOST)
        if not level or len(answer.findings) >= most:
            break
        on_hop(hop, answer.depth, f"hop {hop}: {len(level)} places")
        reached: list[Node] = []
        for node in level:
            new = 0
            for step in steps:
                for edge in step(graph, node, breadth):
                    if new >= breadth or len(answer.findings) >= most:
                        answer.note(f"More is related to {node.qualified or node.path} than is shown.")
                        break
                    if (there := answer.follow(edge, node, hop)) is not None:
                        reached.append(there)
                        new += 1
                if len(answer.findings) >= most:
                    break
            if len(answer.findings) >= most:
                break
        level = reached


def _find_way(asked: Question, answer: Answer, graph: Graph, engine: Engine, filters: Filters) -> bool:
    """Adds a shortest way of calls between the two symbols that the question names; false if there is none."""
    ends: list[list[Node]] = []
    for name in (asked.name, asked.to):
        one = asked._replace(name=name)
        found = graph.find(name) or _spelt_otherwise(one, answer, graph, engine, filters)[0]
        ends.append([node for node in found if node.kind in CALLABLES | TYPES])
    starts, goals = ends
    way = _way(graph, goals, starts, _before)[::-1] or _way(graph, starts, goals, _after)
    if not way:
        answer.notes.clear()  # its words may be English
        if starts and goals and named_in(asked.name) and named_in(asked.to):
            answer.note(f"No way of up to {_LONGEST} calls from {asked.name} to {asked.to} was found.")
        return False
    answer.intent = "way"
    node = next(one for one in (way[0].source, way[0].target) if one.id in {start.id for start in starts})
    answer.start(node)
    for hop, edge in enumerate(way, 1):
        answer.follow(edge, node, hop)
        node = edge.target if edge.source.id == node.id else edge.source
    add_sections(answer, graph, None)
    return True


def _way(graph: Graph, starts: Sequence[Node], goals: Sequence[Node], step: Step) -> list[Edge]:
    """The edges of a shortest way by that step, in the order they were taken; none if it is longer or hard to find."""
    wanted = {node.id for node in goals}
    ways: dict[str, list[Edge]] = {node.id: [] for node in starts}
    level: Sequence[Node] = starts
    looked_at = 0
    for _ in range(_LONGEST if goals else 0):
        reached: list[Node] = []
        for node in level:
            looked_at += 1
            for edge in step(graph, node, _BREADTH * _SEEDS) if looked_at <= _TRIED else ():
                there = edge.target if edge.source.id == node.id else edge.source
                if there.id not in ways:
                    ways[there.id] = [*ways[node.id], edge]
                    reached.append(there)
                if there.id in wanted:
                    return ways[there.id]
        level = reached
    return []


def _before(graph: Graph, node: Node, most: int) -> Iterable[Edge]:
    """The calls of a symbol, and what it implements: a call of that may reach it."""
    yield from graph.callers(node, most)
    for above in overridden(graph, node) if "." in node.qualified else ():
        yield Edge(node, above, "overrides", node.start_line, 1.0)


def _after(graph: Graph, node: Node, most: int) -> Iterable[Edge]:
    yield from graph.callees(node, most)
    yield from _carried_out(graph, node, most)


def _carried_out(graph: Graph, node: Node, most: int) -> Iterable[Edge]:
    """The implementations of an interface's method, and the actual declarations of an expect declaration."""
    yield from implementing(graph, node)
    around = graph.container(node) if node.kind in CALLABLES else None
    if around is not None and around.kind in _INTERFACES:
        yield from overriders(graph, node)


def _contained(graph: Graph, node: Node, most: int) -> Iterable[Edge]:
    """The members: types, functions, then the rest; public before private."""

    def rank(one: Node) -> tuple[int, bool]:
        return 0 if one.kind in TYPES else 1 if one.kind in CALLABLES else 2, one.name.startswith("_")

    for member in sorted(graph.members(node), key=rank)[:most]:
        yield Edge(node, member, "contains", member.start_line, 1.0)


def _around(graph: Graph, node: Node, most: int) -> Iterable[Edge]:
    if (around := graph.container(node)) is not None:
        yield Edge(around, node, "contains", node.start_line, 1.0)


def _callees(graph: Graph, node: Node, most: int) -> Iterable[Edge]:
    return (edge for edge in graph.callees(node, most) if edge.target.kind in _TELLING)


def _whole(edges: Callable[[Graph, Node], Iterable[Edge]]) -> Step:
    return lambda graph, node, most: edges(graph, node)


_callers, _users, _subtypes = Graph.callers, Graph.users, Graph.subtypes
_supertypes, _imports = _whole(Graph.supertypes), _whole(Graph.imports)
_overrides, _actuals, _needs, _needed_by = map(_whole, (overriders, implementing, needs, needed_by))

_BY_INTENT: dict[str, tuple[Step, ...]] = {
    "callers": (_callers,),
    "callees": (_callees, _actuals),
    "implementations": (_subtypes, _actuals),
    "users": (_callers, _users),
}
_BY_FOCUS: dict[str, tuple[Step, ...]] = {
    "architecture": (_around, _contained, _subtypes, _supertypes, _callers, _imports),
    "dependencies": (_needs, _needed_by),
    "patterns": (_subtypes, _actuals, _supertypes, _overrides, _contained),
    "flow": (_callees, _carried_out, _callers),
}
_GENERAL: tuple[Step, ...] = (_callees, _callers, _subtypes, _actuals, _supertypes, _around)
_INSTEAD: dict[str, tuple[Step, ...]] = {"callers": (_users,), "implementations": (_callers, _users)}
