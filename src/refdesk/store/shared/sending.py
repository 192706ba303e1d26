"""Sends passages to the index in Qdrant, and removes them from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refdesk.store.record.database import last_commit
from refdesk.store.shared import collection, points
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.nodes import Nodes
from refdesk.system import metrics

_REQUEST = 500  # points of one request: 2 MB
_MOST_HINTS, _MOST_KNOWN = 80_000, 500_000


class Sending:
    """What one process sends, under the right to follow."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._terms: dict[bytes, str] = {}  # of texts that this process wrote and that the index may lack
        self._known_terms: set[str] = set()  # that the record has, or that it was given
        self.told = -1  # the commit that the index was told last and the record was not

    def hint(self, terms: Mapping[bytes, str]) -> None:
        """Keeps the terms of texts that were analysed before they were written, by the texts' keys.

        Another process may follow, and a passage may have another text by then: so not by the passages' ids.
        """
        if len(self._terms) > _MOST_HINTS:
            self._terms.clear()
        self._terms.update(terms)

    def forget(self) -> None:
        """Drops what is known of the record's terms: it may have gone back."""
        self._known_terms = set()

    def put(self, db: Translating, name: str, rows: Sequence[Any], commit: int, left_s: float) -> Callable[[], None]:
        """Sends the points of rows that were read after the commit; returns what waits until the nodes have them."""
        from qdrant_client import grpc as messages

        seen: set[str] = set()
        at = last_commit(db)  # after the rows were read
        named = messages.UpsertPoints(collection_name=name, wait=True, update_filter=points.until(at.seq))
        collection.add_head(named.points, at)
        waiting = [self._nodes.start("Points", "Upsert", named, left_s)]
        for start in range(0, len(rows), _REQUEST):
            request = messages.UpsertPoints(collection_name=name, wait=True, update_filter=points.until(commit))
            for row in rows[start : start + _REQUEST]:
                points.add(request.points, row, commit, self._terms, seen)
                self._terms.pop(row[14], None)
            waiting.append(self._nodes.start("Points", "Upsert", request, left_s))
        if new := [term for term in seen - self._known_terms if term.isalpha()]:
            db.raw.execute(
                "INSERT INTO terms SELECT t, length(t) FROM unnest(%s::text[]) t ON CONFLICT DO NOTHING", (new,)
            )
            if len(self._known_terms) > _MOST_KNOWN:
                self._known_terms.clear()
            self._known_terms.update(new)

        def wait() -> None:
            for done in waiting:
                done()
            self.told = at.seq
            metrics.count("refdesk_index_points_total", len(rows))

        return wait

    def delete(self, name: str, ids: Sequence[int], commit: int, left_s: float) -> None:
        from qdrant_client import grpc as messages

        if ids:
            these = messages.PointsSelector(filter=points.until(commit, points.named(ids)))
            request = messages.DeletePoints(collection_name=name, wait=True, points=these)
            self._nodes.call("Points", "Delete", request, left_s)
