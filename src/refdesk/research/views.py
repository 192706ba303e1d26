"""How is each focus told?  Modules and layers, imports and cycles, implementations and shapes, chains of calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import PurePosixPath

from refdesk.graph import Graph, Node
from refdesk.research.answer import Answer, Relation

_SHOWN = 8
_ENTRY = frozenset(["main", "run", "serve", "cli", "start", "handle", "execute", "app", "__main__"])


def add_views(answer: Answer, graph: Graph, focus: str | None) -> None:
    """Adds the focus's own sections; a question about callers or implementations always has its tree."""
    if answer.intent in ("callers", "implementations"):
        answer.sections["callers" if answer.intent == "callers" else "conforming types"] = _tree(answer)
    if focus == "architecture":
        _architecture(answer)
    elif focus == "dependencies":
        _dependencies(answer)
    elif focus == "patterns":
        _patterns(answer)
    elif focus == "flow" or (focus is None and answer.intent == "callees"):
        answer.sections["call chains"] = _chains(answer)


def _tree(answer: Answer) -> list[str]:
    """Everything that leads to the start, indented by hop under what it leads to."""
    under: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in answer.relations.values():
        under[one.target.id].append((one.source.id, f"{one.source.qualified or one.source.path} ({_at(one)})"))
    lines: list[str] = []
    seen: set[str] = set()

    def add(node_id: str, indent: int) -> None:
        for source_id, text in under.get(node_id, ()):
            lines.append("  " * indent + text)
            if source_id not in seen and indent < answer.depth:
                seen.add(source_id)
                add(source_id, indent + 1)

    for finding in list(answer.findings.values()):
        if finding.hop == 0:
            lines.append(f"{finding.node.qualified or finding.node.path} ({finding.node.path}:{finding.line})")
            seen.add(finding.node.id)
            add(finding.node.id, 1)
    return lines


def _architecture(answer: Answer) -> None:
    modules: Counter[str] = Counter(_module(one.node) for one in answer.findings.values())
    answer.sections["modules"] = [f"{name}: {count} places" for name, count in modules.most_common(_SHOWN)]
    between: Counter[tuple[str, str]] = Counter()
    for one in answer.relations.values():
        source, target = _module(one.source), _module(one.target)
        if source != target and one.kind in ("calls", "imports", "references"):
            between[source, target] += 1
    answer.sections["layers"] = [f"{a} → {b} ({count})" for (a, b), count in between.most_common(_SHOWN)]
    degree: Counter[str] = Counter()
    for one in answer.relations.values():
        degree[one.target.id] += 1
    central = [answer.findings[node_id] for node_id, _ in degree.most_common(_SHOWN) if node_id in answer.findings]
    answer.sections["central"] = [
        f"{one.node.qualified or one.node.path} ({_where(one.node)}), reached {degree[one.node.id]} times"
        for one in central
    ]
    entries = [one.node for one in answer.findings.values() if one.node.name.lower() in _ENTRY]
    answer.sections["entry points"] = [f"{node.qualified} ({node.path}:{node.start_line})" for node in entries[:_SHOWN]]


def _dependencies(answer: Answer) -> None:
    imports = [one for one in answer.relations.values() if one.source.path != one.target.path]
    edges = {(one.source.path, one.target.path) for one in imports}
    fan_out: Counter[str] = Counter(source for source, _ in edges)
    fan_in: Counter[str] = Counter(target for _, target in edges)
    answer.sections["imports"] = [f"{source} → {target}" for source, target in sorted(edges)[: 3 * _SHOWN]]
    answer.sections["fan-in"] = [f"{path}: {count}" for path, count in fan_in.most_common(_SHOWN)]
    answer.sections["fan-out"] = [f"{path}: {count}" for path, count in fan_out.most_common(_SHOWN)]
    answer.sections["cycles"] = [" → ".join([*cycle, cycle[0]]) for cycle in cycles(edges)[:_SHOWN]]


def _patterns(answer: Answer) -> None:
    kinds: dict[str, list[str]] = defaultdict(list)
    for one in answer.relations.values():
        if one.kind in ("inherits", "conforms"):
            kinds[one.target.qualified].append(f"{one.source.qualified} ({_at(one)})")
    answer.sections["implementations"] = [f"{base}: {', '.join(subs[:_SHOWN])}" for base, subs in kinds.items()]
    answer.sections["overrides"] = [
        f"{one.source.qualified} overrides {one.target.qualified} ({_at(one)})"
        for one in answer.relations.values()
        if one.kind == "overrides"
    ][:_SHOWN]
    shapes: dict[str, set[str]] = defaultdict(set)
    for finding in answer.findings.values():
        container, _, name = finding.node.qualified.rpartition(".")
        if container and finding.node.kind in ("method", "function") and not name.startswith("__"):
            shapes[name].add(container)
    repeated = sorted(
        ((name, owners) for name, owners in shapes.items() if len(owners) > 1), key=lambda one: -len(one[1])
    )
    answer.sections["repeated shapes"] = [
        f"{name} in {', '.join(sorted(owners)[:6])}" for name, owners in repeated[:_SHOWN]
    ]


def _chains(answer: Answer) -> list[str]:
    """Calls from what nobody here calls to what calls nobody here, the longest first."""
    forward: dict[str, list[Relation]] = defaultdict(list)
    called: set[str] = set()
    for one in answer.relations.values():
        if one.kind == "calls" and one.source.id != one.target.id:
            forward[one.source.id].append(one)
            called.add(one.target.id)
    chains: list[list[Relation]] = []

    def extend(chain: list[Relation], node_id: str) -> None:
        nexts = [one for one in forward.get(node_id, ()) if all(one.target.id != past.source.id for past in chain)]
        if not nexts or len(chain) > 2 * answer.depth or len(chains) > 400:
            if chain:
                chains.append(chain)
            return
        for one in nexts:
            extend([*chain, one], one.target.id)

    for start in forward:
        if start not in called:
            extend([], start)
    chains.sort(key=lambda chain: -len(chain))
    return [
        " → ".join(
            [
                chain[0].source.qualified or chain[0].source.path,
                *(f"{one.target.qualified} [{_at(one)}]" for one in chain),
            ]
        )
        for chain in chains[:_SHOWN]
    ]


def cycles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """Groups of files that reach each other, each walked once, smallest first."""
    forward: dict[str, list[str]] = defaultdict(list)
    for source, target in sorted(edges):
        forward[source].append(target)
    found: dict[frozenset[str], list[str]] = {}
    for start in sorted(forward):
        stack: list[tuple[str, list[str]]] = [(start, [start])]
        steps = 0
        while stack and steps < 2000:
            steps += 1
            at, trail = stack.pop()
            for there in forward.get(at, ()):
                if there == start and len(trail) > 1:
                    found.setdefault(frozenset(trail), trail)
                elif there not in trail and len(trail) < 6:
                    stack.append((there, [*trail, there]))
    return sorted(found.values(), key=len)


def _module(node: Node) -> str:
    parent = PurePosixPath(node.path).parent.as_posix()
    return "(root)" if parent == "." else parent


def _where(node: Node) -> str:
    return f"{node.path}:{node.start_line}"


def _at(one: Relation) -> str:
    return f"{one.source.path}:{one.line}"
