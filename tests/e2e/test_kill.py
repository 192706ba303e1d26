"""A writer killed at any moment loses nothing that it had finished and leaves nothing half done."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from refdesk.model import Batch, DocumentWrite, Symbol
from refdesk.store.local import LocalStore
from refdesk.store.vectors import follower as vector_follower
from refdesk.store.vectors import index as vectors
from refdesk.store.words import follower
from refdesk.store.words import index as words
from tests.ports.library import IDENTITY, batch, collection, vector, write

KILLS = 36
DOCUMENTS = 12
PARTS = 3
Operation = tuple[str, str, int]  # what, which document, which version


def _document(document_id: str, version: int) -> DocumentWrite:
    texts = [f"common {document_id} version{version} part{part}" for part in range(PARTS - 1)]
    symbol = Symbol(name=document_id, qualified=document_id, kind="class", start_line=1, end_line=version)
    return write(document_id, [*texts, f"common {document_id} kept"], symbols=(symbol,))


def _operations(seed: int) -> Iterator[Operation]:
    draw = random.Random(seed)
    for version in range(seed * 1000 + 1, seed * 1000 + 1000):
        what = draw.choice(["put", "put", "put", "remove"])
        yield what, f"doc{draw.randrange(DOCUMENTS)}", version


def _tight() -> None:
    """Snapshots, trimmed logs, quantised vectors and full-text commits from the first few documents on."""
    vector_follower._FEW = 6
    follower._LITTLE, follower._AT_ONCE = 2, 4
    vectors.EXACT_UP_TO = 10


def _write_until_killed(folder: str, seed: int, told: Connection) -> None:
    _tight()
    store = LocalStore(Path(folder), lock_timeout_s=30)
    operations = _operations(seed)
    while True:
        with store.writing():
            for _ in range(3):
                what, document_id, version = next(operations)
                told.send(("begin", (what, document_id, version)))
                if what == "put":
                    store.apply(batch(_document(document_id, version)))
                else:
                    store.apply(Batch(collection="code", removes=(document_id,)))
                told.send(("done", (what, document_id, version)))


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    return forkserver()


def forkserver() -> ForkServerContext:
    """Where processes come from that have loaded what a writer needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["refdesk.store.local", "refdesk.store.vectors.index", "tantivy", "turbovec", "filelock"]
    )
    return context


def _run_and_kill(processes: ForkServerContext, folder: Path, seed: int) -> tuple[list[Operation], Operation | None]:
    """What the writer finished, and what it was at when it died."""
    here, there = processes.Pipe(duplex=False)
    writer = processes.Process(target=_write_until_killed, args=(str(folder), seed, there), daemon=True)
    writer.start()
    there.close()
    draw = random.Random(seed)
    told = [here.recv() for _ in range(draw.randrange(1, 12))]
    time.sleep(draw.uniform(0, 0.03))
    assert writer.pid is not None
    writer.kill()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    try:
        while True:
            told.append(here.recv())
    except EOFError:
        here.close()
    done = [operation for state, operation in told if state == "done"]
    begun = told[-1][1] if told[-1][0] == "begin" else None
    return done, begun


def _after(state: dict[str, int], operation: Operation) -> dict[str, int]:
    what, document_id, version = operation
    rest = {key: value for key, value in state.items() if key != document_id}
    return {**rest, document_id: version} if what == "put" else rest


def _held(store: LocalStore) -> dict[str, int]:
    """The version of each document, checked to be whole."""
    found = {}
    for document in store.documents("code", 1000, 0):
        version = store.symbols_of(document.id)[0].end_line
        whole = _document(document.id, version)
        assert [h.chunk for h in store.chunks_of(document.id)] == list(whole.chunks)
        assert store.raw(document.id) == whole.raw
        found[document.id] = version
    return found


def _check_indexes(store: LocalStore, state: dict[str, int]) -> None:
    by_words = store.chunks(store.view().lexical(["common"], 500).ids)
    by_vector = store.chunks(store.view().nearest(vector("any"), 500).ids)
    expected = sorted(c.text for key, version in state.items() for c in _document(key, version).chunks)
    assert sorted(h.chunk.text for h in by_words.values()) == expected
    assert sorted(h.chunk.text for h in by_vector.values()) == expected
    wrong = [finding.message for finding in store.verify(repair=False) if not finding.ok]
    assert not wrong, wrong


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: a kill is not a loss of power, and syncing takes most of the time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made) / "library"


def killed_writers(folder: Path, processes: ForkServerContext, seeds: Iterable[int]) -> Iterator[tuple[int, bool]]:
    """For each writer that was killed: how many writes it had finished, and whether it died within one.

    Raises AssertionError where something that was finished is lost, or anything is half there.
    """
    store = LocalStore(folder, lock_timeout_s=30)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.close()
    state: dict[str, int] = {}
    for seed in seeds:
        done, begun = _run_and_kill(processes, folder, seed)
        for operation in done:
            state = _after(state, operation)
        store = LocalStore(folder, lock_timeout_s=30)
        try:
            held = _held(store)
            possible = [state, _after(state, begun)] if begun else [state]
            assert held in possible, f"{held} is none of {possible}"
            state = held
            _check_indexes(store, state)
        finally:
            store.close()
        yield len(done), begun is not None


def test_a_killed_writer_loses_nothing(
    folder: Path, processes: ForkServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_follower, "_FEW", 6)
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 10)
    finished, unfinished = map(sum, zip(*killed_writers(folder, processes, range(1, KILLS + 1)), strict=True))
    assert finished > KILLS and unfinished > KILLS // 4


def _write_once(folder: str, number: int, gone: str, is_killed: bool) -> None:
    """Writes four documents and removes one; killed, if it is, before segments of the index are merged."""
    if is_killed:
        pytest.MonkeyPatch().setattr(words, "make_all_private", lambda _: os._exit(0))  # called after tantivy's commit
    store = LocalStore(Path(folder), lock_timeout_s=30)
    made = batch(*(write(f"doc{number}-{part}", [f"common {number} {part}"]) for part in range(4)))
    with store.writing():
        store.apply(replace(made, removes=(gone,)))
        store._lexical.flush()
    store.close()


def test_no_removal_is_lost_in_a_merge_that_was_left_to_the_next_writer(
    folder: Path, processes: ForkServerContext
) -> None:
    store = LocalStore(folder, lock_timeout_s=30)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.close()
    for number in range(60):
        is_killed = number % 10 != 9
        # Those who are not killed remove from the segment that the last commit removed from.
        gone = f"doc{number - 2}-0" if is_killed else f"doc{number - 3}-1"
        writer = processes.Process(target=_write_once, args=(str(folder), number, gone, is_killed))
        writer.start()
        writer.join()
        assert writer.exitcode == 0
        if not is_killed:
            store = LocalStore(folder, lock_timeout_s=30)
            assert [finding.message for finding in store.verify(repair=False) if not finding.ok] == []
            store.close()
