"""What do we use of the SDK that it doesn't offer?  All of it is here, for the day it changes.

`mcp`'s low-level server hands handlers a per-request session and keeps the connection behind it private. Tasks,
subscriptions and log levels belong to the connection, a request of ours must ride the stream of the call that
caused it, and an HTTP session must not end while a task of its client runs. Where there are too many sessions, the
SDK refuses new ones; forgotten ones should make room.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from refdesk.server.options import ServerOptions

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


class Sessions(StreamableHTTPSessionManager):
    """HTTP sessions whose ids end in `mark`; where there are too many, the one that has been idle longest ends."""

    def __init__(self, server: Server[Any], options: ServerOptions, mark: str) -> None:
        super().__init__(
            server,
            max_request_body_size=options.max_message_bytes,
            session_idle_timeout=options.session_idle_s,
            max_sessions=-(-options.max_sessions // options.processes),
        )
        self._mark = mark

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            self._end_idle_session()
        transport = super()._admit_session(requestor)
        if transport is not None and self._mark:
            given = transport.mcp_session_id or ""
            transport.mcp_session_id = given + self._mark
            for known in (self._server_instances, self._session_owners):
                if given in known:
                    known[given + self._mark] = known.pop(given)  # type: ignore[assignment]
        return transport

    def _end_idle_session(self) -> None:
        # A session that is in use has no deadline.
        scopes = {session_id: each.idle_scope for session_id, each in self._server_instances.items()}
        idle = [(scope.deadline, session_id) for session_id, scope in scopes.items() if scope is not None]
        deadline, session_id = min(idle, default=(math.inf, ""))
        scope = scopes.get(session_id)
        if deadline < math.inf and scope is not None:
            # Forgotten at once, so that there is room; its task ends when it hears of it.
            del self._server_instances[session_id]
            self._session_owners.pop(session_id, None)
            scope.cancel()


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
