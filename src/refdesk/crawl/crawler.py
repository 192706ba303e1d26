"""The crawl of one site, top to bottom: its rules, its pages, several at a time, then what is gone.

Each response is in crawl.db before it is parsed and stays there until it is indexed, so a kill loses none.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from refdesk.crawl.indexing import Indexer, open_collection, reconcile
from refdesk.crawl.model import CrawlOptions, CrawlReport, Scope
from refdesk.crawl.page import Outcome, PageReader, outcome_of_answer, outcome_of_page
from refdesk.crawl.render import Browser, why_no_browser
from refdesk.crawl.site import MOST_PAUSE_S, Frontier, Pace, Robots, SiteFetcher, list_pages, read_robots
from refdesk.crawl.state import Body, CrawlState, Entry, digest_of
from refdesk.crawl.urls import hide_keys, site_of, twins
from refdesk.desk.desk import Desk
from refdesk.errors import Cancelled, Forbidden, InvalidInput, InvalidUri, LoadFailed
from refdesk.ingest.prepare import Progress
from refdesk.model import Skipped
from refdesk.settings import Settings
from refdesk.sources.web import Fetched, WebClient
from refdesk.system.retry import backoff

Render = Callable[[str], Awaitable[str]]
_LOOK_S = 0.25  # how often a crawl looks whether it was cancelled
_INDEXED_PAGES, _INDEXED_BYTES = 50, 1_000_000  # indexed together: 5 s of pages at the default pace
_FEWEST_REPEATS = 100  # redirects and duplicates that are allowed even if max_pages is lower
_HINTS = {"empty without JavaScript": "Install refdesk[browser] and Chromium to render it."}


def crawl(
    desk: Desk, options: CrawlOptions, *, name: str = "", description: str = "", progress: Progress | None = None
) -> CrawlReport:
    """Updates a collection to what the site has now; resumes a crawl that was stopped."""
    started = time.perf_counter()
    scope = Scope.of(options)
    if reason := scope.why_not(options.start):
        raise InvalidInput(f"{options.start} is not crawled: {reason}.", "Start elsewhere, or exclude less.")
    with open_collection(desk, options, name, description) as (collection, state):
        report = CrawlReport(collection=collection.name, start=options.start, resumed=state.begin_round(options.start))
        indexer = Indexer(desk, collection, state, report)
        anyio.run(_fetch_unless_cancelled, desk.settings, scope, state, indexer, report, progress or Progress())
        if not state.counts().keys() & {"stored", "fetched", "alias"}:  # nothing is changed then
            why = {one.path: one.reason for one in state.reasons("failed", "gone", "skipped", "scripts")}
            start = hide_keys(options.start)
            reason = why.get(start) or next(iter(why.values()), "there is no page")
            raise LoadFailed(f"Nothing to crawl at {start}: {reason}.", _HINTS.get(reason, "Check the address."))
        reconcile(state, indexer)
        state.finish_round()
        report.fill(state)
        if report.scripts:
            hint = f"{len(report.scripts)} pages are empty without JavaScript. {why_no_browser()}"
            report.notes.append(hint.strip())
        desk.replace_skipped(collection.name, [*report.failed, *report.scripts, *report.skipped])
    report.seconds = time.perf_counter() - started
    return report


async def _fetch_unless_cancelled(
    settings: Settings, scope: Scope, state: CrawlState, indexer: Indexer, report: CrawlReport, progress: Progress
) -> None:
    """Fetches the site; also while all requests wait for a slow site, a cancelled crawl stops."""

    async def watch() -> None:
        while not progress.cancelled():
            await anyio.sleep(_LOOK_S)
        raise Cancelled("The crawl was stopped.", "Crawl again to go on with it.")

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await _fetch_site(settings, scope, state, indexer, report, progress)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


async def _fetch_site(
    settings: Settings, scope: Scope, state: CrawlState, indexer: Indexer, report: CrawlReport, progress: Progress
) -> None:
    options = scope.options
    async with AsyncExitStack() as stack:
        client = WebClient(
            allow_hosts=settings.allow_hosts, max_bytes=settings.max_fetch_bytes, timeout_s=settings.fetch_timeout_s
        )
        fetcher = SiteFetcher(await stack.enter_async_context(client), scope, Pace(options.delay_s))
        reader = stack.enter_context(PageReader())

        saved = state.robots  # of a resumed crawl, if it was read within a day
        robots = Robots(await read_robots(fetcher, options.start) if saved is None else saved)
        if robots.delay_s > MOST_PAUSE_S:
            raise Forbidden(
                f"robots.txt asks for {robots.delay_s:g} s between requests; a crawl waits {MOST_PAUSE_S:g} s at most,"
                f" so {site_of(options.start)} is left out.",
                "Ask the site's owner for a shorter delay, or ingest single pages.",
            )
        if saved is None:
            state.save_robots(robots.text)
        if not robots.allows(options.start):
            raise Forbidden(f"robots.txt does not allow {options.start}.", "Ask the site's owner, or start elsewhere.")
        fetcher.pace.delay_s = max(options.delay_s, robots.delay_s)

        async def read_links(text: Fetched) -> tuple[str, ...]:
            facts = await reader.read(text)
            return () if isinstance(facts, Skipped) else facts.links

        frontier = Frontier(state, scope, robots)
        frontier.add([options.start], 0)
        if not state.has_lists and options.depth > 0:
            listed = await list_pages(fetcher, scope, robots, read_links)
            frontier.add(listed.pages, 1)
            for address in listed.texts:
                frontier.add([address], 1, late=int(address.endswith(".md")))
            state.save_lists(listed.full, listed.full_text)

        render = None
        if options.browser and not why_no_browser():
            render = (await stack.enter_async_context(Browser(client))).render
        await Crawler(scope, fetcher, reader, state, frontier, indexer, report, progress, render).run()


@dataclass(eq=False)
class Crawler:
    """The loop over the pages of one site: several tasks fetch and read, a thread indexes."""

    scope: Scope
    fetcher: SiteFetcher
    reader: PageReader
    state: CrawlState
    frontier: Frontier
    indexer: Indexer
    report: CrawlReport
    progress: Progress
    render: Render | None

    def __post_init__(self) -> None:
        self._options = self.scope.options
        self._hash_before = self.state.hash_by_url()
        self._hashes = self.state.hashes()  # hash → the page with these bytes
        counts = self.state.counts()
        self._good = counts.get("fetched", 0) + counts.get("stored", 0)
        self._without_page = counts.get("gone", 0) + counts.get("scripts", 0)  # requests that gave no page
        self._repeats = sum(counts.get(one, 0) for one in ("moved", "alias", "duplicate"))
        self._done = sum(counts.values()) - len(self.frontier)
        self._active = self._active_early = 0
        self._changed = anyio.Event()
        self._waiting_pages = self._waiting_bytes = 0
        self._is_fetching = True
        self._is_stopped = False

    async def run(self) -> None:
        """Fetches what the limits allow and indexes it meanwhile."""
        started = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._index_pages)
            try:
                for entry, body, headers in self.state.answered():
                    answer = Fetched(url=body.url, status=200, data=body.data, headers=headers)
                    answer = replace(answer, content_type=body.content_type, charset=body.charset)
                    await self._read(entry, answer, body)
                async with anyio.create_task_group() as fetching:
                    for _ in range(self._options.concurrency):
                        fetching.start_soon(self._fetch_all)
            except BaseException:
                self._is_stopped = True  # indexing stops after the current page
                raise
            self._is_fetching = False
            self.report.fetch_seconds = time.perf_counter() - started
            self._notify()
        if self._room <= 0 and len(self.frontier):
            self.frontier.skip_rest()
            if self._without_page:
                self.report.notes.append(f"{self._without_page} addresses that gave no page count towards --max-pages.")
            if self._good + self._without_page < self._options.max_pages:
                self.report.notes.append(f"{self._repeats} redirects and duplicates reached their limit.")

    async def _fetch(self, entry: Entry) -> None:
        """Requests a page, saves the response and parses it."""
        self.report.asked += 1
        is_indexed = entry.url in self.indexer.indexed
        try:
            answer = await self.fetcher.fetch_page(
                entry.url,
                etag=entry.etag if is_indexed else "",
                last_modified=entry.last_modified if is_indexed else "",
            )
        except InvalidUri as error:
            outcome: Outcome | None = Outcome(state="skipped", reason=str(error))
        except LoadFailed as error:
            outcome = Outcome(state="failed", reason=str(error), is_transient=True)
        else:
            outcome = outcome_of_answer(entry.url, answer, self.scope, entry.hops)
        if outcome is not None:
            self._conclude(entry, outcome)
        else:
            await self._read(entry, answer, self._hold(entry, answer))

    def _hold(self, entry: Entry, answer: Fetched) -> Body:
        body = Body(
            entry.url, "", digest_of(answer.data), answer.data, answer.content_type, answer.charset,
            answer.last_modified,
        )  # fmt: skip
        self.state.save_answer(body, "answered", answer.headers)
        return body

    async def _read(self, entry: Entry, answer: Fetched, body: Body) -> None:
        """Parses a saved page, rendering it if necessary, and records its outcome."""
        arrived = body.hash
        self._hashes.setdefault(arrived, entry.url)  # of pages with the same bytes, the first to arrive is kept
        outcome = outcome_of_page(entry.url, await self.reader.read(answer), self.scope, entry.hops)
        if outcome.state == "scripts" and self.render is not None:
            try:
                html = await self.render(entry.url)
            except LoadFailed as error:
                outcome = Outcome(state="failed", status=200, reason=str(error), links=outcome.links)
            else:
                self.report.rendered += 1
                answer = replace(answer, data=html.encode(), content_type="text/html", charset="utf-8", headers={})
                outcome = outcome_of_page(entry.url, await self.reader.read(answer), self.scope, entry.hops)
                body = self._hold(entry, answer)
        if self._hashes.get(arrived) == entry.url:
            del self._hashes[arrived]
        self._conclude(entry, outcome, body)

    def _conclude(self, entry: Entry, outcome: Outcome, body: Body | None = None) -> None:
        """Records the outcome of a page and queues its links."""
        if outcome.pause_s > MOST_PAUSE_S:
            raise LoadFailed(
                f"The site asks to wait {outcome.pause_s:.0f} s ({hide_keys(entry.url)}: {outcome.reason}).",
                "Run the same command then: it resumes.",
            )
        if outcome.pause_s:
            self.fetcher.pace.pause(outcome.pause_s)
        entry.tries += 1
        if outcome.is_transient and entry.tries < self._options.tries:
            self.frontier.retry(entry, max(outcome.pause_s, backoff(entry.tries, self._options.backoff_s)))
            return
        if outcome.target:
            self.frontier.add([outcome.target], entry.depth, hops=entry.hops + 1)
        self.frontier.add(outcome.links, entry.depth + 1)
        state, target = outcome.state, outcome.target
        if body is not None and state in ("fetched", "alias"):  # its body is needed
            if state == "fetched" and (twin := self._hashes.get(body.hash, body.url)) != body.url:
                state, target = "duplicate", twin
            self.state.set_state(body.url, state, target)
        else:
            self.state.set_outcome(entry.url, state, status=outcome.status, reason=outcome.reason, target=target)
        if body is not None and state == "fetched":
            self._good += 1
            self._hashes[body.hash] = body.url
            self._waiting_pages += 1
            self._waiting_bytes += len(body.data)
        elif state == "stored":
            self._good += 1
            self.report.unchanged += 1
            self._hashes.setdefault(self._hash_before.get(entry.url, ""), entry.url)
        elif state in ("moved", "alias", "duplicate"):
            self._repeats += 1
        else:
            self._without_page += 1
        self._finished(entry)

    def _finished(self, entry: Entry) -> None:
        self._done += 1
        total = self._done + len(self.frontier) + max(0, self._active - 1)
        self.progress.step(self._done, total, hide_keys(entry.url))

    # --- the queue ------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        """How many more requests the limits allow; without them a site could keep a crawl busy for ever."""
        most = self._options.max_pages
        return min(most - self._good - self._without_page, max(most, _FEWEST_REPEATS) - self._repeats)

    async def _fetch_all(self) -> None:
        """Fetches pages until none is left, or the limits are reached."""
        while True:
            if (entry := self._take()) is not None:
                try:
                    await self._fetch(entry)
                finally:
                    self._done_with(entry)
                continue
            room = self._room
            if not self._active and (room <= 0 or not len(self.frontier)):
                return
            with anyio.move_on_after(self.frontier.wait_s() if room > 0 else None):
                await self._changed.wait()

    def _take(self) -> Entry | None:
        """A page to request if the limits allow one; skips Markdown of llms.txt whose page is there already."""
        while self._active < self._room:
            entry = self.frontier.next(early_under_way=self._active_early > 0)
            if entry is None:
                return None
            self._active += 1
            self._active_early += not entry.late
            twins_of = twins(entry.url) if entry.late else ()
            twin = next((one for one in twins_of if self.state.state_of(one) in ("fetched", "stored")), "")
            if not twin:
                return entry
            self.state.set_outcome(entry.url, "duplicate", target=twin)
            self._finished(entry)
            self._done_with(entry)
        return None

    def _done_with(self, entry: Entry) -> None:
        self._active -= 1
        self._active_early -= not entry.late
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    # --- indexing --------------------------------------------------------------------------------------

    async def _index_pages(self) -> None:
        """Indexes fetched pages in batches, and the rest at the end."""
        progress = Progress(cancelled=lambda: self._is_stopped)
        with suppress(Cancelled):
            while True:
                is_enough = self._waiting_pages >= _INDEXED_PAGES or self._waiting_bytes >= _INDEXED_BYTES
                if self._is_fetching and not is_enough:
                    await self._changed.wait()
                    continue
                self._waiting_pages = self._waiting_bytes = 0
                indexed = await anyio.to_thread.run_sync(self.indexer.index_batch, progress)
                if not indexed and not self._is_fetching:
                    return
