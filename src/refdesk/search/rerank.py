"""Reranking: features of each candidate, added up with weights that training/rerank.py learned."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from refdesk.model import StoredChunk
from refdesk.ports import WordMatching
from refdesk.search.understand import Understood
from refdesk.text import analyse

# ── features, from 0 to 1 unless noted ──

# These two are searched in a path with a slash before it, and begin with a character: a search skips all others.
_GENERATED_PATH = re.compile(
    r"/(?:generated|gen|dist|build|vendor|third_party)(?:/|$)|\.pb2?\.|_pb2?\.|\.g\.\w+$|_generated\."
)
_EXAMPLE_PATH = re.compile(
    r"/(?:examples?|samples?|demos?|_*bench(?:es|marks?)?_*|[^/]+\.(?:Examples?|Samples?|Benchmarks?))(?:/|$)"
)
# Pages of a manual that mention everything in passing: what changed, how to move to a version, how to contribute.
_PAGES = ("md", "mdx", "markdown", "rst", "adoc", "txt", "htm", "html")
_ASIDE_PATH = re.compile(
    r"(?:^|[/_.-])(?:blogs?|posts|news|change(?:s|log)|release[_-]?notes?|releases|whats?[_-]?new|history|contribut\w+"
    r"|migrat\w+|upgrad\w+|dev(?:el(?:op(?:ment|ing|ers?)?)?)?[_-]guide|development|developing|internals)"
    r"(?:[/_.-].*)?\.(?:mdx?|markdown|rst|adoc|txt|html?)$",
    re.IGNORECASE,
)
_ASKED_FOR = {  # a query with one of these terms may ask for such a path
    "test": frozenset({"test", "spec"}),
    "generated": frozenset(),
    "example": frozenset({"exampl", "sampl", "demo"}),
    "aside": frozenset(
        re.findall(
            r"\w+",
            "blog news chang releas version new old deprec migrat upgrad updat convert contribut develop propos report",
        )
    ),
}
# "for tests" and "a failing test" rather mean what is not a test.  Measured: +.004 of nDCG@5 by page over 0; 1 does
# the same there and .002 worse by section (300 queries), so it is a compromise for those who do ask for tests.
_IF_TESTS_ARE_NAMED = 0.5
_KINDS = {
    "outline": ("outline",),
    "imports": ("imports",),
    "function": ("function", "method", "constructor", "macro"),
    "type": (
        "class", "struct", "interface", "enum", "trait", "impl", "protocol", "extension", "actor", "type", "record",
    ),
    "value": ("constant", "constants", "variable", "property", "properties", "field"),
}  # fmt: skip
_OF_KIND = {kind: feature for feature, kinds in _KINDS.items() for kind in kinds}
_USUAL_TOKENS = 100
_PART = re.compile(r"-part-(\d+)$")
# Factors for a definition that
_ANOTHER_SPELLING = 0.6  # differs in case from what was typed
_FURTHER = 0.5  # adds to the type, which another passage defines
_EXTENDING = frozenset(["extension", "impl", "category"])
_EXTENSION = re.compile(r"(?:\w+ )*(?:extension|impl)\b")  # as an outline begins
_IN_PASSING = 0.6  # is one of several in its passage
_NOT_ITS_OWN = 0.8  # is not known to be a member of the type named before it
_OTHERWISE = 0.8  # is not the function, type or value that a keyword asks for
_CONTINUED = 0.9  # started in an earlier part

_PROSE = frozenset({"section", "preamble", "page", "paragraph", "file"})

WORDS = ("words", "heading words", "path words")  # need an embedder that compares single words
BY_TEXT = ("title", "path", "length", "neighbours", *WORDS)  # have weights of their own in prose
NAMES = (
    "definition",
    "named",
    "spelt name",
    "title",
    "path",
    "file",
    "phrase",
    "test",
    "generated",
    "example",
    "outline",
    "imports",
    "function",
    "type",
    "value",
    "length",
    "neighbours",
    *WORDS,
    *(f"prose {name}" for name in BY_TEXT),
)
_IN_CODE = {name: name for name in BY_TEXT}
_IN_PROSE = {name: f"prose {name}" for name in BY_TEXT}


def passage(
    stored: StoredChunk, asked: Understood, named: Mapping[str, str], wanted: Container[str]
) -> dict[str, float]:
    """The features of a passage's kind, path, symbols and headings.

    Zeros are left out, and so are slow features that are not in `wanted`.
    """
    chunk, path = stored.chunk, stored.document.path
    found = _definition(stored, asked) if chunk.symbols else {}
    if (kind := _OF_KIND.get(chunk.kind)) is not None:
        found[kind] = 1.0
    if length := _length(chunk.tokens):
        found[named["length"]] = length
    if named["title"] in wanted:
        heading = " ".join((*chunk.breadcrumb[-2:], chunk.title, *chunk.symbols[:8]))
        if share := _share(asked.terms, heading):
            found[named["title"]] = share
    if named["path"] in wanted and (share := _share(asked.terms, path)):
        found[named["path"]] = share
    if asked.kind == "path" and "".join(analyse.names(path)).endswith("".join(asked.words)):
        found["file"] = 1.0
    if asked.quoted and (share := _phrase(stored, asked)):
        found["phrase"] = share
    places = (*places_in(path), "test") if chunk.kind == "test" else places_in(path)  # in Rust, beside the code
    if places:
        found |= counted(places, unasked_places(asked.terms))
    return found


def apart(kept: bytes) -> tuple[bytes, bytes]:
    """The pieces of a text and of its heading, as prepare.together joined them; either may be empty if not stored."""
    if len(kept) % 2 == 0:  # stored without a heading
        return kept, b""
    end = len(kept) - 1 - 2 * kept[-1]
    return kept[:end], kept[end:-1]


def texts(passages: Sequence[StoredChunk]) -> list[str | bytes]:
    """The texts to compare word by word: all passages (as spelt, if that is kept), all headings, all paths."""
    spelt = [apart(one.kept) for one in passages]
    own = [text or one.chunk.text for one, (text, _) in zip(passages, spelt, strict=True)]
    heads = [head or one.chunk.heading for one, (_, head) in zip(passages, spelt, strict=True)]
    return [*own, *heads, *(one.document.path for one in passages)]


def is_prose(stored: StoredChunk) -> bool:
    """Whether the passage is a part of a text rather than of a program."""
    return stored.chunk.kind in _PROSE


def neighbours(passages: Sequence[StoredChunk], scores: Sequence[float]) -> list[float]:
    """For each passage the best score of another passage of its document."""
    best: dict[str, list[float]] = {}  # the two best of each document
    owned = [best.setdefault(one.document.id, [0.0, 0.0]) for one in passages]
    for own, score in zip(owned, scores, strict=True):
        if score > own[0]:
            own[:] = score, own[0]
        elif score > own[1]:
            own[1] = score
    return [own[0] if score < own[0] else own[1] for own, score in zip(owned, scores, strict=True)]


def _definition(stored: StoredChunk, asked: Understood) -> dict[str, float]:
    """Whether the passage defines the symbol asked for, another one named in the query, or one that its words spell."""
    if asked.whole and (value := _whole(stored, asked)):
        return {"definition": value}
    defined = {_name_of(symbol) for symbol in stored.chunk.symbols}
    for position, name in enumerate(reversed(asked.names)):
        if name in defined:
            whole = len(defined) == 1 or name == _name_of(stored.chunk.title)
            if asked.kind == "symbol" and position == 0:
                return {"definition": _meant(stored, asked, whole=whole) * _begun(stored)}
            return {"named": 1.0 if whole else 0.6}
    return {} if defined.isdisjoint(_spelt_names(asked.words)) else {"spelt name": 1.0}


def _is_extension(stored: StoredChunk) -> bool:
    chunk = stored.chunk
    return chunk.kind in _EXTENDING or (chunk.kind == "outline" and _EXTENSION.match(chunk.text) is not None)


def _whole(stored: StoredChunk, asked: Understood) -> float:
    """How surely the passage defines what the whole query names: a member of a type, or a name after a keyword."""
    chunk, many = stored.chunk, len(asked.whole)
    paths = [tuple(map(analyse.joined_name, symbol.split("."))) for symbol in chunk.symbols]
    if not any(path[-many:] == asked.whole for path in paths):
        return 0.0
    value = 1.0 if len(paths) == 1 or asked.whole[-1] == _name_of(chunk.title) else _IN_PASSING
    if asked.declared and _OF_KIND.get(chunk.kind, asked.declared) not in (asked.declared, "outline"):
        value *= _OTHERWISE
    if asked.spelt and not any(symbol.rpartition(".")[2] == asked.spelt for symbol in chunk.symbols):
        value *= _ANOTHER_SPELLING
    return value * _begun(stored)


def _begun(stored: StoredChunk) -> float:
    """Less than one if the passage is a later part of a definition."""
    return 1.0 if not (part := _PART.search(stored.chunk.key)) or part[1] == "1" else _CONTINUED


def _meant(stored: StoredChunk, asked: Understood, *, whole: bool) -> float:
    """How surely a definition is the one asked for: alone in its passage, in its type or module, spelt as typed."""
    symbols = stored.chunk.symbols
    as_typed = not asked.spelt or any(symbol.rpartition(".")[2] == asked.spelt for symbol in symbols)
    value = 1.0 if as_typed else _ANOTHER_SPELLING
    owned = asked.names[-2:]
    if len(owned) < 2:
        return value if whole else value * _IN_PASSING
    is_member = any(tuple(map(analyse.joined_name, symbol.split(".")))[-2:] == owned for symbol in symbols)
    is_member = is_member or (whole and owned[0] in _modules(stored.document.path))
    return value if is_member else value * (_NOT_ITS_OWN if whole else _IN_PASSING)


@lru_cache(maxsize=64)
def _spelt_names(words: tuple[str, ...]) -> frozenset[str]:
    """The names that two or three adjacent words of a query may spell."""
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
    return analyse.joined_name(symbol.rpartition(".")[2])


@lru_cache(maxsize=50_000)
def _modules(path: str) -> tuple[str, ...]:
    """The names of the module at this path: by its file and by its folder."""
    folder, _, file = path.rpartition("/")
    return analyse.joined_name(file.partition(".")[0]), analyse.joined_name(folder.rpartition("/")[2])


def _phrase(stored: StoredChunk, asked: Understood) -> float:
    there = _spaced(stored.chunk.text)
    return sum(_spaced(phrase) in there for phrase in asked.quoted) / len(asked.quoted)


def _spaced(text: str) -> str:
    return f" {' '.join(analyse.terms(text))} "


@lru_cache(maxsize=2_000)
def _length(tokens: int) -> float:
    return max(-1.0, min(1.0, math.log((tokens + 1) / _USUAL_TOKENS) / 3))


@lru_cache(maxsize=64)
def unasked_places(asked: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds of paths that a query of these terms does not ask for."""
    return tuple(place for place, terms in _ASKED_FOR.items() if terms.isdisjoint(asked))


