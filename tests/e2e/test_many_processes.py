"""One writer and several readers in processes of their own, on one library."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from refdesk.errors import LibraryBusy
from refdesk.model import Batch, Filters
from refdesk.store.local import LocalStore
from refdesk.store.vectors import follower as vector_follower
from refdesk.store.vectors import index as vectors
from tests.ports.library import IDENTITY, batch, collection, vector, write

READERS = 3
DOCUMENTS = 24
PARTS = 2


def _texts(number: int) -> list[str]:
    return [f"common doc{number} part{part}" for part in range(PARTS)]


def _write(folder: str, written: Synchronized[int]) -> None:
    vector_follower._FEW, vectors.EXACT_UP_TO = 20, 30
    store = LocalStore(Path(folder), lock_timeout_s=60)
    for start in range(0, DOCUMENTS, 4):
        with store.writing():
            for number in range(start, start + 4):
                store.apply(batch(write(f"doc{number}", _texts(number))))
                written.value = number + 1
    store.close()


def _read(folder: str, written: Synchronized[int]) -> None:
    vector_follower._FEW, vectors.EXACT_UP_TO = 20, 30
    store = LocalStore(Path(folder), lock_timeout_s=60)
    seen = -1
    while seen < DOCUMENTS * PARTS:
        expected = written.value * PARTS
        state = store.sequence()
        words = store.view().lexical(["common"], 500)
        near = store.view(Filters(collections=("code",))).nearest(vector("any"), 500)
        assert len(words) >= expected, f"{len(words)} by words, {expected} were written"
        assert len(near) >= expected, f"{len(near)} by vector, {expected} were written"
        assert len(store.chunks(near.ids)) == len(near)
        assert store.sequence() >= state
        assert len(words) >= seen
        seen = len(words)
    store.close()


def _contend(folder: str, number: int) -> None:
    store = LocalStore(Path(folder), lock_timeout_s=60)
    for i in range(5):
        store.apply(batch(write(f"{number}-{i}", [f"common {number} {i}"])))
    store.close()


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["refdesk.store.local", "refdesk.store.vectors.index", "tantivy", "turbovec", "filelock"]
    )
    return context


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path / "library", lock_timeout_s=0.2)
    made.put_collection(collection())
    made.set_embedder_identity(IDENTITY)
    return made


def test_readers_see_every_write_while_it_goes_on(processes: ForkServerContext, store: LocalStore) -> None:
    written = processes.Value("i", 0)
    folder = str(store.folder)
    started = [processes.Process(target=_read, args=(folder, written)) for _ in range(READERS)]
    started.append(processes.Process(target=_write, args=(folder, written)))
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=120)
    assert [process.exitcode for process in started] == [0] * len(started)
    assert len(store.view().lexical(["common"], 500)) == DOCUMENTS * PARTS
    assert all(finding.ok for finding in store.verify(repair=False))
    store.close()


def test_several_writers_take_turns(processes: ForkServerContext, store: LocalStore) -> None:
    started = [processes.Process(target=_contend, args=(str(store.folder), number)) for number in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=120)
    assert [process.exitcode for process in started] == [0] * 3
    assert len(store.view().lexical(["common"], 500)) == len(store.view().nearest(vector("a"), 500)) == 15
    store.close()


def _create(folder: str, number: int, together: Barrier) -> None:
    together.wait()
    store = LocalStore(Path(folder), lock_timeout_s=60)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(write(f"doc{number}", ["common"])))
    assert store.view().lexical(["common"], 5)
    store.close()


def test_several_processes_may_create_the_library_at_once(processes: ForkServerContext, tmp_path: Path) -> None:
    together = processes.Barrier(4)
    folder = tmp_path / "library"
    started = [processes.Process(target=_create, args=(str(folder), number, together)) for number in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=120)
    assert [process.exitcode for process in started] == [0] * 4
    store = LocalStore(folder, lock_timeout_s=5)
    assert store.stats().documents == 4
    store.close()


def _hold(folder: str, held: Synchronized[int]) -> None:
    store = LocalStore(Path(folder), lock_timeout_s=60)
    with store.writing():
        held.value = 1
        import time

        time.sleep(600)


def test_a_killed_holder_does_not_keep_the_library(processes: ForkServerContext, store: LocalStore) -> None:
    held = processes.Value("i", 0)
    holder = processes.Process(target=_hold, args=(str(store.folder), held), daemon=True)
    holder.start()
    while not held.value:
        assert holder.is_alive()
    with pytest.raises(LibraryBusy, match=f"process {holder.pid}"):
        store.apply(Batch(collection="code"))
    holder.kill()
    holder.join()
    store.apply(batch(write("a", ["common"])))
    assert len(store.view().lexical(["common"], 5)) == 1
    store.close()
