"""Playbooks in Neo4j: nodes for playbooks and versions, relations for what replaced or refined what, and outcomes.

(:Playbook)-[:HAS_VERSION]->(:PlaybookVersion)-[:REFINES|REPLACES]->(:PlaybookVersion)
(:Playbook)-[:IN_AREA]->(:ProductArea), (:Playbook)-[:OF_TYPE]->(:IssueType)
(:PlaybookVersion)-[:HAD {times, last_at}]->(:PlaybookOutcome)
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, cast

import numpy as np

from refdesk.errors import SkillNotFound, StaleSkill, StoreError
from refdesk.model import EmbedderIdentity, Query, Ranking, StoredChunk
from refdesk.search import confidence, lookup, rerank
from refdesk.search.understand import Understood, spelt
from refdesk.skills.model import DUPLICATE, TOP_K, Outcome, Revision, Skill, SkillUpdate, after, full_text, now, passage
from refdesk.store.bolt import Bolt, Tx, rows_of
from refdesk.store.playbooks import unit_vector
from refdesk.store.record.rows import storable
from refdesk.store.record.schema import PLAYBOOKS
from refdesk.store.words.query import BOOSTS
from refdesk.text import analyse

_POOL = 120  # candidates from each index, as in every search
_MOST_TERMS = 400  # searched at most: Lucene takes 1024 clauses, and a term has two
_RERANKED = 4  # candidates for each that is wanted
_NEAR = 10  # nearest vectors whose similarity is computed exactly, since the index is approximate
_NAME = 200  # characters of an area or type: an index takes no long values
_AT_ONCE = 200  # vectors of one transaction
_ITEM = re.compile(r"^(?:### \d+\.|-) (.+)$", re.M)  # the title of a step, a condition, an edge case

_KEYS = {"Playbook": "n.skill_id", "PlaybookVersion": "n.skill_id, n.version", "PlaybookEmbedder": "n.key"}
_NAMED = ("ProductArea", "IssueType", "PlaybookOutcome")
# Words are analysed here and not by Lucene, so that both stores find the same; hence the analyser "whitespace".
# Without dimensions the index takes the vectors of any embedder.
_SCHEMA = (
    *(
        f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{label}) REQUIRE ({key}) IS UNIQUE"
        for label, key in (_KEYS | dict.fromkeys(_NAMED, "n.name")).items()
    ),
    "CREATE INDEX refdesk_created IF NOT EXISTS FOR (p:Playbook) ON (p.created_at)",
    "CREATE FULLTEXT INDEX refdesk_words IF NOT EXISTS FOR (p:Playbook) ON EACH [p.words, p.title_words]"
    " OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}",
    "CREATE VECTOR INDEX refdesk_vectors IF NOT EXISTS FOR (p:Playbook) ON (p.embedding)"
    " OPTIONS {indexConfig: {`vector.similarity_function`: 'cosine'}}",
    "CALL db.awaitIndexes(50)",
)

_MADE = """
SHOW INDEXES YIELD name, state WHERE name IN ['refdesk_words', 'refdesk_vectors'] AND state = 'ONLINE'
RETURN count(*) = 2 AS made
"""

_SKILL = "p {.*, words: null, title_words: null, embedding: null} AS skill"
_SOME = f"MATCH (p:Playbook) WHERE p.skill_id IN $skill_ids RETURN {_SKILL}"
_GET = f"MATCH (p:Playbook {{skill_id: $skill_id}}) RETURN {_SKILL}"
# Setting a property takes the node's lock, so what is returned stays true until the transaction ends.
_LOCK = "MATCH (p:Playbook {skill_id: $skill_id}) SET p.locked_at = timestamp() RETURN p {.*} AS skill"
_LIST = f"""
MATCH (p:Playbook) WHERE p.created_at > ''
RETURN {_SKILL} ORDER BY p.created_at, p.skill_id SKIP $offset LIMIT $limit
"""
_SET = "MATCH (p:Playbook {skill_id: $skill_id}) SET p += $changed"
_HISTORY = """
MATCH (v:PlaybookVersion {skill_id: $skill_id})
OPTIONAL MATCH (v)-[had:HAD]->(o:PlaybookOutcome)
WITH v, collect([o.name, had.times]) AS outcomes
RETURN v {.*} AS skill, [each IN outcomes WHERE each[0] IS NOT NULL] AS outcomes ORDER BY v.version
"""
_PUT = """
MERGE (p:Playbook {skill_id: $skill_id})
SET p = $properties
WITH p
CALL (p) { MATCH (p)-[old:IN_AREA|OF_TYPE]->() DELETE old }
FOREACH (name IN $area | MERGE (a:ProductArea {name: name}) MERGE (p)-[:IN_AREA]->(a))
FOREACH (name IN $type | MERGE (t:IssueType {name: name}) MERGE (p)-[:OF_TYPE]->(t))
"""
_DROP_VERSIONS = "MATCH (v:PlaybookVersion {skill_id: $skill_id}) DETACH DELETE v"
_PUT_VERSION = """
MATCH (p:Playbook {skill_id: $skill_id})
CREATE (p)-[:HAS_VERSION]->(v:PlaybookVersion)
SET v = $properties
WITH v
OPTIONAL MATCH (before:PlaybookVersion {skill_id: $skill_id}) WHERE before.version < v.version
WITH v, before ORDER BY before.version DESC LIMIT 1
FOREACH (one IN CASE WHEN before IS NULL THEN [] ELSE [before] END | CREATE (v)-[:%s]->(one))
"""
_PUT_OUTCOMES = """
MATCH (v:PlaybookVersion {skill_id: $skill_id, version: $version})
UNWIND $outcomes AS row
MERGE (o:PlaybookOutcome {name: row[0]})
MERGE (v)-[had:HAD]->(o)
SET had.times = coalesce(had.times, 0) + row[1], had.last_at = $now
"""
_COSINE = "CASE WHEN size(p.embedding) = size($vector) THEN 2 * vector.similarity.cosine(p.embedding, $vector) - 1 END"
_BY_WORDS = "CALL db.index.fulltext.queryNodes('refdesk_words', $words, {limit: $pool}) YIELD node AS p, score"
_BY_VECTOR = "CALL db.index.vector.queryNodes('refdesk_vectors', $pool, $vector) YIELD node AS p"
_NEAREST = f"{_BY_VECTOR} RETURN p.skill_id AS skill_id, {_COSINE} AS cosine ORDER BY cosine DESC LIMIT 1"
_CREATING = "MERGE (e:PlaybookEmbedder {key: 'creating'}) SET e.locked_at = timestamp()"
_SAME = f"""
MATCH (p:Playbook) WITH p, {_COSINE} AS cosine WHERE cosine > $threshold
RETURN p.skill_id AS skill_id ORDER BY cosine DESC LIMIT 1
"""
_COUNT = """
UNWIND $terms AS term
CALL (term) { CALL db.index.fulltext.queryNodes('refdesk_words', 'words:"' + term + '"') YIELD node
RETURN count(node) AS times }
RETURN term, times
"""
_EMBEDDER = "MATCH (e:PlaybookEmbedder {key: 'current'}) RETURN e {.name, .version, .dimension} AS embedder"
_BARE = "MATCH (p:Playbook) WHERE p.embedding IS NULL RETURN p.skill_id LIMIT 1"
_SET_EMBEDDER = """
MERGE (e:PlaybookEmbedder {key: 'current'})
WITH e, e.name = $name AND e.version = $version AND e.dimension = $dimension AS same
SET e.name = $name, e.version = $version, e.dimension = $dimension
WITH e WHERE same IS NULL OR NOT same
MATCH (p:Playbook) REMOVE p.embedding
"""
_SET_VECTORS = """
UNWIND $vectors AS row
MATCH (p:Playbook {skill_id: row.skill_id}) WHERE p.embedding IS NULL
SET p.embedding = row.vector
"""


class Neo4jPlaybooks:
    """Implements PlaybookStore in one database of a Neo4j server, version 5.23 or later."""

    def __init__(self, uri: str, user: str = "neo4j", password: str = "", database: str = "") -> None:
        bolt = Bolt(uri, user, password, database, _MADE, _SCHEMA)
        self._run, self.close = bolt.run, bolt.close
        self._embedder: EmbedderIdentity | None = None  # whose vectors are given here

    # --- the contract's functions ---------------------------------------------------------------------

    def hybrid_search(self, query_embedding: list[float], query_text: str, top_k: int = TOP_K) -> list[dict[str, Any]]:
        words = cast(Any, _Words(self._run))  # of a view and a store it has what spelling needs
        asked = spelt(words, words, Query(text=storable(query_text)), None).asked
        vector = _vector(query_embedding)

        async def search(tx: Tx) -> list[dict[str, Any]]:
            await self._refuse_other_embedder(tx)
            found = await _candidates(tx, asked.terms[:_MOST_TERMS], vector)
            words = [row["words"] for row in found]
            near = [lookup.NONE if row["cosine"] is None else row["cosine"] for row in found]
            by_words, by_meaning = any(words), max(near, default=lookup.NONE) > lookup.NONE
            alpha = rerank.weights().blend[asked.kind] if by_words and by_meaning else float(by_meaning)
            fused = lookup.convex(alpha, words, near)
            best = lookup.order(fused, range(len(fused)))[: _RERANKED * top_k]
            scores = {found[at]["skill_id"]: fused[at] for at in best}
            rows = await rows_of(tx, _SOME, skill_ids=list(scores))
            skills = [_skill(row["skill"]) for row in rows]
            way = asked.kind if by_meaning else "keywords"
            return _reranked(skills, [scores[one.skill_id] for one in skills], asked, way)[:top_k]

        return self._run(search)

    def create_skill(self, skill: Skill) -> Skill:
        """Stores a new skill, at version 1 unless it has a version of its own."""
        return self._create(skill)

    def create_unless_known(self, skill: Skill, threshold: float = DUPLICATE) -> Skill:
        return self._create(skill, threshold)

    def _create(self, skill: Skill, threshold: float | None = None) -> Skill:
        kept = replace(skill, created_at=skill.created_at or now(), updated_at=skill.updated_at or now())

        async def create(tx: Tx) -> Skill:
            if await _find(tx, kept.skill_id) is not None:
                raise StoreError(f"Skill {kept.skill_id} exists already.", "Update it instead.")
            await self._refuse_other_embedder(tx)
            if threshold is not None and (vector := _vector(kept.embedding)):
                await rows_of(tx, _CREATING)  # whoever else creates waits for the end of this transaction
                same = await rows_of(tx, _SAME, vector=vector, threshold=threshold)
                if same and (known := await _find(tx, same[0]["skill_id"])) is not None:
                    return known
            await _put(tx, kept)
            await _put_version(tx, Revision(kept, kept.updated_at))
            await _put_outcomes(tx, kept, kept.counted())
            return kept

        return self._run(create, writes=True)

    def get_skill(self, skill_id: str) -> Skill | None:
        return self._run(partial(_find, skill_id=skill_id))

    def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        """Stores the skill's next version; versions are consecutive even with concurrent updates."""

        async def update(tx: Tx) -> Skill:
            current = await _locked(tx, skill_id)
            if updates.expected_version not in (None, current.version):
                raise StaleSkill(skill_id, current.version)
            if updates.embedding is not None:
                await self._refuse_other_embedder(tx)
            changed = replace(current, **updates.content(), version=current.version + 1, updated_at=now())
            changed = after(changed, updates.outcome) if updates.outcome else changed
            await _put(tx, changed)
            await _put_version(tx, Revision(changed, changed.updated_at), current)
            if updates.outcome:
                await _put_outcomes(tx, current, {updates.outcome: 1})  # it is the version before that did so
            return changed

        return self._run(update, writes=True)

    def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        vector = _vector(embedding)

        async def check(tx: Tx) -> Skill | None:
            await self._refuse_other_embedder(tx)
            near = await rows_of(tx, _NEAREST, vector=vector, pool=_NEAR)
            is_near = bool(near) and near[0]["cosine"] > threshold
            return await _find(tx, near[0]["skill_id"]) if is_near else None

        return self._run(check) if vector else None

    # --- what stands around them ----------------------------------------------------------------------

    def record_outcome(self, skill_id: str, outcome: Outcome) -> Skill:
        async def record(tx: Tx) -> Skill:
            before = await _locked(tx, skill_id)
            skill = after(before, outcome)
            counts = {name: value for name, value in skill.document().items() if value != getattr(before, name)}
            await rows_of(tx, _SET, skill_id=skill_id, changed=counts)
            await _put_outcomes(tx, skill, {outcome: 1})
            return skill

        return self._run(record, writes=True)

    def list_skills(self, limit: int = 100, offset: int = 0) -> list[Skill]:
        rows = self._run(partial(rows_of, statement=_LIST, limit=limit, offset=offset))
        return [_skill(row["skill"]) for row in rows]

    def history(self, skill_id: str) -> list[Revision]:
        rows = self._run(partial(rows_of, statement=_HISTORY, skill_id=storable(skill_id)))
        if not rows:
            raise SkillNotFound(skill_id)
        return [Revision(_skill(row["skill"]), row["skill"]["made_at"], dict(row["outcomes"])) for row in rows]

    def restore(self, skill: Skill, revisions: Sequence[Revision]) -> None:
        async def restore(tx: Tx) -> None:
            await _find(tx, skill.skill_id, _LOCK)
            await self._refuse_other_embedder(tx)
            await rows_of(tx, _DROP_VERSIONS, skill_id=skill.skill_id)
            await _put(tx, skill)
            for before, revision in zip((None, *(each.skill for each in revisions)), revisions, strict=False):
                await _put_version(tx, revision, before)
                await _put_outcomes(tx, revision.skill, revision.outcomes)

        self._run(restore, writes=True)

    def embedded_by(self) -> EmbedderIdentity | None:
        async def look(tx: Tx) -> EmbedderIdentity | None:
            self._embedder = await _embedder(tx)
            return None if await rows_of(tx, _BARE) else self._embedder

        return self._run(look)

    def replace_embeddings(self, embedder: EmbedderIdentity, vectors: Mapping[str, Sequence[float]]) -> None:
        rows = [{"skill_id": skill_id, "vector": unit} for skill_id, one in vectors.items() if (unit := _vector(one))]
        self._run(partial(rows_of, statement=_SET_EMBEDDER, **asdict(embedder)), writes=True)
        self._embedder = embedder
        for start in range(0, len(rows), _AT_ONCE):
            batch = rows[start : start + _AT_ONCE]
            self._run(partial(rows_of, statement=_SET_VECTORS, vectors=batch), writes=True)

    async def _refuse_other_embedder(self, tx: Tx) -> None:
        """Raises if another server has given the playbooks vectors of another model since this one looked."""
        if self._embedder is not None and (other := await _embedder(tx)) not in (None, self._embedder):
            raise StoreError(
                f"Another server embedded the playbooks by {other.name}; this one uses {self._embedder.name}.",
                "Let all servers of one Neo4j database use the same embedder.",
            )


