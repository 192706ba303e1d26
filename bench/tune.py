"""Which constants serve best?  Tried on the tuning halves of the sets, which share no package with the reported halves.

Each query's candidates and what the engine's signals say of them are taken once from the real store; blends and weights
are then tried on these numbers alone, thousands in a minute.  A weight is told as a multiple of the engine's constant.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import metrics, sets, tables
from bench.sets import Asked
from refdesk.desk.desk import Desk
from refdesk.model import StoredChunk
from refdesk.search import engine, rerank
from refdesk.search import rerank as features
from refdesk.search.understand import Understood, understand
from refdesk.store.words import query as lexical_query
from refdesk.text import analyse

SAMPLE = 200  # queries of each set
SIGNALS = ("definition", "title", "path", "test", "generated", "example", "outline")
# Signals the engine does not have; each is a share, weighted by how rare the terms are.
NEW = ("title by rarity", "path by rarity", "coverage by rarity")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What both indexes found for one query, best fused first not yet known."""

    kind: str
    bm25: Floats
    cosine: Floats
    near: NDArray[np.bool_]  # found by the vector index too
    signals: Floats  # one row a candidate, one column a signal
    document: NDArray[np.int64]
    right: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to rank candidates."""

    fusion: str = "convex"
    alpha: float = 0.5
    weights: tuple[float, ...] = (1.0,) * len(SIGNALS) + (0.0,) * len(NEW)
    reranked: int = 60
    per_document: int = 3


def now() -> Way:
    """The engine's own constants."""
    return Way(
        alpha=rerank.weights().blend["words"],
        reranked=engine.RERANKED,
        per_document=getattr(engine, "_PER_DOCUMENT", 3),
    )


def run(names: Sequence[str], embedder: str, cache: Path, libraries: Path | None, json: Path | None) -> None:
    """Prints what every value reaches while the others stay at the best found so far."""
    from bench.quality import indexed

    found: dict[str, list[Candidates]] = {}
    boosts: dict[str, list[float]] = {}
    for name in names:
        known = sets.known_items(name, cache)
        items = random.Random(3).sample(known.tune, min(SAMPLE, len(known.tune)))
        with indexed(known, embedder, libraries) as desk:
            found[name] = [one for item in items if (one := gather(desk, item)) is not None]
            print(f"{name}: {len(found[name])} queries", flush=True)
            for shown, reached in try_boosts(desk, items):
                boosts.setdefault(shown, []).append(reached)
    rows = [(shown, *(f"{one:.4f}" for one in own)) for shown, own in boosts.items()]
    print(tables.show("bm25 index by field boosts", ("boosts", *names), rows), flush=True)
    start = now()
    best, steps = descend(start, found)
    print(tables.show("steps", ("what", "value", "mean", *names), [one.cells() for one in steps]))
    by_kind = _by_kind(best, found)
    print(tables.show("alpha by query kind", ("kind", "queries", *map(str, ALPHAS)), by_kind))
    before, after = reach(start, found), reach(best, found)
    print(f"\nnow  {start}\nbest {best}\nweights {dict(zip(SIGNALS + NEW, best.weights, strict=True))}")
    print(f"mean NDCG@10 {_mean(before):.4f} → {_mean(after):.4f}: {before} → {after}")
    kept = {"embedder": embedder, "before": before, "after": after, "best": repr(best), "boosts": boosts}
    print("kept in", tables.keep("tune", {**kept, "steps": [one.cells() for one in steps]}, json))


# --- what is known of a query -----------------------------------------------------------------------


