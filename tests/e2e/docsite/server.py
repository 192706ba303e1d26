"""Serves a built site on loopback, with what real sites do to crawlers, and counts what was asked."""

from __future__ import annotations

import gzip
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
            return Reply(b"<h1>Not found</h1>", 404, etag=False)
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


def make_nasty(site: Site) -> None:
    """Adds everything that makes crawling hard."""
    start = site.reply("/").body
    site.forget()
    links = (
        "/retries/?utm_source=mail&utm_campaign=x", "/retries/#the-schedule", "/loop/a", "/heals", "/slow", "/huge",
        "/latin1", "/copy", "/named-elsewhere", "/private/secret", "/moved", "/away", "/app", "/picture.png",
        "/refresh",
        "/noindex", "/big.bin", "/markdown.md", "/self", "/print/1", "mailto:someone@example.org", "javascript:void(0)",
        "http://169.254.169.254/latest/meta-data/", "/broken", "//", "http://[::1", "/inner", "/b%C3%BCcher",
    )  # fmt: skip
    site.routes |= {
        "/hub": page("Hub", "<h1>Hub</h1><p>Where the odd pages are listed, one after another, for crawlers.</p>"
                     + "".join(f"<p><a href='{link}'>leads somewhere</a></p>" for link in links)),
        "/robots.txt": Reply(
            f"User-agent: *\nDisallow: /private/\nSitemap: {site.root}sitemap-index.xml\n".encode(),
            content_type="text/plain",
        ),
        "/sitemap-index.xml": Reply(
            f'<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>'
            f"{site.root}sitemap-pages.xml.gz</loc></sitemap></sitemapindex>".encode(),
            content_type="application/xml",
        ),
        "/sitemap-pages.xml.gz": Reply(
            gzip.compress(
                f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
                f"<url><loc>{site.root}only-in-sitemap</loc></url><url><loc>{site.root}hub</loc></url>"
                f"<url><loc>http://elsewhere.invalid/x</loc></url></urlset>".encode()
            ),
            content_type="application/gzip",
        ),
        "/only-in-sitemap": page("Hidden", "<h1>Hidden</h1><p>Nobody links to the bioluminescent anglerfish page.</p>"),
        "/llms.txt": Reply(
            b"# Lanternfish\n\n- [Only here](/only-in-llms.md): nowhere else\n- [Retries](/retries.md)\n",
            content_type="text/plain",
        ),
        "/only-in-llms.md": Reply(
            b"# Only here\n\nThe viperfish page is known to llms.txt alone.\n", content_type="text/markdown"
        ),
        "/llms-full.txt": Reply(
            b"# Lanternfish\n\nLanternfish is a small job queue for services that already have a database.\n",
            content_type="text/plain",
        ),
        "/loop/a": Reply(status=302, headers={"Location": "/loop/b"}),
        "/loop/b": Reply(status=302, headers={"Location": "/loop/a"}),
        "/heals": _healing(),
        "/slow": _slow,
        "/huge": page("Huge", "<h1>Huge</h1>" + "<p>gulper eel</p>" * 60_000),
        "/latin1": Reply(
            "<html><head><title>Größe</title></head><body><main><h1>Größe</h1>"
            "<p>Die Größe der Fische ist für Köche überraschend klein und führt zu Ärger.</p></main></body></html>"
            .encode("latin-1"),
            content_type="text/html; charset=iso-8859-1",
        ),
        "/copy": Reply(start),
        "/named-elsewhere": page(
            "Retries", "<h1>Hub</h1><p>Where the odd pages are listed, one after another, for crawlers.</p>",
            f"<link rel='canonical' href='{site.root}hub'>",
        ),
        "/private/secret": page("Secret", "<h1>Secret</h1><p>Nobody may read about the kraken.</p>"),
        "/moved": Reply(status=301, headers={"Location": "/arrived"}),
        "/arrived": page("Arrived", "<h1>Arrived</h1><p>The redirect led to the blobfish.</p>"),
        "/away": Reply(status=302, headers={"Location": "http://169.254.169.254/latest/"}),
        "/inner": Reply(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        "/app": Reply(
            b"<html><head><title>App</title></head><body><noscript>Please enable JavaScript.</noscript>"
            b"<div id='root'></div><script src='/app.js'></script></body></html>"
        ),
        "/app.js": Reply(
            b"document.getElementById('root').innerHTML = '<main><h1>Rendered</h1><p>' + "
            b"'The stoplight loosejaw is only shown to browsers that run scripts. '.repeat(5) + '</p></main>';",
            content_type="text/javascript",
        ),
        "/refresh": page("Go on", "", "<meta http-equiv='refresh' content='0; url=/arrived'>"),
        "/noindex": page("Draft", "<p>Unfinished barreleye.</p>", "<meta name='robots' content='noindex'>"),
        "/big.bin": Reply(b"\0" * 1000, content_type="application/octet-stream"),
        "/markdown.md": Reply(b"# Notes\n\nWritten by hand about the tripod fish.\n", content_type="text/markdown"),
        "/self": Reply(status=301, headers={"Location": "/self"}),
        "/print/1": page("Print", "<h1>Print</h1><p>Excluded by a pattern: the fangtooth.</p>"),
        "/b%C3%BCcher": page("Books", "<h1>Books</h1><p>An address with an umlaut about the oarfish.</p>"),
        "/broken": Reply(b"", 500, etag=False),
    }  # fmt: skip
    index = start.replace(b"</body>", b"<a href='/hub'>hub</a></body>")
    site.routes["/"] = Reply(index)
    site.routes["/copy"] = Reply(index)


def _healing() -> Callable[[], Reply]:
    failures = iter((500, 503))

    def reply() -> Reply:
        status = next(failures, 200)
        if status != 200:
            return Reply(b"", status, etag=False, headers={"Retry-After": "0"})
        return page("Heals", "<h1>Heals</h1><p>Back again after failing twice: the hatchetfish.</p>")

    return reply


def _slow() -> Reply:
    threading.Event().wait(0.7)
    return page("Slow", "<h1>Slow</h1><p>Worth waiting for: the sleeper shark.</p>")