class _Words:
    """What the correction of spelling asks of a view and a store, answered by the full-text index."""

    def __init__(self, run: Callable[[Callable[[Tx], Awaitable[list[dict[str, Any]]]]], list[dict[str, Any]]]) -> None:
        self._run = run
        self._read: list[StoredChunk] = []

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        rows = self._run(partial(rows_of, statement=_COUNT, terms=[term for term in set(terms) if term]))
        return dict.fromkeys(terms, 0) | {row["term"]: row["times"] for row in rows}

    def unknown(self, terms: Sequence[str]) -> set[str]:
        return {term for term, times in self.document_frequency(terms).items() if not times}

    def phrase(self, words: Sequence[str], limit: int) -> Ranking:
        return self._found(" ".join(f'words:"{analyse.joined(one)}"' for one in words), limit)

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        return self._found(" ".join(f"words:{term}~{edits}" if edits else f'words:"{term}"' for term in terms), limit)

    def chunks(self, ids: Sequence[int]) -> dict[int, StoredChunk]:
        return {at: self._read[at] for at in ids}

    def _found(self, clauses: str, limit: int) -> Ranking:
        rows = self._run(partial(rows_of, statement=f"{_BY_WORDS} RETURN {_SKILL}", words=clauses, pool=limit))
        first = len(self._read)
        self._read += _passages([_skill(row["skill"]) for row in rows])
        return Ranking(range(first, len(self._read)))


