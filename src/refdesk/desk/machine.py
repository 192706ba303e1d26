"""Whose files a collection of a shared library has: the same path is another folder on another machine."""

from __future__ import annotations

import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

from refdesk.errors import OnOtherMachine
from refdesk.ingest.prepare import Report
from refdesk.library import Library
from refdesk.model import Collection, Document, FileState, Found

MACHINE = "machine"  # of a collection's properties: the host's name, its token, and the folder's device and inode
SEVERAL = "several machines"  # have added their files to a collection without a folder
_UNKNOWN = "an unknown machine"  # by a version that did not note it
_AGAIN_S = 60.0  # after which the files of a folder are looked at again
_NAMED = 5  # collections in a note

Files = Callable[[Collection], Iterator[tuple[str, FileState | Document]]]


class Machine:
    """This machine, among those that share a library; a host's name alone does not tell two containers apart."""

    def __init__(self, library: Library, files: Files) -> None:
        self._host = re.sub(r"[^\w.-]+", "-", socket.gethostname()) or "localhost"
        self._token = library.machine_token()
        self._files = files  # the first files of a collection, as they were indexed
        self._judged: dict[tuple[str, str, str], tuple[bool, float]] = {}  # whether they are here, and until when

    def mark(self, root: str) -> dict[str, str]:
        """The property of a collection whose files are this machine's."""
        return {MACHINE: f"{self._host} {self._token} {_folder(root)}".rstrip()}

    def other(self, collection: Collection) -> str:
        """The machine whose files the collection has, if they are not this one's."""
        known = collection.properties.get(MACHINE, "")
        if known == SEVERAL:
            return known
        host, token, folder = (*known.split(" "), "", "")[:3]
        if known and (host, token) != (self._host, self._token):
            return host
        here = _folder(collection.root)
        if known and here in ("", folder):
            return ""
        # Two containers may have one name and one data folder, and a volume may not be mounted; or it was cloned anew.
        if self._has_files(collection, here, unchanged=not known):
            return ""
        return f"{host}, from another folder" if known else _UNKNOWN

    def _has_files(self, collection: Collection, here: str, *, unchanged: bool) -> bool:
        """Whether half of the indexed files are here; with `unchanged`, most of them as they were."""
        key = collection.id, collection.properties.get(MACHINE, ""), here
        is_so, until = self._judged.get(key, (False, 0.0))
        if time.monotonic() < until:
            return is_so
        files = [*self._files(collection)]
        if not files:
            return True
        if unchanged:
            is_so = 2 * sum(_is_same(*one) for one in files) > len(files)
        else:
            is_so = 2 * sum(os.path.lexists(path) for path, _ in files) >= len(files)
        self._judged[key] = is_so, time.monotonic() + _AGAIN_S
        return is_so


def _folder(root: str) -> str:
    """The device and the inode of a folder; "" for none."""
    try:
        state = Path(root).stat()
    except (OSError, ValueError):
        return ""
    return f"{state.st_dev}:{state.st_ino}" if root and stat.S_ISDIR(state.st_mode) else ""


def _is_same(path: str, state: FileState | Document) -> bool:
    try:
        return not Found.of("", os.lstat(path)).is_new(state)
    except (OSError, ValueError):
        return False


def local_file(document: Document) -> str:
    """The path that the address of a file names; "" for anything else."""
    if not document.uri.startswith("file://"):
        return ""
    file = os.fsdecode(unquote_to_bytes(document.uri.removeprefix("file://")))
    return file.lstrip("/") if os.name == "nt" else file


def machine_notes(others: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A note for each other machine and its collections."""
    return tuple(
        f"{_listed(names)}: indexed on {machine}; not compared with this machine's files"
        for machine, names in others.items()
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def taken_notes(report: Report) -> tuple[str, ...]:
    """A note on a run that took the folder over from another machine."""
    if not report.taken_from:
        return ()
    return (
        f"{report.collection} was indexed on {report.taken_from}; it now has this machine's files"
        f" ({report.removed} removed, {report.written} written)",
    )


def taken_from(machine: str, collection: Collection, *, asked: bool, all_gone: bool = False) -> str:
    """The other machine whose files a run replaces, if there is one; raises if the run may not do so."""
    name, root = collection.name, collection.root
    if machine and not asked:
        raise OnOtherMachine(f"{name} was indexed on {machine} meanwhile.", f"`refdesk index {root}` takes it over.")
    if machine and all_gone:
        raise OnOtherMachine(
            f"{root} has none of the files of collection {name}, which was indexed on {machine}: nothing was removed.",
            f"Index the folder under another name (`refdesk index {root} --name NAME`), or remove the collection first"
            f" (`refdesk remove {name}`).",
        )
    return machine
