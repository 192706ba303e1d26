"""Which terms does a text have?  One analyser for documents and queries, on every store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import Stemmer

from refdesk.runs import WORD, Remembered, runs, text_of, words

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
