"""Finds, creates and refines playbooks: one function for each of the three tools, read from top to bottom."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from refdesk.errors import (
    InvalidInput,
    InvalidPlaybook,
    LibraryBusy,
    RecordAway,
    SkillNotFound,
    StaleSkill,
    StoreAway,
    StoreError,
    TooLarge,
)
from refdesk.model import Hit, Page, Query, StoredChunk
from refdesk.ports import Embedder
from refdesk.skills import redact
from refdesk.skills.conversation import Transcript, read
from refdesk.skills.extract import outcome_of
from refdesk.skills.format import checked, parse, render
from refdesk.skills.judge import EvidenceJudge, Thinker, Verdict
from refdesk.skills.merge import NOTHING_NEW, changes, merge
from refdesk.skills.model import (
    FIRST_CONFIDENCE,
    TOP_K,
    Draft,
    Outcome,
    PlaybookStore,
    Revision,
    Skill,
    SkillUpdate,
    embedded_text,
    moved,
    passage,
    reliability,
)

Report = Callable[[str], None]
Adopted = Literal["new", "updated", "unchanged"]

_MAX_TEXT = 400_000
_MOST_JOINED, _LIKELY = 2, 0.5  # playbooks among the hits of a search, and their least probability
_AWAY_S = 30.0  # for which other searches do without a database that did not answer: each would wait for it
_TRIES = 100  # each failed try means that another update succeeded


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    skill: Skill | None
    verdict: Verdict
    candidates: int
    judged: bool
    took_ms: float


@dataclass(frozen=True, slots=True)
class Created:
    """A new skill, or the one that was there already."""

    skill: Skill
    created: bool
    repaired: bool


@dataclass(frozen=True, slots=True)
class Updated:
    """A skill at its next version and what that changed."""

    skill: Skill
    changes: tuple[str, ...]


class Learner:
    """The learning loop over one store."""

    def __init__(self, store: PlaybookStore, embedder: Callable[[], Embedder | None]) -> None:
        self._store = store
        self._make_embedder = embedder
        self._aligned = False
        self._asked_again_at = 0.0

    @cached_property
    def _embedder(self) -> Embedder | None:
        return self._make_embedder()

    @cached_property
    def _evidence(self) -> EvidenceJudge:
        return EvidenceJudge(self._embedder)

    # --- the three tools ------------------------------------------------------------------------------

    def search(self, query: str, thinker: Thinker, report: Report = lambda stage: None) -> Found:
        """The one playbook that fits, its use counted, or none."""
        started = time.perf_counter()
        thinker.check(_required("query", query))
        candidates = self._candidates(query)
        report("judging")
        verdict = Verdict(None, "none is about this")
        if candidates:
            verdict = thinker.judge(redact.redact(query, "query"), candidates)
        # An id that the judge made up counts as none.
        chosen = next((skill for skill in candidates if skill.skill_id == verdict.skill_id), None)
        if chosen is not None:
            chosen = self._store.record_outcome(chosen.skill_id, "used")
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        return Found(chosen and current(chosen), verdict, len(candidates), bool(candidates), took_ms)

    def about(self, query: str) -> list[tuple[Skill, float]]:
        """The playbooks that are probably about the query, with their probability; no use is counted."""
        if time.monotonic() < self._asked_again_at:
            raise StoreAway
        candidates = self._candidates(query)
        rated = zip(candidates, self._evidence.chances(redact.strip(query), candidates), strict=True)
        return sorted((one for one in rated if one[1] > _LIKELY), key=lambda one: -one[1])[:_MOST_JOINED]

    def create(
        self,
        conversation: str,
        thinker: Thinker,
        *,
        confirmed: bool = False,
        metadata: Mapping[str, object] | None = None,
        report: Report = lambda stage: None,
    ) -> Created:
        """A new skill made from the conversation, or the existing one that it would duplicate."""
        _required("conversation", conversation)
        self._store.list_skills(1)  # if the database is away, nothing is extracted in vain
        transcript = read(conversation)
        given = transcript.redaction.clean_all(_checked(metadata or {}))
        self.align()
        report("extracting")
        draft = _labelled(thinker.extract(transcript, given), given)
        repaired = False
        try:
            draft = checked(redact.redact_draft(draft, transcript.redaction))
        except InvalidPlaybook as error:
            draft = _labelled(_repaired(draft, error, thinker, transcript, report), given)
            draft = checked(draft)
            repaired = True
        report("keeping")
        return self._keep(_skill(draft, confirmed), confirmed=confirmed, repaired=repaired)

    def update(
        self,
        skill_id: str,
        conversation: str,
        thinker: Thinker,
        *,
        feedback: str = "",
        report: Report = lambda stage: None,
    ) -> Updated:
        """The skill with the conversation merged into it; what others merge at the same time is kept."""
        newest = known = self.get(_required("skill_id", skill_id))
        base = as_draft(known)
        transcript = read(_required("conversation", conversation), feedback, f"{known.problem}\n{known.resolution_md}")
        self.align()
        report("refining")
        proposed = thinker.refine(base, transcript, transcript.redaction.clean(feedback))
        proposed = redact.redact_draft(proposed, transcript.redaction)
        try:
            checked(merge(base, proposed, base))
        except InvalidPlaybook as error:
            proposed = _repaired(proposed, error, thinker, transcript, report)
        outcome: Any = outcome_of(transcript) or None
        report("keeping")
        for _ in range(_TRIES):
            held = as_draft(newest)
            merged = checked(merge(base, proposed, held))
            if _same(merged, held):
                kept = self._store.record_outcome(skill_id, outcome) if outcome else newest
                return Updated(current(kept), (NOTHING_NEW,))
            try:
                kept = self._store.update_skill(skill_id, self._update_of(merged, newest, outcome))
            except StaleSkill:
                newest = self.get(skill_id)
                continue
            return Updated(current(kept), tuple(changes(newest, kept)))
        raise LibraryBusy(f"Skill {skill_id} is being updated by too many others.", "Try again.")

    def join(self, query: Query, search: Callable[[Query], Page]) -> Page:
        """The page of a search with the playbooks that are about the query, each before the hits that score less."""
        try:
            found = [_hit(number, skill, score) for number, (skill, score) in enumerate(self.about(query.text), 1)]
        except StoreError as error:
            page = search(query)
            return replace(page, notes=(*page.notes, f"playbooks were not searched: {error.message}"))
        if not found:
            return search(query)
        # A page of the joined list begins up to so many hits earlier in the list without playbooks.
        offset = max(0, query.offset - len(found))
        page = search(replace(query, offset=offset, limit=query.limit + len(found)))
        hits = list(page.hits)
        for one in found:
            hits.insert(next((at for at, hit in enumerate(hits) if hit.score < one.score), len(hits)), one)
        first = query.offset - offset
        shown = tuple(hits[first : first + query.limit])
        return replace(page, hits=shown, more=page.more or len(hits) > first + query.limit)

    # --- the command line's and the store's own -------------------------------------------------------

    def get(self, skill_id: str) -> Skill:
        """The skill of that id, its header line up to date."""
        skill = self._store.get_skill(skill_id)
        if skill is None:
            raise SkillNotFound(skill_id)
        return current(skill)

    def skills(self, limit: int = 0, offset: int = 0) -> list[Skill]:
        """All skills, the oldest first, or some of them."""
        if limit:
            return self._store.list_skills(limit, offset)
        found: list[Skill] = []
        while page := self._store.list_skills(200, len(found)):
            found += page
        return found

    def history(self, skill_id: str) -> list[Revision]:
        """Every version of the skill, the first one first."""
        return self._store.history(skill_id)

    def rate(self, skill_id: str, outcome: Outcome) -> Skill:
        """The skill after an outcome was recorded."""
        return current(self._store.record_outcome(skill_id, outcome))

    def adopt(self, draft: Draft, *, skill_id: str = "", confidence: float = FIRST_CONFIDENCE) -> tuple[Skill, Adopted]:
        """The skill as imported and what became of it; one of the same id gets a new version if it differs."""
        draft = checked(draft)
        self.align()
        known = self._store.get_skill(skill_id) if skill_id else None
        if known is not None and _same(draft, as_draft(known)):
            return known, "unchanged"
        if known is not None:
            return self._store.update_skill(skill_id, self._update_of(draft, None, None)), "updated"
        fresh = replace(_skill(draft, confirmed=False), confidence=confidence)
        fresh = replace(fresh, skill_id=skill_id or fresh.skill_id, embedding=self._embed_draft(draft))
        return self._store.create_skill(fresh), "new"

    def kept(self, skill_id: str) -> tuple[Skill, list[Revision]] | None:
        """The skill as it is stored, with every version."""
        for _ in range(_TRIES):
            if (skill := self._store.get_skill(skill_id)) is None:
                return None
            revisions = self._store.history(skill_id)
            if revisions[-1].skill.version == skill.version:  # else it was updated in between
                return skill, revisions
        raise LibraryBusy(f"Skill {skill_id} is being updated all the time.", "Try again.")

    def take(self, skill: Skill, revisions: Sequence[Revision]) -> None:
        """Stores a skill of another database with all its versions."""
        self.align()
        text = embedded_text(skill.problem, skill.conditions, skill.keywords)
        self._store.restore(replace(skill, embedding=self._embed([text])[0]), revisions)

    def align(self) -> int:
        """Gives the kept skills vectors of this embedder where they have another's or none; how many it gave."""
        if self._aligned or self._embedder is None:
            return 0
        kept: list[Skill] = []
        if self._store.embedded_by() != self._embedder.identity:
            kept = self.skills()
            rows = self._embed([embedded_text(one.problem, one.conditions, one.keywords) for one in kept])
            vectors = {skill.skill_id: row for skill, row in zip(kept, rows, strict=True)}
            self._store.replace_embeddings(self._embedder.identity, vectors)
        self._aligned = True
        return len(kept)

    # --- parts ------------------------------------------------------------------------------------------

    def _keep(self, skill: Skill, *, confirmed: bool, repaired: bool) -> Created:
        embedding = self._embed([embedded_text(skill.problem, skill.conditions, skill.keywords)])[0]
        known = self._store.check_duplicate(list(embedding))
        kept = known or self._store.create_unless_known(replace(skill, embedding=embedding))
        is_new = kept.skill_id == skill.skill_id
        if confirmed and not is_new:
            kept = self._store.record_outcome(kept.skill_id, "confirmed")
        return Created(current(kept), is_new, repaired)

    def _update_of(self, draft: Draft, newest: Skill | None, outcome: Outcome | None) -> SkillUpdate:
        return SkillUpdate(
            title=draft.playbook.title,
            problem=draft.problem,
            resolution_md=render(draft.playbook),
            conditions=draft.playbook.prerequisites,
            keywords=draft.keywords,
            product_area=draft.playbook.product_area,
            issue_type=draft.playbook.issue_type,
            embedding=self._embed_draft(draft),
            outcome=outcome,
            expected_version=newest.version if newest else None,
        )

    def _embed_draft(self, draft: Draft) -> tuple[float, ...]:
        return self._embed([embedded_text(draft.problem, draft.playbook.prerequisites, draft.keywords)])[0]

    def _embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        if self._embedder is None:
            return [()] * len(texts)
        return [tuple(row.tolist()) for row in self._embedder.embed_passages(texts)]

    def _candidates(self, query: str) -> list[Skill]:
        try:
            is_empty = not self._store.list_skills(1)
            self._asked_again_at = 0.0
            if is_empty:
                return []
            self.align()
            asked = redact.strip(query)
            vector = [] if self._embedder is None else self._embedder.embed_queries([asked])[0].tolist()
            found = self._store.hybrid_search(vector, asked, TOP_K)
            if len(found) > 1:
                found.sort(key=lambda hit: -reliability(self._store.history(hit["skill"].skill_id)))
            return [hit["skill"] for hit in found]
        except StoreAway as error:
            if not isinstance(error, RecordAway):  # without which nothing else is found either
                self._asked_again_at = time.monotonic() + _AWAY_S
            raise


