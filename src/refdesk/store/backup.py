"""Backup of a whole library while it is in use, and restore."""

# ruff: noqa: S608 - tables are named by constants

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from refdesk import __version__
from refdesk.errors import InvalidInput, LibraryBusy, LibraryDamaged, NotFound, RefdeskError, StoreError
from refdesk.library import CRAWL_FILE, MARK_FILE, METADATA_FILE, RECORD_FILE, SKILLS_FILE, Library
from refdesk.store.gate import Gate
from refdesk.store.record.database import Record, explained
from refdesk.store.record.schema import PLAYBOOKS
from refdesk.store.words.index import LexicalIndex
from refdesk.system.files import private, replace_file

ARCHIVE = ".tar.zst"
_MANIFEST = "backup.json"
_FORMAT = 1
_DOCUMENTS = f"documents WHERE collection NOT IN (SELECT id FROM collections WHERE kind = '{PLAYBOOKS}')"
_COUNTED = {
    RECORD_FILE: {
        "collections": f"collections WHERE kind != '{PLAYBOOKS}'",
        "documents": _DOCUMENTS,
        "chunks": f"chunks WHERE document IN (SELECT id FROM {_DOCUMENTS})",
        "vectors": "vectors",
        "skills": "playbooks",
        "versions": "playbook_versions",
    },
    SKILLS_FILE: {"skills": "skills", "versions": "versions"},  # in backups of libraries up to version 4
    CRAWL_FILE: {"pages": "pages"},
}
_AS_THEY_ARE = (MARK_FILE, METADATA_FILE, "refdesk.toml")
_NAME = re.compile(r"(?:record|skills|crawl)\.db|library\.json|metadata\.json|refdesk\.toml")
_PARTIAL = ".partial"
_LOCK = "lock"
_SHARE = 1 << 20  # bytes read at a time
_MOST_MANIFEST = 4_000_000
_SLACK = 1 << 16  # bytes of an archive that are neither a file nor said to be: headers, padding, read-ahead
_WINDOW_BITS = 27
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds; it is verified against this."""

    made_at: str
    files: Mapping[str, tuple[int, str]]  # size and SHA-256
    counts: Mapping[str, int]  # rows of the library when it was copied
    format: int = _FORMAT
    refdesk: str = __version__


# --- making one -----------------------------------------------------------------------------------


def back_up(library: Library, record: Record, gate: Gate, target: Path) -> Mapping[str, int]:
    """Copies the library as it is at one moment to a new folder, or to one file if its name ends in .tar.zst.

    The target appears in one step when all of it is on the disk and verified; a killed run leaves none.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir()) or target.name.endswith(ARCHIVE)):
        raise InvalidInput(f"{target} exists and is not an empty folder.", "Name a new folder or file for the backup.")
    with _explained(target), _draft(target) as draft:
        copy = draft / "library"
        copy.mkdir(mode=0o700)
        manifest = _copy(library.folder, record, gate, copy)
        replace_file(copy / _MANIFEST, json.dumps(asdict(manifest), indent=1) + "\n")
        _verify(copy, manifest)
        whole = copy
        if target.name.endswith(ARCHIVE):
            whole = draft / "archive"
            _pack(copy, manifest, whole)
            _read_archive(whole, None)
        _put(whole, target)
    return manifest.counts


def _copy(folder: Path, record: Record, gate: Gate, copy: Path) -> Manifest:
    made_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    counts: dict[str, int] = {}
    names = [RECORD_FILE, *(name for name in (CRAWL_FILE,) if (folder / name).exists())]
    with ExitStack() as stack:
        # What a crawl knows must not be newer than the pages in the record: both are held still at one moment, when
        # nobody writes. They are copied afterwards, while others write on.
        with gate.held() if CRAWL_FILE in names and not record.read_only else contextlib.nullcontext():
            held = {name: stack.enter_context(_held_still(folder / name, record)) for name in names}
        # First what says that this is a library: one whose record is not whole yet is refused, not taken for empty.
        for name in _AS_THEY_ARE:
            with contextlib.suppress(FileNotFoundError), (folder / name).open("rb") as read:
                with open(copy / name, "wb", opener=private) as out:
                    shutil.copyfileobj(read, out, _SHARE)
                _sync(copy / name)
        for name, db in held.items():
            with explained(folder / name):
                counts |= _counts(db, name)
                with explained(copy / name), closing(sqlite3.connect(copy / name, isolation_level=None)) as made:
                    made.execute("PRAGMA synchronous = OFF")  # it is synced as a whole
                    db.backup(made)
                    if name == RECORD_FILE:
                        made.execute("DELETE FROM meta WHERE key = 'snapshot'")  # of the vectors, which are built anew
                (copy / name).chmod(0o600)
                _sync(copy / name)
    files = {}
    for file in sorted(copy.iterdir()):
        with file.open("rb") as read:
            files[file.name] = (file.stat().st_size, hashlib.file_digest(read, "sha256").hexdigest())
    return Manifest(made_at, files, counts)


