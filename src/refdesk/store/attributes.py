"""What do filters ask about each vector?  Columns of codes, one entry per slot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.store import rows
from refdesk.store.filters import Scope, satisfies

_CODED = ("kind", "type", "language", "extension", "metadata")
_WIDE = ("id", "document", "text")
_COLUMNS = (*_WIDE, "collection", *_CODED)
Mask = NDArray[np.bool_]


class Attributes:
    """Columns that grow at the end; removing a slot moves the last one into it, as the engines do."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.empty(64, np.int64 if name in _WIDE else np.int32) for name in _COLUMNS
        }
        self._values: dict[str, list[str]] = {name: [] for name in _CODED}
        self._codes: dict[str, dict[str, int]] | None = None  # of the values, once some are added
        self._by_id: NDArray[np.int64] | None = None  # slots in the order of their ids
        self._in_order = False

    def __len__(self) -> int:
        return self._count

    @property
    def ids(self) -> NDArray[np.int64]:
        """The chunk in each slot."""
        ids: NDArray[np.int64] = self._columns["id"][: self._count]
        return ids

    def slots(self, chunk_ids: Sequence[int]) -> NDArray[np.int64]:
        """Where those of the chunks are that are here."""
        if not self._count:
            return np.empty(0, np.int64)
        wanted = np.array(chunk_ids, np.int64)
        # Where nothing was removed, ids follow upon each other: no need to search for them.
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

    def texts(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        """The texts of those of the chunks that are here."""
        slots = self.slots(chunk_ids)
        return dict(zip(self.ids[slots].tolist(), self._columns["text"][slots].tolist(), strict=True))

    # changing

    def add(self, found: Sequence[Sequence[Any]]) -> None:
        """Appends rows of id, document, text, collection, kind, type, language, extension and the two metadata."""
        start, end = self._count, self._count + len(found)
        self._grow(end)
        self._by_id = None
        columns = list(zip(*found, strict=True))
        merged = tuple(map(_merged, columns[8], columns[9]))
        for name, values in zip(_COLUMNS, (*columns[:8], merged), strict=True):
            self._columns[name][start:end] = self._coded(name, values) if name in _CODED else values
        self._count = end

    def remove(self, chunk_ids: Sequence[int]) -> Iterator[int]:
        """Removes those of the chunks that are here, giving each slot as it is freed."""
        found = np.flatnonzero(np.isin(self.ids, np.array(chunk_ids, np.int64)))
        slots = dict(zip(self.ids[found].tolist(), found.tolist(), strict=True))
        self._by_id = None
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
            for name, column in self._columns.items():
                grown = np.empty(size, column.dtype)
                grown[: self._count] = column[: self._count]
                self._columns[name] = grown

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
        """Which slots the scope allows."""
        filters = scope.filters
        allowed = np.ones(self._count, np.bool_)
        for name, wanted in (
            ("collection", scope.collections),
            ("document", scope.documents),
            ("document", scope.below),
        ):
            if wanted is not None:
                allowed &= np.isin(self._columns[name][: self._count], np.array(wanted, np.int64))
        extensions = tuple(extension.lower().removeprefix(".") for extension in filters.extensions)
        for name, accepted in (
            ("kind", filters.kinds),
            ("type", filters.types),
            ("language", filters.languages),
            ("extension", extensions),
        ):
            if accepted:
                allowed &= self._having(name, [value in accepted for value in self._values[name]])
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
        """The columns and their values as arrays."""
        values = np.frombuffer(json.dumps(self._values).encode(), np.uint8)
        return {**{name: column[: self._count] for name, column in self._columns.items()}, "values": values}

    @classmethod
    def load(cls, dumped: Mapping[str, NDArray[Any]]) -> Attributes:
        """The attributes that were dumped; their arrays are the same ones."""
        loaded = cls()
        loaded._columns = {name: dumped[name] for name in _COLUMNS}
        loaded._count = len(loaded._columns["id"])
        loaded._values = json.loads(dumped["values"].tobytes())
        return loaded


def _merged(document: str, chunk: str) -> str:
    if chunk == "{}":
        return document
    if document == "{}":
        return chunk
    return rows.dump({**rows.load_map(document), **rows.load_map(chunk)})
