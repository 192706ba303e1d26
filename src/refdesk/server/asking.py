"""How does a question reach the client?

Through 2025-11-25 it is a request of ours on the call's own stream. On 2026-07-28 the call is answered with
`input_required`, the client calls again with its answers, and the handler runs from the top.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError

from refdesk.server.call import ROOTS, Ask, InputNeeded, roots_in
from refdesk.server.sdk import Context, Outbound, channel_of, is_modern
from refdesk.toolsets.contract import ClientCannot, Json, Question

_SHAPES = {"elicitation/create": "action", "sampling/createMessage": "content", "roots/list": "roots"}


def answerable_by(ctx: Context) -> frozenset[str]:
    """The methods that the client said it answers."""
    offered = ctx.session.client_capabilities
    if offered is None:
        return frozenset()
    names = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
    return frozenset(method for method, name in names.items() if getattr(offered, name) is not None)


def asking(ctx: Context, timeout_s: float, roots_timeout_s: float) -> Ask:
    """The way to ask the client behind this request."""
    if is_modern(ctx.protocol_version):
        return _ask_by_return(ctx)
    return ask_over(channel_of(ctx), timeout_s, roots_timeout_s)


def ask_over(channel: Outbound, timeout_s: float, roots_timeout_s: float) -> Ask:
    async def ask(questions: Mapping[str, Question]) -> dict[str, Json]:
        answers: dict[str, Json] = {}
        for key, question in questions.items():
            timeout = roots_timeout_s if question.method == "roots/list" else timeout_s
            try:
                answer = await channel.send_raw_request(question.method, question.params, {"timeout": timeout})
            except MCPError as error:
                raise ClientCannot(f"The client did not answer {question.method}: {error.message}") from error
            answers[key] = _shaped(question, answer)
        return answers

    return ask


def _ask_by_return(ctx: Context) -> Ask:
    answers = answers_in(ctx.params)

    async def ask(questions: Mapping[str, Question]) -> dict[str, Json]:
        missing = {key: question for key, question in questions.items() if not _fits(question, answers.get(key))}
        if missing:
            raise InputNeeded(missing)
        return {key: answers[key] for key in questions}

    return ask


def answers_in(params: Mapping[str, object] | None) -> dict[str, Json]:
    """What the client has answered so far: in earlier rounds (the state we sealed) and in this one."""
    params = params or {}
    state, responses = params.get("requestState"), params.get("inputResponses")
    answers: dict[str, Json] = json.loads(state) if isinstance(state, str) else {}
    given = responses if isinstance(responses, dict) else {}
    return answers | {key: value for key, value in given.items() if isinstance(value, dict)}


def input_required(needed: InputNeeded, ctx: Context) -> Json:
    """The result that asks a 2026-07-28 client for more, carrying what it has already said."""
    return {
        "resultType": "input_required",
        "inputRequests": {
            key: {"method": question.method, "params": question.params} for key, question in needed.questions.items()
        },
        "requestState": json.dumps(answers_in(ctx.params)),
    }


async def fetch_roots(ctx: Context, connection: Connection, timeout_s: float) -> None:
    """Notes the client's roots for calls that can't ask later: a task outlives the request that could."""
    if ROOTS in connection.state or is_modern(ctx.protocol_version):
        return
    connection.state[ROOTS] = ()
    if "roots/list" in answerable_by(ctx):
        try:
            answer = await channel_of(ctx).send_raw_request("roots/list", None, {"timeout": timeout_s})
        except MCPError:
            return
        connection.state[ROOTS] = roots_in(answer)


def _fits(question: Question, answer: object) -> bool:
    return isinstance(answer, dict) and _SHAPES.get(question.method, "") in answer


def _shaped(question: Question, answer: Json) -> Json:
    if not _fits(question, answer):
        raise ClientCannot(f"The client's answer to {question.method} makes no sense.")
    return answer
