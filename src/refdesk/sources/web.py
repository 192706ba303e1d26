"""What does a URL answer?  Public pages only, within limits of size and time, redirects checked one by one."""

from __future__ import annotations

import base64
import codecs
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

import anyio
import httpcore
import httpx

from refdesk import __version__
from refdesk.errors import InvalidUri, LoadFailed, TooLarge
from refdesk.sources.addresses import AddressGuard, Resolve, resolve_by_system
from refdesk.sources.dial import GuardedBackend
from refdesk.sources.inflate import ACCEPTED, Inflater
from refdesk.sources.sniff import why_binary

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MAX_REDIRECTS = 10
_KEPT_HEADERS = (
    "content-type",
    "etag",
    "last-modified",
    "date",
    "retry-after",
    "content-language",
    "link",
    "x-robots-tag",
)
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream")
_READABLE = frozenset(
    {
        "application/json", "application/xml", "application/xhtml+xml", "application/javascript", "application/yaml",
        "application/x-yaml", "application/toml", "application/x-ndjson", "application/typescript", "application/pdf",
        "application/x-javascript", "application/x-sh", "application/x-python-code", "application/sql",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/x-httpd-php",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a URL answered, decompressed."""

    url: str  # where the last redirect led, without credentials
    status: int
    data: bytes
    content_type: str = ""  # the declared media type, lower case, without parameters
    charset: str = ""  # the declared one, "" when there is none or nobody knows it
    etag: str = ""
    last_modified: str = ""
    not_modified: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)  # those worth keeping, by lower-case name


class WebClient:
    """Fetches many URLs over connections that are kept; several at once may share it."""

    def __init__(
        self,
        *,
        allow_hosts: Iterable[str] = (),
        max_bytes: int,
        timeout_s: float,
        resolve: Resolve = resolve_by_system,
        ssl_context: ssl.SSLContext | None = None,
        http2: bool = False,
        user_agent: str = f"refdesk/{__version__}",
    ) -> None:
        self.guard = AddressGuard(allow_hosts, resolve)
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._user_agent = user_agent
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or trusted_roots(),
            http2=http2,
            keepalive_expiry=30.0,
            network_backend=GuardedBackend(self.guard),
        )

    async def __aenter__(self) -> WebClient:
        await self._pool.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.__aexit__(kind, error, trace)

    async def get(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        """The answer behind all redirects; an unchanged page, asked for by etag or date, comes without data."""
        conditions = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        target = self.checked(url)
        try:
            with anyio.fail_after(self._timeout_s):
                for _ in range(_MAX_REDIRECTS + 1):
                    answer = await self._request(target, {key: value for key, value in conditions.items() if value})
                    if isinstance(answer, Fetched):
                        return answer
                    target = self.checked(answer, came_from=target)
        except TimeoutError as error:
            raise LoadFailed(f"{told(target)} did not answer within {self._timeout_s:g} s.", _LATER) from error
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise LoadFailed(f"{told(target)} can't be reached: {error or type(error).__name__}.", _LATER) from error
        raise LoadFailed(f"{told(self.checked(url))} redirects more than {_MAX_REDIRECTS} times.")

    def checked(self, url: str, came_from: httpx.URL | None = None) -> httpx.URL:
        """The URL, when its form is one that may be fetched; its address is vetted when it is dialled."""
        return checked(self.guard, url, came_from)

    async def _request(self, target: httpx.URL, conditions: Mapping[str, str]) -> Fetched | str:
        """The answer of one URL, or where it redirects to."""
        url = httpcore.URL(scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path)
        headers = {
            "Host": target.netloc.decode("ascii"),
            "User-Agent": self._user_agent,
            "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.5",
            "Accept-Encoding": ACCEPTED,
            **_authorization(target),
            **conditions,
        }
        pairs = [(key.encode("ascii"), value.encode("latin-1", "replace")) for key, value in headers.items()]
        async with self._pool.stream("GET", url, headers=pairs) as response:
            got = httpx.Headers(response.headers)
            if response.status in _REDIRECTS and "location" in got:
                return got["location"]
            return await self._answer(target, response, got)

    async def _answer(self, target: httpx.URL, response: httpcore.Response, got: httpx.Headers) -> Fetched:
        if response.status >= 300 and response.status != 304:
            raise LoadFailed(f"{told(target)} answered with status {response.status}.", "Check the address.")
        media_type, charset = _declared(got.get("content-type", ""))
        not_modified = response.status == 304
        data = b"" if not_modified else await self._body(target, response, got, media_type)
        return Fetched(
            url=shown(target),
            status=response.status,
            data=data,
            content_type=media_type,
            charset=charset,
            etag=got.get("etag", ""),
            last_modified=got.get("last-modified", ""),
            not_modified=not_modified,
            headers={key: got[key] for key in _KEPT_HEADERS if key in got},
        )

    async def _body(self, target: httpx.URL, response: httpcore.Response, got: httpx.Headers, media_type: str) -> bytes:
        if not _is_readable(media_type):
            raise LoadFailed(f"{told(target)} is {media_type}, which can't be read here.")
        length = got.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_large(target)
        inflater = Inflater(got.get("content-encoding", "").strip().lower(), self._max_bytes)
        async for piece in response.aiter_stream():
            inflater.feed(piece)
            if inflater.is_too_large:
                raise self._too_large(target)
        data = inflater.finish()
        if media_type in _UNTYPED and (reason := why_binary(target.path, data)):
            raise LoadFailed(f"{told(target)} can't be read here: {reason}.")
        return data

    def _too_large(self, target: httpx.URL) -> TooLarge:
        return TooLarge(f"{told(target)} has more than the {self._max_bytes} bytes allowed.", "Raise max_fetch_bytes.")


def fetch(
    url: str,
    *,
    allow_hosts: Iterable[str] = (),
    max_bytes: int,
    timeout_s: float,
    etag: str = "",
    last_modified: str = "",
    resolve: Resolve = resolve_by_system,
    ssl_context: ssl.SSLContext | None = None,
) -> Fetched:
    """The answer of one URL, for callers that are not in an event loop."""

    async def ask() -> Fetched:
        async with WebClient(
            allow_hosts=allow_hosts, max_bytes=max_bytes, timeout_s=timeout_s, resolve=resolve, ssl_context=ssl_context
        ) as client:
            return await client.get(url, etag=etag, last_modified=last_modified)

    return anyio.run(ask)


def checked(guard: AddressGuard, url: str, came_from: httpx.URL | None = None) -> httpx.URL:
    """The URL, when its form is one that may be fetched; its address is vetted when it is dialled."""
    try:
        target = httpx.URL(url) if came_from is None else came_from.join(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise InvalidUri(f"The URL can't be read: {error}.", _EXAMPLE) from error
    if target.scheme not in ("http", "https"):
        raise InvalidUri(f"{target.scheme or 'Nothing'}: is not fetched; only https: and http: are.", _EXAMPLE)
    if not target.host or "%" in target.host or not 0 < _port(target) < 65536:  # of "exa mple.com", exa%20mple.com
        raise InvalidUri(f"{told(target)} names no host or no port that exists.", _EXAMPLE)
    allowed = guard.is_allowed(_host(target), _port(target))
    if target.userinfo and not allowed:
        raise InvalidUri(f"{told(target)} was given with a name or password.", "Leave them out.")
    if came_from is not None and came_from.scheme == "https" and target.scheme == "http" and not allowed:
        raise InvalidUri(f"{told(came_from)} redirects from https to plain http: {told(target)}.")
    return target.copy_with(fragment=None)


def trusted_roots() -> ssl.SSLContext:
    """Certificates are checked against the system's roots and those that come with certifi."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def shown(url: httpx.URL) -> str:
    """The URL as it may be told and kept: without credentials."""
    return str(url.copy_with(username=None, password=None)) if url.userinfo else str(url)


def told(url: httpx.URL) -> str:
    """The URL as a message may tell it: keys are often in the query."""
    return shown(url.copy_with(query=None)) + ("?…" if url.query else "")


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _authorization(url: httpx.URL) -> dict[str, str]:
    if not url.userinfo:
        return {}
    pair = f"{url.username}:{url.password}".encode()
    return {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}


def _declared(content_type: str) -> tuple[str, str]:
    """Media type and charset of a Content-Type header."""
    media_type, *parameters = (part.strip() for part in content_type.lower().split(";"))
    named = dict(part.split("=", 1) for part in parameters if "=" in part)
    charset = named.get("charset", "").strip("\"' ")
    try:
        return media_type, codecs.lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        return media_type, ""


def _is_readable(media_type: str) -> bool:
    return (
        media_type in _UNTYPED
        or media_type.startswith("text/")
        or media_type in _READABLE
        or media_type.endswith(("+json", "+xml", "+yaml"))
    )


_LATER = "Try again later."
_EXAMPLE = "Write it as https://host/path."
