"""Serves a built site on loopback, with what real sites do to crawlers, and counts what was asked."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

_TYPES = {".html": "text/html; charset=utf-8", ".txt": "text/plain; charset=utf-8", ".xml": "application/xml"}


@dataclass(slots=True)
class Reply:
    """What the server says to one path."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    etag: bool = True


Route = Reply | Callable[[], Reply]


def page(title: str, body: str, head: str = "") -> Reply:
    """A plain page."""
    html = f"<!doctype html><html><head><title>{title}</title>{head}</head><body><main>{body}</main></body></html>"
    return Reply(html.encode())


class Site:
    """Files of a folder, and routes that come first; every request for a path is counted."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.routes: dict[str, Route] = {}
        self.asked: Counter[str] = Counter()
        self.statuses: dict[str, list[int]] = {}
        self.connections = 0
        self.endless: Callable[[str], Reply | None] = lambda path: None  # where neither a route nor a file answers
        self.on_request: Callable[[str], None] = lambda path: None
        self._mutex = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Site:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, path: str) -> str:
        return self.root + path.lstrip("/")

    def forget(self) -> None:
        """Starts counting anew."""
        self.asked.clear()
        self.statuses.clear()

    def reply(self, path: str) -> Reply:
        with self._mutex:
            self.asked[path] += 1
        self.on_request(path)
        route = self.routes.get(path)
        if route is not None:
            return route() if callable(route) else route
        file = self._file(path)
        if file is None:
            return self.endless(path) or Reply(b"<h1>Not found</h1>", 404, etag=False)
        return Reply(file.read_bytes(), content_type=_TYPES.get(file.suffix, "application/octet-stream"))

    def note(self, path: str, status: int) -> None:
        with self._mutex:
            self.statuses.setdefault(path, []).append(status)

    def _file(self, path: str) -> Path | None:
        if self.folder is None:
            return None
        name = urlsplit(path).path.lstrip("/")
        file = self.folder / (name + "index.html" if not name or name.endswith("/") else name)
        return file if file.is_file() else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error here."""


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer

        def setup(self) -> None:
            super().setup()
            site.connections += 1

        def do_GET(self) -> None:
            reply = site.reply(self.path)
            tag = f'"{hashlib.md5(reply.body).hexdigest()}"'
            same = reply.etag and reply.status == 200 and self.headers.get("If-None-Match") == tag
            status = 304 if same else reply.status
            body = b"" if same else reply.body
            site.note(self.path, status)
            self.send_response(status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(body)))
            if reply.etag and reply.status == 200:
                self.send_header("ETag", tag)
            for key, value in reply.headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    return Handler
