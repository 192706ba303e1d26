"""Writes fetched pages into a collection and removes those that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from email.utils import parsedate_to_datetime

from refdesk.crawl.model import CrawlOptions, CrawlReport
from refdesk.crawl.state import Body, CrawlState, Entry, PageState
from refdesk.crawl.urls import path_of, site_of
from refdesk.desk.desk import Desk
from refdesk.errors import InvalidInput, RefdeskError
from refdesk.ingest.prepare import Progress
from refdesk.library import name_from
from refdesk.model import Collection, Content

_BATCH_PAGES, _BATCH_BYTES = 500, 8_000_000  # in memory at a time
_REMOVED_AT_ONCE = 500  # others may write between two batches
# The share of a page's words that its canonical page must have for the page to be dropped. Of 39,800 pairs of pages in
# Django's documentation 49 share as much, release notes that repeat each other, and 259 share .7.
_SAME_TEXT = 0.8
# The share of llms-full.txt that must be in no page for it to be kept. In 999 of 1,000 pairs of pages in Django's
# documentation, one has less than half of the other's runs.
_NEW_TEXT = 0.5
_RUN_WORDS = 5
_WORD = re.compile(r"\w+")


@contextmanager
def open_collection(
    desk: Desk, options: CrawlOptions, name: str, description: str
) -> Iterator[tuple[Collection, CrawlState]]:
    """The site's collection and crawl state; a new collection is removed again if it stays empty."""
    known = desk.collections()
    by_start = {one.root: one.name for one in known if one.kind == "web"}
    wanted = name or by_start.get(options.start) or name_from(site_of(options.start))
    found = desk.find_collection(wanted)
    if found is not None and found.kind != "web":
        raise InvalidInput(f"Collection {wanted} holds {found.kind}, not a web site.", "Choose another --name.")
    collection = desk.ensure_collection(wanted, "web", root=options.start, description=description)
    with ExitStack() as stack:
        state = CrawlState(desk.crawls, collection.id, desk.settings.durability)
        stack.callback(state.close)
        stack.enter_context(state.lock(collection.name))
        state.forget_all_but(lambda: [one.id for one in desk.collections()])
        try:
            yield collection, state
        except RefdeskError:
            if found is None and not state.counts().keys() & {"fetched", "stored"}:
                desk.remove_collection(collection.name)
            raise


class Indexer:
    """Writes fetched pages into one collection, batch by batch."""

    def __init__(self, desk: Desk, collection: Collection, state: CrawlState, report: CrawlReport) -> None:
        self._desk = desk
        self._collection = collection
        self._state = state
        self._report = report
        total = desk.count_documents(collection.name)
        self.indexed = {one.uri for one in desk.documents(collection.name, max(1, total), 0)}

    def index_batch(self, progress: Progress | None = None) -> int:
        """Indexes the oldest fetched pages and returns how many; a page stays queued until it is in the library."""
        waiting = self._state.bodies("fetched", _BATCH_PAGES, _BATCH_BYTES)
        if not waiting:
            return 0
        contents = [_content(one) for one in waiting]
        done = self._desk.add(self._collection, contents, progress=progress)
        errors = {one.path: one.reason for one in (*done.errors, *done.skipped)}
        results: list[tuple[str, PageState, str]] = []
        for content in contents:
            reason = errors.get(content.path)
            results.append((content.uri, "stored", "") if reason is None else (content.uri, "skipped", reason))
            (self.indexed.add if reason is None else self.indexed.discard)(content.uri)
        self._state.finish_pages(results)
        self._report.written += done.written
        self._report.unchanged += done.unchanged
        self._report.removed += done.removed
        self._report.chunks += done.chunks
        self._report.embedded += done.embedded
        return len(results)

    def index_all(self) -> None:
        while self.index_batch():
            pass

    def remove(self, urls: Iterable[str]) -> None:
        name = self._collection.name
        found = [self._desk.document_by_uri(url, name) for url in urls]
        ids = [one.id for one in found if one is not None]
        for start in range(0, len(ids), _REMOVED_AT_ONCE):
            self._desk.remove_documents(name, ids[start : start + _REMOVED_AT_ONCE])
        self._report.removed += len(ids)

    def text_of(self, page: Body | str) -> str:
        """The text that would be indexed of a body, or the indexed text of a URL, "" if there is none."""
        if isinstance(page, Body):
            return self._desk.text_in(self._collection, _content(page))
        found = self._desk.document_by_uri(page, self._collection.name)
        return self._desk.raw(found.id) if found is not None else ""


