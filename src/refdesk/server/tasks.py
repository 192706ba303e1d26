"""Tasks, as in MCP 2025-11-25: calls that run in the background. Everything but the call runs on the event loop."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from refdesk.errors import Cancelled, RpcError
from refdesk.server.call import Ask, ServerCall, ask_over, fetch_roots
from refdesk.server.dispatcher import Dispatcher
from refdesk.server.messages import RELATED_TASK, answer_json, clean
from refdesk.server.sdk import Context, bad_cursor, channel_of, connection_of, make_cursor, read_cursor, requestor_of
from refdesk.toolsets.content import INTERNAL_ERROR, INVALID_PARAMS, Json, Text
from refdesk.toolsets.contract import Question, Tool

logger = logging.getLogger(__name__)

VERSION = "2025-11-25"
HAS_TASKS = "refdesk/has_tasks"

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
NewCall = Callable[..., ServerCall]


@dataclass(slots=True, eq=False)
class PendingQuestions:
    """A task's questions, which wait for the client to call `tasks/result`, and their answers."""

    questions: Mapping[str, Question]
    answers: asyncio.Future[dict[str, Json]]


@dataclass(slots=True, eq=False)
class Record:
    """One task."""

    task_id: str
    sequence: int
    requestor: str
    connection: Connection
    ttl: int | None
    poll_interval: int
    created_at: str
    updated_at: str
    status: Status = "working"
    message: str | None = None
    outcome: Json | MCPError | None = None
    call: ServerCall | None = None
    expiry: asyncio.TimerHandle | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    pending: list[PendingQuestions] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    def to_json(self) -> Json:
        shown: Json = {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": self.created_at,
            "lastUpdatedAt": self.updated_at,
            "ttl": self.ttl,
            "pollInterval": self.poll_interval,
        }
        if self.message is not None:
            shown["statusMessage"] = self.message
        return shown


