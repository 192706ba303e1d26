"""A whole crawl, top to bottom: rules, lists, pages, and what the library makes of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

import anyio

from refdesk.crawl.apart import Apart, OpenDesk
from refdesk.crawl.client import SiteClient
from refdesk.crawl.crawler import Crawler, Render
from refdesk.crawl.frontier import Frontier
from refdesk.crawl.keep import Keeper
from refdesk.crawl.options import CrawlOptions, Scope
from refdesk.crawl.pace import Pace
from refdesk.crawl.report import CrawlReport
from refdesk.crawl.rules import Robots
from refdesk.crawl.seeds import Seeds
from refdesk.crawl.settle import settle
from refdesk.crawl.state import CRAWL_FILE, CrawlState
from refdesk.crawl.urls import site_of
from refdesk.desk import Desk
from refdesk.errors import Forbidden, InvalidInput, LibraryBusy, LoadFailed, RefdeskError
from refdesk.ids import name_from
from refdesk.ingest import Progress
from refdesk.model import Collection
from refdesk.settings import Settings

_HINTS = {"empty without JavaScript": "Install refdesk[browser] and Chromium: it is then read as a browser shows it."}


def crawl(
    desk: Desk,
    options: CrawlOptions,
    *,
    name: str = "",
    description: str = "",
    progress: Progress | None = None,
    open_desk: OpenDesk | None = None,
) -> CrawlReport:
    """Makes a collection hold what the site has now; one that was stopped goes on where it was.

    With `open_desk`, a large site is indexed by another process while it is fetched.
    """
    started = time.perf_counter()
    scope = Scope.of(options)
    if reason := scope.why_not(options.start):
        raise InvalidInput(f"{options.start} is not crawled: {reason}.", "Start elsewhere, or exclude less.")
    known = {one.id for one in desk.store.collections()}
    collection = _collection(desk, options, name, description)
    with _alone(desk, collection), _state(desk, collection) as state:
        state.forget_all_but(one.id for one in desk.store.collections())
        report = CrawlReport(collection=collection.name, start=options.start)
        apart = Apart(open_desk, desk.settings, desk.settings.library / CRAWL_FILE, collection) if open_desk else None
        work = partial(_crawl, desk, collection, scope, state, report, progress or Progress(), apart)
        try:
            _run(work)
        except RefdeskError:
            if collection.id not in known and not state.counts().keys() & {"fetched", "stored"}:
                desk.store.remove_collection(collection.name)  # nothing came of it: leave no trace
            raise
        _fill(report, state)
        desk.store.replace_skipped(collection.name, [*report.failed, *report.scripts, *report.skipped])
    report.seconds = time.perf_counter() - started
    return report


def _run(work: Callable[[], Awaitable[None]]) -> None:
    """Runs the work to its end; what fails in one of its tasks comes out as itself."""
    try:
        anyio.run(work)
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _crawl(
    desk: Desk,
    collection: Collection,
    scope: Scope,
    state: CrawlState,
    report: CrawlReport,
    progress: Progress,
    apart: Apart | None,
) -> None:
    options = scope.options
    report.resumed = state.begin(options.start)
    pace = Pace(options.delay_s)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(desk.settings))
        seeds = Seeds(client, scope, pace, desk.settings.max_fetch_bytes)
        robots = await _robots(seeds, state, options.start)
        pace.delay_s = max(pace.delay_s, robots.delay_s)
        frontier = await _frontier(seeds, scope, state, robots)
        keeper = Keeper(desk, collection, state, report)
        crawler = Crawler(
            client=client, scope=scope, pace=pace, state=state, frontier=frontier, keeper=keeper, report=report,
            progress=progress, render=await _browser(stack, client, options),
            elsewhere=stack.enter_context(apart).keep_some if apart else None,
        )  # fmt: skip
        await crawler.run()
        if apart is not None:
            apart.leave()
        _refuse_nothing(options.start, state, report)
        settle(state, keeper)
        state.finish()


def _client(settings: Settings) -> SiteClient:
    return SiteClient(
        allow_hosts=settings.allow_hosts,
        max_bytes=settings.max_fetch_bytes,
        timeout_s=settings.fetch_timeout_s,
    )


async def _frontier(seeds: Seeds, scope: Scope, state: CrawlState, robots: Robots) -> Frontier:
    """The pages that are known already, the start and what the site itself lists."""
    start = scope.options.start
    if not robots.allows(start):
        raise Forbidden(f"robots.txt does not allow {start}.", "Ask the site's owner, or start elsewhere.")
    frontier = Frontier(state, scope, robots)
    frontier.found([start], 0)
    if not state.seeded and scope.options.depth > 0:
        listed = await seeds.listed(start, robots)
        frontier.found(listed.pages, 1)
        for address in listed.texts:
            frontier.found([address], 1, late=int(address.endswith(".md")))
        state.note_seeded(listed.full, listed.full_text)
    return frontier


async def _robots(seeds: Seeds, state: CrawlState, start: str) -> Robots:
    """The site's rules; those that were read within a day hold for a crawl that goes on."""
    text = state.robots
    if text is None:
        text = await seeds.robots(start)
        state.note_robots(text)
    return Robots(text)


