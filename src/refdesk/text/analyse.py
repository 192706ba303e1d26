"""Which terms does a text have?  One analyser for documents and queries, on every store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import Stemmer

# Which runs of letters is a text made of, which words is a run, and what was made of each before?

_SHORT = 64  # letters of what is worth remembering
# Every ASCII character that is in no name becomes a blank; the rest stays, whatever its alphabet.
_NAMES = bytes(code if code >= 128 or chr(code).isalnum() or chr(code) == "_" else 32 for code in range(256))
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # of ASCII

K = TypeVar("K", str, bytes)
V = TypeVar("V")


def runs(text: str) -> list[bytes]:
    """What stands between blanks and ASCII punctuation, in order: no word and no term goes over them."""
    return text.encode("utf-8", "surrogatepass").translate(_NAMES).split()


def text_of(run: bytes) -> str:
    """The run as text."""
    return run.decode("utf-8", "surrogatepass")


def words(run: str) -> list[str]:
    """The words of an ASCII run, lower-cased: names are split at capitals, underscores and digits."""
    if run.isalpha() and (run.islower() or run.istitle() or run.isupper()):
        return [run.lower()]
    found = WORD.findall(run)
    return found if run.islower() else [word.lower() for word in found]


class Remembered(dict[K, V], Generic[K, V]):
    """What each of many runs or words gives, worked out when it is first asked for.

    Those of the last while are known: when there are too many, those asked for since are kept.
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


_MAX_TERM = 64
_RUNS = 60_000  # whose terms are remembered
_STEMS = 30_000  # that are remembered: the stemmer's own memory takes longer to ask
_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_WORD = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+")
_CJK_RUN = re.compile(rf"[{_CJK}]")
_PARTS = re.compile(rf"{WORD.pattern}|[^\W\d_A-Za-z]+")
# Marks that may be left out in writing: Latin, Greek, Cyrillic, Hebrew and Arabic ones; not Japanese voicing.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_stemmer = Stemmer.Stemmer("english", 0)


def terms(text: str) -> list[str]:
    """The terms of a text in order: each compound name joined and lower-cased, then its parts."""
    return joined(text).split()


def joined(text: str) -> str:
    """The terms of a text with blanks between them, as a full-text index takes them."""
    return " ".join(filter(None, map(_of_runs.__getitem__, runs(text))))


def names(text: str) -> list[str]:
    """The joined form of each word: `handleLogin`, `handle_login` and `HandleLogin` are all `handlelogin`."""
    found = map(bytes.decode, runs(text)) if text.isascii() else _WORD.findall(fold(text))
    return [name for word in found if (name := word.replace("_", "").lower()[:_MAX_TERM])]


def joined_name(name: str) -> str:
    """The joined forms of a name's words, most names being one, as one."""
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
    """The terms of a run with blanks between them."""
    if run.isascii():
        return terms_of_words(words(run.decode()))
    return " ".join(filter(None, map(_terms_of, _WORD.findall(fold(text_of(run))))))


def terms_of_words(words: Sequence[str]) -> str:
    """The same of the words that a run is made of: all of them joined, then each."""
    if len(words) < 2:
        return _stem(words[0]) if words else ""
    joined = "".join(words)[:_MAX_TERM]
    return " ".join([joined, *[_stem(word) for word in words if len(word) > 1 or word.isdigit()]])


def _terms_of(word: str) -> str:
    if not word.isascii() and _CJK_RUN.match(word):
        # Each character, then the pair it begins: so that a part of a run is a phrase of the run's terms.
        pairs = [word[i : i + 2] for i in range(len(word) - 1)]
        return " ".join([*(term for pair in pairs for term in (pair[0], pair)), word[-1]])
    return terms_of_words(parts(word))


_stem = Remembered[str, str](lambda word: _stemmer.stemWord(word)[:_MAX_TERM], _STEMS).__getitem__
_of_runs = Remembered[bytes, str](terms_of_run, _RUNS)

# Words that say nothing of what a text is about, in any kind of text.
STOP_TERMS = frozenset(
    terms(
        "a an and are as at be but by can do does did for from had has have how i if in into is it its me my no not of"
        " on or our should so such that the their then there these they this to was we were what when where which who"
        " why will with would you your"
    )
)
