"""Checks of the record, the state of crawls and both indexes, and their repair."""

from __future__ import annotations

import json
import random
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from refdesk.library import CRAWL_FILE, Library
from refdesk.model import Filters, Finding
from refdesk.store.gate import Gate
from refdesk.store.record import contents, rows
from refdesk.store.record.database import Record, sequence
from refdesk.store.record.filters import Scope
from refdesk.store.vectors.follower import VectorFollower
from refdesk.store.words import query
from refdesk.store.words.follower import LexicalFollower
from refdesk.store.words.index import IndexDamaged, seam
from refdesk.text.analyse import terms

_EVERYTHING = Scope(Filters(), None, None)
_SHOWN = 5
_SAMPLE = 200
# What a damaged database gives: also values that are none of those that were written.
_UNREADABLE = (sqlite3.Error, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, zlib.error)
_SELF = 0.99  # the least cosine of a vector with the nearest one to it, which is itself or its equal


def verify(
    record: Record, gate: Gate, lexical: LexicalFollower, vectors: VectorFollower, *, repair: bool
) -> list[Finding]:
    """What was checked in the record and both indexes, and what was repaired."""

    def check_indexes(*, repair: bool) -> list[Finding]:
        return [_check_lexical(record, lexical, repair=repair), _check_vectors(record, vectors, repair=repair)]

    found = [_check_record(record), *check_beside(record.library, repair=repair and not record.read_only)]
    if not found[0].ok:
        return found
    if record.read_only:
        if repair:
            record.refuse_read_only()
        return found + check_indexes(repair=False)
    if repair:
        with gate.held():
            found += check_indexes(repair=True)
            with record.transaction(logged=False) as db:
                contents.drop_loose_vectors(db)
        return found
    with gate.held_if_free() as free:
        if free:
            return found + check_indexes(repair=False)
    message = "Not checked: a writer is at work. Try again when it has finished."
    return found + [Finding(part=part, ok=True, message=message) for part in ("lexical", "vectors")]


# --- the record ---------------------------------------------------------------------------------


def _check_record(record: Record) -> Finding:
    said = ""
    with record.snapshot() as db:
        try:
            problems = _problems(db) or _wrong_contents(db) or _wrong_playbooks(db)
            chunks = db.execute("SELECT count(*) FROM chunks").fetchone()[0]
            said = f"The record is sound: {chunks} chunks, commit {sequence(db)}."
        except _UNREADABLE as error:
            problems = [str(error)]
    if not problems:
        return Finding(part="record", ok=True, message=said)
    shown = "; ".join(problems[:_SHOWN])
    advice = "Restore the folder with `refdesk restore BACKUP`, or move it away and index again."
    return Finding(part="record", ok=False, message=f"The record is damaged: {shown}. {advice}")


