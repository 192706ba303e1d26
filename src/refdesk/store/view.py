"""The view of one query: the record and both indexes at one commit, within its filters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from refdesk.model import Countable, Filters, Origin, Ranking, Topic
from refdesk.store.record import reads
from refdesk.store.record.database import Record
from refdesk.store.record.filters import Scope, resolve
from refdesk.store.record.schema import Connection
from refdesk.store.vectors.follower import VectorFollower
from refdesk.store.words import query as lexical_query
from refdesk.store.words import scan as literal
from refdesk.store.words.follower import LexicalFollower
from refdesk.store.words.index import IndexDamaged, seam
from refdesk.store.words.scan import Scan

if TYPE_CHECKING:
    from refdesk.model import Vector

_REBUILT = "the full-text index is being rebuilt; words were searched in the record"
_UNBUILT = (
    "the full-text index is missing or damaged and the library can't be written to; words were searched in the record"
)

_CACHED = 64  # scopes

T = TypeVar("T")


class Scopes:
    """Caches the scopes of filters until the record changes."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._seq = -1
        self._cached: OrderedDict[Filters, Scope] = OrderedDict()

    def resolve(self, db: Connection, seq: int, filters: Filters) -> Scope:
        with self._mutex:
            if seq != self._seq:
                self._cached.clear()
                self._seq = seq
            if (found := self._cached.get(filters)) is not None:
                self._cached.move_to_end(filters)
                return found
        scope = resolve(db, filters)
        with self._mutex:
            if seq == self._seq:
                self._cached[filters] = scope
                while len(self._cached) > _CACHED:
                    self._cached.popitem(last=False)
        return scope


class Beside:
    """A thread that searches words beside a search by vectors, for one query at a time.

    Further queries keep the processors busy as it is, and a thread would only cost them, as it does in a small library.
    Words go into the thread, since searching them needs less of Python: 3.44 ms a query of 39,000 passages, 3.57 the
    other way round.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "refdesk-words")
        self._is_taken = Lock()

    def start(self, ask: Callable[[], Ranking]) -> Callable[[], Ranking]:
        """Starts it, if the thread is free, and returns what waits for it or does it."""
        if not self._is_taken.acquire(blocking=False):
            return ask
        started = self._thread.submit(ask)
        started.add_done_callback(lambda _: self._is_taken.release())
        return started.result


class LocalView:
    """Implements ports.View: the state of the record is looked at once, each index is brought up to it once."""

    def __init__(
        self, record: Record, lexical: LexicalFollower, vectors: VectorFollower, beside: Beside, seq: int, scope: Scope
    ) -> None:
        self._record = record
        self._lexical = lexical
        self._vectors = vectors
        self._beside = beside
        self._scope = scope
        self.sequence = seq
        self.has_unembedded = scope.has_unembedded
        self._frequency: dict[str, int] = {}  # of the terms asked for so far: spelling and confidence ask for the same

        self._is_looked_up = False
        self._ask: lexical_query.Ask | None = None  # of the full-text index, once it is looked up
        self._scan: Scan | None = None  # of the record, once the index can't answer

    @property
    def notices(self) -> tuple[str, ...]:
        if self._scan is None:
            return ()
        return (_UNBUILT if self._record.read_only else _REBUILT,)

    def _by_words(self, ask: Callable[[lexical_query.Ask], T], scan: Callable[[Scan], T]) -> T:
        """What the full-text index answers, or the record where there is no index that can."""
        if not self._is_looked_up:
            index = self._lexical.at(self.sequence)
            found = index.current() if index is not None else None
            self._ask = lexical_query.Ask(*found, self._scope) if found else None
            self._is_looked_up = True
        if self._ask is not None:
            try:
                with seam():
                    return ask(self._ask)
            except IndexDamaged as error:
                self._lexical.doubt(str(error))
                self._ask = None
        if self._scan is None:
            self._scan = Scan(self._record, self._scope)
        return scan(self._scan)

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        return self._by_words(
            lambda ask: lexical_query.lexical(ask, terms, limit, by_number=by_number),
            lambda scan: scan.lexical(terms, limit, by_number=by_number),
        )

    def phrase(self, words: Sequence[str], limit: int) -> Ranking:
        return self._by_words(
            lambda ask: lexical_query.phrase(ask, words, limit), lambda scan: scan.phrase(words, limit)
        )

    def literal(self, text: str, limit: int) -> Ranking:
        candidates = None
        if inner := literal.inner_terms(text):
            candidates = self._by_words(lambda ask: lexical_query.holding(ask, inner, literal.MOST), lambda scan: None)
        with self._record.reading() as db:
            return literal.find(db, text, self._scope, limit, candidates)

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        index = self._vectors.at(self.sequence)
        with index.lock.reading():
            return index.nearest(vector, self._scope, limit)

    def both(self, terms: Sequence[str], vector: Vector, limit: int) -> tuple[Ranking, Ranking]:
        ask = partial(self.lexical, terms, limit, by_number=False)
        waiting = ask if self._vectors.is_small else self._beside.start(ask)
        try:
            near = self.nearest(vector, limit)
        finally:
            found = waiting()
        return found, near

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        index = self._vectors.at(self.sequence)
        with index.lock.reading():
            return index.cosines(vector, chunk_ids)

    def topics(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, Topic]:
        index = self._vectors.at(self.sequence)
        with index.lock.reading():
            return index.topics(vector, chunk_ids)

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        known = self._vectors.origins(chunk_ids)
        rest = [chunk_id for chunk_id in chunk_ids if chunk_id not in known] if len(known) < len(chunk_ids) else ()
        if rest:
            with self._record.reading() as db:
                known |= reads.origins(db, rest)
        return known

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        if new := [term for term in terms if term not in self._frequency]:
            self._frequency |= self._by_words(
                lambda ask: lexical_query.document_frequency(ask, new), lambda scan: scan.document_frequency(new)
            )
        return {term: self._frequency[term] for term in terms}

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        return self._by_words(
            lambda ask: lexical_query.most_telling(ask, terms, most), lambda scan: scan.most_telling(terms, most)
        )

    def passages(self) -> int:
        return self._by_words(lexical_query.passages, Scan.passages)

    def unknown(self, terms: Sequence[str]) -> set[str]:
        if self._scope.collections is None:
            return {term for term, count in self.document_frequency(terms).items() if not count}
        return self._by_words(lambda ask: lexical_query.unknown(ask, terms), lambda scan: scan.unknown(terms))

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        return self._by_words(lambda ask: lexical_query.spelt_like(ask, terms, edits, limit), lambda scan: Ranking())

    def facet_values(self, key: str) -> dict[str, int]:
        return self._by_words(lambda ask: lexical_query.facet_values(ask, key), lambda scan: scan.facet_values(key))

    def tally(self, of: Countable, terms: Sequence[str], most: int) -> dict[str, int]:
        found = self._by_words(
            lambda ask: lexical_query.tally(ask, of, terms, most), lambda scan: scan.tally(of, terms, most)
        )
        with self._record.reading() as db:
            return reads.with_names(db, of, found)
