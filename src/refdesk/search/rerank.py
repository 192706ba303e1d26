"""Which of the good candidates is best?  Signals that neither index sees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from refdesk import analyse
from refdesk.model import StoredChunk
from refdesk.search.understand import Understood

_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec|specs|fixtures|testdata|mocks?)(?:/|$)|(?:^|/)(?:test_[^/]*|conftest\.py$)|[._-](?:test|spec)s?\.[^/]+$|Tests?\.\w+$"
)
_GENERATED_PATH = re.compile(
    r"(?:^|/)(?:generated|gen|dist|build|vendor|third_party)(?:/|$)|[._]pb2?\.|\.g\.\w+$|_generated\."
)
_EXAMPLE_PATH = re.compile(r"(?:^|/)(?:examples?|samples?|demos?|bench(?:marks?)?)(?:/|$)")

# What each signal adds to a fused score in 0..1, or takes from it.
DEFINITION = 0.50  # the query names a symbol and this passage defines it
SPELT_NAME = 0.12  # the query's words, joined, are a symbol defined here
TITLE = 0.15  # share of the query's terms in heading, symbol and breadcrumb
PATH = 0.08  # share of the query's terms in the file's path
FILE = 0.50  # the query is a path and this is the file
PHRASE = 0.20  # what stood in quotes stands here
TEST = -0.14
GENERATED = -0.10
EXAMPLE = -0.03
OUTLINE = -0.02  # the members themselves say more


def signals(stored: StoredChunk, asked: Understood) -> dict[str, float]:
    """What each signal adds for this passage; signals that say nothing are left out."""
    chunk, path = stored.chunk, stored.document.path
    found = {
        "definition": _definition(stored, asked),
        "title": TITLE * _share(asked.terms, " ".join((*chunk.breadcrumb[-2:], chunk.title, *chunk.symbols[:8]))),
        "path": PATH * _share(asked.terms, path),
        "file": FILE if asked.kind == "path" and _same_file(asked, path) else 0.0,
        "phrase": _phrase(stored, asked),
        "outline": OUTLINE if chunk.kind == "outline" else 0.0,
        **_place(path, asked),
    }
    return {name: value for name, value in found.items() if value}


def _definition(stored: StoredChunk, asked: Understood) -> float:
    defined = {_name_of(symbol) for symbol in stored.chunk.symbols}
    if not defined:
        return 0.0
    for position, name in enumerate(reversed(asked.names)):
        if name in defined:
            weight = DEFINITION if asked.kind == "symbol" and position == 0 else DEFINITION / 2
            whole = len(defined) == 1 or name == _name_of(stored.chunk.title)
            return weight if whole else weight * 0.6
    return 0.0 if defined.isdisjoint(_spelt_names(asked.words)) else SPELT_NAME


@lru_cache(maxsize=64)
def _spelt_names(words: tuple[str, ...]) -> frozenset[str]:
    """What neighbouring words of a query may spell: two of them, or three."""
    return frozenset(
        "".join(words[start : start + length]) for length in (3, 2) for start in range(len(words) - length + 1)
    )


def _share(terms: tuple[str, ...], text: str) -> float:
    if not terms:
        return 0.0
    return len(_terms_in(text).intersection(terms)) / len(terms)


@lru_cache(maxsize=50_000)
def _terms_in(text: str) -> frozenset[str]:
    return frozenset(analyse.terms(text))


@lru_cache(maxsize=50_000)
def _name_of(symbol: str) -> str:
    """The joined form of a symbol's own name: that of `Foo.handle_login` is `handlelogin`."""
    return "".join(analyse.names(symbol.rpartition(".")[2]))


def _same_file(asked: Understood, path: str) -> bool:
    wanted = "".join(asked.words)
    return "".join(analyse.names(path)).endswith(wanted)


def _phrase(stored: StoredChunk, asked: Understood) -> float:
    if not asked.quoted:
        return 0.0
    there = _spaced(stored.chunk.text)
    return PHRASE * sum(_spaced(phrase) in there for phrase in asked.quoted) / len(asked.quoted)


def _spaced(text: str) -> str:
    return f" {' '.join(analyse.terms(text))} "


def _place(path: str, asked: Understood) -> Mapping[str, float]:
    named = _places_in(path)
    if not named:
        return {}
    wants_tests = "test" in asked.terms or "spec" in asked.terms
    wants_examples = "exampl" in asked.terms or "sampl" in asked.terms or "demo" in asked.terms
    return {
        "test": TEST if not wants_tests and "test" in named else 0.0,
        "generated": GENERATED if "generated" in named else 0.0,
        "example": EXAMPLE if not wants_examples and "example" in named else 0.0,
    }


@lru_cache(maxsize=50_000)
def _places_in(path: str) -> frozenset[str]:
    """Which kinds of place the path names."""
    patterns = {"test": _TEST_PATH, "generated": _GENERATED_PATH, "example": _EXAMPLE_PATH}
    return frozenset(name for name, pattern in patterns.items() if pattern.search(path))