async def _embedder(tx: Tx) -> EmbedderIdentity | None:
    rows = await rows_of(tx, _EMBEDDER)
    return EmbedderIdentity(**rows[0]["embedder"]) if rows else None


async def _find(tx: Tx, skill_id: str, statement: str = _GET) -> Skill | None:
    rows = await rows_of(tx, statement, skill_id=storable(skill_id))
    return _skill(rows[0]["skill"]) if rows else None


async def _locked(tx: Tx, skill_id: str) -> Skill:
    if (skill := await _find(tx, skill_id, _LOCK)) is None:
        raise SkillNotFound(skill_id)
    return skill


async def _candidates(tx: Tx, terms: Sequence[str], vector: list[float]) -> list[dict[str, Any]]:
    """The id, full-text score and cosine of what either index finds."""
    fields = (("words", BOOSTS["content"]), ("title_words", BOOSTS["title"]))
    clauses = [f'{field}:"{term}"^{boost}' for term in terms for field, boost in fields]
    ways = [f"{_BY_WORDS} RETURN p, score"] * bool(clauses) + [f"{_BY_VECTOR} RETURN p, 0.0 AS score"] * bool(vector)
    if not ways:
        return []
    statement = (
        f"CALL () {{ {' UNION ALL '.join(ways)} }} WITH p, max(score) AS words"
        f" RETURN p.skill_id AS skill_id, words, {_COSINE} AS cosine ORDER BY skill_id"
    )
    return await rows_of(tx, statement, words=" ".join(clauses), vector=vector, pool=_POOL)


