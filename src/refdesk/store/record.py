"""How is the record opened, read and written?  One SQLite file in WAL mode."""

from __future__ import annotations

import contextlib
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refdesk.errors import LibraryBusy, LibraryDamaged, StoreError
from refdesk.store import schema

FILE = "record.db"
_PRAGMAS = (
    "page_size = 8192",  # of a new record: half as many pages to write, and fewer of them again and again
    "synchronous = NORMAL",  # power loss may take the last commits, never the file; followers check tokens
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "wal_autocheckpoint = 4000",  # pages: while indexing, most commits need no sync of the file itself
    "journal_size_limit = 67108864",
)
# Few rows here and there are read fastest from memory; a walk over all of them would make all of it resident.
_MAPPED = ("mmap_size = 1073741824", "cache_size = -8192")
_UNMAPPED = ("mmap_size = 0", "cache_size = -16384")  # what a batch changes of all indexes
_SWITCH_S = 10.0

Mapping = tuple[str, ...]


class Record:
    """The library's SQLite file."""

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self.file = folder / FILE
        self.read_only = False
        self._timeout_s = timeout_s
        self._idle: dict[Mapping, queue.LifoQueue[sqlite3.Connection]] = {
            _MAPPED: queue.LifoQueue(),
            _UNMAPPED: queue.LifoQueue(),
        }
        self._open: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()
        self._closed = False
        with explained(self.file):
            self._prepare(folder)

    def _prepare(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _leave_out(folder)
        except OSError as error:
            raise StoreError(
                f"The library folder {folder} can't be made: {error.strerror}.", "Choose another folder."
            ) from error
        try:
            self._migrate()
        except sqlite3.OperationalError as error:
            if not self.file.exists() or not _is_refusal(error):
                raise
            self.read_only = True
            with self.reading() as db:
                found = schema.version(db)
                schema.refuse_newer(found)
                if found < len(schema.MIGRATIONS):
                    raise StoreError(
                        f"The library {folder} is of an older version and can't be written to.",
                        "Make the folder writable once, so that it can be brought up to date.",
                    ) from error

    def _migrate(self) -> None:
        db = self._connect(_MAPPED)
        try:
            if schema.version(db) != len(schema.MIGRATIONS):
                _switch_to_wal(db)
                db.execute("BEGIN IMMEDIATE")
                schema.migrate(db)
                db.execute("COMMIT")
            else:
                # Finds out now whether the write-ahead log can be used, which a bare open does not.
                db.execute("SELECT count(*) FROM (SELECT 1 FROM meta LIMIT 1)").fetchone()
        except BaseException:
            self._discard(db)
            raise
        self._idle[_MAPPED].put(db)

    def _connect(self, mapping: Mapping) -> sqlite3.Connection:
        uri = f"{self.file.absolute().as_uri()}"
        if self.read_only:
            # Without a log next to it the file is complete, and SQLite needs no shared memory to read it.
            logged = self.file.with_name(FILE + "-wal").exists()
            uri += "?mode=ro" if logged else "?immutable=1"
        db = sqlite3.connect(
            uri, uri=True, timeout=self._timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        for pragma in (*_PRAGMAS, *mapping):
            db.execute(f"PRAGMA {pragma}")
        with self._mutex:
            self._open.append(db)
        return db

    def _discard(self, db: sqlite3.Connection) -> None:
        with self._mutex:
            if db in self._open:
                self._open.remove(db)
        db.close()

    @contextmanager
    def _borrowed(self, mapping: Mapping) -> Iterator[sqlite3.Connection]:
        with explained(self.file):
            if self._closed:
                raise StoreError("The library was closed.", "Open it again.")
            try:
                db = self._idle[mapping].get_nowait()
            except queue.Empty:
                db = self._connect(mapping)
            try:
                yield db
            finally:
                self._give_back(db, mapping)

    def _give_back(self, db: sqlite3.Connection, mapping: Mapping) -> None:
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        if self._closed:
            self._discard(db)
        else:
            self._idle[mapping].put(db)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread's use, from the pool."""
        with self._borrowed(_MAPPED) as db:
            yield db

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the record throughout, for reading much of it."""
        with self._borrowed(_UNMAPPED) as db:
            db.execute("BEGIN")
            yield db

    @contextmanager
    def transaction(self, *, logged: bool = True) -> Iterator[sqlite3.Connection]:
        """A write transaction: one commit of the log, unless it changes nothing that readers see, or nothing."""
        self.refuse_read_only()
        with self._borrowed(_UNMAPPED) as db:
            db.execute("BEGIN IMMEDIATE")
            if logged:
                db.execute("INSERT INTO commits (token) VALUES (?)", (secrets.token_hex(8),))
            yield db
            db.execute("COMMIT")

    def settle(self) -> None:
        """Brings the log of writes into the file, as far as nobody is in the way, so that less is left at the end."""
        with self._borrowed(_UNMAPPED) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def refuse_read_only(self) -> None:
        """Raises when nothing can be written here."""
        if self.read_only:
            raise StoreError(
                f"The library {self.file.parent} can't be written to.",
                "Make the folder writable, or choose another library folder.",
            )

    def close(self) -> None:
        """Closes every idle connection; one in use closes when it is given back."""
        self._closed = True
        for idle in self._idle.values():
            with contextlib.suppress(queue.Empty):
                while True:
                    self._discard(idle.get_nowait())


def sequence(db: sqlite3.Connection) -> int:
    """The number of the last commit."""
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM commits").fetchone()[0])


def _is_refusal(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turns what SQLite says into an error that tells what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(error, file) from error


def _explain(error: sqlite3.Error, file: Path) -> StoreError:
    code = _code(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LibraryDamaged(
            f"The record {file} is damaged: {error}.",
            "Restore the folder from a backup, or move it away and index again.",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LibraryBusy(f"The record {file} is locked by another program.", "Try again when it has finished.")
    if _is_refusal(error):
        return StoreError(
            f"The record {file} can't be opened for writing: {error}.",
            "Check the permissions of the library folder, or choose another one.",
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"The disk that holds {file} is full.", "Free some space and run the command again.")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"The record {file} could not be read or written: {error}.", "Check the disk, then try again."
        )
    return StoreError(f"The record {file} refused: {error}.", "Run `refdesk doctor` on the library.")


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Turns the write-ahead log on; SQLite does not wait by itself when several processes do so at once."""
    deadline = time.monotonic() + _SWITCH_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _leave_out(folder: Path) -> None:
    """Keeps a library that lies in a folder it holds, or in a repository, out of both."""
    mark = folder / ".gitignore"
    if not mark.exists():
        with contextlib.suppress(OSError):  # a library on a read-only disk needs no mark
            mark.write_text("*\n", encoding="utf-8")
