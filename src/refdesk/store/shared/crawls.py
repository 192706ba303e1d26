"""What crawls know, in Postgres: any machine can go on with one."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from refdesk.store.record import crawls
from refdesk.store.record.contents import meta, put_meta
from refdesk.store.shared.database import Postgres
from refdesk.store.shared.dialect import Translating

_LOST_S = 40.0  # more than Postgres takes to find that the client of a session is gone, and its locks with it
_AGAIN_S = 0.1


class SharedCrawls:
    """Implements Crawls: the tables are written without the write lock, since each crawl has rows of its own."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    @contextmanager
    def transaction(self) -> Iterator[Translating]:
        with self._postgres.reading() as db, db.transaction():
            yield db

    @contextmanager
    def lock(self, collection: str) -> Iterator[crawls.Transaction]:
        lock = _Lock(self._postgres, collection)
        try:
            yield lock.transaction
        finally:
            lock.release()

    def free(self) -> None:
        """Does nothing: Postgres does so by itself."""

    def close(self) -> None:
        """Does nothing: the connections are the store's."""


class _Lock:
    """The lock of one crawl, with the connection that has it and that the crawl writes on: nothing outlives the lock.

    Its session ends when Postgres is started again, and when the crawl's process has been stopped for long.  Then the
    next transaction takes the lock again, unless another crawl has had it meanwhile, which its mark in `meta` tells.
    """

    def __init__(self, postgres: Postgres, collection: str) -> None:
        self._postgres = postgres
        self._collection = collection
        self._key = (f"{postgres.schema} crawl", collection)
        self._mark = (f"crawl of {collection}", secrets.token_hex(8))
        self._mutex = threading.Lock()  # of the threads of a crawl one has the connection
        with postgres.apart(None) as db, _closed_if_not_used(db):
            if not self._is_taken(db):
                raise crawls.busy(collection)
            put_meta(db, *self._mark)
            self._db = db

    @contextmanager
    def transaction(self) -> Iterator[Translating]:
        """Has a writer's time, since some statements go through all pages of a site."""
        with self._mutex, self._postgres.apart(self._db) as db:
            if db is not self._db:
                with _closed_if_not_used(db):
                    self._take_again(db)
                self._db = db
            with db.transaction():
                yield db

    def _is_taken(self, db: Translating) -> bool:
        return bool(db.execute("SELECT pg_try_advisory_lock(hashtext(?), hashtext(?))", self._key).fetchone()[0])

    def _take_again(self, db: Translating) -> None:
        name, mark = self._mark
        ends = time.monotonic() + _LOST_S
        while True:
            is_taken = self._is_taken(db)
            if meta(db, name) != mark or time.monotonic() > ends:
                raise crawls.taken_over(self._collection)
            if is_taken:
                return
            time.sleep(_AGAIN_S)  # the lost session may still have it

    def release(self) -> None:
        import psycopg

        with self._mutex, contextlib.suppress(psycopg.Error):  # of a lost connection, and its lock with it
            self._db.execute("DELETE FROM meta WHERE key = ? AND value = ?", self._mark)
            self._db.execute("SELECT pg_advisory_unlock(hashtext(?), hashtext(?))", self._key)
        self._db.raw.close()


@contextmanager
def _closed_if_not_used(db: Translating) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.raw.close()
        raise
