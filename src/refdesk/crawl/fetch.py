"""How is a site asked?  At its pace; for files such as robots.txt again after a failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

import anyio

from refdesk.crawl.options import Scope
from refdesk.crawl.urls import clean, without_keys
from refdesk.errors import InvalidUri, LoadFailed
from refdesk.sources.web import UNTYPED, Fetched, WebClient
from refdesk.system.retry import backoff

logger = logging.getLogger(__name__)
MOST_PAUSE_S = 60.0  # the longest wait for a site, once or between two requests
_FILE_TRIES = 3
_FILE_BACKOFF_S = 0.3
_FILE_HOPS = 5
_PAGE_TYPES = frozenset(
    {
        "application/xhtml+xml", "application/json", "application/yaml", "application/x-yaml", "application/toml",
        "application/pdf", "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/x-sh", "application/x-python-code", "application/sql",
    }
)  # fmt: skip
_NOT_PAGES = frozenset({"text/css", "text/javascript", "text/calendar", "text/vcard", "text/xml"})  # feeds are xml


class Pace:
    """Keeps the starts of requests to one site apart, and stops for as long as the site asks."""

    def __init__(
        self,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.delay_s = delay_s
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    async def turn(self) -> None:
        """Returns when it is this request's turn."""
        now = self._clock()
        start = max(now, self._next)
        self._next = start + self.delay_s
        if start > now:
            await self._sleep(start - now)

    def pause(self, seconds: float) -> None:
        """Holds all requests back for so long, a minute at most."""
        self._next = max(self._next, self._clock() + min(seconds, MOST_PAUSE_S))


class SiteFetcher:
    """Fetches pages and files of one site at its pace."""

    def __init__(self, client: WebClient, scope: Scope, pace: Pace) -> None:
        self.client = client
        self.pace = pace
        self._scope = scope

    async def page(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        """The answer of a page, asked once; LoadFailed when there is none, InvalidUri when it must not be asked."""
        await self.pace.turn()
        return await self.client.ask(url, etag=etag, last_modified=last_modified, wants=is_page_type)

    async def file(self, url: str, *, required: bool = False) -> Fetched | None:
        """A file such as robots.txt, after redirects on this site; None, or if it is required an error, without it."""
        for tries in range(1, _FILE_TRIES + 1):
            is_last = tries == _FILE_TRIES
            try:
                answer = await self._follow(url)
                if answer is None or answer.status < 500 or is_last:
                    return answer
            except InvalidUri:
                if required:
                    raise
                return None
            except LoadFailed as error:
                logger.info("%s: %s", without_keys(url), error)
                if required and is_last:
                    raise LoadFailed(error.message, "Check the address, or try again later.") from error
            if not is_last:
                await anyio.sleep(backoff(tries, _FILE_BACKOFF_S))
        return None

    async def _follow(self, url: str) -> Fetched | None:
        """The answer after redirects; None when they leave the site or do not end."""
        for _ in range(_FILE_HOPS):
            await self.pace.turn()
            answer = await self.client.ask(url)
            if not answer.location:
                return answer
            url = answer.location
            if not self._scope.has(clean(url)):
                return None
        return None


def is_page_type(media_type: str) -> bool:
    """Whether an answer of this type may be a page worth keeping."""
    if media_type in _NOT_PAGES:
        return False
    return media_type in UNTYPED or media_type.startswith("text/") or media_type in _PAGE_TYPES
