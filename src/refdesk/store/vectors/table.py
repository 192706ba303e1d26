"""Vectors with the attributes that filters test, and the search within a filter."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.model import Filters, Origin
from refdesk.store.record import rows
from refdesk.store.record.filters import Scope, satisfies
from refdesk.store.vectors.engines import Engine, Matrix
from refdesk.system.files import replacing

Arrays = Mapping[str, NDArray[Any]]

# ── attributes: columns of codes, one entry per slot ──

_CODED = ("kind", "type", "language", "path", "metadata")
_WIDE = ("id", "document", "text")
_COLUMNS = (*_WIDE, "collection", *_CODED)
Mask = NDArray[np.bool_]


_origin = partial(tuple.__new__, Origin)  # a third of the time that Origin() takes, for the 200 of each query


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
        self._by_document: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # slots in its order, and it

    def __len__(self) -> int:
        return self._count

    @property
    def ids(self) -> NDArray[np.int64]:
        """The chunk in each slot."""
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
        ids, documents, texts, codes = (self._columns[name][slots].tolist() for name in (*_WIDE, "path"))
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
        self._by_id = self._by_document = None
        columns = list(zip(*found, strict=True))
        merged = tuple(map(_merged, columns[8], columns[9]))
        for name, values in zip(_COLUMNS, (*columns[:8], merged), strict=True):
            self._columns[name][start:end] = self._coded(name, values) if name in _CODED else values
        self._count = end

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
        """The mask of the slots within the scope."""
        filters = scope.filters
        allowed = np.ones(self._count, np.bool_)
        for name, wanted in (("collection", scope.collections), ("document", scope.within)):
            if wanted is not None:
                allowed &= np.isin(self._columns[name][: self._count], np.array(list(wanted), np.int64))
        for name, accepted in (
            ("kind", filters.kinds),
            ("type", filters.types),
            ("language", filters.languages),
        ):
            if accepted:
                allowed &= self._having(name, [value in accepted for value in self._values[name]])
        if filters.extensions:
            allowed &= self._having(
                "path", [rows.extension(path) in filters.extensions for path in self._values["path"]]
            )
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
        columns = {name: column[: self._count] for name, column in self._columns.items()}
        for name in _WIDE:  # half the room, unless a library is very old
            if columns[name].max(initial=0) < 2**31:
                columns[name] = columns[name].astype(np.int32)
        return {**columns, "values": values}

    @classmethod
    def load(cls, dumped: Mapping[str, NDArray[Any]]) -> Attributes:
        """The attributes that were dumped."""
        loaded = cls()
        loaded._columns = {name: dumped[name] for name in _COLUMNS}
        loaded._columns |= {name: dumped[name].astype(np.int64) for name in _WIDE}
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
_WAITING = 8  # slices read ahead
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
        """Adds many rows; the next rows are read while vectors are added in a thread, mostly outside Python."""
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
        """Drops the cached masks."""
        self._masks.clear()


# --- a file of arrays: a line that describes them, then their bytes; mapped to memory and checked --------------

_ALIGNED = 64  # bytes: where every array starts, so that the processor reads it as fast as any
_BLOCK = 1 << 16


def write_arrays(file: Path, head: Mapping[str, Any], arrays: Arrays) -> None:
    """Puts the arrays in place of whatever the file held, in one step; the head names its version."""
    payload = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    about = [(name, array.dtype.str, array.shape, _checksum(array)) for name, array in payload.items()]
    said = {**head, "arrays": about}
    line = json.dumps({**said, "checksum": zlib.crc32(json.dumps(said).encode())}).encode()
    with replacing(file, is_only_writer=True, is_synced=False) as out:  # a damaged one is built anew
        out.write(line + b" " * (_gap(len(line) + 1)) + b"\n")
        for array in payload.values():
            out.write(array.data)
            out.write(bytes(_gap(array.nbytes)))


def read_arrays(file: Path, version: int) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of the file, or of another version only the head; ValueError when it is damaged.

    Changing the arrays changes no file.
    """
    data = _mapped(file)
    start = data.find(b"\n") + 1
    head = json.loads(data[:start])
    if head["version"] != version:
        return head, {}
    if head.pop("checksum") != zlib.crc32(json.dumps(head).encode()):
        raise ValueError("the checksum of its head is wrong")
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape, checksum in head["arrays"]:
        count = int(np.prod(shape))
        array = arrays[name] = np.frombuffer(data, np.dtype(kind), count, start).reshape(shape)
        end = start + array.nbytes
        start = end + _gap(array.nbytes)
        if _checksum(array) != checksum or any(data[end:start]):
            raise ValueError(f"the checksum of its {name} is wrong")
    if start != len(data):
        raise ValueError("it is longer or shorter than it says")
    return head, arrays


def _mapped(file: Path) -> mmap.mmap | bytearray:
    if os.name == "nt":  # there a mapped file can't be replaced
        return bytearray(file.read_bytes())
    with file.open("rb") as source:
        return mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)


def _checksum(array: NDArray[Any]) -> int:
    """A sum for each block, and a checksum of these and of the rest: as fast as reading it."""
    data = array.reshape(-1).view(np.uint8)
    whole = len(data) - len(data) % _BLOCK
    sums = data[:whole].view(np.uint64).reshape(-1, _BLOCK // 8).sum(axis=1, dtype=np.uint64)
    return zlib.crc32(data[whole:].tobytes(), zlib.crc32(sums.tobytes()))


def _gap(size: int) -> int:
    return -size % _ALIGNED
