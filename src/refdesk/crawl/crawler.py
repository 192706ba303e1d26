"""How is a site fetched?  Several requests at a time, politely, each page once; indexed while the next ones come."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.to_thread

from refdesk.crawl.ahead import First
from refdesk.crawl.apart import Apart
from refdesk.crawl.client import Answer, Asked, Prepared, SiteClient
from refdesk.crawl.frontier import Frontier
from refdesk.crawl.judge import Outcome, judge, judge_page
from refdesk.crawl.keep import Keeper
from refdesk.crawl.known import Body, Entry, PageState, Saved, digest_of
from refdesk.crawl.look import look
from refdesk.crawl.options import Scope
from refdesk.crawl.pace import MOST_PAUSE_S, Pace, backoff
from refdesk.crawl.report import CrawlReport
from refdesk.crawl.state import CrawlState
from refdesk.crawl.urls import twins, without_keys
from refdesk.errors import InvalidUri, LoadFailed, RefdeskError
from refdesk.progress import Progress

logger = logging.getLogger(__name__)
Render = Callable[[str], Awaitable[str]]
_KEEP_PAGES, _KEEP_BYTES = 50, 1_000_000  # so much waits before it is indexed here
_KEEP_APART = 12  # pages that wait before another process indexes them
_FEWEST_REPEATS = 100  # redirects and copies of other pages that are asked for however few pages may be
_MANY_PAGES = 40  # worth another process: a small site is indexed here before that is there


class _Request:
    """A page that was asked for."""

    __slots__ = ("asked", "entry", "is_seen", "saved", "upcoming")
    asked: Asked

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.is_seen = False  # it came, and what follows was done
        self.saved: Saved | None = None
        self.upcoming: _Request | None = None  # the one that was sent when this came


class Crawler:
    """One run over one site."""

    def __init__(
        self,
        *,
        client: SiteClient,
        scope: Scope,
        pace: Pace,
        state: CrawlState,
        frontier: Frontier,
        keeper: Keeper,
        report: CrawlReport,
        progress: Progress,
        render: Render | None = None,
        apart: Apart | None = None,
        first: First | None = None,
    ) -> None:
        self._client = client
        self._scope = scope
        self._options = scope.options
        self._pace = pace
        self._state = state
        self._frontier = frontier
        self._keeper = keeper
        self._report = report
        self._progress = progress
        self._render = render
        self._apart = apart
        self._first = first
        self._hash_before = state.hash_by_url()
        self._hashes = state.hashes()  # which page has these bytes
        counts = state.counts()
        self._good = counts.get("fetched", 0) + counts.get("stored", 0)
        self._in_vain = counts.get("gone", 0) + counts.get("scripts", 0)  # asked for, and no page came of it
        self._repeats = sum(counts.get(one, 0) for one in ("moved", "alias", "duplicate"))
        self._done = sum(counts.values()) - len(frontier)
        self._active = self._active_early = 0
        self._changed = anyio.Event()
        self._waiting_pages = self._waiting_bytes = 0
        self._fetching = True
        self._is_apart = False  # another process indexes
        self._prepared: tuple[Entry, Prepared] | None = None  # the request that will probably be next

    async def run(self) -> None:
        """Fetches all that the limits allow, and indexes it on the way."""
        started = self._first.asked_at if self._first is not None else time.perf_counter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep)
            await self._catch_up()
            async with anyio.create_task_group() as requests:
                for _ in range(self._options.concurrency):
                    requests.start_soon(self._fetch)
            self._fetching = False
            if self._prepared is not None:
                self._client.leave(self._prepared[1])
            self._report.fetch_seconds = time.perf_counter() - started
            self._tell()
            if self._is_apart:
                await anyio.to_thread.run_sync(self._keeper.settle, abandon_on_cancel=True)
        if self._room <= 0 and len(self._frontier):
            self._frontier.leave_rest()
            if self._in_vain:
                self._report.notes.append(f"{self._in_vain} addresses that gave no page count towards --max-pages.")
            if self._good + self._in_vain < self._options.max_pages:
                self._report.notes.append(f"{self._repeats} redirects and repeated pages are as many as may be.")

    @property
    def _room(self) -> int:
        """How many more pages may be asked for; so no site can keep a crawl busy for ever, with pages or without."""
        most = self._options.max_pages
        return min(most - self._good - self._in_vain, max(most, _FEWEST_REPEATS) - self._repeats)

    async def _fetch(self) -> None:
        """One request after the other, each sent before the answer to the one before it is looked at."""
        upcoming: _Request | None = None
        while upcoming or (upcoming := await self._next()):
            request = upcoming
            self._prepare()
            answer = await request.asked
            if not request.is_seen:
                self._see(request, answer)
            upcoming = request.upcoming
            digest = ""
            if request.saved is not None:
                assert isinstance(answer, Answer)
                digest = self._hold_saved(request.saved, answer)
            try:
                await self._judge(request.entry, answer, digest)
            finally:
                self._leave(request.entry)

    def _see(self, request: _Request, answer: Answer | RefdeskError) -> None:
        """Writes down what came, and sends the next request."""
        request.is_seen = True
        if isinstance(answer, Answer) and answer.status == 200 and not answer.unread:
            request.saved = self._save(request.entry, answer)
            request.upcoming = self._at_once()

    async def _next(self) -> _Request | None:
        """The next request, when there is room for one and it is its turn; None: the end."""
        while True:
            if (entry := self._take()) is not None:
                await self._pace.turn()
                return self._ask(entry)
            room = self._room
            if not self._active and (room <= 0 or not len(self._frontier)):
                return None
            with anyio.move_on_after(self._frontier.wait_s() if room > 0 else None):
                await self._changed.wait()

    def _at_once(self) -> _Request | None:
        """The next request, if one may be sent this very moment."""
        if not self._pace.is_due or (entry := self._take()) is None:
            return None
        self._pace.take()
        return self._ask(entry)

    def _take(self) -> Entry | None:
        """A page to be asked for, if there is room for it; what only repeats another is done with on the way."""
        while self._active < self._room:
            entry = self._frontier.next(early_under_way=self._active_early > 0)
            if entry is None:
                return None
            self._active += 1
            self._active_early += not entry.late
            if not self._repeats_page(entry):
                return entry
            self._leave(entry)
        return None

    def _leave(self, entry: Entry) -> None:
        self._active -= 1
        self._active_early -= not entry.late
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _catch_up(self) -> None:
        """Looks at the pages that were fetched when the last run ended."""
        for entry, body, headers in self._state.answered():
            answer = Answer(
                url=body.url, status=200, data=body.data, content_type=body.content_type, charset=body.charset,
                headers=headers,
            )  # fmt: skip
            await self._judge(entry, answer, body.hash)

    def _save(self, entry: Entry, answer: Answer) -> Saved:
        """Writes down what came, before anything else is asked for."""
        modified = answer.headers.get("last-modified", "")
        body = Body(entry.url, "", "", answer.data, answer.content_type, answer.charset, modified)
        return self._state.save(body, "answered", answer.headers, entry)

    def _hold_saved(self, saved: Saved, answer: Answer) -> str:
        digest = digest_of(answer.data)
        self._state.hold_saved(saved, digest)
        return digest

    def _repeats_page(self, entry: Entry) -> bool:
        """Whether a text of llms.txt is another page's, which is there already."""
        if not entry.late:
            return False
        states = {one: self._state.state_of(one) for one in twins(entry.url)}
        twin = next((one for one, state in states.items() if state in ("fetched", "stored")), "")
        if twin:
            self._state.note(entry.url, "duplicate", target=twin)
            self._finished(entry)
        return bool(twin)

    def _ask(self, entry: Entry) -> _Request:
        self._report.asked += 1
        request = _Request(entry)
        request.asked = self._asked(request)
        return request

    def _asked(self, request: _Request) -> Asked:
        entry = request.entry
        if self._first is not None and self._first.url == entry.url:
            first, self._first = self._first, None
            return first.asked
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            if prepared[0] is entry:
                asked = self._client.send(prepared[1], partial(self._see, request))
                if asked is not None:
                    return asked
            else:
                self._client.leave(prepared[1])
        etag, last_modified = self._marks(entry)
        return self._client.begin(entry.url, etag=etag, last_modified=last_modified)

    def _prepare(self) -> None:
        """Makes the next request ready while an answer is waited for."""
        entry = self._frontier.first()
        if entry is None or self._prepared is not None:
            return
        etag, last_modified = self._marks(entry)
        prepared = self._client.prepare(entry.url, etag=etag, last_modified=last_modified)
        self._prepared = None if prepared is None else (entry, prepared)

    def _marks(self, entry: Entry) -> tuple[str, str]:
        """What the site said of the page that is kept, for it to say whether that has changed."""
        return (entry.etag, entry.last_modified) if entry.url in self._keeper.kept else ("", "")

    async def _judge(self, entry: Entry, answer: Answer | RefdeskError, digest: str) -> None:
        if isinstance(answer, RefdeskError):
            self._apply(entry, Answer(url=entry.url, status=0), _why_unanswered(answer), "")
            return
        try:
            outcome = judge(entry.url, answer, self._scope, entry.hops)
        except (ValueError, LookupError, TypeError, RuntimeError) as error:
            logger.exception("%s can't be looked at", without_keys(entry.url))
            outcome = Outcome(state="failed", reason=f"can't be looked at: {type(error).__name__}: {error}"[:300])
        if outcome.state == "scripts" and self._render is not None:
            answer, outcome, digest = await self._rendered(entry, answer, outcome, digest)
        self._apply(entry, answer, outcome, digest)

    async def _rendered(
        self, entry: Entry, answer: Answer, outcome: Outcome, digest: str
    ) -> tuple[Answer, Outcome, str]:
        """The page as a browser shows it, where that is more than nothing."""
        assert self._render is not None
        try:
            html = await self._render(entry.url)
        except LoadFailed as error:
            return answer, Outcome(state="failed", reason=str(error), links=outcome.links), digest
        self._report.rendered += 1
        shown = judge_page(entry.url, look(html, entry.url, answer.headers), self._scope, entry.hops)
        told = Answer(url=answer.url, status=200, data=html.encode(), content_type="text/html", charset="utf-8")
        return told, shown, self._hold_saved(self._save(entry, told), told)

    def _apply(self, entry: Entry, answer: Answer, outcome: Outcome, digest: str) -> None:
        if outcome.pause_s > MOST_PAUSE_S:
            raise LoadFailed(
                f"The site asks to be left alone for {outcome.pause_s:.0f} s"
                f" ({without_keys(entry.url)}: {outcome.reason}).",
                "Run the same command then: it goes on from here.",
            )
        if outcome.pause_s:
            self._pace.pause(outcome.pause_s)
        entry.tries += 1
        if outcome.passing and entry.tries < self._options.tries:
            self._frontier.again(entry, max(outcome.pause_s, backoff(entry.tries, self._options.backoff_s)))
            return
        if outcome.target:
            self._frontier.found([outcome.target], entry.depth, hops=entry.hops + 1)
        self._frontier.found(outcome.links, entry.depth + 1)
        if outcome.state in ("fetched", "alias"):
            self._hold(entry, answer, outcome, digest)
        else:
            if outcome.state == "stored":
                self._good += 1
                self._report.unchanged += 1
                self._hashes.setdefault(self._hash_before.get(entry.url, ""), entry.url)
            elif outcome.state == "moved":
                self._repeats += 1
            else:
                self._in_vain += 1
            self._state.note(
                entry.url, outcome.state, status=answer.status, reason=outcome.reason, target=outcome.target
            )
            self._state.flush()
        self._finished(entry)

    def _hold(self, entry: Entry, answer: Answer, outcome: Outcome, digest: str) -> None:
        """Keeps the body: to be indexed, or until it is known whether another page stands for it."""
        state: PageState = outcome.state
        target = outcome.target
        if state == "fetched" and (twin := self._hashes.get(digest, entry.url)) != entry.url:
            state, target = "duplicate", twin
        self._state.decide(entry.url, state, target)
        if state == "fetched":
            self._hashes[digest] = entry.url
            self._good += 1
            self._waiting_pages += 1
            self._waiting_bytes += len(answer.data)
        else:
            self._repeats += 1

    def _finished(self, entry: Entry) -> None:
        self._done += 1
        self._progress.step(
            self._done, self._done + len(self._frontier) + max(0, self._active - 1), without_keys(entry.url)
        )

    async def _keep(self) -> None:
        """Indexes what was fetched whenever enough of it waits, and all of it at the end."""
        while True:
            if (
                not self._is_apart
                and self._fetching
                and self._apart is not None
                and self._done + len(self._frontier) > _MANY_PAGES
            ):
                self._is_apart = True
                await anyio.to_thread.run_sync(self._apart.start)
            if not self._is_enough() and self._fetching:
                await self._changed.wait()
                continue
            self._waiting_pages = self._waiting_bytes = 0
            elsewhere = self._apart.keep_some if self._apart is not None and self._is_apart else None
            # Another process need not be waited for when all is to end: it is ended too.
            kept = await anyio.to_thread.run_sync(self._keeper.keep_some, elsewhere, abandon_on_cancel=self._is_apart)
            if not kept and not self._fetching:
                return

    def _is_enough(self) -> bool:
        """Whether it is worth to index what waits now; less when few are to come, so that the end comes soon."""
        if not self._is_apart:
            return self._waiting_pages >= _KEEP_PAGES or self._waiting_bytes >= _KEEP_BYTES
        return self._waiting_pages >= max(1, min(_KEEP_APART, len(self._frontier) // 3))


def _why_unanswered(error: RefdeskError) -> Outcome:
    is_refused = isinstance(error, InvalidUri)
    return Outcome(state="skipped" if is_refused else "failed", reason=str(error), passing=not is_refused)
