"""RefDesk's own model: a vector for each word piece and for common pairs of them, shipped in the package."""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import EmbeddingError
from refdesk.model import EmbedderIdentity
from refdesk.text import analyse as runs
from refdesk.text.analyse import Cache

# ── word pieces: words of prose and of identifiers, rare ones in parts ──

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_WIDE = re.compile(rf"{runs.WORD.pattern}|[{_CJK}]|(?:(?![{_CJK}])[^\W\d_A-Za-z])+")
_LONGEST = 24
_PART = "##"
_ONE = (1,)
_RUNS = 60_000  # runs whose pieces are cached
_WORDS = 60_000  # words whose pieces are cached


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
        self._ids = dict(zip(vocabulary, count(), strict=False))
        self._words = Cache[str, bytes](self._spell, _WORDS)
        self._runs = Cache[bytes, bytes](self.of_run, _RUNS)

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

    @cached_property
    def _tables(self) -> tuple[_Table, _Table]:
        """For the first part of a word and for further ones; words that are pieces by themselves need none."""
        inner = {piece[len(_PART) :]: number for piece, number in self._ids.items() if piece.startswith(_PART)}
        return _Table(self._ids), _Table(inner)

    def ids(self, text: str) -> bytes:
        """The ids of a text's pieces in order, two bytes each; characters that no piece covers are left out."""
        return b"".join(map(self._runs.__getitem__, runs.runs(text)))

    def of_run(self, run: bytes) -> bytes:
        """The same for one run, uncached."""
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
        (table, inner), start = self._tables, 0
        while start < len(word):
            for length in table.lengths.get(word[start : start + 2], _ONE):
                number = table.numbers.get(word[start : start + length])
                if number is not None:
                    found.append(number)
                    start += length
                    break
            else:
                start += 1
            table = inner
        return found


