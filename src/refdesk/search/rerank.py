"""Which of the good candidates is best?  What is known of them, weighed as was learned from known answers."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from refdesk.model import StoredChunk
from refdesk.ports import WordMatching
from refdesk.search import features
from refdesk.search.understand import Understood

_FILE = Path(__file__).parent / "weights.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What was learned by training/rerank.py; shares of meaning are by the kind of query."""

    version: int
    window: Mapping[str, float]  # share of meaning in choosing the candidates that are looked at closely
    blend: Mapping[str, float]  # and in ranking these
    with_words: Mapping[str, float]  # what a feature adds to a blend in 0..1
    without_words: Mapping[str, float]  # the same where single words are not compared
    file: Mapping[str, float]  # what counts for a file besides its best passage


@cache
def weights() -> Weights:
    """The shipped ones."""
    return Weights(**json.loads(_FILE.read_text(encoding="utf-8")))


def values(
    passages: Sequence[StoredChunk],
    scores: Sequence[float],
    asked: Understood,
    text: str,
    matcher: WordMatching | None,
    wanted: Container[str] = features.NAMES,
) -> list[dict[str, float]]:
    """The features of each passage; single words are compared where there is somebody to do it."""
    found = [features.passage(one, asked, wanted) for one in passages]
    named = [features.names(one) for one in passages]
    for own, names, near in zip(found, named, features.neighbours(passages, scores), strict=True):
        own[names["neighbours"]] = near
    if matcher is not None and passages:
        met = matcher.match_words(text, features.texts(passages))
        for at, name in enumerate(features.WORDS):
            for own, names, value in zip(found, named, met[at * len(passages) :], strict=False):
                own[names[name]] = value
    return found


def weighing(*, with_words: bool) -> Mapping[str, float]:
    """What each feature that counts adds, with single words compared or without."""
    learned = weights().with_words if with_words else weights().without_words
    return {name: weight for name, weight in learned.items() if weight}


def gains(found: Sequence[Mapping[str, float]], weighed: Mapping[str, float]) -> list[dict[str, float]]:
    """What each feature adds for each passage; those that add nothing are left out."""
    return [{name: weighed[name] * value for name, value in own.items() if value and name in weighed} for own in found]
