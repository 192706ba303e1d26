"""The vector index: in memory, with a snapshot on disk."""

# ruff: noqa: S608 - statements are put together from constants; values are bound

from __future__ import annotations

import json
import logging
import random
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.model import Origin, Ranking, Topic
from refdesk.store.record.database import Applied
from refdesk.store.record.filters import Scope
from refdesk.store.vectors.engines import (
    CODES,
    SAMPLE,
    ArrayFile,
    Arrays,
    Codes,
    Engine,
    Matrix,
    Rows,
    read_arrays,
    turbovec_takes,
)
from refdesk.store.vectors.table import WIDE, Attributes, Table, reserve

_log = logging.getLogger(__name__)

VERSION = 6
EXACT_UP_TO = 8_000  # vectors; a search of 17,000 took 1.7 ms of processor time by rows, .8 by codes
_RECALIBRATE_AT = 4  # times the size that the codes were calibrated at
# Changes that are kept beside it, or a share of the whole until codes are laid out and while more is to come.
_ASIDE, _ASIDE_SHARE = 1000, 0.05
_SLICE = 2000
_READ_OF_EACH = 32  # passages of a document, about, that tell what it is about
_SELECT = """
SELECT c.id, c.document, c.text, d.collection, c.kind, c.type, c.language, d.path, d.metadata, c.metadata, v.numbers
FROM chunks c JOIN documents d ON d.id = c.document JOIN vectors v ON v.id = c.vector
"""
_LARGEST = f"SELECT max({', '.join(f'(SELECT max({of}) FROM chunks)' for of in ('id', 'document', 'text'))})"


class Shared:
    """A lock that many readers hold at once, not to be taken twice by one thread; who waits to change comes first."""

    def __init__(self) -> None:
        self._door = threading.Lock()  # closed by who changes something, or waits for the readers to leave
        self._leaving = threading.Condition()
        self._readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While inside, nobody changes anything."""
        with self._door, self._leaving:
            self._readers += 1
        try:
            yield
        finally:
            with self._leaving:
                self._readers -= 1
                self._leaving.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While inside, nobody else is."""
        with self._door:
            with self._leaving:
                self._leaving.wait_for(lambda: not self._readers)
            yield


