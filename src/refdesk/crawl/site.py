"""One site as a crawl sees it: its pace, robots.txt, the pages it lists, and the queue of pages to request."""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import anyio

from refdesk.crawl.model import AGENT, Scope
from refdesk.crawl.state import CrawlState, Entry, PageState
from refdesk.crawl.urls import clean, folder_of, hide_keys, root_of
from refdesk.errors import InvalidUri, LoadFailed
from refdesk.sources.web import Fetched, Inflater, WebClient, is_text_type
from refdesk.system.retry import backoff
from refdesk.text import word_set

if TYPE_CHECKING:
    from protego import Protego

logger = logging.getLogger(__name__)
MOST_PAUSE_S = 60.0  # the longest pause, once or between two requests
_FILE_TRIES, _FILE_BACKOFF_S = 3, 0.3  # about a second in total; without robots.txt no crawl begins
_FILE_HOPS = 5  # as many redirects as RFC 9309 asks to follow
# What is no page: scripts and styles, calendars, and XML, which feeds are.
_NOT_PAGES = word_set(
    "text/css text/javascript text/calendar text/vcard text/xml application/xml application/javascript "
    "application/x-javascript application/typescript application/x-ndjson application/x-httpd-php"
)


class Pace:
    """Spaces the requests to one site, and pauses if the site asks for it."""

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

    async def wait_turn(self) -> None:
        now = self._clock()
        start = max(now, self._next)
        self._next = start + self.delay_s
        if start > now:
            await self._sleep(start - now)

    def pause(self, seconds: float) -> None:
        """Delays all requests by that many seconds, at most `MOST_PAUSE_S`."""
        self._next = max(self._next, self._clock() + min(seconds, MOST_PAUSE_S))


class SiteFetcher:
    """Fetches the pages and files of one site at its pace."""

    def __init__(self, client: WebClient, scope: Scope, pace: Pace) -> None:
        self.client = client
        self.pace = pace
        self._scope = scope

    async def fetch_page(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        """The response for a page, without retries; raises LoadFailed, or InvalidUri if the URL is not allowed."""
        await self.pace.wait_turn()
        return await self.client.ask(url, etag=etag, last_modified=last_modified, wants=is_page_type)

    async def fetch_file(self, url: str, *, required: bool = False) -> Fetched | None:
        """A file such as robots.txt, after redirects within the site; without it None, or an error if required."""
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
                logger.info("%s: %s", hide_keys(url), error)
                if required and is_last:
                    raise LoadFailed(error.message, "Check the address, or try again later.") from error
            if not is_last:
                await anyio.sleep(backoff(tries, _FILE_BACKOFF_S))
        return None

    async def _follow(self, url: str) -> Fetched | None:
        """The response after redirects; None if they leave the site or don't end."""
        for _ in range(_FILE_HOPS):
            await self.pace.wait_turn()
            answer = await self.client.ask(url)
            if not answer.location:
                return answer
            url = answer.location
            if not self._scope.has(clean(url)):
                return None
        return None


def is_page_type(media_type: str) -> bool:
    return media_type not in _NOT_PAGES and is_text_type(media_type)


# --- robots.txt ----------------------------------------------------------------------------------------

_ROBOTS_BYTES = 512_000  # the rest is ignored, as RFC 9309 allows


class Robots:
    """The rules of one robots.txt for this crawler."""

    def __init__(self, text: str) -> None:
        from protego import Protego

        self.text = text
        self._rules: Protego = Protego.parse(text)

    def allows(self, url: str) -> bool:
        return bool(self._rules.can_fetch(url, AGENT))

    @property
    def delay_s(self) -> float:
        delay = self._rules.crawl_delay(AGENT)
        rate = self._rules.request_rate(AGENT)
        try:
            by_rate = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        except OverflowError:
            by_rate = math.inf
        return max(float(delay or 0.0), float(by_rate))

    @property
    def sitemaps(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(one) for one in self._rules.sitemaps))


async def read_robots(fetcher: SiteFetcher, start: str) -> str:
    """The text of robots.txt, "" if there is none; raises LoadFailed if the server fails."""
    address = root_of(start) + "robots.txt"
    answer = await fetcher.fetch_file(address, required=True)
    if answer is None or (400 <= answer.status < 500 and answer.status != 429):
        return ""
    if answer.status != 200:
        raise LoadFailed(
            f"{address} answered with status {answer.status}, so it is unknown what may be crawled.", "Try again later."
        )
    return answer.data[:_ROBOTS_BYTES].decode("utf-8", "replace")


# --- sitemaps and llms.txt -----------------------------------------------------------------------------

ReadLinks = Callable[[Fetched], Awaitable[tuple[str, ...]]]
_MOST_LISTED = 50_000  # URLs in one sitemap, as the standard says
_MOST_SITEMAPS = 500  # per site: full ones list 25 million pages


@dataclass(slots=True)
class Listed:
    pages: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # pages in llms.txt, which may repeat others as Markdown
    full: str = ""  # the address of llms-full.txt
    full_text: str = ""


async def list_pages(fetcher: SiteFetcher, scope: Scope, robots: Robots, read_links: ReadLinks) -> Listed:
    """The pages of this site in sitemaps and llms.txt."""
    start = scope.options.start
    found = Listed()
    found.pages = [one for one in await _from_sitemaps(fetcher, scope, robots) if scope.has(one)]
    for folder in dict.fromkeys((root_of(start), folder_of(start))):
        answer = await _text(fetcher, robots, folder + "llms.txt")
        if answer is not None:
            found.texts += [one for one in await read_links(answer) if scope.has(one)]
        answer = await _text(fetcher, robots, folder + "llms-full.txt")
        if answer is not None and not found.full:
            found.full, found.full_text = answer.url, answer.data.decode("utf-8", "replace")
    return found


