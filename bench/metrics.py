"""How good is a ranking?  Known-item measures with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CUT = 10
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.mean)} [{_short(self.low)}, {_short(self.high)}]"


def ndcg(rank: int | None, cut: int = CUT) -> float:
    """NDCG of a query with one right answer at this 1-based rank, or nowhere."""
    return 1.0 / math.log2(1 + rank) if rank is not None and rank <= cut else 0.0


def reciprocal_rank(rank: int | None, cut: int = CUT) -> float:
    return 1.0 / rank if rank is not None and rank <= cut else 0.0


def recall(rank: int | None, cut: int = CUT) -> float:
    return float(rank is not None and rank <= cut)


def estimate(values: Sequence[float], seed: int = 0) -> Estimate:
    """The mean and its percentile bootstrap interval, the same every time."""
    if not values:
        return Estimate(0.0, 0.0, 0.0)
    sample = np.asarray(values, dtype=np.float64)
    means = _resampled_means(sample, seed)
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(float(sample.mean()), float(low), float(high))


def difference(better: Sequence[float], worse: Sequence[float], seed: int = 0) -> Estimate:
    """The mean paired difference and its interval: the queries are the same on both sides."""
    pairs = np.asarray(better, dtype=np.float64) - np.asarray(worse, dtype=np.float64)
    return estimate(pairs.tolist(), seed)


def percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(np.asarray(values, dtype=np.float64), share)) if values else 0.0


def _resampled_means(sample: np.ndarray, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    means = np.empty(_RESAMPLES)
    for start in range(0, _RESAMPLES, 100):
        picks = generator.integers(0, len(sample), size=(100, len(sample)))
        means[start : start + 100] = sample[picks].mean(axis=1)
    return means


def _short(value: float) -> str:
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
