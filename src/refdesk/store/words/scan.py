"""Searches words in the record itself while there is no full-text index."""

from __future__ import annotations

import heapq
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from refdesk.model import Countable, Ranking, metadata_text
from refdesk.store.record import rows
from refdesk.store.record.filters import Scope, satisfies
from refdesk.store.record.schema import Connection
from refdesk.store.words.index import BY_ID, WIDTH, fields_of
from refdesk.store.words.query import BOOSTS, PHRASE_BOOSTS, PRESENT, telling
from refdesk.text.analyse import fold, terms
from refdesk.text.analyse import terms as terms_of

# Which passages contain a text to the letter?

# ruff: noqa: S608 - statements are put together from constants; values are bound


MOST = 20_000  # chunks that are looked through one by one; beyond, all texts are scanned
_WORD = re.compile(r"[A-Za-z0-9_]+")
_SELECT = """
SELECT c.id, d.metadata, c.metadata FROM texts t JOIN chunks c ON c.text = t.id JOIN documents d ON d.id = c.document
WHERE instr(t.text, ?) > 0
"""


def inner_terms(text: str) -> list[str]:
    """Terms that every passage with this text has: of its words, without those that may go on at either end."""
    if not text.isascii():
        return []
    inner = [word[0] for word in _WORD.finditer(text) if word.start() > 0 and word.end() < len(text)]
    return [term for word in inner for term in terms(word)]


def find(db: Connection, text: str, scope: Scope, limit: int, candidates: Sequence[int] | None = None) -> Ranking:
    """Chunks within the scope that contain the text, by id, of the candidates if given; all score alike."""
    if not text or limit <= 0:
        return Ranking()
    condition, values = within(scope, candidates)
    found = []
    given = (rows.storable(text), *values)
    for chunk_id, document_metadata, chunk_metadata in db.execute(f"{_SELECT} {condition} ORDER BY c.id", given):
        metadata = {**rows.load_map(document_metadata), **rows.load_map(chunk_metadata)}
        if satisfies(metadata, scope.filters.metadata):
            found.append(chunk_id)
            if len(found) == limit:
                break
    return Ranking(found, [1.0] * len(found))


def within(scope: Scope, candidates: Sequence[int] | None = None) -> tuple[str, list[str]]:
    """The conditions of a scope on chunks c of documents d, all but metadata, and what is bound in them."""
    given: list[tuple[str, Iterable[int] | Iterable[str]]] = [] if candidates is None else [("c.id", candidates)]
    given += _conditions(scope)
    condition = "".join(f" AND {column} IN (SELECT value FROM json_each(?))" for column, _ in given)
    return condition, [json.dumps(list(accepted)) for _, accepted in given]


def _conditions(scope: Scope) -> list[tuple[str, Iterable[int] | Iterable[str]]]:
    filters = scope.filters
    rows_of = (("d.collection", scope.collections), ("d.id", scope.within))
    names_of = (("c.kind", filters.kinds), ("c.type", filters.types), ("c.language", filters.languages))
    found: list[tuple[str, Iterable[int] | Iterable[str]]] = [(of, ids) for of, ids in rows_of if ids is not None]
    return found + [one for one in (*names_of, ("d.extension", filters.extensions)) if one[1]]


# A block of passages at a time, in one step each: SQLite lets go of Python's lock at every step, and whoever rebuilds
# the index keeps it for 5 ms then. 100,000 texts take 1 s of processor time so. What is not ASCII is looked through in
# Python, since SQLite folds no accents.
_BLOCK = """
WITH block AS MATERIALIZED (
    SELECT c.id, d.metadata AS of_document, c.metadata AS of_chunk,
           t.text || ' ' || c.title || ' ' || c.breadcrumb || ' ' || c.symbols || ' ' || d.path AS raw
    FROM chunks c JOIN documents d ON d.id = c.document JOIN texts t ON t.id = c.text
    WHERE c.id > ? {condition} ORDER BY c.id LIMIT {block}
), folded AS MATERIALIZED (
    SELECT *, length(CAST(raw AS BLOB)) <> length(raw) AS is_odd, replace(raw, '_', '') AS hay FROM block
), flagged AS MATERIALIZED (SELECT *, {flags} AS flags FROM folded)
SELECT (SELECT max(id) FROM block), (SELECT count(*) FROM block),
       json_group_array(json_array(id, flags, iif(is_odd, raw, ''), {metadata}))
FROM flagged WHERE is_odd OR instr(flags, '1')
"""
_PASSAGES = 2000
_FACETS = """
SELECT d.metadata, c.metadata, count(*) FROM chunks c JOIN documents d ON d.id = c.document WHERE 1 = 1 {} GROUP BY 1, 2
"""
_TALLY = "SELECT {}, count(*) FROM chunks c JOIN documents d ON d.id = c.document WHERE 1 = 1 {} GROUP BY 1"
_COUNTED = {"collection": "d.collection", "kind": "c.kind", "language": "c.language", "path": "d.id"}
_COLUMNS = ", ".join(f"c{number}" for number in range(WIDTH))
_AT_ONCE = f"WITH found ({_COLUMNS}) AS ({BY_ID}) SELECT json_group_array(json_array({_COLUMNS})) FROM found"
_ANALYSED = 300  # of the likely passages, how many are looked at term by term: 0.15 ms each
_K1, _B = 1.2, 0.75  # of BM25, as tantivy has them


