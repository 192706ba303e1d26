"""Which passages contain a text to the letter?"""

# ruff: noqa: S608 - statements are put together from constants; values are bound

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from refdesk.analyse import terms
from refdesk.model import Ranking
from refdesk.store import rows
from refdesk.store.filters import Scope, satisfies

MOST = 20_000  # chunks that are looked through one by one; beyond, all texts are scanned
_WORD = re.compile(r"[A-Za-z0-9_]+")
_SELECT = """
SELECT c.id, d.metadata, c.metadata FROM texts t JOIN chunks c ON c.text = t.id JOIN documents d ON d.id = c.document
WHERE instr(t.text, ?)
"""


def inner_terms(text: str) -> list[str]:
    """Terms that every passage with this text has: of its words, without those that may go on at either end."""
    if not text.isascii():
        return []
    inner = [word[0] for word in _WORD.finditer(text) if word.start() > 0 and word.end() < len(text)]
    return [term for word in inner for term in terms(word)]


def find(
    db: sqlite3.Connection, text: str, scope: Scope, limit: int, candidates: Sequence[int] | None = None
) -> Ranking:
    """Chunks within the scope that contain the text, by id, of the candidates if given; all score alike."""
    if not text or limit <= 0:
        return Ranking()
    condition, values = within(scope, candidates)
    found = []
    given = (rows.storable(text), *values)
    for chunk_id, document_metadata, chunk_metadata in db.execute(f"{_SELECT} {condition} ORDER BY c.id", given):
        metadata = {**rows.load_map(document_metadata), **rows.load_map(chunk_metadata)}
        if satisfies(metadata, scope.filters.metadata):
            found.append(chunk_id)
            if len(found) == limit:
                break
    return Ranking(found, [1.0] * len(found))


def within(scope: Scope, candidates: Sequence[int] | None = None) -> tuple[str, list[str]]:
    """The conditions of a scope on chunks c of documents d, all but metadata, and what is bound in them."""
    given: list[tuple[str, Sequence[int] | Sequence[str]]] = [] if candidates is None else [("c.id", candidates)]
    given += _conditions(scope)
    condition = "".join(f" AND {column} IN (SELECT value FROM json_each(?))" for column, _ in given)
    return condition, [json.dumps(list(accepted)) for _, accepted in given]


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
