"""Which documents do chunks belong to?  Remembered while nothing changes, since hits come from the same ones again."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from threading import Lock

from refdesk.model import Document
from refdesk.store import reads

_MOST = 4000  # documents


class Owners:
    """Documents of the current state of the record, by row."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._seq = -1
        self._known: dict[int, Document] = {}

    def find(self, db: sqlite3.Connection, seq: int, rows: Collection[int]) -> Mapping[int, Document]:
        """Those of the documents that exist, and maybe others; seq was read before, so none is older than it."""
        with self._mutex:
            if seq != self._seq or len(self._known) > _MOST:
                self._seq, self._known = seq, {}
            known = self._known
        if missing := [row for row in rows if row not in known]:
            known.update(reads.documents_by_row(db, missing))
        return known
