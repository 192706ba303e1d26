"""Which pieces is a text made of?  Words of prose and of identifiers, rare ones in parts."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable
from typing import TypeVar

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_ASCII = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WIDE = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[{_CJK}]|(?:(?![{_CJK}])[^\W\d_A-Za-z])+")
# Every byte that is in no name becomes a blank: the names of an ASCII text are then what stands between blanks.
_NAMES = bytes(code if code < 128 and (chr(code).isalnum() or chr(code) == "_") else 32 for code in range(256))
_LONGEST = 24
_PART = "##"
_REMEMBERED = 200_000  # spellings, of runs up to:
_SHORT = 64

T = TypeVar("T", str, bytes)


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
        # No word goes over a blank, or in ASCII over anything but a name: runs are spelt once and remembered.
        self._words: _Spelt[str] = _Spelt(lambda word: array("H", self._parts(word)).tobytes())
        self._names: _Spelt[bytes] = _Spelt(lambda name: self._spell(name.decode()))
        self._runs: _Spelt[str] = _Spelt(self._spell)

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, text: str) -> bytes:
        """The numbers of a text's pieces in order, each in two bytes; what the vocabulary can't spell is left out."""
        if text.isascii():
            return self._names.joined(text.encode().translate(_NAMES).split())
        return self._runs.joined(text.split())

    def _spell(self, run: str) -> bytes:
        return self._words.joined([word.lower() for word in words(run)])

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


class _Spelt(dict[T, bytes]):
    """Spellings by run, each made when it is first asked for."""

    def __init__(self, spell: Callable[[T], bytes]) -> None:
        self._spell: Callable[[T], bytes] = spell

    def joined(self, runs: list[T]) -> bytes:
        return b"".join(map(self.__getitem__, runs))

    def __missing__(self, run: T) -> bytes:
        found = self._spell(run)
        if len(self) >= _REMEMBERED:
            self.clear()
        if len(run) <= _SHORT:
            self[run] = found
        return found
