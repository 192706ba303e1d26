"""How is the record of a crawl written?  Many small statements at once, and bodies apart from them."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

from refdesk.crawl.spool import Spool
from refdesk.crawl.tables import prepare
from refdesk.settings import Durability
from refdesk.store import folder
from refdesk.store.record import explained

SET_ASIDE = "`refdesk doctor` sets it aside; the next crawl then asks for every page again and keeps what is indexed."

Statement = tuple[str, tuple[Any, ...]]


class Ledger:
    """The tables of a crawl and the bodies of one collection; usable from several threads."""

    def __init__(self, file: Path, collection: str, durability: Durability) -> None:
        folder.prepare(file.parent)
        folder.make_private(file)
        self._mutex = threading.Lock()  # for the tables
        self._brief = threading.Lock()  # for what is put off and for bodies: nobody waits for the tables to keep a page
        self._explained = partial(explained, file, SET_ASIDE)
        self._later: list[Statement] = []
        self._spool = Spool(spool_file(file, collection), is_synced=durability == "full")
        with self._explained():
            self._db = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
            try:
                prepare(self._db, durability)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        with self._mutex:
            try:
                self._write()
            finally:
                self._spool.close()
                self._db.close()

    def flush(self) -> None:
        """Writes what was put off, for others to see."""
        with self._mutex:
            self._write()

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._mutex, self._explained():
            self._write()
            return self._db.execute(query, values).fetchall()

    def _run(self, query: str, *values: Any) -> None:
        self._together((query, values))

    def _put_off(self, *statements: Statement) -> None:
        """Has statements run with the next that can't wait: many pages then cost one transaction."""
        with self._brief:
            self._later += statements

    def _together(self, *statements: Statement) -> None:
        """Runs statements now, so that all of them happen or none."""
        self._put_off(*statements)
        self.flush()

    def _write(self) -> None:
        with self._brief:
            later, self._later = self._later, []
        if not later:
            return
        try:
            with self._explained():
                self._db.execute("BEGIN IMMEDIATE")
                for query, values in later:
                    self._db.execute(query, values)
                self._db.execute("COMMIT")
        except BaseException:
            with self._brief:
                self._later = [*later, *self._later]
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # what failed before says why
                    self._db.execute("ROLLBACK")
            raise


def spool_file(file: Path, collection: str) -> Path:
    """Where the bodies of a collection are, given where the tables are."""
    return file.with_name(f"{file.stem}-{collection}.bodies")
