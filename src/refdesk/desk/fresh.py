"""Are the lines still there?  Small changes are indexed before an answer; what could not be is marked stale."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from refdesk.desk.desk import Desk
from refdesk.errors import LibraryBusy, LoadFailed, ParseFailed, StoreError
from refdesk.ingest.prepare import content_hash, is_new, stamp_of
from refdesk.ingest.progress import Progress
from refdesk.model import Chunk, Collection, Content, Document, Found, Hit
from refdesk.system.files import open_real, read_most

# What indexing takes, guessed high.
_SECONDS_A_WRITE = 0.05  # a transaction with its indexes
_SECONDS_A_FILE = 0.003
_SECONDS_A_BYTE = 1e-6
_PATIENCE_S = 2.0  # after which no further file is begun, if they take longer than guessed
_NAMED = 5  # files that a note names
_MOST_FILES = 1_000  # that are weighed for one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What was done before an answer."""

    indexed: int = 0  # files brought up to date
    pending: tuple[str, ...] = ()  # files that changed and are not indexed yet
    note: str = ""


class Refresher:
    """Keeps codebases fresh within a budget of time for each answer."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._walk_seconds: dict[str, float] = {}

    def refresh(self, collection: Collection) -> Refreshed:
        """Indexes what changed if that fits the budget; says what is pending if not."""
        budget = self._desk.settings.refresh_ms / 1000
        if budget <= 0 or not Path(collection.root).is_dir():
            return Refreshed()
        if self._walk_seconds.get(collection.id, 0.0) > budget:
            self._walk_seconds[collection.id] *= 0.9  # looked at again now and then: a machine may be less busy later
            return Refreshed(note="too large to look through before each answer; hits are checked one by one")
        started = time.perf_counter()
        try:
            _, changed = self._desk.freshness(collection)
        except LoadFailed as error:
            return Refreshed(note=error.message)
        walked = self._walk_seconds[collection.id] = time.perf_counter() - started
        if not changed:
            return Refreshed()
        fitting = _fitting(Path(collection.root), changed, budget - walked)
        pending = tuple(path for path in changed if path not in fitting)
        if not fitting:
            return Refreshed(pending=pending, note=_waiting(pending))
        try:
            report = self._desk.index(
                Path(collection.root),
                collection.kind,
                name=collection.name,
                only=fitting,
                wait=False,
                progress=Progress(until=time.monotonic() + _PATIENCE_S),
            )
        except LibraryBusy:
            return Refreshed(pending=tuple(changed), note="another process is writing; changed files wait")
        except (LoadFailed, ParseFailed, StoreError) as error:
            return Refreshed(pending=tuple(changed), note=f"{error.message.rstrip('.')}; changed files wait")
        pending = (*pending, *report.waiting)
        indexed = report.written + report.removed + report.moved
        return Refreshed(indexed=indexed, pending=pending, note=_waiting(pending) if pending else "")


def _fitting(root: Path, changed: Sequence[str], seconds: float) -> set[str]:
    """The changed files that can be indexed in the time: those that are gone, then the newest."""
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
    for path in sorted(sizes, key=lambda path: (sizes[path] > 0, ages[path], path)):
        needed = _SECONDS_A_FILE + _SECONDS_A_BYTE * sizes[path]
        if needed <= left:
            left -= needed
            fitting.add(path)
    return fitting


def _waiting(pending: Sequence[str]) -> str:
    changed = "1 changed file waits" if len(pending) == 1 else f"{len(pending)} changed files wait"
    return f"{changed} to be indexed: the next searches take them up bit by bit, index_codebase all at once"


def stale_hits(hits: Iterable[Hit]) -> set[int]:
    """The chunk ids of hits whose file no longer has their lines; what came from elsewhere can't be compared."""
    return {hit.stored.id for hit in hits if _is_stale(hit.stored.document, hit.stored.chunk)}


def indexed_at(document: Document) -> str:
    """When the document was indexed, in the form of ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(document.updated_at / 1000))


def stale_notes(hits: Iterable[Hit], stale: Container[int]) -> tuple[str, ...]:
    """What is to be said of hits whose files changed; nothing where none did."""
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
    """What is in a file that changed since it was indexed, empty where it is gone; None where it is the same."""
    if not document.uri.startswith("file://"):
        return None
    file = os.fsdecode(unquote_to_bytes(document.uri.removeprefix("file://")))
    file = file.lstrip("/") if os.name == "nt" else file
    try:
        # Nothing is read of what it says, so links on its way do no harm; by descriptors it takes four times as long.
        if _is_as_indexed(os.lstat(file), document):
            return None
        descriptor = open_real(file)
        try:
            state = os.fstat(descriptor)
            if _is_as_indexed(state, document):
                return None
            data = read_most(descriptor, state.st_size)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return b""
    return None if content_hash(Content(uri="", path="", data=data)) == document.content_hash else data


def _is_as_indexed(state: os.stat_result, document: Document) -> bool:
    found = Found(path="", size=state.st_size, modified_ns=state.st_mtime_ns, stamp=stamp_of(state))
    return not is_new(found, document)
