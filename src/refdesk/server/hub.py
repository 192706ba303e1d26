"""What do all connections of one server process share?"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from refdesk.errors import Cancelled, RefdeskError
from refdesk.ingest.progress import is_wanted
from refdesk.server.call import ServerCall
from refdesk.server.process import ServerOptions, correlation
from refdesk.server.registry import Change, Loading, Registry
from refdesk.server.threads import T, Workers
from refdesk.toolsets.contract import INTERNAL_ERROR, RpcError, Tool, ToolAnswer, Toolset, unexpected_text

# Who hears of changes?  Clients that shook hands, on their connection; 2026-07-28 clients, where they listen.

SUBSCRIPTIONS = "refdesk/subscriptions"


class Audience:
    """The live connections and the listening streams; `tell` may be called from any thread."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._listened: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: set[Connection] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._pending: set[tuple[int, Change]] = set()

    def join(self, connection: Connection) -> None:
        self._loop = asyncio.get_running_loop()
        if connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)

    @contextmanager
    def listening(self, uris: Iterable[str]) -> Iterator[None]:
        """While a stream waits for changes of those resources, on this loop."""
        self._loop = asyncio.get_running_loop()
        listened = Counter(uris)
        self._listened = self._listened + listened  # a new one, so that a look from elsewhere keeps what it reads
        try:
            yield
        finally:
            self._listened = self._listened - listened

    def watched(self) -> set[str]:
        """The resources that somebody wants to hear of; may be asked from any thread."""
        subscribed = [connection.state.get(SUBSCRIPTIONS, set()).copy() for connection in tuple(self._connections)]
        return set(self._listened).union(*subscribed)

    def tell(self, change: Change) -> None:
        if self._loop is None:
            return  # nobody has connected yet, so nobody holds an old list
        try:
            self._loop.call_soon_threadsafe(self._spread, change)
        except RuntimeError:
            return  # the loop has closed: nobody is left

    def _spread(self, change: Change) -> None:
        self._start(self.bus.publish(_event(change)))
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
        # Each in its own task: a client that stopped reading must not hold up the others.
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


def _event(change: Change) -> ServerEvent:
    match change.kind:
        case "tools":
            return ToolsListChanged()
        case "resources":
            return ResourcesListChanged()
        case "prompts":
            return PromptsListChanged()
        case "resource":
            return ResourceUpdated(change.uri)


logger = logging.getLogger(__name__)


class Hub:
    """The toolsets, the threads that run them and the clients that listen."""

    def __init__(self, make_toolsets: Callable[[], Sequence[Toolset]], options: ServerOptions) -> None:
        self.options = options
        self.audience = Audience()
        self.loading = Loading(make_toolsets, self._loaded)
        self.calls = Workers(options.workers, "refdesk-call")  # what reads
        self.writes = Workers(options.workers, "refdesk-write")  # apart, for they may wait for one another
        self.tasks = Workers(options.task_workers, "refdesk-task")
        self.hold_session: Callable[[str | None], Callable[[], None]] = lambda _: lambda: None
        self._running: set[ServerCall] = set()
        self._compiled: dict[int, tuple[Tool, Any]] = {}

    async def registry(self) -> Registry:
        """The registry once loaded; a failure to load becomes an error that says why."""
        try:
            return await self.loading.registry()
        except RefdeskError as error:
            raise MCPError(INTERNAL_ERROR, f"RefDesk could not open its library. {error}") from error
        except Exception as error:
            raise self.mishap(uuid.uuid4().hex, "loading failed", error) from error

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The named tool's schema if it is loaded; the SDK checks 2026-07-28's parameter headers against it."""
        registry = self.loading.ready
        tool = registry.tool(name) if registry is not None else None
        return None if tool is None else tool.input_schema

    def mishap(self, correlation_id: str, what: str, error: BaseException) -> MCPError:
        """Logs what nobody foresaw and gives the error that tells the client where to look."""
        logger.error("%s", what, exc_info=error, extra={"correlation_id": correlation_id})
        return MCPError(INTERNAL_ERROR, unexpected_text(correlation_id), {"correlationId": correlation_id})

    async def run_tool(self, tool: Tool, arguments: Mapping[str, Any], call: ServerCall, pool: Workers) -> ToolAnswer:
        """What the tool answers, or its contract's refusal; raises `RpcError` where the contract says so."""
        begun = time.monotonic()
        outcome = await self.run(partial(self._answer, tool, dict(arguments), call), call, pool)
        failed = isinstance(outcome, RpcError) or outcome.is_error
        told = {"tool": tool.name, "failed": failed, "ms": round((time.monotonic() - begun) * 1000)}
        logger.info("called %s", tool.name, extra={"correlation_id": call.correlation_id, **told})
        if isinstance(outcome, RpcError):
            raise outcome
        for uri in outcome.updated:
            self.audience.tell(Change("resource", uri))
        if outcome.relisted:
            self.audience.tell(Change("resources"))
        return outcome

    async def run(self, work: Callable[[], T], call: ServerCall, pool: Workers) -> T:
        """Runs `work` in a thread under the call's correlation id; giving up the wait tells the work to stop."""
        token = correlation.set(call.correlation_id)
        wanted = is_wanted.set(lambda: not call.cancelled)
        self._running.add(call)
        try:
            return await pool.run(work)
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            self._running.discard(call)
            is_wanted.reset(wanted)
            correlation.reset(token)

    def stop(self) -> None:
        """Tells all work to stop and waits a little; work that would not stop is left behind with the process."""
        for call in list(self._running):
            call.cancel()
        until = time.monotonic() + self.options.exit_grace_s
        pools = (self.calls, self.writes, self.tasks)
        idle = all(pool.wait_idle(max(0.0, until - time.monotonic())) for pool in pools)
        if (registry := self.loading.ready) is not None:
            registry.close()
        # Python ends badly under threads that are inside native code, so with any of them left it is not asked to.
        if not idle or self.loading.busy:
            import multiprocessing

            logger.info("work that would not stop was left behind")
            for child in multiprocessing.active_children():
                child.terminate()
            for handler in logging.getLogger().handlers:
                getattr(handler, "drain", handler.flush)()
            os._exit(0)

    async def poll(self) -> None:
        """Asks the toolsets, once they are there, for changed tools, again and again."""
        while (registry := self.loading.ready) is None:
            await asyncio.sleep(self.options.poll_seconds)  # not our business to begin the loading
        while registry.wants_polling:
            await asyncio.sleep(self.options.poll_seconds)
            await self.calls.run(registry.poll)

    def _loaded(self, registry: Registry) -> None:
        registry.listen(self.audience.tell, self.audience.watched)

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
        """The tool's compiled schema; kept by identity, since a replaced tool is another object."""
        from refdesk.server.validate import Arguments

        kept = self._compiled.get(id(tool))
        if kept is None or kept[0] is not tool:
            if len(self._compiled) > 256:
                self._compiled.clear()
            kept = self._compiled[id(tool)] = (tool, Arguments(tool))
        return kept[1]