def _same(one: Draft, other: Draft) -> bool:
    """Whether two drafts say the same; their confidence is no part of that."""
    return replace(one, playbook=replace(one.playbook, confidence=other.playbook.confidence)) == other


def as_draft(skill: Skill) -> Draft:
    """The skill as a draft."""
    return Draft(playbook=parse(skill.resolution_md), problem=skill.problem, keywords=skill.keywords)


def current(skill: Skill) -> Skill:
    """The skill with its present confidence in the header line."""
    book = replace(parse(skill.resolution_md), confidence=skill.confidence)
    return replace(skill, resolution_md=render(book, (skill.times_used, skill.times_confirmed)))


def _skill(draft: Draft, confirmed: bool) -> Skill:
    confidence = moved(FIRST_CONFIDENCE, "confirmed") if confirmed else FIRST_CONFIDENCE
    book = replace(draft.playbook, confidence=confidence)
    return Skill(
        skill_id=str(uuid.uuid4()),
        title=book.title,
        version=1,
        problem=draft.problem,
        resolution_md=render(book),
        conditions=book.prerequisites,
        keywords=draft.keywords,
        product_area=book.product_area,
        issue_type=book.issue_type,
        confidence=confidence,
        times_confirmed=int(confirmed),
    )


def _hit(number: int, skill: Skill, score: float) -> Hit:
    document, chunk = passage(skill, "playbooks", skill.resolution_md)
    stored = StoredChunk(id=-number, position=0, document=document, chunk=chunk)
    return Hit(stored=stored, score=round(score, 4), excerpt=lambda: (skill.problem, 0))


