"""The thinker that needs no model: evidence judges, rules extract and refine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.ports import Embedder
from refdesk.skills import redact
from refdesk.skills.extract import extract
from refdesk.skills.format import InvalidPlaybook
from refdesk.skills.judge import EvidenceJudge, Verdict
from refdesk.skills.model import Draft, Skill
from refdesk.skills.phrases import shortened
from refdesk.skills.refine import refine
from refdesk.skills.transcript import Transcript
from refdesk.skills.validate import MAX_TITLE


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
        """The draft within the limits on its title; rules have no second idea about anything else."""
        if len(draft.playbook.title) <= MAX_TITLE:
            raise InvalidPlaybook(problems)
        title = shortened(draft.playbook.title, 8)[:MAX_TITLE].rstrip()
        return replace(draft, playbook=replace(draft.playbook, title=title))

    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft:
        """The draft with what the conversation and the feedback add."""
        return refine(current, transcript, feedback)
