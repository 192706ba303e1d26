"""Which passages mean nearly this?  The vector follower: in memory, with a snapshot on disk."""

# ruff: noqa: S608 - statements are put together from constants; values are bound

from __future__ import annotations

import json
import logging
import random
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.model import Filters
from refdesk.store import snapshot
from refdesk.store.attributes import Attributes, Mask
from refdesk.store.engines import ENGINES, SAMPLE, Engine, ExactEngine, Matrix, TurboEngine, turbovec_takes
from refdesk.store.filters import Scope
from refdesk.store.log import Applied

_log = logging.getLogger(__name__)

VERSION = 1
EXACT_UP_TO = 2000  # vectors; below, exact is as fast and needs no calibration
_RECALIBRATE_AT = 4  # times the size that the codes were calibrated at
_WIDE = 0.2  # of all vectors: a filter that lets more through is applied to more hits than needed
_SLICE = 4000
_MASKS = 32
_SELECT = """
SELECT c.id, c.document, d.collection, c.kind, c.type, c.language, d.extension, d.metadata, c.metadata, v.data
FROM chunks c JOIN documents d ON d.id = c.document JOIN vectors v ON v.id = c.vector
"""


class VectorIndex:
    """Every chunk that has a vector, with what filters ask about it; its users hold the mutex."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.mutex = threading.RLock()
        self.applied: Applied | None = None
        self._attributes = Attributes()
        self._engine: Engine | None = None
        self._dimension = 0
        self._calibrated_at = 0
        self._masks: OrderedDict[Filters, Mask] = OrderedDict()

    def __len__(self) -> int:
        return len(self._attributes)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The chunks that are here."""
        return self._attributes.ids

    # searching

    def search(self, vector: Matrix, scope: Scope, k: int) -> list[int]:
        """The ids of about the k nearest chunks within the scope."""
        if self._engine is None or k <= 0 or len(vector) != self._dimension:
            return []
        mask = self._mask(scope) if scope.filters else None
        slots = self._engine.search(vector, k, mask)
        found: list[int] = self.ids[slots].tolist()
        return found

    def nearest(self, vector: Matrix, k: int) -> list[int]:
        """The ids of about the k nearest chunks of all."""
        if self._engine is None or len(vector) != self._dimension:
            return []
        found: list[int] = self.ids[self._engine.search(vector, k, None)].tolist()
        return found

    def _mask(self, scope: Scope) -> Mask:
        mask = self._masks.get(scope.filters)
        if mask is None:
            mask = self._masks[scope.filters] = self._attributes.mask(scope)
            while len(self._masks) > _MASKS:
                self._masks.popitem(last=False)
        return mask

    # following the record

    def build(self, db: sqlite3.Connection) -> None:
        """Takes every vector of the record."""
        self._reset()
        count = db.execute("SELECT count(vector) FROM chunks").fetchone()[0]
        if not count:
            return
        sample = _sample(db)
        self._dimension = sample.shape[1]
        if count > EXACT_UP_TO and turbovec_takes(self._dimension):
            self._engine = TurboEngine.calibrated(sample)
            self._calibrated_at = count
        else:
            self._engine = ExactEngine(self._dimension)
        cursor = db.execute(_SELECT + "ORDER BY c.id")
        while found := cursor.fetchmany(_SLICE):
            self._add(found)

    def replace(self, db: sqlite3.Connection, chunk_ids: Sequence[int]) -> None:
        """Takes these chunks from the record as they are now."""
        if self._engine is None:
            self.build(db)
            return
        for slot in self._attributes.remove(chunk_ids):
            self._engine.remove(slot)
        for found in _slices(db, chunk_ids):
            self._add(found)
        if self._outgrown():
            self.build(db)

    def advance(self, applied: Applied) -> None:
        """Notes how far the index has come; names in filters may mean something else from here on."""
        self.applied = applied
        self._masks.clear()

    def _outgrown(self) -> bool:
        if isinstance(self._engine, ExactEngine):
            return len(self) > 2 * EXACT_UP_TO and turbovec_takes(self._dimension)
        return len(self) > _RECALIBRATE_AT * self._calibrated_at

    def _add(self, found: Sequence[tuple[Any, ...]]) -> None:
        if found and self._engine is not None:
            self._engine.add(unpack([row[-1] for row in found]))
            self._attributes.add(found)

    def _reset(self) -> None:
        self.applied = None
        self._attributes = Attributes()
        self._engine = None
        self._dimension = self._calibrated_at = 0
        self._masks.clear()

    # keeping

    def save(self) -> None:
        """Writes the snapshot in one step."""
        assert self.applied is not None
        head = {
            "version": VERSION, "seq": self.applied.seq, "token": self.applied.token, "dimension": self._dimension,
            "calibrated_at": self._calibrated_at, "engine": self._engine.name if self._engine else "",
        }  # fmt: skip
        arrays = self._attributes.dump()
        if self._engine:
            arrays["vectors"] = self._engine.dump()
        snapshot.write(self.file, head, arrays)

    def load(self) -> bool:
        """Takes the snapshot's state; False, and empty, when there is none that can be used."""
        self._reset()
        try:
            self._take(*snapshot.read(self.file))
        except FileNotFoundError:
            return False
        except Exception as error:  # damage shows as any of many types
            _log.warning("the vector snapshot can't be read: %s", error)
            self._reset()
            return False
        return self.applied is not None

    def _take(self, head: Mapping[str, Any], arrays: snapshot.Arrays) -> None:
        if head["version"] != VERSION:
            return
        attributes = Attributes.load(arrays)
        engine: Engine | None = None
        if head["engine"]:
            if head["engine"] == TurboEngine.name and not turbovec_takes(head["dimension"]):
                return
            engine = ENGINES[head["engine"]].load(arrays["vectors"])
        if len(attributes) != (len(engine) if engine else 0):
            raise ValueError("it holds more attributes than vectors, or fewer")
        self._attributes, self._engine = attributes, engine
        self._dimension, self._calibrated_at = head["dimension"], head["calibrated_at"]
        self.applied = Applied(head["seq"], head["token"])


