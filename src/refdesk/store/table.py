"""Which vectors, within a filter, are nearest?  An engine's slots with the attributes of each."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.model import Filters
from refdesk.store.attributes import Attributes, Mask
from refdesk.store.engines import Engine, Matrix
from refdesk.store.filters import Scope

_MASKS = 32
_WAITING = 8  # slices that are read ahead of what is done with their vectors
_FEW_GONE = 256  # chunks that are fetched and left out; more are masked


class Table:
    """Vectors by chunk id, with what filters ask about them."""

    def __init__(self, engine: Engine, attributes: Attributes | None = None) -> None:
        self.engine = engine
        self.attributes = attributes or Attributes()
        self._masks: OrderedDict[Filters, Mask] = OrderedDict()

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The chunk in each slot."""
        return self.attributes.ids

    def add(self, found: Sequence[tuple[Any, ...]], vectors: Matrix) -> None:
        """Takes rows as Attributes does, with a vector for each."""
        if found:
            self.engine.add(vectors)
            self.attributes.add(found)

    def fill(
        self, slices: Iterable[Sequence[tuple[Any, ...]]], add: Callable[[Sequence[tuple[Any, ...]]], None]
    ) -> None:
        """Takes many rows; while their vectors are added, which needs little Python, the next rows are read."""
        waiting: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1) as beside:
            for found in slices:
                waiting.append(beside.submit(add, found))
                self.attributes.add(found)
                if len(waiting) > _WAITING:
                    waiting.popleft().result()
            for one in waiting:
                one.result()

    def remove(self, chunk_ids: Collection[int]) -> None:
        """Lets go of those of the chunks that are here."""
        for slot in self.attributes.remove(list(chunk_ids)):
            self.engine.remove(slot)

    def search(
        self, vector: Matrix, scope: Scope, k: int, gone: Collection[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k nearest chunks within the scope, and some more, without those that are gone; and their cosines."""
        mask = self._mask(scope) if scope.filters or scope.collections is not None else None
        extra = len(gone)
        if len(gone) > _FEW_GONE:
            alive = ~np.isin(self.ids, np.array(list(gone), np.int64))
            mask, extra = alive if mask is None else mask & alive, 0
        slots = self.engine.search(vector, k + extra, mask)
        if gone:
            slots = slots[[chunk_id not in gone for chunk_id in self.ids[slots].tolist()]]
        return self.ids[slots], self.engine.rows.cosines(vector, slots)

    def cosines(self, vector: Matrix, chunk_ids: Sequence[int]) -> dict[int, float]:
        """The cosines of those of the chunks that are here."""
        slots = self.attributes.slots(chunk_ids)
        scores = self.engine.rows.cosines(vector, slots)
        return dict(zip(self.ids[slots].tolist(), scores.tolist(), strict=True))

    def _mask(self, scope: Scope) -> Mask:
        mask = self._masks.get(scope.filters)
        if mask is None:
            mask = self._masks[scope.filters] = self.attributes.mask(scope)
            while len(self._masks) > _MASKS:
                self._masks.popitem(last=False)
        return mask

    def forget_masks(self) -> None:
        """Lets go of what filters meant so far."""
        self._masks.clear()
