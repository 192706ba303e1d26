"""The analyser: the terms of a text, the same for documents and queries and on every store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

import Stemmer

_SHORT = 64  # letters up to which a run is worth caching
# Every ASCII character that can't be part of a name becomes a blank; characters of other alphabets stay.
_NAMES = bytes(code if code >= 128 or chr(code).isalnum() or chr(code) == "_" else 32 for code in range(256))
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # of ASCII

K = TypeVar("K", str, bytes)
V = TypeVar("V")


def runs(text: str) -> list[bytes]:
    """The text split at blanks and ASCII punctuation, which no word and no term crosses."""
    return text.encode("utf-8", "surrogatepass").translate(_NAMES).split()


def text_of(run: bytes) -> str:
    return run.decode("utf-8", "surrogatepass")


def words(run: str) -> list[str]:
    """The words of an ASCII run, lower-cased: names are split at capitals, underscores and digits."""
    if run.isalpha() and (run.islower() or run.istitle() or run.isupper()):
        return [run.lower()]
    found = WORD.findall(run)
    return found if run.islower() else [word.lower() for word in found]


class Cache(dict[K, V], Generic[K, V]):
    """A cache of a function's results by run or word; a hit costs no more than a dict lookup.

    When it is full, the older half is dropped, except what was used since.
    """

    def __init__(self, work_out: Callable[[K], V], most: int) -> None:
        self._work_out: Callable[[K], V] = work_out
        self._half = max(most // 2, 1)
        self._before: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        found = self._before.get(key)
        if found is None:
            found = self._work_out(key)
        if len(self) >= self._half:
            self._before = dict(self)
            self.clear()
        if len(key) <= _SHORT:
            self[key] = found
        return found


_MAX_TERM = 64  # characters; longer words are hashes and encoded data
_RUNS = 60_000  # runs whose terms are cached
_STEMS = 30_000  # words whose stems are cached: a lookup in the stemmer's own cache takes longer
_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_WORD, _CJK_RUN = rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+", rf"[{_CJK}]"  # compiled on first use: each takes 3 ms
_PARTS = re.compile(rf"{WORD.pattern}|[^\W\d_A-Za-z]+")
# Marks that are optional in writing: Latin, Greek, Cyrillic, Hebrew and Arabic ones; not Japanese voicing.
ACCENTS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_ACCENTS = re.compile(f"[{ACCENTS}]+")
_stemmer = Stemmer.Stemmer("english", 0)


def terms(text: str) -> list[str]:
    """The terms of a text in order: each compound name joined and lower-cased, then its parts."""
    return joined(text).split()


def joined(text: str) -> str:
    """The terms of a text, separated by blanks, for a full-text index."""
    return " ".join(filter(None, map(_of_runs.__getitem__, runs(text))))


def names(text: str) -> list[str]:
    """The joined form of each word: `handleLogin`, `handle_login` and `HandleLogin` are all `handlelogin`."""
    found = map(bytes.decode, runs(text)) if text.isascii() else re.findall(_WORD, fold(text))
    return [name for word in found if (name := word.replace("_", "").lower()[:_MAX_TERM])]


def joined_name(name: str) -> str:
    """The joined form of a whole name, even if it has several words."""
    if name.isascii() and name.isidentifier():
        return name.replace("_", "").lower()[:_MAX_TERM]
    return "".join(names(name))


def fold(text: str) -> str:
    """The text without accents and compatibility forms, its case kept."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def parts(word: str) -> list[str]:
    """The words a name is made of, lower-cased: `parseHTTPResponse2` is parse, http, response, 2."""
    return [part.lower() for part in _PARTS.findall(word)]


def terms_of_run(run: bytes) -> str:
    """The terms of a run, separated by blanks."""
    if run.isascii():
        return terms_of_words(words(run.decode()))
    return " ".join(filter(None, map(_terms_of, re.findall(_WORD, fold(text_of(run))))))


def terms_of_words(words: Sequence[str]) -> str:
    """The terms of a run's words: all of them joined, then each."""
    if len(words) < 2:
        return _stem(words[0]) if words else ""
    joined = "".join(words)[:_MAX_TERM]
    return " ".join([joined, *[_stem(word) for word in words if len(word) > 1 or word.isdigit()]])


def _terms_of(word: str) -> str:
    if not word.isascii() and re.match(_CJK_RUN, word):
        # Each character, then the pair that it starts, so that any part of a run is a phrase of its terms.
        pairs = [word[i : i + 2] for i in range(len(word) - 1)]
        return " ".join([*(term for pair in pairs for term in (pair[0], pair)), word[-1]])
    return terms_of_words(parts(word))


_stem = Cache[str, str](lambda word: _stemmer.stemWord(word)[:_MAX_TERM], _STEMS).__getitem__
_of_runs = Cache[bytes, str](terms_of_run, _RUNS)

# Stop words: they do not count in queries.
STOP_TERMS = frozenset(
    terms(
        "a an and are as at be but by can do does did for from had has have how i if in into is it its me my no not of"
        " on or our should so such that the their then there these they this to was we were what when where which who"
        " why will with would you your"
    )
)

# Paths of tests and of what only tests use, with a slash before them: since each alternative begins with a character, a
# search skips all others and takes a third of the time.
_TEST_PATH = re.compile(
    r"/(?:(?:\w+[_-])?tests?|tests?[_-]\w+|testing|__tests__|specs?|fixtures|test[Dd]ata|testFixtures"
    r"|__\w+(?:fixtures|shots)__|[a-z]+tests?/(?:integration|unit|functional)|_*mocks?_*|e2e|regress|[\w-]+-testing-\w+|[\w.-]*test-?suites?|\w*Tests|[a-z]+Test"
    r"|[^/]+\.(?:\w*Tests?|tests?)(?:\.[^/]+)?)/"
    r"|/(?<!./)(?:features|t)/|/(?:test_[^/]*|tests\.\w+$|conftest\.py$)|\.(?:test|spec)s?\.[^/]+$|_(?:test|spec)s?\.[^/]+$"
    r"|-(?:test|spec)s?\.[^/]+$|Tests?\.\w+$|Spec\.\w+$|\.(?:feature|\w*(?<!\.la)test|phpt|snap)$"
)


def is_of_tests(path: str) -> bool:
    """Whether a path is that of a test, or of what only tests use."""
    return _TEST_PATH.search(f"/{path}") is not None


def is_english(word: str) -> bool:
    """Whether a lower-case word is common English; a binary search, since a scan of the list takes .3 ms."""
    listed = _english()
    low, high = 0, len(listed)  # between them lies the word, if it is there
    while low < high:
        start = listed.rfind("\n", low, (low + high) // 2) + 1 or low
        end = listed.index("\n", start)
        line = listed[start:end]
        if line == word:
            return True
        if line < word:
            low = end + 1
        else:
            high = start
    return False


@cache
def _english() -> str:
    """The words, sorted, one a line."""
    return (Path(__file__).parent / "english.txt").read_text(encoding="utf-8")
