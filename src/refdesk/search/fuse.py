"""How are two rankings made one?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refdesk.model import Scored

_RRF_K = 60


def reciprocal_rank(rankings: Sequence[tuple[float, Sequence[Scored]]]) -> dict[int, float]:
    """Weighted reciprocal rank fusion, scaled so that first place everywhere is 1."""
    total = sum(weight for weight, _ in rankings) or 1.0
    fused: dict[int, float] = {}
    for weight, ranking in rankings:
        for rank, scored in enumerate(ranking):
            gain = weight / total * (_RRF_K + 1) / (_RRF_K + 1 + rank)
            fused[scored.chunk_id] = fused.get(scored.chunk_id, 0.0) + gain
    return fused


def convex(
    alpha: float, lexical: Mapping[int, float], cosine: Mapping[int, float], of: Iterable[int] | None = None
) -> dict[int, float]:
    """alpha of the semantic score and the rest of the keyword score, each normalised to 0..1; of these or of all."""
    top = max(lexical.values(), default=0.0)
    top = top if top > 0 else 1.0
    by_word, by_meaning = lexical.get, cosine.get
    return {
        chunk_id: (alpha * min(1.0, near) if (near := by_meaning(chunk_id, 0.0)) > 0 else 0.0)
        + (1 - alpha) * (by_word(chunk_id, 0.0) / top)
        for chunk_id in (lexical.keys() | cosine.keys() if of is None else of)
    }


def normalise_bm25(scores: Mapping[int, float]) -> dict[int, float]:
    """Shares of the best score."""
    top = max(scores.values(), default=0.0)
    return {chunk_id: score / top for chunk_id, score in scores.items()} if top > 0 else {}


def normalise_cosine(scores: Mapping[int, float]) -> dict[int, float]:
    """Cosines with the negative ones at 0; they are in 0..1 already and comparable between queries."""
    return {chunk_id: min(1.0, max(0.0, score)) for chunk_id, score in scores.items()}


def order(scores: Mapping[int, float]) -> list[int]:
    """Chunk ids, best first; ties by id, so that the order is always the same."""
    return [chunk_id for _, chunk_id in sorted([(-score, chunk_id) for chunk_id, score in scores.items()])]
