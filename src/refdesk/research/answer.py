"""The result of a walk: findings, relations between them, and the sections of each focus."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from refdesk.graph import Edge, Graph, Node
from refdesk.graph.languages import is_test

_SHOWN = 8  # lines of a section
_ENTRY = frozenset(["main", "run", "serve", "cli", "start", "handle", "execute", "app", "__main__"])
_TREES = {"callers": "callers", "implementations": "conforming types", "users": "users"}
_ALONE = {"embeds": "embedding types", "implements": "actual declarations"}  # if the tree has nothing else
_HOW = {"embeds": ", by embedding", "implements": ", actual"}
_ACTIVE = {
    "references": "refers to",
    "inherits": "inherits from",
    "conforms": "conforms to",
    "implements": "is the actual of",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place in the code, and how and in how many hops it was reached."""

    node: Node
    relationship: str  # "match" for a start of the walk, else "calls X", "conforms to X"
    hop: int
    line: int  # of the relation; of the node itself for a match
    confidence: float
    path: str  # the file of that line
    note: str = ""
    opposite: str = ""  # the same from the other side: "X is called by"


@dataclass(slots=True)
class Answer:
    """Everything that a walk found, in order, each node once."""

    question: str
    intent: str
    focus: str
    depth: int
    findings: dict[str, Finding] = field(default_factory=dict)
    relations: dict[tuple[str, str, str], Edge] = field(default_factory=dict)
    sections: dict[str, list[str]] = field(default_factory=dict)  # title → lines
    trees: set[str] = field(default_factory=set)  # titles of sections that repeat the findings
    told: set[tuple[str, str, str]] = field(default_factory=set)  # the relations by which places were reached
    meant: str = ""  # the name in the question, if only similar names were found
    notes: list[str] = field(default_factory=list)

    def start(self, node: Node, note: str = "") -> bool:
        """Adds a start of the walk; false if it is known."""
        if node.id in self.findings:
            return False
        self.findings[node.id] = Finding(
            node=node, relationship="match", hop=0, line=node.start_line, confidence=1.0, path=node.path, note=note
        )
        return True

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def follow(self, edge: Edge, come_from: Node, hop: int) -> Node | None:
        """Adds an edge and returns the node it leads to, None if that is known."""
        forward = edge.target.id != come_from.id
        key = (edge.source.id, edge.target.id, edge.kind)
        self.relations.setdefault(key, edge)
        new, known = (edge.target, edge.source) if forward else (edge.source, edge.target)
        if new.id in self.findings:
            return None
        self.told.add(key)
        active, passive = _ACTIVE.get(edge.kind, edge.kind), _PASSIVE.get(edge.kind, edge.kind)
        is_passive = f"is the {passive}" if edge.kind == "inherits" else f"is {passive}"
        name = known.qualified or known.path
        self.findings[new.id] = Finding(
            node=new,
            relationship=f"{passive if forward else active} {name}",
            opposite=f"{name} {active if forward else is_passive}",
            hop=hop,
            line=edge.line,
            confidence=edge.confidence,
            path=edge.source.path,
        )
        return new


def add_sections(answer: Answer, graph: Graph, focus: str | None) -> None:
    """Adds the sections of the focus, and the tree of a question about callers or implementations."""
    if answer.intent in _TREES:
        kinds = {one.kind for one in answer.relations.values()}
        title = _ALONE.get(next(iter(kinds)), "") if len(kinds) == 1 else ""
        answer.sections[title or _TREES[answer.intent]] = _tree(answer)
        answer.trees.add(title or _TREES[answer.intent])
    if focus == "architecture":
        _add_architecture(answer, graph)
    elif focus == "dependencies":
        _add_dependencies(answer)
    elif focus == "patterns":
        _add_patterns(answer)
    elif focus == "flow" or (focus is None and answer.intent in ("callees", "way")):
        answer.sections["call chains"] = _chains(answer)
        if focus is None:
            answer.trees.add("call chains")


def _tree(answer: Answer) -> list[str]:
    """The relations that lead to the starts as an indented tree; a file is named only where it changes."""
    under: dict[str, list[Edge]] = defaultdict(list)
    for one in answer.relations.values():
        if all(one.source.id != known.source.id for known in under[one.target.id]):  # once, for calls and mentions
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

    for finding in answer.findings.values():
        if finding.hop == 0:
            where = f"{finding.node.path}:{finding.line}" if finding.node.path else "defined elsewhere"
            lines.append(f"{finding.node.qualified or finding.node.path} ({where})")
            last = finding.node.path
            seen.add(finding.node.id)
            add(finding.node.id, 1)
    return lines


def _add_architecture(answer: Answer, graph: Graph) -> None:
    """Adds folders, modules, layers, central symbols and entry points."""
    files: Counter[str] = Counter()
    languages: dict[str, Counter[str]] = defaultdict(Counter)
    for document in graph.documents():
        folder = "/".join(document.path.split("/")[:-1][:2]) or "(root)"
        files[folder] += 1
        languages[folder][document.content_type] += 1
    answer.sections["codebase"] = [
        f"{folder}: {count} files, mostly {languages[folder].most_common(1)[0][0]}"
        for folder, count in files.most_common(_SHOWN)
    ]

    def module(node: Node) -> str:
        return node.path.rpartition("/")[0] or "(root)"

    modules: Counter[str] = Counter(module(one.node) for one in answer.findings.values())
    answer.sections["modules"] = [f"{name}: {count} found" for name, count in modules.most_common(_SHOWN)]
    between: Counter[tuple[str, str]] = Counter()
    degree: Counter[str] = Counter()
    for one in answer.relations.values():
        degree[one.target.id] += 1
        source, target = module(one.source), module(one.target)
        if source != target and one.kind in ("calls", "imports", "references"):
            between[source, target] += 1
    answer.sections["layers"] = [f"{a} → {b} ({count})" for (a, b), count in between.most_common(_SHOWN)]
    central = [
        (answer.findings[node_id].node, count)
        for node_id, count in degree.most_common(_SHOWN)
        if node_id in answer.findings
    ]
    answer.sections["central"] = [
        f"{node.qualified or node.path} ({node.path}:{node.start_line}), reached {count} times"
        for node, count in central
    ]
    entries = [one.node for one in answer.findings.values() if one.node.name.lower() in _ENTRY]
    answer.sections["entry points"] = [f"{node.qualified} ({node.path}:{node.start_line})" for node in entries[:_SHOWN]]


