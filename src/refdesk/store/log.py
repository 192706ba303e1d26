"""How far has a follower come, and what is left for it?"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

LEXICAL, VECTORS = 1, 2  # the parts of a change, one for each follower
LONG = "long-"  # begins the tokens of commits in a long stretch


@dataclass(frozen=True, slots=True)
class Applied:
    """The last commit of the record that a follower holds.

    The token tells it from another commit of that number: after a loss of power the record may have gone back.
    """

    seq: int
    token: str


def last_commit(db: sqlite3.Connection) -> Applied:
    """The record's last commit."""
    found = db.execute("SELECT seq, token FROM commits ORDER BY seq DESC LIMIT 1").fetchone()
    return Applied(*found) if found else Applied(0, "")


def pending(db: sqlite3.Connection, applied: Applied | None, part: int) -> list[int] | None:
    """The chunks that changed since; None when the log can't tell and all must be taken again."""
    if applied is None or not _is_known(db, applied) or (part == VECTORS and applied.seq < _vectors_since(db)):
        return None
    found = db.execute(
        "SELECT DISTINCT chunk FROM changes WHERE seq > ? AND parts & ? ORDER BY chunk", (applied.seq, part)
    )
    return [chunk for (chunk,) in found]


def is_waited_for(db: sqlite3.Connection, applied: Applied, part: int) -> bool:
    """Whether a chunk changed since, but for what a long stretch brings: that is seen as it comes."""
    within = (
        "SELECT 1 FROM commits WHERE seq > ? AND token NOT GLOB ?"
        " AND EXISTS (SELECT 1 FROM changes WHERE changes.seq = commits.seq AND parts & ?) LIMIT 1"
    )
    return db.execute(within, (applied.seq, f"{LONG}*", part)).fetchone() is not None


def _is_known(db: sqlite3.Connection, applied: Applied) -> bool:
    if applied.seq == 0:
        floor = db.execute("SELECT min(seq) FROM commits").fetchone()[0]
        return floor in (None, 1)
    known = "SELECT 1 FROM commits WHERE seq = ? AND token = ?"
    return db.execute(known, (applied.seq, applied.token)).fetchone() is not None


def _vectors_since(db: sqlite3.Connection) -> int:
    found = db.execute("SELECT value FROM meta WHERE key = 'vectors_since'").fetchone()
    return int(found[0]) if found else 0
