"""A file of arrays: a line that describes them, then their bytes; mapped to memory and checked."""

from __future__ import annotations

import json
import math
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from refdesk.system.files import replacing

Arrays = Mapping[str, NDArray[Any]]

_ALIGNED = 64  # bytes: where every array starts, so that the processor reads it as fast as any
_BLOCK = 1 << 16
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
        self._mutex = Lock()

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
        sums, rest = _sums(array.reshape(-1).view(np.uint8))
        if zlib.crc32(rest.data, sums) != checksum or any(data[end:start]):
            raise ValueError(f"the checksum of its {name} is wrong")
    if start != len(data):
        raise ValueError("it is longer or shorter than it says")
    return head, arrays


def _mapped(file: Path) -> mmap.mmap | bytearray:
    if os.name == "nt":  # there a mapped file can't be replaced
        return bytearray(file.read_bytes())
    with file.open("rb") as source:
        return mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)


def _sums(data: NDArray[np.uint8], before: int = 0) -> tuple[int, NDArray[np.uint8]]:
    """A checksum of the sums of whole blocks, which is as fast as reading them, and a copy of the rest."""
    whole = len(data) - len(data) % _BLOCK
    sums = data[:whole].view(np.uint64).reshape(-1, _BLOCK // 8).sum(axis=1, dtype=np.uint64)
    return zlib.crc32(sums.data, before), data[whole:].copy()


def _gap(size: int) -> int:
    return -size % _ALIGNED
