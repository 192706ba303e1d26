"""What does one address answer, without following it on?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio
import httpcore

from refdesk.errors import LoadFailed
from refdesk.sources.inflate import ACCEPTED, Inflater
from refdesk.sources.sniff import why_binary
from refdesk.sources.web import WebClient, shown

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


_PLAIN_PATH = re.compile(r"/[\w~/%?=&;:@!$'()*+,-]*(?:\.[\w~%?=&;:@!$'()*+,-][\w~/%?=&;:@!$'()*+,-]*)*", re.ASCII)


class _Target(NamedTuple):
    """An address whose form was checked."""

    shown: str
    url: httpcore.URL
    host: bytes  # as the Host header has it


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


class SiteClient(WebClient):
    """A guarded client that answers one request at a time and tells every status."""

    async def __aenter__(self) -> SiteClient:
        await super().__aenter__()
        self._sites: dict[str, _Target] = {}
        self._headers = (
            (b"User-Agent", self._user_agent.encode("ascii")),
            (b"Accept", b"text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, */*;q=0.5"),
            (b"Accept-Encoding", ACCEPTED.encode("ascii")),
        )
        return self

    async def ask(self, url: str, *, etag: str = "", last_modified: str = "", any_type: bool = False) -> Answer:
        """The answer of this address alone; LoadFailed when there is none, InvalidUri when it must not be asked."""
        target = self._target(url)
        try:
            with anyio.fail_after(self._timeout_s):
                return await self._ask(target, etag, last_modified, any_type)
        except TimeoutError as error:
            raise LoadFailed(f"no answer within {self._timeout_s:g} s") from error
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            raise LoadFailed(f"can't be reached: {str(error) or type(error).__name__}") from error

    def _target(self, url: str) -> _Target:
        """The address, when its form is one that may be asked; what is known of its site is not found out again."""
        start = url.find("/", url.find("://") + 3)
        site, path = url[:start], url[start:]
        known = self._sites.get(site)
        if known is not None and _PLAIN_PATH.fullmatch(path):
            same = known.url
            asked = httpcore.URL(scheme=same.scheme, host=same.host, port=same.port, target=path.encode("ascii"))
            return _Target(url, asked, known.host)
        target = self.checked(url)
        asked = httpcore.URL(scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path)
        found = _Target(shown(target), asked, target.netloc)
        if found.shown == url and site == f"{target.scheme}://{target.netloc.decode('ascii')}":
            self._sites[site] = found
        return found

    async def _ask(self, target: _Target, etag: str, last_modified: str, any_type: bool) -> Answer:
        headers = [(b"Host", target.host), *self._headers]
        if etag:
            headers.append((b"If-None-Match", etag.encode("latin-1", "replace")))
        if last_modified:
            headers.append((b"If-Modified-Since", last_modified.encode("latin-1", "replace")))
        async with self._pool.stream("GET", target.url, headers=headers) as response:
            got = {key.decode("ascii", "replace").lower(): value.decode("latin-1") for key, value in response.headers}
            return await self._answer_of(target, response, got, any_type)

    async def _answer_of(
        self, target: _Target, response: httpcore.Response, got: dict[str, str], any_type: bool
    ) -> Answer:
        media_type, charset = declared(got.get("content-type", ""))
        known = {"url": target.shown, "status": response.status, "headers": got, "content_type": media_type}
        if response.status in _REDIRECTS and got.get("location"):
            await _drain(response)
            onward = self.checked(got["location"], came_from=self.checked(target.shown))
            return Answer(**known, location=shown(onward))  # type: ignore[arg-type]
        if response.status != 200:
            await _drain(response)
            return Answer(**known)  # type: ignore[arg-type]
        if not any_type and not _is_page(media_type):
            return Answer(**known, unread=f"not a text: {media_type}")  # type: ignore[arg-type]
        data, unread = await self._data(response, got)
        if not unread and media_type in _UNTYPED and not any_type:
            unread = why_binary(target.shown.partition("?")[0], data)
        return Answer(**known, charset=charset, data=b"" if unread else data, unread=unread)  # type: ignore[arg-type]

    async def _data(self, response: httpcore.Response, got: Mapping[str, str]) -> tuple[bytes, str]:
        too_large = f"larger than {self._max_bytes} bytes"
        length = got.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            return b"", too_large
        inflater = Inflater(got.get("content-encoding", "").strip().lower(), self._max_bytes)
        async for piece in response.aiter_stream():
            inflater.feed(piece)
            if inflater.is_too_large:
                return b"", too_large
        return inflater.finish(), ""


def declared(content_type: str) -> tuple[str, str]:
    """Media type and charset of a Content-Type header."""
    media_type, _, parameters = content_type.lower().partition(";")
    charset = parameters.partition("charset=")[2].partition(";")[0].strip("\"' ")
    return media_type.strip(), charset


async def _drain(response: httpcore.Response) -> None:
    read = 0
    async for piece in response.aiter_stream():
        read += len(piece)
        if read > _DRAINED:
            return


def _is_page(media_type: str) -> bool:
    if media_type in _NOT_PAGES:
        return False
    return media_type in _UNTYPED or media_type.startswith("text/") or media_type in _READABLE
