"""A whole crawl, top to bottom: the site's rules are asked for while the library is opened, then come the pages."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from typing import TYPE_CHECKING

import anyio.to_thread

from refdesk.crawl.ahead import Ahead
from refdesk.crawl.client import SiteClient
from refdesk.crawl.options import CrawlOptions, Scope
from refdesk.crawl.pace import Pace
from refdesk.crawl.seeds import Seeds
from refdesk.errors import InvalidInput
from refdesk.pause import without_collections
from refdesk.store.folder import CRAWL_FILE

if TYPE_CHECKING:
    from refdesk.crawl.harvest import Place
    from refdesk.crawl.report import CrawlReport
    from refdesk.desk import Desk
    from refdesk.settings import Settings

    OpenDesk = Callable[[Settings], AbstractContextManager[Desk]]

Tell = Callable[[int, int, str], None]  # how many pages are done, of how many, and which was the last
_SWITCH_S = 0.0002  # how long answers may wait for what is done beside them


def crawl_into(
    open_desk: OpenDesk,
    settings: Settings,
    options: CrawlOptions,
    *,
    name: str = "",
    description: str = "",
    tell: Tell | None = None,
    open_another: OpenDesk | None = None,
) -> CrawlReport:
    """Makes a collection hold what the site has now; one that was stopped goes on where it was.

    The library is opened meanwhile. With `open_another`, another process indexes a large site while it is fetched.
    """
    started = time.perf_counter()
    scope = Scope.of(options)
    if reason := scope.why_not(options.start):
        raise InvalidInput(f"{options.start} is not crawled: {reason}.", "Start elsewhere, or exclude less.")
    with _quick_switches():
        report = asyncio.run(_crawl(open_desk, settings, scope, name, description, tell, open_another))
    report.seconds = time.perf_counter() - started
    return report


async def _crawl(
    open_desk: OpenDesk,
    settings: Settings,
    scope: Scope,
    name: str,
    description: str,
    tell: Tell | None,
    open_another: OpenDesk | None,
) -> CrawlReport:
    pace = Pace(scope.options.delay_s)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(settings))
        seeds = Seeds(client, scope, pace, settings.max_fetch_bytes)
        ahead = await stack.enter_async_context(
            Ahead(seeds, client, pace, scope.options, settings.library / CRAWL_FILE)
        )
        # What anyio needs is imported when the first request is out, beside the loop: it takes as long as an answer.
        await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "anyio._backends._asyncio")
        another = stack.enter_context(ExitStack())  # it ends while the library is closed here
        opened = stack.enter_context(ExitStack())
        with without_collections():
            place = await anyio.to_thread.run_sync(_open, opened, open_desk, settings, scope, name, description)
        from refdesk.crawl.apart import Apart
        from refdesk.crawl.harvest import harvest

        apart = None
        if open_another is not None:
            apart = another.enter_context(
                Apart(open_another, settings, settings.library / CRAWL_FILE, place.collection)
            )
        return await harvest(place, client, scope, pace, ahead, tell, apart)


def _open(
    opened: ExitStack, open_desk: OpenDesk, settings: Settings, scope: Scope, name: str, description: str
) -> Place:
    """Opens the library, in a thread: to import what it needs takes longer than an answer."""
    from refdesk.crawl.harvest import open_place

    return opened.enter_context(open_place(open_desk, settings, scope.options, name, description))


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Answers wait less for the threads that import and that write down what was indexed."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _client(settings: Settings) -> SiteClient:
    return SiteClient(
        allow_hosts=settings.allow_hosts, max_bytes=settings.max_fetch_bytes, timeout_s=settings.fetch_timeout_s
    )