def gather(desk: Desk, item: Asked) -> Candidates | None:
    """Everything a ranking of this query's candidates needs; None when nothing was found at all."""
    asked = understand(item.query)
    store, embedder = desk._store, desk.embedder
    assert embedder is not None
    pool = getattr(engine, "_POOL", 120)
    words = store.view().lexical(asked.terms, pool).by_chunk()
    vector = embedder.embed_queries([item.query])[0]
    near = store.view().nearest(vector, pool).by_chunk()
    ids = sorted(words.keys() | near.keys())
    if not ids:
        return None
    cosines = store.view().cosines(vector, ids)
    stored = store.chunks(ids)
    rarity = _rarity(store.view().document_frequency(asked.terms), store.stats().chunks)
    rows = [_signals(stored[one], asked, rarity) for one in ids]
    numbers = {document: at for at, document in enumerate(dict.fromkeys(stored[one].document.id for one in ids))}
    top = max(words.values(), default=1.0)
    return Candidates(
        kind=asked.kind,
        bm25=np.array([words.get(one, 0.0) / top for one in ids]),
        cosine=np.array([max(0.0, cosines.get(one, 0.0)) for one in ids]),
        near=np.array([one in near for one in ids]),
        signals=np.array(rows),
        document=np.array([numbers[stored[one].document.id] for one in ids]),
        right=np.array([item.is_met_by(stored[one]) for one in ids]),
    )


def _signals(stored: StoredChunk, asked: Understood, rarity: dict[str, float]) -> list[float]:
    own = rerank.gains([features.passage(stored, asked)], rerank.weighing(with_words=False))[0]
    chunk = stored.chunk
    texts = (" ".join((*chunk.breadcrumb[-2:], chunk.title, *chunk.symbols[:8])), stored.document.path, chunk.text)
    return [float(own.get(name, 0.0)) for name in SIGNALS] + [_share(text, asked.terms, rarity) for text in texts]


def _share(text: str, terms: Iterable[str], rarity: dict[str, float]) -> float:
    there = set(analyse.terms(text))
    total = sum(rarity.values())
    return sum(rarity[term] for term in terms if term in there) / total if total else 0.0


def _rarity(frequency: dict[str, int], chunks: int) -> dict[str, float]:
    return {term: math.log(1 + (chunks - count + 0.5) / (count + 0.5)) for term, count in frequency.items()}


def try_boosts(desk: Desk, items: Sequence[Asked]) -> Iterable[tuple[str, float]]:
    """What the full-text index alone reaches with other boosts of its fields."""
    table = lexical_query.BOOSTS
    kept = dict(table)
    trials: list[dict[str, float]] = [{}]
    for field in kept:
        trials += [{field: round(kept[field] * by, 2)} for by in (0.0, 0.5, 2.0) if field != "content"]
    try:
        for trial in trials:
            table.update({**kept, **trial})
            reached = [metrics.ndcg(_lexical_rank(desk, item)) for item in items]
            yield str(trial or f"now {kept}"), sum(reached) / len(reached)
    finally:
        table.update(kept)


def _lexical_rank(desk: Desk, item: Asked) -> int | None:
    found = desk.view().lexical(understand(item.query).terms, metrics.CUT)
    stored = desk._store.chunks(found.ids)
    return next((at for at, one in enumerate(found.ids, 1) if item.is_met_by(stored[one])), None)


# --- trying -----------------------------------------------------------------------------------------

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
FUSIONS = ("convex", "convex, all cosines", "top-scaled", "top-scaled, all cosines", "rrf")
_FACTORS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, slots=True)
class Step:
    """A value that was taken."""

    what: str
    value: str
    reached: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        return self.what, self.value, f"{_mean(self.reached):.4f}", *(f"{one:.4f}" for one in self.reached.values())


def descend(way: Way, found: dict[str, list[Candidates]], passes: int = 2) -> tuple[Way, list[Step]]:
    """The best way found by changing one thing at a time, and the changes that helped."""
    steps = [Step("as it is", "", reach(way, found))]
    for _ in range(passes):
        for what, ways in _changes(way):
            # One fusion needs another alpha than the next: they are tried together.
            tried = [(reach(one, found), one) for one in ways(way)]
            reached, better = max(tried, key=lambda one: _mean(one[0]))
            if _mean(reached) > _mean(steps[-1].reached) + 0.0005:
                way = better
                steps.append(Step(what, _difference(what, better), reached))
    return way, steps


