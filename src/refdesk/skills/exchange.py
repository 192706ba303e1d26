"""How do skills travel?  As markdown with front matter, in folders that agents read too: `name/SKILL.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from refdesk.errors import InvalidInput
from refdesk.skills.format import parse
from refdesk.skills.model import FIRST_CONFIDENCE, Draft, Skill
from refdesk.skills.words import content_terms

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*\r?\n?", re.S)
_MAX_NAME = 64
_MAX_DESCRIPTION = 1024  # what agent skill folders allow


@dataclass(frozen=True, slots=True)
class Imported:
    """A skill as read from a file."""

    draft: Draft
    skill_id: str
    confidence: float


def to_markdown(skill: Skill) -> str:
    """The skill as a SKILL.md: what agents read in front, RefDesk's own under `metadata`."""
    front = {
        "name": folder_name(skill),
        "description": _description(skill),
        "metadata": {
            "skill_id": skill.skill_id,
            "version": skill.version,
            "problem": skill.problem,
            "keywords": list(skill.keywords),
            "confidence": skill.confidence,
            "times_used": skill.times_used,
            "times_confirmed": skill.times_confirmed,
            "created_at": skill.created_at,
            "updated_at": skill.updated_at,
        },
    }
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{head}---\n\n{skill.resolution_md}"


def from_markdown(text: str) -> Imported:
    """The skill in a SKILL.md, ours or one written by hand; InvalidInput says what is wrong with it."""
    found = _FRONT_MATTER.match(text)
    front = _front(found[1]) if found else {}
    book = parse(text[found.end() :] if found else text)
    given_metadata = front.get("metadata")
    own: dict[str, Any] = given_metadata if isinstance(given_metadata, dict) else {}
    problem = str(own.get("problem") or front.get("description") or book.goal)
    given = own.get("keywords") or list(dict.fromkeys(content_terms(f"{book.title} {problem}")))[:10]
    keywords = given.split(",") if isinstance(given, str) else [str(word) for word in given]
    confidence = own.get("confidence", book.confidence)
    return Imported(
        Draft(playbook=book, problem=problem, keywords=tuple(keywords)),
        str(own.get("skill_id") or ""),
        min(1.0, max(0.0, float(confidence))) if isinstance(confidence, int | float) else FIRST_CONFIDENCE,
    )


def folder_name(skill: Skill) -> str:
    """The name of the skill's folder: letters, digits and hyphens, unlike that of any other skill."""
    slug = re.sub(r"[^a-z0-9]+", "-", skill.title.lower()).strip("-")
    end = skill.skill_id[:8].lower()
    return f"{slug[: _MAX_NAME - len(end) - 1].strip('-')}-{end}".lstrip("-")


def files_in(path: Path) -> Iterator[Path]:
    """The skill files that a path names: itself, or every .md in the folder."""
    if path.is_dir():
        yield from sorted(each for each in path.rglob("*.md") if each.is_file())
    else:
        yield path


def _description(skill: Skill) -> str:
    when = "; ".join(skill.conditions)
    text = f"{skill.problem} Use when: {when}." if when else skill.problem
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


def _front(text: str) -> dict[str, Any]:
    try:
        front = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(
            f"The front matter is not YAML: {error}.", "Mend what stands between the --- lines."
        ) from error
    return front if isinstance(front, dict) else {}
