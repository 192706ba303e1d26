"""Is the library whole?"""

from __future__ import annotations

import random
import sqlite3

from refdesk.analyse import terms
from refdesk.model import Filters, Finding
from refdesk.store import contents
from refdesk.store.filters import Scope
from refdesk.store.followers import Followers
from refdesk.store.gate import Gate
from refdesk.store.lexical import IndexDamaged, seam
from refdesk.store.record import Record, sequence

_EVERYTHING = Scope(Filters(), None, None, None)
_SHOWN = 5
_SAMPLE = 200
_SELF = 0.99  # the least cosine of a vector with the nearest one to it, which is itself or its equal


def verify(record: Record, gate: Gate, followers: Followers, *, repair: bool) -> list[Finding]:
    """What was checked in the record and both indexes, and what was repaired."""
    found = [_check_record(record)]
    if not found[0].ok:
        return found
    if record.read_only:
        if repair:
            record.refuse_read_only()
        return found + _check_followers(record, followers, repair=False)
    if repair:
        with gate.held():
            found += _check_followers(record, followers, repair=True)
            with record.transaction(logged=False) as db:
                contents.drop_loose_vectors(db)
        return found
    with gate.held_if_free() as free:
        if free:
            return found + _check_followers(record, followers, repair=False)
    message = "Not checked: a writer is at work. Try again when it has finished."
    return found + [Finding(part=part, ok=True, message=message) for part in ("lexical", "vectors")]


def _check_followers(record: Record, followers: Followers, *, repair: bool) -> list[Finding]:
    return [_check_lexical(record, followers, repair=repair), _check_vectors(record, followers, repair=repair)]


# --- the record ---------------------------------------------------------------------------------


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


# --- full text ----------------------------------------------------------------------------------


def _check_lexical(record: Record, followers: Followers, *, repair: bool) -> Finding:
    wanted = _ids(record, "SELECT id FROM chunks")
    try:
        with seam():
            problem = followers.lexical_problem() or _lexical_difference(record, followers, wanted)
    except IndexDamaged as error:
        problem = f"can't be read: {error}"
    if problem is None:
        return Finding(part="lexical", ok=True, message=f"The full-text index holds all {len(wanted)} chunks.")
    if repair:
        followers.rebuild_lexical()
    return _finding("lexical", "full-text index", problem, repair)


def _lexical_difference(record: Record, followers: Followers, wanted: set[int]) -> str | None:
    index = followers.lexical(followers.sequence())
    if index is None:
        return "is missing or can't be read"
    problem = _difference(index.ids(), wanted)
    if problem:
        return problem
    with record.reading() as db:
        for chunk_id in _drawn(wanted):
            row = db.execute("SELECT t.text FROM chunks c JOIN texts t ON t.id = c.text WHERE c.id = ?", (chunk_id,))
            if not index.has(chunk_id, terms(row.fetchone()[0])[:_SHOWN]):
                return f"has other words for chunk {chunk_id} than the record"
    return None


# --- vectors ------------------------------------------------------------------------------------


def _check_vectors(record: Record, followers: Followers, *, repair: bool) -> Finding:
    wanted = _ids(record, "SELECT id FROM chunks WHERE vector IS NOT NULL")
    problem = followers.snapshot_problem() or _vector_difference(record, followers, wanted)
    if problem is None:
        bare = len(_ids(record, "SELECT id FROM chunks WHERE vector IS NULL"))
        more = f" {bare} chunks have none: `refdesk reembed` embeds them." if bare else ""
        return Finding(part="vectors", ok=True, message=f"The vector index holds all {len(wanted)} vectors.{more}")
    if repair:
        followers.rebuild_vectors()
    return _finding("vectors", "vector index", problem, repair)


def _vector_difference(record: Record, followers: Followers, wanted: set[int]) -> str | None:
    from refdesk.store.vectors import cosines, vector_of

    index = followers.vectors(followers.sequence())
    with index.lock.reading(), record.reading() as db:
        problem = _difference(index.ids(), wanted)
        for chunk_id in [] if problem else _drawn(wanted):
            vector = vector_of(db, chunk_id)
            itself = index.cosines(vector, [chunk_id]).get(chunk_id, 0.0)
            near = cosines(db, vector, index.nearest(vector, _EVERYTHING, _SHOWN).ids)
            if vector.any() and min(itself, max(near.values(), default=0.0)) < _SELF:
                return f"has another vector for chunk {chunk_id} than the record"
    return problem


# --- both ---------------------------------------------------------------------------------------


def _ids(record: Record, query: str) -> set[int]:
    with record.reading() as db:
        return {row[0] for row in db.execute(query)}


def _drawn(ids: set[int]) -> list[int]:
    return random.Random(len(ids)).sample(sorted(ids), min(_SAMPLE, len(ids)))


def _difference(held: list[int] | None, wanted: set[int]) -> str | None:
    if held is None:
        return "can't be read"
    missing = len(wanted.difference(held))
    extra = len(held) - (len(wanted) - missing)
    return f"lacks {missing} chunks and has {extra} too many" if missing or extra else None


def _finding(part: str, name: str, problem: str, repaired: bool) -> Finding:
    then = "It was rebuilt." if repaired else "The next search repairs what it notices; `refdesk doctor` repairs all."
    return Finding(part=part, ok=repaired, message=f"The {name} {problem}. {then}", repaired=repaired)