def _changes(way: Way) -> list[tuple[str, Any]]:
    changes: list[tuple[str, Any]] = [
        ("fusion", lambda own: [replace(own, fusion=one, alpha=alpha) for one in FUSIONS for alpha in ALPHAS]),
    ]
    for at, name in enumerate(SIGNALS + NEW):
        values = _FACTORS if at < len(SIGNALS) else (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
        changes.append((name, lambda own, at=at, values=values: [_weigh(own, at, value) for value in values]))
    changes += [
        ("alpha", lambda own: [replace(own, alpha=alpha / 20) for alpha in range(1, 17)]),
        ("reranked", lambda own: [replace(own, reranked=count) for count in (20, 30, 60, 120, 240)]),
        ("per document", lambda own: [replace(own, per_document=count) for count in (1, 2, 3, 5, 10, 1000)]),
    ]
    return changes


def _weigh(way: Way, at: int, value: float) -> Way:
    return replace(way, weights=(*way.weights[:at], value, *way.weights[at + 1 :]))


def _difference(what: str, way: Way) -> str:
    if what in SIGNALS + NEW:
        return f"{way.weights[(SIGNALS + NEW).index(what)]:g}"
    return {
        "fusion": f"{way.fusion} at {way.alpha}",
        "alpha": f"{way.alpha}",
        "reranked": f"{way.reranked}",
        "per document": f"{way.per_document}",
    }[what]


def reach(way: Way, found: dict[str, list[Candidates]]) -> dict[str, float]:
    """Mean NDCG@10 of each set."""
    return {name: sum(metrics.ndcg(rank(way, one)) for one in own) / len(own) for name, own in found.items()}


def rank(way: Way, one: Candidates) -> int | None:
    """Where the first right candidate ends up."""
    fused = fuse(way, one)
    order = np.argsort(-fused, kind="stable")
    close, rest = order[: way.reranked], order[way.reranked :]
    total = fused[close] + one.signals[close] @ np.array(way.weights)
    close = close[np.argsort(-total, kind="stable")]
    seen: dict[int, int] = {}
    first: list[int] = []
    later: list[int] = []
    for at in close:
        document = int(one.document[at])
        seen[document] = seen.get(document, 0) + 1
        (first if seen[document] <= way.per_document else later).append(int(at))
        if len(first) >= metrics.CUT:
            break
    ranking = [*first, *later, *rest][: metrics.CUT]
    return next((place for place, at in enumerate(ranking, 1) if one.right[at]), None)


def fuse(way: Way, one: Candidates) -> Floats:
    """One score for each candidate."""
    if way.fusion == "rrf":
        words, meaning = (61 / (61 + np.argsort(np.argsort(-own, kind="stable"))) for own in (one.bm25, one.cosine))
        blend: Floats = way.alpha * meaning * one.near + (1 - way.alpha) * words * (one.bm25 > 0)
        return blend
    cosine = one.cosine if "all cosines" in way.fusion else one.cosine * one.near
    if way.fusion.startswith("top-scaled"):
        cosine = cosine / (cosine.max() or 1.0)
    return way.alpha * cosine + (1 - way.alpha) * one.bm25


def _by_kind(way: Way, found: dict[str, list[Candidates]]) -> list[tuple[str, ...]]:
    every = [one for own in found.values() for one in own]
    rows = []
    for kind in sorted({one.kind for one in every}):
        own = {kind: [one for one in every if one.kind == kind]}
        reached = [f"{reach(replace(way, alpha=alpha), own)[kind]:.4f}" for alpha in ALPHAS]
        rows.append((kind, str(len(own[kind])), *reached))
    return rows


def _mean(reached: dict[str, float]) -> float:
    return sum(reached.values()) / len(reached)
