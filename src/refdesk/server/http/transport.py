"""The HTTP transport: streamable HTTP at /mcp, the older SSE at /sse, /healthz, /metrics, the console at /."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from refdesk.errors import SettingsError
from refdesk.server.direct import DirectCall, direct_call
from refdesk.server.dispatcher import Dispatcher
from refdesk.server.http.auth import TokenCheck
from refdesk.server.http.jsonrpc import JsonRpcMiddleware
from refdesk.server.process import ServerOptions, ThreadPool
from refdesk.server.protocol import build_server
from refdesk.server.sdk import Sessions, hold_session
from refdesk.system import metrics

logger = logging.getLogger(__name__)

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::[0-9]{1,5})?")
_GAUGES_S = 1.0  # how long a scrape waits for them
_SCRAPES = 2  # that look at once: more would wait for a record that hangs
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def serve_http(dispatcher: Dispatcher) -> int:
    """Serves HTTP until the process is told to stop; returns the exit code."""
    require_auth_off_loopback(dispatcher.options)
    listening = listen(dispatcher.options)
    url = address(dispatcher.options, listening)
    logger.info("listening", extra={"url": url})
    GracefulServer(server_config(build_app(dispatcher, url), dispatcher.options)).run(sockets=[listening])
    dispatcher.stop()
    return 0


def address(options: ServerOptions, listening: socket.socket) -> str:
    """The URL of the MCP endpoint, as clients see it."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return options.public_url or f"http://{host}:{listening.getsockname()[1]}/mcp"


def server_config(app: ASGIApp, options: ServerOptions) -> uvicorn.Config:
    return uvicorn.Config(
        LengthGuard(app),
        # uvloop takes over the wakeup descriptor, which the watchdog of a single process needs.
        loop="auto" if options.processes > 1 else "asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        lifespan="on",
        timeout_keep_alive=75,  # seconds: proxies keep idle connections for 60, and answer 502 for one that was closed
        timeout_graceful_shutdown=max(1, round(options.exit_grace_s)),
    )


class GracefulServer(uvicorn.Server):
    """A server that returns after a signal; uvicorn's own raises it again, which would skip our cleanup."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


def require_auth_off_loopback(options: ServerOptions) -> None:
    """Raises `SettingsError` unless the server listens on loopback only or has authentication."""
    host = options.host
    is_loopback = host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)
    if not is_loopback and not options.auth_token and options.oauth is None:
        raise SettingsError(
            f"Refusing to listen on {host} without authentication: anyone who reaches this address could read "
            "and change the library.",
            "Set --auth-token (or REFDESK_AUTH_TOKEN), configure OAuth, or listen on 127.0.0.1.",
        )


def build_app(dispatcher: Dispatcher, public_url: str, process: int | None = None) -> ASGIApp:
    """The ASGI application; `public_url` is the MCP endpoint as clients see it, `process` the worker's number."""
    options = dispatcher.options
    server = build_server(dispatcher)

    def direct(value: Any, session_id: str | None) -> DirectCall | None:
        return direct_call(value, dispatcher.subscribers.connection(session_id), dispatcher)

    sessions = Sessions(server, options, "" if process is None else f".{process}", direct)
    dispatcher.hold_session = partial(hold_session, sessions)
    messages = "/messages/" if process is None else f"/messages/{process}/"
    sse = SseServerTransport(messages, max_request_body_size=options.max_message_bytes)
    protected = _require_token(options, public_url)
    scrapes = ThreadPool(_SCRAPES, "refdesk-metrics")  # their own: calls may be waiting for the same record

    async def health(request: Request) -> JSONResponse:
        ready = dispatcher.loading.ready is not None
        return JSONResponse({"status": "ok", "ready": ready, "name": options.name, "version": options.version})

    async def show_metrics(scope: Scope, receive: Receive, send: Send) -> None:
        registry, gauges = dispatcher.loading.ready, {}
        if registry is not None and scrapes.pending < _SCRAPES:
            with suppress(TimeoutError):
                gauges = await asyncio.wait_for(scrapes.run(registry.gauges), _GAUGES_S)
        await PlainTextResponse(metrics.render(gauges), media_type=metrics.MEDIA_TYPE)(scope, receive, send)

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        """GET /sse: one connection, until the client closes it."""
        if scope["method"] != "GET":
            await JSONResponse({"error": "use GET"}, 405, {"allow": "GET"})(scope, receive, send)
            return
        async with sse.connect_sse(scope, receive, send) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    async def site(scope: Scope, receive: Receive, send: Send) -> None:
        """The pages for people, which share the toolsets' library."""
        try:
            registry = await dispatcher.registry()
        except MCPError as error:
            await JSONResponse({"error": error.message}, 503)(scope, receive, send)
            return
        pages = await dispatcher.calls.run(partial(registry.site, options.state_key))
        app = JSONResponse({"error": "not found"}, 404) if pages is None else pages
        await app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        dispatcher.loading.start()
        polling = asyncio.get_running_loop().create_task(dispatcher.poll())
        async with sessions.run():
            yield
        polling.cancel()

    streamable = protected(JsonRpcMiddleware(StreamableHTTPASGIApp(sessions), options.max_message_bytes))
    routes: list[BaseRoute] = [
        Route("/healthz", health),
        Route("/metrics", endpoint=protected(show_metrics)),
        *(Route(path, endpoint=streamable) for path in ("/mcp", "/mcp/")),
        Route("/sse", endpoint=protected(stream)),
        Mount(messages, app=protected(JsonRpcMiddleware(sse.handle_post_message, options.max_message_bytes))),
    ]
    if options.oauth:
        issuer, scopes = AnyHttpUrl(options.oauth.issuer), list(options.oauth.scopes) or None
        routes += create_protected_resource_routes(AnyHttpUrl(public_url), [issuer], scopes, options.title)
    if options.console:
        routes.append(Mount("/", app=site))
    app = Starlette(routes=routes, middleware=_middleware(options), lifespan=lifespan)
    app.router.redirect_slashes = False  # a redirect would repeat secrets in the query
    return app


