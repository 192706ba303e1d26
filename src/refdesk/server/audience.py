"""Who hears of changes?  Clients that shook hands, on their connection; 2026-07-28 clients, where they listen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
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

from refdesk.server.registry import Change

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
