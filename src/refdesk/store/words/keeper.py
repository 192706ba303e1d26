"""Threads that look after the full-text index, and the checks of its files."""

from __future__ import annotations

import json
import logging
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

META_FILE = "meta.json"
_CHECK_EVERY_S = 300.0  # interval of full checks in a long-lived process
_IDLE_S = 2.0  # after which a short queue is flushed too, for readers that can't write
Checked = dict[str, tuple[int, int]]  # sizes and times of the files that were found sound, by name
_FOOTER = struct.Struct("<II")  # at the end of each file: the length of its description in JSON, and a mark
_FOOTER_MARK = 1337
_TRIES = 5  # to list the files of a commit while other processes commit and merge


class Keeper:
    """A thread that calls `repair` periodically, or when the index is in doubt; then it calls `reopen` first."""

    def __init__(self, folder: Path, reopen: Callable[[], None], repair: Callable[[], None]) -> None:
        self._folder = folder
        self._reopen = reopen
        self._repair = repair
        self.is_started = False
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()
        self._in_doubt = False  # whether it must look now
        self._wake = threading.Event()
        self._closing = False

    def start(self) -> None:
        """Starts the thread, if it has not been started."""
        with self._mutex:
            if not self.is_started and not self._closing:
                self.is_started = True
                self._thread = threading.Thread(target=self._keep, name="refdesk-keeper", daemon=True)
                self._thread.start()

    def doubt(self, why: str) -> None:
        """Checks the index now."""
        if not self._in_doubt:
            _log.warning("the full-text index of %s is checked: %s", self._folder, why)
        self._in_doubt = True
        self.start()
        self._wake.set()

    def close(self) -> None:
        """Ends the thread, after what is in doubt was checked."""
        with self._mutex:
            self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _keep(self) -> None:
        while not self._closing or self._in_doubt:
            self._wake.wait(_CHECK_EVERY_S)
            self._wake.clear()
            if self._in_doubt or not self._closing:
                if self._in_doubt:
                    self._in_doubt = False
                    self._reopen()  # the copy in memory may be damaged too
                try:
                    self._repair()
                except Exception as error:
                    _log.warning("the full-text index of %s could not be rebuilt: %s", self._folder, error)


class IdleFlusher:
    """A thread that calls `flush` every two seconds as long as something is queued."""

    def __init__(self, queued: Callable[[], int], flush: Callable[[], None]) -> None:
        self._queued = queued
        self._flush = flush
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()
        self._closing = threading.Event()

    def start(self) -> None:
        """Starts the thread, unless it is running or nothing is queued."""
        with self._mutex:
            if self._queued() and self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="refdesk-flush", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if (running := self._thread) is not None:
            running.join()

    def _run(self) -> None:
        while not self._closing.wait(_IDLE_S):
            self._flush()
            with self._mutex:
                if not self._queued():
                    self._thread = None
                    return


# --- the checksums that tantivy writes at the end of each file ---------------------------------------


def check_folder(folder: Path, checked: Checked) -> None:
    """Reads every file of the last commit that was not found sound before; ValueError when one is not.

    Another process may commit meanwhile and remove what was merged: then the next commit is looked at.
    """
    for last in range(_TRIES - 1, -1, -1):
        segments = json.loads((folder / META_FILE).read_bytes())["segments"]
        names = {one["segment_id"].replace("-", "") for one in segments}
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


def schema_checksum(folder: Path) -> int:
    """A checksum of what meta.json says of fields and settings, which never change."""
    said = json.loads((folder / META_FILE).read_bytes())
    return zlib.crc32(json.dumps([said["schema"], said["index_settings"]], sort_keys=True).encode())


def _check_file(file: Path) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < _FOOTER.size:
            raise ValueError(f"{file.name} is cut off")
        length, mark = _FOOTER.unpack(data[-_FOOTER.size :])
        end = len(data) - _FOOTER.size - length
        if mark != _FOOTER_MARK or end < 0:
            raise ValueError(f"{file.name} is cut off")
        said = json.loads(data[end : -_FOOTER.size])["crc"]
        with memoryview(data) as view, view[:end] as body:
            if zlib.crc32(body) != said:
                raise ValueError(f"the checksum of {file.name} is wrong")
