"""Is there an answer, and how sure is each hit?  Weighed as was learned from known answers and foreign questions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from refdesk.model import StoredChunk
from refdesk.search.understand import Understood
from refdesk.text import analyse

_FILE = Path(__file__).parent / "confidence.json"
LOOKED_AT = 5  # of the best hits
_MANY = 100_000  # terms count as if what is searched were this large, so that small collections are judged alike
_DOUBT = 0.5  # share of a query's words that neither the model nor a passage knows, from which it is gibberish
NAMES = ("similarity", "covered", "sense", "usual", "least usual", "words", "heading")
OF_HITS = ("score", "behind", "rank", "sure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was learned by training/confidence.py."""

    version: int
    weights: Mapping[str, float]
    bias: float
    hidden: float  # under it nothing relevant was found
    weak: float  # and under this it is not certain that something was
    hits: Mapping[str, Mapping[str, float]]  # what makes a hit the right one, by the kind of query


@cache
def judgement() -> Judgement:
    """The shipped one."""
    return Judgement(**json.loads(_FILE.read_text(encoding="utf-8")))


def is_judged(asked: Understood) -> bool:
    """A phrase is there or it is not, and so is a path."""
    return not asked.quoted and asked.kind != "path"


def confidence(evidence: Mapping[str, float]) -> float:
    """How sure it is that something relevant was found, from 0 to 1; one with all of the words is never hidden."""
    learned = judgement()
    sure = _probability(learned.bias + sum(learned.weights[name] * value for name, value in evidence.items()))
    return max(sure, learned.hidden) if evidence["covered"] >= 1.0 else sure


def of_words(asked: Understood, frequency: Mapping[str, int], knows: Callable[[str], bool]) -> float | None:
    """How sure the query's words alone make it; None where that is for what was found to tell.

    A single word or a name that a passage has is answered by it.  One that none has is at best answered by something
    like it, and words that nobody knows by nothing.
    """
    if sense(asked, frequency, knows) <= 1 - _DOUBT and not any(frequency.values()):
        return 0.0
    last = asked.names[-1:] if asked.kind == "symbol" else asked.terms
    if asked.kind in ("code", "error") or len(last) != 1:
        return None
    known = frequency.get(last[0], 0) or frequency.get(analyse.terms(last[0])[0], 0)
    return 1.0 if known else judgement().hidden


def sense(asked: Understood, frequency: Mapping[str, int], knows: Callable[[str], bool]) -> float:
    """The share of the query's words that a passage has or the model knows."""
    made = [frequency.get(word, 0) or frequency.get(analyse.terms(word)[0], 0) or knows(word) for word in asked.words]
    return sum(map(bool, made)) / len(made) if made else 0.0


def covered(best: Sequence[StoredChunk], terms: Sequence[str], frequency: Mapping[str, int], passages: int) -> float:
    """How much of the query, by how telling its terms are, one of the best hits holds."""
    share = _MANY / max(1, passages)
    telling = {term: math.log(1 + _MANY / (frequency.get(term, 0) * share + 0.5)) for term in terms}
    total = sum(telling.values()) or 1.0
    most = 0.0
    for one in best[:LOOKED_AT]:
        text = _analysed(one)
        held = [term for term in telling if f" {term} " in text]
        if len(held) == len(telling):
            return 1.0
        most = max(most, sum(telling[term] for term in held))
    return most / total


def usual(terms: Sequence[str], frequency: Mapping[str, int], passages: int) -> dict[str, float]:
    """How usual the query's terms are in what is searched, and the less usual half of them: is it what it is about?"""
    each = sorted(math.log1p(frequency.get(term, 0) * _MANY / max(1, passages)) / 10 for term in terms)
    least = each[: max(1, len(each) // 2)]
    return {"usual": _mean(each), "least usual": _mean(least)}


def of_hits(scores: Sequence[float], way: str, sure: float | None) -> list[float]:
    """How sure it is that each hit, best first, is the right one; never more than of the one before it.

    The way is the kind of query, name where the first hit defines what is asked for, or keywords where nothing else was
    compared.
    """
    learned = judgement().hits[hits_way(way, sure)]
    certain, found = 1.0, []
    for rank, score in enumerate(scores):
        evidence = hit_evidence(scores[0], score, rank, sure)
        total = learned["bias"] + sum(learned.get(name, 0.0) * value for name, value in evidence.items())
        certain = min(certain, _probability(total))
        found.append(round(certain, 6))
    return found


def hits_way(way: str, sure: float | None) -> str:
    """Which of the learned ways a page is judged by: keywords, names, words, or words of unknown confidence."""
    if way in ("name", "path"):
        return "names"
    return way if way == "keywords" or (way == "words" and sure is not None) else "text"


def hit_evidence(best: float, score: float, rank: int, sure: float | None) -> dict[str, float]:
    """What makes a hit the right one: its score, how far behind the first it is, its rank, that there is an answer."""
    return {"score": score, "behind": best - score, "rank": math.log1p(rank), "sure": 0.0 if sure is None else sure}


def _probability(total: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _analysed(stored: StoredChunk) -> str:
    """All terms of the passage, each between blanks."""
    chunk = stored.chunk
    return f" {analyse.joined(' '.join((*chunk.breadcrumb, chunk.title, *chunk.symbols, chunk.text)))} "