async def _put(tx: Tx, skill: Skill) -> None:
    document = _document(skill)
    properties = {
        **document,
        "words": analyse.joined(full_text(skill)),
        "title_words": analyse.joined(skill.title),
        "embedding": _vector(skill.embedding) or None,
    }
    area, kind = ([value] if (value := document[name][:_NAME]) else [] for name in ("product_area", "issue_type"))
    await rows_of(tx, _PUT, skill_id=skill.skill_id, properties=properties, area=area, type=kind)


async def _put_version(tx: Tx, revision: Revision, before: Skill | None = None) -> None:
    """Stores a version, which refines the one before if all its items are still there, as after a merge."""
    skill = revision.skill
    gone = before is not None and set(_ITEM.findall(before.resolution_md)) - set(_ITEM.findall(skill.resolution_md))
    statement = _PUT_VERSION % ("REPLACES" if gone else "REFINES")
    await rows_of(tx, statement, skill_id=skill.skill_id, properties={**_document(skill), "made_at": revision.made_at})


async def _put_outcomes(tx: Tx, skill: Skill, outcomes: Mapping[Outcome, int]) -> None:
    told = [[outcome, times] for outcome, times in outcomes.items()]
    await rows_of(tx, _PUT_OUTCOMES, skill_id=skill.skill_id, version=skill.version, outcomes=told, now=now())


