"""What do we use of the SDK that it doesn't offer?  All of it is here, for the day it changes.

`mcp`'s low-level server hands handlers a per-request session and keeps the connection behind it private. Tasks,
subscriptions and log levels belong to the connection, a request of ours must ride the stream of the call that
caused it, and an HTTP session must not end while a task of its client runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]


class Outbound(Protocol):
    """A way to the client."""

    async def notify(self, method: str, params: dict[str, Any] | None) -> None: ...
    async def send_raw_request(
        self, method: str, params: dict[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]: ...


def connection_of(ctx: Context) -> Connection:
    """The client's connection: the session over HTTP, the pipe over stdio; on 2026-07-28, only this request."""
    return ctx.session._connection


def channel_of(ctx: Context) -> Outbound:
    """The way to the client that belongs to this request: over HTTP, its own response stream."""
    return ctx.session._request_outbound


def requestor_of(connection: Connection) -> str:
    """Who asks: the HTTP session, or a name made up for this connection."""
    if connection.session_id is not None:
        return connection.session_id
    name: str = connection.state.setdefault("refdesk/requestor", uuid4().hex)
    return name


def hold_session(sessions: StreamableHTTPSessionManager, session_id: str | None) -> Callable[[], None]:
    """Keeps an HTTP session that nobody uses from ending for idleness; call what is returned to let go."""
    transport = sessions._server_instances.get(session_id or "")
    if transport is None or transport.idle_scope is None or transport._idle_timeout is None:
        return lambda: None
    scope, timeout = transport.idle_scope, transport._idle_timeout
    transport._requests_in_flight += 1
    scope.deadline = math.inf

    def let_go() -> None:
        transport._requests_in_flight -= 1
        if not transport._requests_in_flight:
            scope.deadline = anyio.current_time() + timeout

    return let_go


def is_modern(version: str) -> bool:
    return version in MODERN_PROTOCOL_VERSIONS
