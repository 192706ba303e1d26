"""A file of arrays: a line that describes them, then their bytes; mapped to memory and checked."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.system.files import replacing

Arrays = Mapping[str, NDArray[Any]]

_ALIGNED = 64  # bytes: where every array starts, so that the processor reads it as fast as any
_BLOCK = 1 << 16


def write(file: Path, head: Mapping[str, Any], arrays: Arrays) -> None:
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


def read(file: Path, version: int) -> tuple[dict[str, Any], Arrays]:
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
