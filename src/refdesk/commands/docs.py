"""`docs check` and `eval`: validate a documentation corpus and score its answers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from refdesk.commands.desk import desk_from, json_option, on_one_line, print_json
from refdesk.errors import InvalidInput
from refdesk.model import Hit
from refdesk.search.evaluate import Score, Suite, read_suite, run


@click.group()
def docs() -> None:
    """Work on a documentation corpus."""


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


@click.command(name="eval")
@click.argument("suite", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--min-ndcg", type=float, help="Exit 1 when a setting's NDCG@5 is lower.")
@json_option
@click.pass_context
def eval_suite(context: click.Context, suite: Path, min_ndcg: float | None, as_json: bool) -> None:
    """Run the queries of SUITE (YAML) and score the answers, side by side for each of its settings."""
    read = _read(suite)
    with desk_from(context) as desk:
        for name in read.collections:
            desk.collection(name)
        scores = run(read, lambda query: desk.search(query).hits, _name)
    if as_json:
        print_json([asdict(one) for one in scores])
    else:
        _show(read, scores)
    if min_ndcg is not None and any(one.ndcg < min_ndcg for one in scores):
        sys.exit(1)


def _read(file: Path) -> Suite:
    import yaml

    try:
        return read_suite(yaml.safe_load(file.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise InvalidInput(f"{file} is not valid YAML: {error}.") from error


def _name(hit: Hit) -> str:
    key = hit.stored.chunk.key
    return f"{hit.stored.document.path}#{key}" if key else hit.stored.document.path


def _show(suite: Suite, scores: list[Score]) -> None:
    click.echo(f"{suite.name}: {len(suite.cases)} queries")
    click.echo(f"{'setting':16} {'NDCG@5':>7} {'MRR@5':>7} {'hit@5':>7} {'facets':>7} {'p50 ms':>8} {'p95 ms':>8}")
    for one in scores:
        facets = "-" if one.facet_precision is None else f"{one.facet_precision:.3f}"
        click.echo(
            f"{one.setting:16} {one.ndcg:7.3f} {one.mrr:7.3f} {one.hit_rate:7.3f} {facets:>7}"
            f" {one.p50_ms:8.2f} {one.p95_ms:8.2f}"
        )
    missed = [one for one in scores[0].outcomes if not one.reciprocal_rank]
    for miss in missed:
        wanted, found = ", ".join(miss.case.expect), ", ".join(miss.found[:3])
        click.echo(f"missed: {miss.case.query!r} wanted {wanted}; found {found}")
