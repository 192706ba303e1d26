"""Once the library is open: what the site lists, its pages, and what the library makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass

from refdesk.crawl.ahead import Ahead
from refdesk.crawl.apart import Apart, OpenDesk
from refdesk.crawl.client import SiteClient
from refdesk.crawl.crawler import Crawler, Render
from refdesk.crawl.frontier import Frontier
from refdesk.crawl.keep import Keeper
from refdesk.crawl.options import CrawlOptions, Scope
from refdesk.crawl.pace import MOST_PAUSE_S, Pace
from refdesk.crawl.report import CrawlReport
from refdesk.crawl.rules import Robots
from refdesk.crawl.state import CrawlState
from refdesk.crawl.urls import site_of, without_keys
from refdesk.desk import Desk
from refdesk.errors import Forbidden, InvalidInput, LibraryBusy, LoadFailed, RefdeskError
from refdesk.ids import name_from
from refdesk.model import Collection
from refdesk.progress import Progress
from refdesk.settings import Settings
from refdesk.store.folder import CRAWL_FILE

_HINTS = {"empty without JavaScript": "Install refdesk[browser] and Chromium: it is then read as a browser shows it."}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the pages go: a collection, and the record of its crawl."""

    desk: Desk
    collection: Collection
    state: CrawlState


@contextmanager
def open_place(
    open_desk: OpenDesk, settings: Settings, options: CrawlOptions, name: str, description: str
) -> Iterator[Place]:
    """The collection that the site goes into, made now if there is none; it goes again when nothing came of it."""
    with open_desk(settings) as desk:
        known = {one.id for one in desk.store.collections()}
        collection = _collection(desk, options, name, description)
        with _alone(desk, collection), _state(desk, collection) as state:
            state.forget_all_but(one.id for one in desk.store.collections())
            try:
                yield Place(desk, collection, state)
            except RefdeskError:
                if collection.id not in known and not state.counts().keys() & {"fetched", "stored"}:
                    desk.store.remove_collection(collection.name)
                raise


async def harvest(
    place: Place,
    client: SiteClient,
    scope: Scope,
    pace: Pace,
    ahead: Ahead,
    tell: Callable[[int, int, str], None] | None,
    apart: Apart | None,
) -> CrawlReport:
    """Fetches what the site has, and makes the collection hold it."""
    state, options = place.state, scope.options
    report = CrawlReport(collection=place.collection.name, start=options.start)
    report.resumed = state.begin(options.start)
    robots = await _robots(ahead, state, options.start)
    pace.delay_s = max(pace.delay_s, robots.delay_s)
    frontier = await _frontier(ahead, scope, state, robots)
    keeper = Keeper(place.desk, place.collection, state, report)
    async with AsyncExitStack() as stack:
        crawler = Crawler(
            client=client, scope=scope, pace=pace, state=state, frontier=frontier, keeper=keeper, report=report,
            progress=Progress(tell) if tell else Progress(), render=await _browser(stack, client, options), apart=apart,
            first=ahead.first,
        )  # fmt: skip
        try:
            await crawler.run()
        except BaseException as error:
            if apart is not None:
                apart.kill()
            raise _first(error) from None
    if apart is not None:
        apart.leave()
    _refuse_nothing(options.start, state)
    from refdesk.crawl.settle import settle  # not before: requests would wait for it

    settle(state, keeper)
    state.finish()
    _fill(report, state)
    place.desk.store.replace_skipped(place.collection.name, [*report.failed, *report.scripts, *report.skipped])
    return report


def _first(error: BaseException) -> BaseException:
    """What failed in one of several tasks, as itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _robots(ahead: Ahead, state: CrawlState, start: str) -> Robots:
    """The site's rules; those that were read within a day hold for a crawl that goes on."""
    text = state.robots
    robots = Robots(await ahead.robots() if text is None else text)
    if robots.delay_s > MOST_PAUSE_S:
        raise Forbidden(
            f"robots.txt asks for {robots.delay_s:g} s between requests; a crawl waits {MOST_PAUSE_S:g} s at most, so"
            f" {site_of(start)} is left out.",
            "Ask the site's owner for a shorter delay, or ingest single pages.",
        )
    if text is None:
        state.note_robots(robots.text)
    return robots


async def _frontier(ahead: Ahead, scope: Scope, state: CrawlState, robots: Robots) -> Frontier:
    """The pages that are known already, the start and what the site itself lists."""
    start = scope.options.start
    if not robots.allows(start):
        raise Forbidden(f"robots.txt does not allow {start}.", "Ask the site's owner, or start elsewhere.")
    frontier = Frontier(state, scope, robots)
    frontier.found([start], 0)
    if not state.seeded and scope.options.depth > 0:
        listed = await ahead.listed(robots)
        frontier.found(listed.pages, 1)
        for address in listed.texts:
            frontier.found([address], 1, late=int(address.endswith(".md")))
        state.note_seeded(listed.full, listed.full_text)
    return frontier


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
        with FileLock(
            desk.settings.library / f"crawl-{collection.name}.lock", timeout=0, thread_local=False, mode=0o600
        ):
            yield
    except Timeout as error:
        raise LibraryBusy(f"Another crawl of {collection.name} is running.", "Wait for it, or stop it.") from error


@contextmanager
def _state(desk: Desk, collection: Collection) -> Iterator[CrawlState]:
    state = CrawlState(desk.settings.library / CRAWL_FILE, collection.id, desk.settings.durability)
    try:
        yield state
    finally:
        state.close()


def _refuse_nothing(start: str, state: CrawlState) -> None:
    """A crawl that could not even begin is an error, and changes nothing."""
    counts = state.counts()
    if counts.get("stored", 0) + counts.get("fetched", 0) + counts.get("alias", 0):
        return
    why = {one.path: one.reason for one in state.reasons("failed", "gone", "skipped", "scripts")}
    start = without_keys(start)
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