@contextmanager
def _held_still(file: Path, record: Record) -> Iterator[sqlite3.Connection]:
    """A connection that sees the database as it is now until it is closed."""
    if file.name == RECORD_FILE:
        with record.snapshot() as db:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
            yield db
        return
    logged = not record.read_only or file.with_name(f"{file.name}-wal").exists()
    uri = f"{file.absolute().as_uri()}?{'mode=ro' if logged else 'immutable=1'}"
    with explained(file), closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        yield db


def _counts(db: sqlite3.Connection, name: str) -> dict[str, int]:
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    counted = {what: rows for what, rows in _COUNTED[name].items() if rows.split()[0] in there}
    return {what: int(db.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]) for what, rows in counted.items()}


def _verify(folder: Path, manifest: Manifest) -> None:
    """Raises unless every database opens, is sound and has as many rows as the one it was copied from."""
    for name in _COUNTED:
        if name not in manifest.files:
            continue
        # Nobody else is at these files, and a read must not change what was hashed.
        uri = f"{(folder / name).absolute().as_uri()}?immutable=1"
        with explained(folder / name), closing(sqlite3.connect(uri, uri=True)) as db:
            if (said := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise LibraryDamaged(f"The copy of {name} is damaged: {said}.", "Check the disk, then try again.")
            found = _counts(db, name)
        if any(manifest.counts.get(what) != count for what, count in found.items()):
            raise LibraryDamaged(f"The copy of {name} lacks rows or has too many.", "Check the disk, then try again.")


# --- bringing one back ----------------------------------------------------------------------------


def restore(
    source: Path, library: Library, *, replace: bool, finish: Callable[[Path], None]
) -> tuple[Manifest, Path | None]:
    """Makes a library of a backup in one step; what it replaces is moved aside, to the path that is returned.

    `finish` opens the library before it is put in its place, builds its indexes and raises when it is not sound.
    """
    folder = library.folder
    if not source.exists():
        raise NotFound(f"There is no backup at {source}.", "Name the folder or the file that `refdesk backup` made.")
    occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if occupied and not replace:
        raise InvalidInput(
            f"{folder} is not empty.", "Name another folder with --library, or add --replace: it is moved aside first."
        )
    with _explained(folder), _draft(folder) as draft:
        copy = draft / "library"
        copy.mkdir(mode=0o700)
        manifest = _read_folder(source, copy) if source.is_dir() else _read_archive(source, copy)
        _verify(copy, manifest)
        finish(copy)
        aside = folder.with_name(f"{folder.name}.replaced-{time.strftime('%Y%m%d-%H%M%S')}") if occupied else None
        if aside is None:
            _put(copy, folder)
            return manifest, None
        with _nobody_writing(library) if folder.is_dir() else contextlib.nullcontext():
            folder.rename(aside)
            try:
                _put(copy, folder)
            except BaseException:
                aside.rename(folder)
                raise
    return manifest, aside


@contextmanager
def _nobody_writing(library: Library) -> Iterator[None]:
    """No writer is at work, nor between two batches of a long stretch."""
    lexical = LexicalIndex(library.lexical)
    with Gate(library, 30.0).held():
        if not lexical.claim():
            raise LibraryBusy(f"The library {library.folder} is being written to.", "Try again when that has finished.")
        try:
            yield
        finally:
            lexical.release()


def _read_folder(source: Path, copy: Path) -> Manifest:
    try:
        with (source / _MANIFEST).open("rb") as file:
            manifest = _manifest(file)
    except FileNotFoundError:
        raise InvalidInput(
            f"{source} is not a backup: it has no {_MANIFEST}.", "Name one of `refdesk backup`."
        ) from None
    for name, said in manifest.files.items():
        with (source / name).open("rb") as read:
            _take(read, said, name, copy)
    return manifest


def _read_archive(source: Path, copy: Path | None) -> Manifest:
    """Reads all of an archive and checks it; writes its files if a folder for them is given."""
    codec = zstd()
    bounds = {codec.DecompressionParameter.window_log_max: _WINDOW_BITS}
    with source.open("rb") as raw, codec.ZstdFile(raw, "rb", options=bounds) as stream:
        bounded = _Bounded(stream)
        with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|", bufsize=_SLACK // 4) as tar:
            manifest: Manifest | None = None
            missing: set[str] = set()
            for member in tar:
                content = tar.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None or (manifest is not None and member.name not in missing):
                    raise ValueError(f"{member.name[:80]!r} does not belong into it")
                if manifest is None:
                    bounded.left = _SLACK + min(member.size, _MOST_MANIFEST)
                    manifest = _manifest(content)
                    missing = set(manifest.files)
                    continue
                missing.remove(member.name)
                bounded.left = _SLACK + manifest.files[member.name][0]
                _take(content, manifest.files[member.name], member.name, copy)
                bounded.left = _SLACK
    if manifest is None or missing:
        raise ValueError("it ends too soon")
    return manifest


class _Bounded:
    """A stream of which no more can be read than was allowed: an archive may claim to hold anything."""

    def __init__(self, stream: IO[bytes] | Any) -> None:
        self._stream = stream
        self.left = _SLACK

    def read(self, size: int = -1) -> bytes:
        found: bytes = self._stream.read(size)
        self.left -= len(found)
        if self.left < 0:
            raise ValueError("it holds more than it says")
        return found


def _manifest(file: IO[bytes]) -> Manifest:
    """The manifest, of which nothing is believed before it was checked."""
    data = file.read(_MOST_MANIFEST + 1)
    if len(data) > _MOST_MANIFEST:
        raise ValueError("its list of files is too long")
    said = json.loads(data)
    if said["format"] != _FORMAT:
        raise StoreError(f"The backup has format {said['format']}, which this RefDesk can't read.", "Upgrade refdesk.")
    files = {str(name): (int(size), str(digest)) for name, (size, digest) in said["files"].items()}
    if RECORD_FILE not in files or not all(_NAME.fullmatch(name) and size >= 0 for name, (size, _) in files.items()):
        raise ValueError("its list of files is not one of a library")
    counts = {str(name): int(count) for name, count in said["counts"].items()}
    return Manifest(str(said["made_at"]), files, counts, refdesk=str(said["refdesk"]))


def _take(read: IO[bytes], said: tuple[int, str], name: str, copy: Path | None) -> None:
    """Reads a file to its end, into the folder if one is given; ValueError when it is not as it was said to be."""
    size, digest = said
    if copy is not None and size > shutil.disk_usage(copy).free:
        raise StoreError(
            f"There is no room for {name}, which takes {size:,} bytes.", "Free some space, then try again."
        )
    summed, left = hashlib.sha256(), size
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(copy / name, "wb", opener=private)) if copy is not None else None
        while part := read.read(_SHARE):
            left -= len(part)
            summed.update(part)
            if left < 0:
                break
            if out is not None:
                out.write(part)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    if left or summed.hexdigest() != digest:
        raise ValueError(f"{name} is not as it was backed up")


