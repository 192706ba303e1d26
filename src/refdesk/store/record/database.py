"""The record: one SQLite file in WAL mode, its connections, transactions and change log."""

from __future__ import annotations

import contextlib
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from refdesk.errors import LibraryBusy, LibraryDamaged, StoreError
from refdesk.library import MARK_FILE, Library
from refdesk.settings import Durability
from refdesk.store.record import schema
from refdesk.store.record.schema import Connection
from refdesk.system.files import make_private

# How far has a follower come, and what is left for it?

LEXICAL, VECTORS = 1, 2  # the parts of a change, one for each follower
LONG = "long-"  # begins the tokens of commits in a long stretch
DONE = "done-"  # begins that of the commit which ends a long stretch: from here on its changes are waited for
SOON = "soon-"  # begins those of commits that only add, and are acknowledged once the full-text index has them


@dataclass(frozen=True, slots=True)
class Applied:
    """The last commit of the record that a follower holds.

    The token tells it from another commit of that number: after a loss of power the record may have gone back.
    """

    seq: int
    token: str


def sequence(db: Connection) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM commits").fetchone()[0])


def last_commit(db: Connection) -> Applied:
    found = db.execute("SELECT seq, token FROM commits ORDER BY seq DESC LIMIT 1").fetchone()
    return Applied(*found) if found else Applied(0, "")


def pending(db: Connection, applied: Applied | None, part: int) -> list[int] | None:
    """The chunks that changed since; None when the log can't tell and all must be taken again."""
    if (seq := _told_since(db, applied, part)) is None:
        return None
    found = db.execute(
        "SELECT DISTINCT chunk FROM changes WHERE seq > ? AND (parts & ?) != 0 ORDER BY chunk", (seq, part)
    )
    return [chunk for (chunk,) in found]


def is_pending(db: Connection, applied: Applied | None, part: int) -> bool | None:
    """Whether chunks changed since; None as for `pending`, which took 3 ms of a query beside a long run."""
    if (seq := _told_since(db, applied, part)) is None:
        return None
    return db.execute("SELECT 1 FROM changes WHERE seq > ? AND (parts & ?) != 0", (seq, part)).fetchone() is not None


def _told_since(db: Connection, applied: Applied | None, part: int) -> int | None:
    if applied is None or not _is_known(db, applied):
        return None
    if part == VECTORS:
        since = db.execute("SELECT value FROM meta WHERE key = 'vectors_since'").fetchone()
        if since and applied.seq < int(since[0]):
            return None
    return applied.seq


def is_waited_for(db: Connection, applied: Applied, part: int, but: str = LONG) -> bool:
    """Whether a chunk changed since, but for commits marked LONG, whose changes are seen as they come, or `but`."""
    within = (
        "SELECT 1 FROM commits WHERE seq > ? AND token NOT LIKE ? AND token NOT LIKE ?"
        " AND EXISTS (SELECT 1 FROM changes WHERE changes.seq = commits.seq AND (parts & ?) != 0) LIMIT 1"
    )
    return db.execute(within, (applied.seq, f"{LONG}%", f"{but}%", part)).fetchone() is not None


def waited_for(db: Connection, applied: Applied, part: int, seen: int) -> list[int] | None:
    """The chunks of commits after `seen` and `applied` that belong to no running stretch; None if all must be taken."""
    if (seq := _told_since(db, applied, part)) is None:
        return None
    marks = [token[: len(LONG)] for (token,) in db.execute("SELECT token FROM commits WHERE seq > ?", (seq,))]
    if LONG not in marks or DONE in marks:
        return None
    within = (
        "SELECT DISTINCT chunk FROM commits JOIN changes USING (seq) WHERE seq > ? AND token NOT LIKE ?"
        " AND (parts & ?) != 0 ORDER BY chunk"
    )
    return [chunk for (chunk,) in db.execute(within, (max(seq, seen), f"{LONG}%", part))]


def is_told(db: Connection, applied: Applied) -> bool:
    """Whether the record has this commit, or its log no longer goes back to it."""
    floor = db.execute("SELECT min(seq) FROM commits").fetchone()[0]
    return applied.seq < (floor or 0) or _is_known(db, applied)