def cosines(db: sqlite3.Connection, vector: Matrix, chunk_ids: Sequence[int]) -> dict[int, float]:
    """The exact cosine of each of the chunks that has a vector."""
    found = db.execute(
        "SELECT c.id, v.data FROM chunks c JOIN vectors v ON v.id = c.vector"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        (json.dumps([int(chunk_id) for chunk_id in chunk_ids]),),
    ).fetchall()
    if not found or len(found[0][1]) != 2 * len(vector):
        return {}
    # Rounded, so that the order of additions does not decide between equals.
    scores = np.round((unpack([data for _, data in found]) @ vector).astype(np.float64), 6).tolist()
    return {chunk_id: score for (chunk_id, _), score in zip(found, scores, strict=True)}


def vector_of(db: sqlite3.Connection, chunk_id: int) -> Matrix:
    """The chunk's vector."""
    found = db.execute("SELECT v.data FROM chunks c JOIN vectors v ON v.id = c.vector WHERE c.id = ?", (chunk_id,))
    row: Matrix = unpack([found.fetchone()[0]])[0]
    return row


def unpack(packed: Sequence[bytes]) -> Matrix:
    """The vectors as rows of length 1: halving their precision changed the length more than the direction."""
    found = np.frombuffer(b"".join(packed), "<f2").reshape(len(packed), -1).astype(np.float32)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-6))
    return found


def _sample(db: sqlite3.Connection) -> Matrix:
    """Vectors drawn evenly from all, the same ones for the same record."""
    last = db.execute("SELECT max(id) FROM vectors").fetchone()[0]
    drawn = random.Random(last).sample(range(1, last + 1), min(SAMPLE, last))
    found = db.execute("SELECT data FROM vectors WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(drawn),))
    packed = [data for (data,) in found]
    return unpack(packed or [db.execute("SELECT data FROM vectors LIMIT 1").fetchone()[0]])


def _slices(db: sqlite3.Connection, chunk_ids: Sequence[int]) -> Iterator[list[tuple[Any, ...]]]:
    for start in range(0, len(chunk_ids), _SLICE):
        wanted = json.dumps(list(chunk_ids[start : start + _SLICE]))
        found = db.execute(_SELECT + "WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id", (wanted,))
        yield found.fetchall()
