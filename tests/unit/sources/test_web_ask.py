"""One request as a crawl makes it: every status is told, redirects are not followed, and HTTP/2 is spoken."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import h2.config
import h2.connection
import h2.events
import pytest

from refdesk.crawl.site import is_page_type
from refdesk.errors import InvalidUri, LoadFailed
from refdesk.sources.web import Fetched, WebClient
from tests.e2e.docsite.server import Reply, Site, page


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        yield served


def ask(url: str, *, allow: str = "127.0.0.1", max_bytes: int = 10_000, any_type: bool = False) -> Fetched:
    async def once() -> Fetched:
        async with WebClient(allow_hosts=(allow,), max_bytes=max_bytes, timeout_s=5) as client:
            return await client.ask(url, wants=None if any_type else is_page_type)

    return anyio.run(once)


def test_statuses_and_redirects_are_told_not_followed(site: Site) -> None:
    site.routes |= {
        "/moved": Reply(status=301, headers={"Location": "new?x=1#y"}),
        "/new?x=1": page("New", "new"),
        "/broken": Reply(b"oh no", 500),
    }
    moved = ask(site.url("/moved"))
    assert (moved.status, moved.location) == (301, site.url("/new?x=1"))
    assert not site.asked["/new?x=1"]
    assert ask(site.url("/broken")).status == 500
    assert ask(site.url("/nothing")).status == 404


def test_addresses_inside_are_refused_before_anything_is_sent(site: Site) -> None:
    with pytest.raises(InvalidUri, match="loopback"):
        ask(site.url("/"), allow="other.example")
    with pytest.raises(InvalidUri, match="metadata"):
        ask("http://169.254.169.254/latest/")
    with pytest.raises(InvalidUri):
        ask("file:///etc/passwd")
    assert not site.asked


def test_what_is_not_read(site: Site) -> None:
    site.routes |= {
        "/image": Reply(b"\x89PNG", content_type="image/png"),
        "/large": Reply(b"x" * 20_000),
        "/binary": Reply(b"\0\1\2" * 100, content_type="application/octet-stream"),
        "/style": Reply(b"a{}", content_type="text/css"),
        "/feed": Reply(b"<rss/>", content_type="application/rss+xml"),
    }
    assert ask(site.url("/image")).unread == "not a text: image/png"
    assert "larger" in ask(site.url("/large")).unread
    assert ask(site.url("/binary")).unread
    assert ask(site.url("/style")).unread and ask(site.url("/feed")).unread
    assert ask(site.url("/image"), any_type=True).data == b"\x89PNG"


def test_a_server_that_hangs_up(site: Site) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(LoadFailed, match="reached"):
        ask(f"http://127.0.0.1:{port}/")


def test_a_name_is_asked_at_the_addresses_it_was_vetted_with(site: Site) -> None:
    site.routes["/"] = page("Start", "here")
    port = site.address.rpartition(":")[2]

    async def once(address: str, allow: str) -> Fetched:
        client = WebClient(
            allow_hosts=(allow,), max_bytes=1000, timeout_s=5, resolve=lambda host, port: ["127.0.0.1", address]
        )
        async with client:
            return await client.ask(f"http://docs.test:{port}/")

    assert anyio.run(once, "127.0.0.1", "docs.test").status == 200
    with pytest.raises(InvalidUri, match="loopback"):
        anyio.run(once, "203.0.113.5", "other.test")
    assert site.asked["/"] == 1


def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.routes["/"] = page("Start", "here")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert ask(site.url("/")).status == 200


def test_as_many_requests_as_are_made_are_under_way_at_once(site: Site) -> None:
    together = threading.Barrier(20)

    def wait_for_all() -> Reply:
        together.wait(10)
        return page("Together", "x")

    site.routes["/together"] = wait_for_all
    statuses: list[int] = []

    async def many() -> None:
        async with WebClient(allow_hosts=("127.0.0.1",), max_bytes=10_000, timeout_s=20) as client:

            async def one() -> None:
                statuses.append((await client.ask(site.url("/together"))).status)

            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(one)

    anyio.run(many)
    assert statuses == [200] * 20


def test_a_request_that_is_given_up_leaves_nothing_behind(site: Site) -> None:
    go_on = threading.Event()
    site.routes |= {"/slow": lambda: page("Slow", "x") if go_on.wait(10) else Reply(b""), "/": page("Start", "here")}

    async def impatient() -> int:
        async with WebClient(allow_hosts=("127.0.0.1",), max_bytes=10_000, timeout_s=20) as client:
            with anyio.move_on_after(0.2):
                await client.ask(site.url("/slow"))
            status = (await client.ask(site.url("/"))).status
            go_on.set()
            return status

    assert anyio.run(impatient) == 200


# --- HTTP/2 ---------------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def serve_h2(listener: socket.socket, context: ssl.SSLContext, seen: list[str]) -> None:
    """Fetcheds every request of one connection in HTTP/2."""
    plain, _ = listener.accept()
    with context.wrap_socket(plain, server_side=True) as wire:
        seen.append(wire.selected_alpn_protocol() or "")
        speaker = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        speaker.initiate_connection()
        wire.sendall(speaker.data_to_send())
        while data := wire.recv(65_536):
            for event in speaker.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    seen.append(dict(event.headers)[b":path"].decode())
                    speaker.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/html")])
                    speaker.send_data(event.stream_id, b"<p>by h2</p>", end_stream=True)
            wire.sendall(speaker.data_to_send())


def test_certificates_are_checked(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    def refuse(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as wire:
            wire.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=refuse, args=(listener,), daemon=True)
        server.start()

        async def once() -> Fetched:
            client = WebClient(
                allow_hosts=("localhost",), max_bytes=1000, timeout_s=10, resolve=lambda host, port: ["127.0.0.1"]
            )
            async with client:
                return await client.ask(f"https://localhost:{listener.getsockname()[1]}/")

        with pytest.raises(LoadFailed, match="certificate"):
            anyio.run(once)
        server.join(10)


def test_http_2_over_one_connection(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve_h2, args=(listener, context, seen), daemon=True)
        server.start()
        root = f"https://localhost:{listener.getsockname()[1]}/"

        async def several() -> list[bytes]:
            client = WebClient(
                allow_hosts=("localhost",),
                max_bytes=1000,
                timeout_s=10,
                ssl_context=ssl.create_default_context(cafile=str(cert)),
                resolve=lambda host, port: ["127.0.0.1"],
            )
            async with client:
                return [(await client.ask(root + name)).data for name in ("a", "b", "c")]

        assert anyio.run(several) == [b"<p>by h2</p>"] * 3
        server.join(10)
    assert seen == ["h2", "/a", "/b", "/c"]
