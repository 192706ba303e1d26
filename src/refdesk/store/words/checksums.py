"""Checks the checksums that tantivy writes at the end of each file."""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refdesk.errors import RefdeskError

Checked = dict[str, tuple[int, int]]  # sizes and times of the files that were found sound, by name

_META = "meta.json"  # which segments there are; tantivy replaces it as a whole
_FOOTER = struct.Struct("<II")  # the length of what is said of the file, in JSON, and a mark
_MARK = 1337
_TRIES = 5


class IndexDamaged(Exception):
    """The full-text index could not be read or written as it should."""


@contextmanager
def seam() -> Iterator[None]:
    """Where tantivy is called: what it says in any of many types, a panic of Rust among them, is one error."""
    try:
        yield
    except RefdeskError:
        raise
    except BaseException as error:
        # A panic is no Exception, so that nobody goes on after it by accident; its type can't be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise IndexDamaged(str(error) or type(error).__name__) from error


def check(folder: Path, checked: Checked) -> None:
    """Reads every file of the last commit that was not found sound before; ValueError when one is not.

    Another process may commit meanwhile and remove what was merged: then the next commit is looked at.
    """
    for last in range(_TRIES - 1, -1, -1):
        names = _segments((folder / _META).read_bytes())
        try:
            with os.scandir(folder) as found:
                files = [(file, file.stat()) for file in found if file.name.partition(".")[0] in names]
            for file, about in files:
                state = (about.st_size, about.st_mtime_ns)
                if checked.get(file.name) != state:
                    _check_file(Path(file.path))
                    checked[file.name] = state
            return
        except FileNotFoundError:
            if not last:
                raise


def of_schema(folder: Path) -> int:
    """A checksum of what meta.json says of fields and settings, which never change."""
    said = json.loads((folder / _META).read_bytes())
    return zlib.crc32(json.dumps([said["schema"], said["index_settings"]], sort_keys=True).encode())


def _segments(meta: bytes) -> set[str]:
    return {one["segment_id"].replace("-", "") for one in json.loads(meta)["segments"]}


def _check_file(file: Path) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < _FOOTER.size:
            raise ValueError(f"{file.name} is cut off")
        length, mark = _FOOTER.unpack(data[-_FOOTER.size :])
        end = len(data) - _FOOTER.size - length
        if mark != _MARK or end < 0:
            raise ValueError(f"{file.name} is cut off")
        said = json.loads(data[end : -_FOOTER.size])["crc"]
        with memoryview(data) as view, view[:end] as body:
            if zlib.crc32(body) != said:
                raise ValueError(f"the checksum of {file.name} is wrong")
