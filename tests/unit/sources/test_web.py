"""Fetching reaches public addresses only, keeps its limits, and says why it stops."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from refdesk.errors import InvalidUri, LoadFailed, RefdeskError, TooLarge
from refdesk.sources.addresses import AddressGuard, why_refused
from refdesk.sources.web import Fetched, WebClient, fetch

from .conftest import LocalSite

NAMES = {
    "site.test": ["127.0.0.1"],
    "public.test": ["93.184.216.34"],
    "mixed.test": ["93.184.216.34", "10.0.0.7"],
    "metadata.test": ["169.254.169.254"],
    "nowhere.test": [],
}


def resolve(host: str, port: int) -> Sequence[str]:
    if host not in NAMES:
        raise OSError(f"unknown name {host}")
    return NAMES[host]


def ask(
    url: str,
    *allow: str,
    max_bytes: int = 100_000,
    timeout_s: float = 10,
    ssl_context: ssl.SSLContext | None = None,
) -> Fetched:
    return fetch(
        url,
        allow_hosts=allow,
        max_bytes=max_bytes,
        timeout_s=timeout_s,
        resolve=resolve,
        ssl_context=ssl_context or ssl.create_default_context(),
    )


def local(site: LocalSite, path: str) -> str:
    return f"http://site.test:{site.port}{path}"


def test_a_page_comes_with_what_its_server_says_of_it(site: LocalSite) -> None:
    got = ask(local(site, "/page?q=1#part"), "site.test")
    assert (got.status, got.data, got.content_type, got.charset) == (200, b"<h1>Page</h1>", "text/html", "utf-8")
    assert (got.headers["etag"], got.last_modified) == ('"v1"', "Mon, 01 Jan 2024 00:00:00 GMT")
    assert got.url == local(site, "/page?q=1")
    path, headers = site.asked[0]
    assert path == "/page?q=1"
    assert headers["host"] == f"site.test:{site.port}"
    assert headers["user-agent"].startswith("refdesk/")


def test_charsets_are_taken_as_declared_when_they_exist(site: LocalSite) -> None:
    got = ask(local(site, "/latin"), "site.test")
    assert got.data.decode(got.charset) == "café"
    assert ask(local(site, "/odd"), "site.test").charset == ""


# --- which addresses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://site.test/",
        "http://metadata.test/latest/meta-data/",
        "http://mixed.test/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://10.1.2.3/",
        "http://192.168.0.1:8080/",
        "http://172.31.255.255/",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:8.8.8.8]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://[::]/",
        "http://168.63.129.16/",
    ],
)
def test_addresses_that_are_not_public_are_refused_with_the_reason(url: str) -> None:
    with pytest.raises(InvalidUri, match=r"is not fetched: .* address") as failure:
        ask(url)
    assert "--allow-host" in str(failure.value)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "017700000001", "localhost"])
def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    with pytest.raises(InvalidUri, match="a loopback address"):
        fetch(f"http://{host}/", allow_hosts=(), max_bytes=1, timeout_s=10)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"])
def test_public_addresses_are_not_refused(address: str) -> None:
    assert why_refused(address) == ""
    assert AddressGuard((), lambda host, port: [address]).addresses("x.test", 80) == [address]


def test_a_name_is_resolved_once_and_what_was_vetted_is_dialled(site: LocalSite) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    got = fetch(
        local(site, "/page"),
        allow_hosts=["site.test"],
        max_bytes=1000,
        timeout_s=10,
        resolve=lambda host, port: next(answers),
    )
    assert got.status == 200
    assert next(answers) == ["10.0.0.1"]


def test_a_second_answer_of_the_name_server_is_never_asked_for(site: LocalSite) -> None:
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["192.0.2.1"] if len(asked) == 1 else ["127.0.0.1"]

    with pytest.raises(InvalidUri):
        fetch(local(site, "/page"), allow_hosts=(), max_bytes=1000, timeout_s=2, resolve=rebinding)
    assert asked == ["site.test"]
    assert site.asked == []


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("docs.test", "docs.test", 80, True),
        ("docs.test", "DOCS.test.", 8080, True),
        ("docs.test", "a.docs.test", 80, False),
        ("docs.test:8080", "docs.test", 8080, True),
        ("docs.test:8080", "docs.test", 80, False),
        ("*.docs.test", "a.b.docs.test", 80, True),
        ("*.docs.test", "docs.test", 80, False),
        ("*.docs.test", "evildocs.test", 80, False),
        ("::1", "::1", 80, True),
        ("[::1]:80", "::1", 80, True),
        ("[::1]:80", "::1", 81, False),
        ("10.0.0.1", "10.0.0.1", 80, True),
        ("*", "anything.test", 80, True),
    ],
)
def test_the_operator_allows_hosts(entry: str, host: str, port: int, allowed: bool) -> None:
    assert AddressGuard([entry]).is_allowed(host, port) is allowed


# --- redirects -----------------------------------------------------------------------------------


def test_redirects_are_followed(site: LocalSite) -> None:
    got = ask(local(site, "/count/9"), "site.test")
    assert (got.data, got.url) == (b"<h1>Page</h1>", local(site, "/page"))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("http://metadata.test/", "a cloud metadata address"),
        ("http://127.0.0.1:9/", "a loopback address"),
        ("//10.0.0.1/", "a private address"),
        ("file:///etc/passwd", "only https: and http:"),
        ("http://user:secret@public.test/", "with a name or password"),
    ],
)
def test_every_redirect_is_checked(site: LocalSite, target: str, why: str) -> None:
    with pytest.raises(InvalidUri, match=why) as failure:
        ask(local(site, "/to/" + target), f"site.test:{site.port}")
    assert "secret" not in str(failure.value)


def test_a_redirect_loop_ends(site: LocalSite) -> None:
    with pytest.raises(LoadFailed, match="redirects more than 10 times"):
        ask(local(site, "/loop"), "site.test")
    assert len(site.asked) == 11


def test_https_does_not_fall_back_to_http(secure_site: LocalSite, site: LocalSite, certificate: Path) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    url = f"https://site.test:{secure_site.port}/to/" + local(site, "/page")
    with pytest.raises(InvalidUri, match="from https to plain http"):
        ask(url, f"site.test:{secure_site.port}", ssl_context=context)
    assert ask(url, "site.test", ssl_context=context).status == 200


# --- https ---------------------------------------------------------------------------------------


def test_the_certificate_is_checked_for_the_name_not_the_address(secure_site: LocalSite, certificate: Path) -> None:
    url = f"https://site.test:{secure_site.port}/page"
    got = ask(url, "site.test", ssl_context=ssl.create_default_context(cafile=str(certificate)))
    assert got.data == b"<h1>Page</h1>"
    assert secure_site.names == ["site.test"]
    with pytest.raises(LoadFailed, match="certificate"):
        ask(url, "site.test")
    with pytest.raises(LoadFailed, match="certificate"):
        ask(
            f"https://127.0.0.1:{secure_site.port}/page",
            "127.0.0.1",
            ssl_context=ssl.create_default_context(cafile=str(certificate)),
        )


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/huge", "/declared", "/bomb"])
def test_more_than_the_limit_is_an_error_not_a_truncation(site: LocalSite, path: str) -> None:
    with pytest.raises(TooLarge, match="more than the 100000 bytes"):
        ask(local(site, path), "site.test")


def test_exactly_the_limit_is_fine(site: LocalSite) -> None:
    assert ask(local(site, "/page"), "site.test", max_bytes=13).data == b"<h1>Page</h1>"
    with pytest.raises(TooLarge):
        ask(local(site, "/page"), "site.test", max_bytes=12)


@pytest.mark.parametrize("path", ["/drip", "/silent"])
def test_time_is_limited_over_the_whole_fetch(site: LocalSite, path: str) -> None:
    with pytest.raises(LoadFailed, match=r"did not answer within 0\.3 s"):
        ask(local(site, path), "site.test", timeout_s=0.3)


def test_compressed_answers_are_read(site: LocalSite) -> None:
    assert ask(local(site, "/gzip"), "site.test").data == b"one two"
    assert ask(local(site, "/deflate/"), "site.test").data == b"text" * 100
    assert ask(local(site, "/deflate/bare"), "site.test").data == b"text" * 100
    with pytest.raises(LoadFailed, match="ends too early"):
        ask(local(site, "/cut"), "site.test")
    with pytest.raises(LoadFailed, match="encoding 'br'"):
        ask(local(site, "/brotli"), "site.test")


# --- what is refused or fails ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/none", "answered with status 404"),
        ("/none?key=secret", r"/none\?… answered with status 404"),
        ("/error", "answered with status 500"),
        ("/astray", "answered with status 302"),
        ("/image", "can't be read here: not a text: image/png"),
        ("/raw/binary", "a NUL byte"),
    ],
)
def test_answers_that_are_no_text_fail_with_the_reason(site: LocalSite, path: str, words: str) -> None:
    with pytest.raises(LoadFailed, match=words):
        ask(local(site, path), "site.test")


def test_untyped_text_is_read(site: LocalSite) -> None:
    assert ask(local(site, "/raw/text"), "site.test").data == b"fn main() {}"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://public.test/", "https://", "https:///path", "no url", "http://[::1", "http://a:99999/",
        "https://user:secret@public.test/", "https://exa mple.com/", "https://a%3Cb.test/",
    ],
)  # fmt: skip
def test_urls_of_the_wrong_form_are_refused(url: str) -> None:
    with pytest.raises(InvalidUri) as failure:
        ask(url)
    assert "secret" not in str(failure.value)


def test_credentials_are_sent_to_an_allowed_host_and_told_to_nobody(site: LocalSite) -> None:
    got = ask(f"http://user:secret@site.test:{site.port}/page", "site.test")
    assert got.url == local(site, "/page")
    assert site.asked[0][1]["authorization"] == "Basic dXNlcjpzZWNyZXQ="
    with pytest.raises(RefdeskError) as failure:
        ask(f"http://user:secret@site.test:{site.port}/none", "site.test")
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize("host", ["unknown.test", "nowhere.test"])
def test_a_name_without_address_fails(host: str) -> None:
    with pytest.raises(LoadFailed, match="has no address"):
        ask(f"https://{host}/")


def test_a_closed_port_fails(site: LocalSite) -> None:
    port = site.port
    site.shutdown()
    site.server_close()
    with pytest.raises(LoadFailed, match="can't be reached"):
        ask(f"http://site.test:{port}/", "site.test")


def test_proxies_of_the_environment_are_not_used(site: LocalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(local(site, "/page"), "site.test").status == 200


def test_one_client_serves_many_fetches_at_once(site: LocalSite) -> None:
    got: list[Fetched] = []

    async def many() -> None:
        client = WebClient(allow_hosts=["site.test"], max_bytes=1000, timeout_s=10, resolve=resolve)

        async def one(path: str) -> None:
            got.append(await client.get(local(site, path)))

        async with client, anyio.create_task_group() as group:
            for path in ("/page", "/latin", "/gzip", "/raw/text"):
                group.start_soon(one, path)

    anyio.run(many)
    assert {item.data for item in got} == {b"<h1>Page</h1>", "café".encode("latin-1"), b"one two", b"fn main() {}"}
