"""Which results say nearly the same?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from refdesk.model import Hit

_WORD = re.compile(r"\w+")
_RUN = 3  # words that are compared together
_ALIKE = 0.8  # the share of common runs from which two texts are one result
_FEW = 8  # words, under which each one counts


def without_near_duplicates(hits: Sequence[Hit], query: str, most: int) -> tuple[list[Hit], int]:
    """At most so many of the hits, without those that a better one stands for, and how many those are.

    Texts that differ in a word of the query are two results, however alike.
    """
    asked = frozenset(_words(query))
    kept: list[tuple[Hit, frozenset[str], frozenset[tuple[str, ...]]]] = []
    passed = 0
    for hit in hits:
        if len(kept) == most:
            break
        passed += 1
        words = _words(hit.stored.chunk.text)
        met, runs = asked.intersection(words), _runs(words)
        if not any(met == other and _alike(runs, known) for _, other, known in kept):
            kept.append((hit, met, runs))
    return [hit for hit, _, _ in kept], passed - len(kept)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    if len(words) < _FEW:
        return frozenset([tuple(words)])
    return frozenset(zip(*(words[start:] for start in range(_RUN)), strict=False))


def _alike(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> bool:
    if min(len(one), len(other)) < _ALIKE * max(len(one), len(other)):
        return False
    return len(one & other) >= _ALIKE * len(one | other)
