"""Playbooks: list, read, edit, rate, show what each version changed, roll back, export."""

from __future__ import annotations

import difflib
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.responses import Response

from refdesk.console.site import View, Visit, address
from refdesk.console.words import prose
from refdesk.errors import InvalidInput, NotFound, StoreError
from refdesk.skills.format import folder_name, parse, render, to_markdown
from refdesk.skills.learn import as_draft
from refdesk.skills.merge import changes
from refdesk.skills.model import Draft, Outcome, Revision, Skill

_LISTED = 50
_RATINGS: Mapping[str, Outcome] = {"confirm": "confirmed", "reject": "failure"}


def playbooks(visit: Visit) -> Response:
    page = max(1, visit.number("page", 1))
    skills = visit.desk.learner.skills(_LISTED + 1, (page - 1) * _LISTED) if visit.desk.has_playbooks() else []
    return visit.render("playbooks.html", skills=skills[:_LISTED], page=page, more=len(skills) > _LISTED, when=when)


def playbook(visit: Visit) -> Response:
    """One playbook: read, edited, or its versions."""
    skill = visit.desk.learner.get(visit.path("id"))
    how = visit.query("as", "page")
    values: dict[str, Any] = {}
    if how == "history":
        values["versions"] = list(_versions(visit.desk.learner.history(skill.skill_id)))
    elif how == "page":
        text = skill.resolution_md
        text = text[text.find("## Goal") :]  # the page has title, confidence and labels in its head
        values["body"] = prose(text, "playbooks", skill.skill_id, breaks=True).body
    return visit.render("playbook.html", skill=skill, how=how, when=when, **values)


def when(text: str) -> int:
    """An ISO 8601 time in milliseconds since the epoch."""
    return int(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def _versions(revisions: list[Revision]) -> Iterator[dict[str, Any]]:
    """Each version, newest first, with its changes in words and as a diff of classes and lines."""
    classes = {"+": "gi", "-": "gd", "@": "gu"}
    for at in range(len(revisions) - 1, -1, -1):
        now, before = revisions[at], revisions[at - 1].skill if at else None
        rows: list[str] = []
        if before:
            old, new = _written(before).splitlines(), _written(now.skill).splitlines()
            rows = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
        yield {
            "version": now.skill.version,
            "made_at": when(now.made_at),
            "changes": changes(before, now.skill) if before else ["Created."],
            "diff": [(classes.get(row[:1], ""), row) for row in rows],
        }


def _written(skill: Skill) -> str:
    """The text of a version, without its counts."""
    book = replace(parse(skill.resolution_md), confidence=0)
    return f"Problem: {skill.problem}\nKeywords: {', '.join(skill.keywords)}\n\n{render(book)}"


def rate(visit: Visit) -> Response:
    """Records a user's verdict on a playbook."""
    outcome = _RATINGS.get(visit.field("outcome"))
    if outcome is None:
        raise InvalidInput("A playbook is confirmed or rejected.")
    visit.desk.learner.rate(visit.path("id"), outcome)
    return visit.redirect(address("/playbooks/{}", visit.path("id")))


def edit(visit: Visit) -> Response:
    """Saves a new version, unless somebody else saved one first."""
    skill = visit.desk.learner.get(visit.path("id"))
    if visit.field("version") != str(skill.version):
        raise StoreError(
            f"The playbook is at version {skill.version} now: somebody else changed it.", "Load it again and repeat."
        )
    keywords = tuple(word.strip() for word in visit.field("keywords").split(",") if word.strip())
    text = visit.field("text").replace("\r\n", "\n")
    draft = Draft(playbook=parse(text), problem=visit.field("problem"), keywords=keywords)
    visit.desk.learner.adopt(draft, skill_id=skill.skill_id)
    return visit.redirect(address("/playbooks/{}", skill.skill_id, as_="history"))


def roll_back(visit: Visit) -> Response:
    """Makes an earlier version the newest one; none is lost."""
    learner, skill_id = visit.desk.learner, visit.path("id")
    wanted = visit.field("version")
    found = [one.skill for one in learner.history(skill_id) if str(one.skill.version) == wanted]
    if not found:
        raise NotFound(f"There is no version {wanted}.", "The history lists them.")
    learner.adopt(as_draft(found[0]), skill_id=skill_id)
    return visit.redirect(address("/playbooks/{}", skill_id, as_="history"))


def export(visit: Visit) -> Response:
    skill = visit.desk.learner.get(visit.path("id"))
    name = f"{folder_name(skill)}.md"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(to_markdown(skill), media_type="text/markdown; charset=utf-8", headers=headers)


def export_all(visit: Visit) -> Response:
    """All playbooks, each a folder with its SKILL.md."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for skill in visit.desk.learner.skills():
            archive.writestr(f"{folder_name(skill)}/SKILL.md", to_markdown(skill))
    headers = {"content-disposition": 'attachment; filename="playbooks.zip"'}
    return Response(packed.getvalue(), media_type="application/zip", headers=headers)


VIEWS: Mapping[str, View] = {
    "GET /playbooks": playbooks,
    "GET /playbooks/all.zip": export_all,
    "GET /playbooks/{id}": playbook,
    "GET /playbooks/{id}/SKILL.md": export,
    "POST /playbooks/{id}/rate": rate,
    "POST /playbooks/{id}/edit": edit,
    "POST /playbooks/{id}/version": roll_back,
}
