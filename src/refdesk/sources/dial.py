"""How is a connection made?  To an address that was vetted, for the client that httpcore has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio.to_thread
import httpcore

from refdesk.sources.addresses import AddressGuard

_FIRST_TRIES_S = 5.0  # how long an address that is not the last of its name may take to answer


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to vetted addresses only: a name is resolved once, and exactly what was vetted is dialled."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._dialler = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address of the host that answers."""
        found = await anyio.to_thread.run_sync(self._guard.addresses, host, port, abandon_on_cancel=True)
        for address in found[:-1]:
            try:
                first = _FIRST_TRIES_S if timeout is None else min(timeout, _FIRST_TRIES_S)
                return await self._dialler.connect_tcp(address, port, first, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._dialler.connect_tcp(found[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Nothing: no URL names a socket file."""
        raise httpcore.UnsupportedProtocol("no socket files")

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await anyio.sleep(seconds)
