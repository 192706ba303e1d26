"""Freshness: indexes small changes before an answer, and marks hits in changed files as stale."""

from __future__ import annotations

import logging
import math
import os
import stat
import time
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import TypeVar

from refdesk.desk.desk import Desk
from refdesk.desk.machine import local_file
from refdesk.desk.parts import Watching
from refdesk.errors import LibraryBusy, LoadFailed, OnOtherMachine, ParseFailed, RefdeskError, StoreError
from refdesk.ingest.prepare import Progress, content_hash
from refdesk.model import Chunk, Collection, Content, Document, FileState, Found, Hit
from refdesk.system.files import opened, read_most

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Estimated times of indexing, on the high side.
_SECONDS_A_WRITE = 0.05  # a transaction with its indexes
_SECONDS_A_FILE = 0.003  # to read, compare and send it
_SECONDS_A_BYTE = 1e-6  # to parse and embed it: files of 1 to 8 MB took 0.1 to 0.9 s a megabyte to parse
_PATIENCE_S = 2.0  # after which no further file is started, if they take longer than estimated
_LONGEST_S = 4.0  # that an answer waits: six files took 6.6 s of a machine that others used in full
_NAMED = 5  # files that a note names
_AT_ONCE = 16  # calls that refresh, as many as are answered
_MOST_FILES = 1_000  # changed files considered for one answer
_SMALL = 3_000  # files that are walked in .1 s, which a first answer waits for
_WATCHED = 16  # folders at a time; a user has 128 queues for changes on most Linux systems
_TRUST_S = 60.0  # after which a watched folder is walked too, since a full queue loses events
_UNWATCHED_S = 2.0  # age of the last walk after which a folder that can't be watched is walked again


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The result of a refresh before an answer."""

    indexed: int = 0  # files brought up to date
    pending: tuple[str, ...] = ()  # files that changed and are not indexed yet
    note: str = ""
    how: str = ""  # how changes were detected


class Refresher:
    """Keeps codebases fresh within a time budget per answer, by watching them instead of walking."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._codebases: dict[str, _Codebase] = {}  # the most recently used last
        self._threads = ThreadPoolExecutor(_AT_ONCE, "refdesk-refresh")
        self._late: dict[str, Future[Refreshed]] = {}  # collection → a refresh that an answer did not wait for
        self._mutex = Lock()

    def beside(self, collection: Collection, search: Callable[[], T]) -> tuple[T, Refreshed]:
        """Searches and refreshes at once, and searches again if something was indexed.

        Asking what changed takes 1 ms of waiting, and seldom something did.
        """
        started, refreshing = time.monotonic(), self._start(collection)
        try:
            found = search()
        finally:
            refreshed = self._finish(collection, refreshing, started)
        return search() if refreshed.indexed else found, refreshed

    def refresh(self, collection: Collection) -> Refreshed:
        """Indexes what changed if that fits the budget, else reports it as pending."""
        return self._finish(collection, self._start(collection), time.monotonic())

    def _start(self, collection: Collection) -> Future[Refreshed]:
        late = self._late.get(collection.id)
        if late is not None and wait([late], self._desk.settings.refresh_ms / 1000).not_done:
            return late
        return self._threads.submit(copy_context().run, self._refresh, collection)

    def _finish(self, collection: Collection, refreshing: Future[Refreshed], started: float) -> Refreshed:
        """The result; a note where it takes too long, as it does if others take the processor from the workers."""
        is_late = refreshing is self._late.get(collection.id)
        try:
            return refreshing.result(0.0 if is_late else max(0.0, started + _LONGEST_S - time.monotonic()))
        except TimeoutError:
            self._late[collection.id] = refreshing
            return Refreshed(note="changed files are still being indexed: later answers have them")

    def _refresh(self, collection: Collection) -> Refreshed:
        if others := self._desk.machine_notes([collection]):
            with self._mutex:
                self._codebases.pop(collection.id, None)
            return Refreshed(note=others[0], how="indexed on another machine")
        budget = self._desk.settings.refresh_ms / 1000
        if budget <= 0 or not Path(collection.root).is_dir():
            return Refreshed()
        self._desk.adopt(collection)
        started = time.perf_counter()
        with self._mutex:
            known = self._codebases.pop(collection.id, None) or _Codebase(self._desk, collection)
            self._codebases[collection.id] = known
            while len(self._codebases) > _WATCHED:
                self._codebases.pop(next(iter(self._codebases)))
        how = known.look(budget)
        changed = self._changed(collection, known)
        if not changed:
            return Refreshed(note=known.note, how=how)
        first, fitting = _fitting(Path(collection.root), changed, budget - (time.perf_counter() - started))
        pending = tuple(path for path in changed if path not in fitting)
        if fitting:
            return self._index(collection, known, fitting, pending, how)
        # None fits, so none ever would: the next answers wait for it no longer than for others.
        self._late[collection.id] = self._threads.submit(
            copy_context().run, self._index, collection, known, {first}, (), how
        )
        return Refreshed(pending=pending, note=_waiting(pending), how=how)

    def _index(
        self, collection: Collection, known: _Codebase, files: set[str], pending: tuple[str, ...], how: str
    ) -> Refreshed:
        try:
            report = self._desk.index(
                Path(collection.root),
                collection.kind,
                name=collection.name,
                only=files,
                wait=False,
                progress=Progress(until=time.monotonic() + _PATIENCE_S),
            )
        except LibraryBusy:
            pending = (*pending, *sorted(files))
            return Refreshed(pending=pending, note="another process is writing; changed files wait", how=how)
        except OnOtherMachine as error:
            return Refreshed(note=error.message, how=how)
        except (LoadFailed, ParseFailed, StoreError) as error:
            note = f"{error.message.rstrip('.')}; changed files wait"
            return Refreshed(pending=(*pending, *sorted(files)), note=note, how=how)
        known.forget(files.difference(report.waiting))
        pending = (*pending, *report.waiting)
        indexed = report.written + report.removed + report.moved
        note = _waiting(pending) if pending else known.note
        return Refreshed(indexed=indexed, pending=pending, note=note, how=how)

    def _changed(self, collection: Collection, known: _Codebase) -> list[str]:
        """The files that changed, among those that may have and known files below folders that may have."""
        if not (maybe := known.maybe_changed()):
            return []
        weighed = sorted(maybe)[:_MOST_FILES]
        states = dict(self._desk.file_states(collection.name, weighed))
        every = {*weighed, *states}
        changed = {
            path for path in every if path in known.left_out or _differs(Path(collection.root, path), states.get(path))
        }
        known.forget(every - changed)
        known.note_changed(changed)
        return sorted(changed | maybe.difference(weighed))


