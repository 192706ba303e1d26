"""Merges changes into a playbook without losing what is there, and says what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from refdesk.skills.format import MAX_KEYWORDS, parse
from refdesk.skills.identifiers import identifiers
from refdesk.skills.model import Draft, Playbook, Skill, Step
from refdesk.skills.wording import shortened
from refdesk.text import analyse

_SAME = 0.9  # likeness from which a text is not added again
_SAME_STEP = 0.6  # likeness from which a step is a correction of another


def merge(base: Draft, proposed: Draft, newest: Draft) -> Draft:
    """The newest draft with all changes that the proposal makes to the base.

    Whatever the proposal leaves out stays; where both changed one text, both texts stay.
    """
    old, new, now = base.playbook, proposed.playbook, newest.playbook
    playbook = replace(
        now,
        title=_text(old.title, new.title, now.title, joined=False),
        goal=_text(old.goal, new.goal, now.goal, joined=False),
        prerequisites=_items(old.prerequisites, new.prerequisites, now.prerequisites),
        steps=_steps(old.steps, new.steps, now.steps),
        edge_cases=_items(old.edge_cases, new.edge_cases, now.edge_cases),
        escalation=_escalation(old, new, now),
        product_area=now.product_area or new.product_area,
        issue_type=now.issue_type or new.issue_type,
    )
    return Draft(
        playbook=playbook,
        problem=_text(base.problem, proposed.problem, newest.problem, joined=False),
        keywords=tuple(dict.fromkeys((*newest.keywords, *proposed.keywords)))[:MAX_KEYWORDS],
    )


def matched(before: Sequence[Step], after: Sequence[Step]) -> dict[int, int]:
    """Maps the index of each step after to that of the same step before, else of the most similar one."""
    pairs: dict[int, int] = {}
    for place, step in enumerate(after):
        same = (i for i, old in enumerate(before) if old == step and i not in pairs.values())
        if (found := next(same, None)) is not None:
            pairs[place] = found
    scored = [
        (_step_likeness(before[i], after[j]), -i, -j)
        for i in range(len(before))
        for j in range(len(after))
        if j not in pairs and i not in pairs.values()
    ]
    for score, i, j in sorted(scored, reverse=True):
        if score >= _SAME_STEP and -j not in pairs and -i not in pairs.values():
            pairs[-j] = -i
    return pairs


def likeness(one: str, other: str) -> float:
    """The share of terms that two texts have in common, 0..1; at most 0.5 where their numbers or identifiers differ."""
    a, b = set(analyse.terms(one)), set(analyse.terms(other))
    if not a or not b:
        return float(one.strip() == other.strip())
    if set(identifiers(one)) != set(identifiers(other)):
        return min(0.5, len(a & b) / len(a | b))
    return len(a & b) / len(a | b)


def covered(text: str, by: Iterable[str]) -> bool:
    """Whether one of the texts says the same."""
    return any(likeness(text, other) >= _SAME for other in by)


def _step_likeness(one: Step, other: Step) -> float:
    return max(likeness(one.title, other.title), likeness(one.do, other.do))


def _text(old: str, new: str, now: str, *, joined: bool) -> str:
    if not new or new == old or new in now:
        return now
    if now == old or not now:
        return new
    return f"{now}\nAlso: {new}" if joined else now


def _items(old: tuple[str, ...], new: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
    result = list(now)
    result += [item for item in new if not covered(item, (*old, *result))]
    return tuple(dict.fromkeys(result))


def _escalation(old: Playbook, new: Playbook, now: Playbook) -> str:
    if not new.escalation or covered(new.escalation, (old.escalation, now.escalation)):
        return now.escalation
    kept = set(analyse.terms(now.escalation)) <= set(analyse.terms(new.escalation))
    return new.escalation if kept else f"{now.escalation}\n{new.escalation}".strip()


def _steps(old: tuple[Step, ...], new: tuple[Step, ...], now: tuple[Step, ...]) -> tuple[Step, ...]:
    was = matched(old, new)  # index in the proposal → index in the base
    stands = {before: after for after, before in matched(old, now).items()}  # index in the base → index now
    result = list(now)
    for place, before in was.items():
        if before in stands:
            at = stands[before]
            result[at] = _corrected(old[before], new[place], result[at])
    added: dict[int, list[Step]] = {}  # steps by the index now that they follow; -1: before all
    for place, step in enumerate(new):
        if place in was or any(_step_likeness(step, other) >= _SAME for other in result):
            continue
        anchors = (stands[was[p]] for p in range(place - 1, -1, -1) if p in was and was[p] in stands)
        anchor = next(anchors, -1)
        while anchor + 1 < len(now) and anchor + 1 not in stands.values():
            anchor += 1  # after what others added at the same place
        added.setdefault(anchor, []).append(step)
    ordered = list(added.get(-1, []))
    for at, step in enumerate(result):
        ordered += [step, *added.get(at, [])]
    return tuple(ordered)


def _corrected(old: Step, new: Step, now: Step) -> Step:
    return Step(
        _text(old.title, new.title, now.title, joined=False),
        _text(old.do, new.do, now.do, joined=True),
        _text(old.check, new.check, now.check, joined=True),
        _text(old.say, new.say, now.say, joined=True),
    )


# --- what changed ----------------------------------------------------------------------------------------


NOTHING_NEW = "Nothing new: the playbook already covers this conversation."


def changes(before: Skill, after: Skill) -> list[str]:
    """One sentence for each difference between the two versions."""
    old, new = parse(before.resolution_md), parse(after.resolution_md)
    found = _reworded("Title", before.title, after.title)
    found += _reworded("Problem", before.problem, after.problem)
    found += _reworded("Goal", old.goal, new.goal)
    found += _listed("prerequisite", old.prerequisites, new.prerequisites)
    found += _step_changes(old, new)
    found += _listed("edge case", old.edge_cases, new.edge_cases)
    found += _reworded("Escalation", old.escalation, new.escalation)
    found += _reworded("Product area", before.product_area, after.product_area)
    found += _reworded("Issue type", before.issue_type, after.issue_type)
    if gained := [word for word in after.keywords if word not in before.keywords]:
        found.append(f"Added keywords: {', '.join(gained)}.")
    if lost := [word for word in before.keywords if word not in after.keywords]:
        found.append(f"Removed keywords: {', '.join(lost)}.")
    return found or [NOTHING_NEW]


def _step_changes(old: Playbook, new: Playbook) -> list[str]:
    was = matched(old.steps, new.steps)
    found = []
    for place, step in enumerate(new.steps):
        if place not in was:
            found.append(f"Added step {place + 1}: “{step.title}”. {shortened(step.do, 30)}")
            continue
        before = old.steps[was[place]]
        parts = {"title": (before.title, step.title), "Do": (before.do, step.do), "Check": (before.check, step.check)}
        parts["Say"] = (before.say, step.say)
        for name, (one, other) in parts.items():
            if one != other:
                added = other.removeprefix(one).removeprefix("\nAlso: ")
                found.append(f"Changed the {name} of step {place + 1} “{step.title}”: {shortened(added, 30)}")
    gone = (step for place, step in enumerate(old.steps) if place not in was.values())
    return found + [f"Removed the step “{step.title}”." for step in gone]


def _listed(name: str, old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    added = [f"Added {name}: {item}" for item in new if item not in old]
    return added + [f"Removed {name}: {item}" for item in old if item not in new]


def _reworded(name: str, old: str, new: str) -> list[str]:
    if old == new:
        return []
    return [f"{name} changed from “{shortened(old, 16)}” to “{shortened(new, 16)}”." if old else f"{name} added: {new}"]