class VectorIndex:
    """Every chunk that has a vector; its users hold the lock.

    After a change turbovec lays out all its codes anew at the next search, so a few changes are kept beside them:
    chunks that are gone, and fresh ones in a table of their own.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lock = Shared()
        self.applied: Applied | None = None
        self._base: Table | None = None
        self._gone: set[int] = set()  # in the base, but no longer true
        self._fresh: Table | None = None
        self._dimension = 0
        self._calibrated_at = 0
        self.changes = 0  # tells whether what was read of the record before may be older than what is here

    def __len__(self) -> int:
        return sum(len(table) for table in self._tables()) - len(self._gone)

    def _tables(self) -> list[Table]:
        return [table for table in (self._base, self._fresh) if table is not None]

    @property
    def is_exact(self) -> bool:
        """Whether there are so few vectors that all are compared with a query's."""
        return self._base is not None and self._base.engine.codes is None

    def ids(self) -> list[int]:
        settled: list[int] = self._base.ids.tolist() if self._base else []
        fresh: list[int] = self._fresh.ids.tolist() if self._fresh else []
        return [chunk_id for chunk_id in settled if chunk_id not in self._gone] + fresh

    def nearest(self, vector: Matrix, scope: Scope, k: int) -> Ranking:
        """The k nearest chunks within the scope and their cosines, best first, equal ones by id."""
        if self._base is None or k <= 0 or len(vector) != self._dimension:
            return Ranking()
        vector = np.asarray(vector, np.float32)
        # The fresh ones first: many short steps, best taken while the other thread of a query is busy with words.
        fresh = self._fresh.search(vector, scope, k) if self._fresh else None
        ids, scores = self._base.search(vector, scope, k, self._gone)
        if fresh is not None:
            ids, scores = np.concatenate([ids, fresh[0]]), np.concatenate([scores, fresh[1]])
        best = np.lexsort((ids, -scores))[:k]
        return Ranking(ids[best].tolist(), scores[best].tolist())

    def cosines(self, vector: Matrix, chunk_ids: Sequence[int]) -> dict[int, float]:
        """The cosines of those of the chunks that are here."""
        if self._base is None or len(vector) != self._dimension:
            return {}
        vector = np.asarray(vector, np.float32)
        settled = [chunk_id for chunk_id in chunk_ids if chunk_id not in self._gone] if self._gone else chunk_ids
        found = self._base.cosines(vector, settled)
        if self._fresh and (rest := [chunk_id for chunk_id in chunk_ids if chunk_id not in found]):
            found |= self._fresh.cosines(vector, rest)
        return found

    def topics(self, vector: Matrix, chunk_ids: Sequence[int]) -> dict[int, Topic]:
        """The documents of those of the chunks that are here, by chunk."""
        if self._base is None or len(vector) != self._dimension:
            return {}
        owners: dict[int, int] = {}
        for table in self._tables():
            owners |= table.attributes.owners(chunk_ids)
        if not owners:
            return {}
        documents = np.array(sorted(set(owners.values())), np.int64)  # not np.unique, which imports numpy.ma
        sums, counts = np.zeros((len(documents), self._dimension), np.float32), np.zeros(len(documents), np.int64)
        for table in self._tables():
            every = table.attributes.slots_within(documents)
            if self._gone and table is self._base:
                every = [own[[one not in self._gone for one in table.ids[own].tolist()]] for own in every]
            some = [own[:: 1 + len(own) // _READ_OF_EACH] for own in every]
            shares = [len(own) / max(1, len(few)) for own, few in zip(every, some, strict=True)]
            sums += table.engine.rows.sums(some) * np.array(shares, np.float32)[:, None]
            counts += [len(own) for own in every]
        found = dict(zip(documents.tolist(), as_topics(vector, sums, counts), strict=True))
        return {chunk_id: found[document] for chunk_id, document in owners.items()}

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        """The text and document of those of the chunks that are here; a chunk keeps them."""
        found: dict[int, Origin] = {}
        for table in self._tables():
            if rest := [chunk_id for chunk_id in chunk_ids if chunk_id not in found]:
                found |= table.attributes.origins(rest)
        return found

    # following the record

    def build(self, db: sqlite3.Connection, out: ArrayFile | None = None) -> None:
        """Takes every vector of the record; with `out` attributes and rows go there, and only codes are held."""
        self._reset()
        count = db.execute("SELECT count(vector) FROM chunks").fetchone()[0]
        if not count:
            return
        sample = _sample(db)
        self._dimension = sample.shape[1]
        engine = Engine(Rows.empty(self._dimension, count if out is None else _SLICE))
        if out is not None:
            reserve(out, count, self._dimension, db.execute(_LARGEST).fetchone()[0])
        if count > EXACT_UP_TO and len(sample) > 1 and turbovec_takes(self._dimension):
            self._calibrated_at = count

        def add(found: Sequence[tuple[Any, ...]]) -> None:
            if self._calibrated_at and engine.codes is None:
                engine.codes = Codes.calibrated(sample)
            engine.add(_vectors(found))
            if out is not None:
                out.extend(engine.rows.dump())
                engine.rows.clear()

        self._base = Table(engine)
        cursor = db.execute(_SELECT + "ORDER BY c.id")
        self._base.fill(iter(lambda: cursor.fetchmany(_SLICE), []), add, out)

    def replace(self, db: sqlite3.Connection, chunk_ids: Sequence[int]) -> None:
        """Takes these chunks from the record as they are now."""
        if self.is_outgrown(len(chunk_ids)):
            self.build(db)
            return
        for some in (chunk_ids[start : start + _SLICE] for start in range(0, len(chunk_ids), _SLICE)):
            self.take(some, *fetch(db, some))

    def take(self, chunk_ids: Sequence[int], found: Sequence[tuple[Any, ...]], vectors: Matrix) -> None:
        """Takes these chunks as they were fetched; it is not outgrown by them."""
        base = self._base
        assert base is not None
        self.changes += 1
        if base.engine.codes is None:
            base.remove(chunk_ids)
            base.add(found, vectors)
            return
        self._fresh = self._fresh or Table(Engine(Rows.empty(self._dimension)))
        self._fresh.remove(chunk_ids)
        self._gone.update(base.attributes.present(chunk_ids))
        self._fresh.add(found, vectors)

    def is_scattered(self, in_a_run: bool) -> bool:
        """Whether so much was set aside that it slows every search down, and the codes should take it."""
        if self._base is None or (codes := self._base.engine.codes) is None:
            return False
        is_soon = codes.laid_out and not in_a_run
        most = _ASIDE if is_soon else max(_ASIDE, int(_ASIDE_SHARE * len(self._base)))
        return len(self._fresh or ()) + len(self._gone) > most

    def settle(self) -> None:
        """Moves what was set aside into the base."""
        if self._base is not None and (self._gone or self._fresh):
            self.changes += 1
            self._base.remove(self._gone)
            if self._fresh:
                self._base.absorb(self._fresh)
            self._gone, self._fresh = set(), None
            self._base.forget_masks()

    def lay_out(self) -> None:
        """Lays the codes out after a change if they were before, which the next search would do otherwise."""
        codes = self._base.engine.codes if self._base else None
        if codes is not None and codes.laid_out:
            codes.search(np.zeros(self._dimension, np.float32), 1, None)

    def adopt(self, made: VectorIndex) -> None:
        """Takes over what another one holds, which is not used any more."""
        self.changes += 1
        self.applied, self._base, self._gone, self._fresh = made.applied, made._base, made._gone, made._fresh
        self._dimension, self._calibrated_at = made._dimension, made._calibrated_at

    def advance(self, applied: Applied) -> None:
        """Notes how far the index has come; names in filters may mean something else from here on."""
        self.applied = applied
        for table in self._tables():
            table.forget_masks()

    def is_outgrown(self, more: int) -> bool:
        """Whether it has to be built anew with so many more: asked before, since adding them would be in vain."""
        if self._base is None:
            return True
        if self._base.engine.codes is None:
            return len(self) + more > 1.25 * EXACT_UP_TO and turbovec_takes(self._dimension)
        return len(self) + more > _RECALIBRATE_AT * self._calibrated_at

    def _reset(self) -> None:
        self.changes += 1
        self.applied = self._base = self._fresh = None
        self._gone = set()
        self._dimension = self._calibrated_at = 0

    # keeping

    def settled(self) -> VectorIndex:
        """What is here, to be saved while only more is set aside; what was before has been settled."""
        assert self.applied is not None and not self._gone and not self._fresh
        copy = VectorIndex(self.file)
        copy.adopt(self)
        return copy

    def save(self) -> None:
        """Writes the snapshot in one step."""
        assert self.applied is not None
        with ArrayFile.replacing(self.file) as out:
            if self._base:
                arrays = self._base.attributes.dump() | self._base.engine.rows.dump()
                largest = max(int(arrays[name].max(initial=0)) for name in WIDE)
                reserve(out, len(self._base), self._dimension, largest)
                out.extend(arrays)
            self._finish(out, self.applied)

    def write(self, db: sqlite3.Connection, applied: Applied) -> None:
        """Writes the snapshot of the record without holding all of it; nothing is here afterwards."""
        with ArrayFile.replacing(self.file) as out:
            self.build(db, out)
            self._finish(out, applied)
        self._reset()

    def _finish(self, out: ArrayFile, applied: Applied) -> None:
        out.head = {
            "version": VERSION, "seq": applied.seq, "token": applied.token, "dimension": self._dimension,
            "calibrated_at": self._calibrated_at,
        }  # fmt: skip
        if self._base is None:
            return
        values = self._base.attributes.dump_values()
        out.reserve("values", values.dtype, len(values))
        out.extend({"values": values})
        if (codes := self._base.engine.codes) is not None:
            scratch = self.file.with_name(f"{self.file.name}.codes")  # a folder: turbovec writes files beside its file
            shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
            scratch.mkdir(0o700)
            try:
                size, pieces = codes.dump(scratch / CODES)
                out.reserve(CODES, np.uint8, size)
                for piece in pieces:
                    out.extend({CODES: piece})
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def load(self) -> bool:
        """Takes the snapshot's state; False, and empty, when there is none that can be used."""
        self._reset()
        try:
            self._take(*read_arrays(self.file, VERSION))
        except FileNotFoundError:
            return False
        except Exception as error:  # damage shows as any of many types
            _log.warning("the vector snapshot can't be read: %s", error)
            self._reset()
            return False
        return self.applied is not None

    def _take(self, head: Mapping[str, Any], arrays: Arrays) -> None:
        if head["version"] != VERSION:
            return
        if arrays:
            base = Table(Engine.load(arrays), Attributes.load(arrays))
            if len(base.engine) != len(base):
                raise ValueError("it holds more attributes than vectors, or fewer")
            self._base = base
        self._dimension, self._calibrated_at = head["dimension"], head["calibrated_at"]
        self.applied = Applied(head["seq"], head["token"])


def cosines(db: sqlite3.Connection, vector: Matrix, chunk_ids: Sequence[int]) -> dict[int, float]:
    """The cosine of each of the chunks that has a vector, as the record has it."""
    found = db.execute(
        "SELECT c.id, v.numbers FROM chunks c JOIN vectors v ON v.id = c.vector"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        (json.dumps([int(chunk_id) for chunk_id in chunk_ids]),),
    ).fetchall()
    if not found or len(found[0][1]) != len(vector):
        return {}
    scores = (unpack([data for _, data in found]) @ vector).tolist()
    return {chunk_id: score for (chunk_id, _), score in zip(found, scores, strict=True)}


def as_topics(vector: Matrix, sums: Matrix, counts: NDArray[np.int64]) -> list[Topic]:
    """Topics of documents, given the sum and number of each one's vectors."""
    lengths = np.maximum(np.linalg.norm(sums, axis=1), 1e-6)
    products = np.einsum("ij,j->i", sums, vector)
    columns = ((products / lengths).round(6), (products / np.maximum(counts, 1)).round(6), counts)
    return [Topic(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def vector_of(db: sqlite3.Connection, chunk_id: int) -> Matrix:
    found = db.execute("SELECT v.numbers FROM chunks c JOIN vectors v ON v.id = c.vector WHERE c.id = ?", (chunk_id,))
    row: Matrix = unpack([found.fetchone()[0]])[0]
    return row


def unpack(packed: Sequence[bytes]) -> Matrix:
    """Stored vectors as rows of length 1."""
    if not packed:
        return np.empty((0, 0), np.float32)
    found = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), -1).astype(np.float32)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-6))
    return found


def _sample(db: sqlite3.Connection) -> Matrix:
    """Vectors drawn evenly from all, the same ones for the same record."""
    last = db.execute("SELECT max(id) FROM vectors").fetchone()[0]
    drawn = random.Random(last).sample(range(1, last + 1), min(SAMPLE, last))
    found = db.execute("SELECT numbers FROM vectors WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(drawn),))
    packed = [data for (data,) in found]
    return unpack(packed or [db.execute("SELECT numbers FROM vectors LIMIT 1").fetchone()[0]])


def fetch(db: sqlite3.Connection, chunk_ids: Sequence[int]) -> tuple[Sequence[tuple[Any, ...]], Matrix]:
    """The rows, for `take`, of those of the chunks that have a vector in the record, and the vectors."""
    wanted = json.dumps(list(chunk_ids))
    found = db.execute(_SELECT + "WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id", (wanted,)).fetchall()
    return found, _vectors(found)


def _vectors(found: Sequence[tuple[Any, ...]]) -> Matrix:
    return unpack([row[-1] for row in found])
