"""Playbooks in the library's record: every version of each, and its newest one as a passage that is searched."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from refdesk.errors import SkillNotFound, StaleSkill, StoreError
from refdesk.model import Batch, DocumentWrite, EmbedderIdentity, Filters, Query, Vector
from refdesk.search.engine import Engine
from refdesk.skills.model import DUPLICATE, TOP_K, Outcome, Revision, Skill, SkillUpdate, after, full_text, now, passage
from refdesk.store.record import rows
from refdesk.store.record.schema import PLAYBOOKS, Connection
from refdesk.store.vectors.index import unpack

if TYPE_CHECKING:
    from refdesk.ports import Store
    from refdesk.store.local import LocalStore
    from refdesk.store.record.access import RecordAccess

_log = logging.getLogger(__name__)

_ADVICE = "Restore it with `refdesk restore BACKUP`, or move it away to start over."
_ALONE = Filters(collections=(PLAYBOOKS,))
_SELECT = "SELECT skill FROM playbooks WHERE skill_id = ?"
_VECTOR = """
SELECT v.key, v.numbers FROM documents d JOIN chunks c ON c.document = d.id JOIN vectors v ON v.id = c.vector
WHERE d.ulid = ?
"""


_VECTORS = """
SELECT p.skill_id, v.numbers FROM playbooks p
JOIN documents d ON d.ulid = p.skill_id JOIN chunks c ON c.document = d.id JOIN vectors v ON v.id = c.vector
"""


class _Known(Exception):
    """There is a skill that the one to create would duplicate."""

    def __init__(self, skill: Skill) -> None:
        self.skill = skill


class RecordPlaybooks:
    """Implements PlaybookStore in the record of one library, with its full-text and vector index."""

    def __init__(self, store: RecordAccess) -> None:
        self._store = store

    @cached_property
    def _engine(self) -> Engine:
        return Engine(cast("Store", self._store), None)  # vectors are given; nothing is embedded here

    def hybrid_search(self, query_embedding: list[float], query_text: str, top_k: int = TOP_K) -> list[dict[str, Any]]:
        self._refuse_left_over()
        asked = Query(text=query_text, filters=_ALONE, limit=top_k, vector=unit_vector(query_embedding))
        found = {hit.stored.document.id: hit.score for hit in self._engine.search(asked).hits}
        skills = self._store.read(lambda db: [_find(db, each) for each in found])
        return [{"skill": skill, "score": found[skill.skill_id]} for skill in skills if skill is not None]

    def create_skill(self, skill: Skill) -> Skill:
        """Stores a new skill, at version 1 unless it has a version of its own."""
        return self._create(skill)

    def create_unless_known(self, skill: Skill, threshold: float = DUPLICATE) -> Skill:
        try:
            return self._create(skill, threshold)
        except _Known as known:
            return known.skill

    def _create(self, skill: Skill, threshold: float | None = None) -> Skill:
        kept = replace(skill, created_at=skill.created_at or now(), updated_at=skill.updated_at or now())

        def create(db: Connection) -> Batch:
            if _find(db, kept.skill_id) is not None:
                raise StoreError(f"Skill {kept.skill_id} exists already.", "Update it instead.")
            if threshold is not None and (known := _duplicate(db, kept.embedding, threshold)) is not None:
                raise _Known(known)
            _put(db, kept)
            _put_version(db, kept, kept.updated_at)
            _put_outcomes(db, kept, kept.counted())
            return _batch([(kept, unit_vector(kept.embedding))])

        self._write(create)
        return kept

    def get_skill(self, skill_id: str) -> Skill | None:
        self._refuse_left_over()
        return self._store.read(lambda db: _find(db, skill_id))

    def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        """Stores the skill's next version; versions are consecutive even with concurrent updates."""
        changed: Skill | None = None

        def update(db: Connection) -> Batch:
            nonlocal changed
            current = _fetch(db, skill_id)
            if updates.expected_version not in (None, current.version):
                raise StaleSkill(skill_id, current.version)
            changed = replace(current, **updates.content(), version=current.version + 1, updated_at=now())
            changed = after(changed, updates.outcome) if updates.outcome else changed
            _put(db, changed)
            _put_version(db, changed, changed.updated_at)
            if updates.outcome:
                _put_outcomes(db, current, {updates.outcome: 1})  # of the version that the conversation used
            kept = db.execute(_VECTOR, (skill_id,)).fetchone() if updates.embedding is None else None
            return _batch([(changed, bytes(kept[0]) if kept else unit_vector(changed.embedding))])

        self._write(update)
        assert changed is not None
        return changed

    def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        self._refuse_left_over()
        return self._store.read(lambda db: _duplicate(db, embedding, threshold))

    def record_outcome(self, skill_id: str, outcome: Outcome) -> Skill:
        self._refuse_left_over()

        def record(db: Connection) -> Skill:
            skill = after(_fetch(db, skill_id), outcome)
            _put(db, skill)
            _put_outcomes(db, skill, {outcome: 1})
            return skill

        return self._store.note(record)

    def list_skills(self, limit: int = 100, offset: int = 0) -> list[Skill]:
        self._refuse_left_over()

        def listed(db: Connection) -> list[Skill]:
            ids = "SELECT skill_id FROM playbooks ORDER BY created_at, skill_id LIMIT ? OFFSET ?"
            return [_fetch(db, skill_id) for (skill_id,) in db.execute(ids, (limit, offset)).fetchall()]

        return self._store.read(listed)

    def history(self, skill_id: str) -> list[Revision]:
        self._refuse_left_over()

        def history(db: Connection) -> list[Revision]:
            _fetch(db, skill_id)
            outcomes: dict[int, dict[Outcome, int]] = {}
            told = "SELECT version, outcome, times FROM playbook_outcomes WHERE skill_id = ?"
            for version, outcome, times in db.execute(told, (skill_id,)):
                outcomes.setdefault(version, {})[outcome] = times
            found = db.execute(
                "SELECT version, skill, made_at FROM playbook_versions WHERE skill_id = ? ORDER BY version", (skill_id,)
            )
            return [Revision(_from_json(text), made_at, outcomes.get(version, {})) for version, text, made_at in found]

        return self._store.read(history)

    def restore(self, skill: Skill, revisions: Sequence[Revision]) -> None:
        def restore(db: Connection) -> Batch:
            _put(db, skill)
            for table in ("playbook_versions", "playbook_outcomes"):
                db.execute(f"DELETE FROM {table} WHERE skill_id = ?", (skill.skill_id,))  # noqa: S608 - our own names
            for revision in revisions:
                _put_version(db, revision.skill, revision.made_at)
                _put_outcomes(db, revision.skill, revision.outcomes)
            return _batch([(skill, unit_vector(skill.embedding))])

        self._write(restore)

    def embedded_by(self) -> EmbedderIdentity | None:
        bare = "SELECT 1 FROM chunks c JOIN documents d ON d.id = c.document JOIN playbooks p ON p.skill_id = d.ulid"
        without = self._store.read(lambda db: db.execute(f"{bare} WHERE c.vector IS NULL LIMIT 1").fetchone())
        return None if without else self._store.embedder_identity()

    def replace_embeddings(self, embedder: EmbedderIdentity, vectors: Mapping[str, Sequence[float]]) -> None:
        self._store.set_embedder_identity(embedder)

        def put(db: Connection) -> Batch:
            found = ((_find(db, skill_id), unit_vector(vector)) for skill_id, vector in vectors.items())
            # One that has a vector by now was updated meanwhile; those of another model were dropped.
            return _batch([(skill, vector) for skill, vector in found if skill is not None and not skill.embedding])

        if vectors:
            self._write(put, len(vectors))

    def close(self) -> None:
        """Does nothing: the record is closed by its owner."""

    def _write(self, make: Callable[[Connection], Batch], size: int = 1) -> None:
        self._refuse_left_over()
        self._store.change(make, size)

    def _refuse_left_over(self) -> None:
        if self._store.left_over:
            raise StoreError(self._store.left_over)


