"""The web client: public addresses only, limits on size and time, every redirect checked."""

from __future__ import annotations

import base64
import codecs
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio
import httpcore
import httpx

from refdesk import __version__
from refdesk.errors import InvalidUri, LoadFailed, TooLarge
from refdesk.sources.addresses import AddressGuard, GuardedBackend, Resolve, resolve_by_system
from refdesk.sources.files import MEDIA_TYPES, why_binary

WantsType = Callable[[str], bool]  # whether to read a body of this media type

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MAX_REDIRECTS = 10  # browsers follow 20, and nobody needs more than a few
_DRAINED_BYTES = 65_536  # bytes of an unwanted body that are read so that its connection can be reused
_ACCEPT = "text/html, application/xhtml+xml, text/markdown, text/plain, application/json;q=0.9, */*;q=0.5"
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The response of a URL, decompressed."""

    url: str  # after redirects, without credentials
    status: int
    data: bytes = b""
    content_type: str = ""  # the declared media type, lower case, without parameters
    charset: str = ""  # the declared charset, "" if missing or unknown
    location: str = ""  # the absolute URL of a redirect that was not followed
    unread: str = ""  # why the body of a successful answer was not read
    is_too_large: bool = False  # it was not read because of its size
    headers: Mapping[str, str] = field(default_factory=dict)  # by lower-case name

    @property
    def last_modified(self) -> str:
        return self.headers.get("last-modified", "")

    @property
    def is_html(self) -> bool:
        """Whether it is declared as HTML or, without a type, starts like HTML."""
        if self.content_type in ("text/html", "application/xhtml+xml"):
            return True
        start = self.data[:200].lstrip().lower()
        return self.content_type in _UNTYPED and start.startswith((b"<!doctype html", b"<html"))


class WebClient:
    """Fetches URLs by HTTP/1.1 or 2 over pooled connections to checked addresses; tasks may share it."""

    def __init__(
        self,
        *,
        allow_hosts: Iterable[str] = (),
        max_bytes: int,
        timeout_s: float,
        resolve: Resolve = resolve_by_system,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.guard = AddressGuard(allow_hosts, resolve)
        self.max_bytes = max_bytes
        self._timeout_s = timeout_s
        # httpcore, since httpx's transports take no network backend, which is where addresses are checked.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or trusted_roots(),
            http2=True,
            max_connections=None,  # callers limit the number of concurrent requests
            keepalive_expiry=30.0,
            network_backend=GuardedBackend(self.guard),
        )

    async def __aenter__(self) -> WebClient:
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.aclose()

    async def get(self, url: str) -> Fetched:
        """The response after all redirects."""
        target = self.checked(url)
        with self._explained(target):
            for _ in range(_MAX_REDIRECTS + 1):
                answer = await self._request(
                    target, {}, lambda kind: is_text_type(kind) or kind.endswith(("+json", "+xml", "+yaml"))
                )
                if answer.location:
                    target = self.checked(answer.location)
                    continue
                if answer.status >= 300:
                    raise LoadFailed(f"{redacted(target)} answered with status {answer.status}.", "Check the address.")
                if answer.is_too_large:
                    most = f"{redacted(target)} has more than the {self.max_bytes} bytes allowed."
                    raise TooLarge(most, "Raise max_fetch_bytes.")
                if answer.unread:
                    raise LoadFailed(f"{redacted(target)} can't be read here: {answer.unread}.")
                return answer
        raise LoadFailed(f"{redacted(self.checked(url))} redirects more than {_MAX_REDIRECTS} times.")

    async def ask(
        self, url: str, *, etag: str = "", last_modified: str = "", wants: WantsType | None = None
    ) -> Fetched:
        """The response of this URL alone, whatever its status; without `wants` a body of any type is read."""
        target = self.checked(url)
        given = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        conditions = {key: value for key, value in given.items() if value and value.isprintable()}
        with self._explained(target):
            return await self._request(target, conditions, wants)

    def checked(self, url: str, came_from: httpx.URL | None = None) -> httpx.URL:
        """Returns the URL if its form is allowed; its address is checked when a connection is made."""
        try:
            target = httpx.URL(url) if came_from is None else came_from.join(url)
        except (httpx.InvalidURL, ValueError) as error:
            raise InvalidUri(f"The URL can't be read: {error}.", _EXAMPLE) from error
        if target.scheme not in ("http", "https"):
            raise InvalidUri(f"{target.scheme or 'Nothing'}: is not fetched; only https: and http: are.", _EXAMPLE)
        port = target.port or (443 if target.scheme == "https" else 80)
        if not target.host or "%" in target.host or not 0 < port < 65536:  # of "exa mple.com", exa%20mple.com
            raise InvalidUri(f"{redacted(target)} names no host or no port that exists.", _EXAMPLE)
        allowed = self.guard.is_allowed(target.raw_host.decode("ascii"), port)
        if target.userinfo and not allowed:
            raise InvalidUri(f"{redacted(target)} was given with a name or password.", "Leave them out.")
        if came_from is not None and came_from.scheme == "https" and target.scheme == "http" and not allowed:
            raise InvalidUri(f"{redacted(came_from)} redirects from https to plain http: {redacted(target)}.")
        return target.copy_with(fragment=None)

    @contextmanager
    def _explained(self, target: httpx.URL) -> Iterator[None]:
        """Applies the timeout and turns network errors into LoadFailed."""
        try:
            with anyio.fail_after(self._timeout_s):
                yield
        except TimeoutError as error:
            raise LoadFailed(f"{redacted(target)} did not answer within {self._timeout_s:g} s.", _LATER) from error
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            why = str(error).rstrip(".") or type(error).__name__
            raise LoadFailed(f"{redacted(target)} can't be reached: {why}.", _LATER) from error

    async def _request(self, target: httpx.URL, conditions: Mapping[str, str], wants: WantsType | None) -> Fetched:
        url = httpcore.URL(scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path)
        sent = {
            "Host": target.netloc.decode("ascii"),
            "User-Agent": f"refdesk/{__version__}",
            "Accept": _ACCEPT,
            "Accept-Encoding": "gzip, deflate",
            **conditions,
        }
        if target.userinfo:
            pair = f"{target.username}:{target.password}".encode()
            sent["Authorization"] = "Basic " + base64.b64encode(pair).decode("ascii")
        pairs = [(key.encode("ascii"), value.encode("latin-1", "replace")) for key, value in sent.items()]
        async with self._pool.stream("GET", url, headers=pairs) as response:
            headers = dict(httpx.Headers(response.headers).items())
            location = headers.get("location", "") if response.status in _REDIRECTS else ""
            media_type, charset = _declared(headers.get("content-type", ""))
            answer = Fetched(
                url=without_credentials(target),
                status=response.status,
                content_type=media_type,
                charset=charset,
                location=str(self.checked(location, came_from=target)) if location else "",
                headers=headers,
            )
            if not 200 <= response.status < 300:
                drained = 0
                async for piece in response.aiter_stream():
                    drained += len(piece)
                    if drained > _DRAINED_BYTES:
                        break
                return answer
            return await self._with_body(answer, response, wants)

    async def _with_body(self, answer: Fetched, response: httpcore.Response, wants: WantsType | None) -> Fetched:
        """The response with its body, or with the reason why that was not read."""
        if wants is not None and not wants(answer.content_type):
            return replace(answer, unread=f"not a text: {answer.content_type}")
        too_large = replace(answer, unread=f"larger than {self.max_bytes} bytes", is_too_large=True)
        length = answer.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.max_bytes:
            return too_large
        inflater = Inflater(answer.headers.get("content-encoding", "").strip().lower(), self.max_bytes)
        async for piece in response.aiter_stream():
            inflater.feed(piece)
            if inflater.is_too_large:
                return too_large
        data = inflater.finish()
        if wants is not None and answer.content_type in _UNTYPED:
            path = httpx.URL(answer.url).path
            if reason := why_binary(path, data):
                return replace(answer, unread=reason)
        return replace(answer, data=data)


def fetch(
    url: str,
    *,
    allow_hosts: Iterable[str] = (),
    max_bytes: int,
    timeout_s: float,
    resolve: Resolve = resolve_by_system,
    ssl_context: ssl.SSLContext | None = None,
) -> Fetched:
    async def ask() -> Fetched:
        async with WebClient(
            allow_hosts=allow_hosts, max_bytes=max_bytes, timeout_s=timeout_s, resolve=resolve, ssl_context=ssl_context
        ) as client:
            return await client.get(url)

    return anyio.run(ask)


def trusted_roots() -> ssl.SSLContext:
    """A context that trusts the system's root certificates and those of certifi."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def without_credentials(url: httpx.URL) -> str:
    """The URL as it may be stored."""
    return str(url.copy_with(username=None, password=None)) if url.userinfo else str(url)


