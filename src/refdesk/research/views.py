"""How is each focus told?  Modules and layers, imports and cycles, implementations and shapes, chains of calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath

from refdesk.graph import Graph, Node
from refdesk.graph.languages import is_test
from refdesk.research.answer import Answer, Relation

_SHOWN = 8
_ENTRY = frozenset(["main", "run", "serve", "cli", "start", "handle", "execute", "app", "__main__"])


_TREES = {"callers": "callers", "implementations": "conforming types", "users": "users"}
_ALONE = {"embeds": "embedding types", "implements": "actual declarations"}  # where nothing else is in the tree
_HOW = {"embeds": ", by embedding", "implements": ", actual"}


def add_views(answer: Answer, graph: Graph, focus: str | None) -> None:
    """Adds the focus's own sections; a question about callers or implementations always has its tree."""
    if answer.intent in _TREES:
        kinds = {one.kind for one in answer.relations.values()}
        title = _ALONE.get(next(iter(kinds)), "") if len(kinds) == 1 else ""
        answer.sections[title or _TREES[answer.intent]] = _tree(answer)
        answer.trees.add(title or _TREES[answer.intent])
    if focus == "architecture":
        answer.sections["codebase"] = _folders(graph)
        _architecture(answer)
    elif focus == "dependencies":
        _dependencies(answer)
    elif focus == "patterns":
        _patterns(answer)
    elif focus == "flow" or (focus is None and answer.intent == "callees"):
        answer.sections["call chains"] = _chains(answer)
        if focus is None:
            answer.trees.add("call chains")


def _tree(answer: Answer) -> list[str]:
    """Everything that leads to the start, indented by hop under what it leads to; a file is named where it changes."""
    under: dict[str, list[Relation]] = defaultdict(list)
    for one in answer.relations.values():
        if all(one.source.id != known.source.id for known in under[one.target.id]):  # calls and mentions: once
            under[one.target.id].append(one)
    lines: list[str] = []
    seen: set[str] = set()
    last = ""

    def add(node_id: str, indent: int) -> None:
        nonlocal last
        for one in under.get(node_id, ()):
            path = one.source.path if one.source.path != last else ""
            last = one.source.path
            where = f"{one.source.qualified or one.source.path} ({path}:{one.line}){_HOW.get(one.kind, '')}"
            lines.append("  " * indent + where)
            if one.source.id not in seen and indent < answer.depth:
                seen.add(one.source.id)
                add(one.source.id, indent + 1)

    for finding in list(answer.findings.values()):
        if finding.hop == 0:
            lines.append(f"{finding.node.qualified or finding.node.path} ({finding.node.path}:{finding.line})")
            last = finding.node.path
            seen.add(finding.node.id)
            add(finding.node.id, 1)
    return lines


def _folders(graph: Graph) -> list[str]:
    """The folders with most files, two levels deep, and their language."""
    files: Counter[str] = Counter()
    languages: dict[str, Counter[str]] = defaultdict(Counter)
    for document in graph.documents():
        folder = "/".join(document.path.split("/")[:-1][:2]) or "(root)"
        files[folder] += 1
        languages[folder][document.content_type] += 1
    return [
        f"{folder}: {count} files, mostly {languages[folder].most_common(1)[0][0]}"
        for folder, count in files.most_common(_SHOWN)
    ]


def _architecture(answer: Answer) -> None:
    modules: Counter[str] = Counter(_module(one.node) for one in answer.findings.values())
    answer.sections["modules"] = [f"{name}: {count} found" for name, count in modules.most_common(_SHOWN)]
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
    edges = {
        (one.source.path, one.target.path) for one in answer.relations.values() if one.source.path != one.target.path
    }
    fan_out: Counter[str] = Counter(source for source, _ in edges)
    fan_in: Counter[str] = Counter(target for _, target in edges)
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in sorted(edges):
        targets[source].append(target)
    most = sorted(targets, key=lambda path: (is_test(path), -len(targets[path]), path))
    title = "imports" if any(one.kind == "imports" for one in answer.relations.values()) else "uses"
    answer.sections[title] = [f"{path} → {', '.join(targets[path])}" for path in most[: 2 * _SHOWN]]
    answer.sections["fan-in"], answer.sections["fan-out"] = _hubs(fan_in), _hubs(fan_out)
    answer.sections["cycles"] = [" → ".join([*cycle, cycle[0]]) for cycle in cycles(edges)[:_SHOWN]]


def _hubs(counted: Mapping[str, int]) -> list[str]:
    """The files with the highest counts above 1, equal ones by path."""
    most = sorted((-count, path) for path, count in counted.items() if count > 1)
    return [f"{path}: {-count}" for count, path in most[:_SHOWN]]


def _patterns(answer: Answer) -> None:
    answer.sections["implementations"] = _by_target(answer, ("inherits", "conforms", "implements"))
    answer.sections["embedded in"] = _by_target(answer, ("embeds",))
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


def _by_target(answer: Answer, kinds: tuple[str, ...]) -> list[str]:
    """What has the relation to each type that has it."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in answer.relations.values():
        if one.kind in kinds:
            found[one.target.qualified].append(f"{one.source.qualified} ({_at(one)})")
    return [f"{base}: {', '.join(subs[:_SHOWN])}" for base, subs in found.items()]


def _chains(answer: Answer) -> list[str]:
    """Calls from what nobody here calls to what calls nobody here, longest first, each telling something new."""
    forward: dict[str, list[Relation]] = defaultdict(list)
    called: set[str] = set()
    for one in answer.relations.values():
        if one.kind in ("overrides", "implements"):  # a call of what is declared goes on in what carries it out
            one = Relation(one.target, one.source, one.kind, one.line, one.confidence)
        elif one.kind != "calls" or one.source.id == one.target.id:
            continue
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

    for start in [node_id for node_id in forward if node_id not in called] or list(forward)[:1]:
        extend([], start)
    chains.sort(key=lambda chain: (is_test(chain[0].source.path), -len(chain)))
    told: set[tuple[str, str]] = set()
    return [_chain(chain, told) for chain in _telling(chains)]


def _telling(chains: list[list[Relation]]) -> list[list[Relation]]:
    """The first chains that each show at least two places that none before showed; one, where it is a single call."""
    shown: set[str] = set()
    kept: list[list[Relation]] = []
    for chain in chains:
        fresh = {one.target.id for one in chain} | {chain[0].source.id}
        if len(fresh - shown) >= min(2, len(chain)) and len(kept) < _SHOWN:
            shown |= fresh
            kept.append(chain)
    return kept


def _chain(chain: list[Relation], told: set[tuple[str, str]]) -> str:
    """The calls with their places; a file is named where it changes, a beginning that was told is left out."""
    fresh = next((n for n, one in enumerate(chain) if (one.source.id, one.target.id) not in told), 0)
    told |= {(one.source.id, one.target.id) for one in chain}
    first = chain[fresh].source
    parts = [f"{'… → ' if fresh else ''}{first.qualified or first.path}"]
    path = ""
    for one in chain[fresh:]:
        where = one.source.path if one.kind == "calls" else one.target.path
        parts.append(f"{one.target.qualified} [{where if where != path else ''}:{one.line}]")
        path = where
    return " → ".join(parts)


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