class Tasks:
    """The tasks of all clients; each client sees its own."""

    def __init__(self, dispatcher: Dispatcher, new_call: NewCall) -> None:
        self._dispatcher = dispatcher
        self._new_call = new_call
        self._records: dict[str, Record] = {}
        self._created = 0
        self._running: set[asyncio.Task[None]] = set()

    # ── creating ──

    async def augment(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answers a `tools/call` that carries `task` with the task; everything else goes on."""
        params = ctx.params or {}
        connection = connection_of(ctx)
        wanted = ctx.method == "tools/call" and ctx.protocol_version == VERSION and params.get("task") is not None
        if not wanted or not connection.initialize_accepted:
            return await call_next(ctx)
        asked = types.CallToolRequestParams.model_validate(params, by_name=False)
        ttl = self._ttl(params["task"])
        tool = (await self._dispatcher.registry()).tool(asked.name)
        if tool is None:
            return await call_next(ctx)  # the same "unknown tool" as without a task
        if tool.task_support == "forbidden":
            raise MCPError(types.METHOD_NOT_FOUND, f"Tool {tool.name} can't run as a task. Call it without 'task'.")
        await fetch_roots(ctx, connection, self._dispatcher.options.roots_timeout_s)
        record = self._create(connection, ttl)
        record.call = self._new_call(ctx, task_id=record.task_id)
        # The request's own asyncio task ends when its answer has been written: no notification may overtake that.
        answered, request = asyncio.Event(), asyncio.current_task()
        assert request is not None
        request.add_done_callback(lambda _: answered.set())
        work = self._run(record, tool, asked.arguments or {}, record.call, answered)
        running = asyncio.get_running_loop().create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return {"task": record.to_json()}

    def _ttl(self, task: Any) -> int | None:
        wanted = task.get("ttl") if isinstance(task, Mapping) else -1
        if wanted is None:
            return None
        if isinstance(wanted, bool) or not isinstance(wanted, int | float) or wanted < 0:
            raise MCPError(INVALID_PARAMS, "Invalid params for tools/call: task must be an object, ttl milliseconds.")
        return min(int(wanted), self._dispatcher.options.max_task_ttl_ms)

    def _create(self, connection: Connection, ttl: int | None) -> Record:
        requestor, most = requestor_of(connection), self._dispatcher.options.max_tasks_per_client
        own = [record for record in self._records.values() if record.requestor == requestor]
        if sum(not record.over for record in own) >= most:
            raise MCPError(INTERNAL_ERROR, f"Too many tasks: {most} of yours are running. Wait for one, or cancel it.")
        if not connection.state.get(HAS_TASKS):
            connection.state[HAS_TASKS] = True
            connection.exit_stack.callback(self._forget_client, requestor)
        for old in [record for record in own if record.over][: max(0, len(own) - 2 * most)]:
            self._forget(old)  # bounds the number of tasks that have no ttl
        self._created += 1
        now = _now()
        record = Record(
            task_id=secrets.token_hex(16),  # never like an option of a command line
            sequence=self._created,
            requestor=requestor,
            connection=connection,
            ttl=ttl,
            poll_interval=self._dispatcher.options.task_poll_ms,
            created_at=now,
            updated_at=now,
            message="The work has begun.",
        )
        self._records[record.task_id] = record
        if ttl is not None:
            record.expiry = asyncio.get_running_loop().call_later(ttl / 1000, self._forget, record)
        return record

    async def _run(
        self, record: Record, tool: Tool, arguments: Mapping[str, Any], call: ServerCall, answered: asyncio.Event
    ) -> None:
        release = self._dispatcher.hold_session(record.connection.session_id)
        try:
            await answered.wait()
            answer = await self._dispatcher.run_tool(tool, arguments, call, self._dispatcher.tasks)
        except Cancelled:
            await self._settle(record, "cancelled", "The task was cancelled.", None)
        except RpcError as error:
            message = clean(error.message)
            await self._settle(record, "failed", message, MCPError(error.code, message, clean(error.data)))
        except Exception as error:
            unexpected_error = self._dispatcher.unexpected_error(call.correlation_id, f"task {tool.name} failed", error)
            await self._settle(record, "failed", unexpected_error.message, unexpected_error)
        else:
            result = answer_json(answer, VERSION)
            first = answer.content[0] if answer.content else None
            if answer.is_error:
                reason = clean(first.text) if isinstance(first, Text) else "The tool reported an error."
                await self._settle(record, "failed", reason, result)
            else:
                await self._settle(record, "completed", "The work is done.", result)
        finally:
            release()

    # ── changing ──

    async def _settle(self, record: Record, status: Status, message: str, outcome: Json | MCPError | None) -> None:
        if not record.over:
            record.outcome = outcome
            await self._change(record, status, message)

    async def _change(self, record: Record, status: Status, message: str) -> None:
        record.status, record.message, record.updated_at = status, message, _now()
        record.changed.set()
        if record.task_id in self._records:
            await record.connection.notify("notifications/tasks/status", record.to_json())

    def _forget(self, record: Record) -> None:
        """Cancels and removes a task that has expired or whose client is gone."""
        self._records.pop(record.task_id, None)
        if record.expiry is not None:
            record.expiry.cancel()
        if not record.over:
            record.status, record.message = "cancelled", "The task expired."
            record.changed.set()
        if record.call is not None:
            record.call.cancel()

    def _forget_client(self, requestor: str) -> None:
        for record in [each for each in self._records.values() if each.requestor == requestor]:
            self._forget(record)

    # ── asking the client in the middle of a task ──

    def ask_function(self, task_id: str) -> Ask:
        """The function that queues a task's questions until the client calls `tasks/result`, as the text requires."""

        async def ask(questions: Mapping[str, Question]) -> dict[str, Json]:
            record = self._records.get(task_id)
            if record is None or record.over:
                raise Cancelled("The task is over.")
            meta = {RELATED_TASK: {"taskId": task_id}}
            tagged = {key: Question(one.method, {**one.params, "_meta": meta}) for key, one in questions.items()}
            asked = PendingQuestions(tagged, asyncio.get_running_loop().create_future())
            record.pending.append(asked)
            try:
                await self._change(record, "input_required", "The task waits for an answer: call tasks/result.")
                answers = await asked.answers
            finally:
                if asked in record.pending:
                    record.pending.remove(asked)
            if not record.over and not record.pending:
                await self._change(record, "working", "The work goes on.")
            return answers

        return ask

    async def _put_to_client(self, ctx: Context, record: Record) -> None:
        options = self._dispatcher.options
        ask = ask_over(channel_of(ctx), options.ask_timeout_s, options.roots_timeout_s)
        while record.pending:
            asked = record.pending.pop(0)
            try:
                answers = await ask(asked.questions)
            except asyncio.CancelledError:
                record.pending.insert(0, asked)  # this request was cancelled; the next tasks/result asks again
                raise
            except Exception as error:
                if not asked.answers.done():
                    asked.answers.set_exception(error)
            else:
                if not asked.answers.done():
                    asked.answers.set_result(answers)

    # ── the four methods ──

    async def get(self, ctx: Context, params: types.GetTaskRequestParams) -> HandlerResult:
        return self._own(ctx, params.task_id).to_json()

    async def list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        _only_here(ctx)
        after = read_cursor(params.cursor if params else None)
        if after > self._created:
            raise bad_cursor()
        requestor, size = requestor_of(connection_of(ctx)), self._dispatcher.options.page_size
        own = [each for each in self._records.values() if each.requestor == requestor and each.sequence > after]
        result: Json = {"tasks": [record.to_json() for record in own[:size]]}
        if len(own) > size:
            result["nextCursor"] = make_cursor(own[size - 1].sequence)
        return result

    async def result(self, ctx: Context, params: types.GetTaskPayloadRequestParams) -> HandlerResult:
        record = self._own(ctx, params.task_id)
        while not record.over:
            await self._put_to_client(ctx, record)
            if not record.over and not record.pending:
                record.changed.clear()
                await record.changed.wait()
        if isinstance(record.outcome, MCPError):
            raise record.outcome
        if record.outcome is None:
            raise MCPError(INTERNAL_ERROR, f"Task {record.task_id} was cancelled: it has no result.")
        meta = {**record.outcome.get("_meta", {}), RELATED_TASK: {"taskId": record.task_id}}
        return record.outcome | {"_meta": meta}

    async def cancel(self, ctx: Context, params: types.CancelTaskRequestParams) -> HandlerResult:
        record = self._own(ctx, params.task_id)
        if record.over:
            raise MCPError(INVALID_PARAMS, f"Task {record.task_id} is {record.status} already: it can't be cancelled.")
        if record.call is not None:
            record.call.cancel()
        await self._change(record, "cancelled", "The task was cancelled on request.")
        return record.to_json()

    def _own(self, ctx: Context, task_id: str) -> Record:
        _only_here(ctx)
        record = self._records.get(task_id)
        if record is None or record.requestor != requestor_of(connection_of(ctx)):
            raise MCPError(INVALID_PARAMS, f"Task not found: {task_id}. It may have expired; tasks/list has yours.")
        return record


def _only_here(ctx: Context) -> None:
    if ctx.protocol_version != VERSION:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
