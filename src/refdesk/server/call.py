"""The context of one call: progress, log messages and questions to the client that made it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlparse
from urllib.request import url2pathname

from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities

from refdesk.errors import Cancelled, ClientCannot
from refdesk.server.messages import RELATED_TASK, clean
from refdesk.server.sdk import Context, Outbound, channel_of, is_modern
from refdesk.toolsets.content import Json
from refdesk.toolsets.contract import LogLevel, Question

if TYPE_CHECKING:
    from refdesk.ports import Sampler

T = TypeVar("T")

LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PROGRESS_EVERY_S = 0.04  # 25 a second: more than anybody sees
ROOTS, LOG_LEVEL = "refdesk/roots", "refdesk/log_level"  # in a connection's state

Notify = Callable[[str, Json], Awaitable[None]]
Ask = Callable[[Mapping[str, Question]], Awaitable[dict[str, Json]]]


class InputNeeded(BaseException):
    """Raised when a 2026-07-28 client must answer questions before the call can continue.

    Not an `Exception`, so that an `except Exception` in a handler can't swallow it.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__("input needed")
        self.questions = dict(questions)


class ServerCall:
    """The `CallContext` of one call; its methods are for the worker thread, `cancel` for anyone."""

    def __init__(
        self,
        *,
        correlation_id: str,
        version: str,
        notify: Notify,
        ask: Ask,
        answerable: frozenset[str] = frozenset(),
        state: dict[str, Any] | None = None,
        progress_token: str | int | None = None,
        log_level: LogLevel | None = None,
        task_id: str | None = None,
        meta: Mapping[str, Any] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._stop = threading.Event()
        self.correlation_id = correlation_id
        self.meta: Mapping[str, Any] = meta or {}
        self.version = version
        self.log = logging.LoggerAdapter(logging.getLogger("refdesk.call"), {"correlation_id": correlation_id})
        self.loop = loop or asyncio.get_running_loop()
        self._notify = notify
        self._ask = ask
        self._answerable = answerable
        self._state = {} if state is None else state
        self._token = progress_token
        self._log_level = log_level
        self._task_id = task_id
        self._last: tuple[float, float] | None = None
        self._samples = 0

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        self._stop.set()

    def raise_if_cancelled(self) -> None:
        if self._stop.is_set():
            raise Cancelled("The call was cancelled.")

    # ── reporting ──

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self.raise_if_cancelled()
        now = time.monotonic()
        if self._token is None or (self._last is not None and done <= self._last[0]):
            return  # MCP requires progress to increase
        if self._last is not None and now - self._last[1] < PROGRESS_EVERY_S and done != total:
            return
        self._last = (done, now)
        params: Json = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._send("notifications/progress", params)

    def tell(self, level: LogLevel, data: Any) -> None:
        self.log.debug("told the client (%s): %s", level, data)
        if self._log_level is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(self._log_level):
            self._send("notifications/message", {"level": level, "logger": "refdesk", "data": data})

    def _send(self, method: str, params: Json) -> None:
        if self._task_id is not None:
            params["_meta"] = {RELATED_TASK: {"taskId": self._task_id}}

        async def send() -> None:
            await self._notify(method, clean(params))

        self._on_loop(send())

    # ── asking ──

    def client_can(self, method: str) -> bool:
        return method in self._answerable

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Json]:
        missing = sorted({each.method for each in questions.values()} - self._answerable)
        if missing:
            raise ClientCannot(f"The client does not offer {', '.join(missing)}.")

        async def ask() -> dict[str, Json]:
            return await self._ask(questions)

        return self._on_loop(ask())

    def client_roots(self) -> tuple[Path, ...]:
        known: tuple[Path, ...] | None = self._state.get(ROOTS)
        if known is None:
            known = ()
            if self.client_can("roots/list"):
                try:
                    known = roots_in(self.ask({"roots": Question("roots/list")})["roots"])
                except ClientCannot as error:
                    self.log.warning("the client did not list its roots: %s", error)
            # Cached with the connection until the client says that they changed.
            self._state[ROOTS] = known
        return known

    @property
    def sampler(self) -> Sampler | None:
        return self._sample if self.client_can("sampling/createMessage") else None

    def _sample(self, prompt: str, *, system: str | None = None, max_tokens: int = 1024) -> str:
        params: Json = {
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
            "maxTokens": max_tokens,
        }
        if system is not None:
            params["systemPrompt"] = system
        self._samples += 1
        key = f"sample-{self._samples}"
        answer = self.ask({key: Question("sampling/createMessage", params)})[key]
        content = answer.get("content")
        blocks = content if isinstance(content, list) else [content]
        return "".join(each.get("text", "") for each in blocks if isinstance(each, dict))

    # ── from the worker thread to the event loop ──

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine on the event loop and waits for its result; cancelling the call ends the wait."""
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:
            coroutine.close()
            raise Cancelled("The server is stopping.") from None
        while True:
            try:
                return future.result(timeout=0.1)
            except TimeoutError:
                if future.done():
                    raise
                if self._stop.is_set():
                    future.cancel()
                    raise Cancelled("The call was cancelled.") from None


def roots_in(answer: Json) -> tuple[Path, ...]:
    """The local folders in a `roots/list` result."""
    uris = [str(each.get("uri", "")) for each in answer.get("roots", []) if isinstance(each, dict)]
    return tuple(Path(url2pathname(urlparse(uri).path)) for uri in uris if uri.startswith("file:"))


# Questions to the client. Through 2025-11-25 they are requests on the call's own stream. On 2026-07-28 the call is
# answered with `input_required`, the client calls again with its answers, and the handler runs from the start.

_SHAPES = {"elicitation/create": "action", "sampling/createMessage": "content", "roots/list": "roots"}


def answerable_by(offered: ClientCapabilities | None) -> frozenset[str]:
    """The methods that a client with these capabilities answers."""
    if offered is None:
        return frozenset()
    names = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
    return frozenset(method for method, name in names.items() if getattr(offered, name) is not None)


def ask_function(ctx: Context, timeout_s: float, roots_timeout_s: float) -> Ask:
    """The function that asks the client of this request."""
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
            if not _fits(question, answer):
                raise ClientCannot(f"The client's answer to {question.method} is not valid.")
            answers[key] = answer
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
    """All answers of the client so far: those of earlier rounds (in the sealed state) and of this one."""
    params = params or {}
    state, responses = params.get("requestState"), params.get("inputResponses")
    answers: dict[str, Json] = json.loads(state) if isinstance(state, str) else {}
    given = responses if isinstance(responses, dict) else {}
    return answers | {key: value for key, value in given.items() if isinstance(value, dict)}


def input_required(needed: InputNeeded, ctx: Context) -> Json:
    """The result that asks a 2026-07-28 client for more input and carries its earlier answers."""
    return {
        "resultType": "input_required",
        "inputRequests": {
            key: {"method": question.method, "params": question.params} for key, question in needed.questions.items()
        },
        "requestState": json.dumps(answers_in(ctx.params)),
    }


async def fetch_roots(ctx: Context, connection: Connection, timeout_s: float) -> None:
    """Caches the client's roots for a task, which can't ask for them after its request has ended."""
    if ROOTS in connection.state or is_modern(ctx.protocol_version):
        return
    connection.state[ROOTS] = ()
    if "roots/list" in answerable_by(ctx.session.client_capabilities):
        try:
            answer = await channel_of(ctx).send_raw_request("roots/list", None, {"timeout": timeout_s})
        except MCPError:
            return
        connection.state[ROOTS] = roots_in(answer)


def _fits(question: Question, answer: object) -> bool:
    return isinstance(answer, dict) and _SHAPES.get(question.method, "") in answer
