"""What may a crawl do?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from refdesk.crawl.urls import clean, is_text, site_of
from refdesk.errors import InvalidInput, InvalidUri

AGENT = "refdesk"  # the name by which robots.txt and robots tags address this crawler


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlOptions:
    """Where a crawl starts and where it ends."""

    start: str  # cleaned
    depth: int = 20
    max_pages: int = 5_000
    excludes: tuple[re.Pattern[str], ...] = ()
    delay_s: float = 0.1  # between the starts of two requests
    concurrency: int = 4
    tries: int = 4
    backoff_s: float = 0.5  # before the second try; doubled before each further one
    browser: bool = True  # render pages that are empty without scripts, where a browser is installed


@dataclass(frozen=True, slots=True)
class Scope:
    """The one site that a crawl stays on."""

    options: CrawlOptions
    sites: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, options: CrawlOptions) -> Scope:
        """The start's own host, with and without www."""
        site = site_of(options.start)
        other = site.removeprefix("www.") if site.startswith("www.") else f"www.{site}"
        host = urlsplit(options.start).hostname or ""
        is_name = not host.replace(".", "").isdigit() and ":" not in host and "." in host
        return cls(options, frozenset((site, other) if is_name else (site,)))

    def has(self, url: str) -> bool:
        """Whether the address is on the site."""
        return site_of(url) in self.sites

    def why_not(self, url: str) -> str:
        """Why the page is left out, "" when it is not."""
        if not self.has(url):
            return "on another host"
        found = next((one for one in self.options.excludes if one.search(url)), None)
        if found is not None:
            return f"excluded by {found.pattern}"
        if "/_sources/" in url and url.endswith(".txt"):
            return "the source of another page"  # as Sphinx copies them
        if url.endswith("/llms-full.txt") and url != self.options.start:
            return "a copy of the whole site"
        return "" if is_text(url) else "not a text, by its name"


def crawl_options(url: str, *, excludes: tuple[str, ...] = (), **more: object) -> CrawlOptions:
    """The options as the command line gives them, checked."""
    start = clean(url if "://" in url else f"https://{url}")
    host = urlsplit(start).hostname or ""
    if not start or ("://" not in url and host != "localhost" and not {".", ":"} & set(host)):  # no host
        raise InvalidUri(f"{url[:200]!r} is not a web address.", "Write it as https://host/path.")
    try:
        patterns = tuple(re.compile(one) for one in excludes)
    except re.error as error:
        raise InvalidInput(f"--exclude takes a regular expression: {error}.", "Correct it.") from error
    given = {key: value for key, value in more.items() if value is not None}
    return CrawlOptions(start=start, excludes=patterns, **given)  # type: ignore[arg-type]
