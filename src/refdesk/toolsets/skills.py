"""The skills contract: playbooks that are found, learnt and refined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refdesk.skills.judge import Thinker
from refdesk.skills.learn import Found, Learner, Report
from refdesk.toolsets.content import ArgumentProblem, Json, TextErrors, ToolAnswer, icon
from refdesk.toolsets.contract import CallContext, Handler, Sampler, Tool, ToolHints, Toolset

ThinkerFor = Callable[[Sampler | None], Thinker]

_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}


def _object(properties: Json, **more: object) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


_SEARCH_OUTPUT = _object(
    {
        "skill": {
            **_object(
                {
                    "skill_id": _TEXT,
                    "title": _TEXT,
                    "confidence": _SHARE,
                    "resolution_md": _TEXT,
                    "conditions": _TEXTS,
                }
            ),
            "type": ["object", "null"],
        },
        "query": _TEXT,
        "search_time_ms": {"type": "number", "minimum": 0},
    }
)
_CREATE_OUTPUT = _object(
    {"skill_id": _TEXT, "title": _TEXT, "skill": {"type": "object"}, "created": {"type": "boolean"}}
)
_UPDATE_OUTPUT = _object(
    {"skill_id": _TEXT, "title": _TEXT, "changes": _TEXTS, "version": {"type": "integer", "minimum": 1}}
)


def _input(properties: Json, *required: str) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_SEARCH_INPUT = _input({"query": _TEXT}, "query")
_CREATE_INPUT = _input(
    {
        "conversation": _TEXT,
        "resolution_confirmed": {"type": "boolean", "default": False},
        "metadata": {"type": "object", "default": {}},
    },
    "conversation",
)
_UPDATE_INPUT = _input(
    {
        "skill_id": _TEXT,
        "conversation": _TEXT,
        "feedback": {**_TEXT, "default": ""},
    },
    "skill_id",
    "conversation",
)


def skills_toolset(learner: Callable[[], Learner], thinker_for: ThinkerFor) -> Toolset:
    """search_skills, create_skill and update_skill over one learning loop."""
    tools = _Skills(learner, thinker_for)

    def tool(name: str, title: str, description: str, handler: Handler, picture: str, **more: Any) -> Tool:
        return Tool(
            name=name,
            title=title,
            description=description,
            handler=handler,
            hints=ToolHints(read_only=False),
            error_style=TextErrors(words=_words),
            icons=icon(picture),
            **more,
        )

    search = tool(
        "search_skills",
        "Find a playbook",
        "Find the proven playbook for a support problem, or nothing.",
        tools.search,
        "search",
        input_schema=_SEARCH_INPUT,
        output_schema=_SEARCH_OUTPUT,
    )
    create = tool(
        "create_skill",
        "Learn a playbook",
        "Learn a playbook from the transcript of a solved problem.",
        tools.create,
        "learn",
        input_schema=_CREATE_INPUT,
        output_schema=_CREATE_OUTPUT,
        task_support="optional",
    )
    update = tool(
        "update_skill",
        "Refine a playbook",
        "Merge a conversation's changes into the playbook it used.",
        tools.update,
        "add",
        input_schema=_UPDATE_INPUT,
        output_schema=_UPDATE_OUTPUT,
    )
    return Toolset(name="skills", tools=(search, create, update))


class _Skills:
    def __init__(self, learner: Callable[[], Learner], thinker_for: ThinkerFor) -> None:
        self._learner = learner  # the library is opened by the first call
        self._thinker_for = thinker_for

    def search(self, arguments: Json, ctx: CallContext) -> ToolAnswer:
        thinker = self._thinker_for(ctx.sampler)
        found = self._learner().search(arguments["query"], thinker, _reporter(ctx, 1))
        match: Json | None = None
        if found.skill is not None:
            names = ("skill_id", "title", "confidence", "resolution_md", "conditions")
            document = found.skill.document()
            match = {name: document[name] for name in names}
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
        value = {
            "skill_id": skill.skill_id,
            "title": skill.title,
            "skill": skill.document(),
            "created": created.created,
        }
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
        value = {
            "skill_id": skill.skill_id,
            "title": skill.title,
            "changes": list(updated.changes),
            "version": skill.version,
        }
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
