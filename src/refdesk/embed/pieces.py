"""Which pieces is a text made of?  Words of prose and of identifiers, rare ones in parts."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from refdesk import runs
from refdesk.runs import Remembered

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_WIDE = re.compile(rf"{runs.WORD.pattern}|[{_CJK}]|(?:(?![{_CJK}])[^\W\d_A-Za-z])+")
_LONGEST = 24
_PART = "##"
_ONE = (1,)
_RUNS = 60_000  # spellings that are remembered, of runs
_WORDS = 60_000  # and of words


def words(text: str) -> list[str]:
    """The words in order, names split at capitals, underscores and digits, each CJK character alone; case kept."""
    if text.isascii():
        return runs.WORD.findall(text)
    decomposed = unicodedata.normalize("NFKD", text)
    if not decomposed.isalnum():  # letters and digits do not combine
        decomposed = "".join([c for c in decomposed if not unicodedata.combining(c) or c in "\u3099\u309a"])
    return _WIDE.findall(unicodedata.normalize("NFC", decomposed))


class Pieces:
    """The vocabulary: whole words, and parts (written `##part`) for words it does not hold."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        inner = {piece[len(_PART) :]: number for piece, number in self._ids.items() if piece.startswith(_PART)}
        self._first, self._inner = _Table(self._ids), _Table(inner)
        self._words = Remembered[str, bytes](self._spell, _WORDS)
        self._runs = Remembered[bytes, bytes](self.of_run, _RUNS)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def like(self, word: str) -> list[str]:
        """The whole words of the same first letter that are up to two edits away, a swap being one."""
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        sizes = range(len(word) - 2, len(word) + 3)
        near = [piece for size in sizes for piece in self._by_size.get((word[:1], size), ())]
        return [piece for piece, _, _ in extract(word, near, scorer=OSA.distance, score_cutoff=2, limit=None)]

    @cached_property
    def _by_size(self) -> dict[tuple[str, int], list[str]]:
        """The whole words by their first letter and length."""
        found: dict[tuple[str, int], list[str]] = {}
        for piece in self._ids:
            if piece.isalpha():
                found.setdefault((piece[0], len(piece)), []).append(piece)
        return found

    def ids(self, text: str) -> bytes:
        """The numbers of a text's pieces in order, each in two bytes; what the vocabulary can't spell is left out."""
        return b"".join(map(self._runs.__getitem__, runs.runs(text)))

    def of_run(self, run: bytes) -> bytes:
        """The same for a run, which is not remembered."""
        if run.isascii():
            return self.of_words(runs.words(run.decode()))
        return self.of_words([word.lower() for word in words(runs.text_of(run))])

    def of_words(self, words: Sequence[str]) -> bytes:
        """The same for words, lower-cased."""
        return b"".join(map(self._words.__getitem__, words))

    def _spell(self, word: str) -> bytes:
        whole = self._ids.get(word)
        return array("H", self._parts(word) if whole is None else (whole,)).tobytes()

    def _parts(self, word: str) -> list[int]:
        found: list[int] = []
        table, start = self._first, 0
        while start < len(word):
            for length in table.lengths.get(word[start : start + 2], _ONE):
                number = table.numbers.get(word[start : start + length])
                if number is not None:
                    found.append(number)
                    start += length
                    break
            else:
                start += 1
            table = self._inner
        return found


class _Table:
    """Pieces by how they are written, and their lengths, longest first, by the two letters that they begin with."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        lengths: dict[str, set[int]] = {}
        for piece in numbers:
            if len(piece) <= _LONGEST:
                lengths.setdefault(piece[:2], {1}).add(len(piece))
        self.lengths = {begin: tuple(sorted(known, reverse=True)) for begin, known in lengths.items()}