async def _text(fetcher: SiteFetcher, robots: Robots, url: str) -> Fetched | None:
    answer = await fetcher.fetch_file(url) if robots.allows(url) else None
    is_text = answer is not None and answer.status == 200 and not answer.unread and not answer.is_html
    return answer if is_text else None


async def _from_sitemaps(fetcher: SiteFetcher, scope: Scope, robots: Robots) -> list[str]:
    start = scope.options.start
    waiting = deque(clean(one, start) for one in robots.sitemaps or (root_of(start) + "sitemap.xml",))
    seen = set(waiting)
    pages: dict[str, None] = {}
    while waiting and len(seen) <= _MOST_SITEMAPS:
        address = waiting.popleft()
        if not address or not scope.has(address) or not robots.allows(address):
            continue
        answer = await fetcher.fetch_file(address)
        if answer is None or answer.status != 200 or answer.unread:
            continue
        sitemap = read_sitemap(answer.data, answer.url, fetcher.client.max_bytes)
        pages.update(dict.fromkeys(sitemap.pages))
        waiting.extend(one for one in sitemap.sitemaps if one not in seen)
        seen.update(sitemap.sitemaps)
    return list(pages)


class Sitemap(NamedTuple):
    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def read_sitemap(data: bytes, url: str, limit: int) -> Sitemap:
    """Parses a sitemap (XML, plain or gzipped, or one URL per line); empty if it can't be parsed."""
    if data.startswith(b"\x1f\x8b"):
        inflater = Inflater("gzip", limit)
        try:
            inflater.feed(data)
            data = b"" if inflater.is_too_large else inflater.finish()
        except LoadFailed:
            return Sitemap()
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = (clean(line) for line in data.decode("utf-8-sig", "replace").splitlines()[:_MOST_LISTED])
        return Sitemap(pages=tuple(dict.fromkeys(line for line in lines if line)))
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError):
        return Sitemap()
    found: list[str] = []
    for entry in root:
        for part in entry:
            if part.tag.rpartition("}")[2] == "loc" and (address := clean((part.text or "").strip(), url)):
                found.append(address)
                break
    listed = tuple(dict.fromkeys(found[:_MOST_LISTED]))
    return Sitemap(sitemaps=listed) if root.tag.rpartition("}")[2] == "sitemapindex" else Sitemap(pages=listed)


# --- the queue -----------------------------------------------------------------------------------------

_TOO_DEEP = "deeper than the limit"
_TOO_MANY = "beyond the limit of pages"
_FORBIDDEN = "robots.txt does not allow it"


class Frontier:
    """The pages to request, nearest to the start first; every page is recorded in the state when it is found."""

    def __init__(
        self, state: CrawlState, scope: Scope, robots: Robots, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._state = state
        self._scope = scope
        self._robots = robots
        self._clock = clock
        self._order = count()
        self._heap: list[tuple[int, int, int, Entry]] = []
        self._later: list[tuple[float, int, Entry]] = []
        self._seen = set(state.states())
        self._too_deep: set[str] = set()
        refused: list[tuple[str, PageState, str]] = []  # the rules may have changed since
        for entry in state.queued():
            if (reason := scope.why_not(entry.url)) or not robots.allows(entry.url):
                refused.append((entry.url, "skipped", reason or _FORBIDDEN))
            elif entry.depth > scope.options.depth:
                self._too_deep.add(entry.url)
                refused.append((entry.url, "left", _TOO_DEEP))
            else:
                self._push(entry)
        state.finish_pages(refused)

    def __len__(self) -> int:
        return len(self._heap) + len(self._later)

    def add(self, urls: Iterable[str], depth: int, *, late: int = 0, hops: int = 0) -> None:
        """Queues pages that are not known yet."""
        is_near = depth <= self._scope.options.depth
        fresh: list[Entry] = []
        forbidden: list[Entry] = []
        for url in urls:
            entry = Entry(url, depth, late, hops)
            if url in self._seen:
                if is_near and url in self._too_deep:
                    self._too_deep.discard(url)
                    self._state.requeue(entry)
                    self._push(entry)
            elif not self._scope.why_not(url):
                self._seen.add(url)
                (fresh if self._robots.allows(url) else forbidden).append(entry)
        self._state.add(forbidden, "skipped", _FORBIDDEN)
        if is_near:
            self._state.add(fresh)
            for entry in fresh:
                self._push(entry)
        else:
            self._state.add(fresh, "left", _TOO_DEEP)
            self._too_deep.update(entry.url for entry in fresh)

    def next(self, *, early_under_way: bool = False) -> Entry | None:
        """The next page to request now; late ones only if no other is queued or in progress."""
        while self._later and self._later[0][0] <= self._clock():
            self._push(heapq.heappop(self._later)[2])
        if not self._heap or (self._heap[0][0] and (early_under_way or self._later)):
            return None
        return heapq.heappop(self._heap)[3]

    def retry(self, entry: Entry, after_s: float) -> None:
        """Queues a page that failed, to be requested again later."""
        heapq.heappush(self._later, (self._clock() + after_s, next(self._order), entry))

    def wait_s(self) -> float | None:
        """The seconds until a failed page is due; None if there is none."""
        return max(0.0, self._later[0][0] - self._clock()) if self._later else None

    def skip_rest(self) -> None:
        """Leaves the rest to another run, once the limit of pages is reached."""
        rest = (*(one[3] for one in self._heap), *(one[2] for one in self._later))
        self._state.finish_pages((entry.url, "left", _TOO_MANY) for entry in rest)
        self._heap, self._later = [], []

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, (entry.late, entry.depth, next(self._order), entry))
