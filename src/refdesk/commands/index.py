"""`index`, `ingest` and `crawl`: add to the library; `docs check`: validate a corpus."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from refdesk.commands.desk import desk_from, json_option, on_one_line, pair, print_json, progress_on_stderr
from refdesk.desk.desk import Desk
from refdesk.desk.machine import taken_notes
from refdesk.errors import LoadFailed, OnOtherMachine
from refdesk.ingest.prepare import Report
from refdesk.model import CollectionKind, Skipped
from refdesk.sources.ignore import IGNORED

_LOOK_S, _WALK_S = 0.4, 2.0  # between two looks at a folder: by the changes that the system tells, or by a walk
_SHOWN = 20
_LONG = 200  # characters of a path or an address; --json gives all of them


@click.command()
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(["code", "docs", "files"]), default="code", show_default=True)
@click.option("--name", default="", help="The collection's name; the folder's by default.")
@click.option("--description", default="", help="What an agent finds here, in a few words.")
@click.option("--allow-secret", "allow_secrets", multiple=True, metavar="GLOB", help="Take in this file with secrets.")
@click.option("--force", is_flag=True, help="Read and parse every file again.")
@click.option("--verify", is_flag=True, help="Compare the contents of all files, whatever their times say.")
@click.option("--watch", "keep_watching", is_flag=True, help="Stay and keep it fresh.")
@json_option
@click.pass_context
def index(
    context: click.Context,
    /,
    path: Path,
    kind: CollectionKind,
    allow_secrets: tuple[str, ...],
    keep_watching: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Index the folder PATH; only what changed since last time is read."""
    with desk_from(context, allow_secrets=allow_secrets) as desk:
        with progress_on_stderr("indexing") as progress:
            report = desk.index(path.resolve(), kind, progress=progress, **options)
        _show(report, as_json)
        if keep_watching:
            _watch(desk, path.resolve(), report.collection, kind)


