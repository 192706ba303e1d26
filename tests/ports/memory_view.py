"""The view of a store in memory: it searches every passage, one by one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.distance import OSA

from refdesk.model import Countable, Filters, Origin, Ranking, StoredChunk, Topic, Vector, metadata_text
from refdesk.store.vectors.index import as_topics
from refdesk.store.words.query import BOOSTS, PRESENT, telling
from refdesk.text.analyse import names, terms
from refdesk.text.globs import path_filter

if TYPE_CHECKING:
    from tests.ports.memory import MemoryStore


def clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


class MemoryView:
    """Searches every passage, one by one."""

    notices: tuple[str, ...] = ()

    def __init__(self, store: MemoryStore, filters: Filters) -> None:
        data = store.data
        known = {one.name: one.id for one in data.collections.values()}
        homes = {known[name] for name in filters.collections if name in known} if filters.collections else None
        every = [(one, self._fields(one)) for one in store.every()]
        inside = [one for one in every if homes is None or data.documents[one[0].document.id].home in homes]
        self._all = {one.id: fields for one, fields in inside if self._allows(one, filters)}
        self._stored = {one.id: one for one, _ in inside}
        self._vectors = store.vectors_of(self._stored)
        self.everything = store.vectors_of({one.id: one for one, _ in every})
        small = homes is not None and 2 * len(inside) < len(every)
        self._counted = [fields for _, fields in (inside if small else every)]
        self._inside = [fields for _, fields in inside]
        self.sequence = data.sequence
        self.has_unembedded = len(self._vectors) < len(inside)

    @staticmethod
    def _fields(one: StoredChunk) -> dict[str, list[str]]:
        chunk = one.chunk
        heading = " ".join((chunk.title, *chunk.breadcrumb, *chunk.symbols))
        return {
            "content": terms(clean(chunk.text)),
            "title": terms(clean(heading)),
            "symbol": [term for symbol in chunk.symbols for term in (*names(clean(symbol)), *terms(clean(symbol)))],
            "path": terms(clean(one.document.path)),
        }

    @staticmethod
    def _allows(one: StoredChunk, filters: Filters) -> bool:
        document, chunk = one.document, one.chunk
        metadata = {**document.metadata, **chunk.metadata}
        extension = document.path.rsplit(".", 1)[-1].lower()
        return (
            (not filters.documents or document.id in filters.documents)
            and (not filters.kinds or chunk.kind in filters.kinds)
            and (not filters.types or chunk.type in filters.types)
            and (not filters.languages or chunk.language in filters.languages)
            and (not filters.extensions or extension in filters.extensions)
            and (not filters.paths or any(path_filter(glob).fullmatch(document.path) for glob in filters.paths))
            and all(key in metadata and metadata_text(metadata[key]) in wanted for key, wanted in filters.metadata)
        )

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        counts, scores = self.document_frequency(terms), {}
        for chunk_id, fields in self._all.items():
            score = 0.0
            for term in counts:
                rarity = math.log(1 + (len(self._counted) + 0.5) / (counts[term] + 0.5))
                for name, boost in BOOSTS.items():
                    count = fields[name].count(term)
                    score += boost * rarity * count / (count + 1.2)
                score += PRESENT * rarity * (by_number and term in fields["content"])
            scores[chunk_id] = score
        return _ranked({chunk_id: score for chunk_id, score in scores.items() if score > 0}, limit)

    def phrase(self, words: Sequence[str], limit: int) -> Ranking:
        wanted = terms(" ".join(words))
        if len(wanted) < 2:
            return self.lexical(wanted, limit)
        together = f" {' '.join(wanted)} "
        held = [
            chunk_id
            for chunk_id, fields in self._all.items()
            if any(together in f" {' '.join(fields[name])} " for name in ("content", "title"))
        ]
        return _ranked(dict.fromkeys(held, 1.0), limit)

    def literal(self, text: str, limit: int) -> Ranking:
        held = [one for one in self._all if text and text in self._stored[one].chunk.text]
        return _ranked(dict.fromkeys(held, 1.0), limit)

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        return _ranked(self.cosines(vector, list(self._all)), limit)

    def both(self, terms: Sequence[str], vector: Vector, limit: int) -> tuple[Ranking, Ranking]:
        return self.lexical(terms, limit, by_number=False), self.nearest(vector, limit)

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        fitting = {one: self.everything[one] for one in chunk_ids if one in self.everything}
        return {one: float(own @ vector) for one, own in fitting.items() if len(own) == len(vector)}

    def topics(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, Topic]:
        found = {}
        for one in self.cosines(vector, chunk_ids):
            owner = self._stored[one].document.id
            own = [self.everything[each] for each in self.everything if self._stored[each].document.id == owner]
            (found[one],) = as_topics(vector, np.sum(own, axis=0, keepdims=True), np.array([len(own)]))
        return found

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        found = {one: self._stored[one] for one in chunk_ids if one in self._stored}
        return {
            one: Origin(hash(stored.chunk.text), hash(stored.document.id), stored.document.path)
            for one, stored in found.items()
        }

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        return {
            term: max(sum(term in fields[name] for fields in self._counted) for name in ("content", "title"))
            for term in dict.fromkeys(terms)
        }

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        return telling(self.document_frequency(terms), most)

    def passages(self) -> int:
        return len(self._counted)

    def unknown(self, terms: Sequence[str]) -> set[str]:
        return {term for term in terms if not any(term in own for fields in self._inside for own in fields.values())}

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        held = [
            chunk_id
            for chunk_id, fields in self._all.items()
            if any(OSA.distance(one, term) <= edits for term in terms for one in fields["content"] + fields["title"])
        ]
        return _ranked(dict.fromkeys(held, 1.0), limit)

    def facet_values(self, key: str) -> dict[str, int]:
        found = [{**self._stored[one].document.metadata, **self._stored[one].chunk.metadata} for one in self._all]
        return dict(Counter(metadata_text(metadata[key]) for metadata in found if key in metadata))

    def tally(self, of: Countable, terms: Sequence[str], most: int) -> dict[str, int]:
        found: Counter[str] = Counter()
        for one, fields in self._all.items():
            if any(term in own for term in terms for own in fields.values()):
                document, chunk = self._stored[one].document, self._stored[one].chunk
                metadata = {**document.metadata, **chunk.metadata}
                values = {
                    "collection": [document.collection],
                    "kind": [chunk.kind],
                    "language": [chunk.language],
                    "path": [document.path],
                    "metadata": [f"{key}={metadata_text(value)}" for key, value in metadata.items()],
                }
                found.update(values[of])
        return dict(found.most_common(most))


def _ranked(scores: Mapping[int, float], limit: int) -> Ranking:
    best = sorted((-score, chunk_id) for chunk_id, score in scores.items())[: max(0, limit)]
    return Ranking([chunk_id for _, chunk_id in best], [-score for score, _ in best])
