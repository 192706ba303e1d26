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
_MANY = 100_000  # a term counts as if the library were this large, so that small ones are judged alike
_FIRST = 10
COMPARED = 50  # of the nearest passages; where there are fewer, nothing is judged
NAMES = ("similarity", "contrast", "covered", "rarest", "known", "words", "agreement")


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


def weigh(best: Sequence[StoredChunk], terms: Sequence[str], frequency: Mapping[str, int]) -> dict[str, float]:
    """How much of the query, by how telling its terms are, one of the best hits holds, and the library at all."""
    telling = {term: math.log(1 + _MANY / (frequency.get(term, 0) + 0.5)) for term in terms}
    total = sum(telling.values()) or 1.0
    held = [telling.keys() & _terms_of(one) for one in best[:LOOKED_AT]]
    rarest = max(telling, key=lambda term: telling[term], default="")
    return {
        "covered": max((sum(telling[term] for term in own) / total for own in held), default=0.0),
        "rarest": float(any(rarest in own for own in held)),
        "known": sum(weight for term, weight in telling.items() if frequency.get(term)) / total,
    }


def agreement(lexical: Sequence[int], nearest: Sequence[int]) -> float:
    """The share of the first by meaning that are among the first by words."""
    first = nearest[:_FIRST]
    return len(set(lexical[:_FIRST]).intersection(first)) / len(first) if first else 0.0


def _terms_of(stored: StoredChunk) -> frozenset[str]:
    chunk = stored.chunk
    return frozenset(analyse.terms(" ".join((*chunk.breadcrumb, chunk.title, *chunk.symbols, chunk.text))))
