"""What can be asked for while the library is being opened?  The site's own rules and lists."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from types import TracebackType

from refdesk.crawl.options import CrawlOptions
from refdesk.crawl.pace import Pace
from refdesk.crawl.rules import Robots
from refdesk.crawl.seeds import Listed, Seeds


class Ahead:
    """Asks for robots.txt and the lists before they are needed, unless a crawl may go on that has them already."""

    def __init__(self, seeds: Seeds, pace: Pace, options: CrawlOptions, file: Path) -> None:
        self._seeds = seeds
        self._pace = pace
        self._options = options
        self._file = file
        self._robots: asyncio.Task[str] | None = None
        self._listed: asyncio.Task[Listed] | None = None

    async def __aenter__(self) -> Ahead:
        if not _may_go_on(self._file, self._options.start):
            self._robots = asyncio.create_task(self._seeds.robots(self._options.start))
            self._listed = asyncio.create_task(self._list(self._robots))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun = [one for one in (self._robots, self._listed) if one is not None]
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
        self._pace.delay_s = max(self._pace.delay_s, robots.delay_s)
        if self._options.depth == 0 or not robots.allows(self._options.start):
            return Listed()
        return await self._seeds.listed(self._options.start, robots)


def _may_go_on(file: Path, start: str) -> bool:
    """Whether a crawl from this start was stopped."""
    if not file.is_file():
        return False
    query = "SELECT 1 FROM crawls WHERE start = ? AND unfinished"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as db:
            return db.execute(query, (start,)).fetchone() is not None
    except sqlite3.Error:
        return True  # whoever opens it to write says what is wrong
