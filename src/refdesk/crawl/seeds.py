"""Where does a crawl begin?  At the start, and at what the site itself lists: robots.txt, sitemaps, llms.txt."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

import anyio

from refdesk.crawl.client import Answer, SiteClient
from refdesk.crawl.options import Scope
from refdesk.crawl.pace import Pace, backoff
from refdesk.crawl.rules import ROBOTS_BYTES, Robots, links_in_markdown, read_sitemap
from refdesk.crawl.urls import clean, folder_of, root_of, without_keys
from refdesk.errors import InvalidUri, LoadFailed

logger = logging.getLogger(__name__)
_MOST_SITEMAPS = 500
_MOST_HOPS = 5
_TRIES = 3
_BACKOFF_S = 0.3


@dataclass(slots=True)
class Listed:
    """What the site lists."""

    pages: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # pages of llms.txt: they may repeat others as markdown
    full: str = ""  # the address of llms-full.txt
    full_text: str = ""


class Seeds:
    """Reads a site's own lists, at its pace and within its rules."""

    def __init__(self, client: SiteClient, scope: Scope, pace: Pace, max_bytes: int) -> None:
        self._client = client
        self._scope = scope
        self._pace = pace
        self._max_bytes = max_bytes

    async def robots(self, start: str) -> str:
        """The text of robots.txt, "" when there is none; LoadFailed when the site can't say."""
        address = root_of(start) + "robots.txt"
        answer = await self._read(address, must=True)
        if answer is None or (400 <= answer.status < 500 and answer.status != 429):
            return ""
        if answer.status != 200:
            raise LoadFailed(
                f"{address} answered with status {answer.status}, so nobody knows what may be crawled.",
                "Try again later.",
            )
        return answer.data[:ROBOTS_BYTES].decode("utf-8", "replace")

    async def listed(self, start: str, robots: Robots) -> Listed:
        """The pages that sitemaps and llms.txt list, those of this site only."""
        found = Listed()
        found.pages = [one for one in await self._sitemaps(start, robots) if self._scope.has(one)]
        for folder in dict.fromkeys((root_of(start), folder_of(start))):
            answer = await self._text(folder + "llms.txt", robots)
            if answer is not None:
                links = links_in_markdown(answer.data.decode("utf-8", "replace"), answer.url)
                found.texts += [one for one in links if self._scope.has(one)]
            answer = await self._text(folder + "llms-full.txt", robots)
            if answer is not None and not found.full:
                found.full, found.full_text = answer.url, answer.data.decode("utf-8", "replace")
        return found

    async def _text(self, url: str, robots: Robots) -> Answer | None:
        answer = await self._read(url) if robots.allows(url) else None
        is_text = answer is not None and answer.status == 200 and not answer.unread and not answer.is_html
        return answer if is_text else None

    async def _sitemaps(self, start: str, robots: Robots) -> list[str]:
        waiting = deque(clean(one, start) for one in robots.sitemaps or (root_of(start) + "sitemap.xml",))
        seen = set(waiting)
        pages: dict[str, None] = {}
        while waiting and len(seen) <= _MOST_SITEMAPS:
            address = waiting.popleft()
            if not address or not self._scope.has(address) or not robots.allows(address):
                continue
            answer = await self._read(address)
            if answer is None or answer.status != 200 or answer.unread:
                continue
            sitemap = read_sitemap(answer.data, answer.url, self._max_bytes)
            pages.update(dict.fromkeys(sitemap.pages))
            waiting.extend(one for one in sitemap.sitemaps if one not in seen)
            seen.update(sitemap.sitemaps)
        return list(pages)

    async def _read(self, url: str, *, must: bool = False) -> Answer | None:
        """The answer behind redirects on this site; None, or with `must` an error, when there is none."""
        for tries in range(1, _TRIES + 1):
            if tries > 1:
                await anyio.sleep(backoff(tries - 1, _BACKOFF_S))
            try:
                answer = await self._follow(url)
            except LoadFailed as error:
                logger.info("%s: %s", without_keys(url), error)
                if must and tries == _TRIES:
                    raise LoadFailed(
                        f"{without_keys(url)} could not be read: {error.message}",
                        "Check the address, or try again later.",
                    ) from error
                continue
            except InvalidUri:
                if must:
                    raise
                return None
            if answer is None or answer.status < 500 or tries == _TRIES:
                return answer
        return None

    async def _follow(self, url: str) -> Answer | None:
        """The answer behind redirects; None when they leave the site or do not end."""
        for _ in range(_MOST_HOPS):
            await self._pace.turn()
            answer = await self._client.ask(url, any_type=True)
            if not answer.location:
                return answer
            url = answer.location
            if not self._scope.has(clean(url)):
                return None
        return None
