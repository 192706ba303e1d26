"""When do the toolsets load?  After the handshake is answered, in the background; who needs them waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from refdesk.server.registry import Registry
from refdesk.toolsets.contract import Toolset

logger = logging.getLogger(__name__)


class Loading:
    """The registry to come; after a failure, the next to ask tries again."""

    def __init__(
        self, make_toolsets: Callable[[], Sequence[Toolset]], then: Callable[[Registry], None] = lambda _: None
    ) -> None:
        self._make = make_toolsets
        self._then = then
        self._lock = threading.Lock()
        self._coming: Future[Registry] | None = None
        self._ready: Registry | None = None

    @property
    def ready(self) -> Registry | None:
        """The registry if it is there."""
        return self._ready

    @property
    def busy(self) -> bool:
        """Whether the loading thread is at work."""
        return self._coming is not None and not self._coming.done()

    def start(self) -> Future[Registry]:
        with self._lock:
            if self._coming is None:
                self._coming = Future()
                threading.Thread(target=self._load, args=(self._coming,), name="refdesk-load", daemon=True).start()
            return self._coming

    async def registry(self) -> Registry:
        """The registry once it is there; raises what loading raised."""
        if self._ready is not None:
            return self._ready
        # Shielded: one client that gives up waiting must not end the wait of the others.
        return await asyncio.shield(asyncio.wrap_future(self.start()))

    def _load(self, coming: Future[Registry]) -> None:
        try:
            import refdesk.server.validate  # noqa: F401  (slow to import: better here than in the first call)

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
