"""The tables of what crawls know: in crawl.db beside the record of a folder, in the record of a shared library."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from refdesk.errors import LibraryBusy, LibraryTooNew
from refdesk.library import Library
from refdesk.settings import Durability
from refdesk.store.record.database import explained
from refdesk.store.record.schema import Connection
from refdesk.system.files import make_private

SET_ASIDE = "`refdesk doctor` moves it aside; the next crawl then requests every page again and keeps what is indexed."

_FORMAT = 4
SCHEMA = """
CREATE TABLE crawls (
    collection TEXT PRIMARY KEY, start TEXT NOT NULL, round INTEGER NOT NULL, unfinished INTEGER NOT NULL,
    seeded INTEGER NOT NULL DEFAULT 0, robots TEXT, robots_at REAL NOT NULL DEFAULT 0,
    full_url TEXT NOT NULL DEFAULT '', full_text TEXT NOT NULL DEFAULT ''
);
CREATE TABLE pages (
    collection TEXT NOT NULL, url TEXT NOT NULL, round INTEGER NOT NULL, state TEXT NOT NULL, depth INTEGER NOT NULL,
    late INTEGER NOT NULL DEFAULT 0, hops INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '', target TEXT NOT NULL DEFAULT '', etag TEXT NOT NULL DEFAULT '',
    last_modified TEXT NOT NULL DEFAULT '', hash TEXT NOT NULL DEFAULT '', content_type TEXT NOT NULL DEFAULT '',
    charset TEXT NOT NULL DEFAULT '', headers TEXT NOT NULL DEFAULT '{}',
    asked_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, url)
);
CREATE INDEX pages_by_state ON pages (collection, state);
CREATE INDEX pages_by_url ON pages (url);
CREATE TABLE bodies (collection TEXT NOT NULL, url TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (collection, url))
"""
TABLES = {
    "crawls": "collection, start, round, unfinished, seeded, robots, robots_at, full_url, full_text",
    "pages": "collection, url, round, state, depth, late, hops, status, reason, target, etag, last_modified, hash,"
    " content_type, charset, headers, asked_at",
    "bodies": "collection, url, data",
}

Transaction = Callable[[], AbstractContextManager[Connection]]


class Crawls(Protocol):
    """The tables, usable from several threads."""

    def transaction(self) -> AbstractContextManager[Connection]: ...
    def lock(self, collection: str) -> AbstractContextManager[Transaction]:
        """Held by the one crawl of a collection, whose transactions need it; raises LibraryBusy, as they do."""

    def free(self) -> None:
        """Gives the room of removed rows back, where nobody else does."""

    def close(self) -> None: ...


def busy(collection: str) -> LibraryBusy:
    return LibraryBusy(f"Another crawl of {collection} is running.", "Wait for it, or stop it.")


def taken_over(collection: str) -> LibraryBusy:
    return LibraryBusy(
        f"Another crawl of {collection} has taken over: this one was stopped, or Postgres was, and its lock was lost.",
        "Wait for the other one; or stop it, and crawl again.",
    )


class CrawlFile:
    """Implements Crawls in crawl.db."""

    def __init__(self, file: Path, durability: Durability = "normal") -> None:
        self._library = Library(file.parent)
        self._library.prepare()
        make_private(file)
        self._file = file
        self._mutex = threading.Lock()
        with explained(file, SET_ASIDE):
            self._db = sqlite3.connect(file, timeout=30.0, isolation_level="IMMEDIATE", check_same_thread=False)
            try:
                _prepare(self._db, durability)
            except BaseException:
                self._db.close()
                raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self._mutex, explained(self._file, SET_ASIDE), self._db:
            yield self._db

    @contextmanager
    def lock(self, collection: str) -> Iterator[Transaction]:
        from filelock import FileLock, Timeout

        lock = FileLock(self._library.crawl_lock(collection), timeout=0, thread_local=False, mode=0o600)
        try:
            lock.acquire()
        except Timeout as error:
            raise busy(collection) from error
        try:
            yield self.transaction
        finally:
            lock.release()

    def free(self) -> None:
        with self._mutex, explained(self._file, SET_ASIDE):
            self._db.executescript("PRAGMA incremental_vacuum")  # execute() would free a single page
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        with self._mutex:
            self._db.close()


def _prepare(db: sqlite3.Connection, durability: Durability) -> None:
    """Creates the tables, in place of those of a format that no release had."""
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {durability}")
    with db:
        db.execute("BEGIN IMMEDIATE")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0 and db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise sqlite3.DatabaseError("it belongs to another program")
        if found > _FORMAT:
            raise LibraryTooNew("crawl.db was written by a newer RefDesk.", "Update RefDesk.")
        if found < _FORMAT:
            old = (f"DROP TABLE IF EXISTS {table}" for table in TABLES)
            for statement in (*old, *SCHEMA.split(";\n"), f"PRAGMA user_version = {_FORMAT}"):
                db.execute(statement)
