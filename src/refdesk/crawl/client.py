"""What does one address answer, without following it on?"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread

from refdesk import __version__
from refdesk.crawl.wire import Line, Order, Then, Wire
from refdesk.errors import LoadFailed, RefdeskError
from refdesk.sources.addresses import AddressGuard, Resolve, resolve_by_system
from refdesk.sources.inflate import ACCEPTED, Inflater
from refdesk.sources.sniff import why_binary

if TYPE_CHECKING:
    import httpx

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_DRAINED = 65_536  # of a body nobody wants, so that the connection is kept
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream")
_READABLE = frozenset(
    {
        "application/xhtml+xml", "application/json", "application/yaml", "application/x-yaml", "application/toml",
        "application/pdf", "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/x-sh", "application/x-python-code", "application/sql",
    }
)  # fmt: skip
_NOT_PAGES = frozenset({"text/css", "text/javascript", "text/calendar", "text/vcard", "text/xml"})  # feeds are xml
_VETTED_S = 60.0  # so long a name is taken to have the addresses that were vetted
_PLAIN_SITE = re.compile(
    r"(https?)://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::([1-9][0-9]{0,4}))?"
)  # needs no second look
_PLAIN_PATH = re.compile(r"/[\w~/%?=&;:@!$'()*+,-]*(?:\.[\w~%?=&;:@!$'()*+,-][\w~/%?=&;:@!$'()*+,-]*)*", re.ASCII)
_ACCEPT = "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, */*;q=0.5"


class _Site(NamedTuple):
    host: str
    port: int


class Prepared(NamedTuple):
    """A request that only has to be sent."""

    line: Line
    until: float  # so long its site has the addresses that were vetted


class _Target(NamedTuple):
    """An address whose form was checked."""

    url: str
    site: _Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request brought."""

    url: str
    status: int
    data: bytes = b""
    content_type: str = ""
    charset: str = ""
    location: str = ""  # absolute, where it redirects to
    unread: str = ""  # why the body was not read
    headers: Mapping[str, str] = field(default_factory=dict)  # by lower-case name

    @property
    def is_html(self) -> bool:
        if self.content_type in ("text/html", "application/xhtml+xml"):
            return True
        return self.content_type in _UNTYPED and self.data[:200].lstrip().lower().startswith(
            (b"<!doctype html", b"<html")
        )


Asked = asyncio.Future[Answer | RefdeskError]