def log_again(db: Connection, applied: Applied | None, part: int, mark: str) -> None:
    """Logs the changes since of commits with this mark in the commit that is being made, for one follower."""
    db.execute(
        "INSERT INTO changes (seq, chunk, parts) SELECT DISTINCT (SELECT max(seq) FROM commits), chunk, ?"
        " FROM changes JOIN commits USING (seq) WHERE seq > ? AND token LIKE ? AND (parts & ?) != 0",
        (part, applied.seq if applied else 0, f"{mark}%", part),
    )


def unmark(db: Connection, mark: str) -> None:
    """Takes the mark off the token of the commit that is being made."""
    db.execute(
        "UPDATE commits SET token = substr(token, ?) WHERE seq = (SELECT max(seq) FROM commits)", (len(mark) + 1,)
    )


def _is_known(db: Connection, applied: Applied) -> bool:
    if applied.seq == 0:
        floor = db.execute("SELECT min(seq) FROM commits").fetchone()[0]
        return floor in (None, 1)
    known = "SELECT 1 FROM commits WHERE seq = ? AND token = ?"
    return db.execute(known, (applied.seq, applied.token)).fetchone() is not None


_PRAGMAS = (
    "page_size = 8192",  # of a new record: half as many pages to write, and fewer of them again and again
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "wal_autocheckpoint = 4000",  # pages: while indexing, most commits need no sync of the file itself
    "journal_size_limit = 67108864",
)
# Few rows here and there are read fastest from memory; a walk over all of them would make all of it resident.
_MAPPED = ("mmap_size = 1073741824", "cache_size = -8192")
_UNMAPPED = ("mmap_size = 0", "cache_size = -16384")  # what a batch changes of all indexes
_SWITCH_S = 10.0
_RESTORE = "Restore it with `refdesk restore BACKUP`, or move the folder away and index again."
_PUT_ID = "INSERT INTO meta VALUES ('library', ?) ON CONFLICT DO NOTHING"

Mapping = tuple[str, ...]


