"""What does one transaction touch?"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable

from refdesk.store import contents
from refdesk.store.log import LEXICAL, VECTORS
from refdesk.store.record import sequence

BOTH = LEXICAL | VECTORS


class Change:
    """What one transaction touches: logged and swept when it is done."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.seq = sequence(db)
        self.removed_chunks = 0
        self.terms: dict[int, str] = {}  # of new chunks, where the batch brings them
        self._parts: dict[int, int] = defaultdict(int)
        self._texts: set[int] = set()
        self._blobs: set[int] = set()
        last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
        self._last_id: int = last[0] if last else 0

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @property
    def lexical_chunks(self) -> int:
        """How many chunks the full-text index has to take again."""
        return sum(1 for parts in self._parts.values() if parts & LEXICAL)

    def touched(self, chunk_id: int, parts: int) -> None:
        self._parts[chunk_id] |= parts

    def loosened_blob(self, blob: int) -> None:
        self._blobs.add(blob)

    def remove_chunks(self, found: Iterable[tuple[int, int]]) -> None:
        """Removes chunks given as (id, text)."""
        gone = list(found)
        if not gone:
            return
        self.db.executemany("DELETE FROM chunks WHERE id = ?", [(chunk,) for chunk, _ in gone])
        self._texts.update(text for _, text in gone)
        self.removed_chunks += len(gone)
        for chunk, _ in gone:
            self.touched(chunk, BOTH)

    def finish(self) -> None:
        """Writes the log and drops content that nothing refers to any more."""
        logged = [(self.seq, chunk, parts) for chunk, parts in sorted(self._parts.items())]
        self.db.executemany("INSERT INTO changes (seq, chunk, parts) VALUES (?, ?, ?)", logged)
        contents.drop_loose(self.db, self._texts, self._blobs)