class Snapshots(Protocol):
    """A record that can be read at one state throughout."""

    def snapshot(self) -> AbstractContextManager[Connection]: ...


class Scan:
    """Searches by words without an index, within one scope: 100,000 passages in a second or two."""

    def __init__(self, record: Snapshots, scope: Scope) -> None:
        self._record = record
        self._scope = scope
        self._having: dict[str, list[int]] = {}  # the passages that may have a term, and certainly all that do
        self._count = 0

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        """As lexical_query.lexical: chunks with any of the terms, by BM25."""
        distinct = list(dict.fromkeys(terms))
        rarity = self._rarity(distinct)
        likely: Counter[int] = Counter()
        for term in distinct:
            for chunk_id in self._having[term]:
                likely[chunk_id] += rarity[term]  # type: ignore[assignment]
        scores: dict[int, float] = {}
        for chunk_id, fields in self._analysed(likely, limit):
            score = 0.0
            for term in distinct:
                there = False
                for field, boost in BOOSTS.items():
                    count = fields[field].count(term)
                    length = len(fields[field]) / max(1.0, self._lengths[field])
                    score += boost * rarity[term] * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length))
                    there |= count > 0 and field == "content"
                score += PRESENT * rarity[term] * (there and by_number)
            scores[chunk_id] = score
        return _best(scores, limit)

    def phrase(self, words: Sequence[str], limit: int) -> Ranking:
        """As lexical_query.phrase: chunks with the words next to each other."""
        wanted = terms_of(" ".join(words))
        if len(wanted) < 2:
            return self.lexical(wanted, limit)
        rarity = self._rarity(wanted)
        everywhere = set.intersection(*(set(self._having[term]) for term in wanted))
        together = f" {' '.join(wanted)} "
        scores = {}
        for chunk_id, fields in self._analysed(dict.fromkeys(everywhere, 1.0), limit):
            found = [boost for field, boost in PHRASE_BOOSTS.items() if together in f" {' '.join(fields[field])} "]
            scores[chunk_id] = sum(found) * sum(rarity.values())
        return _best(scores, limit)

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        """In how many of the passages each term may occur."""
        self._look_for(terms)
        return {term: len(self._having[term]) for term in dict.fromkeys(terms)}

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        return telling(self.document_frequency(terms), most)

    def passages(self) -> int:
        self._look_for(())
        return self._count

    def unknown(self, terms: Sequence[str]) -> set[str]:
        return {term for term, count in self.document_frequency(terms).items() if not count}

    def facet_values(self, key: str) -> dict[str, int]:
        """How many chunks within the filters carry each value of the metadata key."""
        found: Counter[str] = Counter()
        condition, values = within(self._scope)
        named = rows.storable(rows.dump([key])[1:-1])  # as it is spelt there: few rows are read for a rare key
        query = _FACETS.format(f"{condition} AND (instr(d.metadata, ?) > 0 OR instr(c.metadata, ?) > 0)")
        with self._record.snapshot() as db:
            for of_document, of_chunk, count in db.execute(query, (*values, named, named)):
                metadata = {**rows.load_map(of_document), **rows.load_map(of_chunk)}
                if key in metadata and satisfies(metadata, self._scope.filters.metadata):
                    found[metadata_text(metadata[key])] += count
        return dict(found)

    def tally(self, of: Countable, terms: Sequence[str], most: int) -> dict[str, int]:
        """How many chunks may have any of the terms, by value; collections and documents by their rows."""
        self._look_for(terms)
        condition, values = within(self._scope, sorted({one for term in terms for one in self._having[term]}))
        found: Counter[str] = Counter()
        with self._record.snapshot() as db:
            if of == "metadata":
                for of_document, of_chunk, count in db.execute(_FACETS.format(condition), values):
                    for key, value in {**rows.load_map(of_document), **rows.load_map(of_chunk)}.items():
                        found[f"{key}={metadata_text(value)}"] += count
            else:
                for value, count in db.execute(_TALLY.format(_COUNTED[of], condition), values):
                    found[str(value)] += count
        return dict(found.most_common(most))

    def _rarity(self, terms: Sequence[str]) -> dict[str, float]:
        """The inverse document frequency as BM25 has it."""
        counts = self.document_frequency(terms)
        return {term: math.log(1 + (self._count - count + 0.5) / (count + 0.5)) for term, count in counts.items()}

    def _look_for(self, terms: Sequence[str]) -> None:
        """Reads all texts for those of the terms that were not looked for yet."""
        new = [term for term in dict.fromkeys(terms) if term not in self._having]
        if self._count and not new:
            return
        probes = [probe(term) for term in new]
        patterns = [f"%{one}%" for one in probes]  # of letters and digits; in ASCII LIKE ignores their case
        found: list[list[int]] = [[] for _ in new]
        wanted = self._scope.filters.metadata
        condition, values = within(self._scope)
        query = _BLOCK.format(
            condition=condition,
            block=_PASSAGES,
            flags=" || ".join(["''", *["(hay LIKE ?)"] * len(new)]),
            metadata="of_document, of_chunk" if wanted else "'{}', '{}'",
        )
        self._count = last = 0
        with self._record.snapshot() as db:
            while last is not None:
                last, count, listed = db.execute(query, (last, *values, *patterns)).fetchone()
                self._count += count
                for chunk_id, flags, odd, of_document, of_chunk in json.loads(listed):
                    if wanted and not satisfies({**rows.load_map(of_document), **rows.load_map(of_chunk)}, wanted):
                        continue
                    if odd:
                        flags = ["01"[there] for there in held(odd, probes)]
                    for having, flag in zip(found, flags, strict=True):
                        if flag == "1":
                            having.append(chunk_id)
        self._having.update(zip(new, found, strict=True))

    def _analysed(self, likely: Mapping[int, float], limit: int) -> list[tuple[int, dict[str, list[str]]]]:
        """The likeliest passages with the terms of their fields."""
        best = heapq.nsmallest(max(_ANALYSED, 2 * limit), likely, key=lambda chunk_id: (-likely[chunk_id], chunk_id))
        found = [fields_of(row, {}) for row in self._read(best)]
        split = [(int(one["id"]), {field: one[field].split() for field in BOOSTS}) for one in found]
        self._lengths = {
            field: sum(len(one[field]) for _, one in split) / max(1, len(split)) for field in BOOSTS
        }  # of these, which stand for all
        return split

    def _read(self, chunk_ids: Sequence[int]) -> list[Any]:
        """The rows of the chunks, in one step too."""
        with self._record.snapshot() as db:
            rows: list[Any] = json.loads(db.execute(_AT_ONCE, (json.dumps(chunk_ids),)).fetchone()[0])
            return rows


def held(text: str, probes: Sequence[str]) -> list[bool]:
    """Which of the probes the text contains, whatever its alphabet."""
    hay = fold(text).lower().replace("_", "").replace("ς", "σ")  # which of them depends on what follows
    return [one.replace("ς", "σ") in hay for one in probes]


def probe(term: str) -> str:
    """A part of the term that every text with the term contains: stems differ from words in their last letters."""
    bare = term.rstrip("eiy")
    return bare.removesuffix("l") if bare.endswith("bl") else bare or term[:1]


def _best(scores: Mapping[int, float], limit: int) -> Ranking:
    found = heapq.nsmallest(max(0, limit), ((-score, chunk_id) for chunk_id, score in scores.items() if score > 0))
    return Ranking([chunk_id for _, chunk_id in found], [-score for score, _ in found])
