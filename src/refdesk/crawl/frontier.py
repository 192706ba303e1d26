"""Which page comes next?"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from itertools import count

from refdesk.crawl.known import Entry
from refdesk.crawl.options import Scope
from refdesk.crawl.rules import Robots
from refdesk.crawl.state import CrawlState

_TOO_DEEP = "deeper than the limit"
_TOO_MANY = "beyond the limit of pages"
_FORBIDDEN = "robots.txt does not allow it"


class Frontier:
    """The pages to be asked for, nearest to the start first; what is found is known at once and for good."""

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
        for entry in state.queued():
            self._take_in(entry)

    def __len__(self) -> int:
        return len(self._heap) + len(self._later)

    def found(self, urls: Iterable[str], depth: int, *, late: int = 0, hops: int = 0) -> None:
        """Takes in pages that something led to, each once."""
        fresh: list[Entry] = []
        too_deep: list[Entry] = []
        for url in urls:
            if url in self._seen:
                if url in self._too_deep and depth <= self._scope.options.depth:
                    self._too_deep.discard(url)
                    entry = Entry(url, depth, late, hops)
                    self._state.put_off(entry)
                    self._push(entry)
                continue
            if self._scope.why_not(url):
                continue
            self._seen.add(url)
            (fresh if depth <= self._scope.options.depth else too_deep).append(Entry(url, depth, late, hops))
        self._state.add(fresh)
        self._state.add(too_deep, "left", _TOO_DEEP)
        self._too_deep.update(one.url for one in too_deep)
        for entry in fresh:
            self._take_in(entry)

    def next(self, *, early_under_way: bool = False) -> Entry | None:
        """The next page that may be asked for now; late ones when no other is waiting or under way."""
        while self._later and self._later[0][0] <= self._clock():
            self._push(heapq.heappop(self._later)[2])
        if not self._heap or (self._heap[0][0] and (early_under_way or self._later)):
            return None
        return heapq.heappop(self._heap)[3]

    def first(self) -> Entry | None:
        """The page that is next if nothing comes between; None when that is not known."""
        return self._heap[0][3] if self._heap and not self._heap[0][0] else None

    def again(self, entry: Entry, after_s: float) -> None:
        """Takes back a page that failed, to be asked for after a while."""
        heapq.heappush(self._later, (self._clock() + after_s, next(self._order), entry))

    def wait_s(self) -> float | None:
        """How long until a page that failed is due; None when none is."""
        return max(0.0, self._later[0][0] - self._clock()) if self._later else None

    def leave_rest(self) -> None:
        """What is left when the limit of pages is reached waits for another run."""
        for entry in (*(one[3] for one in self._heap), *(one[2] for one in self._later)):
            self._state.note(entry.url, "left", reason=_TOO_MANY)
        self._heap, self._later = [], []

    def _take_in(self, entry: Entry) -> None:
        """Queues a page unless a rule is against it; rules may have changed since it was found."""
        if reason := self._scope.why_not(entry.url):
            self._state.note(entry.url, "skipped", reason=reason)
        elif not self._robots.allows(entry.url):
            self._state.note(entry.url, "skipped", reason=_FORBIDDEN)
        elif entry.depth > self._scope.options.depth:
            self._too_deep.add(entry.url)
            self._state.note(entry.url, "left", reason=_TOO_DEEP)
        else:
            self._push(entry)

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, (entry.late, entry.depth, next(self._order), entry))
