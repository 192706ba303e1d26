"""The record in Postgres: connections, transactions, locks.

Its statements are those of the SQLite record, translated, so that both have the same tables and the same migrations.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from refdesk.errors import LibraryBusy, RefdeskError, SettingsError, StoreError
from refdesk.store.record.schema import Connection
from refdesk.store.shared import tables
from refdesk.store.shared.address import without_password
from refdesk.store.shared.dialect import CONNECT_S, READ_MS, Translating, away, connect, own_name, refusal, said
from refdesk.system.wanted import Outage

_log = logging.getLogger(__name__)

WRITER, STRETCH, FOLLOWER = 1, 2, 3  # what is locked: by one session, by any number, by one
_MOST_CONNECTIONS = 16  # of a process
_BORROW_S = 5.0
_FRESH_S = 1.0  # a connection that was used so lately is not checked before it is used again
_CHECK_S = 0.5
_READ_S = READ_MS / 1000  # of a statement that reads
SEARCH_S, LEAST_S = 4.5, 1.0  # of all statements of a search, from its beginning, and of one even so
_WRITE_MS = 120_000  # time limit of a statement
# Of a process that was stopped (Ctrl-Z) while it held a lock: more than its requests to Qdrant take.
_STOPPED_S = 600
_ENDS_IDLE = 140_000  # the version of Postgres that can do so

# ruff: noqa: S608 - statements are put together from constants; values are bound


class TooSlow(StoreError):
    """A statement took longer than it may."""


class _Own(threading.local):
    """What this thread holds."""

    writing: Translating | None = None  # the connection that has the write lock
    depth = 0


class Postgres:
    """The connections of one process to one library's schema; they are made on demand, and again when lost."""

    def __init__(self, address: str, schema_name: str, lock_timeout_s: float) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise SettingsError(
                "A shared library needs psycopg and qdrant-client.", "pip install 'refdesk[scale]'."
            ) from error
        try:
            conninfo_to_dict(address)
        except psycopg.ProgrammingError as error:
            why = without_password(str(error).strip(), address)
            raise SettingsError(f"The address of the library is not one for Postgres: {why}.", "Correct it.") from None
        self._psycopg = psycopg
        self._address = address
        self.schema = schema_name
        self._lock_timeout_s = lock_timeout_s
        self._idle: queue.LifoQueue[Translating] = queue.LifoQueue()
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._writer = threading.Lock()  # of the threads that want to write one waits on a connection
        self._outage = Outage()
        self.breaks = 0  # connections that were lost: behind a new one may be another server, or an earlier state
        self.on_break: Callable[[], None] = lambda: None
        self._own = _Own()
        self._mutex = threading.Lock()
        self._stretches = 0
        self._stretching: Translating | None = None  # the connection that says so
        self._closed = False
        try:
            tables.prepare(self, lock_timeout_s)
        except BaseException:
            self.close()
            raise

    # connections

    @contextmanager
    def _borrowed(self) -> Iterator[Translating]:
        if self._closed:
            raise StoreError("The library was closed.", "Open it again.")
        if not self._places.acquire(timeout=_BORROW_S):
            raise LibraryBusy(f"All {_MOST_CONNECTIONS} connections to Postgres are in use.", "Try again.")
        try:
            if self._outage.hinders(CONNECT_S + _CHECK_S):
                raise away(self._outage.problem)
            with self._explained():
                db = self._checked()
                try:
                    yield db
                finally:
                    self._give_back(db)
        finally:
            self._places.release()

    def _checked(self) -> Translating:
        """An idle connection that still works, or a new one."""
        while True:
            try:
                db = self._idle.get_nowait()
            except queue.Empty:
                db = connect(self._address, self.schema)
                self._outage.ends()
                return db
            if time.monotonic() - db.used_at < _FRESH_S and not db.raw.closed and not self._outage.problem:
                return db
            try:
                with db.waiting(_CHECK_S):
                    db.raw.execute("SELECT 1")
                self._outage.ends()
                return db
            except self._psycopg.Error:
                db.raw.close()
                self._close_idle()  # the server was away or hangs: each would wait as long

    def _give_back(self, db: Translating) -> None:
        if not db.raw.closed and not self._is_idle(db):
            with contextlib.suppress(self._psycopg.Error):
                db.raw.rollback()
            if not self._is_idle(db):  # interrupted in the midst of a statement
                db.abandon()
        if self._closed or db.raw.closed or db.raw.broken:
            db.raw.close()
            self._close_idle()  # if the server was started anew, they are of no use either
            return
        db.used_at = time.monotonic()
        self._idle.put(db)

    def _is_idle(self, db: Translating) -> bool:
        return bool(db.raw.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what Postgres says into an error that tells what to do; it never shows the address's password."""
        try:
            yield
        except RefdeskError:
            raise
        except self._psycopg.errors.QueryCanceled as error:
            raise TooSlow("Postgres took too long to answer.", "Try again, or ask for less.") from error
        except self._psycopg.errors.LockNotAvailable as error:
            raise LibraryBusy(
                "The library's tables can't be changed while a backup or a copy of it is made.", "Try again afterwards."
            ) from error
        except self._psycopg.Error as error:
            if isinstance(error, self._psycopg.errors.ConnectionTimeout):
                self._outage.begins(said(error, self._address))
            raise refusal(error, self._address) from error

    @contextmanager
    def reading(self, began: float = math.inf) -> Iterator[Translating]:
        """A connection for this thread's use; what a search asks that began a while ago has the time that is left."""
        left_s = max(LEAST_S, began + SEARCH_S - time.monotonic())
        with self._borrowed() as db, self._limited(db, int(1000 * left_s)) if left_s < _READ_S else nullcontext():
            yield db

    @contextmanager
    def patient(self, limit_s: float = _WRITE_MS / 1000) -> Iterator[Translating]:
        """A connection whose statements may take so long."""
        with self._borrowed() as db, self._limited(db, int(1000 * limit_s)):
            yield db

    @contextmanager
    def _limited(self, db: Translating, limit_ms: int, more: str = "") -> Iterator[None]:
        with db.waiting(limit_ms / 1000):  # this statement too, which may be the first that a hanging server gets
            db.execute(f"SELECT set_config('statement_timeout', '{limit_ms}', false){more}")
            try:
                yield
            finally:
                if not db.raw.closed:
                    with contextlib.suppress(self._psycopg.Error):
                        db.raw.rollback()
                        db.execute(f"SET statement_timeout = {READ_MS}")

    @contextmanager
    def snapshot(self, limit_s: float = 0.0) -> Iterator[Translating]:
        """A connection that sees one state of the record throughout; without a limit, with that of a writer."""
        with self._borrowed() as db, db.waiting(limit_s or _WRITE_MS / 1000):
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            db.execute(f"SET LOCAL statement_timeout = {int(limit_s * 1000) or _WRITE_MS}")
            if not limit_s:  # what is read may take long to be written elsewhere
                db.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield db

    @contextmanager
    def transaction(self, *, logged: bool = True, mark: str = "") -> Iterator[Translating]:
        """A write transaction on the connection that has the write lock: if that is lost, so is the transaction."""
        db = self._own.writing
        assert db is not None, "the write lock must be held"
        with self._explained(), db.waiting(_WRITE_MS / 1000), db.transaction():
            db.execute(f"SET LOCAL statement_timeout = {_WRITE_MS}")
            if logged:
                db.execute("INSERT INTO commits (token) VALUES (?)", (mark + secrets.token_hex(8),))
            yield db

    # locks; Postgres grants them in the order of waiting, and takes them from a session that ends

    def _key(self) -> str:
        return f"hashtext('{self.schema}')"

    @contextmanager
    def writing(self, limit_s: float = math.inf) -> Iterator[None]:
        """Holds the write lock; a thread may enter it again.  Raises LibraryBusy after the usual time, or a shorter."""
        if self._own.depth:
            self._own.depth += 1
            try:
                yield
            finally:
                self._own.depth -= 1
            return
        self._keep_stretching()
        limit_s = min(limit_s, self._lock_timeout_s)
        ends = time.monotonic() + limit_s
        if not self._writer.acquire(timeout=limit_s):
            raise _busy(own_name())
        try:
            with self._borrowed() as db:
                self._lock(db, max(0.0, ends - time.monotonic()))
                self._own.writing, self._own.depth = db, 1
                try:
                    yield
                finally:
                    self._own.writing, self._own.depth = None, 0
                    self._unlock(db, WRITER)
        finally:
            self._writer.release()

    def _lock(self, db: Translating, limit_s: float) -> None:
        db.execute(f"SET lock_timeout = {max(1, int(limit_s * 1000))}")
        db.execute("SET statement_timeout = 0")
        try:
            with db.waiting(limit_s):
                db.execute(f"SELECT pg_advisory_lock({self._key()}, {WRITER})" + _ending(db, _STOPPED_S))
        except self._psycopg.errors.LockNotAvailable as error:
            holders = self.holders(db, (WRITER,))
            raise _busy(holders[0] if holders else "another process") from error
        finally:
            with contextlib.suppress(self._psycopg.Error):  # of a connection that is lost
                db.execute(f"SET statement_timeout = {READ_MS}")
                db.execute("SET lock_timeout = 0")  # else what is left of a long wait would be that of all that follows

    def _unlock(self, db: Translating, what: int) -> None:
        try:
            db.raw.rollback()
            db.execute(f"SELECT pg_advisory_unlock({self._key()}, {what})" + _ending(db, 0))
        except self._psycopg.Error:
            db.raw.close()  # which gives up the lock

    @contextmanager
    def stretch(self) -> Iterator[None]:
        """Lets others know that many batches are being written; on one connection for all runs of this process."""
        with self._mutex:
            if not self._stretches:
                with self._explained():
                    db = connect(self._address, self.schema)
                    db.execute(f"SELECT pg_advisory_lock_shared({self._key()}, {STRETCH})" + _ending(db, _STOPPED_S))
                    self._stretching = db
            self._stretches += 1
        try:
            yield
        finally:
            with self._mutex:
                self._stretches -= 1
                if not self._stretches and self._stretching is not None:
                    self._stretching.raw.close()  # which gives up the lock
                    self._stretching = None

    def _keep_stretching(self) -> None:
        """Lets the session with that lock live on, which would end as that of a stopped process does."""
        with self._mutex:
            db = self._stretching
            if db is None or time.monotonic() < db.used_at + _STOPPED_S / 10:
                return
            db.used_at = time.monotonic()
            with contextlib.suppress(self._psycopg.Error), db.waiting(_CHECK_S):
                db.execute("SELECT 1")

    @contextmanager
    def following(self, limit_s: float = _WRITE_MS / 1000) -> Iterator[Translating | None]:
        """A connection whose owner alone may bring the index up to date; None if that is another one.

        A statement may take so long.
        """
        limit_ms = min(int(1000 * limit_s), _WRITE_MS)
        with self._borrowed() as db, self._limited(db, limit_ms) if limit_ms < READ_MS else nullcontext():
            if not db.execute(f"SELECT pg_try_advisory_lock({self._key()}, {FOLLOWER})").fetchone()[0]:
                yield None
                return
            try:
                with self._limited(db, limit_ms, _ending(db, _STOPPED_S)):
                    yield db
            finally:
                self._unlock(db, FOLLOWER)

    def keep_others_from_following(self, db: Connection) -> None:
        """Until the end of the transaction."""
        db.execute(f"SELECT pg_advisory_xact_lock({self._key()}, {FOLLOWER})")

    def holders(self, db: Translating, what: Sequence[int]) -> list[str]:
        """The programs that hold one of the locks."""
        found = db.execute(
            "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
            f" WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {self._key()}::oid"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            f" AND l.objid IN ({', '.join(map(str, what))})"
        )
        return [row[0] for row in found]

    def close(self) -> None:
        """Closes every idle connection; one in use closes when it is given back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        self.breaks += 1
        self.on_break()
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().raw.close()

    @contextmanager
    def apart(self, db: Translating | None) -> Iterator[Translating]:
        """A connection that is kept beside the others, with a writer's time: this one, or a new one if it was lost."""
        with self._explained():
            if db is not None:
                with contextlib.suppress(self._psycopg.Error):
                    db.raw.execute("SELECT 1")
            if db is None or db.raw.closed:
                db = connect(self._address, self.schema)
                db.execute(f"SELECT set_config('statement_timeout', '{_WRITE_MS}', false)" + _ending(db, _STOPPED_S))
            with db.waiting(_WRITE_MS / 1000):
                yield db


def _ending(db: Translating, after_s: int) -> str:
    """Has a session end that asks nothing for so long, where Postgres can do so."""
    return f", set_config('idle_session_timeout', '{after_s}s', false)" * (db.raw.info.server_version >= _ENDS_IDLE)


def _busy(writer: str) -> LibraryBusy:
    return LibraryBusy(f"Another writer is at work: {writer}.", "Try again when it has finished.")
