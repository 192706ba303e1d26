"""Which pieces is a text made of?  Words of prose and of identifiers, rare ones in parts."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable

from refdesk.runs import Remembered, runs, text_of

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_ASCII = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WIDE = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[{_CJK}]|(?:(?![{_CJK}])[^\W\d_A-Za-z])+")
_LONGEST = 24
_PART = "##"
_RUNS = 60_000  # spellings that are remembered, of runs
_WORDS = 30_000  # and of words


def words(text: str) -> list[str]:
    """The words in order, names split at capitals, underscores and digits, each CJK character alone; case kept."""
    if text.isascii():
        return _ASCII.findall(text)
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in decomposed if not unicodedata.combining(c) or c in "\u3099\u309a")
    return _WIDE.findall(unicodedata.normalize("NFC", kept))


class Pieces:
    """The vocabulary: whole words, and parts (written `##part`) for words it does not hold."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        lengths: dict[str, set[int]] = {}  # of pieces, by the two letters that they begin with
        for piece in self._ids:
            lengths.setdefault(piece[: len(_PART) + 2 if piece.startswith(_PART) else 2], set()).add(len(piece))
        self._lengths = {begin: sorted(known, reverse=True) for begin, known in lengths.items()}
        self._words = Remembered[str, bytes](lambda word: array("H", self._parts(word)).tobytes(), _WORDS)
        self._runs = Remembered[bytes, bytes](lambda run: self._spell(text_of(run)), _RUNS)

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, text: str) -> bytes:
        """The numbers of a text's pieces in order, each in two bytes; what the vocabulary can't spell is left out."""
        return b"".join(map(self._runs.__getitem__, runs(text)))

    def _spell(self, run: str) -> bytes:
        return b"".join([self._words[word.lower()] for word in words(run)])

    def _parts(self, word: str) -> list[int]:
        whole = self._ids.get(word)
        if whole is not None:
            return [whole]
        found: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            piece = self._longest(mark + word[start : start + _LONGEST], len(mark))
            if piece:
                found.append(self._ids[piece])
            start += max(len(piece) - len(mark), 1)
            mark = _PART
        return found

    def _longest(self, rest: str, mark: int) -> str:
        """The longest piece that this begins with, behind a mark of that length."""
        for length in self._lengths.get(rest[: mark + 2], ()):
            if (piece := rest[:length]) in self._ids:
                return piece
        return rest[: mark + 1] if rest[: mark + 1] in self._ids else ""
