"""How are the nearest of many vectors found?  Exactly with numpy, or nearly with turbovec's 4-bit codes."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]
Slots = NDArray[np.int64]

SAMPLE = 4096  # vectors that the codes are calibrated on
_DIMENSION_STEP = 8  # turbovec takes multiples of it


class Engine(Protocol):
    """Vectors in slots 0..n-1; removing one moves the last into its slot."""

    name: str

    def __len__(self) -> int: ...
    def add(self, vectors: Matrix) -> None: ...
    def remove(self, slot: int) -> None: ...
    def search(self, vector: Matrix, k: int, mask: Mask | None) -> Slots:
        """The slots of about the k nearest, best first, of those that the mask allows."""

    def dump(self) -> NDArray[Any]: ...


class ExactEngine:
    """One matrix product over everything."""

    name = "exact"

    def __init__(self, dimension: int) -> None:
        self._rows: Matrix = np.empty((64, dimension), np.float32)
        self._count = 0

    @classmethod
    def load(cls, dumped: NDArray[Any]) -> ExactEngine:
        """The engine that was dumped."""
        engine = cls(dumped.shape[1])
        engine.add(dumped)
        return engine

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Matrix:
        """All vectors in slot order."""
        return self._rows[: self._count]

    def add(self, vectors: Matrix) -> None:
        needed = self._count + len(vectors)
        if needed > len(self._rows):
            grown = np.empty((max(needed, 2 * len(self._rows)), self._rows.shape[1]), np.float32)
            grown[: self._count] = self.rows
            self._rows = grown
        self._rows[self._count : needed] = vectors
        self._count = needed

    def remove(self, slot: int) -> None:
        self._count -= 1
        self._rows[slot] = self._rows[self._count]

    def search(self, vector: Matrix, k: int, mask: Mask | None) -> Slots:
        scores = self.rows @ vector
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
            k = min(k, int(mask.sum()))
        k = min(k, self._count)
        if k <= 0:
            return np.empty(0, np.int64)
        best = np.argpartition(-scores, k - 1)[:k]
        return best[np.argsort(-scores[best], kind="stable")]

    def dump(self) -> NDArray[Any]:
        return self.rows


class TurboEngine:
    """turbovec: a scan over 4-bit codes, an eighth of the memory and several times faster."""

    name = "turbovec"

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def calibrated(cls, sample: Matrix) -> TurboEngine:
        """An empty engine for vectors like those of the sample."""
        index = _turbovec().TurboQuantIndex(dim=sample.shape[1], bit_width=4)
        index.calibrate(np.ascontiguousarray(sample))
        return cls(index)

    @classmethod
    def load(cls, dumped: NDArray[Any]) -> TurboEngine:
        """The engine that was dumped."""
        return cls(_turbovec().TurboQuantIndex.from_bytes(dumped.tobytes()))

    def __len__(self) -> int:
        return len(self._index)

    def add(self, vectors: Matrix) -> None:
        if len(vectors):
            self._index.add(np.ascontiguousarray(vectors))

    def remove(self, slot: int) -> None:
        self._index.swap_remove(slot)

    def search(self, vector: Matrix, k: int, mask: Mask | None) -> Slots:
        k = min(k, len(self) if mask is None else int(mask.sum()))
        if k <= 0:
            return np.empty(0, np.int64)
        _, slots = self._index.search(np.ascontiguousarray(vector[None, :]), k, mask=mask)
        return np.asarray(slots[0], np.int64)

    def dump(self) -> NDArray[Any]:
        return np.frombuffer(self._index.to_bytes(), np.uint8)


ENGINES: dict[str, type[ExactEngine] | type[TurboEngine]] = {
    ExactEngine.name: ExactEngine,
    TurboEngine.name: TurboEngine,
}


def turbovec_takes(dimension: int) -> bool:
    """Whether turbovec is here and takes vectors of that dimension."""
    if dimension % _DIMENSION_STEP:
        return False
    try:
        _turbovec()
    except ImportError:
        return False
    return True


def _turbovec() -> Any:
    return importlib.import_module("turbovec")