# --- rows ---------------------------------------------------------------------------------------------


def _find(db: Connection, skill_id: str) -> Skill | None:
    row = db.execute(_SELECT, (rows.storable(skill_id),)).fetchone()
    if row is None:
        return None
    kept = db.execute(_VECTOR, (skill_id,)).fetchone()
    embedding = tuple(unpack([kept[1]])[0].tolist()) if kept else ()
    return replace(_from_json(row[0]), embedding=embedding)


def _fetch(db: Connection, skill_id: str) -> Skill:
    if (skill := _find(db, skill_id)) is None:
        raise SkillNotFound(skill_id)
    return skill


def _duplicate(db: Connection, embedding: Sequence[float], threshold: float) -> Skill | None:
    """The skill most similar to the vector, by the record: under the write lock it lacks none, as an index may."""
    vector = unit_vector(embedding)
    same_model = [row for row in db.execute(_VECTORS) if vector is not None and len(row[1]) == len(vector)]
    if vector is None or not same_model:
        return None
    scores = unpack([numbers for _, numbers in same_model]) @ vector
    best = int(scores.argmax())
    return _find(db, same_model[best][0]) if scores[best] > threshold else None


def _put(db: Connection, skill: Skill) -> None:
    values = (skill.skill_id, skill.created_at, rows.storable(json.dumps(skill.document(), ensure_ascii=False)))
    db.execute(
        "INSERT INTO playbooks VALUES (?, ?, ?) ON CONFLICT (skill_id) DO UPDATE SET skill = excluded.skill", values
    )


