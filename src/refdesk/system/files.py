"""Files that other programs change at the same time.

They are opened by descriptors from the root down, following no link, and replaced in one step by a finished copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
# Without O_NONBLOCK, opening a pipe would wait for a writer.
_FILE = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _FILE | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_MOST = 16_000_000  # bytes of a small file; the packed refs of large repositories have some millions


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor of the regular file at an absolute path, opened without following links; OSError for others."""
    descriptor = _open(path, _FILE, None)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_folder(path: str) -> Iterator[int | None]:
    """A descriptor of the folder at an absolute path, opened without following links; None on Windows."""
    if not _BY_DESCRIPTOR:
        _refuse_links(path)
        yield None
        return
    descriptor = _open(path, _FOLDER, None)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def listed_folder(path: str, *, at: int | None = None) -> Iterator[list[os.DirEntry[str]]]:
    """The entries of a folder, opened without following links; `stat` works on them while the context is open."""
    if not _BY_DESCRIPTOR:
        _refuse_links(path)
        with os.scandir(path) as entries:
            yield list(entries)
        return
    descriptor = _open(path, _FOLDER, at)
    try:
        with os.scandir(descriptor) as entries:
            yield list(entries)
    finally:
        os.close(descriptor)


def read_most(descriptor: int, most: int) -> bytes:
    """Reads to the end of the file, at most `most` bytes."""
    parts: list[bytes] = []
    while most > 0 and (part := os.read(descriptor, most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def read_rules(path: str | os.PathLike[str], *, follow: bool = False) -> bytes:
    """Reads a small regular file, following links only if `follow` is set; raises OSError for anything else."""
    name = os.path.realpath(path) if follow else os.path.abspath(path)  # noqa: PTH100 - a Path would resolve the links
    with opened(name) as descriptor:
        data = read_most(descriptor, _MOST + 1)
    if len(data) > _MOST:
        raise OSError(errno.EFBIG, f"it has more than {_MOST} bytes", name)
    return data


def _open(path: str, flags: int, at: int | None) -> int:
    if not _BY_DESCRIPTOR:
        return _open_and_compare(path, flags)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OSError(errno.EINVAL, "its path contains ..", path)
    here = os.open("/", _FOLDER) if path.startswith("/") or at is None else os.dup(at)
    try:
        for number, part in enumerate(parts, 1):
            below = os.open(part, (flags if number == len(parts) else _FOLDER) | _NO_LINK, dir_fd=here)
            os.close(here)
            here = below
    except OSError as error:
        os.close(here)
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):  # how systems report a link here
            raise OSError(error.errno, "its path leads through a symbolic link or a file", path) from error
        raise
    return here


def _open_and_compare(path: str, flags: int) -> int:
    """For Windows, which has no `dir_fd`: opens the path, then checks that it is the same file and no link."""
    _refuse_links(path)
    descriptor = os.open(path, flags)
    try:
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise OSError(errno.ELOOP, "it changed while it was being opened", path)
        _refuse_links(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_links(path: str) -> None:
    if os.path.normcase(os.path.realpath(path)) != os.path.normcase(os.path.abspath(path)):  # noqa: PTH100
        raise OSError(errno.ELOOP, "its path leads through a symbolic link", path)


def private(path: str, flags: int) -> int:
    """An opener for open() that creates files only their owner can read."""
    return os.open(path, flags, 0o600)


def make_private(file: Path) -> None:
    """Creates an empty private file if there is none; SQLite gives the files beside it the same mode."""
    with contextlib.suppress(OSError):  # it exists, or opening it reports the error
        os.close(private(str(file), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def make_all_private(folder: Path) -> None:
    """Restricts the files of a folder, which another library created, to their owner."""
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):  # merged away meanwhile
                if file.stat().st_mode & 0o077:
                    os.chmod(file.path, 0o600)  # noqa: PTH101 - what scandir gives


@contextmanager
def replacing(
    file: Path, *, mode: int = 0o600, is_synced: bool = True, is_only_writer: bool = False
) -> Iterator[IO[bytes]]:
    """A temporary file that atomically replaces the file when the context exits.

    It is synced to disk first, unless `is_synced` is false. With `is_only_writer` its name is fixed, so that a killed
    process leaves at most one.
    """
    if is_only_writer:
        draft = str(file.with_name(f"{file.name}.tmp"))
        handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
    else:
        import tempfile

        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            if is_synced:
                os.fsync(out.fileno())
        if mode != 0o600:
            Path(draft).chmod(mode)
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def replace_file(file: Path, text: str, *, mode: int = 0o600) -> None:
    """Atomically replaces the file's contents with the text, synced to disk."""
    with replacing(file, mode=mode) as out:
        out.write(text.encode("utf-8"))
