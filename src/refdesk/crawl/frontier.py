"""The queue of pages to request."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from itertools import count

from refdesk.crawl.model import Scope
from refdesk.crawl.site import Robots
from refdesk.crawl.state import CrawlState, Entry, PageState

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
