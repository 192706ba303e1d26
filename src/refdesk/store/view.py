"""What does a query find?  The record and both indexes as they are when it comes, within its filters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from refdesk.model import Ranking
from refdesk.store import lexical_query, literal, reads
from refdesk.store.filters import Scope
from refdesk.store.followers import Followers
from refdesk.store.record import Record

if TYPE_CHECKING:
    from refdesk.model import Vector


class LocalView:
    """Implements ports.View: the state of the record is looked at once, each index is brought up to it once."""

    def __init__(self, record: Record, followers: Followers, seq: int, scope: Scope) -> None:
        self._record = record
        self._followers = followers
        self._scope = scope
        self.sequence = seq
        self.has_unembedded = scope.has_unembedded

    @cached_property
    def _ask(self) -> lexical_query.Ask | None:
        found = self._followers.lexical(self.sequence).current()
        return lexical_query.Ask(*found, self._scope) if found else None

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        return lexical_query.lexical(self._ask, terms, limit, by_number=by_number) if self._ask else Ranking()

    def phrase(self, words: Sequence[str], limit: int) -> Ranking:
        return lexical_query.phrase(self._ask, words, limit) if self._ask else Ranking()

    def literal(self, text: str, limit: int) -> Ranking:
        candidates = None
        if (inner := literal.inner_terms(text)) and self._ask:
            candidates = lexical_query.holding(self._ask, inner, literal.MOST)
        with self._record.reading() as db:
            return literal.find(db, text, self._scope, limit, candidates)

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        index = self._followers.vectors(self.sequence)
        with index.lock.reading():
            return index.nearest(vector, self._scope, limit)

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        index = self._followers.vectors(self.sequence)
        with index.lock.reading():
            return index.cosines(vector, chunk_ids)

    def same_text(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        known = self._followers.texts(chunk_ids)
        rest = [chunk_id for chunk_id in chunk_ids if chunk_id not in known] if len(known) < len(chunk_ids) else ()
        if rest:
            with self._record.reading() as db:
                known |= reads.same_text(db, rest)
        return known

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        if self._ask is None:
            return dict.fromkeys(terms, 0)
        return lexical_query.document_frequency(self._ask, terms)

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        return lexical_query.most_telling(self._ask, terms, most) if self._ask else list(terms[:most])

    def passages(self) -> int:
        return lexical_query.passages(self._ask) if self._ask else 0

    def unknown(self, terms: Sequence[str]) -> set[str]:
        return lexical_query.unknown(self._ask, terms) if self._ask else set(terms)

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        return lexical_query.spelt_like(self._ask, terms, edits, limit) if self._ask else Ranking()

    def facet_values(self, key: str) -> dict[str, int]:
        return lexical_query.facet_values(self._ask, key) if self._ask else {}
