"""What is kept under the address of its content?  Texts, raw documents and vectors, each once."""

# ruff: noqa: S608 - statements are put together from constants; values are bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from refdesk.errors import InvalidInput, VectorsMissing
from refdesk.model import Batch, EmbedderIdentity, Vector

Table = Literal["texts", "blobs", "vectors"]

_COLUMNS: Mapping[Table, tuple[str, ...]] = {
    "texts": ("hash", "text"),
    "blobs": ("hash", "data"),
    "vectors": ("key", "data", "pieces"),
}
_ASKED = 500  # of the values that a statement may bind
_DROP_LOOSE_TEXTS = """
DELETE FROM texts WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.text = texts.id)
"""
_DROP_LOOSE_BLOBS = """
DELETE FROM blobs WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM documents WHERE documents.raw = blobs.id)
"""
_DROP_LOOSE_VECTORS = "DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.vector = vectors.id)"


def put(db: sqlite3.Connection, table: Table, given: Mapping[bytes, Any]) -> dict[bytes, int]:
    """Keeps the contents under their keys and returns their rows."""
    return _put(db, table, given.keys(), lambda new: [(given[key],) for key in new])


def put_vectors(db: sqlite3.Connection, batch: Batch) -> dict[bytes, int]:
    """Keeps the batch's vectors and returns the rows of all that its writes name."""
    named = {key: None for write in batch.writes for key in write.vector_keys if key}
    if batch.vectors:
        _refuse_other_dimensions(db, batch.vectors.values())
        named |= dict.fromkeys(batch.vectors)

    def values(new: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
        return zip(_packed_vectors(new, batch.vectors), (batch.pieces.get(key, b"") for key in new), strict=True)

    return _put(db, "vectors", named, values)


def _put(
    db: sqlite3.Connection,
    table: Table,
    keys: Iterable[bytes],
    values: Callable[[Sequence[bytes]], Iterable[tuple[Any, ...]]],
) -> dict[bytes, int]:
    key_column, *columns = _COLUMNS[table]
    wanted = list(keys)
    found = _ids(db, table, wanted)
    new = [key for key in wanted if key not in found]
    if new:
        first = int(db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()[0])
        places = ", ".join("?" * (2 + len(columns)))
        statement = f"INSERT INTO {table} (id, {', '.join((key_column, *columns))}) VALUES ({places})"
        db.executemany(statement, ((row, key, *own) for row, key, own in zip(count(first), new, values(new))))
        found.update(zip(new, count(first)))
    return found


def _ids(db: sqlite3.Connection, table: Table, keys: Sequence[bytes]) -> dict[bytes, int]:
    """The rows of those of the keys that the table holds."""
    column = _COLUMNS[table][0]
    found: dict[bytes, int] = {}
    for start in range(0, len(keys), _ASKED):  # together: each statement may have to wait for its turn to run
        some = keys[start : start + _ASKED]
        places = ",".join("?" * len(some))
        found.update(db.execute(f"SELECT {column}, id FROM {table} WHERE {column} IN ({places})", some))
    return found


def _packed_vectors(keys: Sequence[bytes], vectors: Mapping[bytes, Vector]) -> list[bytes]:
    """Each vector in half precision."""
    import numpy as np

    if any(key not in vectors for key in keys):
        raise VectorsMissing(
            "The batch names vectors that the library does not hold.", "Embed the texts again and retry."
        )
    packed = np.stack([vectors[key] for key in keys]).astype("<f2")
    data, size = packed.tobytes(), packed.shape[1] * packed.itemsize
    return [data[start : start + size] for start in range(0, len(data), size)]


def _refuse_other_dimensions(db: sqlite3.Connection, vectors: Iterable[Vector]) -> None:
    dimension = _dimension(db)
    for vector in vectors:
        dimension = dimension or len(vector)
        if len(vector) != dimension:
            raise InvalidInput(
                f"A vector has {len(vector)} dimensions; the library holds {dimension}.",
                "Set the embedder's identity before writing its vectors.",
            )


def _dimension(db: sqlite3.Connection) -> int:
    identity = embedder_identity(db)
    if identity:
        return identity.dimension
    found = db.execute("SELECT length(data) / 2 FROM vectors LIMIT 1").fetchone()
    return int(found[0]) if found else 0


def embedder_identity(db: sqlite3.Connection) -> EmbedderIdentity | None:
    """Which model made the vectors that are kept."""
    found = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
    return EmbedderIdentity(*json.loads(found[0])) if found else None


def missing_vectors(db: sqlite3.Connection, keys: Iterable[bytes]) -> set[bytes]:
    """Those of the keys that no vector is kept under."""
    wanted = {key for key in keys if key}
    return wanted - _ids(db, "vectors", list(wanted)).keys()


def drop_loose(db: sqlite3.Connection, texts: Iterable[int], blobs: Iterable[int]) -> None:
    """Drops those of the texts and raw documents that nothing refers to any more."""
    for statement, rows in ((_DROP_LOOSE_TEXTS, list(texts)), (_DROP_LOOSE_BLOBS, list(blobs))):
        if rows:
            db.execute(statement, (json.dumps(rows),))


def drop_loose_vectors(db: sqlite3.Connection) -> int:
    """Drops vectors that no chunk uses and returns how many."""
    return db.execute(_DROP_LOOSE_VECTORS).rowcount
