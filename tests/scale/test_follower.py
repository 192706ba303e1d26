"""The index of a shared library follows its record, whoever else follows, builds, stops or asks meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from refdesk.store.copying import copy
from refdesk.store.local import LocalStore
from refdesk.store.record.contents import meta
from refdesk.store.shared import collection as made_in
from refdesk.store.shared import database, follower
from refdesk.store.shared import state as shared_state
from refdesk.store.shared import store as shared_store
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.nodes import WRITE_S, IndexAway
from refdesk.store.shared.state import condemn, save, see, state_of
from refdesk.store.shared.store import SharedStore
from refdesk.system import metrics
from tests.ports.library import IDENTITY, batch, collection, vector, write
from tests.scale import servers
from tests.scale.shared import LONG_S, filled, only_follower, texts_with, until


def _condemn(store: SharedStore) -> None:
    with store.writing(), store.transaction(logged=False) as db:
        condemn(db)


def test_while_a_later_version_makes_its_index_all_servers_search_the_last_one(
    address: str, store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha", "alpha beta", "alpha gamma"])))
    monkeypatch.setattr(follower, "_PAGE", 1)
    new = SharedStore(address)

    def seen(one: SharedStore) -> tuple[int, int, str]:
        view = one.view()
        return len(view.lexical(["alpha"], 5)), len(view.nearest(vector("alpha"), 5)), view.notices[0]

    with only_follower(store) as db:
        for parts in range(-1, 2):
            with monkeypatch.context() as later:
                later.setattr(shared_state, "ANALYSED", shared_state.ANALYSED + 1)
                assert new._follower._step(db)
                words, near, notice = seen(new)  # what it has of its own: nobody else's terms are its
                assert words == near == max(0, parts + 1) and "being built" in notice
            words, near, notice = seen(store)
            assert words == near == 3 and "being built" in notice
        with monkeypatch.context() as later:
            later.setattr(shared_state, "ANALYSED", shared_state.ANALYSED + 1)
            while new._follower._step(db) or new._follower._finish(db):
                pass
            assert len(new.view().nearest(vector("alpha"), 5)) == 3 and new.view().notices == ()
    words, near, notice = seen(store)
    assert (words, near) == (3, 0) and "later RefDesk" in notice  # the last one is gone
    new.close()


@pytest.mark.parametrize("generation", ["lost", "lost 1.2 test 1 16", "", "0.1 test 1 16"])
def test_an_index_of_another_form_is_made_anew(store: SharedStore, generation: str) -> None:
    store.apply(batch(write("a", ["alpha"])))
    with only_follower(store) as db:
        state = state_of(db)
        assert state is not None
        save(db, dataclasses.replace(state, generation=generation))
    until(lambda: store.view().notices == ())
    new = store.read(state_of)
    assert new is not None and new.name != state.name and texts_with(store, "alpha") == ["alpha"]


def test_an_index_that_is_to_be_made_anew_stays_so_whoever_follows(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    state, put = store.read(state_of), store._follower.sending.put
    assert state is not None

    def meanwhile(*given: Any) -> Any:
        _condemn(store)
        return put(*given)

    with only_follower(store) as db:
        monkeypatch.setattr(shared_store, "_APPLY_S", 0.0)
        store.apply(batch(write("b", ["beta"])))
        with monkeypatch.context() as patched:
            patched.setattr(store._follower.sending, "put", meanwhile)
            store._follower._step(db)
        assert not see(db).is_current
    store._follower.catch_up(store.sequence(), LONG_S)
    made = store.read(state_of)
    assert made is not None and made.name != state.name and texts_with(store, "beta") == ["beta"]


def test_doctor_waits_for_whoever_makes_the_index_in_its_place(address: str, store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    other = SharedStore(address.replace("shards=1", "shards=2"))
    with ThreadPoolExecutor(1) as beside:
        with only_follower(store):  # it has begun to compare, and another has the right to follow
            checked = beside.submit(other.verify, True)
            until(lambda: not store.read(see).is_current)
            time.sleep(0.5)
            assert not checked.done()
        found = checked.result(LONG_S)[1]
    assert found.ok and found.repaired and "2 are wanted" in found.message and "built anew" in found.message
    other.close()


def test_a_follower_rests_while_the_run_that_fills_a_library_goes_on(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, step = [], store._follower._step

    def counted(*given: Any, **more: Any) -> bool:
        steps.append(time.monotonic())
        return step(*given, **more)

    with store.stretch():
        store.apply(batch(write("a", ["alpha"])))
        store._follower.catch_up(store.sequence(), LONG_S)
        monkeypatch.setattr(store._follower, "_step", counted)
        store._follower.wake()
        until(lambda: bool(steps))
        time.sleep(1.0)
        assert 1 <= len(steps) < 10  # they were hundreds


def test_a_request_never_has_more_time_than_a_node_that_goes_on_needs() -> None:
    now = time.monotonic()
    assert follower._left(math.inf) == follower._left(now + 4 * 3600) == WRITE_S
    assert follower._left(now - 5) == 1.0 and 9 < follower._left(now + 10) <= 10


def test_a_write_does_not_wait_for_an_index_that_another_process_builds(
    address: str, store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    other = SharedStore(address)
    monkeypatch.setattr(shared_store, "_APPLY_S", 3 * LONG_S)
    with only_follower(other) as db:
        _condemn(other)
        assert other._follower._step(db)
        began = time.monotonic()
        store.apply(batch(write("b", ["beta"])))
        with store.stretch():  # as of a large document
            store.apply(batch(write("c", ["gamma"])))
        assert time.monotonic() - began < LONG_S
    store._follower.catch_up(store.sequence(), LONG_S)
    assert texts_with(store, "beta") == ["beta"] and texts_with(store, "gamma") == ["gamma"]
    other.close()


def test_a_process_that_is_stopped_loses_its_locks(
    address: str, store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_STOPPED_S", 1)
    stopped, goes_on = SharedStore(address), threading.Event()

    def hold(lock: Callable[[], Any]) -> None:
        with lock():
            goes_on.wait(LONG_S)

    with ThreadPoolExecutor(2) as threads:
        for lock in (stopped._postgres.writing, stopped._postgres.following):
            threads.submit(hold, lock)
        locks = (database.WRITER, database.FOLLOWER)
        until(lambda: len(store.read(lambda db: store._postgres.holders(db, locks))) == 2)  # type: ignore[arg-type]
        store.apply(batch(write("a", ["alpha"])))
        found = texts_with(store, "alpha")
        goes_on.set()
    assert found == ["alpha"]
    with store.reading() as db:  # a session without a lock may rest
        assert db.execute("SHOW idle_session_timeout").fetchone() == ("0",)
    stopped.apply(batch(write("b", ["beta"])))
    assert texts_with(store, "beta") == ["beta"]
    stopped.close()


def test_vectors_that_no_passage_uses_are_dropped(store: SharedStore, tmp_path: Any) -> None:
    def vectors() -> int:
        return int(store.read(lambda db: db.execute("SELECT count(*) FROM vectors").fetchone()[0]))

    store.apply(batch(write("a", ["alpha"]), write("b", ["beta", "gamma"])))
    with store.stretch():
        store.apply(batch(write("b", ["beta", "delta"])))
        assert vectors() == 4  # it may be used again
    assert vectors() == 3
    store.apply(batch(removes=("a", "b")))
    assert vectors() == 3  # few
    source = LocalStore(tmp_path / "library")
    source.put_collection(collection())
    source.set_embedder_identity(IDENTITY)
    source.apply(batch(write("c", ["epsilon"])))
    store.remove_collection(collection().name)
    copy(source, store, lambda *_: None)
    source.close()
    store._follower.catch_up(store.sequence(), LONG_S)
    assert vectors() == 1 and texts_with(store, "epsilon") == ["epsilon"]
    with store.writing(), store.transaction() as db:  # as a writer that was killed
        db.execute("DELETE FROM chunks")
    store.verify(repair=True)
    assert vectors() == 0


@pytest.mark.parametrize("is_bare", [False, True])
def test_nodes_that_wait_for_a_word_are_told_again(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch, is_bare: bool
) -> None:
    from qdrant_client import grpc as messages

    store.apply(batch(write("a", ["alpha"])))
    until(lambda: store.read(lambda db: meta(db, shared_state.BARE)) == "")
    call, told = store._nodes.call, list[Any]()

    def waits(service: str, method: str, request: Any, *more: Any, **named: Any) -> Any:
        answer = call(service, method, request, *more, **named)
        if method == "Update":
            told.append(request.hnsw_config.m)
        if (service, method) == ("Collections", "Get"):
            answer.result.status = messages.CollectionStatus.Grey
        return answer

    monkeypatch.setattr(store._nodes, "call", waits)
    with only_follower(store) as db:
        if is_bare:
            store.note(
                lambda db: db.execute(
                    "UPDATE meta SET value = ? WHERE key = ?", (see(db).state.name, shared_state.BARE)
                )
            )  # type: ignore[union-attr]
        for _ in range(2):
            store._follower._look_at = 0.0  # a minute later
            for _ in range(3):
                store._follower._finish(db)
            assert 0 < store._follower._look_at - time.monotonic() <= follower._GREY_S
    assert told == [0 if is_bare else 16] * 2


def test_a_search_that_lost_its_index_to_the_next_one_asks_that(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha", "alpha beta"])))
    view = store.view()
    old = store.read(state_of)
    _condemn(store)
    store._follower.catch_up(store.sequence(), LONG_S)
    new = store.read(state_of)
    assert old is not None and new is not None and new.name != old.name
    until(lambda: old.name not in servers.for_tests()[1][0]._collections)
    assert len(view.nearest(vector("alpha"), 5)) == 2 and view.notices == ()


def test_the_index_names_the_last_commit_while_it_is_built(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_PAGE", 1)
    monkeypatch.setattr(shared_store, "_APPLY_S", 0.0)
    store.apply(batch(write("a", ["alpha"])))
    with only_follower(store) as db:
        _condemn(store)
        assert store._follower._step(db)
        for name in "bcd":
            store.apply(batch(write(name, [name])))
            assert store._follower._step(db)
            state = state_of(db)
            assert state is not None
            head = made_in.head(store._nodes, state.name, 10)
            assert head is not None and head.seq == store.sequence()


def test_a_follower_goes_on_after_any_failure(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    step, failed = store._follower._step, threading.Event()

    def fails_once(db: Translating, *given: Any, **more: Any) -> bool:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("can't start new thread")
        return step(db, *given, **more)

    monkeypatch.setattr(follower, "_AGAIN_S", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(store._follower, "catch_up", lambda *_, **__: None)
        store.apply(batch(write("a", ["alpha"])))
    monkeypatch.setattr(store._follower, "_step", fails_once)
    store._follower.wake()
    until(lambda: store.read(see).has(store.sequence()))
    assert failed.is_set() and texts_with(store, "alpha") == ["alpha"]


def test_a_node_that_is_lost_for_good_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with servers.running(3, in_memory=True) as (postgres, nodes):
            store = filled(servers.address(postgres, nodes, shards="2", replicas="2"))
            store.apply(batch(*(write(f"d{number}", [f"alpha {number}"]) for number in range(20))))
            assert "take part" not in store.verify(repair=False)[1].message
            lost = nodes[2]
            cluster = httpx.get(f"http://127.0.0.1:{lost.http}/cluster").json()["result"]
            lost.kill()
            store.apply(batch(write("e", ["alpha"])))  # which finds that its replicas are dead
            store.apply(batch(*(write(f"f{number}", ["alpha"]) for number in range(9))))
            message = store.verify(repair=True)[1].message
            assert "Only 1 of 2 replicas of shard" in message, message
            for file in (lost._folder / "storage", lost._folder / "snapshots"):
                shutil.rmtree(file, ignore_errors=True)
            url = f"http://127.0.0.1:{nodes[0].http}/cluster/peer/{cluster['peer_id']}?force=true"
            assert httpx.delete(url, timeout=60).status_code == 200
            lost.start()
            until(lambda: len(httpx.get(f"http://127.0.0.1:{lost.http}/cluster").json()["result"]["peers"]) == 3)
            index = store.verify(repair=False)[1]
            assert not index.ok and "has 1 of 2 replicas of shard" in index.message, index
            index = store.verify(repair=True)[1]
            assert index.ok and index.repaired, index
            assert index.message.endswith("built anew.") and "take part" not in store.verify(repair=False)[1].message
            assert len(store.view().lexical(["alpha"], 50)) == 30
            store.close()
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_runs_of_one_process_leave_connections_to_searches(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    with contextlib.ExitStack() as runs:
        for _ in range(2 * database._MOST_CONNECTIONS):
            runs.enter_context(store._postgres.stretch())
        assert texts_with(store, "alpha") == ["alpha"] and store.is_being_written()
    until(lambda: not store.is_being_written())
    assert not store.is_being_written()


def test_a_process_that_is_stopped_in_a_run_is_not_waited_for_and_one_that_goes_on_is(
    store: SharedStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(SharedStore(address)) as other, store.reading() as db:
        if db.raw.info.server_version < database._ENDS_IDLE:  # type: ignore[attr-defined]
            pytest.skip("Postgres 14 is the first that ends idle sessions")
        monkeypatch.setattr(database, "_STOPPED_S", 2)
        with store.stretch():
            for number in range(8):
                time.sleep(0.5)
                store.apply(batch(write(f"a{number}", ["alpha"])))
            assert other.is_being_written()
            until(lambda: not other.is_being_written())
            assert not other.is_being_written()
        assert len(texts_with(other, "alpha")) == 8


def test_every_search_without_the_index_is_counted(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.apply(batch(write("a", ["alpha"])))

    def away(*_: Any, **__: Any) -> Any:
        raise IndexAway("No node of the index did what it was asked.")

    def counted() -> float:
        lines = metrics.render({}).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("refdesk_index_away_total{"))

    before = counted()
    monkeypatch.setattr(store._nodes, "call", away)
    monkeypatch.setattr(store._nodes, "start", away)
    for _ in range(3):
        (view := store.view()).lexical(["alpha"], 5)
        assert "can't be reached" in view.notices[0]
    assert counted() == before + 3