def redacted(url: httpx.URL) -> str:
    """The URL as messages show it: without its query, which often holds keys."""
    return without_credentials(url.copy_with(query=None)) + ("?…" if url.query else "")


class Inflater:
    """Decompresses a Content-Encoding incrementally, to at most one byte more than `limit`."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._plain = encoding in ("", "identity")
        if not self._plain and encoding not in ("gzip", "x-gzip", "deflate"):
            raise LoadFailed(f"The server answers in the encoding {encoding!r}, which was not asked for.")
        self._encoding = encoding
        self._limit = limit
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False
        self.data = bytearray()

    @property
    def is_too_large(self) -> bool:
        """Whether more than the limit came out."""
        return len(self.data) > self._limit

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes that were received."""
        if self._plain:
            self.data += piece[: self._limit + 1 - len(self.data)]
            return
        if not self._begun and piece:
            self._begun = True
            if self._encoding == "deflate" and piece[0] & 0x0F != 8:  # some servers send no zlib header
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            while piece and not self.is_too_large:
                if self._stream.eof:  # a gzip file may have several members; what else follows is padding
                    if piece[:2] != b"\x1f\x8b":
                        return
                    self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
                self.data += self._stream.decompress(piece, min(_INFLATED_AT_ONCE, self._limit + 1 - len(self.data)))
                piece = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
        except zlib.error as error:
            raise LoadFailed(f"The server's {self._encoding} answer is broken: {error}.") from error

    def finish(self) -> bytes:
        """All decompressed bytes; raises LoadFailed if the compressed stream is truncated."""
        if not self._plain and self._begun and not self._stream.eof:
            raise LoadFailed(f"The server's {self._encoding} answer ends too early.")
        return bytes(self.data)


def _declared(content_type: str) -> tuple[str, str]:
    """Media type and charset of a Content-Type header."""
    media_type, *parameters = (part.strip() for part in content_type.lower().split(";"))
    named = dict(part.split("=", 1) for part in parameters if "=" in part)
    charset = named.get("charset", "").strip("\"' ")
    try:
        return media_type, codecs.lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        return media_type, ""


def is_text_type(media_type: str) -> bool:
    """Whether a response of this type may hold text, or a document that a parser reads."""
    return media_type in _UNTYPED or media_type.startswith("text/") or media_type in MEDIA_TYPES


_LATER = "Try again later."
_EXAMPLE = "Write it as https://host/path."
_INFLATED_AT_ONCE = 65_536  # bytes, so that a small answer can't become a large one at once
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32  # zlib detects the header
