"""Who may come in over HTTP?"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from refdesk.errors import SettingsError
from refdesk.server import OAuth, ServerOptions
from refdesk.server.http.transport import HostGuard, require_auth_off_loopback
from tests.mcp_client.http import ACCEPT, HttpClient
from tests.server.conftest import Serve
from tests.server.test_http import HELLO, Connect


def status(client: HttpClient, **headers: str) -> int:
    return client.post(HELLO, headers).status_code


def test_a_token_is_demanded_where_one_is_set(serve_http: Serve, connect: Connect) -> None:
    server = serve_http("--token", "s3cret")
    client = connect(server.url)
    refused = client.post(HELLO)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer ")
    assert status(client, authorization="Bearer wrong") == 401
    assert status(client, authorization="Bearer s3cret2") == 401
    assert status(client, authorization="Basic s3cret") == 401
    assert status(client, authorization="Bearer s3cret") == 200
    assert httpx.get(server.root + "/sse").status_code == 401
    assert httpx.post(server.root + "/messages/?session_id=0", json={}).status_code == 401
    assert httpx.get(server.root + "/healthz").status_code == 200
    assert not any("s3cret" in line for line in server.log)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_an_open_door_is_refused_with_an_explanation(host: str) -> None:
    with pytest.raises(SettingsError, match=r"Refusing to listen .* Set --auth-token \(or REFDESK_AUTH_TOKEN\)"):
        require_auth_off_loopback(ServerOptions(host=host))
    require_auth_off_loopback(ServerOptions(host=host, auth_token="x"))
    require_auth_off_loopback(ServerOptions(host=host, oauth=OAuth(issuer="https://i.example", audience="a")))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_ones_own_machine_needs_no_token(host: str) -> None:
    require_auth_off_loopback(ServerOptions(host=host))


def test_a_server_on_all_interfaces_with_a_token(serve_http: Serve, connect: Connect) -> None:
    server = serve_http("--host", "0.0.0.0", "--token", "s3cret")
    client = connect(server.url.replace("0.0.0.0", "127.0.0.1"))
    assert status(client) == 401
    assert status(client, authorization="Bearer s3cret") == 200
    assert status(client, authorization="Bearer s3cret", host="evil.example:80") == 421


def test_other_hosts_and_foreign_pages_are_turned_away(serve_http: Serve, connect: Connect) -> None:
    server = serve_http(allowed_hosts=["desk.internal"], allowed_origins=["https://app.example"])
    client = connect(server.url)
    port = server.root.rsplit(":", 1)[1]
    for host in ("localhost", f"localhost:{port}", "127.0.0.1:1", "[::1]:80", "LOCALHOST", "desk.internal:443"):
        assert status(client, host=host) == 200, host
    for host in ("evil.com@127.0.0.1", "127.0.0.1/evil.com", "127.0.0.1:80:80", "localhost,evil.com", "127.0.0.1?x"):
        assert status(client, host=host) == 421, host
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "", "[:"):
        assert status(client, host=host) == 421, host
    for origin in (f"http://127.0.0.1:{port}", "https://app.example", "HTTPS://APP.example"):
        assert status(client, origin=origin) == 200, origin
    assert status(client, host=f"localhost:{port}", origin=f"http://localhost:{port}") == 200
    for origin in ("http://localhost:3000", f"http://localhost:{port}", "http://127.0.0.1", "file://127.0.0.1"):
        assert status(client, origin=origin) == 403, origin
    for origin in ("https://evil.example", "null", "https://app.example.evil.example", "http://[:"):
        assert status(client, origin=origin) == 403, origin
    assert httpx.get(server.root + "/healthz", headers={"host": "evil.example"}).status_code == 421
    assert httpx.get(server.root + "/sse", headers={"host": "evil.example"}).status_code == 421


def test_a_listed_page_may_read_the_answers(serve_http: Serve) -> None:
    server = serve_http("--token", "s3cret", allowed_origins=["http://localhost:6274"])
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,mcp-session-id"}
    allowed = httpx.options(server.url, headers={"origin": "http://localhost:6274", **asked})
    assert allowed.status_code == 200
    assert "authorization" in allowed.headers["access-control-allow-headers"]
    assert httpx.options(server.url, headers={"origin": "https://evil.example", **asked}).status_code == 403
    headers = {"origin": "http://localhost:6274", "authorization": "Bearer s3cret", **ACCEPT}
    answer = httpx.post(server.url, json=HELLO, headers=headers)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"]


def test_an_address_can_not_be_rebound_but_a_name_can() -> None:
    everywhere = HostGuard(lambda *_: None, ServerOptions(host="0.0.0.0"))  # type: ignore[arg-type]
    assert everywhere._known("192.0.2.7:80")
    assert everywhere._known("[2001:db8::7]:80")
    assert not everywhere._known("evil.example:80")
    here = HostGuard(lambda *_: None, ServerOptions())  # type: ignore[arg-type]
    assert not here._known("192.0.2.7:80")


def test_what_is_secret_in_a_query_is_neither_repeated_nor_logged(serve_http: Serve) -> None:
    server = serve_http()
    for path in ("/mcp", "/mcp/", "/sse/", "/messages/", "/messages", "/healthz/", "/no", "/messages/?session_id=1&"):
        asked = server.root + path + ("" if "?" in path else "?") + "key=s3cret"
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            answer = httpx.request(method, asked, json=HELLO, headers={"accept": "text/html"})
            assert "s3cret" not in answer.text + str(answer.headers), (method, path)
    httpx.post(server.root + "/messages/?session_id=s3cret", json=HELLO)
    server.process.terminate()
    server.process.wait(60)
    assert not any("s3cret" in line for line in server.log)


def test_two_lengths_are_refused_and_the_connection_ends(serve_http: Serve) -> None:
    server = serve_http()
    host, _, port = server.root.removeprefix("http://").partition(":")
    request = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


class Issuer:
    """An authorization server's public side: metadata and keys."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.pages: dict[str, Any] = {"/keys": {"keys": [public | {"kid": "k1", "use": "sig", "alg": "RS256"}]}}
        issuer = self

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = issuer.pages.get(self.path)
                self.send_response(200 if page else 404)
                self.end_headers()
                self.wfile.write(json.dumps(page).encode())

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.pages["/.well-known/oauth-authorization-server"] = {"issuer": self.url, "jwks_uri": self.url + "/keys"}
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def token(self, key: Any = None, kid: str = "k1", **claims: Any) -> str:
        given = {"iss": self.url, "aud": "desk", "exp": time.time() + 600, "sub": "ann", "scope": "refdesk other"}
        given = {name: value for name, value in (given | claims).items() if value is not None}
        return jwt.encode(given, key or self.key, algorithm="RS256", headers={"kid": kid})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


