"""What was true before is not answered: by a node that hung, a record or a disk that went back, or from memory."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from refdesk.errors import StoreError
from refdesk.model import EVERYTHING, Filters
from refdesk.store.copying import copy
from refdesk.store.local import LocalStore
from refdesk.store.shared import collection as made_in
from refdesk.store.shared import means
from refdesk.store.shared import state as shared_state
from refdesk.store.shared.follower import Follower
from refdesk.store.shared.state import Counts, Searched, condemn, see, state_of
from refdesk.store.shared.store import SharedStore
from tests.ports.library import batch, collection, write
from tests.scale import servers
from tests.scale.shared import filled, only_follower, texts_with, until

Running = tuple[servers.Postgres, list[servers.Qdrant]]


def _servers(stack: contextlib.ExitStack, count: int) -> Running:
    try:
        return stack.enter_context(servers.running(count, in_memory=True))
    except servers.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def own() -> Iterator[Running]:
    """Servers that these tests may stop."""
    with contextlib.ExitStack() as stack:
        yield _servers(stack, 1)


def _insist(work: Callable[[], object]) -> None:
    for _ in range(20):  # connections break
        with contextlib.suppress(StoreError):
            work()
            return
        time.sleep(0.2)


def test_a_node_that_hung_is_not_asked_until_it_has_heard_from_the_others() -> None:
    with contextlib.ExitStack() as stack:
        postgres, nodes = _servers(stack, 3)
        place = servers.address(postgres, nodes, schema="hung", shards="6", replicas="2")
        store = filled(place)
        stack.callback(store.close)
        store.apply(batch(*(write(f"a{i}", [f"alpha{i} common"]) for i in range(30))))
        until(lambda: store.read(see).has(store.sequence()))
        reader = SharedStore(place)
        stack.callback(reader.close)
        reader.view().lexical(["common"], 5)
        reader._nodes._turn = itertools.repeat(0)  # type: ignore[assignment]  # the first one's turn, always
        words = {f"new{i} common" for i in range(30)} | {f"changed{i} common" for i in range(30)}
        with nodes[0].frozen():
            store.apply(batch(*(write(f"b{i}", [f"new{i} common"]) for i in range(30))))
            store.apply(batch(*(write(f"a{i}", [f"changed{i} common"]) for i in range(30))))
            until(lambda: store.read(see).has(store.sequence()))
        ends, missed = time.monotonic() + 4, []
        while time.monotonic() < ends:
            view = reader.view()
            found = {one.chunk.text for one in reader.chunks(view.lexical(["common"], 100).ids).values()}
            missed.append(0 if view.notices else len(words - found))
        assert not any(missed)
        first = reader.address.nodes[0]
        until(lambda: reader._nodes._order()[0] == first)
        assert reader._nodes._order()[0] == first  # it takes its turns again


def test_what_a_node_counted_is_not_believed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, searched = Counts(), Searched("index", 1, 16)
    counts.of(searched)["terms", "alpha", None] = 0
    assert counts.of(searched)
    monkeypatch.setattr(shared_state, "_COUNTED_S", -1.0)
    assert not counts.of(searched)


def test_what_was_remembered_of_lost_commits_is_forgotten(own: Running) -> None:
    postgres, nodes = own
    place = servers.address(postgres, nodes, schema="went_back", shards="1", replicas="1")
    with contextlib.closing(filled(place)) as store, contextlib.closing(SharedStore(place)) as other:
        store.apply(batch(write("a", ["alpha"])))
        with postgres.set_back():
            _insist(lambda: store.put_collection(collection("lost")))
            _insist(lambda: store.apply(batch(write("b", ["zeta"], path="lost.py", name="lost"), name="lost")))
            assert texts_with(store, "zeta") == ["zeta"]
            assert "lost" in {one.name for one in store.collections(store.sequence())}
            before = store.sequence()
        _insist(lambda: other.put_collection(collection("mine")))
        other.apply(batch(write("c", ["zeta"], path="mine.py", name="mine"), name="mine"))
        while other.sequence() < before:
            other.apply(batch(write("d", [f"more {other.sequence()}"])))
        _insist(store.sequence)
        found = store.chunks(store.view().lexical(["zeta"], 5).ids)
        assert [one.document.path for one in found.values()] == ["mine.py"]
        names = {one.name for one in store.collections(store.sequence())}
        assert "mine" in names and "lost" not in names
        assert len(store.view(Filters(collections=("mine",))).lexical(["zeta"], 5)) == 1


def test_a_node_that_went_back_has_its_index_made_anew(own: Running) -> None:
    postgres, [node] = own
    place = servers.address(postgres, [node], schema="disk", shards="1", replicas="1")
    with contextlib.closing(filled(place)) as store:
        store.apply(batch(write("a", ["alpha"])))
        until(lambda: store._follower._thread is None)
        with node.set_back():
            _insist(lambda: store.apply(batch(write("b", ["beta"]))))
            until(lambda: texts_with(store, "beta") == ["beta"] and not store.view().notices)
            name = store.read(state_of)
    with contextlib.closing(SharedStore(place)) as store:
        store.apply(batch(write("c", ["gamma"])))
        until(lambda: texts_with(store, "beta") == ["beta"] and not store.view().notices)
        assert texts_with(store, "beta") == ["beta"] and not store.view().notices
        now = store.read(state_of)
        assert name is not None and now is not None and now.name != name.name


def test_a_slow_view_does_not_take_others_back(address: str, store: SharedStore) -> None:
    store.apply(batch(write("own", ["omega one"], path="old.py")))
    assert texts_with(store, "omega") == ["omega one"]
    resolve, asked, goes_on = store._scopes.resolve, threading.Event(), threading.Event()

    def slow(db: Any, seq: int, filters: Filters) -> Any:
        if filters.paths:
            asked.set()
            goes_on.wait(60)
        return resolve(db, seq, filters)

    store._scopes.resolve = slow  # type: ignore[method-assign]
    behind = threading.Thread(target=store.view, args=(replace(EVERYTHING, paths=("**/*.zz",)),))
    behind.start()
    asked.wait(60)
    with contextlib.closing(SharedStore(address)) as other:
        other.apply(batch(write("own", ["omega one"], path="new.py")))
    found = store.view().lexical(["omega"], 5)
    goes_on.set()
    behind.join()
    assert [one.document.path for one in store.chunks(found.ids).values()] == ["new.py"]


def test_who_has_lost_the_right_to_follow_removes_no_index(
    address: str, store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    call, others = store._nodes.call, []

    def late(service: str, method: str, *more: Any, **named: Any) -> Any:
        if method == "List" and not others:  # meanwhile its session ends, and another makes the index
            with psycopg.connect(store.address.record, autocommit=True) as db:
                db.execute("SELECT pg_terminate_backend(%s)", (pid,))
            others.append(SharedStore(address))
            others[0]._follower.catch_up(others[0].sequence(), 60)
        return call(service, method, *more, **named)

    until(lambda: store._follower._thread is None)
    with store.writing(), store.transaction(logged=False) as db:
        condemn(db)
    monkeypatch.setattr(store._nodes, "call", late)
    with contextlib.suppress(psycopg.Error, StoreError), only_follower(store) as following:
        pid = following.raw.info.backend_pid
        store._follower._step(following)
    with contextlib.closing(others[0]) as other:
        state = other.read(state_of)
        assert state is not None and made_in.exists(other._nodes, state.name)
        assert texts_with(other, "alpha") == ["alpha"] and not other.view().notices


def test_an_index_that_could_not_be_removed_is_removed_later(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    call, last = store._nodes.call, store.read(state_of)
    assert last is not None

    def failing(service: str, method: str, *more: Any, **named: Any) -> Any:
        if (service, method) == ("Collections", "Delete"):
            raise StoreError("no answer in time")
        return call(service, method, *more, **named)

    with monkeypatch.context() as patched:
        patched.setattr(store._nodes, "call", failing)
        with store.writing(), store.transaction(logged=False) as db:
            condemn(db)
        store._follower.catch_up(store.sequence(), 60)
        until(lambda: store._follower._thread is None and store.read(see).before is None)
    assert made_in.exists(store._nodes, last.name)
    store._follower._look_at = 0.0  # as a minute later
    store.view()
    until(lambda: not made_in.exists(store._nodes, last.name))
    assert not made_in.exists(store._nodes, last.name)
    assert texts_with(store, "alpha") == ["alpha"]


def test_an_index_that_is_made_while_a_library_is_copied_has_all_of_it(
    address: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all = means.put_all
    with contextlib.ExitStack() as stack:
        source = LocalStore(tmp_path / "source")
        stack.callback(source.close)
        source.put_collection(collection())
        source.apply(batch(write("a", ["alpha"], vectors=False), write("b", ["beta"], vectors=False)))
        store, other = SharedStore(address), SharedStore(address)
        stack.callback(store.close)
        stack.callback(other.close)

        def meanwhile(db: Any) -> None:
            other.view()  # by a server that has been started already
            time.sleep(2)
            put_all(db)

        monkeypatch.setattr(means, "put_all", meanwhile)
        copy(source, store, lambda *_: None)
        for one in (store, other):
            until(lambda one=one: texts_with(one, "alpha") == ["alpha"])  # type: ignore[misc]
            assert texts_with(one, "alpha") == ["alpha"] and texts_with(one, "beta") == ["beta"]
        assert store.verify(repair=False)[1].ok


def test_a_follower_that_could_not_be_started_is_started_later(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    until(lambda: store._follower._thread is None)
    follower: Follower = store._follower

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", full)
        with pytest.raises(RuntimeError):
            follower.wake()
    with store.writing(), store.transaction(logged=False) as db:
        condemn(db)
    follower.wake()
    until(lambda: store.read(see).has(store.sequence()))
    assert store.read(see).has(store.sequence())
