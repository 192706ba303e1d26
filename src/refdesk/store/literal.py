"""Which passages contain a text to the letter?"""

# ruff: noqa: S608 - statements are put together from constants; values are bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from refdesk.model import Scored
from refdesk.store import rows
from refdesk.store.filters import Scope, satisfies

_SELECT = """
SELECT c.id, d.metadata, c.metadata FROM texts t JOIN chunks c ON c.text = t.id JOIN documents d ON d.id = c.document
WHERE instr(t.text, ?1)
"""


def find(db: sqlite3.Connection, text: str, scope: Scope, limit: int) -> list[Scored]:
    """Chunks within the scope that contain the text, by id; all score alike."""
    if not text or limit <= 0:
        return []
    query, values = _SELECT, [rows.storable(text)]
    for column, accepted in _conditions(scope):
        values.append(json.dumps(list(accepted)))
        query += f" AND {column} IN (SELECT value FROM json_each(?{len(values)}))"
    found = []
    for chunk_id, document_metadata, chunk_metadata in db.execute(query + " ORDER BY c.id", values):
        metadata = {**rows.load_map(document_metadata), **rows.load_map(chunk_metadata)}
        if satisfies(metadata, scope.filters.metadata):
            found.append(Scored(chunk_id, 1.0))
            if len(found) == limit:
                break
    return found


def _conditions(scope: Scope) -> list[tuple[str, Sequence[int] | Sequence[str]]]:
    filters = scope.filters
    extensions = [extension.lower().removeprefix(".") for extension in filters.extensions]
    rows_of = (("d.collection", scope.collections), ("d.id", scope.documents), ("d.id", scope.below))
    names_of = (("c.kind", filters.kinds), ("c.type", filters.types), ("c.language", filters.languages))
    found: list[tuple[str, Sequence[int] | Sequence[str]]] = [
        (c, wanted) for c, wanted in rows_of if wanted is not None
    ]
    found += [(column, accepted) for column, accepted in names_of if accepted]
    return [*found, ("d.extension", extensions)] if extensions else found
