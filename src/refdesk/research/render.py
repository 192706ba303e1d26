"""Renders an answer as JSON within a token budget: a summary with citations, findings, a graph and a diagram."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

from refdesk.graph import Edge
from refdesk.research.answer import Answer, Finding
from refdesk.text import tokens

TREES = frozenset(["callers", "callees", "implementations", "users"])
_DRAWING = re.compile(r"\b(?:graph|diagram|draw(?:n|ing)?|mermaid|chart|flowchart|visuali[sz]e)\b", re.I)
_DEEP = 3  # hops from which the graph is included
_FEW = 700  # tokens up to which an answer has findings only
_DRAWN = 30  # relations in a drawing: more can't be read
_NOTES = 3
_TOLD = 3  # definitions of one name
_EMBEDDED, _CARRIED_OUT = "is embedded in", "is carried out by"
_OWN_VERBS = {"embeds": _EMBEDDED, "implements": _CARRIED_OUT}  # relations with a verb of their own
INSTEAD = {
    "callers": "No call was found; what mentions it is shown.",
    "implementations": "Nothing is declared to conform to it; what uses it is shown.",
}


def as_json(answer: Answer, budget: int) -> dict[str, Any]:
    """The answer as JSON, each fact once; what exceeds the budget is left out, farthest first.

    A question for callers, users or conforming types is answered by findings alone if they are few. Otherwise the
    findings have the first hop, and a tree, whose lines take half as many tokens, has everything.
    """
    findings = sorted((one for one in answer.findings.values() if one.node.path), key=lambda one: one.hop)
    if answer.intent in TREES and not answer.focus:
        body = _body(answer, findings, 0, lean=True)
        if _size(body) <= _FEW or not budget:
            return body
        near, for_sections = [one for one in findings if one.hop < 2], 3 * budget // 4
    else:
        near, for_sections = findings, budget // 2
    kept, lean = len(near), near is not findings
    while True:
        body = _body(answer, near[:kept], for_sections, lean=lean, with_trees=True)
        if left := len(near) - kept:
            whole = answer.trees and not any(line.startswith("… ") for line in body["sections"][min(answer.trees)])
            where = "are told in the tree alone" if whole else "are left out"
            body["left_out"] = f"{left} places {where} to keep the answer short; ask with a smaller depth or a name."
        if not budget or _size(body) <= budget or kept <= 5:
            return body
        kept -= max(1, kept // 5) if lean else 0
        lean = True


def _size(body: Mapping[str, Any]) -> int:
    return tokens.count(json.dumps(body, ensure_ascii=False))


def _body(
    answer: Answer, findings: list[Finding], for_sections: int, *, lean: bool, with_trees: bool = False
) -> dict[str, Any]:
    """The answer with some of its findings; findings, graph and diagram use the same short names."""
    names = {one.node.id: f"n{number}" for number, one in enumerate(findings)}
    relations = [one for one in answer.relations.values() if one.source.id in names and one.target.id in names]
    is_drawn = _DRAWING.search(answer.question) is not None
    is_mapped = is_drawn or bool(answer.focus) or answer.depth >= _DEEP
    if not is_mapped and with_trees and answer.trees:  # which have all of them
        relations = []
    elif not is_mapped:  # those that are in no finding
        relations = [one for one in relations if (one.source.id, one.target.id, one.kind) not in answer.told]
    sections = {title: lines for title, lines in answer.sections.items() if lines}
    if not with_trees:
        sections = {title: lines for title, lines in sections.items() if title not in answer.trees}
    body: dict[str, Any] = {
        "query": answer.question,
        "intent": answer.intent,
        "focus": answer.focus,
        "depth": answer.depth,
        "summary": summary(answer, list(answer.findings.values())),  # counts everything, also what is left out
        "sections": {title: _some(lines, for_sections) for title, lines in sections.items()},
        "findings": [
            {**({"id": names[one.node.id]} if relations else {}), **_finding(one, lean=lean)} for one in findings
        ],
        "graph": {
            **({"nodes": list(names.values())} if is_mapped else {}),
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
        }
        if relations
        else None,
        "mermaid": mermaid(relations[:_DRAWN], names) if is_drawn else "",
    }
    if answer.notes:
        body["notes"] = answer.notes[:_NOTES]
    return {key: value for key, value in body.items() if value or key == "findings"}


def _some(lines: list[str], budget: int) -> list[str]:
    """The lines that fit, and how many more there are."""
    used = 0
    for number, line in enumerate(lines):
        used += tokens.count(line) + 2
        if budget and used > budget:
            return [*lines[:number], f"… {len(lines) - number} more"]
    return lines


def _finding(one: Finding, *, lean: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "symbol": one.node.qualified or one.node.path,
        "kind": one.node.kind,
        "path": one.node.path,
        "start_line": one.node.start_line,
        "end_line": one.node.end_line,
        "relationship": one.note or one.relationship,
        "hop": one.hop,
        "line": one.line,
    }
    if lean:  # farther places have only the line of the relation
        for key in ("kind", "start_line", "end_line") if one.hop > 1 else ("kind",) if one.hop else ():
            del shown[key]
    if one.path != one.node.path:
        shown["line_in"] = one.path  # the line of a call is in the caller's file
    if one.node.signature and one.hop < (1 if lean else 2):
        shown["signature"] = one.node.signature[:160]
    return shown


def summary(answer: Answer, findings: list[Finding]) -> str:
    """A few sentences about the findings, with citations."""
    starts = [one for one in findings if one.hop == 0]
    near = [one for one in findings if one.hop == 1]
    if not starts and answer.meant:
        return f"Nothing in the index defines, calls or mentions {answer.meant}. Search for what it does instead."
    if not starts:
        return "Nothing in the index answers this. Index the codebase, or name a symbol."
    if answer.intent == "mentions":
        listed = ", ".join(f"{one.node.path}:{one.line}" for one in starts[:3])
        more = f" and {len(starts) - 3} more" if len(starts) > 3 else ""
        return f"No definition or call of {answer.meant} is known, but these files mention it: {listed}{more}."
    if answer.meant:
        return f"There is no {answer.meant} here. Did you mean {' or '.join(_named(one) for one in starts)}?"
    named = ", ".join(_named(one) for one in starts[:3])
    is_direct = not any(note in answer.notes for note in INSTEAD.values())
    if answer.intent == "way":
        many = sum(one.kind == "calls" for one in answer.relations.values())
        return f"{named} reaches {_named(findings[-1])} in {many} call{'s' if many > 1 else ''}, by a shortest way."
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
    for opposite, _ in Counter(one.opposite for one in near).most_common(5):
        group = [one for one in near if one.opposite == opposite]
        listed = ", ".join(_named(one) for one in group[:3])
        more = f" and {len(group) - 3} more" if len(group) > 3 else ""
        sentences.append(f"{opposite} {listed}{more}.")
    return " ".join(sentences[:6])


def _counted(answer: Answer, starts: list[Finding], verbs: Mapping[str, str]) -> str:
    """The number of related places for each definition in the question."""
    sentences: list[str] = []
    for start, (verb, what) in product(starts, verbs.items()):
        found = set()
        for one in answer.relations.values():
            near, far = (one.source, one.target) if verb == "calls" else (one.target, one.source)
            own = _OWN_VERBS.get(one.kind)
            if near.id == start.node.id and (own == verb if own else verb not in _OWN_VERBS.values()):
                found.add(far.id)
        if found:
            sentences.append(f"{_named(start)} {verb} {len(found)} {what}{'s' if len(found) > 1 else ''}.")
    if not sentences:
        return f"{_named(starts[0])} has no {next(iter(verbs.values()))} in the index."
    if len(sentences) > _TOLD:
        others = len(sentences) - _TOLD
        sentences[_TOLD:] = [f"{others} more definition{'s' if others > 1 else ''} of that name: see the findings."]
    farther = sum(one.hop > 1 for one in answer.findings.values())
    if farther:
        sentences.append(f"Behind these, {farther} more within {answer.depth} hops.")
    return " ".join(sentences)


def _named(one: Finding) -> str:
    """The name and lines of a symbol, or the path of a file."""
    node = one.node
    if not node.path:
        return f"{node.qualified} (defined elsewhere)"
    return f"{node.qualified} [{node.path}:{node.start_line}-{node.end_line}]" if node.qualified else node.path


def mermaid(relations: list[Edge], names: Mapping[str, str]) -> str:
    lines: dict[str, None] = {"graph LR": None} if relations else {}
    for one in relations:
        for node in (one.source, one.target):
            label = re.sub(r"[^\w.<>/ -]", " ", node.qualified or node.path)
            label = label.replace("<", "#lt;").replace(">", "#gt;")  # else Mermaid reads them as markup
            lines[f'  {names[node.id]}["{label}"]'] = None
        lines[f"  {names[one.source.id]} -->|{one.kind}| {names[one.target.id]}"] = None
    return "\n".join(lines)
