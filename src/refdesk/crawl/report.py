"""What did a crawl do?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refdesk.model import Skipped

if TYPE_CHECKING:
    from refdesk.crawl.state import CrawlState


@dataclass(slots=True, kw_only=True)
class CrawlReport:
    """What a crawl did, and what it could not do."""

    collection: str
    start: str
    resumed: bool = False
    pages: int = 0  # in the library, as the site has them now
    asked: int = 0  # requests for pages in this run
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    moved: int = 0
    duplicates: int = 0  # pages that repeat another, by their bytes or by their own word
    left: int = 0  # beyond the limits
    chunks: int = 0
    embedded: int = 0
    rendered: int = 0  # by a browser
    failed: list[Skipped] = field(default_factory=list)
    gone: list[Skipped] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    scripts: list[Skipped] = field(default_factory=list)  # empty without scripts
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    fetch_seconds: float = 0.0  # of these, until the last page was fetched

    def fill(self, state: CrawlState) -> None:
        """Takes over what is known of all pages."""
        counts = state.counts()
        self.pages = counts.get("stored", 0)
        self.moved = counts.get("moved", 0)
        self.duplicates = counts.get("alias", 0) + counts.get("duplicate", 0)
        self.left = counts.get("left", 0)
        self.failed = state.reasons("failed")
        self.gone = state.reasons("gone")
        self.skipped = state.reasons("skipped")
        self.scripts = state.reasons("scripts")
