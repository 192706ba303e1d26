"""Where do fetched bodies wait?  In a file that is only added to, so that a kill loses nothing and nothing is moved."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from refdesk.store.folder import private

_HEAD = struct.Struct(">4sIQ")
_MARK = b"RDB1"
_MOST_NOTE = 1_000_000


class Spool:
    """Bodies, each behind a note on it; usable by one writer and several readers."""

    def __init__(self, file: Path, *, is_synced: bool = False) -> None:
        self._path = file
        self._is_synced = is_synced
        self._writer: IO[bytes] | None = None
        self._reader: IO[bytes] | None = None
        self.size = 0

    def append(self, note: Mapping[str, Any], data: bytes) -> int:
        """Adds a body; where it is.  It is there for good when this returns."""
        writer = self._writer or self._open()
        told = json.dumps(note).encode()
        left = memoryview(b"".join((_HEAD.pack(_MARK, len(told), len(data)), told, data)))
        while left:
            left = left[writer.write(left) :]
        if self._is_synced:
            os.fsync(writer.fileno())
        at = self.size + _HEAD.size + len(told)
        self.size = at + len(data)
        return at

    def read(self, at: int, size: int) -> bytes | None:
        """The body at a place; None when it is not there, as a power cut may leave it."""
        try:
            self._reader = self._reader or self._path.open("rb", buffering=0)  # it may begin anew
            self._reader.seek(at)
            data = self._reader.read(size)
        except OSError:
            return None
        return data if len(data) == size else None

    def notes(self, start: int) -> Iterator[tuple[dict[str, Any], int, int]]:
        """What was added from a place on: each note, and where its body is; a torn end is cut off."""
        writer = self._writer or self._open()
        with self._path.open("rb") as file:
            while start < self.size:
                file.seek(start)
                found = _note(file, self.size)
                if found is None:
                    writer.truncate(start)
                    self.size = start
                    return
                note, size = found
                at = file.tell()
                start = at + size
                yield note, at, size

    def restart(self) -> None:
        """Drops all bodies: the next is the first."""
        writer = self._writer or self._open()
        writer.truncate(0)
        self.size = 0

    def remove(self) -> None:
        """Drops all bodies, and the file."""
        self.close()
        with contextlib.suppress(OSError):  # Windows keeps what another process has open
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        for file in (self._writer, self._reader):
            if file is not None:
                file.close()
        self._writer = self._reader = None
        self.size = 0

    def _open(self) -> IO[bytes]:
        self._writer = open(self._path, "ab", buffering=0, opener=private)  # noqa: SIM115 - closed by close()
        self.size = self._path.stat().st_size
        return self._writer


def _note(file: IO[bytes], end: int) -> tuple[dict[str, Any], int] | None:
    """The note that begins here and the size of its body; None when they are not whole."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    mark, told, size = _HEAD.unpack(head)
    if mark != _MARK or told > _MOST_NOTE or file.tell() + told + size > end:
        return None
    try:
        note = json.loads(file.read(told))
    except ValueError:
        return None
    return (note, size) if isinstance(note, dict) else None