def counted(places: Sequence[str], unasked: Sequence[str]) -> dict[str, float]:
    """The kinds of a path that count against it, each with the share of its weight that does."""
    found = {place: 1.0 for place in places if place in unasked}
    return found if "test" in found or "test" not in places else {**found, "test": _IF_TESTS_ARE_NAMED}


@lru_cache(maxsize=50_000)
def places_in(path: str) -> tuple[str, ...]:
    """The kinds of the path: test, generated, example, a page aside."""
    rooted = f"/{path}"
    found = ["test"] if analyse.is_of_tests(path) else []
    if _GENERATED_PATH.search(rooted):
        found.append("generated")
    if _EXAMPLE_PATH.search(rooted):
        found.append("example")
    if path.rpartition(".")[2].lower() in _PAGES and _ASIDE_PATH.search(path):
        found.append("aside")
    return tuple(found)


_FILE = Path(__file__).parent / "weights.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights that training/rerank.py learned; shares of meaning are by the kind of query."""

    version: int
    window: Mapping[str, float]  # share of meaning when the candidates to rerank are chosen
    blend: Mapping[str, float]  # and when they are ranked
    with_words: Mapping[str, float]  # what a feature adds to a blend in 0..1
    without_words: Mapping[str, float]  # the same without the comparison of single words
    file: Mapping[str, float]  # what adds to the score of a file's best passage


