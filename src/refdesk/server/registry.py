"""The registry of tools, resources and prompts, its listeners, and how it is loaded."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from refdesk.toolsets.content import Json, ToolAnswer
from refdesk.toolsets.contract import Prompt, Resource, ResourceTemplate, Tool, Toolset

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that clients are notified of: of a whole list, or of the resource at `uri`."""

    kind: Literal["tools", "resources", "prompts", "resource"]
    uri: str = ""


Listener = Callable[[Change], None]


class Registry:
    """The tools in registration order; a name registered again keeps its place."""

    def __init__(self, toolsets: Sequence[Toolset] = ()) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, Tool] = {}
        self._toolsets: list[Toolset] = []
        self._listeners: list[Listener] = []
        self._watched: list[Callable[[], set[str]]] = []
        self._site: Any = None
        for toolset in toolsets:
            self.add(toolset)

    def add(self, toolset: Toolset) -> None:
        self._toolsets.append(toolset)
        self.register(*toolset.tools)

    def attach(self) -> None:
        """Gives the toolsets that announce changes their announcer; they may open the library for it."""
        for toolset in self._toolsets:
            if toolset.attach is not None:
                toolset.attach(self)

    def register(self, *tools: Tool) -> None:
        """Adds tools, replacing those of the same name in place, and notifies the listeners."""
        with self._lock:
            changed = [tool for tool in tools if self._tools.get(tool.name) != tool]
            # A new dict: other threads may be iterating over the old one.
            self._tools = {**self._tools, **{tool.name: tool for tool in changed}}
        if changed:
            self.announce(Change("tools"))

    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    def tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def resources(self) -> list[Resource]:
        return [resource for toolset in self._toolsets for resource in toolset.resources()]

    def templates(self) -> list[ResourceTemplate]:
        return [template for toolset in self._toolsets for template in toolset.templates]

    def prompts(self) -> list[Prompt]:
        return [prompt for toolset in self._toolsets for prompt in toolset.prompts]

    def listen(self, listener: Listener, watched: Callable[[], set[str]] = set) -> None:
        """Registers a listener, and a function that returns the resources its clients subscribed to."""
        self._listeners.append(listener)
        self._watched.append(watched)

    def watched(self) -> set[str]:
        return set[str]().union(*(watched() for watched in self._watched))

    def announce(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)

    def relisted(self, kind: Literal["tools", "resources", "prompts"]) -> None:
        self.announce(Change(kind))

    def updated(self, uri: str) -> None:
        self.announce(Change("resource", uri))

    def poll(self) -> None:
        """Polls each toolset for changed tools; a failure is logged and polled again next time."""
        for toolset in self._toolsets:
            if toolset.poll is None:
                continue
            try:
                self.register(*toolset.poll())
            except Exception:
                logger.exception("polling toolset %s failed", toolset.name)

    def heard(self, tool: str, arguments: Json, answer: ToolAnswer | None, seconds: float) -> None:
        """Tells the toolsets that want to know of a call; a failure is logged."""
        for toolset in self._toolsets:
            if toolset.heard is not None:
                try:
                    toolset.heard(tool, arguments, answer, seconds)
                except Exception:
                    logger.exception("toolset %s could not note a call", toolset.name)

    def gauges(self) -> dict[str, float]:
        """What the toolsets measure, as it is now; what can't be measured is left out."""
        found: dict[str, float] = {}
        for toolset in self._toolsets:
            if toolset.gauges is not None:
                try:
                    found |= toolset.gauges()
                except Exception as error:
                    logger.warning("toolset %s could not be measured: %s", toolset.name, error)
        return found

    def site(self, key: bytes) -> Any:
        """The pages for people, made once; None where no toolset has any."""
        with self._lock:
            makers = [toolset.site for toolset in self._toolsets if toolset.site is not None]
            if self._site is None and makers:
                self._site = makers[0](key)
            return self._site

    @property
    def wants_polling(self) -> bool:
        return any(toolset.poll is not None for toolset in self._toolsets)

    def close(self) -> None:
        for toolset in self._toolsets:
            if toolset.close is not None:
                try:
                    toolset.close()
                except Exception:
                    logger.exception("closing toolset %s failed", toolset.name)


class Loading:
    """Loads the registry in a background thread, after the handshake was answered; a failed load is retried."""

    def __init__(self, make_toolsets: Callable[[], Sequence[Toolset]], then: Callable[[Registry], None]) -> None:
        self._make = make_toolsets
        self._then = then
        self._lock = threading.Lock()
        self._coming: Future[Registry] | None = None
        self._thread = threading.Thread()  # that loads
        self._ready: Registry | None = None

    @property
    def ready(self) -> Registry | None:
        """The registry, or None while it is not loaded."""
        return self._ready

    def wait_idle(self, seconds: float) -> bool:
        """Waits for the loading thread to end; returns whether it did within `seconds`."""
        with self._lock:
            thread = self._thread
        if thread.is_alive():
            thread.join(seconds)
        return not thread.is_alive()

    def start(self) -> Future[Registry]:
        with self._lock:
            if self._coming is None:
                self._coming = Future()
                target = partial(self._load, self._coming)
                self._thread = threading.Thread(target=target, name="refdesk-load", daemon=True)
                self._thread.start()
            return self._coming

    async def registry(self) -> Registry:
        """Waits for the registry; raises what loading raised."""
        if self._ready is not None:
            return self._ready
        # Shielded: a client that cancels must not end the wait of the others.
        return await asyncio.shield(asyncio.wrap_future(self.start()))

    def _load(self, coming: Future[Registry]) -> None:
        try:
            registry = Registry(self._make())
            self._then(registry)
        except BaseException as error:
            logger.exception("loading the toolsets failed")
            with self._lock:
                self._coming = None
            coming.set_exception(error)
        else:
            self._ready = registry
            coming.set_result(registry)
            try:  # the list of tools is answered already: it needs no library
                registry.attach()
            except Exception:
                logger.exception("a toolset can't announce changes")
            import refdesk.server.validate  # noqa: F401  (slow to import: neither in the list of tools nor in a call)
