"""`crawl`: index a web site."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from refdesk.commands.desk import bar_on_stderr, json_option, on_one_line, print_json, settings_from

if TYPE_CHECKING:
    from refdesk.crawl.model import CrawlReport
    from refdesk.model import Skipped

_SHOWN = 20
_LONG = 200  # characters of an address; --json gives all of them


@click.command()
@click.argument("url")
@click.option("--name", default="", help="The collection's name; made from the host by default.")
@click.option("--description", default="", help="What an agent finds here, in a few words.")
@click.option("--depth", type=click.IntRange(0), default=20, show_default=True, help="Links from the start at most.")
@click.option("--max-pages", type=click.IntRange(1), default=5000, show_default=True)
@click.option("--exclude", multiple=True, metavar="REGEX", help="Leave out addresses in which this is found.")
@click.option("--allow-host", multiple=True, metavar="HOST", help="A host that may be inside your network.")
@click.option("--delay", type=click.FloatRange(0), default=0.1, show_default=True, help="Seconds between requests.")
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, show_default=True, help="Requests at a time.")
@click.option("--browser/--no-browser", default=True, help="Render pages that are empty without JavaScript.")
@json_option
@click.pass_context
def crawl(
    context: click.Context,
    url: str,
    name: str,
    description: str,
    depth: int,
    max_pages: int,
    exclude: tuple[str, ...],
    allow_host: tuple[str, ...],
    delay: float,
    concurrency: int,
    browser: bool,
    as_json: bool,
) -> None:
    """Crawl the site at URL; again, to fetch only what changed, or to go on after a stop."""
    from refdesk.app import open_desk
    from refdesk.crawl import crawler
    from refdesk.crawl.model import crawl_options

    options = crawl_options(
        url, excludes=exclude, depth=depth, max_pages=max_pages, delay_s=delay, concurrency=concurrency, browser=browser
    )
    try:
        settings = settings_from(context, allow_hosts=allow_host)
        with bar_on_stderr("crawling") as tell, open_desk(settings) as desk:
            report = crawler.crawl(desk, options, name=name, description=description, tell=tell)
    except KeyboardInterrupt:
        click.echo("Stopped. What was fetched is kept: run the same command to go on.", err=True)
        sys.exit(130)
    if as_json:
        print_json({**asdict(report), "seconds": round(report.seconds, 3)})
    else:
        _show(report)


def _show(report: CrawlReport) -> None:
    click.echo(
        f"{report.collection}: {report.pages} pages, {report.written} written, {report.unchanged} unchanged,"
        f" {report.removed} removed; {report.duplicates} duplicates, {report.moved} redirects;"
        f" {report.chunks} chunks ({report.embedded} embedded) in {report.seconds:.1f} s"
    )
    _list("failed; the next crawl tries them again", report.failed)
    _list("empty without JavaScript", report.scripts)
    _list("gone", report.gone)
    _list("left out", report.skipped)
    if report.left:
        click.echo(f"{report.left} more are beyond --depth or --max-pages.", err=True)
    for note in report.notes:
        click.echo(note, err=True)


def _short(text: str) -> str:
    """The text on one line, with the middle cut out if it is very long."""
    line = on_one_line(text)
    return line if len(line) <= _LONG else f"{line[: _LONG // 2]} … {line[-_LONG // 4 :]}"


def _list(title: str, pages: list[Skipped]) -> None:
    if not pages:
        return
    click.echo(f"{len(pages)} {title}:", err=True)
    for one in pages[:_SHOWN]:
        click.echo(f"  {_short(one.path)}: {_short(one.reason)}", err=True)
    if len(pages) > _SHOWN:
        click.echo(f"  … and {len(pages) - _SHOWN} more: --json lists them", err=True)