def _put_version(db: Connection, skill: Skill, made_at: str) -> None:
    document = rows.storable(json.dumps(skill.document(), ensure_ascii=False))
    values = (skill.skill_id, skill.version, made_at, document)
    db.execute("INSERT INTO playbook_versions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", values)


def _put_outcomes(db: Connection, skill: Skill, outcomes: Mapping[Outcome, int]) -> None:
    for outcome, times in outcomes.items():
        db.execute(
            "INSERT INTO playbook_outcomes VALUES (?, ?, ?, ?)"
            " ON CONFLICT (skill_id, version, outcome) DO UPDATE SET times = playbook_outcomes.times + excluded.times",
            (skill.skill_id, skill.version, outcome, times),
        )


def _from_json(text: str) -> Skill:
    document = json.loads(text)
    return Skill(**document | {name: tuple(document[name]) for name in ("conditions", "keywords")})


def unit_vector(vector: Sequence[float]) -> Vector | None:
    """The vector scaled to unit length, None for a zero vector."""
    given = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(given)) if given.size else 0.0
    return given / length if length else None


def _batch(skills: Sequence[tuple[Skill, Vector | bytes | None]]) -> Batch:
    """The skills as documents of one passage each; a stored vector is referred to by its key."""
    writes, vectors = [], {}
    for skill, vector in skills:
        key = vector if isinstance(vector, bytes) else b""
        if isinstance(vector, np.ndarray):
            # Keyed by its own bytes: the store does not know its text.
            key = rows.content_key(vector.astype("<f2").tobytes())
            vectors[key] = vector
        document, chunk = passage(skill, PLAYBOOKS, full_text(skill))
        writes.append(DocumentWrite(document=document, raw=skill.resolution_md, chunks=(chunk,), vector_keys=(key,)))
    return Batch(collection=PLAYBOOKS, writes=tuple(writes), vectors=vectors)


# --- playbooks of libraries up to version 4 -----------------------------------------------------------


def take_over(store: LocalStore, file: Path) -> str:
    """Migrates the playbooks file of an older library into the record; returns the problem, or "".

    The file is moved aside once they are in the record, so a kill at any moment leaves them in one or both.
    """
    try:
        with store.writing():
            if not file.exists():
                return ""  # another process was first
            with closing(sqlite3.connect(file, timeout=30.0, isolation_level=None)) as old:
                old.execute("BEGIN IMMEDIATE")  # an older RefDesk may still be running
                was_begun = old.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
                skills = list(_old_skills(old)) if was_begun else []
                versions = old.execute("SELECT skill, made_at FROM versions").fetchall() if was_begun else []
                old.execute("ROLLBACK")

            def put(db: Connection) -> Batch:
                fresh = []
                for skill in skills:
                    known = _find(db, skill.skill_id)
                    if known is None or known.version < skill.version:
                        _put(db, skill)
                        fresh.append((skill, None))  # vectors are made again at the next use
                for document, made_at in versions:
                    _put_version(db, _from_json(document), made_at)
                return _batch(fresh)

            store.change(put, len(skills), for_good=True)
            _log.info("took over %s playbooks with %s versions from %s", len(skills), len(versions), file.name)
            for end in ("-wal", "-shm", ""):  # the first two are there while an older RefDesk has it open
                with contextlib.suppress(FileNotFoundError):
                    file.with_name(file.name + end).replace(file.with_name(f"{file.name}.imported{end}"))
    except (sqlite3.Error, OSError, ValueError, LookupError, TypeError) as error:
        return f"{file.name}, which holds the playbooks of an older version, can't be read: {error}. {_ADVICE}"
    return ""


def _old_skills(db: sqlite3.Connection) -> Iterator[Skill]:
    names = [name for name in Skill.__dataclass_fields__ if name != "embedding"]
    for row in db.execute(f"SELECT {', '.join(names)} FROM skills"):  # noqa: S608 - names of columns
        values = dict(zip(names, row, strict=True))
        yield Skill(**values | {name: tuple(json.loads(values[name])) for name in ("conditions", "keywords")})