class _Table:
    """The ids of pieces by their text, and the lengths of pieces, longest first, by their first two letters."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        lengths: dict[str, set[int]] = {}
        for begin, length in set(zip(map(itemgetter(slice(2)), numbers), map(len, numbers), strict=True)):
            if length <= _LONGEST:
                lengths.setdefault(begin, {1}).add(length)
        self.lengths = {begin: tuple(sorted(known, reverse=True)) for begin, known in lengths.items()}


# ── matching of single words ──

_MOST_ASKED = 32  # of a query's pieces
MOST_READ = 96  # of a text's pieces
_AT_ONCE = 550  # characters split into pieces at a time: about MOST_READ pieces
_ALONE = 1 << 18  # multiplications at a time: above this BLAS starts threads, which then spin
_REMEMBERED = 5_000  # texts whose pieces are cached: 2 MB at most


class WordMatcher:
    """For each piece of a query the cosine of the nearest piece of a text, averaged by the pieces' query weights.

    Products of int8 numbers add up to less than 2**24, so float32 sums are exact in any order.
    """

    def __init__(self, ids: Callable[[str], bytes], rows: NDArray[np.int8], weights: NDArray[np.float32]) -> None:
        self._rows = rows  # of the pieces
        self._weights = weights  # of the pieces in a query
        self._lengths = np.zeros(len(rows), np.float32)  # of the rows; 0 where not yet needed
        self._ids = ids
        self._read = lru_cache(_REMEMBERED)(self._spelt)

    def _spelt(self, text: str) -> bytes:
        """The text's first pieces; the rest of a long text is not split."""
        found, start = b"", 0
        while len(found) < 2 * MOST_READ and start < len(text):
            end = text.rfind(" ", start + 1, start + _AT_ONCE) if len(text) - start > _AT_ONCE else len(text)
            end = end if end > 0 else len(text)  # cut at a blank: no piece crosses one
            found += self._ids(text[start:end])
            start = end
        return found[: 2 * MOST_READ]

    def match(self, query: str, texts: Sequence[str | bytes]) -> list[float]:
        """For each text, or its pieces: 1 if it has all of the query's pieces, about 0 if none is similar."""
        pieces = np.frombuffer(self._read(query), np.uint16)[:_MOST_ASKED]
        asked = np.array(sorted(set(pieces.tolist())), np.int64)
        read = [text if isinstance(text, bytes) else self._read(text) for text in texts]
        if not asked.size or not any(read):
            return [0.0] * len(texts)
        cosines = self._cosines(asked, np.frombuffer(b"".join(read), np.uint16).astype(np.int64))
        lengths = np.array([len(one) for one in read]) // 2
        filled = np.flatnonzero(lengths)
        starts = (lengths.cumsum() - lengths)[filled]
        met = np.zeros((len(texts), len(asked)), np.float32)
        met[filled] = np.maximum.reduceat(cosines, starts, axis=1).T
        counts = (self._weights[asked] * self._measured(asked)).astype(np.float64)
        total = counts.sum()
        shares = counts / total if total > 0 else counts
        found: list[float] = (met * shares).sum(axis=1).round(6).tolist()
        return found

    def _cosines(self, asked: NDArray[np.int64], read: NDArray[np.int64]) -> NDArray[np.float32]:
        """The cosines of the query's pieces (rows) and the texts' pieces (columns); each distinct pair once."""
        there = np.zeros(len(self._rows), np.bool_)
        there[read] = True
        different = np.flatnonzero(there)
        places = np.empty(len(self._rows), np.int64)
        places[different] = np.arange(len(different))
        wanted = self._rows[asked].T.astype(np.float32)
        products = np.empty((len(different), len(asked)), np.float32)
        step = max(1, _ALONE // wanted.size)
        for start in range(0, len(different), step):
            own = self._rows.take(different[start : start + step], axis=0).astype(np.float32)
            np.dot(own, wanted, out=products[start : start + step])
        cosines = products.T / (self._measured(asked)[:, None] * self._measured(different)[None, :])
        return np.asarray(cosines.take(places[read], axis=1), np.float32)

    def _measured(self, pieces: NDArray[np.int64]) -> NDArray[np.float32]:
        new = pieces[self._lengths[pieces] == 0.0]
        if new.size:
            rows = self._rows[new].astype(np.float32)
            self._lengths[new] = np.maximum(np.sqrt((rows * rows).sum(axis=1)), 1e-6)
        return self._lengths[pieces]


_DATA = Path(__file__).parent / "data"
_QUERY, _PASSAGE = 0, 1
_PAIR = 65_536
_HASHES = 1 << 20
_SHORT = 200  # bytes of a spelt text
_BLOCK = 5_000  # pieces, or texts, summed at once: their vectors fit the processor's cache
_UNIT_BITS = 17  # of a piece's or a pair's id, which shares 32 bits with the number of its text in a block
_UNITS = (1 << _UNIT_BITS) - 1
_ENDING = re.compile(r"(?<=\w{5})(?:(?<!s)s|es|ed|ing|er|ly)$")


class StaticEmbedder:
    """Weighted sums of the vectors of pieces and pairs: no key, no download, no GPU, and the same bits everywhere."""

    def __init__(self, folder: Path = _DATA) -> None:
        self._folder = folder
        try:
            self._about: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EmbeddingError(f"The static model in {folder} can't be read.", "Reinstall refdesk.") from error

    def __reduce__(self) -> tuple[type[StaticEmbedder], tuple[Path]]:
        return StaticEmbedder, (self._folder,)  # another process loads its own copy

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(self._about["name"], self._about["version"], self._about["dimension"])

    is_slow = False

    @property
    def similarity_floor(self) -> float:
        return float(self._about["similarity_floor"])

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector per text; a zero row for a text without a known piece."""
        return self.embed_spelt([self._pieces.ids(text) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same for queries, which have their own weights."""
        return self.embed_spelt([self._pieces.ids(text) for text in texts], _QUERY)

    most_compared = 2 * MOST_READ  # bytes

    def spell(self, text: str) -> bytes:
        """The text's pieces, each in two bytes."""
        return self._pieces.ids(text)

    def spell_run(self, run: bytes) -> bytes:
        """The pieces of a run of letters, uncached."""
        return self._pieces.of_run(run)

    def spell_words(self, words: Sequence[str]) -> bytes:
        """The pieces of the words that a run is made of."""
        return self._pieces.of_words(words)

    def knows_word(self, word: str) -> bool:
        """Whether a lower-case word is a piece by itself, or one with a usual ending."""
        return any(one in self._pieces for one in (word, *(_ENDING.sub(other, word) for other in ("", "e"))))

    def words_like(self, word: str) -> list[str]:
        """The pieces that are words, begin like this one, and are up to two edits away from it."""
        return self._pieces.like(word)

    def match_words(self, query: str, texts: Sequence[str | bytes]) -> list[float]:
        """How well each text's words match the query's: from about 0 to 1, if all of them occur."""
        return self._matcher.match(query, texts)

    def embed_spelt(self, texts: Sequence[bytes], side: int = _PASSAGE) -> NDArray[np.float32]:
        """One row per text that was split into pieces, as for passages."""
        sums = np.zeros((len(texts), self._rows.shape[1]), np.float32)
        if len(texts) == 1 and len(texts[0]) <= _SHORT:
            self._sum_short(texts[0], side, sums[0])
            return normalised(sums)
        block: list[bytes] = []
        first = size = 0
        for number, ids in enumerate(texts):
            block.append(ids)
            size += len(ids) // 2
            if size >= _BLOCK or len(block) == _BLOCK or number == len(texts) - 1:
                self._sum(block, side, sums[first : number + 1])
                block, first, size = [], number + 1, 0
        return normalised(sums)

    def _sum(self, block: list[bytes], side: int, sums: NDArray[np.float32]) -> None:
        lengths = np.array([len(ids) // 2 for ids in block], np.int64)
        pieces = np.frombuffer(b"".join(block), np.uint16).astype(np.int64)
        if not pieces.size:
            return
        owners = np.repeat(np.arange(len(block)), lengths)
        # The known pairs of adjacent pieces count beside the pieces.
        likely = np.flatnonzero(self._likely[_hashed(pieces[:-1], pieces[1:])] & (owners[:-1] == owners[1:]))
        pairs = pieces[likely] * _PAIR + pieces[likely + 1]
        places = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        known = self._pairs[places] == pairs
        units = np.concatenate([pieces, len(self._pieces) + places[known]])
        owners = np.concatenate([owners, owners[likely[known]]])
        # Sorted by text and unit, so that equal texts give the same sums in any batch.
        keys = (owners << _UNIT_BITS | units).astype(np.uint32)
        keys.sort()
        firsts = np.flatnonzero(np.diff(keys, prepend=~keys[0]))
        counts = np.diff(firsts, append=len(keys))
        owners, units = (keys[firsts] >> _UNIT_BITS).astype(np.int64), keys[firsts] & _UNITS
        weights = self._scales[units, side] * self._repeats[np.minimum(counts, len(self._repeats) - 1)]
        vectors = self._rows.take(units, axis=0).astype(np.float32)  # first: a product of two types is slower
        vectors *= weights[:, None]
        starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
        # One reduce per text takes a seventh of reduceat's time.
        for start, end in zip(starts, [*starts[1:], len(owners)], strict=True):
            np.add.reduce(vectors[start:end], axis=0, out=sums[owners[start]])

    def _sum_short(self, ids: bytes, side: int, total: NDArray[np.float32]) -> None:
        """The same sum for one short text, such as a query, in fewer steps."""
        pieces = np.frombuffer(ids, np.uint16).astype(np.int64)
        if not pieces.size:
            return
        likely = np.flatnonzero(self._likely[_hashed(pieces[:-1], pieces[1:])])
        counts = Counter(pieces.tolist())
        if likely.size:
            pairs = pieces[likely] * _PAIR + pieces[likely + 1]
            places = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
            counts.update((len(self._pieces) + places[self._pairs[places] == pairs]).tolist())
        ordered = sorted(counts)
        most = len(self._repeats) - 1
        repeats = self._repeats[[min(counts[unit], most) for unit in ordered]]
        units = np.array(ordered, np.int64)
        np.add.reduce(self._rows[units] * (self._scales[units, side] * repeats)[:, None], axis=0, out=total)

    @cached_property
    def _matcher(self) -> WordMatcher:
        many = len(self._pieces)
        return WordMatcher(self._pieces.ids, self._rows[:many], self._scales[:many, _QUERY])

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces((self._folder / "pieces.txt").read_text(encoding="utf-8").split("\n"))

    @cached_property
    def _pairs(self) -> NDArray[np.int64]:
        """The known pairs as sorted numbers; never empty, so that a lookup needs no special case."""
        both = np.fromfile(self._folder / "pairs.u2", np.dtype("<u2")).reshape(-1, 2).astype(np.int64)
        return both[:, 0] * _PAIR + both[:, 1] if both.size else np.array([-1], np.int64)

    @cached_property
    def _likely(self) -> NDArray[np.bool_]:
        """For each hash whether a known pair has it: a cheap test, since most pairs are unknown."""
        found = np.zeros(_HASHES, np.bool_)
        found[_hashed(self._pairs // _PAIR, self._pairs % _PAIR)] = True
        return found

    @cached_property
    def _rows(self) -> NDArray[np.int8]:
        mapped = np.memmap(self._folder / "rows.i1", np.int8, "r")
        return np.asarray(mapped).reshape(-1, self.identity.dimension)

    @cached_property
    def _scales(self) -> NDArray[np.float32]:
        both = np.fromfile(self._folder / "scales.f2", np.dtype("<f2")).reshape(-1, 2)
        return both.astype(np.float32)

    @cached_property
    def _repeats(self) -> NDArray[np.float32]:
        return np.array(self._about["repeats"], np.float32)


def _hashed(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    return (left * 40_503 + right) % _HASHES


def normalised(rows: NDArray[np.floating] | NDArray[np.integer]) -> NDArray[np.float32]:
    """The rows scaled to unit length, with the same bits for any batch and on any platform; a zero row stays zero."""
    values = rows.astype(np.float64)
    squares = values * values
    # Halving adds whole columns in a fixed tree of additions; a library's own sum may order them by CPU.
    while squares.shape[1] > 1:
        half = squares.shape[1] // 2
        odd = squares[:, 2 * half :]
        squares = squares[:, :half] + squares[:, half : 2 * half]
        if odd.shape[1]:
            squares[:, :1] += odd
    lengths = np.sqrt(squares[:, 0])
    lengths[lengths == 0.0] = 1.0
    return (values / lengths[:, None]).astype(np.float32)
