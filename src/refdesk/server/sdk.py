"""All uses of private parts of the MCP SDK, in one place for the day they change.

The low-level server gives handlers a per-request session and keeps the connection private. But tasks, subscriptions
and log levels belong to the connection, our requests must go out on the stream of the call that caused them, and an
HTTP session must not expire while a task of its client runs. Where there are too many sessions, the SDK refuses new
ones; we end the one that has been idle longest.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import REQUEST_STREAM_BUFFER_SIZE, EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from sse_starlette import EventSourceResponse
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from refdesk.server.messages import InvalidMessage
from refdesk.server.process import ServerOptions
from refdesk.toolsets.content import INVALID_PARAMS, Json

if TYPE_CHECKING:
    from refdesk.server.direct import DirectCall

    FindDirect = Callable[[Any, str | None], DirectCall | None]


def page(name: str, items: list[Json], params: types.PaginatedRequestParams | None, size: int) -> Json:
    """The page of `items` that the cursor asks for."""
    start = read_cursor(params.cursor if params else None)
    if start and start >= len(items):
        raise bad_cursor()
    result: Json = {name: items[start : start + size]}
    if start + size < len(items):
        result["nextCursor"] = make_cursor(start + size)
    return result


def make_cursor(position: int) -> str:
    return base64.urlsafe_b64encode(f"at:{position}".encode()).decode()


def read_cursor(cursor: str | None) -> int:
    """The position in the cursor; 0 without one."""
    if cursor is None:
        return 0
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise bad_cursor() from None
    if not text.startswith("at:") or not text[3:].isdigit():
        raise bad_cursor()
    return int(text[3:])


def bad_cursor() -> MCPError:
    return MCPError(INVALID_PARAMS, "Invalid cursor. Use the nextCursor of the previous page, or none for the first.")


Context = ServerRequestContext[Any, Any]
MESSAGE, VALUE = "refdesk.message", "refdesk.value"  # keys in a request's scope: the JSON-RPC message, and its JSON
SOON_S = 1.0  # a slower answer is sent as an event stream, whose pings keep proxies from closing the connection


class Outbound(Protocol):
    """Sends notifications and requests to the client."""

    async def notify(self, method: str, params: dict[str, Any] | None) -> None: ...
    async def send_raw_request(
        self, method: str, params: dict[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]: ...


def connection_of(ctx: Context) -> Connection:
    """The client's connection: the session over HTTP, the pipe over stdio; on 2026-07-28, only this request."""
    return ctx.session._connection


def channel_of(ctx: Context) -> Outbound:
    """The channel of this request: over HTTP, its own response stream."""
    return ctx.session._request_outbound


