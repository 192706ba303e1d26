"""Vectors with the attributes that filters test, and the search within a filter."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.model import Filters, Origin
from refdesk.store.record import rows
from refdesk.store.record.filters import Scope, satisfies
from refdesk.store.vectors.engines import ArrayFile, Engine, Matrix, grown

# ── attributes: columns of codes, one entry per slot ──

_CODED = ("kind", "type", "language", "path", "metadata")
WIDE = ("id", "document", "text")
_COLUMNS = (*WIDE, "collection", *_CODED)
Mask = NDArray[np.bool_]


_origin = partial(tuple.__new__, Origin)  # a third of the time that Origin() takes, for the 200 of each query


class Attributes:
    """Columns that grow at the end; removing a slot moves the last one into it, as the engines do."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.empty(64, np.int64 if name in WIDE else np.int32) for name in _COLUMNS
        }
        self._values: dict[str, list[str]] = {name: [] for name in _CODED}
        self._codes: dict[str, dict[str, int]] | None = None  # of the values, once some are added
        self._by_id: NDArray[np.int64] | None = None  # slots in the order of their ids
        self._highest: int | None = None  # id, or of one that was here
        self._in_order = False
        self._by_document: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # slots in its order, and it

    def __len__(self) -> int:
        return self._count

    @property
    def ids(self) -> NDArray[np.int64]:
        ids: NDArray[np.int64] = self._columns["id"][: self._count]
        return ids

    def slots(self, chunk_ids: Sequence[int]) -> NDArray[np.int64]:
        """The slots of the chunks that are here."""
        if not self._count:
            return np.empty(0, np.int64)
        wanted = np.array(chunk_ids, np.int64)
        # If nothing was removed, ids are consecutive and need no search.
        counted: NDArray[np.int64] = np.clip(wanted - self.ids[0], 0, self._count - 1)
        if (self.ids[counted] == wanted).all():
            return counted
        if self._by_id is None:
            self._by_id = np.argsort(self.ids, kind="stable")
            self._in_order = bool((self._by_id[1:] > self._by_id[:-1]).all())
        if self._in_order:
            found = np.minimum(np.searchsorted(self.ids, wanted), self._count - 1)
        else:
            places = np.searchsorted(self.ids, wanted, sorter=self._by_id)
            found = self._by_id[np.minimum(places, self._count - 1)]
        here: NDArray[np.int64] = found[self.ids[found] == wanted]
        return here

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        """The text and document of the chunks that are here."""
        slots = self.slots(chunk_ids)
        ids, documents, texts, codes = (self._columns[name][slots].tolist() for name in (*WIDE, "path"))
        columns = zip(texts, documents, map(self._values["path"].__getitem__, codes), strict=True)
        return dict(zip(ids, map(_origin, columns), strict=True))

    def owners(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        """The documents of the chunks that are here."""
        slots = self.slots(chunk_ids)
        return dict(zip(self.ids[slots].tolist(), self._columns["document"][slots].tolist(), strict=True))

    def slots_within(self, documents: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The slots of each document's chunks."""
        if (known := self._by_document) is None:
            column = self._columns["document"][: self._count]
            order = np.argsort(column, kind="stable")
            known = self._by_document = order, column[order]
        order, column = known
        starts, ends = np.searchsorted(column, documents), np.searchsorted(column, documents, side="right")
        return [order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    # changing

    def add(self, found: Sequence[Sequence[Any]]) -> None:
        """Appends rows of id, document, text, collection, kind, type, language, path and the two metadata."""
        start, end = self._count, self._count + len(found)
        self._grow(end)
        self._by_id = self._by_document = self._highest = None
        columns = list(zip(*found, strict=True))
        merged = tuple(map(_merged, columns[8], columns[9]))
        for name, values in zip(_COLUMNS, (*columns[:8], merged), strict=True):
            self._columns[name][start:end] = self._coded(name, values) if name in _CODED else values
        self._count = end

    def absorb(self, other: Attributes) -> None:
        start, end = self._count, self._count + len(other)
        self._grow(end)
        self._by_id = self._by_document = self._highest = None
        for name, column in other.dump().items():
            recoded = np.array(self._coded(name, other._values[name]), np.int32)[column] if name in _CODED else column
            self._columns[name][start:end] = recoded
        self._count = end

    def present(self, chunk_ids: Sequence[int]) -> list[int]:
        """Those of the chunks that are here; most are newer than any that is."""
        if self._highest is None:
            self._highest = int(self.ids.max(initial=-1))
        older = [chunk_id for chunk_id in chunk_ids if chunk_id <= self._highest]
        present: list[int] = self.ids[self.slots(older)].tolist() if older else []
        return present

    def remove(self, chunk_ids: Sequence[int]) -> Iterator[int]:
        """Removes the chunks that are here; yields each freed slot."""
        found = np.flatnonzero(np.isin(self.ids, np.array(chunk_ids, np.int64)))
        slots = dict(zip(self.ids[found].tolist(), found.tolist(), strict=True))
        self._by_id = self._by_document = None
        while slots:
            _, slot = slots.popitem()
            last = self._count - 1
            if slot != last:
                for column in self._columns.values():
                    column[slot] = column[last]
                moved = int(self._columns["id"][slot])
                if moved in slots:
                    slots[moved] = slot
            self._count = last
            yield slot

    def _grow(self, needed: int) -> None:
        if needed > len(self._columns["id"]):
            size = max(needed, 2 * len(self._columns["id"]))
            self._columns = {name: grown(column, self._count, size) for name, column in self._columns.items()}

    def _coded(self, name: str, values: Sequence[str]) -> list[int]:
        if self._codes is None:
            self._codes = {
                key: {known: number for number, known in enumerate(values)} for key, values in self._values.items()
            }
        codes = self._codes[name]
        for value in dict.fromkeys(values):
            if value not in codes:
                codes[value] = len(codes)
                self._values[name].append(value)
        return [codes[value] for value in values]

    # asking

    def mask(self, scope: Scope) -> Mask:
        """The mask of the slots within the scope."""
        filters = scope.filters
        allowed = np.ones(self._count, np.bool_)
        for name, wanted in (("collection", scope.collections), ("document", scope.within)):
            if wanted is not None:
                allowed &= np.isin(self._columns[name][: self._count], np.array(list(wanted), np.int64))
        for name, accepted in (("kind", filters.kinds), ("type", filters.types), ("language", filters.languages)):
            if accepted:
                allowed &= self._having(name, [value in accepted for value in self._values[name]])
        if filters.extensions:
            extensions = map(rows.extension, self._values["path"])
            allowed &= self._having("path", [each in filters.extensions for each in extensions])
        if filters.metadata:
            parsed = [rows.load_map(value) for value in self._values["metadata"]]
            allowed &= self._having("metadata", [satisfies(value, filters.metadata) for value in parsed])
        return allowed

    def _having(self, name: str, ok: list[bool]) -> Mask:
        if not any(ok):
            return np.zeros(self._count, np.bool_)
        chosen: Mask = np.array(ok, np.bool_)[self._columns[name][: self._count]]
        return chosen

    # keeping

    def dump(self) -> dict[str, NDArray[Any]]:
        """The columns as arrays."""
        return {name: column[: self._count] for name, column in self._columns.items()}

    def dump_values(self) -> NDArray[np.uint8]:
        """The values that are coded in columns."""
        return np.frombuffer(json.dumps(self._values).encode(), np.uint8)

    def clear(self) -> None:
        """Removes every slot; the codes of values stay."""
        self._count = 0
        self._by_id = self._by_document = None

    @classmethod
    def load(cls, dumped: Mapping[str, NDArray[Any]]) -> Attributes:
        loaded = cls()
        loaded._columns = {name: dumped[name] for name in _COLUMNS}
        loaded._columns |= {name: dumped[name].astype(np.int64) for name in WIDE}
        loaded._count = len(loaded._columns["id"])
        loaded._values = json.loads(dumped["values"].tobytes())
        return loaded


def _merged(document: str, chunk: str) -> str:
    if chunk == "{}":
        return document
    if document == "{}":
        return chunk
    return rows.dump({**rows.load_map(document), **rows.load_map(chunk)})


_MASKS = 32
_WAITING = 2  # slices read ahead
_FEW_GONE = 256  # removed chunks up to which more hits are fetched instead of masking


class Table:
    """Vectors by chunk id, with their attributes."""

    def __init__(self, engine: Engine, attributes: Attributes | None = None) -> None:
        self.engine = engine
        self.attributes = attributes or Attributes()
        self._masks: OrderedDict[Filters, Mask] = OrderedDict()

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.attributes.ids

    def add(self, found: Sequence[tuple[Any, ...]], vectors: Matrix) -> None:
        """Takes rows as Attributes does, with a vector for each."""
        if found:
            self.engine.add(vectors)
            self.attributes.add(found)

    def fill(
        self,
        slices: Iterable[Sequence[tuple[Any, ...]]],
        add: Callable[[Sequence[tuple[Any, ...]]], None],
        out: ArrayFile | None = None,
    ) -> None:
        """Adds many rows; the next rows are read while vectors are added in a thread, mostly outside Python.

        With `out` the attributes go there, and only their values are held.
        """
        waiting: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1) as beside:
            for found in slices:
                waiting.append(beside.submit(add, found))
                self.attributes.add(found)
                if out is not None:
                    out.extend(self.attributes.dump())
                    self.attributes.clear()
                if len(waiting) > _WAITING:
                    waiting.popleft().result()
            for one in waiting:
                one.result()

    def absorb(self, other: Table) -> None:
        self.engine.absorb(other.engine)
        self.attributes.absorb(other.attributes)

    def remove(self, chunk_ids: Collection[int]) -> None:
        """Removes the chunks that are here."""
        for slot in self.attributes.remove(list(chunk_ids)):
            self.engine.remove(slot)

    def search(
        self, vector: Matrix, scope: Scope, k: int, gone: Collection[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k nearest chunks within the scope, and some more, without `gone` ones; and their cosines."""
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
        """The cosines of the chunks that are here."""
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
        self._masks.clear()


def reserve(out: ArrayFile, count: int, dimension: int, largest: int) -> None:
    """Makes room for so many rows of a table whose ids are at most the largest."""
    for name in _COLUMNS:  # half the room, unless a library is very old
        out.reserve(name, np.int64 if name in WIDE and largest >= 2**31 else np.int32, count)
    out.reserve("rows", np.int8, count, dimension)
    out.reserve("scales", np.float32, count)