def _middleware(options: ServerOptions) -> list[Middleware]:
    """The middleware of every request, outermost first."""
    guards = [Middleware(HostGuard, options=options)]
    # Origins that the guard lets through may read the answers too, so preflight requests are answered.
    guards.append(
        Middleware(
            CORSMiddleware,
            allow_origins=["*"],
            allow_headers=["*"],
            allow_methods=["GET", "POST", "DELETE"],
            expose_headers=["mcp-session-id", "www-authenticate"],
        )
    )
    if options.auth_token or options.oauth:
        check = TokenCheck(options.auth_token, options.oauth, ThreadPool(4, "refdesk-auth"))
        guards.append(Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(check)))
        guards.append(Middleware(AuthContextMiddleware))
    return guards


def _require_token(options: ServerOptions, public_url: str) -> Any:
    """The wrapper that makes an endpoint require a valid token, if authentication is on."""
    if not options.auth_token and not options.oauth:
        return Endpoint
    scopes = list(options.oauth.scopes) if options.oauth else []
    where = build_resource_metadata_url(AnyHttpUrl(public_url)) if options.oauth else None
    return lambda app: RequireAuthMiddleware(app, scopes, where)


class Endpoint:
    """An ASGI application as a route's endpoint; Starlette would treat a plain function as a request handler."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class LengthGuard:
    """Refuses a request with both Content-Length and Transfer-Encoding (request smuggling)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = {name for name, _ in scope.get("headers", ())}
        if {b"content-length", b"transfer-encoding"} <= given:
            refusal = {"error": "A request has a Content-Length or a Transfer-Encoding, not both."}
            await JSONResponse(refusal, 400, {"connection": "close"})(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class HostGuard:
    """Refuses requests with a foreign Host or Origin header (DNS rebinding).

    A plain IP address can't be rebound, so a server on all interfaces accepts any; host names must be allowed. An
    origin must be this server's or listed: another port on this machine is another origin.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app = app
        self._any_address = options.host in ("0.0.0.0", "::", "")  # noqa: S104  (a comparison, not a binding)
        own = () if self._any_address else (options.host,)
        public = urlsplit(options.public_url or "")
        names = (*own, *options.allowed_hosts, public.hostname or "")
        self._names = LOOPBACK | {name.lower() for name in names if name}
        if self._any_address:
            self._names |= {socket.gethostname().lower()}
        self._origins = {origin.lower().rstrip("/") for origin in options.allowed_origins}
        if public.netloc:
            self._origins.add(f"{public.scheme}://{public.netloc}".lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        own = {f"http://{host}", f"https://{host}", *self._origins}
        foreign = [origin for origin in headers.getlist("origin") if origin.lower() not in own]
        if not self._known(host):
            refusal = f"Host {host[:100] or '(none)'} is not served here. List it in http_hosts to use it."
            await JSONResponse({"error": refusal}, 421)(scope, receive, send)
        elif foreign:
            refusal = f"Origin {foreign[0][:100]} may not call this server. List it in http_origins to let it."
            await JSONResponse({"error": refusal}, 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _known(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found["address"] or found["name"]).rstrip(".")
        return name in self._names or host in self._names or (self._any_address and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def listen(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, reuse_port=False)
    except OSError as error:
        raise SettingsError(
            f"Could not listen on {options.host} port {options.port}: {error.strerror or error}.",
            "Choose another --port (0 picks a free one), or stop what uses it.",
        ) from error
    # Connections inherit it. asyncio sets it only where a socket names its protocol, which a listener's own don't:
    # without it each answer, headers and body in two writes, waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
