"""Skills, drafts, updates, outcomes, and the port of the store that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from refdesk.model import Chunk, Document, EmbedderIdentity
from refdesk.text import tokens

Outcome = Literal["confirmed", "likely", "used", "likely_failure", "failure"]

# What an outcome adds to a skill's confidence; the sum stays within 0..1.
CONFIDENCE_CHANGE: Mapping[Outcome, float] = {
    "confirmed": 0.10,
    "likely": 0.03,
    "used": 0.0,  # that it was found says nothing of how it did
    "likely_failure": -0.05,
    "failure": -0.10,
}
FIRST_CONFIDENCE = 0.5
DISTRUSTED = 0.3  # a judge treats a skill below this sceptically
TOP_K = 5  # candidates that a judge sees
DUPLICATE = 0.95  # similarity above which two playbooks are one


LABELS = ("product_area", "issue_type")


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

    def rewritten(self, text: Callable[[str], str]) -> Playbook:
        """The playbook with each of its texts replaced by what the function returns for it."""
        changed: dict[str, Any] = {name: text(getattr(self, name)) for name in ("title", "goal", "escalation", *LABELS)}
        changed |= {name: tuple(map(text, getattr(self, name))) for name in ("prerequisites", "edge_cases")}
        return replace(self, **changed, steps=tuple(Step(*map(text, astuple(step))) for step in self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A playbook that is neither checked nor kept yet."""

    playbook: Playbook
    problem: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A playbook as kept, with how it was used."""

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
    embedding: tuple[float, ...] = field(default=(), repr=False, compare=False)  # see embedded_text

    def document(self) -> dict[str, Any]:
        """The skill as its users read it: everything but the vector."""
        names = (name for name in self.__dataclass_fields__ if name != "embedding")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def counted(self) -> dict[Outcome, int]:
        """The outcomes that are counted on the skill itself."""
        counts: dict[Outcome, int] = {"used": self.times_used, "confirmed": self.times_confirmed}
        return {outcome: times for outcome, times in counts.items() if times}


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


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a skill, when it was made, and how often it had which outcome."""

    skill: Skill
    made_at: str
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)


class PlaybookStore(Protocol):
    """Where playbooks are kept; it never computes a vector.  The first five functions are the skills contract's."""

    def hybrid_search(self, query_embedding: list[float], query_text: str, top_k: int = TOP_K) -> list[dict[str, Any]]:
        """`{"skill": Skill, "score": float}`, best first, by words and by vector."""

    def create_skill(self, skill: Skill) -> Skill: ...
    def get_skill(self, skill_id: str) -> Skill | None: ...
    def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        """The skill at its next version; SkillNotFound (a ValueError), StaleSkill where a version was expected."""

    def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        """The skill most similar to the vector, if it is more similar than the threshold."""

    def create_unless_known(self, skill: Skill, threshold: float = DUPLICATE) -> Skill:
        """The new skill, or the one that it would duplicate, also if another process is just creating that."""

    def record_outcome(self, skill_id: str, outcome: Outcome) -> Skill:
        """The skill with its confidence and counts moved; no new version."""

    def list_skills(self, limit: int = 100, offset: int = 0) -> list[Skill]: ...
    def history(self, skill_id: str) -> list[Revision]:
        """Every version, the first one first; SkillNotFound."""

    def restore(self, skill: Skill, revisions: Sequence[Revision]) -> None:
        """Stores the skill as it is, with these versions in place of those that are there."""

    def embedded_by(self) -> EmbedderIdentity | None:
        """Which embedder made the vectors; None when none is known, or some skills have no vector."""

    def replace_embeddings(self, embedder: EmbedderIdentity, vectors: Mapping[str, Sequence[float]]) -> None:
        """Gives skills new vectors and names the embedder that made them; no new versions."""

    def close(self) -> None: ...


class ContractFunctions:
    """The storage functions of the skills contract, for callers that have an event loop."""

    def __init__(self, store: PlaybookStore) -> None:
        self._store = store

    async def hybrid_search(
        self, query_embedding: list[float], query_text: str, top_k: int = TOP_K
    ) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._store.hybrid_search, query_embedding, query_text, top_k)

    async def create_skill(self, skill: Skill) -> Skill:
        return await asyncio.to_thread(self._store.create_skill, skill)

    async def get_skill(self, skill_id: str) -> Skill | None:
        return await asyncio.to_thread(self._store.get_skill, skill_id)

    async def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        return await asyncio.to_thread(self._store.update_skill, skill_id, updates)

    async def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        return await asyncio.to_thread(self._store.check_duplicate, embedding, threshold)


def after(skill: Skill, outcome: Outcome) -> Skill:
    """The skill with its confidence and counts moved by an outcome."""
    return replace(
        skill,
        confidence=moved(skill.confidence, outcome),
        times_used=skill.times_used + (outcome == "used"),
        times_confirmed=skill.times_confirmed + (outcome == "confirmed"),
    )


def moved(confidence: float, outcome: Outcome) -> float:
    """The confidence after an outcome."""
    return min(1.0, max(0.0, round(confidence + CONFIDENCE_CHANGE[outcome], 4)))


def reliability(revisions: Iterable[Revision]) -> float:
    """The mean of the Beta distribution of a playbook's success, given its outcomes.

    A new one has a half and so ranks between those that worked and those that failed; a Wilson bound would put it below
    one that fails every second time.
    """
    worked, failed = 1.0, 1.0
    for outcome, times in (each for revision in revisions for each in revision.outcomes.items()):
        weight = CONFIDENCE_CHANGE[outcome] / CONFIDENCE_CHANGE["confirmed"] * times
        worked, failed = worked + max(0.0, weight), failed + max(0.0, -weight)
    return worked / (worked + failed)


def embedded_text(problem: str, conditions: tuple[str, ...], keywords: tuple[str, ...]) -> str:
    """The text that a skill's vector is computed from."""
    return "\n".join((problem, *conditions, ", ".join(keywords))).strip()


def full_text(skill: Skill) -> str:
    """The text that words are searched in."""
    return "\n\n".join((skill.title, skill.problem, skill.resolution_md, " ".join(skill.keywords)))


def passage(skill: Skill, collection: str, text: str) -> tuple[Document, Chunk]:
    """The skill as a document of one passage, which is how everything else is kept and shown."""
    when = int(datetime.fromisoformat(skill.updated_at).timestamp() * 1000)
    document = Document(
        id=skill.skill_id,
        collection=collection,
        uri=f"playbook:{skill.skill_id}",
        path=skill.skill_id,
        title=skill.title,
        content_type="markdown",
        content_hash="",
        size=len(skill.resolution_md),
        modified_ns=0,
        created_at=when,
        updated_at=when,
    )
    chunk = Chunk(
        text=text,
        kind="playbook",
        type="prose",
        language="markdown",
        start_line=0,
        end_line=0,
        tokens=tokens.pieces(text),
        key="",
        title=skill.title,
    )
    return document, chunk


def now() -> str:
    """The current time in the format of a skill's dates."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