def _repaired(draft: Draft, error: InvalidPlaybook, thinker: Thinker, transcript: Transcript, report: Report) -> Draft:
    """The draft as repaired by the thinker, once."""
    report("repairing")
    return redact.redact_draft(thinker.repair(draft, error.problems, transcript), transcript.redaction)


def _labelled(draft: Draft, metadata: Mapping[str, object]) -> Draft:
    """The draft with the product area and issue type that the caller gave, if any."""
    area = str(metadata.get("product_area") or draft.playbook.product_area)
    kind = str(metadata.get("issue_type") or draft.playbook.issue_type)
    return replace(draft, playbook=replace(draft.playbook, product_area=area, issue_type=kind))


def _checked(metadata: Mapping[str, object]) -> Mapping[str, object]:
    for key in ("product_area", "issue_type", "customer_segment"):
        if not isinstance(value := metadata.get(key), str | None):
            raise InvalidInput(f"metadata.{key} must be a string; got {json.dumps(value)[:80]}.")
    return metadata


def _required(name: str, value: str) -> str:
    if not value.strip():
        raise InvalidInput(f"{name} is required")
    if len(value) > _MAX_TEXT:
        raise TooLarge(f"{name} has more than {_MAX_TEXT} characters.", "Leave out what does not matter.")
    return value