class _Codebase:
    """The known changes in one folder, from its watch and its last walk."""

    def __init__(self, desk: Desk, collection: Collection) -> None:
        self.note = ""
        self._desk, self._collection = desk, collection
        self._watch: Watching | None = None
        self._is_watchable = True
        self._maybe_changed: set[str] = set()
        self.left_out: set[str] = set()  # of these, files that are as they were indexed, but that a walk left out
        self._checked_at = -math.inf  # start of the last walk, on time.monotonic()
        self._check: Thread | None = None
        self._mutex = Lock()

    def look(self, budget: float) -> str:
        """Collects the changes since the last call; returns how they were detected."""
        told = self._watch.changed() if self._watch is not None else set[str]()
        self.note_changed(told or ())
        is_first = self._checked_at == -math.inf
        age = time.monotonic() - self._checked_at
        if is_first or told is None or age > (_TRUST_S if self._watch is not None else _UNWATCHED_S):
            check = self._start_check(anew=told is None)
            if is_first or told is None:
                is_small = self._desk.count_documents(self._collection.name) <= _SMALL
                check.join(max(budget, _PATIENCE_S) if is_small else budget)
                if check.is_alive():
                    self.note = "still looking for changed files; hits are checked one by one"
        if self._watch is not None and self._checked_at > -math.inf:
            return "watched"
        return (
            "unchecked" if self._checked_at == -math.inf else f"checked {time.monotonic() - self._checked_at:.1f} s ago"
        )

    def maybe_changed(self) -> set[str]:
        with self._mutex:
            return set(self._maybe_changed)

    def note_changed(self, paths: Iterable[str]) -> None:
        with self._mutex:
            self._maybe_changed.update(paths)

    def forget(self, paths: Iterable[str]) -> None:
        """Forgets changes of paths that are indexed now."""
        with self._mutex:
            self._maybe_changed.difference_update(paths)
            self.left_out &= self._maybe_changed

    def _start_check(self, *, anew: bool) -> Thread:
        """Starts a thread that walks the folder; with `anew`, even if another walk is running."""
        with self._mutex:
            running = self._check
            if running is None or not running.is_alive() or anew:
                self._check = Thread(target=self._walk, args=(running,), name="freshness", daemon=True)
                self._check.start()
            assert self._check is not None
            return self._check

    def _walk(self, before: Thread | None) -> None:
        if before is not None:
            before.join()
        try:
            if self._watch is None and self._is_watchable:
                try:
                    self._watch = self._desk.watch(self._collection)  # before the walk, so that no change is missed
                except OSError as error:
                    self._is_watchable = False
                    _log.info("%s is not watched: %s", self._collection.root, error)
            begun = time.monotonic()
            _, changed = self._desk.freshness(self._collection)
            states, root = dict(self._desk.file_states(self._collection.name, changed)), Path(self._collection.root)
        except (RefdeskError, RuntimeError) as error:
            self.note = error.message if isinstance(error, RefdeskError) else str(error)
            return
        with self._mutex:
            self._maybe_changed.update(changed)
            self.left_out = {path for path in changed if not _differs(root / path, states.get(path))}
        self.note, self._checked_at = "", begun


