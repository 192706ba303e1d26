"""How do fetched pages come into the library, and how do they leave it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from refdesk.crawl.known import Body, PageState
from refdesk.crawl.report import CrawlReport
from refdesk.crawl.state import CrawlState
from refdesk.crawl.urls import path_of
from refdesk.desk import Desk
from refdesk.model import Batch, Collection, Content

_BATCH_PAGES, _BATCH_BYTES = 2_000, 32_000_000
_FEW_BYTES = 1_400_000  # parsed by one worker, sooner than another starts
_MANY_BYTES = 6_000_000  # worth that others are started
_REMOVED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of a batch of pages."""

    results: tuple[tuple[str, PageState, str], ...]  # address, state, reason
    written: int
    unchanged: int
    removed: int
    chunks: int
    embedded: int


KeepSome = Callable[[], Kept | None]


def keep_some(desk: Desk, collection: Collection, state: CrawlState) -> Kept | None:
    """Indexes the pages that wait longest; None when none waits.  They wait until they are released."""
    many = state.waiting_bytes("fetched") >= _MANY_BYTES
    waiting = state.bodies("fetched", _BATCH_PAGES, _BATCH_BYTES if many else _FEW_BYTES)
    if not waiting:
        return None
    contents = [_content(one) for one in waiting]
    done = desk.add(collection, contents)
    errors = {one.path: one.reason for one in (*done.errors, *done.skipped)}
    results: list[tuple[str, PageState, str]] = []
    for content in contents:
        reason = errors.get(content.path)
        results.append((content.uri, "stored", "") if reason is None else (content.uri, "skipped", reason))
    return Kept(
        results=tuple(results),
        written=done.written,
        unchanged=done.unchanged,
        removed=done.removed,
        chunks=done.chunks,
        embedded=done.embedded,
    )


class Keeper:
    """Writes fetched pages into one collection, batch by batch."""

    def __init__(self, desk: Desk, collection: Collection, state: CrawlState, report: CrawlReport) -> None:
        self._desk = desk
        self._collection = collection
        self._state = state
        self._report = report
        total = desk.store.count_documents(collection.name)
        self.kept = {one.uri for one in desk.store.documents(collection.name, max(1, total), 0)}

    def keep_some(self, elsewhere: KeepSome | None = None) -> int:
        """Indexes the pages that wait longest, here or elsewhere; how many there were."""
        self._state.flush()
        done = elsewhere() if elsewhere is not None else keep_some(self._desk, self._collection, self._state)
        if done is None:
            return 0
        self._state.release(done.results)
        for url, state, _ in done.results:
            (self.kept.add if state == "stored" else self.kept.discard)(url)
        self._report.written += done.written
        self._report.unchanged += done.unchanged
        self._report.removed += done.removed
        self._report.chunks += done.chunks
        self._report.embedded += done.embedded
        return len(done.results)

    def settle(self) -> None:
        """Has the library do beside other work what is left for its end."""
        self._desk.store.settle()

    def keep_all(self) -> None:
        """Indexes every page that waits."""
        while self.keep_some():
            pass

    def remove(self, urls: Iterable[str]) -> None:
        """Takes pages out of the library."""
        store, name = self._desk.store, self._collection.name
        found = [store.document_by_uri(url, name) for url in urls]
        ids = [one.id for one in found if one is not None]
        for start in range(0, len(ids), _REMOVED_AT_ONCE):
            store.apply(Batch(collection=name, removes=tuple(ids[start : start + _REMOVED_AT_ONCE])))
        self._report.removed += len(ids)

    def text_in(self, body: Body) -> str:
        """The text that the library would have for a page."""
        return self._desk.text_in(self._collection, _content(body))

    def text_of(self, url: str) -> str:
        """The text that the library has for a page, "" for none."""
        found = self._desk.store.document_by_uri(url, self._collection.name)
        return self._desk.store.raw(found.id) if found is not None else ""


def _content(body: Body) -> Content:
    return Content(
        uri=body.url,
        path=path_of(body.url),
        data=body.data,
        content_type=body.content_type,
        charset=body.charset,
        modified_ns=_modified_ns(body.last_modified),
    )


def _modified_ns(last_modified: str) -> int:
    try:
        return int(parsedate_to_datetime(last_modified).timestamp()) * 1_000_000_000
    except (ValueError, TypeError, OverflowError):
        return 0