async def _browser(stack: AsyncExitStack, client: SiteClient, options: CrawlOptions) -> Render | None:
    """What shows a page as a browser does, where one is installed."""
    if not options.browser:
        return None
    from refdesk.crawl.render import Browser, why_no_browser

    if why_no_browser():
        return None
    browser = await stack.enter_async_context(Browser(client))
    return browser.render


def _collection(desk: Desk, options: CrawlOptions, name: str, description: str) -> Collection:
    """The collection of that name, made now if there is none; it must be one that was crawled."""
    known = {one.root: one.name for one in desk.store.collections() if one.kind == "web"}
    wanted = name or known.get(options.start) or name_from(site_of(options.start))
    found = desk.store.collection(wanted)
    if found is not None and found.kind != "web":
        raise InvalidInput(f"Collection {wanted} holds {found.kind}, not a web site.", "Choose another --name.")
    return desk.ensure_collection(wanted, "web", root=options.start, description=description)


@contextmanager
def _alone(desk: Desk, collection: Collection) -> Iterator[None]:
    """Nobody else crawls the collection meanwhile."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(desk.settings.library / f"crawl-{collection.name}.lock", timeout=0):
            yield
    except Timeout as error:
        raise LibraryBusy(f"Another crawl of {collection.name} is running.", "Wait for it, or stop it.") from error


@contextmanager
def _state(desk: Desk, collection: Collection) -> Iterator[CrawlState]:
    state = CrawlState(desk.settings.library / CRAWL_FILE, collection.id)
    try:
        yield state
    finally:
        state.close()


def _refuse_nothing(start: str, state: CrawlState, report: CrawlReport) -> None:
    """A crawl that could not even begin is an error, and changes nothing."""
    counts = state.counts()
    if counts.get("stored", 0) + counts.get("fetched", 0) + counts.get("alias", 0):
        return
    why = {one.path: one.reason for one in state.reasons("failed", "gone", "skipped", "scripts")}
    reason = why.get(start) or next(iter(why.values()), "there is no page")
    raise LoadFailed(f"Nothing to crawl at {start}: {reason}.", _HINTS.get(reason, "Check the address."))


def _fill(report: CrawlReport, state: CrawlState) -> None:
    """The report with what is known of all pages."""
    counts = state.counts()
    report.pages = counts.get("stored", 0)
    report.moved = counts.get("moved", 0)
    report.duplicates = counts.get("alias", 0) + counts.get("duplicate", 0)
    report.left = counts.get("left", 0)
    report.failed = state.reasons("failed")
    report.gone = state.reasons("gone")
    report.skipped = state.reasons("skipped")
    report.scripts = state.reasons("scripts")
    if report.scripts:
        from refdesk.crawl.render import why_no_browser

        report.notes.append(f"{len(report.scripts)} pages are empty without JavaScript. {why_no_browser()}".strip())
