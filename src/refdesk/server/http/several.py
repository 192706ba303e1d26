"""Several processes serving one port.

The first process accepts connections and hands them to the workers in turn; it does nothing else, so it always reacts
to signals. A session belongs to the worker that opened it, whose number is the end of its id; a request that reaches
another worker is forwarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import select
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refdesk.errors import SettingsError
from refdesk.server.dispatcher import Dispatcher
from refdesk.server.http.transport import (
    GracefulServer,
    address,
    build_app,
    listen,
    require_auth_off_loopback,
    server_config,
)
from refdesk.server.messages import InvalidMessage
from refdesk.server.process import KILL_AFTER_S, JsonFormatter, ServerOptions, log_to_stderr
from refdesk.system import metrics

if TYPE_CHECKING:
    from refdesk.toolsets.contract import Toolset

logger = logging.getLogger(__name__)

RESTART_AFTER_S = 1.0  # so that a worker that can't start does not keep a core busy
_OWN = b"own"  # the query by which a worker asks another for its own figures
_SCRAPE_S = 3.0  # more than a worker that goes on takes for them
_OWNER = re.compile(r"\.(\d{1,3})$")
_MESSAGES = re.compile(r"^/messages/(\d{1,3})/")
_OF_THE_HOP = frozenset({b"connection", b"transfer-encoding", b"keep-alive", b"date", b"server"})


@dataclass(slots=True)
class Worker:
    """A serving process and the channel that hands it connections."""

    pid: int
    channel: socket.socket
    begun: float


def serve_several(make_toolsets: Callable[[], Sequence[Toolset]], options: ServerOptions) -> int:
    """Serves HTTP in several processes until told to stop; returns the exit code."""
    if not hasattr(os, "fork"):
        raise SettingsError("Several serving processes need a system that can fork.", "Leave --workers out.")
    require_auth_off_loopback(options)
    # No threads here, since this process forks at any time; a full pipe must not block it.
    logging.basicConfig(level=options.log_level.upper(), handlers=[_DirectHandler()], force=True)
    front = Front(make_toolsets, options)
    try:
        return front.run()
    finally:
        shutil.rmtree(front.folder, ignore_errors=True)


class _DirectHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            if select.select([], [2], [], 0)[1]:
                os.write(2, self.format(record).encode() + b"\n")


class Front:
    """The accepting process; restarts workers that end."""

    def __init__(self, make_toolsets: Callable[[], Sequence[Toolset]], options: ServerOptions) -> None:
        self._make_toolsets = make_toolsets
        self._options = options
        self._listening = listen(options)
        self._url = address(options, self._listening)
        self.folder = Path(tempfile.mkdtemp(prefix="refdesk-"))
        self._workers: dict[int, Worker] = {}
        self._turn = 0
        self._told, self._tell = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._stopping = False

    def run(self) -> int:
        for end in (self._told, self._tell, self._listening):
            end.setblocking(False)
        signal.set_wakeup_fd(self._tell.fileno(), warn_on_full_buffer=False)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        self._selector.register(self._told, selectors.EVENT_READ)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        for number in range(self._options.processes):
            self._start(number)
        logger.info("listening", extra={"url": self._url, "processes": self._options.processes})
        while not self._stopping:
            for key, _ in self._selector.select():
                if key.data is not None and not self._stopping:
                    key.data()
        return self._end()

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return  # closed already, or out of descriptors
        with connection:
            for _ in range(len(self._workers)):
                self._turn += 1
                worker = self._workers[self._turn % len(self._workers)]
                try:
                    socket.send_fds(worker.channel, [b"."], [connection.fileno()])
                except OSError:
                    continue  # its channel is full, or it has just ended: try the next one
                return

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become(number, theirs)
        theirs.close()
        ours.setblocking(False)
        self._workers[number] = Worker(pid, ours, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._restart(number))

    def _restart(self, number: int) -> None:
        worker = self._workers[number]
        self._selector.unregister(worker.channel)
        worker.channel.close()
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        logger.critical("a worker process ended: restarting it", extra={"pid": worker.pid, "exit": code})
        time.sleep(max(0.0, RESTART_AFTER_S - (time.monotonic() - worker.begun)))
        if not self._stopping:
            self._start(number)

    def _become(self, number: int, channel: socket.socket) -> None:
        """Runs a worker in the forked process; never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_DFL)
            self._selector.close()
            for other in (self._listening, self._told, self._tell, *(each.channel for each in self._workers.values())):
                other.close()
            log = log_to_stderr(self._options.log_level)
            dispatcher = Dispatcher(self._make_toolsets, self._options)
            places = [self.folder / str(each) for each in range(self._options.processes)]
            app = SessionRouter(build_app(dispatcher, self._url, number), number, places)
            places[number].unlink(missing_ok=True)
            forwarded = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # where other workers forward requests
            forwarded.bind(str(places[number]))
            ChannelServer(server_config(app, self._options), channel).run(sockets=[forwarded])
            dispatcher.stop()
            log.drain()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)

    def _end(self) -> int:
        """Stops the workers by SIGTERM, and by SIGKILL those that do not end in time."""
        pids = {worker.pid for worker in self._workers.values()}
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + KILL_AFTER_S
        while pids and time.monotonic() < until:
            pids = {pid for pid in pids if os.waitpid(pid, os.WNOHANG)[0] == 0}
            time.sleep(0.02)
        for pid in pids:
            logger.error("a worker process did not stop and was killed", extra={"pid": pid})
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return 0


