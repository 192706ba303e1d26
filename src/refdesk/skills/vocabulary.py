"""Which words of support conversations carry meaning, which are synonyms, and how much does each weigh?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

from refdesk.text import analyse


def words(text: str) -> frozenset[str]:
    """The set of words in a text."""
    return frozenset(text.split())


# The stop words of any text, and what customers and agents say about anything.
STOP_TERMS = analyse.STOP_TERMS | frozenset(
    analyse.terms(
        """about above after again against all also am any aren because been before being below between both cannot
        could couldn d didn doesn doing don down during each few further get gets getting got hadn hasn haven having
        he her here hers him his isn just ll m more most myself nor now off once only other ours out over own re s
        same she shouldn some t than theirs them those through too under until up us ve very wasn weren while whom
        won wouldn yours yourself im ive dont doesnt didnt cant wont isnt one ones even still yet ever never thing
        things something anything nothing everything please thanks thank hi hello hey help sorry sure ok okay yes
        want need trying try tried know think like really actually today yesterday day days week weeks month months
        time times great perfect good nice fine awesome done right many much every already back let see sees seen
        say says said tell tells told ask asks asked look looks come came go goes went gone make made take took give
        gave put keep keeps since last next new old first second bit lot soon always anymore though although instead
        itself himself possible probably maybe morning evening night noon tonight tomorrow year years hour hours
        minute minutes two three four five six seven eight nine ten able unable else somebody nobody someone
        everybody customer customers reports report agent support issue issues problem problems use uses used using
        show shows shown work works worked working happen happens happened"""
    )
)


def content_terms(text: str) -> list[str]:
    """The terms of a text that carry meaning, in order."""
    return [term for term in analyse.terms(text) if term not in STOP_TERMS]


@cache
def background() -> tuple[str, ...]:
    """Questions of customers about all kinds of things: the crowd that evidence must stand out from."""
    text = resources.files("refdesk.skills").joinpath("background.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


@cache
def _thesaurus() -> tuple[Mapping[str, str], Mapping[tuple[str, ...], str]]:
    """The meaning of each term, and of each phrase, that has synonyms."""
    text = resources.files("refdesk.skills").joinpath("thesaurus.txt").read_text(encoding="utf-8")
    single: dict[str, str] = {}
    phrases: dict[tuple[str, ...], str] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        entries = [tuple(analyse.terms(entry)) for entry in line.split(",")]
        meaning = "=" + entries[0][0]
        for entry in entries:
            if len(entry) == 1:
                single.setdefault(entry[0], meaning)
            else:
                phrases.setdefault(entry, meaning)
    return single, phrases


def meanings(text: str) -> set[str]:
    """The content terms of a text, synonyms replaced by their common meaning."""
    single, phrases = _thesaurus()
    terms = analyse.terms(text)
    found = set()
    place = 0
    while place < len(terms):
        size = next((n for n in (3, 2) if tuple(terms[place : place + n]) in phrases), 1)
        term = terms[place]
        if size > 1:
            found.add(phrases[tuple(terms[place : place + size])])
        elif term in single or term not in STOP_TERMS:
            found.add(single.get(term, term))
        place += size
    return found


@cache
def _frequencies() -> Mapping[str, int]:
    return Counter(meaning for text in background() for meaning in meanings(text) | set(content_terms(text)))


def weight(meaning: str) -> float:
    """The weight of a term or meaning: low if customers write it about anything."""
    return math.log1p(len(background()) / (1 + _frequencies().get(meaning, 0)))


def total_weight(said: Iterable[str]) -> float:
    """The sum of the weights of distinct terms or meanings."""
    return sum(weight(each) for each in set(said))
