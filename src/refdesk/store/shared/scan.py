"""Searches words in Postgres itself while no node of the index answers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

from refdesk.store.record import rows
from refdesk.store.record.filters import Scope, satisfies
from refdesk.store.shared.database import Postgres
from refdesk.store.shared.dialect import Translating
from refdesk.store.words.index import BY_ID
from refdesk.store.words.scan import Scan, held, probe, within
from refdesk.text import letters

_FROM = "FROM chunks c JOIN documents d ON d.id = c.document JOIN texts t ON t.id = c.text WHERE 1 = 1"
# Each step is a fence (OFFSET 0): else texts are put together anew for each term.  In ASCII words are looked for as
# they are, in other texts in all their spellings, since Postgres folds no accents, and capitals only of alphabets that
# its database was made for.  The few texts with letters that can't be folded one by one are folded here.
_FLAGGED = """
SELECT id, of_document, of_chunk, flags, CASE WHEN is_odd THEN raw END FROM (
    SELECT *, ARRAY[{flags}] AS flags, NOT is_ascii AND raw ~ ? AS is_odd FROM (
        SELECT *, octet_length(raw) = length(raw) AS is_ascii, lower(replace(raw, '_', '')) AS hay FROM (
            SELECT c.id, d.metadata AS of_document, c.metadata AS of_chunk,
                   concat_ws(' ', t.text, c.title, c.breadcrumb, c.symbols, d.path) AS raw
            {passages} OFFSET 0
        ) AS read OFFSET 0
    ) AS folded OFFSET 0
) AS flagged WHERE is_odd OR true = ANY(flags)
"""
_FLAG = "CASE WHEN is_ascii THEN strpos(hay, ?) > 0 ELSE raw ~ ? END"

_PAGE = 500  # passages that are in memory at a time
_LIMIT_S, _LEAST_S = 4.0, 1.0  # of a query from its beginning, and of a statement even so


class SharedScan(Scan):
    """The same as Scan; a library that takes longer than a query may is an error."""

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
            query = _FLAGGED.format(flags=", ".join([_FLAG] * len(new)), passages=f"{_FROM} {condition}")
            probes = [probe(term) for term in new]
            given = [*chain.from_iterable((one, letters.pattern(one)) for one in probes), letters.joining(), *values]
            pages = db.pages(query, given, _PAGE, max(self._ends, time.monotonic() + _LEAST_S))
            for chunk_id, of_document, of_chunk, flags, odd in chain.from_iterable(pages):
                if wanted and not satisfies({**rows.load_map(of_document), **rows.load_map(of_chunk)}, wanted):
                    continue
                for having, flag in zip(found, held(odd, probes) if odd else flags, strict=True):
                    if flag:
                        having.append(chunk_id)
        self._having.update(zip(new, found, strict=True))

    def _read(self, chunk_ids: Sequence[int]) -> list[Any]:
        with self.snapshot() as db:
            found: list[Any] = db.execute(BY_ID, (json.dumps(list(chunk_ids)),)).fetchall()
            return found
