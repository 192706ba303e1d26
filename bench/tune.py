"""Which constants serve best?  One after the other, on the tuning halves of the sets, which share no package with the
reported halves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import metrics, sets, tables
from bench.memo import remembered
from bench.sets import Asked
from refdesk.desk import Desk
from refdesk.model import Query
from refdesk.search import engine as engine_module
from refdesk.search import fuse, rerank
from refdesk.search.engine import Engine
from refdesk.store import lexical_query

_SAMPLE = 150  # queries of each set
Setting = Callable[[Any], "Undo"]
Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Constant:
    """Something to try: what it is called, its value now, values to try, and how it is set."""

    name: str
    now: Any
    values: tuple[Any, ...]
    set: Setting
    of_index: bool = False  # what the indexes answer changes with it


def constants() -> Iterator[Constant]:
    """Everything that is tried; a constant that the engine no longer has is left out."""
    yield Constant("fusion", "convex", ("convex", "convex of top-scaled", "convex of min-max", "rrf"), _set_fusion)
    alphas = getattr(engine_module, "_ALPHA", {})
    for kind in ("words", "code", "error", "symbol"):
        if kind in alphas:
            yield Constant(f"alpha of {kind}", alphas[kind], (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), _entry(alphas, kind))
    for name in ("TITLE", "PATH", "SPELT_NAME", "DEFINITION", "TEST", "EXAMPLE", "GENERATED", "OUTLINE"):
        if hasattr(rerank, name):
            now = getattr(rerank, name)
            yield Constant(name, now, _times(now, 0.0, 0.5, 1.5, 2.0, 3.0), _attribute(rerank, name))
    for name, values in {"_POOL": (60, 200), "_RERANKED": (30, 120), "_PER_DOCUMENT": (2, 5, 1000)}.items():
        if hasattr(engine_module, name):
            now = getattr(engine_module, name)
            yield Constant(name, now, values, _attribute(engine_module, name), of_index=name == "_POOL")
    boosts = lexical_query.BOOSTS
    for field, now in dict(boosts).items():
        if field != "content":
            yield Constant(
                f"boost of {field}", now, _times(now, 0.0, 0.5, 1.5, 2.5), _entry(boosts, field), of_index=True
            )


def _times(now: float, *factors: float) -> tuple[float, ...]:
    return tuple(round(now * by, 4) for by in factors)


def run(names: Sequence[str], embedder: str, cache: Path, libraries: Path | None, json: Path | None) -> None:
    """Prints what every value reaches while the others stay at the best found so far."""
    from bench.quality import indexed

    with ExitStack() as stack:
        trials = []
        for name in names:
            known = sets.known_items(name, cache)
            items = random.Random(3).sample(known.tune, min(_SAMPLE, len(known.tune)))
            trials.append(_Trial(stack.enter_context(indexed(known, embedder, libraries)), items))
        start = _reach(trials)
        best = sum(start) / len(start)
        print(f"as it is: {_shown(names, start)}", flush=True)
        kept: list[dict[str, Any]] = []
        for constant in constants():
            tried = {repr(constant.now): best}
            chosen = constant.now
            rows = []
            for value in constant.values:
                if value == constant.now:
                    continue
                reached = _try(trials, constant, value)
                mean = sum(reached) / len(reached)
                tried[repr(value)] = mean
                rows.append((str(value), f"{mean:.4f}", f"{mean - best:+.4f}", _shown(names, reached)))
                if mean > best + 0.0005 and mean >= max(tried.values()):
                    chosen = value
            print(
                tables.show(f"{constant.name}, now {constant.now}", ("value", "mean", "gain", "sets"), rows), flush=True
            )
            kept.append({"constant": constant.name, "now": constant.now, "tried": tried, "chosen": chosen})
            if chosen != constant.now:
                constant.set(chosen)
                best = tried[repr(chosen)]
                if constant.of_index:
                    for trial in trials:
                        trial.forget()
                print(f"\n→ {constant.name} = {chosen}: {best:.4f}", flush=True)
        changed = {one["constant"]: one["chosen"] for one in kept if one["chosen"] != one["now"]}
        print(f"\nchanged: {changed}\nmean NDCG@10 {sum(start) / len(start):.4f} → {best:.4f}")
        print(
            "kept in", tables.keep("tune", {"embedder": embedder, "constants": kept, "start": start, "end": best}, json)
        )


class _Trial:
    """One set's desk and tuning queries."""

    def __init__(self, desk: Desk, items: Sequence[Asked]) -> None:
        self._desk = desk
        self.items = items
        self.forget()

    def forget(self) -> None:
        self.engine = Engine(*remembered(self._desk.store, self._desk.embedder))

    def reach(self) -> float:
        from bench.quality import rank_of

        answers = ([hit.stored for hit in self.engine.search(Query(text=one.query)).hits] for one in self.items)
        found = [metrics.ndcg(rank_of(item, own)) for item, own in zip(self.items, answers, strict=True)]
        return sum(found) / len(found)


