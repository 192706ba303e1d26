"""The parts that a desk is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from refdesk.ingest.writer import ParsePool
from refdesk.library import Library
from refdesk.model import Collection, CollectionKind, Content, Found, Skipped
from refdesk.ports import Embedder, Judge, Parser, Source, Store
from refdesk.settings import Settings

if TYPE_CHECKING:
    from refdesk.skills.model import PlaybookStore


class Folder(Protocol):
    """Makes the source of a folder's files, given what was left out of them before."""

    def __call__(
        self,
        root: Path,
        *,
        max_file_bytes: int,
        known_skipped: Mapping[str, str],
        rules_fingerprint: str,
        allow_secrets: Sequence[str],
    ) -> Source: ...


class Watching(Protocol):
    """A folder that is being watched."""

    def changed(self) -> set[str] | None:
        """The paths that changed, came or went since the last question; None where all of the folder must be walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a desk is made of; app.py fills it with concrete classes."""

    store: Callable[[Settings], Store]
    embedder: Callable[[Settings], Embedder | None]
    judge: Callable[[Settings], Judge | None]
    playbooks: Callable[[Settings, Store], PlaybookStore]
    has_playbooks: Callable[[Settings, Store], bool]  # asked before anything is loaded for them
    parser: Callable[[Path | None, CollectionKind], Parser]
    pool: Callable[[Parser, Embedder | None, int], ParsePool]
    folder: Folder
    watch: Callable[[Path], Watching]  # OSError where the folder can't be watched
    load: Callable[[str, Sequence[Path], Settings], Iterator[Content | Skipped]]
    why: Callable[[Path, str, Settings], Found | Skipped]
    pages_to_come: Callable[[Library, Collection], int]  # of a site whose crawl has not finished
    facts: Callable[[Path, CollectionKind], Mapping[str, str]]  # what is kept with a folder's collection
