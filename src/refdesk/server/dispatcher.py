"""The dispatcher: runs tool calls in threads and notifies clients of changes; one per server process."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from refdesk.errors import Cancelled, RefdeskError, RpcError
from refdesk.server.call import ServerCall
from refdesk.server.process import ServerOptions, StderrHandler, T, ThreadPool, correlation
from refdesk.server.registry import Change, Loading, Registry
from refdesk.system import metrics
from refdesk.system.retry import arrived
from refdesk.system.wanted import is_wanted, wanted_since
from refdesk.toolsets.content import INTERNAL_ERROR, ToolAnswer, unexpected_text
from refdesk.toolsets.contract import Tool, Toolset

SUBSCRIPTIONS = "refdesk/subscriptions"
_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}
_SOON_S = 0.05  # after which toolsets are told of a call: not while its answer is on the way


class Subscribers:
    """The clients to notify of changes; `notify` may be called from any thread.

    Clients that called `initialize` are notified on their connection, 2026-07-28 clients on their listening streams.
    """

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._listened: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: set[Connection] = set()
        self._by_session: dict[str | None, Connection] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._pending: set[tuple[int, Change]] = set()

    def join(self, connection: Connection) -> None:
        self._loop = asyncio.get_running_loop()
        if connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)
            self._by_session[connection.session_id] = connection
            connection.exit_stack.callback(self._by_session.pop, connection.session_id, None)

    @contextmanager
    def listening(self, uris: Iterable[str]) -> Iterator[None]:
        """Counts a stream as listening for changes of these resources while the context is open."""
        self._loop = asyncio.get_running_loop()
        listened = Counter(uris)
        self._listened = self._listened + listened  # a new object: other threads may be reading the old one
        try:
            yield
        finally:
            self._listened = self._listened - listened

    def connection(self, session_id: str | None) -> Connection | None:
        """The connection of that HTTP session, or of the one client over stdio."""
        return self._by_session.get(session_id)

    def watched(self) -> set[str]:
        """The resources that any client subscribed to; may be called from any thread."""
        subscribed = [connection.state.get(SUBSCRIPTIONS, set()).copy() for connection in tuple(self._connections)]
        return set(self._listened).union(*subscribed)

    def notify(self, change: Change) -> None:
        if self._loop is None:
            return  # no client has connected yet, so none has an old list
        try:
            self._loop.call_soon_threadsafe(self._notify_all, change)
        except RuntimeError:
            return  # the loop has closed: no client is left

    def _notify_all(self, change: Change) -> None:
        self._start(self.bus.publish(ResourceUpdated(change.uri) if change.kind == "resource" else _LISTS[change.kind]))
        for connection in self._connections:
            subscribed = connection.state.get(SUBSCRIPTIONS, ())
            pending = (id(connection), change)
            if pending in self._pending or (change.kind == "resource" and change.uri not in subscribed):
                continue
            self._pending.add(pending)
            self._start(self._deliver(connection, change, pending))

    async def _deliver(self, connection: Connection, change: Change, pending: tuple[int, Change]) -> None:
        try:
            if change.kind == "resource":
                await connection.notify("notifications/resources/updated", {"uri": change.uri})
            else:
                await connection.notify(f"notifications/{change.kind}/list_changed", None)
        finally:
            self._pending.discard(pending)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # One task per client: a client that stopped reading must not block the others.
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


logger = logging.getLogger(__name__)


class Dispatcher:
    """The toolsets, the threads that run them and the clients to notify."""

    def __init__(self, make_toolsets: Callable[[], Sequence[Toolset]], options: ServerOptions) -> None:
        self.options = options
        self.subscribers = Subscribers()
        notify, watched = self.subscribers.notify, self.subscribers.watched
        self.loading = Loading(make_toolsets, lambda registry: registry.listen(notify, watched))
        self.calls = ThreadPool(options.workers, "refdesk-call")  # read-only tools
        self.writes = ThreadPool(options.workers, "refdesk-write")  # a pool of its own: writers wait for each other
        self.tasks = ThreadPool(options.task_workers, "refdesk-task")
        self.hold_session: Callable[[str | None], Callable[[], None]] = lambda _: lambda: None
        self._running: set[ServerCall] = set()
        self._unheard: list[Callable[[], None]] = []
        self._will_tell = False
        self._compiled: dict[int, tuple[Tool, Any]] = {}

    async def registry(self) -> Registry:
        """Waits for the registry; raises an MCP error with the reason if loading failed."""
        try:
            return await self.loading.registry()
        except RefdeskError as error:
            raise MCPError(INTERNAL_ERROR, f"RefDesk could not open its library. {error}") from error
        except Exception as error:
            raise self.unexpected_error(uuid.uuid4().hex, "loading failed", error) from error

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The named tool's schema, or None; the SDK checks the parameter headers of 2026-07-28 against it."""
        registry = self.loading.ready
        tool = registry.tool(name) if registry is not None else None
        return None if tool is None else tool.input_schema

    def unexpected_error(self, correlation_id: str, what: str, error: BaseException) -> MCPError:
        """Logs an unexpected exception and returns the MCP error that names its correlation id."""
        logger.error("%s", what, exc_info=error, extra={"correlation_id": correlation_id})
        return MCPError(INTERNAL_ERROR, unexpected_text(correlation_id), {"correlationId": correlation_id})

    async def run_tool(
        self, tool: Tool, arguments: Mapping[str, Any], call: ServerCall, pool: ThreadPool
    ) -> ToolAnswer:
        """Runs the tool in `pool` and returns its answer or error answer; raises `RpcError` if the contract says so."""
        begun = time.monotonic()
        outcome = await self.run(partial(self._answer, tool, dict(arguments), call), call, pool)
        note = partial(self._note, tool, arguments, call, outcome, time.monotonic() - begun)
        asyncio.get_running_loop().call_soon(note)  # after the answer is written: the log's thread would run before it
        if isinstance(outcome, RpcError):
            raise outcome
        for uri in outcome.updated:
            self.subscribers.notify(Change("resource", uri))
        if outcome.relisted:
            self.subscribers.notify(Change("resources"))
        return outcome

    def run_here(
        self, tool: Tool, arguments: dict[str, Any], call: ServerCall, send: Callable[[ToolAnswer | RpcError], None]
    ) -> None:
        """Runs the tool in this thread and sends its answer, unless the call was cancelled."""
        begun = time.monotonic()
        correlation.set(call.correlation_id)
        is_wanted.set(lambda: not call.cancelled)
        wanted_since.set(begun)
        arrived.set(begun)
        self._running.add(call)
        try:
            outcome = self._answer(tool, arguments, call)
            if not call.cancelled:
                send(outcome)
        except Cancelled:
            return
        finally:
            self._running.discard(call)
        self._note(tool, arguments, call, outcome, time.monotonic() - begun)

    def _note(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        call: ServerCall,
        outcome: ToolAnswer | RpcError,
        seconds: float,
    ) -> None:
        """Counts and logs an answered call, and tells the toolsets of it later."""
        failed = isinstance(outcome, RpcError) or outcome.is_error
        metrics.count("refdesk_calls_total", tool=tool.name, outcome="failed" if failed else "answered")
        metrics.took("refdesk_call_seconds", seconds, tool=tool.name)
        logged = {"tool": tool.name, "failed": failed, "ms": round(seconds * 1000)}
        logger.info("called %s", tool.name, extra=logged | {"correlation_id": call.correlation_id})
        if (registry := self.loading.ready) is not None:
            answer = None if isinstance(outcome, RpcError) else outcome
            self._unheard.append(partial(registry.heard, tool.name, dict(arguments), answer, seconds))
            if not self._will_tell:
                self._will_tell = True
                with suppress(RuntimeError):  # the loop has closed: `stop` tells them
                    call.loop.call_soon_threadsafe(call.loop.call_later, _SOON_S, self._tell)

    async def run(self, work: Callable[[], T], call: ServerCall, pool: ThreadPool) -> T:
        """Runs `work` in a thread under the call's correlation id; cancelling the wait cancels the call."""
        token = correlation.set(call.correlation_id)
        wanted = is_wanted.set(lambda: not call.cancelled)
        since = wanted_since.set(time.monotonic())
        self._running.add(call)
        try:
            return await pool.run(work)
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            self._running.discard(call)
            wanted_since.reset(since)
            is_wanted.reset(wanted)
            correlation.reset(token)

    def _tell(self) -> None:
        """Tells the toolsets of calls that were answered, in a thread."""
        self._will_tell = False  # before the list is read: other threads append to it
        while self._unheard:
            self.calls.submit(self._unheard.pop(0))

    def stop(self) -> None:
        """Cancels all calls and waits up to `exit_grace_s`; ends the process if some don't stop."""
        self._tell()
        for call in list(self._running):
            call.cancel()
        until = time.monotonic() + self.options.exit_grace_s
        waited = (self.calls, self.writes, self.tasks, self.loading)
        idle = all(each.wait_idle(max(0.0, until - time.monotonic())) for each in waited)
        if (registry := self.loading.ready) is not None:
            registry.close()
        # Interpreter teardown can crash while a thread is inside native code, so it is skipped.
        if not idle:
            import multiprocessing

            logger.info("ending with calls that did not stop")
            for child in multiprocessing.active_children():
                child.terminate()
            for handler in logging.getLogger().handlers:
                handler.drain() if isinstance(handler, StderrHandler) else handler.flush()
            os._exit(0)

    async def poll(self) -> None:
        """Polls the toolsets for changed tools, once they are loaded."""
        while (registry := self.loading.ready) is None:
            await asyncio.sleep(self.options.poll_seconds)  # polling must not start the loading
        while registry.wants_polling:
            await asyncio.sleep(self.options.poll_seconds)
            await self.calls.run(registry.poll)

    def _answer(self, tool: Tool, arguments: dict[str, Any], call: ServerCall) -> ToolAnswer | RpcError:
        style, correlation_id = tool.error_style, call.correlation_id
        try:
            call.raise_if_cancelled()
            schema = self._schema(tool)
            prepared = schema.prepare(arguments)
            problem = schema.problem(prepared)
            if problem is not None:
                return style.bad_argument(problem, correlation_id)
            answer = tool.handler(prepared, call)
            return schema.checked(answer) if self.options.check_outputs else answer
        except RpcError as error:
            return error
        except Cancelled as error:
            if call.cancelled:
                raise
            return style.refused(error, correlation_id)
        except RefdeskError as error:
            logger.info("%s refused: %s", tool.name, error)
            return style.refused(error, correlation_id)
        except Exception:
            logger.exception("%s failed", tool.name)
            return style.unexpected(correlation_id)

    def _schema(self, tool: Tool) -> Any:
        """The tool's compiled schema, cached by identity, since a replaced tool is another object."""
        from refdesk.server.validate import Arguments

        cached = self._compiled.get(id(tool))
        if cached is None or cached[0] is not tool:
            if len(self._compiled) > 256:
                self._compiled.clear()
            cached = self._compiled[id(tool)] = (tool, Arguments(tool))
        return cached[1]
