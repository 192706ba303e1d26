"""Searches words in Postgres itself while no node of the index answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from refdesk.store.record import rows
from refdesk.store.record.filters import satisfies
from refdesk.store.words.index import BY_ID
from refdesk.store.words.scan import Scan, probe, within

# ruff: noqa: S608 - statements are put together from constants; values are bound

_FROM = "FROM chunks c JOIN documents d ON d.id = c.document JOIN texts t ON t.id = c.text WHERE 1 = 1"
_HAY = "lower(replace(concat_ws(' ', t.text, c.title, c.breadcrumb, c.symbols, d.path), '_', ''))"


class SharedScan(Scan):
    """The same as Scan; accents count here, and a library that takes longer than a statement may is an error."""

    def _look_for(self, terms: Sequence[str]) -> None:
        new = [term for term in dict.fromkeys(terms) if term not in self._having]
        if self._count and not new:
            return
        condition, values = within(self._scope)
        wanted = self._scope.filters.metadata
        found: list[list[int]] = [[] for _ in new]
        with self._record.snapshot() as db:
            self._count = db.execute(f"SELECT count(*) {_FROM} {condition}", values).fetchone()[0]
            if new:
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
        with self._record.snapshot() as db:
            found: list[Any] = db.execute(BY_ID, (json.dumps(list(chunk_ids)),)).fetchall()
            return found
