"""Changes are gathered for the full-text index; nobody is to notice, but for the time it saves."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, Timer, current_thread
from typing import Any

import pytest

from refdesk.errors import StoreError
from refdesk.library import LEXICAL_FOLDER
from refdesk.store.local import LocalStore
from refdesk.store.record.database import VECTORS, Applied, pending
from refdesk.store.words import follower, keeper
from refdesk.store.words.index import LexicalIndex
from tests.ports.library import IDENTITY, batch, collection, write


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path / "library", lock_timeout_s=5)
    made.put_collection(collection())
    made.set_embedder_identity(IDENTITY)
    made.apply(batch(write("first", ["alpha first"])))
    return made


def _on_disk(store: LocalStore) -> int:
    """The last commit that the full-text index holds, as another process that can't write would see it."""
    index = LexicalIndex(store.folder / LEXICAL_FOLDER)
    index.reload()
    applied = index.applied
    index.close()
    return applied.seq if applied else 0


def _found(store: LocalStore, term: str) -> int:
    return len(store.view().lexical([term], 10))


def _wait_until_written(store: LocalStore) -> None:
    for _ in range(3000):
        if _on_disk(store) == store.sequence():
            break
        time.sleep(0.01)
    assert _on_disk(store) == store.sequence()


def test_a_little_is_left_to_the_next_query(store: LocalStore) -> None:
    before = _on_disk(store)
    store.apply(batch(write("a", ["alpha more"])))
    assert _on_disk(store) == before < store.sequence()
    assert _found(store, "alpha") == 2
    assert _on_disk(store) == store.sequence()
    store.close()


def test_another_process_finds_what_a_killed_one_left(store: LocalStore) -> None:
    store.apply(batch(write("a", ["alpha more"])))  # and is not closed: its process may as well be gone
    other = LocalStore(store.folder, lock_timeout_s=5)
    assert _found(other, "alpha") == 2
    other.close()
    store.close()


def test_a_long_stretch_first_does_what_is_left(store: LocalStore) -> None:
    store.apply(batch(write("a", ["alpha more"])))
    other = LocalStore(store.folder, lock_timeout_s=5)
    with other.stretch():
        reader = LocalStore(store.folder, lock_timeout_s=5)
        assert (_found(reader, "alpha"), _on_disk(store)) == (2, store.sequence())
        reader.close()
    other.close()
    store.close()


