"""The vector index beyond a few chunks: quantised, filtered, changed and kept."""

from __future__ import annotations

import shutil
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refdesk.library import VECTORS_FILE
from refdesk.model import Batch, DocumentWrite, EmbedderIdentity, Filters, Vector
from refdesk.store.local import LocalStore
from refdesk.store.record.rows import pack_vectors
from refdesk.store.vectors import engines, follower
from refdesk.store.vectors import index as vectors
from refdesk.store.vectors.engines import Codes, Engine, Rows, read_arrays
from refdesk.store.vectors.index import unpack
from tests.ports.library import collection, write

COUNT, DIMENSION, PER_DOCUMENT = 3000, 64, 50
DRAWN = np.random.default_rng(7)
CENTRES = DRAWN.normal(size=(40, DIMENSION))
ROWS = (CENTRES[DRAWN.integers(0, 40, COUNT)] + 0.6 * DRAWN.normal(size=(COUNT, DIMENSION))).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


def _key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _write(number: int, texts: list[str], first: int) -> DocumentWrite:
    folder = "even" if number % 2 == 0 else "odd"
    made = write(f"d{number}", texts, path=f"{folder}/d{number}.py", vectors=False)
    keys = tuple(_key(first + i) for i in range(len(texts)))
    return DocumentWrite(document=made.document, raw=made.raw, chunks=made.chunks, vector_keys=keys)


@pytest.fixture(autouse=True, scope="module")
def quantised() -> Iterator[None]:
    """Codes beside exact rows from fewer on than usual, asked at once and whenever they offer less than all."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vectors, "EXACT_UP_TO", 2000)
        patched.setattr(engines, "_WORTH", 1)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of 3000 vectors."""
    return _library(tmp_path_factory.mktemp("vectors") / "library", ROWS)


def _library(folder: Path, rows: np.ndarray) -> Path:
    store = LocalStore(folder, lock_timeout_s=5)
    store.put_collection(collection())
    store.set_embedder_identity(EmbedderIdentity("test", "1", rows.shape[1]))
    writes = tuple(
        _write(start // PER_DOCUMENT, [f"text {n}" for n in range(start, start + PER_DOCUMENT)], start)
        for start in range(0, len(rows), PER_DOCUMENT)
    )
    store.apply(Batch(collection="code", writes=writes, vectors={_key(n): row for n, row in enumerate(rows)}))
    store.close()
    return folder


@pytest.fixture
def store(folder: Path) -> Iterator[LocalStore]:
    made = LocalStore(folder, lock_timeout_s=5)
    yield made
    made.close()


def _found(store: LocalStore, vector: Vector, filters: Filters, limit: int) -> list[str]:
    scored = store.view(filters).nearest(vector, limit)
    held = store.chunks(scored.ids)
    return [held[chunk_id].chunk.text for chunk_id in scored.ids]


def _await_thread(store: LocalStore) -> None:
    assert store._vectors._thread is not None
    store._vectors._thread.join()


def _exact(vector: Vector, allowed: np.ndarray, limit: int) -> list[str]:
    scores = np.where(allowed, ROWS @ vector, -2)
    return [f"text {n}" for n in np.argsort(-scores)[:limit] if allowed[n]]


def test_what_outgrows_the_index_is_built_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "library", lock_timeout_s=5)
    store.put_collection(collection())
    store.set_embedder_identity(EmbedderIdentity("test", "1", DIMENSION))
    store.apply(Batch(collection="code", writes=(_write(0, ["text 0"], 0),), vectors={_key(0): ROWS[0]}))
    assert _found(store, ROWS[0], Filters(), 10) == ["text 0"]
    texts = [f"text {n}" for n in range(1, COUNT)]
    rest = {_key(n): ROWS[n] for n in range(1, COUNT)}
    added = "they were added before it was built anew"
    monkeypatch.setattr(vectors.VectorIndex, "take", lambda *asked: pytest.fail(added))
    store.apply(Batch(collection="code", writes=(_write(1, texts, 1),), vectors=rest))
    assert _found(store, ROWS[5], Filters(), 1) == ["text 5"]
    assert not store._vectors.is_small
    store.close()