class RequestChannel:
    """The channel of a request that the SDK does not know of."""

    def __init__(self, connection: Connection, request_id: str | int) -> None:
        self._dispatcher: Any = connection.outbound
        self._request_id = request_id

    async def notify(self, method: str, params: dict[str, Any] | None) -> None:
        await self._dispatcher.notify(method, params, _related_request_id=self._request_id)

    async def send_raw_request(
        self, method: str, params: dict[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        related = {"_related_request_id": self._request_id}
        answer: dict[str, Any] = await self._dispatcher.send_raw_request(method, params, opts, **related)
        return answer


def requestor_of(connection: Connection) -> str:
    """The id of the requestor: the HTTP session's, or one made for this connection."""
    if connection.session_id is not None:
        return connection.session_id
    name: str = connection.state.setdefault("refdesk/requestor", uuid4().hex)
    return name


class Encoded(JSONRPCResponse):
    """A response that is encoded already."""

    def model_dump_json(self, **_: Any) -> str:
        return self.result["encoded"].decode()  # type: ignore[no-any-return]


class Session(StreamableHTTPServerTransport):
    """A session that answers a request in plain JSON if the answer comes first and within `SOON_S`.

    The SDK opens an event stream for every request, which takes six asyncio tasks: measured, a third of the event
    loop's time under many searches. Calls that `direct` finds are answered without the SDK.
    """

    def __init__(self, session_id: str, idle_timeout: float | None, direct: FindDirect) -> None:
        super().__init__(session_id, idle_timeout=idle_timeout)
        self._find_direct = direct
        self._direct: dict[str, DirectCall] = {}

    async def terminate(self) -> None:
        for asked in self._direct.values():
            asked.call.cancel()
        await super().terminate()

    def _start(self, asked: DirectCall) -> None:
        """Starts a call whose answer is sent as the SDK sends its own."""
        self._direct[str(asked.request_id)] = asked

        async def deposit(data: bytes) -> None:
            if self._direct.pop(str(asked.request_id), None) is not None and self._write_stream is not None:
                answer = Encoded.model_construct(jsonrpc="2.0", id=asked.request_id, result={"encoded": data})
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session has ended
                    await self._write_stream.send(SessionMessage(answer))

        def send(data: bytes) -> None:
            with suppress(RuntimeError):  # the loop has closed
                asyncio.run_coroutine_threadsafe(deposit(data), asked.call.loop)

        asked.start(send, lambda: None)

    async def _cancel(self, request_id: Any) -> None:
        if (asked := self._direct.pop(str(request_id), None)) is not None:
            asked.call.cancel()
            await self._terminate_unanswered_request(asked.request_id)

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        message = scope.get(MESSAGE)
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            await self._cancel((message.params or {}).get("requestId"))
        if not isinstance(message, JSONRPCRequest) or message.method == "initialize":
            await super()._handle_post_request(scope, request, receive, send)
            return
        if not await self._validate_accept_header(request, scope, send):
            return
        if not await self._validate_request_headers(request, send):
            return
        request_id = str(message.id)
        version = request.headers.get("mcp-protocol-version", "")
        self._request_streams[request_id] = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
        answers = self._request_streams[request_id][1]
        assert self._read_stream_writer is not None  # set as long as the session is open
        try:
            if (asked := self._find_direct(scope.get(VALUE), self.mcp_session_id)) is not None:
                self._start(asked)
            else:
                await self._read_stream_writer.send(self._create_session_message(message, request, request_id, version))
            first = None
            with anyio.move_on_after(SOON_S):
                first = await answers.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            await self._clean_up_memory_streams(request_id)
            words = "The session was ended before the request was answered"
            await self._create_error_response(words, HTTPStatus.NOT_FOUND)(scope, receive, send)
            return
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._clean_up_memory_streams(request_id)
            raise
        if first is not None and isinstance(first.message, JSONRPCResponse | JSONRPCError):
            await self._clean_up_memory_streams(request_id)
            await self._create_json_response(first.message)(scope, receive, send)
            return
        events, shown = anyio.create_memory_object_stream[dict[str, Any]](0)
        self._sse_stream_writers[request_id] = events
        begun = None if first is None else self._create_event_data(first)
        headers = {"Cache-Control": "no-cache, no-transform", "Mcp-Session-Id": self.mcp_session_id or ""}
        with shown:
            await EventSourceResponse(
                content=shown,
                data_sender_callable=partial(self._run_sse_writer, request_id, events, answers, begun),
                headers=headers,
            )(scope, receive, send)


class Sessions(StreamableHTTPSessionManager):
    """HTTP sessions with ids that end in `mark`; when there are too many, the longest idle one is ended."""

    def __init__(self, server: Server[Any], options: ServerOptions, mark: str, direct: FindDirect) -> None:
        super().__init__(
            server,
            max_request_body_size=options.max_message_bytes,
            session_idle_timeout=options.session_idle_s,
            max_sessions=-(-options.max_sessions // options.processes),
        )
        self._mark = mark
        self._direct = direct

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = Headers(scope=scope).get("mcp-session-id")
        if session is None or session in self._server_instances:
            await super()._handle_stateful_request(scope, receive, send)
            return
        words = (
            "Session not found: it has ended, or its requests must go to the server that opened it. Begin a new one."
        )
        await JSONResponse(InvalidMessage(types.INVALID_REQUEST, words).to_json(), 404)(scope, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            self._end_idle_session()
            if len(self._server_instances) >= self.max_sessions:
                return None
        session_id = uuid4().hex + self._mark
        self._server_instances[session_id] = transport = Session(session_id, self.session_idle_timeout, self._direct)
        if requestor is not None:
            self._session_owners[session_id] = requestor
        return transport

    def _end_idle_session(self) -> None:
        # A session that is in use has no deadline.
        scopes = {session_id: each.idle_scope for session_id, each in self._server_instances.items()}
        idle = [(scope.deadline, session_id) for session_id, scope in scopes.items() if scope is not None]
        deadline, session_id = min(idle, default=(math.inf, ""))
        scope = scopes.get(session_id)
        if deadline < math.inf and scope is not None:
            # Removed at once, so that there is room; its task ends later, when it is cancelled.
            del self._server_instances[session_id]
            self._session_owners.pop(session_id, None)
            scope.cancel()


def hold_session(sessions: StreamableHTTPSessionManager, session_id: str | None) -> Callable[[], None]:
    """Keeps an idle HTTP session from expiring until the returned function is called."""
    transport = sessions._server_instances.get(session_id or "")
    if transport is None or transport.idle_scope is None or transport._idle_timeout is None:
        return lambda: None
    scope, timeout = transport.idle_scope, transport._idle_timeout
    transport._requests_in_flight += 1
    scope.deadline = math.inf

    def release() -> None:
        transport._requests_in_flight -= 1
        if not transport._requests_in_flight:
            scope.deadline = anyio.current_time() + timeout

    return release


def is_modern(version: str) -> bool:
    return version in MODERN_PROTOCOL_VERSIONS
