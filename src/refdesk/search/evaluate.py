"""Evaluation: queries with known answers in, NDCG, MRR and hit rates out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from refdesk.errors import InvalidInput
from refdesk.model import Filters, Hit, Query

_DEPTH = 5
_CASE_KEYS = frozenset({"query", "expect", "filters", "note"})
_SUITE_KEYS = frozenset({"name", "collection", "collections", "settings", "cases"})
_SETTING_KEYS = frozenset({"alpha", "fusion"})

Search = Callable[[Query], Sequence[Hit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query and the chunk ids or file paths that answer it, best first."""

    query: str
    expect: tuple[str, ...]
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases over some collections, and the settings to compare."""

    name: str
    cases: tuple[Case, ...]
    collections: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"default": {}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one case."""

    case: Case
    found: tuple[str, ...]
    ndcg: float
    reciprocal_rank: float
    facet_precision: float | None  # None where the case has no filters
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The result of a suite under one setting."""

    setting: str
    ndcg: float
    mrr: float
    hit_rate: float
    facet_precision: float | None
    p50_ms: float
    p95_ms: float
    outcomes: tuple[Outcome, ...]


def read_suite(given: Any) -> Suite:
    """A suite from its YAML, or InvalidInput naming the field that can't be used."""
    if not isinstance(given, dict) or not isinstance(given.get("cases"), list) or not given["cases"]:
        raise InvalidInput("A suite is a map with a list `cases`.", "See docs/evaluation.md.")
    _refuse_unknown(given, _SUITE_KEYS, "the suite")
    collections = given.get("collections", [given["collection"]] if "collection" in given else [])
    settings = given.get("settings") or {"default": {}}
    for name, setting in settings.items():
        _refuse_unknown(setting or {}, _SETTING_KEYS, f"settings.{name}")
    return Suite(
        name=str(given.get("name", "suite")),
        cases=tuple(_case(one, number) for number, one in enumerate(given["cases"], 1)),
        collections=tuple(map(str, collections)),
        settings={str(name): dict(setting or {}) for name, setting in settings.items()},
    )


def hit_name(hit: Hit) -> str:
    """How a case names a hit: its path, with its section."""
    key = hit.stored.chunk.key
    return f"{hit.stored.document.path}#{key}" if key else hit.stored.document.path


def run(suite: Suite, search: Search) -> list[Score]:
    """The suite's score under each of its settings."""
    return [_score(name, setting, suite, search) for name, setting in suite.settings.items()]


def _score(name: str, setting: Mapping[str, Any], suite: Suite, search: Search) -> Score:
    outcomes = []
    for case in suite.cases:
        query = Query(
            text=case.query,
            filters=Filters(
                collections=suite.collections,
                metadata=tuple((key, (value,)) for key, value in case.filters.items()),
            ),
            limit=_DEPTH,
        )
        outcomes.append(_outcome(case, replace(query, **setting), search))
    times = sorted(one.milliseconds for one in outcomes)
    precisions = [one.facet_precision for one in outcomes if one.facet_precision is not None]
    return Score(
        setting=name,
        ndcg=mean(one.ndcg for one in outcomes),
        mrr=mean(one.reciprocal_rank for one in outcomes),
        hit_rate=mean(float(one.reciprocal_rank > 0) for one in outcomes),
        facet_precision=mean(precisions) if precisions else None,
        p50_ms=_percentile(times, 0.50),
        p95_ms=_percentile(times, 0.95),
        outcomes=tuple(outcomes),
    )


def _outcome(case: Case, query: Query, search: Search) -> Outcome:
    started = time.perf_counter()
    hits = search(query)[:_DEPTH]
    elapsed = (time.perf_counter() - started) * 1000
    found = tuple(map(hit_name, hits))
    gains = _gains(found, case.expect)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(case.expect), _DEPTH) + 1))
    first = next((rank for rank, gain in enumerate(gains, 1) if gain), 0)
    kept = [_has(hit, case.filters) for hit in hits]
    return Outcome(
        case=case,
        found=found,
        ndcg=sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1)) / ideal,
        reciprocal_rank=1 / first if first else 0.0,
        facet_precision=(sum(kept) / len(kept) if kept else 0.0) if case.filters else None,
        milliseconds=elapsed,
    )


def _gains(found: Sequence[str], expect: Sequence[str]) -> list[int]:
    """1 for a hit that answers something no earlier hit did, else 0; any chunk of a file answers its path."""
    open_answers = list(expect)
    gains = []
    for name in found:
        match = next((one for one in open_answers if name == one or name.partition("#")[0] == one), None)
        gains.append(int(match is not None))
        if match is not None:
            open_answers.remove(match)
    return gains


def _has(hit: Hit, filters: Mapping[str, str]) -> bool:
    metadata = {**hit.stored.document.metadata, **hit.stored.chunk.metadata}
    return all(str(metadata.get(key)) == value for key, value in filters.items())


def _case(given: Any, number: int) -> Case:
    if not isinstance(given, dict) or not given.get("query") or not given.get("expect"):
        raise InvalidInput(f"Case {number} needs `query` and `expect`.", "See docs/evaluation.md.")
    _refuse_unknown(given, _CASE_KEYS, f"case {number}")
    expect = [given["expect"]] if isinstance(given["expect"], str) else given["expect"]
    return Case(
        query=str(given["query"]),
        expect=tuple(map(str, expect)),
        filters={str(key): str(value) for key, value in (given.get("filters") or {}).items()},
    )


def _refuse_unknown(given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    if unknown := sorted(set(given) - known):
        raise InvalidInput(f"Unknown key in {where}: {', '.join(unknown)}.", f"Known: {', '.join(sorted(known))}.")


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
