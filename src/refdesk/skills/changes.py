"""What changed between two versions of a skill, in plain words?"""

from __future__ import annotations

from refdesk.skills.format import parse
from refdesk.skills.merge import matched
from refdesk.skills.model import Playbook, Skill
from refdesk.skills.phrases import shortened

NOTHING_NEW = "Nothing new: the playbook already covers this conversation."


def changes(before: Skill, after: Skill) -> list[str]:
    """One sentence for each difference, computed from the two versions themselves."""
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
            found.append(f"Added step {place + 1}: “{step.title}”.")
            continue
        before = old.steps[was[place]]
        parts = {"title": (before.title, step.title), "Do": (before.do, step.do), "Check": (before.check, step.check)}
        parts["Say"] = (before.say, step.say)
        if changed := [name for name, (one, other) in parts.items() if one != other]:
            found.append(f"Changed the {' and '.join(changed)} of step {place + 1} “{step.title}”.")
    gone = (step for place, step in enumerate(old.steps) if place not in was.values())
    return found + [f"Removed the step “{step.title}”." for step in gone]


def _listed(name: str, old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    added = [f"Added {name}: {item}" for item in new if item not in old]
    return added + [f"Removed {name}: {item}" for item in old if item not in new]


def _reworded(name: str, old: str, new: str) -> list[str]:
    if old == new:
        return []
    return [f"{name} changed from “{shortened(old, 16)}” to “{shortened(new, 16)}”." if old else f"{name} added: {new}"]
