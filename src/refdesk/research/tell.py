"""How does an answer read?  Sentences with citations, nodes and edges, and a drawing, within a budget of tokens."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from refdesk import tokens
from refdesk.research.answer import Answer, Finding, Relation

_DRAWN = 30


def told(answer: Answer, budget: int) -> dict[str, Any]:
    """The answer as JSON: summary, findings, graph and Mermaid; what does not fit is left out, farthest first."""
    findings, relations = list(answer.findings.values()), list(answer.relations.values())
    omitted = 0
    while True:
        body = _body(answer, findings, relations)
        if omitted:
            body["left_out"] = (
                f"{omitted} places left out to keep the answer short; ask with a smaller depth or a name."
            )
        if not budget or tokens.count(json.dumps(body, ensure_ascii=False)) <= budget or len(findings) <= 5:
            return body
        cut = max(1, len(findings) // 5)
        findings, omitted = findings[:-cut], omitted + cut
        kept = {one.node.id for one in findings}
        relations = [one for one in relations if one.source.id in kept and one.target.id in kept]


def _body(answer: Answer, findings: list[Finding], relations: list[Relation]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "query": answer.question,
        "intent": answer.intent,
        "focus": answer.focus or None,
        "depth": answer.depth,
        "summary": summary(answer, findings),
        "findings": [_finding(one) for one in findings],
        "sections": {title: lines for title, lines in answer.sections.items() if lines},
        "graph": {
            "nodes": [one.node.id for one in findings],
            "edges": [
                {
                    "from": one.source.id,
                    "to": one.target.id,
                    "kind": one.kind,
                    "line": one.line,
                    "confidence": one.confidence,
                }
                for one in relations
            ],
        },
        "mermaid": mermaid(relations[:_DRAWN]),
    }
    if answer.notes:
        body["notes"] = answer.notes[:5]
    return body


def _finding(one: Finding) -> dict[str, Any]:
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
    if one.node.signature:
        shown["signature"] = one.node.signature[:200]
    if one.confidence < 0.9:
        shown["confidence"] = one.confidence
    return shown


def summary(answer: Answer, findings: list[Finding]) -> str:
    """Sentences made from the findings, each with its place."""
    starts = [one for one in findings if one.hop == 0]
    near = [one for one in findings if one.hop == 1]
    if not starts:
        return "Nothing in the index answers this. Index the codebase, or name a symbol."
    named = ", ".join(f"{one.node.qualified} [{_cite(one)}]" for one in starts[:3])
    if answer.intent == "callers":
        return _counted(near, starts[0], "is called from", "caller", answer, findings)
    if answer.intent == "implementations":
        return _counted(near, starts[0], "is implemented by", "conforming type", answer, findings)
    sentences = [f"The question leads to {named}."]
    for relationship, group in _grouped(near).items():
        listed = ", ".join(f"{one.node.qualified or one.node.path} [{_cite(one)}]" for one in group[:3])
        more = f" and {len(group) - 3} more" if len(group) > 3 else ""
        sentences.append(f"{relationship[:1].upper()}{relationship[1:]}: {listed}{more}.")
    return " ".join(sentences[:6])


def _counted(near: list[Finding], start: Finding, verb: str, what: str, answer: Answer, findings: list[Finding]) -> str:
    name = f"{start.node.qualified} [{_cite(start)}]"
    if not near:
        return f"{name} has no {what} in the index."
    listed = ", ".join(f"{one.node.qualified or one.node.path} [{one.path}:{one.line}]" for one in near[:6])
    more = f" and {len(near) - 6} more" if len(near) > 6 else ""
    farther = sum(one.hop > 1 for one in findings)
    tail = f" Behind these, {farther} more within {answer.depth} hops." if farther else ""
    return f"{name} {verb} {len(near)} {what}{'s' if len(near) > 1 else ''}: {listed}{more}.{tail}"


def _grouped(near: list[Finding]) -> dict[str, list[Finding]]:
    counted = Counter(one.relationship for one in near)
    groups: dict[str, list[Finding]] = {relationship: [] for relationship, _ in counted.most_common(5)}
    for one in near:
        if one.relationship in groups:
            groups[one.relationship].append(one)
    return groups


def _cite(one: Finding) -> str:
    return f"{one.node.path}:{one.node.start_line}-{one.node.end_line}"


def mermaid(relations: list[Relation]) -> str:
    """The relations as a Mermaid flowchart."""
    if not relations:
        return ""
    names: dict[str, str] = {}
    lines = ["graph LR"]
    for one in relations:
        for node in (one.source, one.target):
            if node.id not in names:
                names[node.id] = f"n{len(names)}"
                label = re.sub(r"[^\w.<>/ -]", " ", node.qualified or node.path)
                lines.append(f'  {names[node.id]}["{label}"]')
        lines.append(f"  {names[one.source.id]} -->|{one.kind}| {names[one.target.id]}")
    return "\n".join(lines)
