"""How well is a query's list of candidates ranked?  As the engine arranges it, in NDCG@10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

KINDS = ("symbol", "path", "error", "code", "words")
RERANKED = 40
_PER_DOCUMENT = 5
_CUT = 10


@dataclass(slots=True)
class Found:
    """A query's candidates, one row each."""

    query: str
    kind: str
    package: str
    set: str
    bm25: np.ndarray  # share of the best
    cosine: np.ndarray
    values: np.ndarray  # one column for each of features.NAMES but neighbours
    right: np.ndarray
    document: np.ndarray
    passage: np.ndarray  # the same number for parts of one
    pool_right: bool  # whether any of the whole pool is right


def group_of(one: Found) -> str:
    """Under which name a query is reported: its set, or its kind in the library of whole packages."""
    if one.set != "whole":
        return one.set.removeprefix("tune-")
    return "questions" if one.kind == "words" else f"{one.kind} queries"


def judged(found: Sequence[Found], scores: Sequence[np.ndarray]) -> dict[str, float]:
    """Mean NDCG@10 of each group, and of all groups."""
    reached: dict[str, list[float]] = {}
    for one, own in zip(found, scores, strict=True):
        reached.setdefault(group_of(one), []).append(ndcg(one, own))
    means = {group: float(np.mean(own)) for group, own in sorted(reached.items())}
    return {**means, "mean": float(np.mean(list(means.values())))}


def ndcg(one: Found, scores: np.ndarray) -> float:
    """Of the first right candidate, once parts of one passage and long runs of one document were put aside."""
    first: list[int] = []
    later: list[int] = []
    passages: set[int] = set()
    documents: dict[int, int] = {}
    for at in np.argsort(-scores, kind="stable").tolist():
        if one.passage[at] in passages:
            continue
        passages.add(one.passage[at])
        document = one.document[at]
        documents[document] = documents.get(document, 0) + 1
        (first if documents[document] <= _PER_DOCUMENT else later).append(at)
    places = [place for place, at in enumerate([*first, *later][:_CUT], 1) if one.right[at]]
    return 1 / math.log2(places[0] + 1) if places else 0.0


def neighbours(one: Found, share: float) -> np.ndarray:
    """For each candidate the best blend of another one of its document."""
    blend = share * one.cosine + (1 - share) * one.bm25
    best = np.zeros(len(blend))
    for document in np.unique(one.document):
        at = np.flatnonzero(one.document == document)
        if len(at) > 1:
            first, second = np.sort(blend[at])[::-1][:2]
            best[at] = np.where(blend[at] < first, first, second)
    return np.maximum(best, 0.0)