class ChannelServer(GracefulServer):
    """A server that receives its connections over a channel and stops when that closes."""

    def __init__(self, config: uvicorn.Config, channel: socket.socket) -> None:
        super().__init__(config)
        channel.setblocking(False)
        self._channel = channel
        self._taking: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        asyncio.get_running_loop().add_reader(self._channel, self._take)

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            data, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
        except BlockingIOError:
            return
        if not data:
            loop.remove_reader(self._channel)
            self.should_exit = True
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    def _protocol(self) -> asyncio.Protocol:
        made: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = made(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


class SessionRouter:
    """Forwards a request to the worker that owns its session."""

    def __init__(self, app: ASGIApp, own: int, places: Sequence[Path]) -> None:
        self._app = app
        self._own = own
        self._places = places
        self._clients: dict[int, httpx.AsyncClient] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/metrics"):
            figures = "" if scope["query_string"] == _OWN else await self._figures(Request(scope))
            answer = PlainTextResponse(figures, media_type=metrics.MEDIA_TYPE) if figures else self._app
            await answer(scope, receive, send)
            return
        owner = self._owner(scope) if scope["type"] == "http" else self._own
        if owner == self._own or owner >= len(self._places):
            await self._app(scope, receive, send)
            return
        passing = asyncio.ensure_future(self._pass_on(owner, Request(scope, receive), send))
        leaving = asyncio.ensure_future(_left(receive)) if scope["method"] == "GET" else None
        try:
            await asyncio.wait([passing, *([leaving] if leaving else [])], return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
        finally:
            for task in (passing, leaving):
                if task is not None:
                    task.cancel()

    def _owner(self, scope: Scope) -> int:
        session = Headers(scope=scope).get("mcp-session-id", "")
        found = _OWNER.search(session) or _MESSAGES.match(scope["path"])
        return int(found[1]) if found else self._own

    def _client(self, owner: int) -> httpx.AsyncClient:
        if owner not in self._clients:
            any_number = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            transport = httpx.AsyncHTTPTransport(uds=str(self._places[owner]), limits=any_number)
            # No timeout: answers of this process have none either.
            self._clients[owner] = httpx.AsyncClient(transport=transport, timeout=None)  # noqa: S113
        return self._clients[owner]

    async def _figures(self, request: Request) -> str:
        """What each worker has counted, but for those that do not answer; "" if none may be told."""
        target = f"http://localhost/metrics?{_OWN.decode()}"

        async def ask(worker: int) -> str:
            with contextlib.suppress(httpx.TransportError):
                answer = await self._client(worker).get(target, headers=request.headers.raw, timeout=_SCRAPE_S)
                return answer.text if answer.status_code == 200 else ""
            return ""

        return metrics.united(await asyncio.gather(*map(ask, range(len(self._places)))))

    async def _pass_on(self, owner: int, request: Request, send: Send) -> None:
        client = self._client(owner)
        target = request.url.replace(scheme="http", netloc="localhost")
        content = request.stream() if request.method == "POST" else None
        asked = client.build_request(request.method, str(target), headers=request.headers.raw, content=content)
        try:
            answer = await client.send(asked, stream=True)
        except httpx.TransportError:
            gone = InvalidMessage(-32600, "Session not found: the process that held it has ended. Begin a new session.")
            await JSONResponse(gone.to_json(), 404)(request.scope, request.receive, send)
            return
        try:
            headers = [(name.lower(), value) for name, value in answer.headers.raw]
            kept = [pair for pair in headers if pair[0] not in _OF_THE_HOP]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
            async for part in answer.aiter_raw():
                await send(_body(part, more=True))
            await send(_body(b"", more=False))
        finally:
            await answer.aclose()


def _body(part: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": part, "more_body": more}


async def _left(receive: Receive) -> None:
    """Waits until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        continue
