"""Searches words in Postgres itself while no node of the index answers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from refdesk.store.record import rows
from refdesk.store.record.filters import Scope, satisfies
from refdesk.store.shared.database import Postgres
from refdesk.store.shared.dialect import Translating
from refdesk.store.words.index import BY_ID
from refdesk.store.words.scan import Scan, probe, within

# ruff: noqa: S608 - statements are put together from constants; values are bound

_FROM = "FROM chunks c JOIN documents d ON d.id = c.document JOIN texts t ON t.id = c.text WHERE 1 = 1"
_HAY = "lower(replace(concat_ws(' ', t.text, c.title, c.breadcrumb, c.symbols, d.path), '_', ''))"


_LIMIT_S, _LEAST_S = 4.0, 1.0  # of a query from its beginning, and of a statement even so


class SharedScan(Scan):
    """The same as Scan; accents count here, and a library that takes longer than a query may is an error."""

    def __init__(self, postgres: Postgres, scope: Scope, began: float) -> None:
        super().__init__(self, scope)
        self._postgres = postgres
        self._ends = began + _LIMIT_S

    def snapshot(self) -> AbstractContextManager[Translating]:
        return self._postgres.snapshot(max(_LEAST_S, self._ends - time.monotonic()))

    def _look_for(self, terms: Sequence[str]) -> None:
        new = [term for term in dict.fromkeys(terms) if term not in self._having]
        if self._count and not new:
            return
        condition, values = within(self._scope)
        wanted = self._scope.filters.metadata
        found: list[list[int]] = [[] for _ in new]
        with self.snapshot() as db:
            self._count = db.execute(f"SELECT count(*) {_FROM} {condition}", values).fetchone()[0]
        if not new:
            return
        with self.snapshot() as db:  # with the time that is left
            flags = ", ".join(["strpos(hay, ?) > 0"] * len(new))
            select = (
                f"SELECT c.id, d.metadata AS of_document, c.metadata AS of_chunk, {_HAY} AS hay {_FROM} {condition}"
            )
            flagged = f"SELECT id, of_document, of_chunk, ARRAY[{flags}] AS flags FROM ({select}) AS passages"
            query = f"SELECT * FROM ({flagged}) AS flagged WHERE true = ANY(flags)"
            for chunk_id, of_document, of_chunk, held in db.execute(query, [*map(probe, new), *values]):
                if wanted and not satisfies({**rows.load_map(of_document), **rows.load_map(of_chunk)}, wanted):
                    continue
                for having, flag in zip(found, held, strict=True):
                    if flag:
                        having.append(chunk_id)
        self._having.update(zip(new, found, strict=True))

    def _read(self, chunk_ids: Sequence[int]) -> list[Any]:
        with self.snapshot() as db:
            found: list[Any] = db.execute(BY_ID, (json.dumps(list(chunk_ids)),)).fetchall()
            return found
