"""The server process: its options, its log, its threads, and the watchdog that ends it in time."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import json
import logging
import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

Transport = Literal["stdio", "http", "sse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """Which tokens are accepted: RefDesk is the resource server, `issuer` the authorization server."""

    issuer: str
    audience: str
    scopes: tuple[str, ...] = ()


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
    console: bool = False  # pages for people at /
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
    max_sessions: int = 500  # measured: 40 kB each, for the SDK's tasks and streams
    processes: int = 1
    state_key: bytes = field(default_factory=partial(os.urandom, 32), repr=False)  # seals clients' state
    exit_grace_s: float = 2.0


# Logging: one JSON object a line on stderr, with the correlation id of the call.

correlation: ContextVar[str | None] = ContextVar("refdesk_correlation_id", default=None)

_NEVER_EXTRA = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}


class JsonFormatter(logging.Formatter):
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


class StderrHandler(logging.Handler):
    """Writes log lines from its own thread, so that a client that never reads stderr can't block a call.

    A line is formatted by the logging thread, which knows the correlation id; lines are dropped when the queue is full.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="refdesk-log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._lines.qsize() < 10_000:
                self._lines.put(self.format(record))
        except Exception:
            self.handleError(record)

    def drain(self) -> None:
        """Flushes the queue, waiting at most a second, and stops the writer."""
        self._lines.put(None)
        self._writer.join(1.0)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                return


def log_to_stderr(level: str) -> StderrHandler:
    """Sends all log messages of this process at `level` and above to stderr; returns the handler."""
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    # The SDK logs every message at INFO; only its warnings matter here.
    for name in ("mcp", "sse_starlette", "httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("mcp.server.sse").setLevel(logging.ERROR)  # its warnings repeat the query string
    atexit.register(handler.drain)
    return handler


# Clients commonly wait 5 s after they close stdin or send SIGTERM.
KILL_AFTER_S = 4.5
READY = b"\0"

_watchdog_pipe = -1  # the pipe to the watchdog process


def start_shutdown_watchdog() -> None:
    """Forks a watchdog that kills this process if it still runs `KILL_AFTER_S` after it was told to stop.

    A thread inside native code may hold the GIL, and then no signal handler and no timer runs here; the interpreter's C
    code still writes the signal's number to the wakeup pipe. Call it before any thread is started, since it forks.
    """
    if not hasattr(os, "fork"):
        return
    reading, writing = os.pipe()
    server = os.getpid()
    if os.fork() == 0:
        try:
            _watch(server, reading)
        finally:
            os._exit(0)
    os.close(reading)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    global _watchdog_pipe
    _watchdog_pipe = writing


def first_answer_sent() -> None:
    """Makes the watchdog treat the end of stdin as a request to stop; until then, input may be waiting for startup."""
    if _watchdog_pipe >= 0:
        os.write(_watchdog_pipe, READY)


def _watch(server: int, reading: int) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    os.closerange(1, reading)
    os.closerange(reading + 1, 256)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            break
        received = os.read(reading, 64)
        if not received:
            return  # the server has ended
        if READY in received:
            poll.register(0, getattr(select, "POLLRDHUP", 0))
        if signal.SIGTERM in received or signal.SIGINT in received:
            break
    until = time.monotonic() + KILL_AFTER_S
    while os.getppid() == server:
        if time.monotonic() > until:
            os.kill(server, signal.SIGKILL)
        time.sleep(0.02)


T = TypeVar("T")


class ThreadPool:
    """Up to `limit` daemon threads, started on demand.

    The standard pools join their threads at exit, so a handler that never returns would keep the process alive.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._threads = 0
        self._pending = 0

    @property
    def pending(self) -> int:
        """The number of jobs that are queued or running."""
        return self._pending

    def submit(self, job: Callable[[], None]) -> None:
        """Queues `job`, which must not raise."""
        with self._changed:
            self._pending += 1
            if self._pending > self._threads and self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._jobs.put(job)

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` in a thread and returns its result; cancelling the caller does not stop the work."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(how: Callable[[Any], None], value: Any) -> None:
            if not done.done():
                how(value)

        def job() -> None:
            try:
                outcome: tuple[Callable[[Any], None], Any] = (done.set_result, context.run(work))
            except BaseException as error:
                outcome = (done.set_exception, error)
            try:
                loop.call_soon_threadsafe(settle, *outcome)
            except RuntimeError:
                return  # the loop has closed: nobody waits for the result

        self.submit(job)
        return await done

    def wait_idle(self, seconds: float) -> bool:
        """Waits for all jobs to end; returns whether they did within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            job()
            del job
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()
