"""Which terms does a text have?  One analyser for documents and queries, on every store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import Stemmer

_MAX_TERM = 64
_REMEMBERED = 100_000  # runs of up to:
_SHORT = 64
_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
# Every byte that is in no name becomes a blank: the names of an ASCII text are then what stands between blanks.
_NAMES = bytes(code if code < 128 and (chr(code).isalnum() or chr(code) == "_") else 32 for code in range(256))
_WORD = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+")
_CJK_RUN = re.compile(rf"[{_CJK}]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
# Marks that may be left out in writing: Latin, Greek, Cyrillic, Hebrew and Arabic ones; not Japanese voicing.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_stem = Stemmer.Stemmer("english", 20_000).stemWord


def terms(text: str) -> list[str]:
    """The terms of a text in order: each compound name joined and lower-cased, then its parts."""
    return joined(text).split()


def joined(text: str) -> str:
    """The terms of a text with blanks between them, as a full-text index takes them."""
    # No term goes over a blank, or in ASCII over anything but a name: runs are taken apart once and remembered.
    if text.isascii():
        found = map(_of_names.__getitem__, text.encode().translate(_NAMES).split())
    else:
        found = map(_of_runs.__getitem__, text.split())
    return " ".join(filter(None, found))


def names(text: str) -> list[str]:
    """The joined form of each word: `handleLogin`, `handle_login` and `HandleLogin` are all `handlelogin`."""
    return [word.replace("_", "").lower()[:_MAX_TERM] for word in _WORD.findall(fold(text)) if word.strip("_")]


def fold(text: str) -> str:
    """The text without accents and compatibility forms, its case kept."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def parts(word: str) -> list[str]:
    """The words a name is made of, lower-cased: `parseHTTPResponse2` is parse, http, response, 2."""
    return [part.lower() for part in _PARTS.findall(word)]


@lru_cache(maxsize=20_000)
def _terms_of(word: str) -> tuple[str, ...]:
    if _CJK_RUN.match(word):
        # Each character, then the pair it begins: so that a part of a run is a phrase of the run's terms.
        pairs = [word[i : i + 2] for i in range(len(word) - 1)]
        return (*(term for pair in pairs for term in (pair[0], pair)), word[-1])
    pieces = parts(word)
    if not pieces:
        return ()
    if len(pieces) == 1:
        return (_stem(pieces[0])[:_MAX_TERM],)
    joined = "".join(pieces)[:_MAX_TERM]
    return (joined, *(_stem(piece)[:_MAX_TERM] for piece in pieces if len(piece) > 1 or piece.isdigit()))


T = TypeVar("T", str, bytes)


class _Remembered(dict[T, str]):
    """What a run gives, worked out when it is first asked for."""

    def __init__(self, work_out: Callable[[T], str]) -> None:
        self._work_out: Callable[[T], str] = work_out

    def __missing__(self, run: T) -> str:
        found = self._work_out(run)
        if len(self) >= _REMEMBERED:
            self.clear()
        if len(run) <= _SHORT:
            self[run] = found
        return found


_of_names: _Remembered[bytes] = _Remembered(lambda name: " ".join(_terms_of(name.decode())))
_of_runs: _Remembered[str] = _Remembered(
    lambda run: " ".join(term for word in _WORD.findall(fold(run)) for term in _terms_of(word))
)