@click.command()
@click.argument("uri")
@click.option("--collection", required=True, help="The collection to add it to; made if there is none.")
@click.option("--content-type", default="", help="Override the detected type: python, markdown, …")
@click.option("--meta", multiple=True, metavar="KEY=VALUE", help="Metadata to keep with it.")
@click.option("--allow-secret", "allow_secrets", multiple=True, metavar="GLOB", help="Take in this file with secrets.")
@click.option("--allow-host", multiple=True, help="A host that may be fetched although it is inside your network.")
@json_option
@click.pass_context
def ingest(
    context: click.Context,
    uri: str,
    collection: str,
    content_type: str,
    meta: tuple[str, ...],
    allow_secrets: tuple[str, ...],
    allow_host: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add URI (file://, https://, data:, or a plain path) to a collection."""
    metadata = dict(pair(one) for one in meta)
    if ":" not in uri.partition("/")[0] or Path(uri).exists():
        uri = Path(uri).resolve().as_uri()
    may = {"allow_hosts": allow_host, "allow_roots": (Path.cwd().anchor,), "allow_secrets": allow_secrets}
    with desk_from(context, **may) as desk:
        with desk.filling(collection), progress_on_stderr("adding") as progress:
            report = desk.ingest(uri, collection, content_type=content_type, metadata=metadata, progress=progress)
        _show(report, as_json)
        if not report.document_ids:
            sys.exit(LoadFailed.exit_code)


def _watch(desk: Desk, root: Path, name: str, kind: CollectionKind) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        watching = None
        try:
            watching = desk.watch(desk.collection(name))
        except OSError as error:
            click.echo(f"note: {error}; its files are compared every {_WALK_S:g} seconds.", err=True)
        click.echo(f"Watching {root}; Ctrl-C ends it.", err=True)
        while True:
            time.sleep(_LOOK_S if watching else _WALK_S)
            if watching and watching.changed() == set():
                continue
            # A changed ignore rule or a moved folder affects other files too, so all of it is walked.
            try:
                report = desk.index(root, kind, name=name, asked=False)
            except OnOtherMachine as error:
                click.echo(f"Stopped watching. {error}", err=True)
                return
            if report.written or report.removed or report.moved:
                click.echo(f"{report.written} written, {report.removed} removed, {report.moved} moved", err=True)
    click.echo("Stopped watching. What is indexed stays searchable.", err=True)


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        no_need = {"written_ids"} if report.taken_from else {"written_ids", "taken_from"}
        counts = {key: value for key, value in asdict(report).items() if key not in no_need}
        left_out = {
            name: [{"path": one.path, "reason": one.reason} for one in getattr(report, name)]
            for name in ("skipped", "errors", "remarks")
        }
        print_json({**counts, **left_out, "seconds": round(report.seconds, 3)})
        return
    click.echo(
        f"{report.collection}: {report.files} files, {report.written} written, {report.unchanged} unchanged,"
        f" {report.moved} moved, {report.removed} removed; {report.chunks} chunks ({report.embedded} embedded),"
        f" {report.symbols} symbols in {report.seconds:.1f} s"
    )
    for note in taken_notes(report):
        click.echo(f"note: {note}", err=True)
    ignored = [one for one in report.skipped if one.reason.startswith(IGNORED)]
    others = [one for one in report.skipped if one not in ignored]
    _list("not readable", report.errors)
    _list("skipped", others)
    _list("indexed, with a remark", report.remarks)
    if ignored:
        click.echo(f"{len(ignored)} left out by ignore files: --json lists them, `refdesk status` explains", err=True)


@click.command()
@click.argument("url")
@click.option("--name", default="", help="The collection's name; made from the host by default.")
@click.option("--description", default="", help="What an agent finds here, in a few words.")
@click.option("--depth", type=click.IntRange(0), default=20, show_default=True, help="Links from the start at most.")
@click.option("--max-pages", type=click.IntRange(1), default=5000, show_default=True)
@click.option(
    "--exclude", "excludes", multiple=True, metavar="REGEX", help="Leave out URLs that match; may be repeated."
)
@click.option("--allow-host", multiple=True, metavar="HOST", help="A host that may be inside your network.")
@click.option(
    "--delay", "delay_s", type=click.FloatRange(0), default=0.1, show_default=True, help="Seconds between requests."
)
@click.option("--concurrency", type=click.IntRange(1, 64), default=4, show_default=True, help="Requests at a time.")
@click.option("--browser/--no-browser", default=True, help="Render pages that are empty without JavaScript.")
@json_option
@click.pass_context
def crawl(
    context: click.Context,
    /,
    url: str,
    name: str,
    description: str,
    allow_host: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Crawl the site at URL; run it again to fetch only what changed, or to resume."""
    from refdesk.crawl import crawler
    from refdesk.crawl.model import crawl_options

    options = crawl_options(url, **given)
    try:
        with progress_on_stderr("crawling") as progress, desk_from(context, allow_hosts=allow_host) as desk:
            report = crawler.crawl(desk, options, name=name, description=description, progress=progress)
    except KeyboardInterrupt:
        click.echo("Stopped. What was fetched is kept: run the same command to go on.", err=True)
        sys.exit(130)
    if as_json:
        print_json({**asdict(report), "seconds": round(report.seconds, 3)})
        return
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


def _list(title: str, left_out: list[Skipped]) -> None:
    """Lists what was left out on stderr, the first ones with their reasons."""
    if not left_out:
        return
    click.echo(f"{len(left_out)} {title}:", err=True)
    for one in left_out[:_SHOWN]:
        click.echo(f"  {_short(one.path)}: {_short(one.reason)}", err=True)
    if len(left_out) > _SHOWN:
        click.echo(f"  … and {len(left_out) - _SHOWN} more: --json lists them", err=True)


@click.group()
def docs() -> None:
    """Work with a documentation corpus."""


@docs.command()
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
def check(path: Path, as_json: bool) -> None:
    """Report broken front matter, duplicate ids, oversize sections and dead links in PATH; exit 1 if there are any."""
    from refdesk.parse.prose.check import check as check_corpus

    problems = check_corpus(path)
    if as_json:
        print_json([asdict(one) for one in problems])
    else:
        for one in problems:
            click.echo(f"{on_one_line(one.path)}:{one.line}: {on_one_line(one.message)}")
        click.echo(f"{len(problems)} problems." if problems else "No problems.", err=True)
    sys.exit(1 if problems else 0)
