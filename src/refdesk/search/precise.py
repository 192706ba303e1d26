"""In which order, once a slower reader has judged the best hits?"""

from __future__ import annotations

import math
from collections.abc import Sequence

DEPTH = 20  # hits that are judged; the same for every page, so that pages fit together
_SHARE = 0.7  # of the judgement; chosen on the tuning halves of the quality sets, `docs/model.md`


def order(scores: Sequence[float], judged: Sequence[float]) -> list[int]:
    """The places of the hits, best first, by both numbers, each on the scale of its own spread."""
    both = [
        _SHARE * judgement + (1 - _SHARE) * score
        for score, judgement in zip(_level(scores), _level(judged), strict=True)
    ]
    return sorted(range(len(both)), key=lambda place: (-both[place], place))


def _level(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / len(values))
    return [(one - mean) / spread if spread > 1e-9 else 0.0 for one in values]
