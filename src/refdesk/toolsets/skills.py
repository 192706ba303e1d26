"""The skills contract: playbooks that are found, learnt and refined."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from refdesk.errors import RecordAway, StoreAway
from refdesk.toolsets.content import STRING, STRINGS, ArgumentProblem, Json, TextErrors, ToolAnswer, icon, object_schema
from refdesk.toolsets.contract import CallContext, Tool, ToolHints, Toolset

if TYPE_CHECKING:  # slow to import, and the list of tools needs none of it
    from refdesk.ports import Sampler
    from refdesk.skills.judge import Thinker
    from refdesk.skills.learn import Found, Learner, Report

    ThinkerFor = Callable[[Sampler | None], Thinker]

_log = logging.getLogger(__name__)

_SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}
_SKILL: Json = {
    **dict.fromkeys(("skill_id", "title", "resolution_md"), STRING),
    "confidence": _SHARE,
    "conditions": STRINGS,
}
_FOUND: Json = {
    "skill": {**object_schema(_SKILL, *_SKILL), "type": ["object", "null"]},
    "query": STRING,
    "search_time_ms": {"type": "number", "minimum": 0},
}
_CREATED: Json = {"skill_id": STRING, "title": STRING, "skill": {"type": "object"}, "created": {"type": "boolean"}}
_UPDATED: Json = {
    "skill_id": STRING,
    "title": STRING,
    "changes": STRINGS,
    "version": {"type": "integer", "minimum": 1},
}
_SEARCH = object_schema({"query": STRING}, "query", additionalProperties=False)
_CREATE = object_schema(
    {
        "conversation": STRING,
        "resolution_confirmed": {"type": "boolean", "default": False},
        "metadata": {"type": "object", "default": {}},
    },
    "conversation",
    additionalProperties=False,
)
_UPDATE = object_schema(
    {"skill_id": STRING, "conversation": STRING, "feedback": {**STRING, "default": ""}},
    "skill_id",
    "conversation",
    additionalProperties=False,
)
_TOLD = {  # name: title, icon, description, input, answer
    "search_skills": (
        "Find a playbook",
        "search",
        "Find the proven playbook for a support problem, or nothing.",
        _SEARCH,
        _FOUND,
    ),
    "create_skill": (
        "Learn a playbook",
        "learn",
        "Learn a playbook from the transcript of a solved problem.",
        _CREATE,
        _CREATED,
    ),
    "update_skill": (
        "Refine a playbook",
        "add",
        "Merge a conversation's changes into the playbook it used.",
        _UPDATE,
        _UPDATED,
    ),
}


def skills_toolset(learner: Callable[[], Learner], thinker_for: ThinkerFor) -> Toolset:
    """search_skills, create_skill and update_skill over one learning loop."""
    skills = _Skills(learner, thinker_for)
    handlers = (skills.search, skills.create, skills.update)
    tools = [
        Tool(
            name=name,
            title=title,
            description=description,
            input_schema=schema,
            output_schema=object_schema(answer, *answer),
            handler=_in_the_contracts_words(handler),
            hints=ToolHints(read_only=False),
            error_style=TextErrors(words=_words),
            icons=icon(picture),
            task_support="optional" if name == "create_skill" else "forbidden",
        )
        for (name, (title, picture, description, schema, answer)), handler in zip(_TOLD.items(), handlers, strict=True)
    ]
    return Toolset(name="skills", tools=tuple(tools))


def _in_the_contracts_words(handler: Callable[[Json, CallContext], ToolAnswer]) -> Callable[..., ToolAnswer]:
    """The handler, which says what the contract says where the library's server does not answer."""

    def handle(arguments: Json, ctx: CallContext) -> ToolAnswer:
        try:
            return handler(arguments, ctx)
        except RecordAway as error:
            _log.warning("%s", error)
            raise StoreAway from error

    return handle


class _Skills:
    def __init__(self, learner: Callable[[], Learner], thinker_for: ThinkerFor) -> None:
        self._learner = learner  # the library is opened by the first call
        self._thinker_for = thinker_for

    def search(self, arguments: Json, ctx: CallContext) -> ToolAnswer:
        thinker = self._thinker_for(ctx.sampler)
        found = self._learner().search(arguments["query"], thinker, _reporter(ctx, 1))
        match: Json | None = None
        if found.skill is not None:
            document = found.skill.document()
            match = {name: document[name] for name in _SKILL}
        value = {"skill": match, "query": arguments["query"], "search_time_ms": found.took_ms}
        meta = {
            "refdesk/judge": thinker.name if found.judged else "none",
            "refdesk/reason": found.verdict.reason,
            "refdesk/candidates": found.candidates,
        }
        return ToolAnswer.of_json(value, notices=_why(thinker, found), closed=True, meta=meta)

    def create(self, arguments: Json, ctx: CallContext) -> ToolAnswer:
        thinker = self._thinker_for(ctx.sampler)
        created = self._learner().create(
            arguments["conversation"],
            thinker,
            confirmed=arguments["resolution_confirmed"],
            metadata=arguments["metadata"],
            report=_reporter(ctx, 2),
        )
        skill = created.skill
        value: Json = {"skill_id": skill.skill_id, "title": skill.title, "skill": skill.document()}
        value["created"] = created.created
        return ToolAnswer.of_json(value, meta={"refdesk/extractor": thinker.name, "refdesk/repaired": created.repaired})

    def update(self, arguments: Json, ctx: CallContext) -> ToolAnswer:
        thinker = self._thinker_for(ctx.sampler)
        updated = self._learner().update(
            arguments["skill_id"],
            arguments["conversation"],
            thinker,
            feedback=arguments["feedback"],
            report=_reporter(ctx, 2),
        )
        skill = updated.skill
        value: Json = {"skill_id": skill.skill_id, "title": skill.title, "version": skill.version}
        value["changes"] = list(updated.changes)
        return ToolAnswer.of_json(value, meta={"refdesk/refiner": thinker.name})


def _why(thinker: Thinker, found: Found) -> list[str]:
    """Notices on a choice: why there was none, or that rules made it."""
    if found.skill is None:
        return [f"no playbook fits: {found.verdict.reason}"]
    return ["chosen by rules, no language model is set: check its conditions"] if thinker.name == "local" else []


def _reporter(ctx: CallContext, total: int) -> Report:
    """A function that reports each stage to the client, and raises if the call was cancelled."""
    done = 0

    def report(stage: str) -> None:
        nonlocal done
        ctx.raise_if_cancelled()
        done = min(done + 1, total)
        ctx.progress(done, total, stage)

    return report


def _words(problem: ArgumentProblem) -> str | None:
    return f"{problem.argument} is required" if problem.kind == "missing" else None
