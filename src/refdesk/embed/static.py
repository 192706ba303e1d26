"""RefDesk's own model: a vector for each word piece and for common pairs of them, shipped in the package."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.embed.pieces import Pieces
from refdesk.embed.rows import normalised
from refdesk.embed.words import MOST_READ, WordMatcher
from refdesk.errors import EmbeddingError
from refdesk.model import EmbedderIdentity

_DATA = Path(__file__).parent / "data"
_QUERY, _PASSAGE = 0, 1
_PAIR = 65_536
_HASHES = 1 << 20
_SHORT = 200  # bytes of a spelt text
_BLOCK = 5_000  # pieces, or texts, summed at once: what they gather stays in the processor's cache
_UNIT_BITS = 17  # of a piece's or a pair's number, which stands in 32 bits with that of its text in a block
_UNITS = (1 << _UNIT_BITS) - 1
_ENDING = re.compile(r"(?<=\w{5})(?:(?<!s)s|es|ed|ing|er|ly)$")


class StaticEmbedder:
    """Weighted sums of unit vectors: no key, no download, no GPU, and the same bits everywhere."""

    def __init__(self, folder: Path = _DATA) -> None:
        self._folder = folder
        try:
            self._about: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EmbeddingError(f"The static model in {folder} can't be read.", "Reinstall refdesk.") from error

    def __reduce__(self) -> tuple[type[StaticEmbedder], tuple[Path]]:
        return StaticEmbedder, (self._folder,)  # another process loads it for itself

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(self._about["name"], self._about["version"], self._about["dimension"])

    is_slow = False

    @property
    def similarity_floor(self) -> float:
        """The cosine under which a passage without a matching term is not relevant."""
        return float(self._about["similarity_floor"])

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text of length one, or zero for a text without a known piece."""
        return self._embed(texts, _PASSAGE)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same for queries, in which other pieces matter."""
        return self._embed(texts, _QUERY)

    @property
    def most_compared(self) -> int:
        """How many bytes of a spelt text are looked at when words are compared."""
        return 2 * MOST_READ

    def spell(self, text: str) -> bytes:
        """The text's pieces, each in two bytes."""
        return self._pieces.ids(text)

    def spell_run(self, run: bytes) -> bytes:
        """The pieces of a run of letters, worked out anew."""
        return self._pieces.of_run(run)

    def spell_words(self, words: Sequence[str]) -> bytes:
        """The pieces of the words that a run is made of."""
        return self._pieces.of_words(words)

    def embed_spelt(self, texts: Sequence[bytes]) -> NDArray[np.float32]:
        """One row per spelt text, as of a passage."""
        return self._embed_spelt(texts, _PASSAGE)

    def knows_word(self, word: str) -> bool:
        """Whether a lower-case word is a piece by itself, or one with a usual ending."""
        return any(one in self._pieces for one in (word, *(_ENDING.sub(other, word) for other in ("", "e"))))

    def words_like(self, word: str) -> list[str]:
        """The pieces that are words, begin like this one, and are up to two edits away from it."""
        return self._pieces.like(word)

    def match_words(self, query: str, texts: Sequence[str | bytes]) -> list[float]:
        """How well each text's words meet the query's, from about 0 to 1 where all of them stand there."""
        return self._matcher.match(query, texts)

    def _embed(self, texts: Sequence[str], side: int) -> NDArray[np.float32]:
        return self._embed_spelt([self._pieces.ids(text) for text in texts], side)

    def _embed_spelt(self, texts: Sequence[bytes], side: int) -> NDArray[np.float32]:
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
        owners, units = self._with_pairs(owners, pieces)
        # Sorted by text and unit, so that equal texts add the same numbers in the same order in any batch.
        keys = (owners << _UNIT_BITS | units).astype(np.uint32)
        keys.sort()
        firsts = np.flatnonzero(np.diff(keys, prepend=~keys[0]))
        counts = np.diff(firsts, append=len(keys))
        owners, units = (keys[firsts] >> _UNIT_BITS).astype(np.int64), keys[firsts] & _UNITS
        weights = self._scales[units, side] * self._repeats[np.minimum(counts, len(self._repeats) - 1)]
        vectors = self._rows.take(units, axis=0) * weights[:, None]
        starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
        # Row upon row, which takes a seventh of reduceat's time.
        for start, end in zip(starts, [*starts[1:], len(owners)], strict=True):
            np.add.reduce(vectors[start:end], axis=0, out=sums[owners[start]])

    def _sum_short(self, ids: bytes, side: int, total: NDArray[np.float32]) -> None:
        """The same sum for one short text, as a query is: fewer steps, since there is nothing to tell apart."""
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

    def _with_pairs(
        self, owners: NDArray[np.int64], pieces: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pieces and the known pairs of neighbours, each with the text it stands in."""
        likely = np.flatnonzero(self._likely[_hashed(pieces[:-1], pieces[1:])] & (owners[:-1] == owners[1:]))
        pairs = pieces[likely] * _PAIR + pieces[likely + 1]
        places = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        known = self._pairs[places] == pairs
        units = np.concatenate([pieces, len(self._pieces) + places[known]])
        return np.concatenate([owners, owners[likely[known]]]), units

    @cached_property
    def _matcher(self) -> WordMatcher:
        many = len(self._pieces)
        return WordMatcher(self._pieces.ids, self._rows[:many], self._scales[:many, _QUERY])

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces((self._folder / "pieces.txt").read_text(encoding="utf-8").split("\n"))

    @cached_property
    def _pairs(self) -> NDArray[np.int64]:
        """The known pairs as one sorted number each; never empty, so that looking one up needs no special case."""
        both = np.fromfile(self._folder / "pairs.u2", np.dtype("<u2")).reshape(-1, 2).astype(np.int64)
        return both[:, 0] * _PAIR + both[:, 1] if both.size else np.array([-1], np.int64)

    @cached_property
    def _likely(self) -> NDArray[np.bool_]:
        """Whether a known pair has a hash: one look, where most pairs are not known."""
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