def test_a_search_beside_a_long_stretch_does_not_list_what_that_has_queued(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_LITTLE", 3)
    assert _found(store, "alpha") == 1
    other = LocalStore(store.folder, lock_timeout_s=5)
    with other.stretch():
        for name in ("first", "then"):  # the first ones are written at once
            other.apply(batch(*(write(f"{name}{number}", ["alpha"]) for number in range(4))))
        assert _on_disk(store) < store.sequence()
        with monkeypatch.context() as beside:
            beside.setattr(follower, "pending", lambda *asked: pytest.fail("they were listed"))
            assert _found(store, "alpha") == 5
    assert _found(store, "alpha") == 9
    other.close()
    store.close()


def test_much_is_written_at_the_end_of_its_stretch(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_LITTLE", 3)
    with store.writing():
        for number in range(5):
            store.apply(batch(write(f"d{number}", ["alpha"])))
    assert _on_disk(store) == store.sequence()
    store.close()


def test_what_a_stretch_brings_and_takes_away_again_is_not_found(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has taken it by then, and not committed it."""
    monkeypatch.setattr(follower, "_LITTLE", 1)
    with store.writing():
        for number in range(210):  # committed once they are over 200, soon in a stretch
            store.apply(batch(write(f"d{number}", ["alpha"])))
        before = _on_disk(store)
        for text in ("beta kept", "beta gamma"):
            store.apply(batch(write("changed", [text]), write("gone", ["beta gone"]), write("kept", ["beta kept"])))
        store.apply(batch(removes=("gone",)))
        assert _on_disk(store) == before < store.sequence()
    assert (_found(store, "gamma"), _found(store, "gone"), _found(store, "beta")) == (1, 0, 2)
    assert all(finding.ok for finding in store.verify(repair=False))
    store.close()


def test_a_little_is_written_when_nobody_asks(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_IDLE_S", 0.01)
    store.apply(batch(write("a", ["alpha more"])))
    _wait_until_written(store)
    store.close()


def test_closing_writes_what_is_left(store: LocalStore) -> None:
    store.apply(batch(write("a", ["alpha more"])))
    last = store.sequence()
    store.close()
    assert _on_disk(store) == last


def test_terms_that_a_batch_brings_are_the_ones_found(store: LocalStore) -> None:
    one = write("a", ["alpha"])
    store.apply(batch(replace(one, terms=("brought",))))
    assert (_found(store, "brought"), _found(store, "alpha")) == (1, 1)
    store.close()


def test_a_writer_updates_the_index_itself_where_there_are_readers(store: LocalStore) -> None:
    assert _found(store, "alpha") == 1
    store.apply(batch(write("a", ["alpha more"])))
    assert _on_disk(store) == store.sequence()
    store.close()


def test_a_search_does_not_wait_for_a_commit_that_nobody_was_told_of(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = LocalStore(store.folder, lock_timeout_s=5)
    assert (_found(store, "alpha"), _found(other, "alpha")) == (1, 1)
    committing, go_on, commit = Event(), Event(), LexicalIndex.commit

    def slow(index: LexicalIndex) -> None:
        committing.set()
        assert go_on.wait(30)
        commit(index)

    monkeypatch.setattr(LexicalIndex, "commit", slow)
    writer = Thread(target=lambda: store.apply(batch(write("a", ["alpha more"]))))
    writer.start()
    assert committing.wait(30)
    assert (_found(store, "alpha"), _found(other, "alpha")) == (1, 1)
    go_on.set()
    writer.join()
    assert (_found(store, "alpha"), _found(other, "alpha")) == (2, 2)
    other.close()
    store.close()


def test_a_search_waits_for_a_document_that_is_being_replaced(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _found(store, "alpha") == 1
    committing, commit = Event(), LexicalIndex.commit

    def slow(index: LexicalIndex) -> None:
        committing.set()
        time.sleep(0.2)
        commit(index)

    monkeypatch.setattr(LexicalIndex, "commit", slow)
    writer = Thread(target=lambda: store.apply(batch(write("first", ["alpha gamma"]))))
    writer.start()
    assert committing.wait(30)
    assert _found(store, "gamma") == 1
    writer.join()
    store.close()


def test_what_a_writer_was_killed_over_is_found(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commit says that it would update the index itself, and it holds the index no longer."""
    assert _found(store, "alpha") == 1
    with monkeypatch.context() as patch:
        patch.setattr(store._lexical, "_publish", lambda: None)
        store.apply(batch(write("a", ["alpha more"])))
    assert _on_disk(store) < store.sequence()
    store._lexical._index.release()  # as the system does
    other = LocalStore(store.folder, lock_timeout_s=5)
    assert _found(other, "alpha") == 2
    other.close()
    store._lexical._publish()
    store.close()


def test_many_writers_share_commits_and_each_is_found_once_it_is_told(store: LocalStore) -> None:
    other = LocalStore(store.folder, lock_timeout_s=5)
    assert _found(other, "alpha") == 1
    missed: list[str] = []

    def writes(name: str, into: LocalStore, reads: LocalStore) -> None:
        for number in range(6):
            assert _found(into, "alpha")  # so that it is read
            term = f"{name}term{number}"
            into.apply(batch(write(f"{name}{number}", [f"alpha {term}"])))
            if _found(reads, term) != 1:
                missed.append(term)

    pairs = [("a", store, other), ("b", store, other), ("c", other, store), ("d", other, store)]
    threads = [Thread(target=writes, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missed
    assert all(finding.ok for finding in store.verify(repair=False))
    other.close()
    store.close()


def test_a_writer_does_not_wait_for_a_long_stretch_elsewhere_but_searches_do(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_PUBLISH_S", 0.01)
    assert _found(store, "alpha") == 1
    other = LocalStore(store.folder, lock_timeout_s=5)
    with other.stretch():
        store.apply(batch(write("a", ["alpha more"])))
        assert _on_disk(store) < store.sequence()
        found: list[int] = []
        reader = Thread(target=lambda: found.append(_found(store, "alpha")))
        reader.start()
        time.sleep(0.1)
        assert not found
        other.flush_for_others()
        reader.join()
    assert found == [2]
    other.close()
    store.close()


def test_a_writer_finds_what_it_has_written_before_it_lets_others_write(store: LocalStore) -> None:
    assert _found(store, "alpha") == 1
    other = LocalStore(store.folder, lock_timeout_s=5)
    with store.writing():
        store.apply(batch(write("a", ["alpha more"])))
        assert _found(store, "alpha") == 2
        store._lexical._index.close()
        assert other._lexical._index.claim()  # it has something to write
        writer = Timer(0.2, other._lexical.flush)
        writer.start()
        store.apply(batch(write("b", ["alpha more"])))
        assert _found(store, "alpha") == 3
        writer.join()
    other.close()
    store.close()


def _rebuilds(monkeypatch: pytest.MonkeyPatch, go_on: Event) -> list[str]:
    """The names of threads that begin to build the index anew, which takes until the event is set."""
    found: list[str] = []
    take = LexicalIndex.take

    def slow(index: LexicalIndex, db: Any, chunk_ids: Sequence[int] | None, *more: Any) -> None:
        if chunk_ids is None:
            found.append(current_thread().name)
            assert go_on.wait(30)
        take(index, db, chunk_ids, *more)

    monkeypatch.setattr(LexicalIndex, "take", slow)
    monkeypatch.setattr(follower, "_SOON_BUILT", 0)
    return found


def test_a_small_write_beside_searches_neither_rebuilds_the_index_nor_waits_for_it(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _found(store, "alpha") == 1
    go_on = Event()
    rebuilding = _rebuilds(monkeypatch, go_on)
    shutil.rmtree(store.folder / LEXICAL_FOLDER)
    writers = [Thread(target=store.apply, args=[batch(write(name, ["alpha more"]))]) for name in ("a", "b")]
    for number, writer in enumerate(writers):  # the first finds that it is missing, the second that it is being rebuilt
        writer.start()
        writer.join(20)
        assert not writer.is_alive()
        assert _found(store, "alpha") == 2 + number  # in the record
        while not rebuilding:
            time.sleep(0.01)
    go_on.set()
    _wait_until_written(store)
    assert set(rebuilding) == {"refdesk-keeper"} and _found(store, "alpha") == 3
    store.close()


def test_a_writer_does_not_wait_long_for_another_thread_and_others_can_write_then(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_PUBLISH_S", 0.01)
    monkeypatch.setattr(keeper, "_IDLE_S", 0.01)
    assert _found(store, "alpha") == 1
    writer = Thread(target=store.apply, args=[batch(write("a", ["alpha more"]))])
    with store._lexical._writing:
        assert store._lexical._index.claim()
        writer.start()
        writer.join(20)
        assert not writer.is_alive()
    _wait_until_written(store)
    other = LocalStore(store.folder, lock_timeout_s=5)
    for _ in range(1000):
        if not other._lexical.is_written_elsewhere():
            break
        time.sleep(0.01)
    assert not other._lexical.is_written_elsewhere()
    other.close()
    store.close()


def test_searches_wait_for_what_its_writer_could_not_put_into_the_index(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _found(store, "alpha") == 1

    def fails(index: LexicalIndex) -> None:
        raise StoreError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(LexicalIndex, "commit", fails)
        store.apply(batch(write("a", ["alpha more"])))
    other = LocalStore(store.folder, lock_timeout_s=5)
    assert other._lexical._index.claim()  # it has something long to write
    found: list[int] = []
    reader = Thread(target=lambda: found.append(_found(store, "alpha")))
    reader.start()
    time.sleep(0.1)
    assert not found
    other._lexical._index.release()
    reader.join()
    assert found == [2]
    other.close()
    store.close()


def test_what_is_logged_again_is_no_change_of_vectors(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_PUBLISH_S", 0.01)
    assert _found(store, "alpha") == 1
    other = LocalStore(store.folder, lock_timeout_s=5)
    with other.stretch():
        store.apply(batch(write("a", ["alpha more"])))
    with store.reading() as db:
        (mine, token), (again, _) = db.execute("SELECT seq, token FROM commits ORDER BY seq DESC LIMIT 2").fetchall()[
            ::-1
        ]
        assert token.startswith("soon-") and again > mine
        assert pending(db, Applied(mine, token), VECTORS) == []
    other.close()
    store.close()


def test_to_ask_whether_somebody_writes_leaves_the_index_to_a_writer(store: LocalStore) -> None:
    assert _found(store, "alpha") == 1
    other = LocalStore(store.folder, lock_timeout_s=5)
    with store.writing():
        store.apply(batch(write("a", ["alpha more"])))
        asking = Thread(target=store.is_being_written)
        asking.start()
        asking.join()
        assert other._lexical.is_written_elsewhere()
    assert not other._lexical.is_written_elsewhere()
    other.close()
    store.close()


def test_the_index_is_looked_after_although_each_search_finds_it_complete(store: LocalStore) -> None:
    store._lexical.flush()
    assert _found(store, "alpha") == 1
    assert store._lexical._keeper._thread is not None
    store.close()
