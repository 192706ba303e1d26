"""The probabilities that there is an answer and that each hit is right, by learned weights (training/confidence.py)."""

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
LOOKED_AT = 5  # best hits that count
_MANY = 100_000  # passages to which frequencies are scaled, so that small collections are judged alike
FEW = 10  # passages of a library whose words tell too little; of good questions about 20 passages none is hidden anyway
_DOUBT = 0.5  # share of unknown words from which a query is gibberish
NAMES = ("similarity", "covered", "sense", "usual", "least usual", "words", "heading")
OF_HITS = ("score", "behind", "rank", "sure", "lead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The weights and limits that training/confidence.py learned."""

    version: int
    weights: Mapping[str, float]
    bias: float
    hidden: float  # below it, nothing relevant was found
    weak: float  # below it, the match is weak
    hits: Mapping[str, Mapping[str, float]]  # the weights of a hit's features, by the kind of query


@cache
def judgement() -> Judgement:
    """The shipped weights and limits."""
    return Judgement(**json.loads(_FILE.read_text(encoding="utf-8")))


def is_judged(asked: Understood) -> bool:
    """Whether confidence can be judged: a phrase or a path either occurs or does not."""
    return not asked.quoted and asked.kind != "path"


def confidence(evidence: Mapping[str, float]) -> float:
    """The probability that something relevant was found; a page with a hit that has all terms is never hidden."""
    learned = judgement()
    sure = _probability(learned.bias + sum(learned.weights[name] * value for name, value in evidence.items()))
    return max(sure, learned.hidden) if evidence["covered"] >= 1.0 else sure


def of_words(asked: Understood, frequency: Mapping[str, int], sense: float) -> float | None:
    """The confidence that follows from the query's words alone; None if the hits must decide.

    A single word or name that occurs is answered. One that does not occur has at best something similar, and unknown
    words have no answer.
    """
    if sense <= 1 - _DOUBT and not any(frequency.values()):
        return 0.0
    last = asked.names[-1:] if asked.kind == "symbol" else asked.terms
    if asked.kind in ("code", "error") or len(last) != 1:
        return None
    known = frequency.get(last[0], 0) or frequency.get(analyse.terms(last[0])[0], 0)
    return 1.0 if known else judgement().hidden


def sense(asked: Understood, frequency: Mapping[str, int], knows: Callable[[str], bool]) -> float:
    """The share of the query's words that occur in a passage or that the model knows."""
    made = [frequency.get(word, 0) or frequency.get(analyse.terms(word)[0], 0) or knows(word) for word in asked.words]
    return sum(map(bool, made)) / len(made) if made else 0.0


def covered(best: Sequence[StoredChunk], terms: Sequence[str], frequency: Mapping[str, int], passages: int) -> float:
    """The largest share of the query's terms, weighted by rarity, that one of the best hits has."""
    rare = rarity(terms, frequency, passages)
    total = sum(rare.values()) or 1.0
    most = 0.0
    for one in best[:LOOKED_AT]:
        text = _analysed(one)
        held = [term for term in rare if f" {term} " in text]
        if len(held) == len(rare):
            return 1.0
        most = max(most, sum(rare[term] for term in held))
    return most / total


def names(stored: StoredChunk, asked: Understood) -> bool:
    """Whether the query says all of the page's title, or of the passage's heading."""
    titles = (set(analyse.terms(title)) for title in (stored.document.title, *stored.chunk.breadcrumb[-1:]))
    return any(title and title <= set(asked.terms) for title in titles)


def rarity(terms: Sequence[str], frequency: Mapping[str, int], passages: int) -> dict[str, float]:
    """How much each term tells: the more, the fewer passages have it."""
    share = _MANY / max(1, passages)
    return {term: math.log(1 + _MANY / (frequency.get(term, 0) * share + 0.5)) for term in terms}


def usual(terms: Sequence[str], frequency: Mapping[str, int], passages: int) -> dict[str, float]:
    """How frequent the query's terms are in what is searched: all of them, and the rarer half."""
    each = sorted(math.log1p(frequency.get(term, 0) * _MANY / max(1, passages)) / 10 for term in terms)
    least = each[: max(1, len(each) // 2)]
    return {"usual": _mean(each), "least usual": _mean(least)}


def of_hits(scores: Sequence[float], way: str, sure: float | None) -> list[float]:
    """The probability that each hit, best first, is right; never higher than that of the one before.

    `way` is the kind of query, "files" if the hits of a question are files, "name" if the first hit defines the symbol
    asked for, or "keywords" without vectors.
    """
    learned = judgement().hits[hits_way(way, sure)]
    certain, found = 1.0, []
    for rank in range(len(scores)):
        evidence = hit_evidence(scores, rank, sure)
        total = learned["bias"] + sum(learned.get(name, 0.0) * value for name, value in evidence.items())
        certain = min(certain, _probability(total))
        found.append(round(certain, 6))
    return found


def hits_way(way: str, sure: float | None) -> str:
    """The set of learned weights for a page: keywords, files, names, words, or text of unknown confidence."""
    if way in ("name", "path"):
        return "names"
    return way if way in ("keywords", "files") or (way == "words" and sure is not None) else "text"


def hit_evidence(scores: Sequence[float], rank: int, sure: float | None) -> dict[str, float]:
    """The features of a hit: score, distance to the first, rank, the page's confidence, the first one's lead."""
    return {
        "score": scores[rank],
        "behind": scores[0] - scores[rank],
        "rank": math.log1p(rank),
        "sure": 0.0 if sure is None else sure,
        "lead": scores[0] - scores[1] if rank == 0 and len(scores) > 1 else 0.0,
    }


def _probability(total: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _analysed(stored: StoredChunk) -> str:
    """All terms of the passage, separated and surrounded by blanks."""
    chunk = stored.chunk
    return f" {analyse.joined(' '.join((*chunk.breadcrumb, chunk.title, *chunk.symbols, chunk.text)))} "
