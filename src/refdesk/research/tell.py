"""How does an answer read?  Sentences with citations, nodes and edges, and a drawing, within a budget of tokens."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

from refdesk import tokens
from refdesk.graph import Node
from refdesk.research.answer import Answer, Finding, Relation

_DRAWN = 30
_NOTES = 3
_TOLD = 3  # definitions of one name
_EMBEDDED, _CARRIED_OUT = "is embedded in", "is carried out by"
_OWN_VERBS = {"embeds": _EMBEDDED, "implements": _CARRIED_OUT}  # of relations that no other verb tells
INSTEAD = {
    "callers": "No call was found; what mentions it is shown.",
    "implementations": "Nothing is declared to conform to it; what uses it is shown.",
}


def told(answer: Answer, budget: int) -> dict[str, Any]:
    """The answer as JSON: summary, findings, graph and Mermaid; what does not fit is left out, farthest first."""
    findings = sorted(answer.findings.values(), key=lambda one: one.hop)
    kept, with_signatures = len(findings), True
    while True:
        body = _body(answer, findings[:kept], budget // 2, with_signatures=with_signatures)
        if left := len(findings) - kept:
            body["left_out"] = f"{left} places left out to keep the answer short; ask with a smaller depth or a name."
        if not budget or tokens.count(json.dumps(body, ensure_ascii=False)) <= budget or kept <= 5:
            return body
        kept -= max(1, kept // 5) if not with_signatures else 0
        with_signatures = False


def _body(answer: Answer, findings: list[Finding], for_sections: int, *, with_signatures: bool) -> dict[str, Any]:
    """The same short names stand for the places in the findings, the graph and the drawing."""
    names = {one.node.id: f"n{number}" for number, one in enumerate(findings)}
    relations = [one for one in answer.relations.values() if one.source.id in names and one.target.id in names]
    body: dict[str, Any] = {
        "query": answer.question,
        "intent": answer.intent,
        "focus": answer.focus or None,
        "depth": answer.depth,
        "summary": summary(answer, list(answer.findings.values())),  # counts what is left out too
        "sections": {title: _some(lines, for_sections) for title, lines in answer.sections.items() if lines},
        "findings": [
            {"id": names[one.node.id], **_finding(one, with_signature=with_signatures and one.hop < 2)}
            for one in findings
        ],
        "graph": {
            "nodes": list(names.values()),
            "edges": [
                {
                    "from": names[one.source.id],
                    "to": names[one.target.id],
                    "kind": one.kind,
                    "line": one.line,
                    "confidence": round(one.confidence, 2),
                }
                for one in relations
            ],
        },
        "mermaid": mermaid(relations[:_DRAWN], names),
    }
    if answer.notes:
        body["notes"] = answer.notes[:_NOTES]
    return body


def _some(lines: list[str], budget: int) -> list[str]:
    """As many of the lines as fit."""
    used = 0
    for number, line in enumerate(lines):
        used += tokens.count(line) + 2
        if budget and used > budget:
            return [*lines[:number], f"… {len(lines) - number} more"]
    return lines


def _finding(one: Finding, *, with_signature: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "symbol": one.node.qualified or one.node.path,
        "kind": one.node.kind,
        "path": one.node.path,
        "start_line": one.node.start_line,
        "end_line": one.node.end_line,
        "relationship": one.relationship,
        "hop": one.hop,
        "line": one.line,
    }
    if one.path != one.node.path:
        shown["line_in"] = one.path  # a call stands in the caller's file
    if one.node.signature and with_signature:
        shown["signature"] = one.node.signature[:160]
    return shown


def summary(answer: Answer, findings: list[Finding]) -> str:
    """Sentences made from the findings, each with its place."""
    starts = [one for one in findings if one.hop == 0]
    near = [one for one in findings if one.hop == 1]
    if not starts:
        return "Nothing in the index answers this. Index the codebase, or name a symbol."
    named = ", ".join(_named(one) for one in starts[:3])
    is_direct = not any(note in answer.notes for note in INSTEAD.values())
    if answer.intent == "callers" and is_direct:
        return _counted(answer, starts, {"is called from": "caller"})
    if not near:
        return f"{named} {'stands' if len(starts) == 1 else 'stand'} alone: nothing related was found."
    if answer.intent == "users":
        return _counted(answer, starts, {"is used from": "place"})
    if answer.intent == "callees":
        return _counted(answer, starts, {"calls": "definition", _CARRIED_OUT: "actual declaration"})
    if answer.intent == "implementations" and is_direct:
        verbs = {"is implemented by": "conforming type", _CARRIED_OUT: "actual declaration", _EMBEDDED: "type"}
        return _counted(answer, starts, verbs)
    sentences = [f"The question leads to {named}."]
    for opposite, group in _grouped(near).items():
        listed = ", ".join(_named(one) for one in group[:3])
        more = f" and {len(group) - 3} more" if len(group) > 3 else ""
        sentences.append(f"{opposite} {listed}{more}.")
    return " ".join(sentences[:6])


def _counted(answer: Answer, starts: list[Finding], verbs: Mapping[str, str]) -> str:
    """For each of the definitions that were asked about, how many there are and the first of them."""
    sentences: list[str] = []
    for start, (verb, what) in product(starts, verbs.items()):
        reached = _reached(answer, start, verb)
        if not reached:
            continue
        shown = 6 if len(starts) == 1 else 3
        listed = ", ".join(f"{node.qualified or node.path} [{path}:{line}]" for node, path, line in reached[:shown])
        more = f" and {len(reached) - shown} more" if len(reached) > shown else ""
        plural = "s" if len(reached) > 1 else ""
        sentences.append(f"{_named(start)} {verb} {len(reached)} {what}{plural}: {listed}{more}.")
    if not sentences:
        return f"{_named(starts[0])} has no {next(iter(verbs.values()))} in the index."
    if len(sentences) > _TOLD:
        others = len(sentences) - _TOLD
        sentences[_TOLD:] = [f"{others} more definition{'s' if others > 1 else ''} of that name: see the tree."]
    farther = sum(one.hop > 1 for one in answer.findings.values())
    if farther:
        sentences.append(f"Behind these, {farther} more within {answer.depth} hops.")
    return " ".join(sentences)


def _reached(answer: Answer, start: Finding, verb: str) -> list[tuple[Node, str, int]]:
    """What is related to the definition, each once, with the place of the relation."""
    found: dict[str, tuple[Node, str, int]] = {}
    for one in answer.relations.values():
        near, far = (one.source, one.target) if verb == "calls" else (one.target, one.source)
        if near.id == start.node.id and _tells(verb, one.kind):
            found.setdefault(far.id, (far, one.source.path, one.line))
    return list(found.values())


def _tells(verb: str, kind: str) -> bool:
    return _OWN_VERBS[kind] == verb if kind in _OWN_VERBS else verb not in _OWN_VERBS.values()


def _grouped(near: list[Finding]) -> dict[str, list[Finding]]:
    """The places by how they are related to where they were reached from, the most first."""
    counted = Counter(one.opposite for one in near)
    groups: dict[str, list[Finding]] = {opposite: [] for opposite, _ in counted.most_common(5)}
    for one in near:
        if one.opposite in groups:
            groups[one.opposite].append(one)
    return groups


def _named(one: Finding) -> str:
    """A place with its lines; a file is its own place."""
    node = one.node
    return f"{node.qualified} [{node.path}:{node.start_line}-{node.end_line}]" if node.qualified else node.path


def mermaid(relations: list[Relation], names: Mapping[str, str]) -> str:
    """The relations as a Mermaid flowchart."""
    lines: dict[str, None] = {"graph LR": None} if relations else {}
    for one in relations:
        for node in (one.source, one.target):
            label = re.sub(r"[^\w.<>/ -]", " ", node.qualified or node.path)
            label = label.replace("<", "#lt;").replace(">", "#gt;")  # else they are read as markup
            lines[f'  {names[node.id]}["{label}"]'] = None
        lines[f"  {names[one.source.id]} -->|{one.kind}| {names[one.target.id]}"] = None
    return "\n".join(lines)
