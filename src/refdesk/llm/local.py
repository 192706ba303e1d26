"""The thinker that needs no model: evidence judges, rules extract and refine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.ports import Embedder
from refdesk.skills import redact
from refdesk.skills.extract import extract
from refdesk.skills.judge import EvidenceJudge, Verdict
from refdesk.skills.model import Draft, Skill, Step
from refdesk.skills.phrases import shortened
from refdesk.skills.refine import refine
from refdesk.skills.transcript import Transcript
from refdesk.skills.validate import MAX_TITLE

_CUT = 1_500


class LocalThinker:
    """Judges, extracts and refines without a language model."""

    name = "local"

    def __init__(self, embedder: Embedder | None) -> None:
        self._judge = EvidenceJudge(embedder)

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        """The candidate that both its words and its meaning speak for, or none."""
        return self._judge.judge(redact.strip(query), candidates)

    def extract(self, transcript: Transcript, metadata: Mapping[str, object]) -> Draft:
        """A draft made from what was said, by rules."""
        return extract(transcript, metadata)

    def repair(self, draft: Draft, problems: Sequence[str], transcript: Transcript) -> Draft:
        """The draft with its texts cut to what may be kept; rules have no second idea about anything else."""
        book = draft.playbook
        steps = (Step(_cut(step.title), _cut(step.do), _cut(step.check), _cut(step.say)) for step in book.steps)
        shorter = replace(
            book,
            title=shortened(book.title, 8)[:MAX_TITLE].rstrip(),
            goal=_cut(book.goal),
            prerequisites=tuple(map(_cut, book.prerequisites)),
            steps=tuple(steps),
            edge_cases=tuple(map(_cut, book.edge_cases)),
            escalation=_cut(book.escalation),
        )
        return replace(draft, playbook=shorter, problem=_cut(draft.problem))

    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft:
        """The draft with what the conversation and the feedback add."""
        return refine(current, transcript, feedback)


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else text[: _CUT - 1].rstrip() + "…"