# --- both -----------------------------------------------------------------------------------------


def zstd() -> Any:
    """The standard library's module since 3.14, its backport before."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _pack(folder: Path, manifest: Manifest, target: Path) -> None:
    codec = zstd()
    wanted = {codec.CompressionParameter.compression_level: _LEVEL, codec.CompressionParameter.checksum_flag: 1}
    with open(target, "wb", opener=private) as raw:
        with codec.ZstdFile(raw, "wb", options=wanted) as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
            for name in (_MANIFEST, *manifest.files):
                about = tarfile.TarInfo(name)
                about.size, about.mode = (folder / name).stat().st_size, 0o600
                with (folder / name).open("rb") as content:
                    tar.addfile(about, content)
        raw.flush()
        os.fsync(raw.fileno())


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A folder beside the target for what is not whole yet; those that killed runs left are removed."""
    from filelock import FileLock, Timeout

    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{glob.escape(target.name)}-*{_PARTIAL}"):
        with contextlib.suppress(Timeout, OSError), FileLock(left / _LOCK, timeout=0):
            shutil.rmtree(left, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-", suffix=_PARTIAL))
    try:
        with FileLock(draft / _LOCK, mode=0o600):
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _put(whole: Path, target: Path) -> None:
    """Moves what is whole to its place, in one step that outlasts a loss of power."""
    if whole.is_dir():
        _sync(whole)
    if target.is_dir():  # and empty
        target.rmdir()
    whole.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # folders can't be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Turns what goes wrong with a backup into an error that tells what to do."""
    try:
        yield
    except RefdeskError:
        raise
    except OSError as error:
        raise StoreError(
            f"{error.filename or target} can't be read or written: {error.strerror or error}.",
            "Check the place and the disk, then try again; nothing was changed.",
        ) from error
    except (ValueError, LookupError, TypeError, EOFError, tarfile.TarError, zstd().ZstdError) as error:
        raise LibraryDamaged(
            f"The backup is damaged: {error}.", "Take another one. If it was opened as a library since, it is one now."
        ) from error
