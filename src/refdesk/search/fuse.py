"""How are two rankings made one?  Columns of scores, an entry for each candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_RRF_K = 60
NONE = -2.0  # below every cosine: of what has no vector


def reciprocal_rank(count: int, rankings: Sequence[tuple[float, Sequence[int]]]) -> list[float]:
    """Weighted reciprocal rank fusion of so many candidates, scaled so that first place everywhere is 1."""
    total = sum(weight for weight, _ in rankings) or 1.0
    fused = [0.0] * count
    for weight, ranking in rankings:
        for rank, at in enumerate(ranking):
            fused[at] += weight / total * (_RRF_K + 1) / (_RRF_K + 1 + rank)
    return fused


def convex(
    alpha: float, words: Sequence[float], cosines: Sequence[float], of: Iterable[int] | None = None
) -> list[float]:
    """alpha of the semantic score and the rest of the keyword score, each normalised to 0..1; of these or of all."""
    top = max(words, default=0.0) or 1.0
    rest = 1 - alpha
    both = zip(words, cosines, strict=True) if of is None else [(words[at], cosines[at]) for at in of]
    return [(alpha * (near if near < 1.0 else 1.0) if near > 0.0 else 0.0) + rest * (word / top) for word, near in both]


def order(scores: Sequence[float], ids: Sequence[int]) -> list[int]:
    """The candidates, best first; ties by id, so that the order is always the same."""
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    return sorted(by_id, key=scores.__getitem__, reverse=True)
