"""Where do log lines go?  To stderr, one JSON object a line, each with its call's correlation id."""

from __future__ import annotations

import atexit
import json
import logging
import queue
import sys
import threading
import time
from contextvars import ContextVar

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
