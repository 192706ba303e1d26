"""How good are the answers?  Known-item sets through the real engine, for keywords, vectors and hybrid.

python -m bench.quality [--sets python code docs] [--embedder static|wordllama|none] [--json FILE]
python -m bench.quality --weights FILE   ranks with other weights of the second stage too
python -m bench.quality --clones DIR     asks the questions, commits and reports of whole repositories and manuals too
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import authored, corpora, files, metrics, pages, sets, tables
from bench.sets import Asked, KnownItems
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Query, StoredChunk
from refdesk.search import rerank
from refdesk.search.understand import understand
from refdesk.settings import load

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
Ranker = Callable[[str], Sequence[Sequence[StoredChunk]]]  # places, each with all that it shows


@dataclass(frozen=True, slots=True)
class Score:
    """One ranker on one set."""

    ranker: str
    ndcg: metrics.Estimate
    mrr: metrics.Estimate
    recall: metrics.Estimate
    by_query: tuple[float, ...]  # NDCG, to compare rankers query by query


@contextmanager
def indexed(known: KnownItems, embedder: str, libraries: Path | None = None) -> Iterator[Desk]:
    """A desk whose library holds the set's files; with a folder for libraries it is kept there for the next run."""
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        library = (libraries or Path(scratch)) / f"{known.name}-{embedder}"
        with open_desk(load({"library": library, "embedder": embedder}, {}, Path(scratch))) as desk:
            desk.index(known.folder, sets.KINDS[known.name], name=known.name)
            yield desk


@contextmanager
def weighed(file: Path) -> Iterator[None]:
    """The second stage with the weights of a file."""
    other = rerank.Weights(**json.loads(file.read_text(encoding="utf-8")))
    shipped, rerank.weights = rerank.weights, lambda: other  # type: ignore[assignment]
    try:
        yield
    finally:
        rerank.weights = shipped


def rankers(desk: Desk, *, sweep: bool, weights: Path | None = None) -> dict[str, Ranker]:
    """The ways to rank: each index by itself, then the engine by keywords, by vectors and as it comes."""

    def engine(alpha: float | None) -> Ranker:
        return lambda text: [
            (hit.stored, *hit.more) for hit in desk.engine.search(Query(text=text, alpha=alpha, by="file")).hits
        ]

    found: dict[str, Ranker] = {"bm25 index": lambda text: _bm25(desk, text)}
    if desk.embedder is not None:
        found["vector index"] = lambda text: _vectors(desk, text)
    found["keywords"] = engine(0.0)
    if desk.embedder is not None:
        found["vectors"] = engine(1.0)
        found["hybrid"] = engine(None)
        if weights is not None:
            found[weights.stem] = lambda text: _with_weights(weights, found["hybrid"], text)
        if sweep:
            found |= {f"alpha {alpha}": engine(alpha) for alpha in ALPHAS}
    return found


def _with_weights(file: Path, ranker: Ranker, text: str) -> Sequence[Sequence[StoredChunk]]:
    with weighed(file):
        return ranker(text)


def _bm25(desk: Desk, text: str) -> list[tuple[StoredChunk]]:
    found = desk.view().lexical(understand(text).terms, metrics.CUT)
    stored = desk._store.chunks(found.ids)
    return [(stored[one],) for one in found.ids]


def _vectors(desk: Desk, text: str) -> list[tuple[StoredChunk]]:
    assert desk.embedder is not None
    found = desk.view().nearest(desk.embedder.embed_queries([text])[0], metrics.CUT)
    stored = desk._store.chunks(found.ids)
    return [(stored[one],) for one in found.ids]


def rank_of(item: Asked, answers: Sequence[Sequence[StoredChunk]]) -> int | None:
    """The 1-based rank of the first answer that shows the item's place, itself or as a further passage of its file."""
    return next((rank for rank, shown in enumerate(answers, 1) if any(map(item.is_met_by, shown))), None)


