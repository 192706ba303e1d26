"""What can be asked for while the library is being opened?  The site's own rules and lists, and the first page."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from refdesk.crawl.client import Asked, SiteClient
from refdesk.crawl.options import CrawlOptions
from refdesk.crawl.pace import MOST_PAUSE_S, Pace
from refdesk.crawl.rules import Robots
from refdesk.crawl.seeds import Listed, Seeds


class First(NamedTuple):
    """The start, asked for already."""

    url: str
    asked: Asked
    asked_at: float


class Ahead:
    """Asks for robots.txt and the lists before they are needed, unless a crawl may go on that has them already.

    The start is asked for too, where no crawl from it is known that could say whether it has changed.
    """

    def __init__(self, seeds: Seeds, client: SiteClient, pace: Pace, options: CrawlOptions, file: Path) -> None:
        self._seeds = seeds
        self._client = client
        self._pace = pace
        self._options = options
        self._file = file
        self._robots: asyncio.Task[str] | None = None
        self._listed: asyncio.Task[Listed] | None = None
        self._is_known = True
        self.first: First | None = None

    async def __aenter__(self) -> Ahead:
        self._is_known, may_go_on = _known(self._file, self._options.start)
        if not may_go_on:
            self._robots = asyncio.create_task(self._seeds.robots(self._options.start))
            self._listed = asyncio.create_task(self._list(self._robots))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        first = self.first.asked if self.first is not None else None
        begun = [one for one in (self._robots, self._listed, first) if one is not None]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    async def robots(self) -> str:
        """The text of robots.txt, "" when there is none; LoadFailed when the site can't say."""
        return await (self._robots or self._seeds.robots(self._options.start))

    async def listed(self, robots: Robots) -> Listed:
        """The pages that the site lists itself."""
        return await (self._listed or self._seeds.listed(self._options.start, robots))

    async def _list(self, read: asyncio.Task[str]) -> Listed:
        robots = Robots(await read)
        start = self._options.start
        if not robots.allows(start) or robots.delay_s > MOST_PAUSE_S:
            return Listed()
        self._pace.delay_s = max(self._pace.delay_s, robots.delay_s)
        listed = await self._seeds.listed(start, robots) if self._options.depth else Listed()
        if not self._is_known and self._pace.is_due:
            self._pace.take()
            self.first = First(start, self._client.begin(start), time.perf_counter())
        return listed


def _known(file: Path, start: str) -> tuple[bool, bool]:
    """Whether a crawl from this start is known, and whether it was stopped and may go on."""
    if not file.is_file():
        return False, False
    import sqlite3

    query = "SELECT max(unfinished) FROM crawls WHERE start = ?"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as db:
            unfinished = db.execute(query, (start,)).fetchone()[0]
            return unfinished is not None, bool(unfinished)
    except sqlite3.Error:
        return True, True  # whoever opens it to write says what is wrong
