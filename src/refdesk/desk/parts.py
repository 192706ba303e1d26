"""The parts of a desk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from refdesk.ingest.prepare import Progress, Report
    from refdesk.ingest.writer import ParsePool
    from refdesk.library import Library
    from refdesk.model import Collection, CollectionKind, Content, Finding, Found, Skipped
    from refdesk.ports import Embedder, Parser, Source, Store
    from refdesk.settings import Settings
    from refdesk.skills.model import PlaybookStore


class Watching(Protocol):
    """A folder that is being watched."""

    def changed(self) -> set[str] | None:
        """The paths that changed, came or went since the last question; None where all of the folder must be walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An index run of a whole folder."""

    settings: Settings
    root: Path
    kind: CollectionKind
    name: str
    description: str
    force: bool
    verify: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a desk is made of; app.py fills it with concrete classes."""

    store: Callable[[Settings], Store]
    embedder: Callable[[Settings], Embedder | None]
    playbooks: Callable[[Settings, Store], PlaybookStore]
    has_playbooks: Callable[[Settings, Store], bool]  # asked before anything is loaded for them
    check_beside: Callable[[Library, bool], list[Finding]]  # what the store keeps beside the record, with repair or not
    parser: Callable[[Path | None, CollectionKind], Parser]
    pool: Callable[[Parser, Embedder | None, int], ParsePool]
    folder: Callable[[Path, Settings, Mapping[str, str], str], Source]  # with what was skipped, and by which rules
    watch: Callable[[Path], Watching]  # OSError where the folder can't be watched
    load: Callable[[str, Sequence[Path], Settings], Iterator[Content | Skipped]]
    why: Callable[[Path, str, Settings], Found | Skipped]
    crawls: Callable[[Library, Store], Any]  # the file, or the tables, with what crawls know
    pending_pages: Callable[[Any, Collection], int]  # of a site whose crawl has not finished
    facts: Callable[[Path, CollectionKind], Mapping[str, str]]  # what is kept with a folder's collection
    behind: Callable[[Store], int]  # the commits that the index of a shared library lacks
    elsewhere: Callable[[Order, Progress], Report] | None = None  # runs a long index run, if not in this process
