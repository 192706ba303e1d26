"""The options, the scope and the report of a crawl."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from refdesk.crawl.urls import clean, is_text, site_of
from refdesk.errors import InvalidInput, InvalidUri
from refdesk.library import LONGEST_URL
from refdesk.model import Skipped

if TYPE_CHECKING:
    from refdesk.crawl.state import CrawlState

_TOO_LONG = f"longer than {LONGEST_URL:,} characters"
MOST_HOPS = 10  # redirects and canonical links in a row; browsers follow 20
AGENT = "refdesk"  # the name by which robots.txt and robots tags address this crawler


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlOptions:
    """Where a crawl starts, its limits and its pace."""

    start: str  # cleaned
    depth: int = 20
    max_pages: int = 5_000
    excludes: tuple[re.Pattern[str], ...] = ()
    delay_s: float = 0.1  # between the starts of two requests
    concurrency: int = 4
    tries: int = 4  # over 3.5 s: enough for a server to restart
    backoff_s: float = 0.5  # before the second try; doubled before each further one
    browser: bool = True  # render pages that need JavaScript, if a browser is installed


@dataclass(frozen=True, slots=True)
class Scope:
    """The site that a crawl is limited to."""

    options: CrawlOptions
    sites: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, options: CrawlOptions) -> Scope:
        """The host of the start, with and without www."""
        site = site_of(options.start)
        other = site.removeprefix("www.") if site.startswith("www.") else f"www.{site}"
        host = urlsplit(options.start).hostname or ""
        is_name = not host.replace(".", "").isdigit() and ":" not in host and "." in host
        return cls(options, frozenset((site, other) if is_name else (site,)))

    def has(self, url: str) -> bool:
        return site_of(url) in self.sites

    def why_not(self, url: str) -> str:
        """Why the URL is not crawled, "" if it is."""
        if not self.has(url):
            return "on another host"
        found = next((one for one in self.options.excludes if one.search(url)), None)
        if found is not None:
            return f"excluded by {found.pattern}"
        if len(url) > LONGEST_URL:
            return _TOO_LONG
        if "/_sources/" in url and url.endswith(".txt"):
            return "the source of another page"  # copied by Sphinx
        if url.endswith("/llms-full.txt") and url != self.options.start:
            return "a copy of the whole site"
        return "" if is_text(url) else "not a text, by its name"


def crawl_options(url: str, *, excludes: tuple[str, ...] = (), **more: object) -> CrawlOptions:
    """The validated options from the command line."""
    start = clean(url if "://" in url else f"https://{url}")
    host = urlsplit(start).hostname or ""
    if not start or ("://" not in url and host != "localhost" and not {".", ":"} & set(host)):  # no host
        raise InvalidUri(f"{url[:200]!r} is not a web address.", "Write it as https://host/path.")
    if len(start) > LONGEST_URL:
        raise InvalidUri(f"{start[:100]}… is {_TOO_LONG}.", "Start at another page.")
    try:
        patterns = tuple(re.compile(one) for one in excludes)
    except re.error as error:
        raise InvalidInput(f"--exclude takes a regular expression: {error}.", "Correct it.") from error
    return CrawlOptions(start=start, excludes=patterns, **more)  # type: ignore[arg-type]  # click gave each its type


@dataclass(slots=True, kw_only=True)
class CrawlReport:
    """What a crawl did and what failed."""

    collection: str
    start: str
    resumed: bool = False
    pages: int = 0  # of the site, in the library
    asked: int = 0  # requests for pages in this run
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    moved: int = 0
    duplicates: int = 0  # by bytes or by canonical address
    left: int = 0  # beyond the limits of depth or number
    chunks: int = 0
    embedded: int = 0
    rendered: int = 0  # by a browser
    failed: list[Skipped] = field(default_factory=list)
    gone: list[Skipped] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    scripts: list[Skipped] = field(default_factory=list)  # empty without JavaScript
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    fetch_seconds: float = 0.0  # until the last page was fetched

    def fill(self, state: CrawlState) -> None:
        counts = state.counts()
        self.pages = counts.get("stored", 0)
        self.moved = counts.get("moved", 0)
        self.duplicates = counts.get("alias", 0) + counts.get("duplicate", 0)
        self.left = counts.get("left", 0)
        self.failed = state.reasons("failed")
        self.gone = state.reasons("gone")
        self.skipped = state.reasons("skipped")
        self.scripts = state.reasons("scripts")
