"""Real servers on the loopback interface."""

from __future__ import annotations

import gzip
import ssl
import threading
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Site(BaseHTTPRequestHandler):
    """Answers by path; what it was asked is kept in `asked`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, LocalSite)
        server.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        name, _, rest = self.path.lstrip("/").partition("/")
        getattr(self, "answer_" + name.partition("?")[0].replace(".", "_"), self.missing)(rest)

    def log_message(self, *_: object) -> None:
        pass

    def send(self, data: bytes, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def missing(self, rest: str) -> None:
        self.send(b"no", status=404)

    def answer_page(self, rest: str) -> None:
        if self.headers.get("If-None-Match") == '"v1"':
            self.send_response(304)
            self.send_header("ETag", '"v1"')
            self.end_headers()
            return
        self.send(b"<h1>Page</h1>", ETag='"v1"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")

    def answer_latin(self, rest: str) -> None:
        self.send("café".encode("latin-1"), "text/plain; charset=ISO-8859-1")

    def answer_odd(self, rest: str) -> None:
        self.send(b"x", 'text/plain; charset="no-such"')

    def answer_to(self, rest: str) -> None:
        self.send(b"", status=302, Location=rest)

    def answer_loop(self, rest: str) -> None:
        self.send(b"", status=301, Location="/loop")

    def answer_count(self, rest: str) -> None:
        self.send(b"", status=307, Location=f"/count/{int(rest) - 1}" if int(rest) > 1 else "/page")

    def answer_huge(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 65_536)
        except OSError:
            self.close_connection = True

    def answer_declared(self, rest: str) -> None:
        self.send(b"x", "text/plain", Content_Length=str(10**12))
        self.close_connection = True

    def answer_bomb(self, rest: str) -> None:
        self.send(gzip.compress(bytes(50_000_000)), "text/plain", Content_Encoding="gzip")

    def answer_gzip(self, rest: str) -> None:
        self.send(gzip.compress(b"one ") + gzip.compress(b"two"), "text/plain", Content_Encoding="gzip")

    def answer_deflate(self, rest: str) -> None:
        packed = zlib.compress(b"text" * 100)
        self.send(packed[2:-4] if rest == "bare" else packed, "text/plain", Content_Encoding="deflate")

    def answer_cut(self, rest: str) -> None:
        self.send(gzip.compress(b"text" * 1000)[:-10], "text/plain", Content_Encoding="gzip")

    def answer_brotli(self, rest: str) -> None:
        self.send(b"x", "text/plain", Content_Encoding="br")

    def answer_drip(self, rest: str) -> None:
        server = self.server
        assert isinstance(server, LocalSite)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "90000")
        self.end_headers()
        try:
            while not server.closing.wait(0.02):
                self.wfile.write(b"x")
        except OSError:
            pass
        self.close_connection = True

    def answer_silent(self, rest: str) -> None:
        server = self.server
        assert isinstance(server, LocalSite)
        server.closing.wait(60)
        self.close_connection = True

    def answer_image(self, rest: str) -> None:
        self.send(b"\x89PNG", "image/png")

    def answer_raw(self, rest: str) -> None:
        self.send(b"fn main() {}" if rest == "text" else b"a\0b", "application/octet-stream")

    def answer_astray(self, rest: str) -> None:
        self.send(b"", status=302)

    def answer_error(self, rest: str) -> None:
        self.send(b"broken", status=500)


class LocalSite(ThreadingHTTPServer):
    """A server that stops even when a handler waits."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Site)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.names: list[str | None] = []
        self.closing = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def serve(site: LocalSite) -> Iterator[LocalSite]:
    thread = threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield site
    site.closing.set()
    site.shutdown()
    thread.join()
    site.server_close()


@pytest.fixture
def site() -> Iterator[LocalSite]:
    yield from serve(LocalSite())


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of site.test with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "site.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("site.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "site.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@pytest.fixture
def secure_site(certificate: Path) -> Iterator[LocalSite]:
    site = LocalSite()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _socket, name, _context: site.names.append(name)
    site.socket = context.wrap_socket(site.socket, server_side=True)
    yield from serve(site)