@cache
def weights() -> Weights:
    """The shipped weights."""
    return Weights(**json.loads(_FILE.read_text(encoding="utf-8")))


def values(
    passages: Sequence[StoredChunk],
    scores: Sequence[float],
    asked: Understood,
    text: str,
    matcher: WordMatching | None,
    wanted: Container[str] = NAMES,
) -> list[dict[str, float]]:
    """The features of each passage; single words are compared if there is a matcher."""
    named = [_IN_PROSE if is_prose(one) else _IN_CODE for one in passages]
    found = [passage(one, asked, names, wanted) for one, names in zip(passages, named, strict=True)]
    if asked.kind == "symbol":
        defining = [(one, own) for one, own in zip(passages, found, strict=True) if "definition" in own]
        further = [own for one, own in defining if _is_extension(one)]
        is_whole = any(own["definition"] > _IN_PASSING and not _is_extension(one) for one, own in defining)
        for own in further if is_whole else ():
            own["definition"] *= _FURTHER
    for own, names, near in zip(found, named, neighbours(passages, scores), strict=True):
        own[names["neighbours"]] = near
    if matcher is not None and passages:
        met = matcher.match_words(text, texts(passages))
        for at, name in enumerate(WORDS):
            for own, names, value in zip(found, named, met[at * len(passages) :], strict=False):
                own[names[name]] = value
    return found


def weighing(*, with_words: bool) -> Mapping[str, float]:
    """The non-zero weights, with or without the comparison of single words."""
    learned = weights().with_words if with_words else weights().without_words
    return {name: weight for name, weight in learned.items() if weight}


def gains(values: Mapping[str, float], weighed: Mapping[str, float]) -> dict[str, float]:
    """What each feature adds to a passage's score, without zeros."""
    return {name: weighed[name] * value for name, value in values.items() if value and name in weighed}
