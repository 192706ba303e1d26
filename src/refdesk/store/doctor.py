"""Is the library whole?  And a copy of it that is."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from refdesk.errors import InvalidInput, StoreError
from refdesk.model import Finding
from refdesk.store import writes
from refdesk.store.followers import Followers
from refdesk.store.gate import Gate
from refdesk.store.record import FILE, Record, explained, sequence

_SHOWN = 5


def verify(record: Record, gate: Gate, followers: Followers, *, repair: bool) -> list[Finding]:
    """What was checked in the record and both indexes, and what was repaired."""
    found = [_check_record(record)]
    if not found[0].ok:
        return found
    with gate.held() if repair else contextlib.nullcontext():
        found.append(_check_lexical(record, followers, repair=repair))
        found.append(_check_vectors(record, followers, repair=repair))
        if repair:
            with record.transaction(logged=False) as db:
                writes.drop_loose_vectors(db)
    return found


def _check_record(record: Record) -> Finding:
    with record.reading() as db:
        try:
            problems = [row[0] for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
            problems += [f"{row[0]} row {row[1]} refers to nothing" for row in db.execute("PRAGMA foreign_key_check")]
        except sqlite3.DatabaseError as error:
            problems = [str(error)]
        if problems:
            shown = "; ".join(problems[:_SHOWN])
            advice = "Restore the folder from a backup, or move it away and index again."
            return Finding(part="record", ok=False, message=f"The record is damaged: {shown}. {advice}")
        chunks = db.execute("SELECT count(*) FROM chunks").fetchone()[0]
        return Finding(part="record", ok=True, message=f"The record is sound: {chunks} chunks, commit {sequence(db)}.")


def _check_lexical(record: Record, followers: Followers, *, repair: bool) -> Finding:
    held, wanted = followers.lexical_ids(), _ids(record, "SELECT id FROM chunks")
    problem = _difference(held, wanted)
    if problem is None:
        return Finding(part="lexical", ok=True, message=f"The full-text index holds all {len(wanted)} chunks.")
    if repair:
        followers.rebuild_lexical()
    return _finding("lexical", "full-text index", problem, repair)


def _check_vectors(record: Record, followers: Followers, *, repair: bool) -> Finding:
    held, wanted = followers.vector_ids(), _ids(record, "SELECT id FROM chunks WHERE vector IS NOT NULL")
    problem = _difference(held, wanted)
    if problem is None:
        return Finding(part="vectors", ok=True, message=f"The vector index holds all {len(wanted)} vectors.")
    if repair:
        followers.rebuild_vectors()
    return _finding("vectors", "vector index", problem, repair)


def _ids(record: Record, query: str) -> set[int]:
    with record.reading() as db:
        return {row[0] for row in db.execute(query)}


def _difference(held: list[int] | None, wanted: set[int]) -> str | None:
    if held is None:
        return "can't be read"
    missing = len(wanted.difference(held))
    extra = len(held) - (len(wanted) - missing)
    return f"lacks {missing} chunks and has {extra} too many" if missing or extra else None


def _finding(part: str, name: str, problem: str, repaired: bool) -> Finding:
    then = "It was rebuilt." if repaired else "Run `refdesk doctor` with repair, or search once: it is rebuilt then."
    return Finding(part=part, ok=repaired, message=f"The {name} {problem}. {then}", repaired=repaired)


def backup(record: Record, target: Path) -> None:
    """Copies the record, as it is at one moment, into a new library folder; its indexes are built when it is opened."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"{target} exists and is not an empty folder.", "Name a new folder for the backup.")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder {target} can't be made: {error.strerror}.", "Choose another place.") from error
    with explained(target / FILE), contextlib.closing(sqlite3.connect(target / FILE)) as copy:
        with record.reading() as db:
            db.backup(copy)
        copy.execute("DELETE FROM meta WHERE key = 'snapshot'")
        copy.commit()
