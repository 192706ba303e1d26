"""What do we use of the SDK that it doesn't offer?  All of it is here, for the day it changes.

`mcp`'s low-level server hands handlers a per-request session and keeps the connection behind it private. Tasks,
subscriptions and log levels belong to the connection, and a request of ours must ride the stream of the call that
caused it.
"""

from __future__ import annotations

from typing import Any, Protocol
from uuid import uuid4

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
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


def is_modern(version: str) -> bool:
    return version in MODERN_PROTOCOL_VERSIONS
