"""`search` the library, and `eval`: score its answers to queries whose answers are known."""

from __future__ import annotations

import logging
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from refdesk.commands.desk import collections_here, desk_from, json_option, on_one_line, pair, print_json, shown
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import indexed_at, stale_hits
from refdesk.errors import InvalidInput
from refdesk.model import Chunk, Filterable, Filters, Hit, Page, Query
from refdesk.text.analyse import terms
from refdesk.text.globs import path_filter
from refdesk.text.untrusted import marks

_LISTED = 40  # known values in a note
_SILENT = logging.NullHandler()


class _Search(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Explains in the error for an unknown option how to search for one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} A query that begins with a dash goes behind `--`.", ctx
            ) from error


@click.command(cls=_Search)
@click.argument("query")
@click.option("--collection", multiple=True, help="Search only this collection; may be repeated.")
@click.option("--all", "everywhere", is_flag=True, help="Also outside of this folder's collection.")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip that many hits.")
@click.option("--alpha", type=click.FloatRange(0, 1), help="Share of meaning: 0 keywords only, 1 vectors only.")
@click.option("--path", multiple=True, metavar="GLOB", help="Only files whose relative path matches.")
@click.option("--language", multiple=True)
@click.option("--ext", multiple=True, help="Only files with this extension.")
@click.option("--fusion", type=click.Choice(["blend", "rank"]), default="blend", help="Join scores, or places.")
@click.option("--type", "types", multiple=True, type=click.Choice(["prose", "code", "api", "config", "cmd"]))
@click.option("--kind", "kinds", multiple=True, help="function, method, class, section, …")
@click.option("--meta", multiple=True, metavar="KEY=VALUE")
@click.option("--passages", is_flag=True, help="Every passage a hit of its own, not one hit a file.")
@click.option("--exact", is_flag=True, help="Hits contain the query to the letter, punctuation and all.")
@click.option("--explain", is_flag=True, help="Say why each hit ranks where it does.")
@json_option
@click.pass_context
def search(context: click.Context, /, query: str, as_json: bool, **options: Any) -> None:
    """Search the library for QUERY."""
    if not query.strip():
        raise click.UsageError("The query is empty.")
    metadata: dict[str, tuple[str, ...]] = {}
    for key, value in map(pair, options["meta"]):
        metadata[key] = (*metadata.get(key, ()), value)
    filters = Filters(
        collections=options["collection"],
        paths=options["path"],
        languages=options["language"],
        extensions=options["ext"],
        types=options["types"],
        kinds=options["kinds"],
        metadata=tuple(metadata.items()),
    )
    asked = Query(
        text=query,
        filters=filters,
        limit=options["limit"],
        offset=options["offset"],
        alpha=options["alpha"],
        fusion=options["fusion"],
        by="passage" if options["passages"] else "file",
        exact=options["exact"],
        explain=options["explain"],
    )
    logging.getLogger("refdesk").addHandler(_SILENT)  # else Python prints warnings, and the notes say what went wrong
    with desk_from(context) as desk:
        here = collections_here(desk, options["collection"], everywhere=options["everywhere"])
        is_open = not asked.filters and not asked.exact and asked.alpha != 0.0  # playbooks have no paths or languages
        asked = replace(asked, filters=replace(asked.filters, collections=here))
        page = desk.search_everything(asked) if is_open else desk.search(asked)
        known = {one.name: one for one in desk.collections()}
        is_empty = not page.hits and not known
        if not page.hits and not is_empty:
            wordless = () if asked.exact or terms(query) else ("The query has no words: --exact finds other signs.",)
            page = replace(page, notes=(*page.notes, *wordless, *_unknown(desk, asked.filters)))
        stale = stale_hits(desk, page.hits)
    marked = [marks(hit.stored, known.get(hit.stored.document.collection)) for hit in page.hits]
    if as_json:
        print_json(
            {
                "query": query,
                "hits": [{**hit_json(hit, stale), **mark} for hit, mark in zip(page.hits, marked, strict=True)],
                "more": page.more,
                "notes": page.notes,
                "confidence": page.confidence,
            }
        )
    else:
        _show(page, stale, marked)
        if is_empty:
            click.echo("The library is empty. `refdesk index PATH` fills it.", err=True)