class SiteClient:
    """A guarded client that asks one address at a time, of many, and tells every status."""

    def __init__(
        self,
        *,
        allow_hosts: Iterable[str] = (),
        max_bytes: int,
        timeout_s: float,
        resolve: Resolve = resolve_by_system,
        cafile: str = "",
        watch: bool | None = None,
    ) -> None:
        self.guard = AddressGuard(allow_hosts, resolve)
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._watch = watch
        self._wire = Wire(timeout_s=timeout_s, user_agent=f"refdesk/{__version__}", cafile=cafile)
        self._vetted: dict[_Site, tuple[float, tuple[str, ...]]] = {}
        self._sites: dict[str, _Site] = {}
        self._headers = [f"Accept: {_ACCEPT}".encode("ascii"), f"Accept-Encoding: {ACCEPTED}".encode("ascii")]

    async def __aenter__(self) -> SiteClient:
        self._wire.open(watch=self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.close()

    async def ask(self, url: str, *, etag: str = "", last_modified: str = "", any_type: bool = False) -> Answer:
        """The answer of this address alone; LoadFailed when there is none, InvalidUri when it must not be asked."""
        answer = await self.begin(url, etag=etag, last_modified=last_modified, any_type=any_type)
        if isinstance(answer, RefdeskError):
            raise answer
        return answer

    def begin(self, url: str, *, etag: str = "", last_modified: str = "", any_type: bool = False) -> Asked:
        """The answer to come, or why there is none; the request goes out now where its site is known."""
        headers = self._headers_for(etag, last_modified)
        try:
            target = self._target(url)
            addresses = self._known_addresses(target.site)
        except RefdeskError as error:
            refused: Asked = asyncio.get_running_loop().create_future()
            refused.set_result(error)
            return refused
        reading = _Reading(self, target, self._max_bytes, any_type)
        if addresses:
            return self._send(Order(target.url, headers, *target.site, addresses, reading))
        return asyncio.ensure_future(self._find_and_send(target, headers, reading))

    def prepare(self, url: str, *, etag: str = "", last_modified: str = "") -> Prepared | None:
        """A request to be sent in a moment, where its address needs no second look."""
        target = self._plain_target(url)
        until, addresses = self._vetted.get(target.site, (0.0, ())) if target is not None else (0.0, ())
        if target is None or time.monotonic() >= until or not addresses:
            return None
        order = Order(
            target.url,
            self._headers_for(etag, last_modified),
            *target.site,
            addresses,
            _Reading(self, target, self._max_bytes, False),
        )
        return Prepared(self._wire.prepare(order), until)

    def send(self, prepared: Prepared, then: Then | None = None) -> Asked | None:
        """Sends what was prepared; None where the site's address has to be looked up again.

        `then` may get the answer before whoever waits for it.
        """
        if time.monotonic() < prepared.until:
            return self._wire.send(prepared.line, then)
        self.leave(prepared)
        return None

    def leave(self, prepared: Prepared) -> None:
        """A prepared request is not sent."""
        self._wire.leave(prepared.line)

    def _send(self, order: Order) -> Asked:
        return self._wire.send(self._wire.prepare(order))

    def _headers_for(self, etag: str, last_modified: str) -> list[bytes]:
        if not etag and not last_modified:
            return self._headers
        conditions = (*_condition("If-None-Match", etag), *_condition("If-Modified-Since", last_modified))
        return [*self._headers, *conditions]

    async def _find_and_send(self, target: _Target, headers: list[bytes], reading: _Reading) -> Answer | RefdeskError:
        find = partial(anyio.to_thread.run_sync, self.guard.addresses, *target.site, abandon_on_cancel=True)
        try:
            with anyio.fail_after(self._timeout_s):
                addresses = tuple(await find())
        except TimeoutError:
            return LoadFailed(f"no answer within {self._timeout_s:g} s")
        except RefdeskError as error:
            return error
        self._vetted[target.site] = (time.monotonic() + _VETTED_S, addresses)
        return await self._send(Order(target.url, headers, *target.site, addresses, reading))

    def _known_addresses(self, site: _Site) -> tuple[str, ...]:
        """The addresses that the site may be asked at, () when its name has to be resolved first."""
        until, addresses = self._vetted.get(site, (0.0, ()))
        if time.monotonic() < until:
            return addresses
        if site.host.replace(".", "").isdigit() or ":" in site.host:
            addresses = tuple(self.guard.addresses(*site))
            self._vetted[site] = (math.inf, addresses)
            return addresses
        return ()

    def _target(self, url: str) -> _Target:
        """The address, when its form is one that may be asked."""
        return self._plain_target(url) or _target_of(checked(self.guard, url))

    def _plain_target(self, url: str) -> _Target | None:
        """The address, when a glance shows that its form is one that may be asked, as with most."""
        start = url.find("/", url.find("://") + 3)
        where, path = url[:start], url[start:]
        if start > 0 and _PLAIN_PATH.fullmatch(path):
            site = self._sites.get(where)
            if site is None and (plain := _PLAIN_SITE.fullmatch(where)) and int(plain[3] or 80) < 65536:
                site = self._sites[where] = _Site(plain[2], int(plain[3] or _PORTS[plain[1]]))
            if site is not None:
                return _Target(url, site)
        return None

    def onward(self, target: _Target, location: str) -> str:
        """Where a redirect leads, when its form is one that may be asked."""
        return _target_of(checked(self.guard, location, came_from=checked(self.guard, target.url))).url


class _Reading:
    """An answer while it comes."""

    def __init__(self, client: SiteClient, target: _Target, max_bytes: int, any_type: bool) -> None:
        self._client = client
        self._target = target
        self._max_bytes = max_bytes
        self._any_type = any_type
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._media_type = self._charset = self._unread = ""
        self._inflater: Inflater | None = None
        self._drained = 0

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers
        self._media_type, self._charset = declared(headers.get("content-type", ""))
        if status != 200:
            return
        length = headers.get("content-length", "")
        if not self._any_type and not _is_page(self._media_type):
            self._unread = f"not a text: {self._media_type}"
        elif length.isdecimal() and int(length) > self._max_bytes:
            self._unread = self._too_large
        else:
            self._inflater = Inflater(headers.get("content-encoding", "").strip().lower(), self._max_bytes)

    def piece(self, data: bytes) -> bool:
        if self._inflater is None:
            self._drained += len(data)
            return not self._unread and self._drained <= _DRAINED
        self._inflater.feed(data)
        if self._inflater.is_too_large:
            self._unread = self._too_large
        return not self._unread

    def answer(self, failure: RefdeskError | None) -> Answer | RefdeskError:
        try:
            return failure or self._answer()
        except RefdeskError as error:
            return error

    def _answer(self) -> Answer:
        location = self._headers.get("location", "") if self._status in _REDIRECTS else ""
        data = self._inflater.finish() if self._inflater is not None and not self._unread else b""
        if data and self._media_type in _UNTYPED and not self._any_type:
            self._unread = why_binary(self._target.url.partition("?")[0], data)
        return Answer(
            url=self._target.url,
            status=self._status,
            data=b"" if self._unread else data,
            content_type=self._media_type,
            charset=self._charset,
            location=self._client.onward(self._target, location) if location else "",
            unread=self._unread,
            headers=self._headers,
        )

    @property
    def _too_large(self) -> str:
        return f"larger than {self._max_bytes} bytes"


def checked(guard: AddressGuard, url: str, came_from: httpx.URL | None = None) -> httpx.URL:
    """The URL, when its form is one that may be asked, found out by the rules that hold for every fetch."""
    from refdesk.sources import web

    return web.checked(guard, url, came_from)


def _target_of(url: httpx.URL) -> _Target:
    """What is asked for an address: without credentials."""
    plain = url.copy_with(username=None, password=None) if url.userinfo else url
    return _Target(str(plain), _Site(plain.raw_host.decode("ascii"), plain.port or _PORTS[plain.scheme]))


def _condition(name: str, value: str) -> list[bytes]:
    return [f"{name}: {value}".encode("latin-1", "replace")] if value and value.isprintable() else []


def declared(content_type: str) -> tuple[str, str]:
    """Media type and charset of a Content-Type header."""
    media_type, _, parameters = content_type.lower().partition(";")
    charset = parameters.partition("charset=")[2].partition(";")[0].strip("\"' ")
    return media_type.strip(), charset


def _is_page(media_type: str) -> bool:
    if media_type in _NOT_PAGES:
        return False
    return media_type in _UNTYPED or media_type.startswith("text/") or media_type in _READABLE
