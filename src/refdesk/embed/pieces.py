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
        self._longest: dict[str, int] = {}  # by how a piece begins: no longer one need be looked for
        for piece in self._ids:
            begin = piece[:3] if piece.startswith("##") else piece[:1]
            self._longest[begin] = max(len(piece), self._longest.get(begin, 0))
        # No word goes over a blank, or in ASCII over anything but a name: runs are spelt once and remembered.
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
        found = array("H", [part for word in words(run) for part in self._parts(word.lower())])
        return found.tobytes()

    def _parts(self, word: str) -> list[int]:
        whole = self._ids.get(word)
        if whole is not None:
            return [whole]
        found: list[int] = []
        start = 0
        while start < len(word):
            rest = word[start : start + _LONGEST] if start == 0 else f"##{word[start : start + _LONGEST]}"
            end = min(len(rest), self._longest.get(rest[:1] if start == 0 else rest[:3], 0))
            while end and rest[:end] not in self._ids:
                end -= 1
            if end:
                found.append(self._ids[rest[:end]])
            start += max(end if start == 0 else end - 2, 1)
        return found


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
