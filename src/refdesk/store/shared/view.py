"""The view of one query on a shared library: the index in Qdrant within its filters, or the record while it is away."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from refdesk.errors import StoreError
from refdesk.model import EVERYTHING, Countable, Origin, Ranking, Topic
from refdesk.store.record import reads
from refdesk.store.record.filters import Scope
from refdesk.store.record.rows import storable
from refdesk.store.shared import means, points, spelling
from refdesk.store.shared.database import Postgres, TooSlow
from refdesk.store.shared.follower import Follower
from refdesk.store.shared.nodes import ASK_S, IndexAway, IndexMissing, Nodes
from refdesk.store.shared.scan import SharedScan
from refdesk.store.shared.state import Counts, Searched
from refdesk.store.vectors.index import unpack
from refdesk.store.words import scan as literal
from refdesk.store.words.query import PRESENT, SEPARATOR, telling
from refdesk.system import metrics
from refdesk.text.analyse import terms as terms_of

if TYPE_CHECKING:
    from qdrant_client import grpc as messages

    from refdesk.model import Vector

_log = logging.getLogger(__name__)

_INSTEAD = "{}; words were searched in the record, and meaning was not"
_BUILT = "the index is being built; some passages can't be found yet"
_BEHIND = "the index lags behind: the last {} writes are not searched yet"
_EXTRA = 16  # fetched beyond the limit, so that hits with equal scores are seen together
_MOST_TIED = 2000
_MOST_FACETS = 10_000  # values of all metadata keys together
_TOO_MANY_S = 5.0  # after a search without the index took too long, others fail at once
_EF = 192  # of HNSW: how many candidates a search keeps
_OVERSAMPLED = 4.0  # times the hits that codes propose: of the 120 nearest .985 are found so, .951 with twice
_ORIGINS = """
SELECT c.id, c.text, c.document, d.path, v.numbers FROM chunks c JOIN documents d ON d.id = c.document
LEFT JOIN vectors v ON v.id = c.vector WHERE c.id IN (SELECT value FROM json_each(?))
"""
_ANYWHERE = Scope(EVERYTHING, None, None)

T = TypeVar("T")


class SharedView:
    """Implements ports.View."""

    def __init__(
        self, postgres: Postgres, nodes: Nodes, follower: Follower, counts: Counts, seq: int, scope: Scope,
        state: Searched | None, away: str, behind: int, began: float,
    ) -> None:  # fmt: skip
        self._postgres, self._nodes, self._follower = postgres, nodes, follower
        self._scope = scope
        self._away = away  # why no index is searched
        self._state, self._counts = state, counts  # None while the index is away
        self._known = counts.of(state) if state is not None else {}
        self._behind = behind
        self._began = began
        self._scan: SharedScan | None = None
        self._near: Sequence[int] = ()  # whose origins are asked for with the cosines of others
        self._origins: dict[int, Origin] = {}  # that were read so far
        self.sequence = seq
        self.has_unembedded = scope.has_unembedded

    @property
    def notices(self) -> tuple[str, ...]:
        if self._state is None:
            return (_INSTEAD.format(self._away),)
        if self._state.part is not None:
            return (_BUILT,)
        return (_BEHIND.format(self._behind),) if self._behind else ()

    def _by_index(self, ask: Callable[[Searched], T], otherwise: Callable[[SharedScan], T]) -> T:
        """What the index answers, or the record while no node does."""
        while (state := self._state) is not None:
            try:
                return ask(state)
            except IndexMissing as error:
                other = self._follower.searched(self._began)  # which may have taken its place meanwhile
                if other is not None and other.name != state.name:
                    self._state, self._known = other, self._counts.of(other)
                    continue
                if other is not None:
                    _log.warning("%s", error)
                    self._follower.report_missing(state.name)
                self._lose(self._follower.why_none(is_later=False))
            except IndexAway as error:
                _log.warning("%s", error)
                self._lose(self._nodes.unreached)
        if self._scan is None:
            self._scan = SharedScan(self._postgres, self._scope, self._began)
        try:
            if time.monotonic() >= self._counts.too_many_until:
                return otherwise(self._scan)
        except TooSlow:
            self._counts.too_many_until = time.monotonic() + _TOO_MANY_S
        problem = f"T{self._away[1:]}, and the library has too many passages to search them without it."
        raise StoreError(problem, "Check that Qdrant runs, and all servers' versions, then try again.")

    def _lose(self, why: str) -> None:
        metrics.count("refdesk_index_away_total", self._state is not None)
        self._state, self._known, self._away = None, {}, why

    def _left(self) -> float:
        """How long a request to the index may take."""
        return max(1.0, self._began + ASK_S - time.monotonic())

    def _ask(self, method: str, request: Any) -> Any:
        return self._nodes.call("Points", method, request, self._left())

    # ranking

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        distinct = list(dict.fromkeys(map(storable, terms)))
        if not distinct or limit <= 0:
            return Ranking()
        return self._by_index(
            lambda state: self._lexical(state, distinct, limit, by_number),
            lambda scan: scan.lexical(terms, limit, by_number=by_number),
        )

    def _lexical(self, state: Searched, terms: list[str], limit: int, by_number: bool, *more: Any) -> Ranking:
        asked = self._request(state, points.SPARSE, points.of_words(terms), limit + _EXTRA, more)
        if not by_number:
            return self._best(asked, limit)
        asked.limit += limit
        asked.with_vectors.include.names.append(points.SPARSE)
        counts, total = self.document_frequency(terms), self.passages()
        adds = {
            points.dimension("content", term): PRESENT * math.log(1 + (max(0, total - count) + 0.5) / (count + 0.5))
            for term, count in counts.items()
        }
        return self._best(asked, limit, adds)

    def phrase(self, words: Sequence[str], limit: int) -> Ranking:
        wanted = [storable(term) for term in terms_of(" ".join(words))]
        if len(wanted) < 2:
            return self.lexical(wanted, limit)

        def ask(state: Searched) -> Ranking:
            from qdrant_client import grpc as messages

            together = points.holding(points.TERMS, messages.Match(phrase=" ".join(wanted)))
            return self._lexical(state, wanted, limit, False, together) if limit > 0 else Ranking()

        return self._by_index(ask, lambda scan: scan.phrase(words, limit))

    def literal(self, text: str, limit: int) -> Ranking:
        candidates = None
        if inner := literal.inner_terms(text):
            candidates = self._by_index(lambda state: self._holding(state, inner), lambda scan: None)
        with self._postgres.reading(self._began) as db:
            return literal.find(db, text, self._scope, limit, candidates)

    def _holding(self, state: Searched, terms: Sequence[str]) -> list[int] | None:
        """Every chunk with all of the terms; None where there are too many."""
        from qdrant_client import grpc as messages

        if self._is_empty:
            return []
        request = messages.ScrollPoints(
            collection_name=state.name, limit=literal.MOST + 1, with_payload=points.with_fields(),
            filter=points.within(self._scope, points.holding(points.TERMS, messages.Match(text=" ".join(terms)))),
        )  # fmt: skip
        found = [one.id.num for one in self._ask("Scroll", request).result]
        return found if len(found) <= literal.MOST else None

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        if limit <= 0 or not self._takes(vector):
            return Ranking()

        def ask(state: Searched) -> Ranking:
            return self._best(self._request(state, points.DENSE, points.of_vector(vector), limit + _EXTRA), limit)

        return self._by_index(ask, lambda scan: Ranking())

    def both(self, terms: Sequence[str], vector: Vector, limit: int) -> tuple[Ranking, Ranking]:
        """In one request, which takes less of both processors than two."""
        distinct = list(dict.fromkeys(map(storable, terms)))
        if self._state is None or self._is_empty or not distinct or limit <= 0 or not self._takes(vector):
            return self.lexical(terms, limit, by_number=False), self.nearest(vector, limit)

        def ask(state: Searched) -> tuple[Ranking, Ranking]:
            from qdrant_client import grpc as messages

            asked = [
                self._request(state, points.SPARSE, points.of_words(distinct), limit + _EXTRA),
                self._request(state, points.DENSE, points.of_vector(vector), limit + _EXTRA),
            ]
            batch = messages.QueryBatchPoints(collection_name=state.name, query_points=asked)
            answers = self._ask("QueryBatch", batch).result
            found, near = (self._best(one, limit, None, has.result) for one, has in zip(asked, answers, strict=True))
            self._near = near.ids
            return found, near

        return self._by_index(ask, lambda scan: (scan.lexical(terms, limit, by_number=False), Ranking()))

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """From the record, with the origins of these and of the nearest, which are asked for next."""
        if not len(chunk_ids) or self._state is None or not self._takes(vector):
            return {}
        wanted = set(map(int, chunk_ids))
        with self._postgres.reading(self._began) as db:
            found = db.execute(_ORIGINS, (json.dumps([*wanted.union(self._near)]),)).fetchall()
        self._origins |= {chunk_id: Origin(*rest) for chunk_id, *rest, _ in found}
        # Another process may have begun to replace them by those of another model.
        known = {row[0]: row[4] for row in found if row[0] in wanted and row[4] and len(row[4]) == len(vector)}
        return dict(zip(known, (unpack(list(known.values())) @ vector).tolist(), strict=True)) if known else {}

    def topics(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, Topic]:
        with self._postgres.reading(self._began) as db:
            return means.topics(db, vector, chunk_ids)

    def _takes(self, vector: Vector) -> bool:
        """Whether the index has vectors of that many dimensions."""
        return self._state is None or self._state.dimension == len(vector)

    def _request(
        self, state: Searched, using: str, query: messages.Query, fetch: int, more: Sequence[Any] = ()
    ) -> messages.QueryPoints:
        from qdrant_client import grpc as messages

        by_codes = messages.QuantizationSearchParams(rescore=True, oversampling=max(_OVERSAMPLED, _EF / fetch))
        return messages.QueryPoints(
            collection_name=state.name, query=query, using=using, limit=fetch, filter=points.within(self._scope, *more),
            with_payload=points.with_fields(),
            params=messages.SearchParams(hnsw_ef=max(_EF, fetch), quantization=by_codes),
        )  # fmt: skip

    def _best(
        self, asked: messages.QueryPoints, limit: int, adds: dict[int, float] | None = None, hits: Any = None
    ) -> Ranking:
        """The best by score, equal scores by chunk id; with `adds`, a term that is there adds to the score."""
        if self._is_empty:
            return Ranking()
        while True:
            if hits is None:
                hits = self._ask("Query", asked).result
            last = hits[-1].score if len(hits) == asked.limit else -math.inf
            found = []
            for hit in hits:
                score = hit.score
                if adds is not None:
                    sparse = hit.vectors.vectors.vectors[points.SPARSE]
                    there = sparse.sparse.indices or sparse.indices.data  # before Qdrant 1.17 the latter
                    score += sum(adds[one] for one in there if one in adds)
                found.append((-score, hit.id.num))
            # Ties at the end may go on behind what was fetched.
            if len(hits) < asked.limit or hits[limit - 1].score > last or asked.limit >= limit + _MOST_TIED:
                best = sorted(found)[:limit]
                return Ranking([chunk_id for _, chunk_id in best], [-score for score, _ in best])
            asked.limit *= 4
            asked.params.hnsw_ef = max(_EF, asked.limit)
            hits = None

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        """From the record: a payload is read whole by Qdrant, with all terms of its passage."""
        if rest := [chunk_id for chunk_id in chunk_ids if chunk_id not in self._origins]:
            with self._postgres.reading(self._began) as db:
                self._origins |= reads.origins(db, rest)
        return {chunk_id: self._origins[chunk_id] for chunk_id in chunk_ids if chunk_id in self._origins}

    @property
    def _is_empty(self) -> bool:
        """Whether the filters name collections or documents, none of which exists."""
        return self._scope.collections == () or self._scope.within == frozenset()

    # counting

    def _count(self, wanted: Sequence[tuple[str, str]], inside: bool, exact: bool) -> list[int]:
        """In how many passages each term of a field is, in the collections or anywhere; ("", "") counts all."""
        from qdrant_client import grpc as messages

        state = self._state
        assert state is not None
        where = self._scope.collections if inside else None
        waiting: dict[tuple[Any, ...], Callable[[], Any]] = {}
        for field, term in dict.fromkeys(wanted):
            if (key := (field, term, where)) not in self._known:
                having = [points.holding(field, messages.Match(text=term))] if field else []
                within = points.within(self._scope if inside else _ANYWHERE, *having, documents=False)
                request = messages.CountPoints(collection_name=state.name, filter=within, exact=exact)
                waiting[key] = self._nodes.start("Points", "Count", request, self._left())
        for key, done in waiting.items():
            self._known[key] = int(done().result.count) - (key == ("", "", None))  # the head is no passage
        return [self._known[field, term, where] for field, term in wanted]

    def _is_small_part(self) -> bool:
        """Whether the collections are less than half of the library, which may be about anything then."""
        if self._scope.collections is None:
            return False
        return 2 * self._count([("", "")], True, True)[0] < self._count([("", "")], False, True)[0]

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        distinct = list(dict.fromkeys(terms))

        def ask(state: Searched) -> dict[str, int]:
            if self._scope.collections == ():
                return dict.fromkeys(distinct, 0)
            inside = self._is_small_part()
            counts = self._count([(points.TERMS, storable(term)) for term in distinct], inside, inside)
            return dict(zip(distinct, counts, strict=True))

        return self._by_index(ask, lambda scan: scan.document_frequency(terms))

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        return telling(self.document_frequency(terms), most)

    def passages(self) -> int:
        return self._by_index(
            lambda state: self._count([("", "")], self._is_small_part(), True)[0], lambda scan: scan.passages()
        )

    def unknown(self, terms: Sequence[str]) -> set[str]:
        left = list(dict.fromkeys(terms))

        def ask(state: Searched) -> set[str]:
            if self._scope.collections == ():
                return set(left)
            inside = self._scope.collections is not None
            missing = left
            for field in (points.TERMS, points.NAMES):
                counts = self._count([(field, storable(term)) for term in missing], inside, inside)
                missing = [term for term, count in zip(missing, counts, strict=True) if not count]
            return set(missing)

        return self._by_index(ask, lambda scan: scan.unknown(terms))

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        def ask(state: Searched) -> Ranking:
            try:
                with self._postgres.reading(self._began) as db:
                    alike = list(dict.fromkeys(one for term in terms for one in spelling.alike(db, term, edits)))
            except StoreError:  # there are too many words to compare
                return Ranking()
            return self._lexical(state, alike, limit, False) if alike else Ranking()

        return self._by_index(ask, lambda scan: Ranking())

    def facet_values(self, key: str) -> dict[str, int]:
        def ask(state: Searched) -> dict[str, int]:
            from qdrant_client import grpc as messages

            if self._is_empty:
                return {}
            prefix = f"{key}{SEPARATOR}"
            within = points.within(self._scope)
            request = messages.FacetCounts(
                collection_name=state.name, key="meta", filter=within, limit=_MOST_FACETS, exact=True
            )
            found = {hit.value.string_value: hit.count for hit in self._ask("Facet", request).hits}
            if len(found) >= _MOST_FACETS:  # those of one key may have taken the room of all others
                return SharedScan(self._postgres, self._scope, self._began).facet_values(key)
            return {name.removeprefix(prefix): count for name, count in found.items() if name.startswith(prefix)}

        return self._by_index(ask, lambda scan: scan.facet_values(key))

    def tally(self, of: Countable, terms: Sequence[str], most: int) -> dict[str, int]:
        def ask(state: Searched) -> dict[str, int]:
            from qdrant_client import grpc as messages

            wanted = list(dict.fromkeys(map(storable, terms)))
            if self._is_empty or not wanted:
                return {}
            fields = (points.TERMS, points.NAMES)
            any_of = [points.holding(name, messages.Match(text=term)) for term in wanted for name in fields]
            having = messages.Condition(filter=messages.Filter(should=any_of))
            key = {"metadata": "meta", "path": "document"}.get(of, of)
            request = messages.FacetCounts(
                collection_name=state.name, key=key, filter=points.within(self._scope, having), limit=most, exact=True
            )
            found = {}
            for hit in self._ask("Facet", request).hits:
                value = hit.value.string_value or str(hit.value.integer_value)
                found[value.replace(SEPARATOR, "=", 1)] = int(hit.count)
            return found

        found = self._by_index(ask, lambda scan: scan.tally(of, terms, most))
        with self._postgres.reading(self._began) as db:
            return reads.with_names(db, of, found)