class Record:
    """The library's SQLite file."""

    def __init__(self, library: Library, timeout_s: float, durability: Durability = "normal") -> None:
        self.library = library
        self.file = library.record
        self.read_only = False
        self._timeout_s = timeout_s
        # With "normal" a loss of power may take the last commits, never the file; followers check tokens.
        self._pragmas = (*_PRAGMAS, f"synchronous = {durability}")
        self._idle: dict[Mapping, queue.LifoQueue[sqlite3.Connection]] = {
            _MAPPED: queue.LifoQueue(),
            _UNMAPPED: queue.LifoQueue(),
        }
        self._open: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()
        self._closed = False
        with explained(self.file):
            self._prepare()

    def _prepare(self) -> None:
        self.library.prepare()
        if not self.file.exists():
            self.library.refuse_lost("is missing", lambda: not self.file.exists())
            make_private(self.file)
        elif not self.file.is_file():
            raise self.library.lost("is not a file")
        try:
            self._migrate()
        except sqlite3.OperationalError as error:
            if not self.file.exists() or not _is_refusal(error):
                raise
            self.read_only = True
            with self.reading() as db:
                found = self._version(db)
                if found < len(schema.MIGRATIONS):
                    raise StoreError(
                        f"The library {self.library.folder} is of an older version and can't be written to.",
                        "Make the folder writable once, so that it can be brought up to date.",
                    ) from error
                self._check_id(db)

    def _migrate(self) -> None:
        db = self._connect(_MAPPED)
        try:
            if self._version(db) != len(schema.MIGRATIONS):
                _switch_to_wal(db)
                self._change_for_good(db, schema.migrate)
            if not self._check_id(db):
                known = self.library.marked() or secrets.token_hex(16)
                self._change_for_good(db, lambda db: db.execute(_PUT_ID, (known,)))
                self._check_id(db)
        except BaseException:
            self._discard(db)
            raise
        self._idle[_MAPPED].put(db)

    def _version(self, db: sqlite3.Connection) -> int:
        """The record's version; raises when it is no record of ours, or one that was lost and is empty now."""
        if not schema.has_tables(db):
            self.library.refuse_lost("is empty", lambda: not schema.has_tables(db))
        found = schema.version(db)
        if (found > 0 or schema.has_tables(db)) and not schema.is_ours(db):
            raise self.library.lost("belongs to another program")
        schema.refuse_newer(found)
        return found

    def _check_id(self, db: sqlite3.Connection) -> bool:
        """Whether the record has an id; raises when it is not the one that the folder was marked with."""
        # It also finds out now whether the write-ahead log can be used, which a bare open does not.
        found = db.execute("SELECT value FROM meta WHERE key = 'library'").fetchone()
        if found is None:
            return False
        known = self.library.marked()
        if not known:
            self.library.mark(found[0])
        elif known != found[0]:
            raise LibraryDamaged(
                f"{self.file} is the record of another library than the one that this folder held.",
                f"Put the right one back, or `refdesk restore BACKUP`; delete {MARK_FILE} to keep this one.",
            )
        return True

    def _change_for_good(self, db: sqlite3.Connection, change: Callable[[sqlite3.Connection], object]) -> None:
        """Makes a change that no loss of power undoes, since what follows relies on it."""
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        change(db)
        db.execute("COMMIT")
        for pragma in self._pragmas:
            db.execute(f"PRAGMA {pragma}")

    def _connect(self, mapping: Mapping) -> sqlite3.Connection:
        uri = f"{self.file.absolute().as_uri()}"
        if self.read_only:
            # Without a log next to it the file is complete, and SQLite needs no shared memory to read it.
            logged = self.file.with_name(f"{self.file.name}-wal").exists()
            uri += "?mode=ro" if logged else "?immutable=1"
        db = sqlite3.connect(
            uri, uri=True, timeout=self._timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        with self._mutex:
            self._open.append(db)
        try:
            for pragma in (*self._pragmas, *mapping):
                db.execute(f"PRAGMA {pragma}")
        except BaseException:
            self._discard(db)
            raise
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
    def transaction(
        self, *, logged: bool = True, mark: str = "", for_good: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """A write transaction: one commit of the log, unless it changes nothing that readers see, or nothing.

        The mark begins the commit's token.  What is written `for_good` outlasts a loss of power.
        """
        self.refuse_read_only()
        with self._borrowed(_UNMAPPED) as db:
            if for_good:
                db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            if logged:
                db.execute("INSERT INTO commits (token) VALUES (?)", (mark + secrets.token_hex(8),))
            yield db
            db.execute("COMMIT")
            if for_good:
                db.execute(f"PRAGMA {self._pragmas[-1]}")

    def refuse_read_only(self) -> None:
        """Raises when nothing can be written here."""
        if self.read_only:
            raise StoreError(
                f"The library {self.file.parent} is read-only.",
                "Make the folder writable, or choose another library folder.",
            )

    def close(self) -> None:
        """Closes every idle connection; one in use closes when it is given back."""
        self._closed = True
        for idle in self._idle.values():
            with contextlib.suppress(queue.Empty):
                while True:
                    self._discard(idle.get_nowait())


def _is_refusal(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


@contextmanager
def explained(file: Path, if_damaged: str = _RESTORE) -> Iterator[None]:
    """Turns what SQLite says into an error that tells what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(error, file, if_damaged) from error
    except UnicodeDecodeError as error:  # of SQLite's own message, which quotes a garbled schema
        raise LibraryDamaged(f"The file {file} is damaged: it holds what is no text.", if_damaged) from error


def _explain(error: sqlite3.Error, file: Path, if_damaged: str) -> StoreError:
    code = _code(error)
    # Tables or columns that are not there, and text that is none, have no code of their own.
    odd = code == sqlite3.SQLITE_ERROR or "decode" in str(error) or type(error) is sqlite3.DatabaseError
    if odd or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LibraryDamaged(f"The file {file} is damaged: {error}.", if_damaged)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LibraryBusy(f"The file {file} is locked by another program.", "Try again when it has finished.")
    if _is_refusal(error):
        return StoreError(
            f"The file {file} can't be opened for writing: {error}.",
            "Check the permissions of the library folder, or choose another one.",
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"The disk that holds {file} is full.", "Free some space and run the command again.")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"The file {file} could not be read or written: {error}.", "Check the disk, then try again.")
    return StoreError(f"The file {file} refused: {error}.", "Run `refdesk doctor` on the library.")


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
