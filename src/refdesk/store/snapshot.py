"""How are arrays kept in one file?  A line that describes them, then their bytes; quick to read, and checked."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


def write(file: Path, head: Mapping[str, Any], arrays: Arrays) -> None:
    """Puts the arrays in place of whatever the file held, in one step."""
    payload = [np.ascontiguousarray(array) for array in arrays.values()]
    checksum = 0
    for array in payload:
        checksum = zlib.crc32(array.data, checksum)
    shapes = [(name, array.dtype.str, array.shape) for name, array in zip(arrays, payload, strict=True)]
    line = json.dumps({**head, "arrays": shapes, "checksum": checksum})
    draft = file.with_name(f"{file.name}.tmp")  # one writer at a time, so one name: a killed one leaves no litter
    try:
        with draft.open("wb") as out:
            out.write(line.encode() + b"\n")
            for array in payload:
                out.write(array.data)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def read(file: Path) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of the file, which can't be written to; ValueError when it is damaged."""
    data = file.read_bytes()
    start = data.index(b"\n") + 1
    head = json.loads(data[:start])
    payload = memoryview(data)[start:]
    if zlib.crc32(payload) != head["checksum"]:
        raise ValueError("its checksum is wrong")
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape in head["arrays"]:
        dtype = np.dtype(kind)
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(payload[: count * dtype.itemsize], dtype).reshape(shape)
        payload = payload[count * dtype.itemsize :]
    return head, arrays