def _add_dependencies(answer: Answer) -> None:
    """Adds the imports between files, fan-in, fan-out and cycles."""
    edges = {
        (one.source.path, one.target.path) for one in answer.relations.values() if one.source.path != one.target.path
    }
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in sorted(edges):
        targets[source].append(target)
    most = sorted(targets, key=lambda path: (is_test(path), -len(targets[path]), path))
    title = "imports" if any(one.kind == "imports" for one in answer.relations.values()) else "uses"
    answer.sections[title] = [f"{path} → {', '.join(targets[path])}" for path in most[: 2 * _SHOWN]]
    for name, counted in (
        ("fan-in", Counter(target for _, target in edges)),
        ("fan-out", Counter(source for source, _ in edges)),
    ):
        hubs = sorted((-count, path) for path, count in counted.items() if count > 1)
        answer.sections[name] = [f"{path}: {-count}" for count, path in hubs[:_SHOWN]]
    answer.sections["cycles"] = [" → ".join([*cycle, cycle[0]]) for cycle in cycles(edges)[:_SHOWN]]


def _add_patterns(answer: Answer) -> None:
    """Adds implementations, embeddings, overrides, and member names that several types share."""
    for title, kinds in (("implementations", ("inherits", "conforms", "implements")), ("embedded in", ("embeds",))):
        found: dict[str, list[str]] = defaultdict(list)
        for one in answer.relations.values():
            if one.kind in kinds:
                found[one.target.qualified].append(f"{one.source.qualified} ({one.source.path}:{one.line})")
        answer.sections[title] = [f"{base}: {', '.join(subs[:_SHOWN])}" for base, subs in found.items()]
    answer.sections["overrides"] = [
        f"{one.source.qualified} overrides {one.target.qualified} ({one.source.path}:{one.line})"
        for one in answer.relations.values()
        if one.kind == "overrides"
    ][:_SHOWN]
    shapes: dict[str, set[str]] = defaultdict(set)
    for finding in answer.findings.values():
        container, _, name = finding.node.qualified.rpartition(".")
        if container and finding.node.kind in ("method", "function") and not name.startswith("__"):
            shapes[name].add(container)
    repeated = sorted((one for one in shapes.items() if len(one[1]) > 1), key=lambda one: -len(one[1]))
    answer.sections["repeated shapes"] = [
        f"{name} in {', '.join(sorted(owners)[:6])}" for name, owners in repeated[:_SHOWN]
    ]


def _chains(answer: Answer) -> list[str]:
    """Chains of calls from entry to end, longest first, each with at least one new place."""
    forward: dict[str, list[Edge]] = defaultdict(list)
    called: set[str] = set()
    for one in answer.relations.values():
        if one.kind in ("overrides", "implements"):  # a call of a declaration continues in its implementation
            one = Edge(one.target, one.source, one.kind, one.line, one.confidence)
        elif one.kind != "calls" or one.source.id == one.target.id:
            continue
        forward[one.source.id].append(one)
        called.add(one.target.id)
    chains: list[list[Edge]] = []
    longest = len(answer.relations) if answer.intent == "way" else 2 * answer.depth

    def extend(chain: list[Edge], node_id: str) -> None:
        nexts = [one for one in forward.get(node_id, ()) if all(one.target.id != past.source.id for past in chain)]
        if not nexts or len(chain) > longest or len(chains) > 400:
            if chain:
                chains.append(chain)
            return
        for one in nexts:
            extend([*chain, one], one.target.id)

    for start in [node_id for node_id in forward if node_id not in called] or list(forward)[:1]:
        extend([], start)
    chains.sort(key=lambda chain: (is_test(chain[0].source.path), -len(chain)))
    shown: set[str] = set()
    told: set[tuple[str, str]] = set()
    lines: list[str] = []
    for chain in chains:
        places = {one.target.id for one in chain} | {chain[0].source.id}
        if len(places - shown) < min(2, len(chain)) or len(lines) >= _SHOWN:
            continue
        shown |= places
        # A beginning that an earlier chain has is left out; a file is named only where it changes.
        fresh = next((n for n, one in enumerate(chain) if (one.source.id, one.target.id) not in told), 0)
        told |= {(one.source.id, one.target.id) for one in chain}
        first = chain[fresh].source
        parts = [f"{'… → ' if fresh else ''}{first.qualified or first.path}"]
        path = ""
        for one in chain[fresh:]:
            where = one.source.path if one.kind == "calls" else one.target.path
            parts.append(f"{one.target.qualified} [{where if where != path else ''}:{one.line}]")
            path = where
        lines.append(" → ".join(parts))
    return lines


def cycles(edges: set[tuple[str, str]]) -> list[list[str]]:
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