def score(name: str, ranker: Ranker, items: Sequence[Asked]) -> Score:
    """What the ranker reaches on these queries."""
    ranks = [rank_of(item, ranker(item.query)) for item in items]
    by_query = tuple(metrics.ndcg(rank) for rank in ranks)
    return Score(
        ranker=name,
        ndcg=metrics.estimate(by_query),
        mrr=metrics.estimate([metrics.reciprocal_rank(rank) for rank in ranks]),
        recall=metrics.estimate([metrics.recall(rank) for rank in ranks]),
        by_query=by_query,
    )


def measure(
    known: KnownItems,
    embedder: str,
    libraries: Path | None = None,
    *,
    sweep: bool,
    weights: Path | None = None,
) -> dict[str, Any]:
    """Every ranker on a set's reported half."""
    started = time.perf_counter()
    with indexed(known, embedder, libraries) as desk:
        stats = desk.stats()
        built = time.perf_counter() - started
        ways = rankers(desk, sweep=sweep, weights=weights)
        scores = [score(name, ranker, known.report) for name, ranker in ways.items()]
    return {
        "set": known.name,
        "embedder": embedder,
        "queries": len(known.report),
        "packages": len({item.package for item in known.report}),
        "documents": stats.documents,
        "chunks": stats.chunks,
        "index_s": round(built, 1),
        "scores": scores,
    }


def fusion_rows(result: dict[str, Any]) -> list[tables.Row]:
    """Hybrid over each of its parts, with the floor that it is above both."""
    by_name: dict[str, Score] = {one.ranker: one for one in result["scores"]}
    if "hybrid" not in by_name:
        return []
    hybrid = by_name["hybrid"]
    rows = []
    others = [name for name in by_name if name != "hybrid" and not name.startswith("alpha ")]
    for name in others:
        gain = metrics.difference(hybrid.by_query, by_name[name].by_query)
        sides = f"NDCG@10 {hybrid.ndcg.mean:.3f} against {by_name[name].ndcg.mean:.3f}"
        note = f"{sides}, 95% {gain.low:+.3f} to {gain.high:+.3f}"
        rows.append(tables.Row(f"{result['set']}: hybrid over {name}", gain.mean, "", 1e-9, at_least=True, note=note))
    return rows


def show(result: dict[str, Any]) -> str:
    head = ("ranker", "NDCG@10", "MRR@10", "Recall@10")
    rows = [(one.ranker, str(one.ndcg), str(one.mrr), str(one.recall)) for one in result["scores"]]
    title = (
        f"{result['set']}, embedder {result['embedder']}: {result['queries']} queries of {result['packages']} packages,"
        f" {result['chunks']} chunks of {result['documents']} files"
    )
    return tables.show(title, head, rows)


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    scores = [{key: value for key, value in asdict(one).items() if key != "by_query"} for one in result["scores"]]
    return {**result, "scores": scores}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="*", default=[*sets.NAMES, "authored"], choices=[*sets.NAMES, "authored"])
    options.add_argument("--embedder", default="static", choices=["static", "wordllama", "none"])
    options.add_argument("--no-sweep", action="store_true", help="leave the fixed alphas out")
    options.add_argument("--weights", type=Path, help="other weights of the second stage, to compare with")
    options.add_argument(
        "--libraries", type=Path, help="where the indexed sets are kept for the next run, to save time"
    )
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--clones", type=Path, help="clones of public repositories, to ask bench.files and .pages too")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    results = []
    for name in given.sets:
        known = authored.known_items(given.cache) if name == "authored" else sets.known_items(name, given.cache)
        ways = {"sweep": not given.no_sweep, "weights": given.weights}
        results.append(measure(known, given.embedder, given.libraries, **ways))
        print(show(results[-1]), flush=True)
    rows = [row for result in results for row in fusion_rows(result)]
    print(tables.show_rows("fusion", rows))
    path = tables.keep(
        "quality", {"sets": [_plain(one) for one in results], "fusion": [asdict(row) for row in rows]}, given.json
    )
    print(f"\nkept in {path}")
    if given.clones:
        files.main(["--clones", str(given.clones), "--sets", "questions", "changes", "reports"])
        pages.main(["--clones", str(given.clones)])


if __name__ == "__main__":
    main()