def _unknown(desk: Desk, filters: Filters) -> Iterator[str]:
    """For each filter without a match, a note that lists the known values."""
    asked: tuple[tuple[Filterable, tuple[str, ...]], ...] = (
        ("kind", filters.kinds),
        ("language", filters.languages),
        ("extension", filters.extensions),
    )
    for what, wanted in asked:
        known = [one for one in desk.values(what) if one] if wanted else []
        if unknown := [one for one in wanted if one not in known]:
            yield f"No passage has the {what} {', '.join(unknown)}. There are: {', '.join(known)}."
    names = filters.collections or [one.name for one in desk.collections()]
    for glob in filters.paths:
        paths = (path for name in names for path, _ in desk.file_states(name))
        if not any(map(path_filter(glob).fullmatch, paths)):
            yield f"No path matches {glob}. `refdesk documents NAME` lists them."
    for key, wanted in filters.metadata:
        known = list(desk.view(Filters(collections=filters.collections)).facet_values(key))
        if unknown := [one for one in wanted if one not in known]:
            there = f"There are: {', '.join(sorted(known)[:_LISTED])}." if known else f"None has a value for {key}."
            yield f"No passage has {key}={', '.join(unknown)}. {there}"


def _lines(chunk: Chunk) -> dict[str, int | None]:
    return {"start_line": chunk.start_line or None, "end_line": chunk.end_line or None}


def hit_json(hit: Hit, stale: Container[int]) -> dict[str, Any]:
    """A hit as JSON."""
    chunk, document = hit.stored.chunk, hit.stored.document
    shown = {
        "score": round(hit.score, 4),
        "collection": document.collection,
        "path": document.path,
        **_lines(chunk),
        "kind": chunk.kind,
        "language": chunk.language,
        "title": chunk.title,
        "breadcrumb": list(chunk.breadcrumb),
        "symbols": list(chunk.symbols),
        "snippet": hit.snippet,
        "snippet_line": hit.snippet_line or None,
        "document_id": document.id,
        "uri": document.uri,
        "indexed_at": indexed_at(document),
        "stale": hit.stored.id in stale,
        "more": [{**_lines(one.chunk), "title": one.chunk.title} for one in hit.more],
    }
    return {**shown, "explanation": dict(hit.explanation)} if hit.explanation else shown


def _show(page: Page, stale: Container[int], marked: Sequence[Mapping[str, str]]) -> None:
    for note in page.notes:
        click.echo(f"note: {note}", err=True)
    if not page.hits:
        click.echo("No results found.")
    for number, hit in enumerate(page.hits, 1):
        chunk, document = hit.stored.chunk, hit.stored.document
        place = click.style(chunk.place(on_one_line(document.path)), bold=True)
        about = " ".join(on_one_line(part) for part in (chunk.kind, chunk.title) if part)
        mark = f"  stale: the file changed since {indexed_at(document)}" if hit.stored.id in stale else ""
        click.echo(f"{number}. {place}  {about}  [{document.collection}] {hit.score:.2f}{mark}")
        for key, value in marked[number - 1].items():
            click.echo(f"     {key}: {on_one_line(value)}")
        for line in hit.snippet.splitlines():
            click.echo(f"     {shown(line)}")
        if hit.more:
            named = (f"{one.chunk.lines} {on_one_line(one.chunk.title)}".lstrip() for one in hit.more)
            click.echo("     more: " + "; ".join(map(str.rstrip, named)))
        if hit.explanation:
            click.echo("     " + "; ".join(f"{name}: {value}" for name, value in hit.explanation.items()))


@click.command(name="eval")
@click.argument("suite", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--min-ndcg", type=float, help="Exit 1 when a setting's NDCG@5 is lower.")
@json_option
@click.pass_context
def eval_suite(context: click.Context, suite: Path, min_ndcg: float | None, as_json: bool) -> None:
    """Run the queries of SUITE (YAML) and score the answers, side by side for each of its settings."""
    import yaml

    from refdesk.search.evaluate import read_suite, run

    try:
        read = read_suite(yaml.safe_load(suite.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise InvalidInput(f"{suite} is not valid YAML: {error}.") from error
    with desk_from(context) as desk:
        for name in read.collections:
            desk.collection(name)
        scores = run(read, lambda query: desk.search(query).hits)
    if as_json:
        print_json([asdict(one) for one in scores])
    else:
        click.echo(f"{read.name}: {len(read.cases)} queries")
        click.echo(f"{'setting':16} {'NDCG@5':>7} {'MRR@5':>7} {'hit@5':>7} {'facets':>7} {'p50 ms':>8} {'p95 ms':>8}")
        for one in scores:
            facets = "-" if one.facet_precision is None else f"{one.facet_precision:.3f}"
            click.echo(
                f"{one.setting:16} {one.ndcg:7.3f} {one.mrr:7.3f} {one.hit_rate:7.3f} {facets:>7}"
                f" {one.p50_ms:8.2f} {one.p95_ms:8.2f}"
            )
        for miss in (one for one in scores[0].outcomes if not one.reciprocal_rank):
            wanted, found = ", ".join(miss.case.expect), ", ".join(miss.found[:3])
            click.echo(f"missed: {miss.case.query!r} wanted {wanted}; found {found}")
    if min_ndcg is not None and any(one.ndcg < min_ndcg for one in scores):
        sys.exit(1)
