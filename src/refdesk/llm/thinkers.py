"""Judges, extracts and refines playbooks, with a language model or with built-in rules.

The model is the configured one; with `auto`, the first with a key, else the client's own, else none.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib import resources
from importlib.util import find_spec
from typing import Any

from refdesk.errors import InvalidInput, SettingsError
from refdesk.llm import models
from refdesk.ports import Embedder, Llm, Sampler
from refdesk.settings import Settings
from refdesk.skills import redact
from refdesk.skills.conversation import Transcript
from refdesk.skills.extract import extract
from refdesk.skills.format import MAX_TITLE
from refdesk.skills.judge import EvidenceJudge, Thinker, Verdict
from refdesk.skills.model import LABELS, Draft, Playbook, Skill, Step
from refdesk.skills.refine import refine
from refdesk.skills.vocabulary import language_of
from refdesk.skills.wording import shortened

# Each vendor's class and where its SDK is, in the order in which auto looks.
_VENDORS: Mapping[str, tuple[type[models.RemoteModel], str]] = {
    "gemini": (models.Gemini, "google.genai"),
    "openai": (models.OpenAi, "openai"),
    "anthropic": (models.Anthropic, "anthropic"),
}


class Models:
    """The configured models, each created once."""

    def __init__(self, settings: Settings, embedder: Callable[[], Embedder | None] = lambda: None) -> None:
        self._settings = settings
        self._embedder = embedder
        self._local: LocalThinker | None = None
        self._lock = threading.Lock()
        self._made: dict[str, models.RemoteModel] = {}

    def choose(self, sampler: Sampler | None = None) -> Llm | None:
        """The model for a call; None for `local`. `sampler` is the client's own model, if it offers one."""
        wanted: str = self._settings.llm
        if wanted == "auto":
            wanted = next(filter(self._is_ready, _VENDORS), "sampling" if sampler is not None else "local")
        if wanted == "local":
            return None
        if wanted == "sampling":
            if sampler is None:
                raise SettingsError(
                    "The client offers no sampling.", "Set REFDESK_LLM to local, or to a vendor whose key is set."
                )
            return models.Sampling(sampler)
        if not self._has_key(wanted):
            raise SettingsError(
                f"REFDESK_LLM is {wanted}, but {wanted.upper()}_API_KEY is not set.",
                "Set it, or set REFDESK_LLM to local.",
            )
        with self._lock:
            if wanted not in self._made:
                self._made[wanted] = _VENDORS[wanted][0](self._settings)
            return self._made[wanted]

    def thinker(self, sampler: Sampler | None = None) -> Thinker:
        """The judge, extractor and refiner for a call: its model, or the built-in rules."""
        if (model := self.choose(sampler)) is not None:
            return PromptedThinker(model)
        if self._local is None:
            self._local = LocalThinker(self._embedder())
        return self._local

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, {}
        for model in made.values():
            model.close()

    def _has_key(self, vendor: str) -> bool:
        # A local OpenAI-compatible endpoint needs no key, so its address is enough.
        address = self._settings.openai_base_url if vendor == "openai" else ""
        return bool(getattr(self._settings, f"{vendor}_api_key") or address)

    def _is_ready(self, vendor: str) -> bool:
        # A key that is set for other programs must not break a RefDesk without that vendor's SDK.
        try:
            return self._has_key(vendor) and find_spec(_VENDORS[vendor][1]) is not None
        except (ImportError, ValueError):
            return False


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

    def check(self, query: str) -> None:
        """Does nothing: models read many languages."""

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        """The candidate that the model picked, or none; an invented id counts as none."""
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
        more = {"metadata": _json(dict(metadata))} if metadata else {}
        return _draft(self._ask("extract", DRAFT, "large", transcript=str(transcript), **more))

    def repair(self, draft: Draft, problems: Sequence[str], transcript: Transcript) -> Draft:
        parts = {"playbook": _json(_fields(draft)), "problems": "\n".join(problems), "transcript": str(transcript)}
        return _draft(self._ask("repair", DRAFT, "large", **parts))

    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft:
        more = {"feedback": feedback} if feedback.strip() else {}
        parts = {"playbook": _json(_fields(current)), "transcript": str(transcript), **more}
        return _draft(self._ask("refine", DRAFT, "large", **parts))

    def _ask(self, task: str, schema: Mapping[str, Any], size: str, /, **data: str) -> Any:
        prompt = "\n\n".join(quoted(label, text) for label, text in data.items())
        return self._llm.answer(prompt, schema, size=size, system=instructions(task))


@cache
def instructions(task: str) -> str:
    return resources.files("refdesk.llm").joinpath("prompts", f"{task}.v1.md").read_text(encoding="utf-8").strip()


def quoted(label: str, text: str) -> str:
    """The text between marks that contain its digest, so that nothing in it can close them."""
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'<data name="{label}" mark="{mark}">\n{text}\n</data mark="{mark}">'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _fields(draft: Draft) -> dict[str, Any]:
    """The draft as an object of the schema DRAFT."""
    fields = {**asdict(draft.playbook), "problem": draft.problem, "keywords": draft.keywords}
    fields["conditions"] = fields["prerequisites"]
    return {name: fields[name] for name in DRAFT["properties"]}


def _draft(fields: Mapping[str, Any]) -> Draft:
    """The draft in an answer of the schema DRAFT."""
    texts = {name: fields[name] for name in ("title", "goal", "escalation", *LABELS)}
    playbook = Playbook(
        **texts,
        prerequisites=tuple(fields["conditions"]),
        steps=tuple(Step(**each) for each in fields["steps"]),
        edge_cases=tuple(fields["edge_cases"]),
    )
    return Draft(playbook=playbook, problem=fields["problem"], keywords=tuple(fields["keywords"]))


# --- rules -----------------------------------------------------------------------------------------------


_CUT = 1_500  # characters: a longer part of a playbook is a transcript rather than a step


class LocalThinker:
    """Judges, extracts and refines without a language model."""

    name = "local"

    def __init__(self, embedder: Embedder | None) -> None:
        self._judge = EvidenceJudge(embedder)

    def check(self, query: str) -> None:
        """Raises InvalidInput unless the query is in English."""
        _require_english(query)

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        """The candidate that matches both by words and by meaning, or none."""
        return self._judge.judge(redact.strip(query), candidates)

    def extract(self, transcript: Transcript, metadata: Mapping[str, object]) -> Draft:
        _require_english(str(transcript))
        return extract(transcript, metadata)

    def repair(self, draft: Draft, problems: Sequence[str], transcript: Transcript) -> Draft:
        """The draft with its texts shortened; rules can't correct anything else."""
        shorter = draft.playbook.rewritten(_cut)
        title = shortened(shorter.title, 8)[:MAX_TITLE].rstrip()
        return replace(draft, playbook=replace(shorter, title=title), problem=_cut(draft.problem))

    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft:
        """The draft with the additions of the conversation and the feedback."""
        _require_english(f"{transcript}\n{feedback}")
        return refine(current, transcript, feedback)


def _require_english(text: str) -> None:
    if (language := language_of(text)) != "English":
        raise InvalidInput(
            f"The built-in rules read English only, and this looks like {language}.",
            "Send it in English, or set a language model, which reads other languages too (REFDESK_LLM).",
        )


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else text[: _CUT - 1].rstrip() + "…"
