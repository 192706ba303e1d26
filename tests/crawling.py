"""A crawl into a library that the test has open already."""

from __future__ import annotations

from contextlib import nullcontext

from refdesk.crawl.apart import OpenDesk
from refdesk.crawl.options import CrawlOptions
from refdesk.crawl.report import CrawlReport
from refdesk.crawl.site import Tell, crawl_into
from refdesk.desk import Desk


def crawl(
    desk: Desk,
    options: CrawlOptions,
    *,
    name: str = "",
    description: str = "",
    tell: Tell | None = None,
    open_desk: OpenDesk | None = None,
) -> CrawlReport:
    """With `open_desk`, a large site is indexed by another process."""
    return crawl_into(
        lambda settings: nullcontext(desk), desk.settings, options,
        name=name, description=description, tell=tell, open_another=open_desk,
    )  # fmt: skip
