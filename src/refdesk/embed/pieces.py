"""Which pieces is a text made of?  Words of prose and of identifiers, rare ones in parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_ASCII = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WIDE = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[{_CJK}]|(?:(?![{_CJK}])[^\W\d_A-Za-z])+")
_LONGEST = 24
_REMEMBERED = 200_000


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
        self._known: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, text: str) -> list[int]:
        """The numbers of a text's pieces in order; what the vocabulary can't spell is left out."""
        if len(self._known) > _REMEMBERED:
            self._known = {}  # not cleared: another thread may be reading it
        known = self._known
        found = words(text)
        for word in set(found).difference(known):
            known[word] = self._parts(word.lower())
        return list(chain.from_iterable(map(known.__getitem__, found)))

    def _parts(self, word: str) -> tuple[int, ...]:
        whole = self._ids.get(word)
        if whole is not None:
            return (whole,)
        found: list[int] = []
        start = 0
        while start < len(word):
            end = min(len(word), start + _LONGEST)
            while end > start:
                part = self._ids.get(word[start:end] if start == 0 else "##" + word[start:end])
                if part is not None:
                    found.append(part)
                    break
                end -= 1
            start = max(end, start + 1)
        return tuple(found)