def _skill(properties: Mapping[str, Any]) -> Skill:
    named = {name: properties[name] for name in Skill.__dataclass_fields__ if properties.get(name) is not None}
    return Skill(**named | {name: tuple(value) for name, value in named.items() if isinstance(value, list)})


def _document(skill: Skill) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(storable(json.dumps(skill.document(), ensure_ascii=False)))
    return stored


def _vector(given: Sequence[float]) -> list[float]:
    """The vector scaled to unit length; empty for none, and for one of zeros."""
    scaled = unit_vector(given)
    return [] if scaled is None else np.asarray(scaled, float).tolist()


def _passages(skills: Sequence[Skill]) -> list[StoredChunk]:
    made = (passage(skill, PLAYBOOKS, full_text(skill)) for skill in skills)
    return [StoredChunk(id=at, position=0, document=document, chunk=chunk) for at, (document, chunk) in enumerate(made)]


def _reranked(skills: Sequence[Skill], scores: Sequence[float], asked: Understood, way: str) -> list[dict[str, Any]]:
    """The skills ordered as the engine orders passages, each with the probability that it is right."""
    weights = rerank.weighing(with_words=False)
    known = rerank.values(_passages(skills), scores, asked, "", None, weights)
    totals = [score + sum(rerank.gains(one, weights).values()) for score, one in zip(scores, known, strict=True)]
    best = lookup.order(totals, range(len(totals)))
    chances = confidence.of_hits([totals[at] for at in best], way, None)
    return [{"skill": skills[at], "score": chance} for at, chance in zip(best, chances, strict=True)]
