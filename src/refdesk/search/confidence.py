"""Is there an answer at all?  What speaks for it, weighed into one number, as was learned from foreign questions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from refdesk import analyse
from refdesk.model import StoredChunk
from refdesk.search.understand import Understood

_FILE = Path(__file__).parent / "confidence.json"
LOOKED_AT = 5  # of the best hits
_MANY = 100_000  # terms count as if the library were this large, so that small ones are judged alike
COMPARED = 50  # of the nearest passages; where there are fewer, nothing is judged
NAMES = ("similarity", "contrast", "covered", "usual", "least usual", "words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was learned by training/confidence.py."""

    version: int
    weights: Mapping[str, float]
    bias: float
    floor: float  # under it nothing relevant was found


@cache
def judgement() -> Judgement:
    """The shipped one."""
    return Judgement(**json.loads(_FILE.read_text(encoding="utf-8")))


def is_judged(asked: Understood) -> bool:
    """Only questions in words are: what a name, a path or a phrase means is there or it is not."""
    return asked.kind == "words" and not asked.quoted


def confidence(evidence: Mapping[str, float]) -> float:
    """How sure it is that something relevant was found, from 0 to 1."""
    learned = judgement()
    total = learned.bias + sum(learned.weights[name] * value for name, value in evidence.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def nearness(nearest: Sequence[float]) -> dict[str, float]:
    """How near the nearest passage is, and how much nearer than the others that are near."""
    if not nearest:
        return {"similarity": 0.0, "contrast": 0.0}
    return {"similarity": nearest[0], "contrast": nearest[0] - sum(nearest) / len(nearest)}


def covered(best: Sequence[StoredChunk], terms: Sequence[str], frequency: Mapping[str, int]) -> dict[str, float]:
    """How much of the query, by how telling its terms are, one of the best hits holds."""
    telling = {term: math.log(1 + _MANY / (frequency.get(term, 0) + 0.5)) for term in terms}
    total = sum(telling.values()) or 1.0
    most = 0.0
    for one in best[:LOOKED_AT]:
        text = _analysed(one)
        held = [term for term in telling if f" {term} " in text]
        if len(held) == len(telling):
            return {"covered": 1.0}
        most = max(most, sum(telling[term] for term in held))
    return {"covered": most / total}


def usual(terms: Sequence[str], frequency: Mapping[str, int], passages: int) -> dict[str, float]:
    """How usual the query's terms are in the library, and the less usual half of them: is it what it is about?"""
    each = sorted(math.log1p(frequency.get(term, 0) * _MANY / max(1, passages)) / 10 for term in terms)
    least = each[: max(1, len(each) // 2)]
    return {"usual": _mean(each), "least usual": _mean(least)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _analysed(stored: StoredChunk) -> str:
    """All terms of the passage, each between blanks."""
    chunk = stored.chunk
    return f" {analyse.joined(' '.join((*chunk.breadcrumb, chunk.title, *chunk.symbols, chunk.text)))} "
