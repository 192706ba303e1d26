"""What do the two indexes find?  By words and by meaning at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from refdesk.model import Query, Scored, Vector
from refdesk.ports import Embedder, Store
from refdesk.search import confidence, fuse
from refdesk.search.understand import Understood

_BESIDE = 4  # searches at once whose vectors are compared beside


@dataclass(frozen=True, slots=True)
class Candidates:
    """What both indexes found; every candidate has its cosine where vectors count at all."""

    lexical: Sequence[Scored] = ()
    cosines: Mapping[int, float] = field(default_factory=dict)
    cut: bool = False  # an index may have found more
    nearest: tuple[float, ...] = ()  # the highest cosines, best first
    frequency: Mapping[str, int] = field(default_factory=dict)  # of the terms, where it is to be judged by
    passages: int = 0  # that they were counted in
    notes: tuple[str, ...] = ()


class LookUp:
    """Asks one store, with an embedder or without any."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder
        self._beside = ThreadPoolExecutor(_BESIDE, "refdesk-nearest")  # starts a thread once it is needed

    def find(self, query: Query, asked: Understood, pool: int) -> Candidates:
        """The best candidates, up to so many of each index."""
        if query.exact:
            return _by_words(self._literal(query, asked, pool), pool)
        if asked.quoted:
            return _by_words(self._phrases(query, asked, pool), pool)
        note = ("keywords only: no embedder is set",) if self._embedder is None and query.alpha != 0.0 else ()
        if query.alpha == 0.0 or self._embedder is None:
            return _by_words(self._words(query, asked, pool), pool, *note)
        vector = self._embedder.embed_queries([query.text])[0]
        if not vector.any():
            return _by_words(self._words(query, asked, pool), pool)
        return self._both(query, asked, pool, vector, self._embedder.similarity_floor)

    def _words(self, query: Query, asked: Understood, pool: int) -> Sequence[Scored]:
        return self._store.lexical(asked.terms, query.filters, pool) if query.alpha != 1.0 else ()

    def _both(self, query: Query, asked: Understood, pool: int, vector: Vector, floor: float) -> Candidates:
        """Both lists, and the cosines of what only words found; what is only near must be near enough."""
        beside = self._beside.submit(self._store.nearest, vector, query.filters, pool)
        try:
            lexical: Sequence[Scored] = ()
            if query.alpha != 1.0:  # meaning tells better than their number which of the terms matter
                lexical = self._store.lexical(asked.terms, query.filters, pool, by_number=False)
            is_judged = confidence.is_judged(asked)
            frequency = self._store.document_frequency(asked.terms) if is_judged else {}
            passages = self._store.passages() if is_judged else 0
        finally:
            near = beside.result()
        nearest = {one.chunk_id: one.score for one in near}
        known = {one.chunk_id for one in lexical}
        unseen = self._store.cosines(vector, [one.chunk_id for one in lexical if one.chunk_id not in nearest])
        relevant = {chunk_id: score for chunk_id, score in nearest.items() if score >= floor or chunk_id in known}
        cut = len(lexical) >= pool or (len(near) >= pool and near[-1].score >= floor)
        highest = tuple(one.score for one in near[: confidence.COMPARED])
        return Candidates(lexical, {**unseen, **relevant}, cut, highest, frequency, passages)

    def _phrases(self, query: Query, asked: Understood, pool: int) -> Sequence[Scored]:
        """Passages that hold every quoted phrase, by the whole query's score, else by the phrase's own."""
        found: dict[int, float] | None = None
        for phrase in asked.quoted:
            scores = {one.chunk_id: one.score for one in self._store.phrase([phrase], query.filters, 20 * pool)}
            found = scores if found is None else {key: found[key] for key in found.keys() & scores.keys()}
        whole = {one.chunk_id: one.score for one in self._store.lexical(asked.terms, query.filters, 10 * pool)}
        lowest = min(whole.values(), default=1.0)
        ranked = {key: whole.get(key, lowest * score / (1 + score)) for key, score in (found or {}).items()}
        return [Scored(key, ranked[key]) for key in fuse.order(ranked)[:pool]]

    def _literal(self, query: Query, asked: Understood, pool: int) -> Sequence[Scored]:
        """Passages that contain the text to the letter: by its terms where it has any, else by reading."""
        wanted = _squeeze(query.text)
        if not asked.terms:
            return self._store.literal(query.text.strip(), query.filters, pool)
        candidates = self._store.phrase([query.text], query.filters, 20 * pool)
        stored = self._store.chunks([one.chunk_id for one in candidates])
        return [
            one for one in candidates if one.chunk_id in stored and wanted in _squeeze(stored[one.chunk_id].chunk.text)
        ][:pool]


def _by_words(lexical: Sequence[Scored], pool: int, *notes: str) -> Candidates:
    return Candidates(lexical=lexical, cut=len(lexical) >= pool, notes=notes)


def _squeeze(text: str) -> str:
    return " ".join(text.split())
