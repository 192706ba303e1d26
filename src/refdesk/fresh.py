"""Are the lines still there?  Small changes are indexed before an answer; what could not be is marked stale."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refdesk.desk import Desk
from refdesk.errors import LibraryBusy, StoreError
from refdesk.model import Collection, Hit

_SECONDS_A_FILE = 0.008  # what indexing a changed file takes, guessed high
_SECONDS_A_WRITE = 0.05  # what a transaction takes with its indexes


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
        _, changed = self._desk.freshness(collection)
        walked = self._walk_seconds[collection.id] = time.perf_counter() - started
        if not changed:
            return Refreshed()
        if walked + _SECONDS_A_WRITE + _SECONDS_A_FILE * len(changed) > budget:
            return Refreshed(pending=tuple(changed), note=f"{len(changed)} files changed since they were indexed")
        try:
            report = self._desk.index(
                Path(collection.root), collection.kind, name=collection.name, only=set(changed), wait=False
            )
        except (LibraryBusy, StoreError):
            return Refreshed(pending=tuple(changed), note="another process is writing; changed files wait")
        return Refreshed(indexed=report.written + report.removed + report.moved)


def stale_lines(collection_root: str, hit: Hit) -> bool:
    """Whether the file no longer has the hit's lines where the hit says they are."""
    document, chunk = hit.stored.document, hit.stored.chunk
    file = Path(collection_root) / document.path
    try:
        stat = file.stat()
        if (stat.st_size, stat.st_mtime_ns) == (document.size, document.modified_ns):
            return False
        with file.open(encoding="utf-8", errors="replace", newline="") as opened:
            lines = opened.read().split("\n")
    except OSError:
        return True
    there = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
    return chunk.kind == "outline" or chunk.text.split() != there.split()


def stale_hits(root: str, hits: Sequence[Hit]) -> set[int]:
    """The chunk ids of hits whose lines changed."""
    return {hit.stored.id for hit in hits if stale_lines(root, hit)}
