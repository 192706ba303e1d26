"""Nearest vectors: exact search in 8-bit rows, candidates by 4-bit codes among many, and the file of these arrays."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import mmap
import os
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from refdesk.settings import set_for_native
from refdesk.system.files import replacing

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]
Slots = NDArray[np.int64]

SAMPLE = 4096  # vectors that the codes are calibrated on
CODES = "codes"
_DIMENSION_STEP = 8  # turbovec takes multiples of it
_STEPS = 127  # of a row's largest number, as in the record, so that nothing is lost twice
_BLOCK = 1 << 18  # numbers multiplied at a time: they stay in the processor's cache, and BLAS starts no threads
_PIECE = 1 << 20  # bytes of a file read at a time
_MORE = 32  # slots beyond those asked for, so that equals at the end are seen together
_TIED, _TIE = 2000, 1e-5
# Times the slots asked for that the codes offer, to be scored exactly; most of their time goes into sorting these.
# Of 36,000 nearest ones (120 for each of 300 queries) 159 were not offered at 1.1 times, 70 at 1.5 times, and of the
# first 60 of each query 21 and 13; behind a mask turbovec misses more: 9 of 12,000 at 3 times.
_OFFERED, _OFFERED_MASKED = 1.1, 3.0
_WORTH = 32  # times what the codes offer: among fewer, exact rows are faster, and turbovec's masked search can be slow
_PATIENCE = 3  # searches before the codes are laid out, which takes as long as twenty exact ones


class Rows:
    """Vectors of length 1 in slots 0..n-1, 8 bits a number; removing one moves the last into its slot."""

    def __init__(self, rows: NDArray[np.int8], scales: Matrix) -> None:
        self._rows = rows
        self._scales = scales
        self._count = len(rows)

    @classmethod
    def empty(cls, dimension: int, capacity: int = 64) -> Rows:
        """No rows, with room for some."""
        made = cls(np.empty((capacity, dimension), np.int8), np.empty(capacity, np.float32))
        made._count = 0
        return made

    def __len__(self) -> int:
        return self._count

    def add(self, vectors: Matrix) -> None:
        needed = self._count + len(vectors)
        self._reserve(needed)
        scales = np.abs(vectors).max(axis=1, initial=0) / _STEPS
        self._scales[self._count : needed] = scales
        self._rows[self._count : needed] = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
        self._count = needed

    def absorb(self, other: Rows) -> None:
        count, needed = len(other), self._count + len(other)
        self._reserve(needed)
        self._rows[self._count : needed] = other._rows[:count]
        self._scales[self._count : needed] = other._scales[:count]
        self._count = needed

    def vectors(self) -> Matrix:
        """The rows as vectors of length 1."""
        found: Matrix = self._rows[: self._count] * self._scales[: self._count, None]
        return found

    def remove(self, slot: int) -> None:
        self._count -= 1
        self._rows[slot] = self._rows[self._count]
        self._scales[slot] = self._scales[self._count]

    def _reserve(self, needed: int) -> None:
        if needed > len(self._rows):
            size = max(needed, 2 * len(self._rows))
            self._rows = grown(self._rows, self._count, size)
            self._scales = grown(self._scales, self._count, size)

    def scores(self, vector: Matrix, slots: Slots | None) -> Matrix:
        """About the cosine of the vector with each row, or with those in the slots."""
        count = self._count if slots is None else len(slots)
        found = np.empty(count, np.float32)
        step = max(1, _BLOCK // self._rows.shape[1])
        buffer = np.empty((min(step, count), self._rows.shape[1]), np.float32)
        for start in range(0, count, step):
            end = min(start + step, count)
            block = buffer[: end - start]
            block[...] = self._rows[start:end] if slots is None else self._rows[slots[start:end]]
            np.dot(block, vector, out=found[start:end])
        found *= self._scales[: self._count] if slots is None else self._scales[slots]
        return found

    def cosines(self, vector: Matrix, slots: Slots) -> NDArray[np.float64]:
        """The same to six digits, the same for equal rows wherever they are."""
        rows = self._rows.take(slots, axis=0).astype(np.float32)
        # Not a product by BLAS, which may add up a row in another order than its equal.
        found: NDArray[np.float64] = (np.einsum("ij,j->i", rows, vector) * self._scales[slots]).astype(np.float64)
        return found.round(6)

    def sums(self, groups: Sequence[Slots]) -> Matrix:
        """The sum of the vectors in each group of slots."""
        slots = np.concatenate(groups)
        rows, scales = self._rows.take(slots, axis=0).astype(np.float32), self._scales.take(slots)
        found, start = np.zeros((len(groups), rows.shape[1]), np.float32), 0
        for total, group in zip(found, groups, strict=True):
            end = start + len(group)
            np.dot(scales[start:end], rows[start:end], out=total)
            start = end
        return found

    def dump(self) -> dict[str, NDArray[Any]]:
        return {"rows": self._rows[: self._count], "scales": self._scales[: self._count]}

    def clear(self) -> None:
        self._count = 0


def grown(array: NDArray[Any], count: int, size: int) -> NDArray[Any]:
    """An array of that size which begins with the first `count` rows of this one."""
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[:count] = array[:count]
    return larger


class Codes:
    """turbovec: a scan over 4-bit codes, ten times as fast as over rows once they are laid out."""

    def __init__(self, index: Any = None, packed: NDArray[np.uint8] | None = None) -> None:
        self._index = index
        self._packed = packed
        self._mutex = threading.Lock()
        self._asked = 0

    @classmethod
    def calibrated(cls, sample: Matrix) -> Codes:
        """No codes, made for vectors like those of the sample."""
        index = _turbovec().TurboQuantIndex(dim=sample.shape[1], bit_width=4)
        index.calibrate(np.ascontiguousarray(sample))
        return cls(index)

    @property
    def ready(self) -> bool:
        """Whether they can be searched now; asked often enough, they are laid out in the background."""
        if not self.laid_out:
            self._asked += 1
            if self._asked == _PATIENCE + 1:
                # Not a daemon: a process must not end in the middle of turbovec's own code.
                threading.Thread(target=self._unpacked, name="refdesk-codes").start()
        return self.laid_out

    @property
    def laid_out(self) -> bool:
        """Whether they can be searched and changed without waiting."""
        return self._index is not None

    def add(self, vectors: Matrix) -> None:
        if len(vectors):
            self._unpacked().add(np.ascontiguousarray(vectors))

    def remove(self, slot: int) -> None:
        self._unpacked().swap_remove(slot)

    def search(self, vector: Matrix, k: int, mask: Mask | None) -> Slots:
        """The slots of about the k nearest, of those that the mask allows, which are at least k."""
        _, slots = self._unpacked().search(np.ascontiguousarray(vector[None, :]), k, mask=mask)
        return np.asarray(slots[0], np.int64)

    def dump(self, scratch: Path) -> tuple[int, Iterator[NDArray[np.uint8]]]:
        """Their size in bytes, and these, by way of a file: to_bytes() takes as much memory as they do, twice."""
        with self._mutex:
            if self._packed is not None:
                return len(self._packed), iter([self._packed])
        self._index.write(str(scratch), durable=False)  # searches go on
        return scratch.stat().st_size, _pieces(scratch)

    def _unpacked(self) -> Any:
        with self._mutex:
            if self._index is None:
                assert self._packed is not None
                index = _turbovec().TurboQuantIndex.from_bytes(self._packed.tobytes())
                index.prepare()
                self._index, self._packed = index, None
            return self._index


def _pieces(file: Path) -> Iterator[NDArray[np.uint8]]:
    with file.open("rb") as source:
        while len(piece := np.fromfile(source, np.uint8, _PIECE)):
            yield piece


class Engine:
    """Rows, and where they are many, codes for the same slots."""

    def __init__(self, rows: Rows, codes: Codes | None = None) -> None:
        self.rows = rows
        self.codes = codes

    @classmethod
    def load(cls, dumped: Mapping[str, NDArray[Any]]) -> Engine:
        """The engine that was dumped; without its codes where turbovec is missing."""
        rows = Rows(dumped["rows"], dumped["scales"])
        coded = CODES in dumped and turbovec_takes(dumped["rows"].shape[1])
        return cls(rows, Codes(packed=dumped[CODES]) if coded else None)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, vectors: Matrix) -> None:
        self.rows.add(vectors)
        if self.codes is not None:
            self.codes.add(vectors)

    def absorb(self, other: Engine) -> None:
        self.rows.absorb(other.rows)
        if self.codes is not None:
            self.codes.add(other.rows.vectors())

    def remove(self, slot: int) -> None:
        self.rows.remove(slot)
        if self.codes is not None:
            self.codes.remove(slot)

    def search(self, vector: Matrix, k: int, mask: Mask | None) -> Slots:
        """The slots of the k nearest of those that the mask allows, and of some more, in any order."""
        allowed = len(self) if mask is None else int(np.count_nonzero(mask))
        offered = int((_OFFERED if mask is None else _OFFERED_MASKED) * k) + _MORE
        slots: Slots | None = None
        if self.codes is not None and allowed > _WORTH * offered and self.codes.ready:
            return self.codes.search(vector, offered, mask)
        if mask is not None:
            slots = np.flatnonzero(mask)
        best = _best(self.rows.scores(vector, slots), k + _MORE)
        return best if slots is None else slots[best]


def _best(scores: Matrix, k: int) -> Slots:
    """Where the k highest scores are, with those that may be equal to the lowest of them."""
    if len(scores) <= k:
        return np.arange(len(scores))
    best = np.argpartition(scores, len(scores) - k)[len(scores) - k :]
    tied = np.flatnonzero(scores >= scores[best].min() - _TIE)
    return tied if len(tied) <= k + _TIED else best


def turbovec_takes(dimension: int) -> bool:
    """Whether turbovec is here and takes vectors of that dimension."""
    return dimension % _DIMENSION_STEP == 0 and importlib.util.find_spec("turbovec") is not None


def _turbovec() -> Any:
    # Its threads are rayon's, one for each processor if nothing is said: words are searched at the same time.
    set_for_native("RAYON_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))
    return importlib.import_module("turbovec")


# ── a file of arrays: a line that describes them, then their bytes; mapped to memory and checked ──

Arrays = Mapping[str, NDArray[Any]]

_ALIGNED = 64  # bytes: where every array starts, so that the processor reads it as fast as any
_SUMMED = 1 << 16  # bytes
_LINE = 4096  # bytes kept for the line, which is known when everything is written; it takes about 900


class _Part:
    """One array in the file, and the checksum of what was written of it."""

    def __init__(self, start: int, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.place, self.kind, self.shape = start, kind, shape
        self._sums, self._rest = 0, np.empty(0, np.uint8)

    def take(self, data: NDArray[np.uint8]) -> None:
        self.place += len(data)
        self._sums, self._rest = _sums(np.concatenate([self._rest, data]) if len(self._rest) else data, self._sums)

    @property
    def checksum(self) -> int:
        return zlib.crc32(self._rest.data, self._sums)


class ArrayFile:
    """A file of arrays that is written a slice of each at a time, in any order, by several threads."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._end = _LINE
        self.head: Mapping[str, Any] = {}  # names its version, to be set before all is written
        self._parts: dict[str, _Part] = {}
        self._mutex = threading.Lock()

    @classmethod
    @contextmanager
    def replacing(cls, file: Path) -> Iterator[ArrayFile]:
        """Takes the place of whatever the file held, in one step."""
        with replacing(file, is_only_writer=True, is_synced=False) as out:  # a damaged one is built anew
            made = cls(out)
            yield made
            about = [(name, part.kind.str, part.shape, part.checksum) for name, part in made._parts.items()]
            said = {**made.head, "arrays": about}
            line = json.dumps({**said, "checksum": zlib.crc32(json.dumps(said).encode())}).encode()
            assert len(line) < _LINE
            out.truncate(made._end)
            out.seek(0)
            out.write(line.ljust(_LINE - 1) + b"\n")

    def reserve(self, name: str, kind: DTypeLike, *shape: int) -> None:
        """Makes room for an array after those before."""
        part = self._parts[name] = _Part(self._end, np.dtype(kind), shape)
        size = math.prod(shape) * part.kind.itemsize
        self._end += size + _gap(size)

    def extend(self, arrays: Arrays) -> None:
        """Writes what comes next of each of the arrays."""
        for name, array in arrays.items():
            part = self._parts[name]
            data = np.ascontiguousarray(array, part.kind).reshape(-1).view(np.uint8)
            with self._mutex:
                self._out.seek(part.place)
                self._out.write(data.data)
            part.take(data)


def read_arrays(file: Path, version: int) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of the file, or of another version only the head; ValueError when it is damaged.

    Changing the arrays changes no file.
    """
    with file.open("rb") as source:
        # On Windows a mapped file can't be replaced.
        on_windows = os.name == "nt"
        data = bytearray(source.read()) if on_windows else mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)
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
        sums, rest = _sums(array.reshape(-1).view(np.uint8))
        if zlib.crc32(rest.data, sums) != checksum or any(data[end:start]):
            raise ValueError(f"the checksum of its {name} is wrong")
    if start != len(data):
        raise ValueError("it is longer or shorter than it says")
    return head, arrays


def _sums(data: NDArray[np.uint8], before: int = 0) -> tuple[int, NDArray[np.uint8]]:
    """A checksum of the sums of whole blocks, which is as fast as reading them, and a copy of the rest."""
    whole = len(data) - len(data) % _SUMMED
    sums = data[:whole].view(np.uint64).reshape(-1, _SUMMED // 8).sum(axis=1, dtype=np.uint64)
    return zlib.crc32(sums.data, before), data[whole:].copy()


def _gap(size: int) -> int:
    return -size % _ALIGNED