def _problems(db: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with a database."""
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    return found + [f"{row[0]} row {row[1]} refers to nothing" for row in db.execute("PRAGMA foreign_key_check")]


def _wrong_contents(db: sqlite3.Connection) -> list[str]:
    """Texts and raw documents that are not those whose hash they are kept under."""
    db.text_factory = bytes
    try:
        texts = [
            f"text {row} is not what was written"
            for row, key, text in db.execute("SELECT id, hash, text FROM texts")
            if rows.content_key(text) != key
        ]
    finally:
        db.text_factory = str
    blobs = [
        f"raw document {row} is not what was written"
        for row, key, data in db.execute("SELECT id, hash, data FROM blobs")
        if not _is_packed(key, data)
    ]
    return texts + blobs


def _wrong_playbooks(db: sqlite3.Connection) -> list[str]:
    """Playbooks that can't be read, or whose versions have gaps; what is searched of each is a chunk like others."""
    versions: dict[str, set[int]] = {}
    for skill_id, version, document in db.execute("SELECT skill_id, version, skill FROM playbook_versions"):
        json.loads(document)
        versions.setdefault(skill_id, set()).add(version)
    found = []
    for skill_id, document in db.execute("SELECT skill_id, skill FROM playbooks"):
        newest, kept = json.loads(document)["version"], versions.get(skill_id, set())
        if newest not in kept or kept != set(range(min(kept), newest + 1)):
            found.append(f"playbook {skill_id} lacks versions")
    return found


def _is_packed(key: bytes, data: bytes) -> bool:
    try:
        return rows.content_key(zlib.decompress(data)) == key
    except zlib.error:
        return False


# --- what is kept beside it ---------------------------------------------------------------------


def check_beside(library: Library, *, repair: bool) -> list[Finding]:
    """What was found in what crawls know, where there is any."""
    found = []
    if library.crawls.exists():
        problem, counted = _examined(library.crawls)
        message = f"What crawls know is sound: {counted}."
        if problem and repair:
            for name in (CRAWL_FILE, f"{CRAWL_FILE}-wal", f"{CRAWL_FILE}-shm"):  # where nobody looks for it
                if (part := library.crawls.with_name(name)).exists():
                    part.replace(part.with_name(f"{name}.damaged"))
            message = f"{CRAWL_FILE} {problem}. It was set aside: the next crawl of a site asks for every page again."
        elif problem:
            message = (
                f"{CRAWL_FILE} {problem}. `refdesk doctor` sets it aside; the next crawl asks for every page again."
            )
        found.append(
            Finding(part="crawl", ok=repair or not problem, message=message, repaired=bool(problem) and repair)
        )
    return found


def _examined(file: Path) -> tuple[str, str]:
    """What is wrong with the database of crawls, and what is in it."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as db:
            if problems := _problems(db):
                return f"is damaged: {'; '.join(problems[:_SHOWN])}", ""
            crawls, pages = (db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("crawls", "pages"))  # noqa: S608
            db.execute("SELECT sum(length(data)) FROM bodies").fetchone()
            return "", f"{pages} pages of {crawls} sites"
    except _UNREADABLE as error:
        return f"is damaged: {error}", ""


# --- full text ----------------------------------------------------------------------------------


def _check_lexical(record: Record, lexical: LexicalFollower, *, repair: bool) -> Finding:
    wanted = _ids(record, "SELECT id FROM chunks")
    try:
        with seam():
            problem = lexical.problem() or _lexical_difference(record, lexical, wanted)
    except IndexDamaged as error:
        problem = f"can't be read: {error}"
    if problem is None:
        return Finding(part="lexical", ok=True, message=f"The full-text index holds all {len(wanted)} chunks.")
    if repair:
        lexical.rebuild()
    return _finding("lexical", "full-text index", problem, repair)


def _lexical_difference(record: Record, lexical: LexicalFollower, wanted: set[int]) -> str | None:
    with record.reading() as db:
        seq = sequence(db)
    index = lexical.at(seq)
    found = index.current() if index is not None else None
    if found is None:
        return "is missing or can't be read"
    ask = query.Ask(*found, _EVERYTHING)
    problem = _difference(query.ids(ask.searcher), wanted)
    if problem:
        return problem
    with record.reading() as db:
        for chunk_id in _drawn(wanted):
            row = db.execute("SELECT t.text FROM chunks c JOIN texts t ON t.id = c.text WHERE c.id = ?", (chunk_id,))
            if not query.has(ask, chunk_id, terms(row.fetchone()[0])[:_SHOWN]):
                return f"has other words for chunk {chunk_id} than the record"
    return None


# --- vectors ------------------------------------------------------------------------------------


def _check_vectors(record: Record, vectors: VectorFollower, *, repair: bool) -> Finding:
    wanted = _ids(record, "SELECT id FROM chunks WHERE vector IS NOT NULL")
    try:
        problem = vectors.problem() or _vector_difference(record, vectors, wanted)
    except _UNREADABLE as error:
        problem = f"can't be read: {error}"
    if problem is None:
        bare = len(_ids(record, "SELECT id FROM chunks WHERE vector IS NULL"))
        more = f" {bare} chunks have none: `refdesk reembed` embeds them." if bare else ""
        return Finding(part="vectors", ok=True, message=f"The vector index holds all {len(wanted)} vectors.{more}")
    if repair:
        vectors.rebuild()
    return _finding("vectors", "vector index", problem, repair)


def _vector_difference(record: Record, vectors: VectorFollower, wanted: set[int]) -> str | None:
    from refdesk.store.vectors.index import cosines, vector_of

    with record.reading() as db:
        seq = sequence(db)
    index = vectors.at(seq, whole=True)
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


def _difference(held: Sequence[int], wanted: set[int]) -> str | None:
    missing = len(wanted.difference(held))
    extra = len(held) - (len(wanted) - missing)
    return f"lacks {missing} chunks and has {extra} too many" if missing or extra else None


def _finding(part: str, name: str, problem: str, repaired: bool) -> Finding:
    then = "It was rebuilt." if repaired else "The next search repairs what it notices; `refdesk doctor` repairs all."
    return Finding(part=part, ok=repaired, message=f"The {name} {problem}. {then}", repaired=repaired)
