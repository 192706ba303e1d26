"""Who judges, extracts and refines playbooks?  A model that is asked by prompts, or rules that need none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from refdesk.llm.prompts import instructions, quoted
from refdesk.ports import Embedder, Llm
from refdesk.skills import redact
from refdesk.skills.conversation import Transcript, shortened
from refdesk.skills.extract import extract, refine
from refdesk.skills.format import MAX_TITLE
from refdesk.skills.judge import EvidenceJudge, Verdict
from refdesk.skills.model import LABELS, Draft, Playbook, Skill, Step

# --- a model, asked by prompts ---------------------------------------------------------------------------


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


VERDICT = _object(skill_id=_TEXT, reason=_TEXT)
DRAFT = _object(
    title=_TEXT,
    problem=_TEXT,
    conditions=_TEXTS,
    keywords=_TEXTS,
    product_area=_TEXT,
    issue_type=_TEXT,
    goal=_TEXT,
    steps={"type": "array", "items": _object(title=_TEXT, do=_TEXT, check=_TEXT, say=_TEXT)},
    edge_cases=_TEXTS,
    escalation=_TEXT,
)


class PromptedThinker:
    """Judges with the small model, extracts and refines with the large one."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    @property
    def name(self) -> str:
        return self._llm.name

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        """The candidate that the model picked, or none; an id that it made up is none too."""
        seen = [
            {
                "skill_id": skill.skill_id,
                "title": skill.title,
                "problem": skill.problem,
                "conditions": list(skill.conditions),
                "confidence": round(skill.confidence, 2),
            }
            for skill in candidates
        ]
        answer = self._ask("judge", VERDICT, "small", query=query, candidates=_json(seen))
        known = {skill.skill_id for skill in candidates}
        chosen = answer["skill_id"] if answer["skill_id"] in known else None
        return Verdict(chosen, answer["reason"])

    def extract(self, transcript: Transcript, metadata: Mapping[str, object]) -> Draft:
        """The draft that the model made of the transcript."""
        more = {"metadata": _json(dict(metadata))} if metadata else {}
        return _draft(self._ask("extract", DRAFT, "large", transcript=str(transcript), **more))

    def repair(self, draft: Draft, problems: Sequence[str], transcript: Transcript) -> Draft:
        """The draft with the problems mended."""
        parts = {"playbook": _json(_fields(draft)), "problems": "\n".join(problems), "transcript": str(transcript)}
        return _draft(self._ask("repair", DRAFT, "large", **parts))

    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft:
        """The draft as the model would have it after the conversation."""
        more = {"feedback": feedback} if feedback.strip() else {}
        parts = {"playbook": _json(_fields(current)), "transcript": str(transcript), **more}
        return _draft(self._ask("refine", DRAFT, "large", **parts))

    def _ask(self, task: str, schema: Mapping[str, Any], size: str, /, **data: str) -> Any:
        prompt = "\n\n".join(quoted(label, text) for label, text in data.items())
        return self._llm.answer(prompt, schema, size=size, system=instructions(task).text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _fields(draft: Draft) -> dict[str, Any]:
    """The draft as DRAFT describes it."""
    fields = {**asdict(draft.playbook), "problem": draft.problem, "keywords": draft.keywords}
    fields["conditions"] = fields["prerequisites"]
    return {name: fields[name] for name in DRAFT["properties"]}


def _draft(fields: Mapping[str, Any]) -> Draft:
    """The draft that an answer describes."""
    texts = {name: fields[name] for name in ("title", "goal", "escalation", *LABELS)}
    playbook = Playbook(
        **texts,
        prerequisites=tuple(fields["conditions"]),
        steps=tuple(Step(**each) for each in fields["steps"]),
        edge_cases=tuple(fields["edge_cases"]),
    )
    return Draft(playbook=playbook, problem=fields["problem"], keywords=tuple(fields["keywords"]))


# --- rules -----------------------------------------------------------------------------------------------


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
        shorter = draft.playbook.rewritten(_cut)
        title = shortened(shorter.title, 8)[:MAX_TITLE].rstrip()
        return replace(draft, playbook=replace(shorter, title=title), problem=_cut(draft.problem))

    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft:
        """The draft with what the conversation and the feedback add."""
        return refine(current, transcript, feedback)


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else text[: _CUT - 1].rstrip() + "…"
