"""The mean vector of each document, written with it, so that a query need not read all of its vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from refdesk.model import Topic
from refdesk.store.shared.dialect import Translating
from refdesk.store.vectors.index import as_topics, unpack

if TYPE_CHECKING:
    from refdesk.model import Vector

_PAGE = 500  # documents
_VECTORS = """
SELECT d.id, d.raw, v.numbers FROM documents d JOIN chunks c ON c.document = d.id JOIN vectors v ON v.id = c.vector
WHERE d.id IN (SELECT value FROM json_each(?)) ORDER BY d.id
"""
_PUT = """
INSERT INTO means VALUES (%s, %s, %s, %s)
ON CONFLICT (document) DO UPDATE SET (raw, many, data) = (excluded.raw, excluded.many, excluded.data)
"""
_TOPICS = """
SELECT c.id, c.document, m.many, m.data FROM chunks c JOIN documents d ON d.id = c.document
LEFT JOIN means m ON m.document = d.id AND m.raw = d.raw
WHERE c.vector IS NOT NULL AND c.id IN (SELECT value FROM json_each(?))
"""


def put(db: Translating, document_ids: Iterable[str]) -> None:
    """Writes those of documents that were written in this transaction."""
    wanted = json.dumps(list(document_ids))
    found = db.execute("SELECT id FROM documents WHERE ulid IN (SELECT value FROM json_each(?))", (wanted,))
    _put(db, [row[0] for row in found])


def put_all(db: Translating) -> None:
    """Writes those of all documents."""
    last = 0
    page = "SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT ?"
    while found := [row[0] for row in db.execute(page, (last, _PAGE))]:
        _put(db, found)
        last = found[-1]


def _put(db: Translating, documents: Sequence[int]) -> None:
    made = []
    for document, raw, many, mean in _means(db, documents):
        made.append((document, raw, many, mean.astype("<f2").tobytes()))
    db.raw.cursor().executemany(_PUT, made)


def _means(db: Translating, documents: Sequence[int]) -> Iterable[tuple[int, int, int, Vector]]:
    """Those of the documents that have vectors, with the content and the number of passages they are made of."""
    found = db.execute(_VECTORS, (json.dumps(list(documents)),))
    for (document, raw), own in groupby(found, itemgetter(0, 1)):
        vectors = unpack([data for *_, data in own])
        yield document, raw, len(vectors), vectors.mean(axis=0)


def topics(db: Translating, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, Topic]:
    """The documents of those of the chunks that have a vector, by chunk."""
    owners: dict[int, int] = {}
    means: dict[int, tuple[int, Vector]] = {}
    for chunk_id, document, many, data in db.execute(_TOPICS, (json.dumps([int(one) for one in chunk_ids]),)):
        owners[chunk_id] = document
        if many is not None:
            means[document] = many, data
    found = {document: (many, np.frombuffer(data, "<f2")) for document, (many, data) in means.items()}
    if missing := [document for document in set(owners.values()) if document not in found]:
        found |= {document: (many, mean) for document, _, many, mean in _means(db, missing)}
    usable = {document: one for document, one in found.items() if len(one[1]) == len(vector)}
    if not usable:
        return {}
    counts = np.array([many for many, _ in usable.values()])
    sums = np.stack([mean for _, mean in usable.values()]).astype(np.float32) * counts[:, None]
    of = dict(zip(usable, as_topics(vector, sums, counts), strict=True))
    return {chunk_id: of[document] for chunk_id, document in owners.items() if document in of}
