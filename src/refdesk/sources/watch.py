"""Watches folders for changes of files that the ignore rules do not exclude."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from pathlib import Path
from threading import Lock

import watchfiles

from refdesk.sources.allowed import Layers, why_not_file
from refdesk.sources.ignore import CONTROL

_RULES = CONTROL - {".git"}
_MANY = 1_000  # changes from which a walk is as cheap; an overflowed queue shows as many
# Network and shared file systems: the system does not report changes by other machines.
_FROM_ELSEWHERE = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs", "vboxsf", "drvfs", "virtiofs")
)
_MOUNTS = Path("/proc/self/mountinfo")
_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")  # folders that all programs of a user may watch on Linux
_SHARE = 4  # one program takes a quarter of them at most
_LATE = 100  # ms, at least, that a call waits for what is queued


class Watch:
    """A watched folder; between two calls only the system's own queue is at work."""

    def __init__(self, root: Path) -> None:
        """Raises OSError if the folder can't be watched: too many folders, or a network file system."""
        self._top = os.path.realpath(root)
        mounts: list[list[str]] = []
        most = sys.maxsize
        with contextlib.suppress(OSError, ValueError):  # only Linux has these files
            mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
            most = int(_WATCHES.read_text(encoding="ascii")) // _SHARE
        around = [one for one in mounts if f"{self._top}/".startswith(one[4].rstrip("/") + "/")]
        mount = max(around, key=lambda one: len(one[4]), default=["-", ""])
        if (kind := mount[mount.index("-") + 1]) in _FROM_ELSEWHERE:
            raise OSError(f"{self._top} is on {kind}, which does not tell of changes")
        if any(number > most for number, _ in enumerate(os.walk(self._top) if mounts else (), 1)):
            raise OSError(f"{self._top} has too many folders")
        self._mutex = Lock()
        self._mark: int | None = None  # a file in memory that is watched too
        mark = ""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._mark = os.memfd_create("refdesk-watch")
                weakref.finalize(self, os.close, self._mark)
                mark = f"/proc/self/fd/{self._mark}"
        self._last = {(watchfiles.Change.modified, mark)}
        self._batches = watchfiles.watch(
            *([self._top, mark] if Path(mark or " ").exists() else [self._top]),
            watch_filter=None,
            debounce=1,  # all three in ms: take what is queued, wait for nothing
            step=1,
            rust_timeout=1,
            yield_on_timeout=True,
            force_polling=False,
            ignore_permission_denied=True,
        )
        next(self._batches)  # begins
        if self._batch() is None:
            self._mark = None

    def changed(self) -> set[str] | None:
        """The paths that changed since the last call; None if the whole folder must be walked."""
        try:
            with self._mutex:
                batch = self._batch()
        except StopIteration:  # an earlier call failed
            return None
        if batch is None or len(batch) > _MANY:
            return None
        if not batch:
            return set()
        interesting = Interest(self._top)  # by the rules as they are now
        found: set[str] = set()
        for change, path in batch:
            relative = os.path.relpath(path, self._top).replace(os.sep, "/")
            name = relative.rpartition("/")[2]
            if name in _RULES or relative.endswith((".git", ".git/info/exclude", ".git/config")):
                return None
            if interesting.has(relative):
                if change is watchfiles.Change.added and Path(path).is_dir() and not Path(path).is_symlink():
                    return None  # files in a new folder are not reported
                found.add(relative)
        return found

    def _batch(self) -> set[tuple[watchfiles.Change, str]] | None:
        """What changed before this call; None if the system has not told after a tenth of a second.

        The thread that takes changes from the queue runs when the system lets it.  They come in their order, so a
        change of our own is the last to wait for.
        """
        if self._mark is None:
            return next(self._batches)
        os.utime(self._mark)
        found: set[tuple[watchfiles.Change, str]] = set()
        for _ in range(_LATE):  # of 1 ms
            found |= next(self._batches)
            if self._last <= found:
                return found - self._last
        return None


class Interest:
    """Tells which paths of a folder the current rules include, whether they exist or not."""

    def __init__(self, root: str) -> None:
        self._layers = Layers(root)

    def has(self, path: str) -> bool:
        """Whether a change of the path can change what is indexed."""
        folder, _, name = path.rpartition("/")
        if path in ("", ".") or path.startswith("../"):
            return False
        layer, reason = self._layers.of(folder)
        if reason:
            return False
        here = f"{self._layers.root}/{folder}" if folder else self._layers.root
        if name in _RULES:
            return True
        if Path(here, name).is_dir() and not Path(here, name).is_symlink():
            return not self._layers.of(path)[1]
        return not why_not_file(here, name, layer)
