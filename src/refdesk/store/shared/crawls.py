"""What crawls know, in Postgres: any machine can go on with one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from refdesk.store.record import crawls
from refdesk.store.shared.database import Postgres
from refdesk.store.shared.dialect import Translating


class SharedCrawls:
    """Implements Crawls: the tables are written without the write lock, since each crawl has rows of its own."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    @contextmanager
    def transaction(self) -> Iterator[Translating]:
        with self._postgres.reading() as db, db.transaction():
            yield db

    @contextmanager
    def lock(self, collection: str) -> Iterator[None]:
        import psycopg

        with self._postgres.reading() as db:
            key = (f"{self._postgres.schema} crawl", collection)
            if not db.execute("SELECT pg_try_advisory_lock(hashtext(?), hashtext(?))", key).fetchone()[0]:
                raise crawls.busy(collection)
            try:
                yield
            finally:
                with contextlib.suppress(psycopg.Error):  # of a lost connection, and its lock with it
                    db.execute("SELECT pg_advisory_unlock(hashtext(?), hashtext(?))", key)
                db.raw.close()

    def free(self) -> None:
        """Does nothing: Postgres does so by itself."""

    def close(self) -> None:
        """Does nothing: the connections are the store's."""