def _content(body: Body) -> Content:
    try:
        modified_ns = int(parsedate_to_datetime(body.last_modified).timestamp()) * 1_000_000_000
    except (ValueError, TypeError, OverflowError):
        modified_ns = 0
    return Content(
        uri=body.url,
        path=path_of(body.url),
        data=body.data,
        content_type=body.content_type,
        charset=body.charset,
        modified_ns=modified_ns,
    )


def reconcile(state: CrawlState, indexer: Indexer) -> None:
    """Updates the library after the last page was fetched: indexes what is new after all, removes what is gone."""
    indexer.index_all()
    # A page with a canonical address is indexed if that page is missing or has another text.
    while waiting := state.bodies("alias", _BATCH_PAGES, _BATCH_BYTES):
        states = state.states()
        for one in waiting:
            words = set(_WORD.findall(indexer.text_of(one)))
            others = _WORD.findall(indexer.text_of(one.target)) if states.get(one.target) == "stored" else None
            if others is not None and len(words.intersection(others)) >= _SAME_TEXT * len(words):
                state.finish_pages([(one.url, "alias", "")])
            else:
                state.set_state(one.url, "fetched")
        indexer.index_all()
    # A duplicate is indexed if the page with the same bytes has changed or is gone.
    while waiting := state.bodies("duplicate", _BATCH_PAGES, _BATCH_BYTES):
        hashes = state.hashes()
        for one in waiting:
            if hashes.get(one.hash, one.url) != one.url:
                state.finish_pages([(one.url, "duplicate", "")])
            else:
                state.set_state(one.url, "fetched")
                hashes[one.hash] = one.url
    indexer.index_all()
    _add_full_text(state, indexer)
    moved = state.targets("moved")
    for url, end in _ends(moved).items():
        if not end:
            state.set_outcome(url, "failed", reason="redirects in a circle")
    ends = _ends({**moved, **state.targets("alias"), **state.targets("duplicate")})
    states = state.states()
    removed = []  # not those that only failed this time
    for url in indexer.indexed:
        if states.get(url) in ("moved", "alias", "duplicate"):
            is_gone = states.get(ends.get(url, "")) in ("stored", "gone", "skipped")
        else:
            is_gone = states.get(url) in ("gone", "skipped", "scripts")
        if is_gone:
            removed.append(url)
    indexer.remove(sorted(removed))


def _add_full_text(state: CrawlState, indexer: Indexer) -> None:
    """Indexes llms-full.txt if its text is not in the pages."""
    url, text = state.full
    if not text:
        return
    runs = _runs(text)
    unknown = set(runs)
    for page in indexer.indexed - {url}:
        unknown -= _runs(indexer.text_of(page))
    if len(unknown) > _NEW_TEXT * len(runs):
        state.add([Entry(url, 1)])
        state.save_answer(Body(url, "", "", text.encode(), "text/markdown", "utf-8", ""), "fetched", {})
        indexer.index_all()


def _runs(text: str) -> set[int]:
    """The hashes of all runs of `_RUN_WORDS` words, ignoring punctuation and line breaks."""
    words = _WORD.findall(text.lower())
    return {hash(tuple(words[start : start + _RUN_WORDS])) for start in range(max(1, len(words) - _RUN_WORDS + 1))}


def _ends(targets: Mapping[str, str]) -> dict[str, str]:
    """The final target of each page that leads to another, "" for a circle."""
    ends = {}
    for url in targets:
        seen, end = {url}, targets[url]
        while end in targets and end not in seen:
            seen.add(end)
            end = targets[end]
        ends[url] = "" if end in seen else end
    return ends
