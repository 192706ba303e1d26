"""How well do a text's words meet a query's?  The static model's pieces, compared one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MOST_ASKED = 32  # of a query's pieces
MOST_READ = 96  # of a text's pieces
_AT_ONCE = 550  # characters that are spelt before it is seen whether more are needed
_ALONE = 1 << 18  # multiplications at a time: for more BLAS wakes threads, which then keep the processor busy waiting
_REMEMBERED = 5_000  # texts whose pieces are kept: 2 MB at most


class WordMatcher:
    """For each piece of a query the nearest piece of a text, averaged by how much the piece counts in a query.

    Products of int8 numbers are whole and add up to less than 2**24, so float32 adds them exactly in any order.
    """

    def __init__(self, ids: Callable[[str], bytes], rows: NDArray[np.int8], weights: NDArray[np.float32]) -> None:
        self._rows = rows  # of the pieces
        self._weights = weights  # of the pieces in a query
        self._lengths = np.zeros(len(rows), np.float32)  # of the rows; 0 where not yet needed
        self._ids = ids
        self._read = lru_cache(_REMEMBERED)(self._spelt)

    def _spelt(self, text: str) -> bytes:
        """The text's first pieces; of a long text no more is spelt than they take."""
        found, start = b"", 0
        while len(found) < 2 * MOST_READ and start < len(text):
            end = text.rfind(" ", start + 1, start + _AT_ONCE) if len(text) - start > _AT_ONCE else len(text)
            end = end if end > 0 else len(text)  # no piece goes over a blank, but over anything else it may
            found += self._ids(text[start:end])
            start = end
        return found[: 2 * MOST_READ]

    def match(self, query: str, texts: Sequence[str | bytes]) -> list[float]:
        """For each text, spelt or not: 1 where it has all of the query's pieces, about 0 where none is like them."""
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
        """A row for each piece asked, a column for each read; each different piece is compared once."""
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
