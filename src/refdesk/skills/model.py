"""What is a Skill, a change to one, a draft of one, and an outcome?  Values only, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Outcome = Literal["confirmed", "likely", "used", "likely_failure", "failure"]

# What an outcome adds to a skill's confidence; the sum stays within 0..1.
CONFIDENCE_CHANGE: Mapping[Outcome, float] = {
    "confirmed": 0.10,
    "likely": 0.03,
    "used": 0.01,
    "likely_failure": -0.05,
    "failure": -0.10,
}
FIRST_CONFIDENCE = 0.5
DISTRUSTED = 0.3  # a judge treats a skill below this sceptically


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a playbook: an internal action, a gate, and words to the customer."""

    title: str
    do: str
    check: str
    say: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """What an agent reads and executes."""

    title: str
    goal: str
    prerequisites: tuple[str, ...]
    steps: tuple[Step, ...]
    edge_cases: tuple[str, ...] = ()
    escalation: str = ""
    product_area: str = ""
    issue_type: str = ""
    confidence: float = FIRST_CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A playbook that was thought up but not yet checked or kept."""

    playbook: Playbook
    problem: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A playbook as kept, with what is known of its use."""

    skill_id: str  # UUID
    title: str
    version: int
    problem: str
    resolution_md: str
    conditions: tuple[str, ...]
    keywords: tuple[str, ...]
    product_area: str = ""
    issue_type: str = ""
    confidence: float = FIRST_CONFIDENCE
    times_used: int = 0
    times_confirmed: int = 0
    created_at: str = ""  # ISO 8601
    updated_at: str = ""
    embedding: tuple[float, ...] = field(default=(), repr=False)  # of problem, conditions and keywords

    def document(self) -> dict[str, Any]:
        """The skill as its users read it: everything but the vector."""
        names = (name for name in self.__dataclass_fields__ if name != "embedding")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUpdate:
    """What an update changes; None leaves a field as it is.

    With `expected_version` the update holds only for that version: StaleSkill is raised when another came first.
    """

    title: str | None = None
    problem: str | None = None
    resolution_md: str | None = None
    conditions: tuple[str, ...] | None = None
    keywords: tuple[str, ...] | None = None
    product_area: str | None = None
    issue_type: str | None = None
    embedding: tuple[float, ...] | None = field(default=None, repr=False)
    outcome: Outcome | None = None
    expected_version: int | None = None

    def content(self) -> dict[str, Any]:
        """The fields of the skill that change, with their new values."""
        names = (name for name in self.__dataclass_fields__ if name not in ("outcome", "expected_version"))
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def moved(confidence: float, outcome: Outcome) -> float:
    """The confidence after an outcome."""
    return min(1.0, max(0.0, round(confidence + CONFIDENCE_CHANGE[outcome], 4)))


def embedded_text(problem: str, conditions: tuple[str, ...], keywords: tuple[str, ...]) -> str:
    """What a skill's vector is made of: its problem, conditions and keywords, not its resolution."""
    return "\n".join((problem, *conditions, ", ".join(keywords))).strip()


def now() -> str:
    """The time as kept with a skill."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