def test_oauth_tokens_of_the_issuer_for_us(serve_http: Serve, connect: Connect, issuer: Issuer) -> None:
    server = serve_http("--issuer", issuer.url, "--audience", "desk")
    client = connect(server.url)
    refused = client.post(HELLO)
    assert refused.status_code == 401
    where = f"{server.root}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{where}"' in refused.headers["www-authenticate"]
    described = httpx.get(where).json()
    assert described["resource"] == server.url
    assert [each.rstrip("/") for each in described["authorization_servers"]] == [issuer.url]
    assert described["scopes_supported"] == ["refdesk"]

    def with_token(token: str) -> int:
        return status(client, authorization=f"Bearer {token}")

    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert with_token(issuer.token()) == 200
    assert with_token(issuer.token(aud=["desk", "other"])) == 200
    assert with_token(issuer.token(aud="elsewhere")) == 401
    assert with_token(issuer.token(iss="https://evil.example")) == 401
    assert with_token(issuer.token(exp=time.time() - 600)) == 401
    assert with_token(issuer.token(exp=None)) == 401
    assert with_token(issuer.token(nbf=time.time() + 600)) == 401
    assert with_token(issuer.token(key=stranger)) == 401
    assert with_token(issuer.token(kid="unknown")) == 401
    assert with_token(issuer.token(scope="other")) == 403
    assert with_token("rubbish") == 401
    unsigned = jwt.encode({"iss": issuer.url, "aud": "desk", "exp": time.time() + 60}, "", algorithm="none")
    assert with_token(unsigned) == 401
    modulus = issuer.pages["/keys"]["keys"][0]["n"]  # a public value taken for a shared secret
    claims = {"iss": issuer.url, "aud": "desk", "exp": time.time() + 60}
    confused = jwt.encode(claims, modulus, algorithm="HS256", headers={"kid": "k1"})
    assert with_token(confused) == 401


def test_a_session_belongs_to_who_opened_it(serve_http: Serve, connect: Connect, issuer: Issuer) -> None:
    server = serve_http("--issuer", issuer.url, "--audience", "desk")
    ann = connect(server.url, headers={"authorization": f"Bearer {issuer.token()}"})
    ann.initialize()
    thief = connect(server.url, headers={**ann.headers, "authorization": f"Bearer {issuer.token(sub='bob')}"})
    assert thief.post({"jsonrpc": "2.0", "id": 1, "method": "tasks/list"}).status_code == 404


def test_an_issuer_that_cannot_be_reached_lets_nobody_in(serve_http: Serve, connect: Connect, issuer: Issuer) -> None:
    token = issuer.token()
    issuer.pages.clear()
    server = serve_http("--issuer", issuer.url, "--audience", "desk")
    assert status(connect(server.url), authorization=f"Bearer {token}") == 401


def test_a_port_that_is_taken_is_explained(serve_http: Serve, tmp_path: Path) -> None:
    port = int(serve_http().root.rsplit(":", 1)[1])
    from refdesk.server.http.transport import listen

    with pytest.raises(SettingsError, match=rf"Could not listen on 127.0.0.1 port {port}: .* Choose another --port"):
        listen(ServerOptions(port=port))