def _differs(file: Path, state: FileState | None) -> bool:
    """Whether a file differs from its indexed state, or was not indexed."""
    try:
        found = file.lstat()
    except (OSError, ValueError):
        return state is not None
    if not stat.S_ISREG(found.st_mode):
        return state is not None
    return Found.of("", found).is_new(state)


def _fitting(root: Path, changed: Sequence[str], seconds: float) -> tuple[str, set[str]]:
    """The first of the changed files, and those that can be indexed in the time: removed ones, then the newest."""
    sizes: dict[str, int] = {}
    ages: dict[str, int] = {}
    for path in changed[:_MOST_FILES]:
        try:
            stat = (root / path).lstat()
        except OSError:
            sizes[path] = ages[path] = 0
        else:
            sizes[path], ages[path] = stat.st_size, -stat.st_mtime_ns
    left = seconds - _SECONDS_A_WRITE
    fitting: set[str] = set()
    ordered = sorted(sizes, key=lambda path: (sizes[path] > 0, ages[path], path))
    for path in ordered:
        needed = _SECONDS_A_FILE + _SECONDS_A_BYTE * sizes[path]
        if needed <= left:
            left -= needed
            fitting.add(path)
    return ordered[0], fitting


def _waiting(pending: Sequence[str]) -> str:
    changed = "1 changed file waits" if len(pending) == 1 else f"{len(pending)} changed files wait"
    return f"{changed} to be indexed: the next searches take them up bit by bit, index_codebase all at once"


def stale_hits(desk: Desk, hits: Iterable[Hit]) -> set[int]:
    """The chunk ids of hits whose file no longer has their lines; hits without a file of this machine never are."""
    here = [hit.stored for hit in hits if hit.stored.document.uri.startswith("file://")]
    others = desk.on_other_machines({one.document.collection for one in here})
    return {one.id for one in here if one.document.collection not in others and _is_stale(one.document, one.chunk)}


def indexed_at(document: Document) -> str:
    """The time when the document was indexed, in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(document.updated_at / 1000))


def stale_notes(hits: Iterable[Hit], stale: Container[int]) -> tuple[str, ...]:
    """Notices on hits whose files changed."""
    files = {hit.stored.document.path: indexed_at(hit.stored.document) for hit in hits if hit.stored.id in stale}
    if not files:
        return ()
    named = ", ".join(f"{path} (indexed {when})" for path, when in [*files.items()][:_NAMED])
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return (f"stale: changed or gone since they were indexed: {named}{more}; read the files or index them again",)


def _is_stale(document: Document, chunk: Chunk) -> bool:
    data = changed_content(document)
    if not data:  # as it was, or gone
        return data is not None
    there = data.decode("utf-8", "replace").split("\n")[chunk.start_line - 1 : chunk.end_line]
    return chunk.kind == "outline" or chunk.text.split() != " ".join(there).split()


def changed_content(document: Document) -> bytes | None:
    """The content of a file that changed since it was indexed, b"" if it is gone; None if it is unchanged."""
    file = local_file(document)
    if not file:
        return None
    try:
        # Only its state is read, so links in the path do no harm; opening by descriptors takes four times as long.
        if not Found.of("", os.lstat(file)).is_new(document):
            return None
        with opened(file) as descriptor:
            state = os.fstat(descriptor)
            if not Found.of("", state).is_new(document):
                return None
            data = read_most(descriptor, state.st_size)
    except (OSError, ValueError):
        return b""
    return None if content_hash(Content(uri="", path="", data=data)) == document.content_hash else data
