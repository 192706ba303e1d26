"""How does the server end in time, whatever its threads do?"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import select
import signal
import sys
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

# What can be set about serving?

Transport = Literal["stdio", "http", "sse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """Whose tokens are good here: RefDesk is the resource server, `issuer` the authorization server."""

    issuer: str
    audience: str
    scopes: tuple[str, ...] = ()
    jwks_uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How to serve; `allowed_hosts` and `allowed_origins` add to the names under which HTTP answers."""

    name: str = "refdesk"
    version: str = "0"
    title: str = "RefDesk"
    instructions: str | None = None
    transport: Transport = "stdio"
    host: str = "127.0.0.1"
    port: int = 8765
    auth_token: str | None = field(default=None, repr=False)
    oauth: OAuth | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    public_url: str | None = None
    prompts: bool = False
    log_level: str = "info"
    max_message_bytes: int = 16 * 1024 * 1024
    workers: int = 16
    task_workers: int = 4
    poll_seconds: float = 2.0
    page_size: int = 100
    check_outputs: bool = False
    task_poll_ms: int = 500
    max_task_ttl_ms: int = 24 * 60 * 60 * 1000
    max_tasks_per_client: int = 64
    roots_timeout_s: float = 5.0
    ask_timeout_s: float = 300.0
    session_idle_s: float = 30 * 60.0
    max_sessions: int = 500  # each takes 40 kB: the tasks and streams that the SDK keeps for it
    processes: int = 1
    state_key: bytes = field(default_factory=partial(os.urandom, 32), repr=False)  # seals what clients bring back
    exit_grace_s: float = 2.0


# Where do log lines go?  To stderr, one JSON object a line, each with its call's correlation id.

correlation: ContextVar[str | None] = ContextVar("refdesk_correlation_id", default=None)

_NEVER_EXTRA = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in _NEVER_EXTRA}
        line.setdefault("correlation_id", correlation.get())
        if line["correlation_id"] is None:
            del line["correlation_id"]
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Stderr(logging.Handler):
    """Writes from a thread of its own, so a client that never reads our stderr can't stall a call.

    The line is formatted where it is logged, since the correlation id is known there; when too many wait, lines drop.
    """

    def __init__(self, waiting: int = 10_000) -> None:
        super().__init__()
        self._lines: queue.Queue[str | None] = queue.Queue(waiting)
        self._writer = threading.Thread(target=self._write, name="refdesk-log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            return
        except Exception:
            self.handleError(record)

    def drain(self, seconds: float = 1.0) -> None:
        """Waits a little for what is still to be written, then stops the writer."""
        try:
            self._lines.put(None, timeout=seconds)
        except queue.Full:
            return
        self._writer.join(seconds)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                return


def log_to_stderr(level: str) -> Stderr:
    """The handler that from now on writes everything logged in this process, at `level` and above."""
    handler = Stderr()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    # The SDK narrates each message; only its trouble is news here.
    for name in ("mcp", "sse_starlette", "httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("mcp.server.sse").setLevel(logging.ERROR)  # its warnings repeat what stands in the query
    atexit.register(handler.drain)
    return handler


LATEST_S = 4.5
READY = b"\0"

_tell = -1  # the way to the process that looks on


def end_in_time() -> None:
    """Starts a process that kills this one where it is still there 4.5 s after it was told to stop.

    A thread inside native code may hold Python's lock; then nothing runs here, no signal handler and no timer. But the
    interpreter's C code still writes the signal's number to a pipe. Called before there are threads, since it forks.
    """
    if not hasattr(os, "fork"):
        return
    told, tell = os.pipe()
    server = os.getpid()
    if os.fork() == 0:
        try:
            _watch(server, told)
        finally:
            os._exit(0)
    os.close(told)
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    global _tell
    _tell = tell


def answered() -> None:
    """From now on the end of stdin is a sign to stop; before, what came with it waits for the server to start."""
    if _tell >= 0:
        os.write(_tell, READY)


def _watch(server: int, told: int) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    os.closerange(1, told)
    os.closerange(told + 1, 256)
    poll = select.poll()
    poll.register(told, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            break
        said = os.read(told, 64)
        if not said:
            return  # it has ended
        if READY in said:
            poll.register(0, getattr(select, "POLLRDHUP", 0))
        if signal.SIGTERM in said or signal.SIGINT in said:
            break
    until = time.monotonic() + LATEST_S
    while os.getppid() == server:
        if time.monotonic() > until:
            os.kill(server, signal.SIGKILL)
        time.sleep(0.02)