@pytest.mark.parametrize(
    ("filters", "allows"),
    [
        (Filters(), lambda n: True),
        (Filters(paths=("even",)), lambda n: n // PER_DOCUMENT % 2 == 0),
        (Filters(documents=("d3", "d4")), lambda n: n // PER_DOCUMENT in (3, 4)),
        (Filters(documents=("none",)), lambda n: False),
    ],
)
def test_quantised_vectors_find_what_exact_ones_do(store: LocalStore, filters: Filters, allows) -> None:
    allowed = np.array([allows(n) for n in range(COUNT)])
    right = total = 0
    for n in range(0, COUNT, 100):
        expected = _exact(ROWS[n], allowed, 10)
        found = _found(store, ROWS[n], filters, 10)
        assert len(found) == len(expected)
        right += len(set(found) & set(expected))
        total += len(expected)
    assert right >= 0.97 * total
    base = store._vectors.at(store.sequence())._base
    assert base is not None and base.engine.codes is not None
    assert store._vectors.at(store.sequence()).file.exists()


def test_changes_beside_the_quantised_vectors_are_found(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _found(store, ROWS[0], Filters(), 1)
    index = store._vectors.at(store.sequence())
    monkeypatch.setattr(vectors, "_ASIDE", 60)
    monkeypatch.setattr(vectors, "_ASIDE_SHARE", 0)
    target = ROWS[0]
    names = [f"changed {n}" for n in range(PER_DOCUMENT)]
    fresh = {_key(10_000 + n): target for n in range(PER_DOCUMENT)}
    store.apply(Batch(collection="code", writes=(_write(1, names, 10_000),), vectors=fresh))
    found = _found(store, target, Filters(), PER_DOCUMENT + 1)
    assert set(names) | {"text 0"} == set(found)
    _await_thread(store)  # which settles: more were set aside than may be
    assert not index._fresh and not index._gone
    store.apply(Batch(collection="code", writes=(_write(1, names[:3], 10_000),)))
    assert index._gone == set() and len(_found(store, target, Filters(documents=("d1",)), 100)) == 3
    assert len(index._gone) == PER_DOCUMENT - 3
    texts = [f"text {n}" for n in range(PER_DOCUMENT, 2 * PER_DOCUMENT)]
    originals = {_key(n): ROWS[n] for n in range(PER_DOCUMENT, 2 * PER_DOCUMENT)}
    store.apply(Batch(collection="code", writes=(_write(1, texts, PER_DOCUMENT),), vectors=originals))
    assert sorted(_found(store, target, Filters(documents=("d1",)), 100)) == sorted(texts)
    with index.lock.reading():
        assert len(index) == COUNT
    assert all(finding.ok for finding in store.verify(repair=False))


def test_what_was_set_aside_is_settled_once_codes_are_laid_out(folder: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(folder, tmp_path / "library")
    store = LocalStore(tmp_path / "library", lock_timeout_s=5)
    store._vectors.at(store.sequence())  # takes the snapshot, whose codes are packed
    monkeypatch.setattr(vectors, "_ASIDE", 60)
    monkeypatch.setattr(vectors, "_ASIDE_SHARE", 0.5)
    names = [f"changed {n}" for n in range(PER_DOCUMENT)]
    given = {_key(10_000 + n): ROWS[n] for n in range(PER_DOCUMENT)}
    store.apply(Batch(collection="code", writes=(_write(1, names, 10_000),), vectors=given))
    index = store._vectors.at(store.sequence())
    beside = store.view().nearest(ROWS[0], 20)
    assert index._fresh and len(index._gone) == PER_DOCUMENT
    assert index._base is not None and index._base.engine.codes is not None
    index._base.engine.codes.search(ROWS[0], 1, None)  # lays them out
    assert store.view().nearest(ROWS[0], 20) == beside
    _await_thread(store)
    assert store.view().nearest(ROWS[0], 20) == beside
    assert not index._fresh and not index._gone and len(index) == COUNT
    store.close()


def test_a_search_beside_a_run_takes_only_what_was_acknowledged(folder: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(folder, tmp_path / "library")
    reader, writer = (LocalStore(tmp_path / "library", lock_timeout_s=5) for _ in range(2))
    assert _found(reader, ROWS[0], Filters(), 1) == ["text 0"]
    monkeypatch.setattr(vectors, "_ASIDE", 60)
    taken: list[tuple[str, int]] = []
    take = vectors.VectorIndex.take

    def told(self: vectors.VectorIndex, chunk_ids: Sequence[int], *found: Any) -> None:
        taken.append((threading.current_thread().name, len(chunk_ids)))
        take(self, chunk_ids, *found)

    monkeypatch.setattr(vectors.VectorIndex, "take", told)
    own = threading.current_thread().name
    with writer.stretch():
        for number in range(100, 103):  # each is one long document, as no write of a few chunks is
            many = {_key(1000 * number + n): row for n, row in enumerate(DRAWN.normal(size=(300, DIMENSION)))}
            batch = _write(number, [f"new {number} {n}" for n in range(300)], 1000 * number)
            writer.apply(Batch(collection="code", writes=(batch,), vectors=many))
            _found(reader, ROWS[0], Filters(), 1)
        reader.apply(Batch(collection="code", writes=(_write(200, ["beside"], 9),)))
        assert _found(reader, ROWS[9], Filters(documents=("d200",)), 1) == ["beside"]
        assert {many for name, many in taken if name == own} <= {1}
        last = writer.sequence()
    assert writer.sequence() > last  # which says that it is over
    for store in (reader, writer):
        assert len(_found(store, ROWS[0], Filters(documents=("d102",)), 400)) == 300
        index = store._vectors.at(store.sequence())
        with index.lock.reading():
            assert len(index) == COUNT + 901
        assert all(finding.ok for finding in store.verify(repair=False))
        store.close()


def test_a_snapshot_of_many_vectors_is_written_without_holding_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = DRAWN.normal(size=(4000, 512)).astype(np.float32)
    library = _library(tmp_path / "library", rows / np.linalg.norm(rows, axis=1, keepdims=True))
    snapshot = library / VECTORS_FILE
    head, held = read_arrays(snapshot, vectors.VERSION)
    snapshot.unlink()
    for file, name, few in ((vectors, "_SLICE", 50), (vectors, "SAMPLE", 100), (engines, "_PIECE", 1 << 16)):
        monkeypatch.setattr(file, name, few)
    monkeypatch.setattr(follower, "_HELD", 3999)
    left = snapshot.with_name(f"{VECTORS_FILE}.codes")  # by a process that was killed
    left.mkdir()
    (left / "codes.tmp").touch()
    store = LocalStore(library, lock_timeout_s=5)
    with store.writing():
        tracemalloc.start()
        try:
            store._vectors.save()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 0.75 * rows.size  # bytes: the rows alone take 1 a number; a block of each array, some slices are held
    again, written = read_arrays(snapshot, vectors.VERSION)
    assert again["seq"] == head["seq"] and again["calibrated_at"] == 4000 and not left.exists()
    assert written.keys() == held.keys()
    for name in held.keys() - {engines.CODES}:  # these are of another sample
        assert written[name].dtype == held[name].dtype and np.array_equal(written[name], held[name]), name
    assert _found(store, rows[7], Filters(), 1) == ["text 7"]
    store.close()


def test_removing_a_slot_moves_the_last_one_there(tmp_path: Path) -> None:
    rows = ROWS[:40]
    for engine in (Engine(Rows.empty(DIMENSION)), Engine(Rows.empty(DIMENSION), Codes.calibrated(ROWS[:1000]))):
        engine.add(rows)
        engine.remove(3)
        assert len(engine) == 39
        assert _first(engine, rows[39]) == 3
        mask = np.zeros(39, np.bool_)
        assert engine.search(rows[0], 5, mask).tolist() == []
        mask[[5, 6]] = True
        assert sorted(engine.search(rows[0], 5, mask).tolist()) == [5, 6]
        dumped = engine.rows.dump()
        if engine.codes is not None:
            dumped[engines.CODES] = np.concatenate(list(engine.codes.dump(tmp_path / "codes")[1]))
        again = Engine.load(dumped)
        assert _first(again, rows[7]) == 7
        again.add(ROWS[40:50])
        again.remove(0)
        assert _first(again, ROWS[49]) == 0 and len(again) == 48


def _first(engine: Engine, vector: Vector) -> int:
    found = engine.search(vector, 1, None)
    return int(found[np.argmax(engine.rows.cosines(vector, found))])


def test_rows_score_as_the_vectors_they_were_made_of() -> None:
    rows = Rows.empty(DIMENSION)
    rows.add(np.concatenate([ROWS, np.zeros((1, DIMENSION), np.float32)]))
    every = np.arange(COUNT)
    for n in (0, 17, 2999):
        assert np.abs(rows.scores(ROWS[n], None)[:COUNT] - ROWS @ ROWS[n]).max() < 5e-3
        assert np.abs(rows.cosines(ROWS[n], every) - ROWS @ ROWS[n]).max() < 5e-3
        assert np.abs(rows.scores(ROWS[n], every[::7]) - ROWS[::7] @ ROWS[n]).max() < 5e-3
    assert rows.cosines(ROWS[0], np.array([COUNT])).tolist() == [0.0]


def test_the_index_has_the_numbers_of_the_record() -> None:
    stored = pack_vectors(ROWS)
    rows = Rows.empty(DIMENSION)
    rows.add(unpack(stored))
    assert rows.dump()["rows"].tobytes() == b"".join(stored)
    for kind in (np.float32, np.float16):
        with np.errstate(all="raise"):
            assert unpack(pack_vectors(np.zeros((1, DIMENSION), kind))).tolist() == [[0.0] * DIMENSION]


def test_equal_vectors_have_equal_cosines_wherever_they_are() -> None:
    rows = Rows.empty(DIMENSION)
    rows.add(np.repeat(ROWS[:3], 701, axis=0))
    for vector in ROWS[:50]:
        found = rows.cosines(vector, np.arange(3 * 701)).reshape(3, 701)
        assert (found == found[:, :1]).all()


def test_all_of_many_equal_vectors_are_offered_at_the_end() -> None:
    engine = Engine(Rows.empty(DIMENSION))
    engine.add(np.concatenate([np.repeat(ROWS[:1], 300, axis=0), ROWS[1:500]]))
    assert set(range(300)) <= set(engine.search(ROWS[0], 10, None).tolist())


def test_rows_answer_until_the_codes_are_laid_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_PATIENCE", 2)
    store = LocalStore(folder, lock_timeout_s=5)
    answers = []
    for _ in range(8):
        answers.append(_found(store, ROWS[5], Filters(), 10))
        base = store._vectors.at(store.sequence())._base
        assert base is not None and base.engine.codes is not None
        if len(answers) <= 2:
            assert base.engine.codes._index is None
        if len(answers) == 4:
            base.engine.codes._unpacked()  # waits
    assert base.engine.codes.ready
    assert all(answer == answers[0] for answer in answers)
    store.close()
