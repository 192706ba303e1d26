"""Where are skills kept by default?  One SQLite file in the library: every version, its words and its vector."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from refdesk import analyse
from refdesk.errors import LibraryBusy, LibraryTooNew, SkillNotFound, StaleSkill, StoreError
from refdesk.settings import Durability
from refdesk.skills.model import Outcome, Skill, SkillUpdate, moved, now
from refdesk.skills.store import DUPLICATE, TOP_K, Revision
from refdesk.store import folder

T = TypeVar("T")

_FORMAT = 1
_SCHEMA = """
CREATE TABLE skills (
    number INTEGER PRIMARY KEY, skill_id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, version INTEGER NOT NULL,
    problem TEXT NOT NULL,
    resolution_md TEXT NOT NULL, conditions TEXT NOT NULL, keywords TEXT NOT NULL, product_area TEXT NOT NULL,
    issue_type TEXT NOT NULL, confidence REAL NOT NULL, times_used INTEGER NOT NULL, times_confirmed INTEGER NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, embedding BLOB NOT NULL
);
CREATE TABLE versions (
    skill_id TEXT NOT NULL REFERENCES skills (skill_id), version INTEGER NOT NULL, made_at TEXT NOT NULL,
    skill TEXT NOT NULL,
    PRIMARY KEY (skill_id, version)
);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO facts VALUES ('generation', '0'), ('embedder', '');
CREATE VIRTUAL TABLE words USING fts5 (
    title, problem, resolution_md, keywords, tokenize = "unicode61 remove_diacritics 0"
);
"""
_COLUMNS = tuple(Skill.__dataclass_fields__)
_LISTS = ("conditions", "keywords")
# How much a word counts by where it stands: title, problem, resolution, keywords.
_BM25 = "bm25(words, 3.0, 3.0, 1.0, 2.0)"
_VECTOR_SHARE = 0.7
_WIDE = 50  # how many hits by words are weighed against the vectors


class SqliteSkillStore:
    """Skills in `skills.db`; safe for many threads and many processes at once."""

    def __init__(self, path: Path, *, lock_timeout_s: float = 30.0, durability: Durability = "normal") -> None:
        self._path = path
        self._durability = durability
        self._lock_timeout_s = lock_timeout_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._vectors: tuple[int, list[str], NDArray[np.float32]] | None = None

    # --- the contract's five ------------------------------------------------------------------------

    async def hybrid_search(
        self, query_embedding: list[float], query_text: str, top_k: int = TOP_K
    ) -> list[dict[str, Any]]:
        """`{"skill": Skill, "score": float}`, best first: seven parts vector to three parts words."""

        def search(db: sqlite3.Connection) -> list[dict[str, Any]]:
            by_words = _normalised(_lexical(db, query_text))
            by_vector = self._cosines(db, query_embedding)
            share = _VECTOR_SHARE if by_vector else 0.0
            scores = {
                skill_id: share * max(0.0, by_vector.get(skill_id, 0.0)) + (1 - share) * by_words.get(skill_id, 0.0)
                for skill_id in by_words.keys() | by_vector.keys()
            }
            best = sorted(scores, key=lambda skill_id: (-scores[skill_id], skill_id))[:top_k]
            return [{"skill": _fetch(db, each), "score": min(1.0, scores[each])} for each in best]

        return await self._reading(search)

    async def create_skill(self, skill: Skill) -> Skill:
        """The skill as kept, at version 1 unless it brings a version of its own."""
        kept = replace(skill, created_at=skill.created_at or now(), updated_at=skill.updated_at or now())

        def create(db: sqlite3.Connection) -> Skill:
            marks = ", ".join("?" * len(_COLUMNS))
            try:
                db.execute(f"INSERT INTO skills ({', '.join(_COLUMNS)}) VALUES ({marks})", _row(kept))  # noqa: S608
            except sqlite3.IntegrityError:
                raise StoreError(f"Skill {kept.skill_id} exists already.", "Update it instead.") from None
            _write_version(db, kept)
            return kept

        return await self._writing(create)

    async def get_skill(self, skill_id: str) -> Skill | None:
        return await self._reading(lambda db: _find(db, skill_id))

    async def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        """The skill at its next version; the versions of one skill are consecutive whoever updates it."""

        def update(db: sqlite3.Connection) -> Skill:
            current = _fetch(db, skill_id)
            if updates.expected_version not in (None, current.version):
                raise StaleSkill(skill_id, current.version)
            changed = replace(current, **updates.content(), version=current.version + 1, updated_at=now())
            if updates.outcome is not None:
                changed = _after(changed, updates.outcome)
            _overwrite(db, changed)
            _write_version(db, changed)
            return changed

        return await self._writing(update)

    async def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        def check(db: sqlite3.Connection) -> Skill | None:
            cosines = self._cosines(db, embedding)
            best = max(cosines, key=lambda each: (cosines[each], each), default="")
            return _fetch(db, best) if best and cosines[best] > threshold else None

        return await self._reading(check)

    # --- what the rest of RefDesk needs --------------------------------------------------------------

    async def record_outcome(self, skill_id: str, outcome: Outcome) -> Skill:
        def record(db: sqlite3.Connection) -> Skill:
            after = _after(_fetch(db, skill_id), outcome)
            _overwrite(db, after)
            return after

        return await self._writing(record)

    async def list_skills(self, limit: int = 100, offset: int = 0) -> list[Skill]:
        def listed(db: sqlite3.Connection) -> list[Skill]:
            rows = db.execute("SELECT * FROM skills ORDER BY created_at, skill_id LIMIT ? OFFSET ?", (limit, offset))
            return [_skill(row) for row in rows]

        return await self._reading(listed)

    async def history(self, skill_id: str) -> list[Revision]:
        def history(db: sqlite3.Connection) -> list[Revision]:
            _fetch(db, skill_id)
            rows = db.execute("SELECT skill, made_at FROM versions WHERE skill_id = ? ORDER BY version", (skill_id,))
            return [Revision(_from_document(json.loads(document)), made_at) for document, made_at in rows]

        return await self._reading(history)

    async def embedded_by(self) -> str:
        return await self._reading(lambda db: _fact(db, "embedder"))

    async def replace_embeddings(self, embedder: str, vectors: Mapping[str, Sequence[float]]) -> None:
        def put(db: sqlite3.Connection) -> None:
            rows = [(_packed(vector), skill_id) for skill_id, vector in vectors.items()]
            db.executemany("UPDATE skills SET embedding = ? WHERE skill_id = ?", rows)
            db.execute("UPDATE facts SET value = ? WHERE name = 'embedder'", (embedder,))
            _touch(db)

        await self._writing(put)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # --- the file ----------------------------------------------------------------------------------

    async def _reading(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._run, work, "BEGIN")

    async def _writing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._run, work, "BEGIN IMMEDIATE")

    def _run(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self._lock, _clear_errors(self._path), _transaction(self._open(), begin) as db:
            return work(db)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            folder.prepare(self._path.parent)
            folder.make_private(self._path)
            self._connection = _connect(self._path, self._lock_timeout_s, self._durability)
        return self._connection

    def _cosines(self, db: sqlite3.Connection, embedding: Sequence[float]) -> dict[str, float]:
        vector = np.asarray(embedding, np.float32)
        length = float(np.linalg.norm(vector)) if vector.size else 0.0
        ids, matrix = self._matrix(db)
        if not length or not ids or matrix.shape[1] != vector.size:
            return {}
        return dict(zip(ids, (matrix @ (vector / length)).tolist(), strict=True))

    def _matrix(self, db: sqlite3.Connection) -> tuple[list[str], NDArray[np.float32]]:
        generation = int(_fact(db, "generation"))
        if self._vectors is None or self._vectors[0] != generation:
            rows = db.execute("SELECT skill_id, embedding FROM skills").fetchall()
            sizes = [len(row[1]) for row in rows]
            widest = max(sizes, default=0)
            kept = [row for row in rows if len(row[1]) == widest] if widest else []
            matrix = np.frombuffer(b"".join(row[1] for row in kept), "<f4").reshape(len(kept), -1 if kept else 0)
            lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
            matrix = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
            self._vectors = (generation, [row[0] for row in kept], matrix)
        return self._vectors[1], self._vectors[2]


def _connect(path: Path, lock_timeout_s: float, durability: Durability) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=lock_timeout_s, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {durability}")
        with _transaction(connection, "BEGIN IMMEDIATE"):
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                raise sqlite3.DatabaseError("it belongs to another program")
            if found == 0:
                for statement in _SCHEMA.strip().removesuffix(";").split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            elif found > _FORMAT:
                raise LibraryTooNew(f"{path.name} was written by a newer RefDesk.", "Update RefDesk.")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    connection.execute(begin)
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise LibraryBusy("Another process is writing skills and did not finish in time.", "Try again.") from error
        raise StoreError(f"{path.name} can't be used: {error}.", "See that its folder can be written.") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path.name} is damaged: {error}.", "Restore it from a backup, or move it away.") from error


# --- rows ---------------------------------------------------------------------------------------------


def _find(db: sqlite3.Connection, skill_id: str) -> Skill | None:
    row = db.execute("SELECT * FROM skills WHERE skill_id = ?", (skill_id,)).fetchone()
    return _skill(row) if row is not None else None


def _fetch(db: sqlite3.Connection, skill_id: str) -> Skill:
    if (skill := _find(db, skill_id)) is None:
        raise SkillNotFound(skill_id)
    return skill


def _skill(row: sqlite3.Row) -> Skill:
    values = {name: row[name] for name in _COLUMNS}
    values |= {name: tuple(json.loads(values[name])) for name in _LISTS}
    values["embedding"] = tuple(np.frombuffer(values["embedding"], "<f4").tolist())
    return Skill(**values)


def _row(skill: Skill) -> list[Any]:
    values = skill.document() | {"embedding": _packed(skill.embedding)}
    values |= {name: json.dumps(values[name], ensure_ascii=False) for name in _LISTS}
    return [values[name] for name in _COLUMNS]


def _packed(vector: Sequence[float]) -> bytes:
    return np.asarray(vector, "<f4").tobytes()


def _from_document(document: dict[str, Any]) -> Skill:
    return Skill(**document | {name: tuple(document[name]) for name in _LISTS})


def _overwrite(db: sqlite3.Connection, skill: Skill) -> None:
    places = ", ".join(f"{name} = ?" for name in _COLUMNS)
    db.execute(f"UPDATE skills SET {places} WHERE skill_id = ?", [*_row(skill), skill.skill_id])  # noqa: S608


def _after(skill: Skill, outcome: Outcome) -> Skill:
    return replace(
        skill,
        confidence=moved(skill.confidence, outcome),
        times_used=skill.times_used + (outcome == "used"),
        times_confirmed=skill.times_confirmed + (outcome == "confirmed"),
    )


def _write_version(db: sqlite3.Connection, skill: Skill) -> None:
    document = json.dumps(skill.document(), ensure_ascii=False)
    db.execute("INSERT INTO versions VALUES (?, ?, ?, ?)", (skill.skill_id, skill.version, skill.updated_at, document))
    number = db.execute("SELECT number FROM skills WHERE skill_id = ?", (skill.skill_id,)).fetchone()[0]
    texts = (skill.title, skill.problem, skill.resolution_md, " ".join(skill.keywords))
    db.execute("DELETE FROM words WHERE rowid = ?", (number,))
    db.execute(
        "INSERT INTO words (rowid, title, problem, resolution_md, keywords) VALUES (?, ?, ?, ?, ?)",
        (number, *(" ".join(analyse.terms(text)) for text in texts)),
    )
    _touch(db)


def _touch(db: sqlite3.Connection) -> None:
    db.execute("UPDATE facts SET value = CAST(value AS INTEGER) + 1 WHERE name = 'generation'")


def _fact(db: sqlite3.Connection, name: str) -> str:
    return str(db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()[0])


def _lexical(db: sqlite3.Connection, text: str) -> dict[str, float]:
    terms = list(dict.fromkeys(analyse.terms(text)))[:64]
    if not terms:
        return {}
    query = " OR ".join(f'"{term}"' for term in terms)
    rows = db.execute(
        f"SELECT skill_id, -{_BM25} FROM words JOIN skills ON number = words.rowid"  # noqa: S608
        " WHERE words MATCH ? ORDER BY 2 DESC LIMIT ?",
        (query, _WIDE),
    )
    return {row[0]: row[1] for row in rows}


def _normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores as shares of the best one."""
    best = max(scores.values(), default=0.0)
    return {each: score / best if best > 0 else 1.0 for each, score in scores.items()}