def _reach(trials: Sequence[_Trial]) -> list[float]:
    return [trial.reach() for trial in trials]


def _try(trials: Sequence[_Trial], constant: Constant, value: Any) -> list[float]:
    undo = constant.set(value)
    engines = [trial.engine for trial in trials]
    try:
        if constant.of_index:
            for trial in trials:
                trial.forget()
        return _reach(trials)
    finally:
        undo()
        for trial, engine in zip(trials, engines, strict=True):
            trial.engine = engine


def _shown(names: Sequence[str], reached: Sequence[float]) -> str:
    return " ".join(f"{name} {value:.4f}" for name, value in zip(names, reached, strict=True))


def _attribute(module: Any, name: str) -> Setting:
    def change(value: Any) -> Undo:
        before = getattr(module, name)
        setattr(module, name, value)
        return lambda: setattr(module, name, before)

    return change


def _entry(table: dict[str, float], key: str) -> Setting:
    def change(value: Any) -> Undo:
        before = table[key]
        table[key] = value
        return lambda: table.__setitem__(key, before)

    return change


# --- other ways to fuse ---------------------------------------------------------------------------


def _set_fusion(value: Any) -> Undo:
    before = fuse.convex
    fuse.convex = _FUSIONS[value]
    return lambda: setattr(fuse, "convex", before)


def _top_scaled(alpha: float, lexical: Mapping[int, float], cosine: Mapping[int, float]) -> dict[int, float]:
    return _blend(alpha, fuse.normalise_bm25(lexical), fuse.normalise_bm25(cosine))


def _min_max(alpha: float, lexical: Mapping[int, float], cosine: Mapping[int, float]) -> dict[int, float]:
    low, high = min(cosine.values()), max(cosine.values())
    spread = (high - low) or 1.0
    return _blend(alpha, fuse.normalise_bm25(lexical), {one: (own - low) / spread for one, own in cosine.items()})


def _rrf(alpha: float, lexical: Mapping[int, float], cosine: Mapping[int, float]) -> dict[int, float]:
    words, meaning = ({one: 61 / (61 + at) for at, one in enumerate(fuse.order(own))} for own in (lexical, cosine))
    return _blend(alpha, words, meaning)


def _blend(alpha: float, words: Mapping[int, float], meaning: Mapping[int, float]) -> dict[int, float]:
    return {
        one: alpha * meaning.get(one, 0.0) + (1 - alpha) * words.get(one, 0.0) for one in words.keys() | meaning.keys()
    }


_FUSIONS = {
    "convex": fuse.convex,
    "convex of top-scaled": _top_scaled,
    "convex of min-max": _min_max,
    "rrf": _rrf,
}


@contextmanager
def settings_of(chosen: Mapping[str, Any]) -> Iterator[None]:
    """The engine with other constants, put back at the end."""
    known = {one.name: one for one in constants()}
    undo = [known[name].set(value) for name, value in chosen.items()]
    try:
        yield
    finally:
        for one in reversed(undo):
            one()
