"""What a shared library does beyond what every store does."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import refdesk
from refdesk.crawl.state import CrawlState, Entry
from refdesk.errors import InvalidInput, LibraryTooNew, SettingsError, StoreError
from refdesk.library import Library
from refdesk.model import EVERYTHING, Batch, EmbedderIdentity, Filters, Symbol
from refdesk.settings import load
from refdesk.store.copying import back_up, copy
from refdesk.store.local import LocalStore
from refdesk.store.playbooks import RecordPlaybooks
from refdesk.store.record import schema
from refdesk.store.record.contents import meta
from refdesk.store.record.database import LONG
from refdesk.store.record.filters import Scope
from refdesk.store.record.schema import Connection
from refdesk.store.shared import address as addresses
from refdesk.store.shared import collection as made_in
from refdesk.store.shared import follower, points
from refdesk.store.shared import state as shared_state
from refdesk.store.shared import store as shared_store
from refdesk.store.shared import view as shared_view
from refdesk.store.shared.dialect import Translating, translated
from refdesk.store.shared.nodes import IndexAway, Nodes
from refdesk.store.shared.state import condemn, state_of
from refdesk.store.shared.store import SharedStore
from refdesk.system.wanted import is_wanted
from tests.mcp_client.http import HttpClient, HttpServer
from tests.ports.library import IDENTITY, batch, chunk, collection, key, make_version_8, vector, write
from tests.scale import servers
from tests.scale.shared import filled, only_follower, texts_with, until


def test_ids_follow_from_the_document_and_the_key(store: SharedStore) -> None:
    twice = [chunk("one", key="k"), chunk("two", key="k"), chunk("three", key="other")]
    store.apply(batch(write("d", twice)))
    first = [one.id for one in store.chunks_of("d")]
    assert len(set(first)) == 3
    store.apply(Batch(collection="code", removes=("d",)))
    store.apply(batch(write("d", twice)))
    assert [one.id for one in store.chunks_of("d")] == first
    store.apply(batch(write("d", [chunk("four", key="other")])))
    assert [one.id for one in store.chunks_of("d")] == first[2:]
    assert texts_with(store, "four") == ["four"] and texts_with(store, "three") == []


@pytest.mark.parametrize("most", [100, 3])
def test_a_key_with_many_values_hides_no_other(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(shared_view, "_MOST_FACETS", most)
    odd = 'Größe\t"x"'
    own = chunk("own", 1, metadata={"id": "other", "lang": "de"})  # in place of the document's
    first = write("d0", ["plain", own], metadata={"id": "n0", "lang": "en", odd: "é"}, path="docs/a.py")
    many = [write(f"d{n}", ["text"], metadata={"id": f"n{n}", "lang": "en"}) for n in range(1, 9)]
    with contextlib.closing(LocalStore(tmp_path)) as folder:
        folder.put_collection(collection())
        folder.set_embedder_identity(IDENTITY)
        for one in (folder, store):
            one.apply(batch(first, *many))
        within = [
            Filters(),
            Filters(collections=("none",)),
            Filters(paths=("docs/*",)),
            Filters(metadata=(("lang", ("de",)),)),
        ]
        for filters, key in itertools.product(within, ("id", "lang", odd, "en", "none")):
            assert store.view(filters).facet_values(key) == folder.view(filters).facet_values(key), (filters, key)
        assert store.view().facet_values(odd) == {"é": 2} and len(store.view().facet_values("id")) == 10


def test_words_are_searched_in_the_record_while_the_index_is_away(caplog: pytest.LogCaptureFixture) -> None:
    try:
        with servers.running(1, in_memory=True) as (postgres, nodes):
            store = filled(servers.address(postgres, nodes, shards="1", replicas="1"))
            store.apply(batch(write("a", ["alpha beta"]), write("b", ["gamma"])))
            assert store.view().notices == ()
            with nodes[0].frozen():
                hung = store.view()
                assert len(hung.lexical(["alpha"], 10)) == 1 and "the index can't be reached" in hung.notices[0]
            assert store.view().notices == ()
            nodes[0].kill()
            began = time.monotonic()
            store.apply(batch(write("c", ["alpha delta"])))  # acknowledged all the same
            view = store.view()
            found = view.lexical(["alpha"], 10)
            assert sorted(one.chunk.text for one in store.chunks(found.ids).values()) == ["alpha beta", "alpha delta"]
            assert view.nearest(vector("alpha beta"), 5).ids == () and "the index can't be reached" in view.notices[0]
            assert view.document_frequency(["alpha", "zeta"]) == {"alpha": 2, "zeta": 0}
            assert time.monotonic() - began < 60  # far more than it takes: not a hang
            nodes[0].start()
            deadline = time.monotonic() + 60
            while (view := store.view()).notices and time.monotonic() < deadline:
                time.sleep(0.1)
            assert texts_with(store, "alpha") == ["alpha beta", "alpha delta"] and view.notices == ()
            assert store.chunks(view.nearest(vector("alpha delta"), 1).ids)
            assert all(one.ok and not one.repaired for one in store.verify(repair=False))
            store.close()
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_a_postgres_that_stops_answering_is_an_error_and_not_a_hang() -> None:
    try:
        with servers.running(1, in_memory=True) as (postgres, nodes):
            store = filled(servers.address(postgres, nodes, shards="1", replicas="1"))
            store.apply(batch(write("a", ["alpha"])))
            with contextlib.ExitStack() as opened:
                for _ in range(12):
                    opened.enter_context(store.reading())
            with postgres.frozen():
                began = time.monotonic()
                for _ in range(2):
                    with pytest.raises(StoreError, match="Postgres"):
                        store.view()
                assert time.monotonic() - began < 40  # it would never end, or wait for each connection in turn
            assert texts_with(store, "alpha") == ["alpha"]
            store.close()
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_a_lost_index_is_built_anew(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
    state = store.read(state_of)
    assert state is not None
    store._follower.sending.delete(state.name, [store.chunks_of("a")[0].id], store.sequence(), 10)
    index = store.verify(repair=False)[1]
    assert not index.ok and "lacks 1 passages" in index.message
    assert store.verify(repair=True)[1].repaired
    assert texts_with(store, "alpha") == ["alpha"] and store.read(state_of).name == state.name  # it was not built anew
    state = store.read(state_of)
    assert state is not None
    made_in.drop_others(store._nodes, state.name, set)
    view = store.view()
    assert len(view.lexical(["alpha"], 5)) == 1 and "being made" in view.notices[0]  # and it is built anew
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        (view := store.view()).lexical(["alpha"], 5)  # which may find nothing yet, and says so
        if not view.notices:
            break
        time.sleep(0.1)
    assert view.notices == () and texts_with(store, "alpha") == ["alpha"]
    state = store.read(state_of)
    assert state is not None
    made_in.drop_others(store._nodes, state.name, set)
    store.apply(batch(write("c", ["alpha too"])))
    assert texts_with(store, "alpha") == ["alpha", "alpha too"]


def test_an_index_that_is_lost_while_a_search_asks_it_is_answered_from_the_record(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    views = [store.view() for _ in range(2)]
    assert len(store.view().nearest(vector("alpha"), 5)) == 1  # no count is known from this
    state = store.read(state_of)
    assert state is not None
    made_in.drop_others(store._nodes, state.name, set)
    assert len(views[0].lexical(["alpha"], 5)) == 1  # whose counts are the first to miss it
    assert views[1].passages() == 1 and "being made" in views[1].notices[0]


def test_counts_of_an_index_that_is_being_built_are_not_those_of_the_whole(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha", "beta", "alpha too"])))
    monkeypatch.setattr(follower, "_PAGE", 1)
    with only_follower(store) as following:
        store._follower._missing = store.read(state_of).name  # type: ignore[union-attr]
        for _ in range(2):
            assert store._follower._step(following)
        part = store.view()
        assert (part.passages(), "being built" in part.notices[0]) == (1, True)
        while store._follower._step(following):
            pass
    whole = store.view()
    assert (whole.passages(), whole.document_frequency(["alpha"]), whole.notices) == (3, {"alpha": 2}, ())


def test_what_a_node_does_late_undoes_nothing_that_was_written_since(store: SharedStore) -> None:
    """As does one that hung: it goes on with requests that others have been asked for in its place."""
    sent: list[tuple[str, Any]] = []
    call, start = store._nodes.call, store._nodes.start

    def keep(service: str, method: str, request: Any, *limit: float) -> None:
        if method in ("Upsert", "Delete"):
            sent.append((method, request))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store._nodes, "call", lambda *given: (keep(*given), call(*given))[1])
        patched.setattr(store._nodes, "start", lambda *given: (keep(*given), start(*given))[1])
        store.apply(batch(write("a", ["alpha", "beta"]), write("b", ["gamma"])))
        store.apply(batch(write("a", ["delta"]), removes=("b",)))
        # Each page comes behind the head; of three, the second has no passage.
        assert [method for method, _ in sent] == ["Upsert"] * 5 + ["Delete"]
        sent.pop(4)
    store.apply(batch(write("a", ["epsilon", "zeta"]), write("b", ["eta"])))
    for method, request in sent:
        store._nodes.call("Points", method, request)
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
    assert [word for word in words if texts_with(store, word)] == ["epsilon", "zeta", "eta"]
    assert [one.message for one in store.verify(repair=False) if not one.ok] == []


def test_terms_that_a_process_knows_are_those_of_the_text_not_of_the_passage(
    store: SharedStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = filled(address)
    first = dataclasses.replace(write("a", ["alpha"]), terms=("alpha",))
    with monkeypatch.context() as patched:  # another process follows
        patched.setattr(store, "_follow", lambda *_: None)
        store.apply(batch(first))
        assert texts_with(other, "alpha") == ["alpha"]
        patched.setattr(other, "_follow", lambda *_: None)
        other.apply(batch(write("a", ["beta"])))
    assert texts_with(store, "beta") == ["beta"] and texts_with(store, "alpha") == []
    other.close()


def test_doctor_finds_a_passage_as_it_was_before(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    with store._postgres.reading() as db:
        old = points.read(db, [store.chunks_of("a")[0].id])
    store.apply(batch(write("a", ["beta"])))
    assert store.verify(repair=False)[1].ok
    with only_follower(store) as db:
        state = state_of(db)
        assert state is not None
        store._follower.sending.put(db, state.name, old, store.sequence(), 10.0)()  # as nothing does any more
    index = store.verify(repair=False)[1]
    assert not index.ok and "has 1 as they were before" in index.message
    assert store.verify(repair=True)[1].repaired
    assert texts_with(store, "beta") == ["beta"] and texts_with(store, "alpha") == []


def test_an_index_that_is_newer_than_the_record_is_built_anew(store: SharedStore, address: str) -> None:
    """As after Postgres was restored from a backup: what the lost commits wrote would never be replaced."""
    store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
    ids = [store.chunks_of(document)[0].id for document in ("a", "b")]
    with only_follower(store) as db:
        state = state_of(db)
        assert state is not None
        store._follower.sending.put(db, state.name, points.read(db, ids), 10_000, 10.0)()
    other = SharedStore(address)
    other.apply(batch(write("b", ["epsilon"])))
    assert texts_with(other, "epsilon") == ["epsilon"] and texts_with(other, "beta") == []
    other.close()


def test_a_record_that_went_back_while_servers_run_has_its_index_made_anew(tmp_path: Path) -> None:
    """As after a standby was promoted that lacked the last commits, of which none of these servers is told."""

    def insist(work: Callable[[], object]) -> None:
        for _ in range(5):  # connections break
            with contextlib.suppress(StoreError):
                work()
                return

    with contextlib.ExitStack() as stack:
        try:
            postgres, nodes = stack.enter_context(servers.running(1, in_memory=True))
        except servers.Missing as missing:
            pytest.skip(str(missing))
        place = servers.address(postgres, nodes, shards="1", replicas="1")
        first = filled(place)
        stack.callback(first.close)
        second = SharedStore(place)
        stack.callback(second.close)
        first.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
        second.apply(batch(write("c", ["gamma"])))
        with postgres.set_back():
            for text in ("lost", "lost again"):
                insist(lambda text=text: first.apply(batch(write("a", [text]))))  # type: ignore[misc]
            insist(lambda: first.apply(batch(removes=("b",))))
            assert texts_with(first, "lost") == ["lost again"] and texts_with(first, "beta") == []
        for number in range(4):  # more commits than were lost
            insist(lambda number=number: second.apply(batch(write("a", ["delta"]), write(f"more{number}", ["more"]))))  # type: ignore[misc]
        for one in (first, second):
            insist(lambda one=one: one.view())  # type: ignore[misc]
            assert (
                texts_with(one, "delta") == ["delta"]
                and texts_with(one, "beta") == ["beta"]
                and texts_with(one, "lost") == []
            )
        assert second.verify(repair=False)[1].ok


def test_a_hosted_qdrant_that_refuses_filters_without_an_index_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENABLED", "UNINDEXED_FILTERING_UPDATE", "UNINDEXED_FILTERING_RETRIEVE"):
        value = str(name == "ENABLED").lower()
        monkeypatch.setenv(f"QDRANT__STORAGE__COLLECTION__STRICT_MODE__{name}", value)
    try:
        with servers.running(1, in_memory=True) as (postgres, nodes):
            store = filled(servers.address(postgres, nodes, shards="1", replicas="1"))
            store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
            store.apply(batch(write("a", ["gamma"]), removes=("b",)))
            assert [texts_with(store, word) for word in ("alpha", "beta", "gamma")] == [[], [], ["gamma"]]
            assert "every passage" in store.verify(repair=False)[1].message
            store.close()
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_an_index_that_refuses_what_is_written_is_still_searched(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    start = store._nodes.start
    with pytest.MonkeyPatch.context() as patched:

        def refuse(service: str, method: str, *given: Any) -> Any:
            if method == "Upsert":
                raise StoreError("Qdrant refused: a limit is reached")
            return start(service, method, *given)

        patched.setattr(store._nodes, "start", refuse)
        store.apply(batch(write("b", ["alpha beta"])))
        view = store.view()
        assert len(view.lexical(["alpha"], 5)) == 1 and "lags behind" in view.notices[0]
    assert texts_with(store, "beta") == ["alpha beta"]


def test_a_qdrant_that_is_too_old_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Nodes.call

    def old(nodes: Nodes, service: str, method: str, *given: Any, **named: Any) -> Any:
        answer = call(nodes, service, method, *given, **named)
        if method == "HealthCheck":
            answer.version = "1.15.5"
        return answer

    monkeypatch.setattr(Nodes, "call", old)
    store = filled(address)
    with pytest.raises(SettingsError, match=r"Qdrant 1\.15\.5 is too old .*1\.16"):
        store.apply(batch(write("a", ["alpha"])))
    store.close()


def test_doctor_indexes_again_what_does_not_say_what_it_is_made_of(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
    state = store.read(state_of)
    assert state is not None
    _, nodes = servers.for_tests()
    where = {"keys": [points.DIGEST], "points": [store.chunks_of("a")[0].id]}
    url = f"http://127.0.0.1:{nodes[0].http}/collections/{state.name}/points/payload/delete?wait=true"
    assert httpx.post(url, json=where).status_code == 200
    index = store.verify(repair=False)[1]
    assert index.ok and "1 passages that an earlier RefDesk indexed were not compared" in index.message
    assert store.verify(repair=True)[1].repaired
    assert "earlier" not in store.verify(repair=False)[1].message


def test_doctor_finds_what_a_single_replica_brought_back() -> None:
    """A late request makes a passage again that was removed since."""
    import grpc

    try:
        with servers.running(3, in_memory=True) as (postgres, nodes):
            store = filled(servers.address(postgres, nodes, shards="1", replicas="2"))
            sent: list[Any] = []
            start = store._nodes.start
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(store._nodes, "start", lambda *given: (sent.append(given), start(*given))[1])
                store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
            store.apply(Batch(collection="code", removes=("a",)))
            state = store.read(state_of)
            assert state is not None
            late = next(one for *_, one, _ in sent if len(getattr(one, "points", ())) > 1).SerializeToString()
            holder = next(node for node in nodes if node._ask(f"/{state.name}/cluster")["local_shards"])
            length = bytes([len(late) & 127 | 128, len(late) >> 7])  # of what nodes tell each other: it, and the shard
            with grpc.insecure_channel(f"127.0.0.1:{holder._p2p}") as channel:
                channel.unary_unary("/qdrant.PointsInternal/Upsert")(b"\x0a" + length + late + b"\x10\x00", timeout=10)
            assert "has 1 that are gone" in store.verify(repair=False)[1].message
            assert store.verify(repair=True)[1].repaired
            assert "every passage" in store.verify(repair=False)[1].message
            store.close()
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_doctor_compares_all_replicas_or_says_that_it_could_not() -> None:
    try:
        with servers.running(3, in_memory=True) as (postgres, nodes):
            store = filled(servers.address(postgres, nodes))
            store.apply(batch(*(write(f"d{number}", ["alpha"]) for number in range(30))))
            assert "not compared" not in store.verify(repair=False)[1].message
            nodes[0].kill()
            for _ in nodes:  # whichever is asked
                index = store.verify(repair=False)[1]
                assert index.ok and "Some replicas did not answer and were not compared" in index.message
            store.close()
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_until_an_index_for_another_model_is_made_words_alone_are_searched(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    assert len(store.view().nearest(vector("alpha"), 5)) == 1
    with only_follower(store):  # so that nobody makes it
        store.set_embedder_identity(dataclasses.replace(IDENTITY, name="another"))
        view = store.view()
        assert len(view.nearest(vector("alpha"), 5)) == len(view.both(["alpha"], vector("alpha"), 5)[1]) == 0
        assert view.cosines(vector("alpha"), [store.chunks_of("a")[0].id]) == {}
        assert len(view.lexical(["alpha"], 5)) == 1 and "being built" in view.notices[0]


def test_doctor_takes_what_others_write_meanwhile_for_no_damage(store: SharedStore, address: str) -> None:
    store.apply(batch(*(write(f"d{number}", ["alpha"]) for number in range(20))))
    stop = threading.Event()

    def change() -> None:
        other = SharedStore(address)
        for number in itertools.count():
            if stop.is_set():
                break
            other.apply(batch(write(f"e{number}", ["beta"]), removes=(f"e{number - 1}",) * bool(number)))
        other.close()

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            found = [store.verify(repair=True)[1] for _ in range(40)]
        finally:
            stop.set()
        changing.result(60)
    assert [one for one in found if not one.ok or one.repaired] == []


def test_a_collection_that_a_killed_process_made_is_removed(store: SharedStore) -> None:
    _, (node,) = servers.for_tests()
    store.apply(batch(write("a", ["alpha"])))
    before = store.read(state_of)
    assert before is not None
    stray = before.name[:-8] + "killed"  # it was killed before it told the record
    made_in.create(store._nodes, store.address, stray, 0)
    with store.writing(), store.transaction() as db:
        condemn(db)
    store._follower.catch_up(store.sequence(), 60)
    state = store.read(state_of)
    assert state is not None
    until(lambda: {before.name, stray, state.name} & set(node._collections) == {state.name})
    assert {before.name, stray, state.name} & set(node._collections) == {state.name}
    assert texts_with(store, "alpha") == ["alpha"]


def test_attempts_to_make_an_index_that_fail_do_not_fill_qdrant(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (node,) = servers.for_tests()
    store.apply(batch(write("a", ["alpha"])))
    before = store.read(state_of)
    assert before is not None

    def refuse(*_: object, **__: object) -> None:
        raise IndexAway("The nodes are busy.")

    with only_follower(store) as db:
        condemn(db)
        with monkeypatch.context() as failing:
            failing.setattr(made_in, "optimise", refuse)
            for _ in range(4):
                with pytest.raises(IndexAway):
                    store._follower._step(db)
        own = [name for name in node._collections if name.startswith(f"{store.address.schema}_")]
        assert before.name in own and len(own) == 2  # what is searched until then, and the last attempt
    store._follower.catch_up(store.sequence(), 60)
    assert texts_with(store, "alpha") == ["alpha"]


def test_who_is_not_waited_for_leaves_the_index_to_others(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    with only_follower(store):  # one that hangs
        told = is_wanted.set(lambda: False)
        try:
            with store.stretch():  # whose end waits for the index, for hours
                store.apply(batch(write("b", ["alpha"])))
        finally:
            is_wanted.reset(told)
    deadline = time.monotonic() + 60
    while store.view().notices and time.monotonic() < deadline:
        time.sleep(0.05)
    assert texts_with(store, "alpha") == ["alpha", "alpha"]


def test_what_is_written_beside_a_long_run_of_the_same_process_is_found_at_once(
    address: str, store: SharedStore
) -> None:
    other = SharedStore(address)
    with ThreadPoolExecutor(1) as threads, store.stretch():
        store.apply(batch(write("long", ["alpha"])))
        threads.submit(store.apply, batch(write("short", ["beta"]))).result()
        assert texts_with(other, "beta") == ["beta"]
        tokens = [
            row[0] for row in store.read(lambda db: db.execute("SELECT token FROM commits ORDER BY seq").fetchall())
        ]
        assert [token.startswith(LONG) for token in tokens[-2:]] == [True, False]  # readers wait for the latter
    other.close()


def test_no_passage_goes_before_all_that_replace_it_are_there(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdrant_client import grpc as messages

    monkeypatch.setattr(follower, "_PAGE", 2)
    store.apply(batch(write("a", [chunk(f"old{at}", key=f"old{at}") for at in range(5)])))
    delete, there = store._follower.sending.delete, []

    def deleting(name: str, *given: Any) -> None:
        request = messages.CountPoints(
            collection_name=name, exact=True, filter=points.within(Scope(EVERYTHING, None, None))
        )
        there.append(store._nodes.call("Points", "Count", request).result.count)
        delete(name, *given)

    monkeypatch.setattr(store._follower.sending, "delete", deleting)
    store.apply(batch(write("a", [chunk(f"new{at}", key=f"new{at}") for at in range(5)])))
    assert there[0] == 1 + 5 + 5  # with the head
    assert len(texts_with(store, "old0")) == 0 and len(texts_with(store, "new4")) == 1


def test_a_reader_leaves_a_large_commit_to_the_background(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    with only_follower(store) as db:
        told = is_wanted.set(lambda: False)
        try:
            store.apply(batch(write("b", [f"beta {number}" for number in range(4100)])))
        finally:
            is_wanted.reset(told)
        before = state_of(db)
        assert not store._follower._step(db, time.monotonic() + 1, creates=False) and state_of(db) == before
    deadline = time.monotonic() + 60
    while store.view().notices and time.monotonic() < deadline:
        time.sleep(0.05)
    assert store.view().document_frequency(["beta"]) == {"beta": 4100}


def test_a_long_wait_for_the_write_lock_leaves_no_time_limit(store: SharedStore) -> None:
    with store.writing(), store.transaction() as db:
        assert db.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_every_character_is_kept(store: SharedStore) -> None:
    odd = "\\N\ta \\. b\r\n\\x41 '\"{},\u2028\U0001f3ee é"
    store.apply(batch(write("a", [f"alpha {odd}"]), write("b", ["beta \0 gamma"])))
    assert texts_with(store, "alpha") == [f"alpha {odd}"] and store.chunks_of("a")[0].chunk.text == f"alpha {odd}"
    assert texts_with(store, "beta") == ["beta \ufffd gamma"]


def test_an_index_for_fewer_nodes_is_built_anew_with_more_shards_by_doctor(store: SharedStore, address: str) -> None:
    store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
    other = SharedStore(address.replace("shards=1", "shards=3"))
    index = other.verify(repair=False)[1]
    assert not index.ok and "1 shards where 3 are wanted" in index.message
    assert other.verify(repair=True)[1].repaired
    assert other.verify(repair=False)[1].ok and store.verify(repair=False)[1].ok  # nor does who asks for fewer go back
    other.close()
    assert texts_with(store, "alpha") == ["alpha"]


def test_graphs_are_built_once_all_passages_of_a_new_index_are_there(store: SharedStore) -> None:
    _, (node,) = servers.for_tests()
    store.apply(batch(write("a", ["alpha", "beta"])))
    seen = []
    with only_follower(store) as db:
        with store.writing(), store.transaction() as writing:
            condemn(writing)
        while store._follower._step(db):
            state = state_of(db)
            assert state is not None
            seen.append((state.built is None, node.builds_graphs(state.name)))
        while store._follower._finish(db):
            pass
    assert seen == [(False, False), (False, False), (True, False)]
    assert state is not None and node.builds_graphs(state.name)
    config = node._ask(f"/{state.name}")["config"]
    assert config["hnsw_config"]["payload_m"] == 0  # none for each frequent term
    assert config["optimizer_config"]["max_segment_size"] == 100_000  # a larger one takes too much memory to merge


@pytest.mark.parametrize("is_of_another_model", [False, True])
def test_the_last_index_is_searched_until_the_next_is_whole(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch, is_of_another_model: bool
) -> None:
    from qdrant_client import grpc as messages

    store.apply(batch(write("a", ["alpha", "alpha beta", "alpha gamma"])))
    old = store.read(state_of)
    assert old is not None
    monkeypatch.setattr(follower, "_PAGE", 1)
    with only_follower(store) as following:
        if is_of_another_model:
            store.set_embedder_identity(dataclasses.replace(IDENTITY, name="another"))
        else:
            with store.writing(), store.transaction(logged=False) as db:
                condemn(db)
        for steps in range(5):  # it is made, and has a page more each time
            view = store.view()
            assert len(view.lexical(["alpha"], 5)) == 3 and "being built" in view.notices[0]
            assert len(view.nearest(vector("alpha"), 1)) == (0 if is_of_another_model else 1)
            assert store._follower._step(following), steps
        while store._follower._step(following) or store._follower._finish(following):
            pass
        new = store.read(state_of)
        assert new is not None and new.name != old.name
        listed = store._nodes.call("Collections", "List", messages.ListCollectionsRequest()).collections
        assert [one.name for one in listed if one.name.startswith(old.name.rpartition("_")[0])] == [new.name]
    assert len(store.view().lexical(["alpha"], 5)) == 3 and store.view().notices == ()


def test_what_changes_while_an_index_is_built_anew_is_in_it(store: SharedStore) -> None:
    store.apply(batch(write("a", [f"alpha {number}" for number in range(4100)]), write("c", ["gamma"])))  # two pages
    with only_follower(store) as following:
        with store.writing(), store.transaction() as db:
            condemn(db)
        for _ in range(2):  # the second page is read then, and not sent
            assert store._follower._step(following)
        told = is_wanted.set(lambda: False)
        try:
            store.apply(batch(write("b", ["beta"]), removes=("a",)))
        finally:
            is_wanted.reset(told)
        while store._follower._step(following) or store._follower._finish(following):
            pass
    time.sleep(1)  # Qdrant merges segments
    found = store.verify(repair=True)
    assert [one for one in found if not one.ok or one.repaired] == []
    assert store.view().document_frequency(["alpha", "beta", "gamma"]) == {"alpha": 0, "beta": 1, "gamma": 1}


def test_graphs_are_built_at_the_end_of_the_run_that_fills_a_library(address: str, store: SharedStore) -> None:
    _, (node,) = servers.for_tests()

    def builds_graphs() -> bool:
        state = store.read(state_of)
        return state is not None and node.builds_graphs(state.name)

    with store.stretch():
        store.apply(batch(write("a", ["alpha"])))
        store._follower.catch_up(store.sequence(), 60)
        assert not builds_graphs()
    deadline = time.monotonic() + 60
    while not builds_graphs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert builds_graphs()
    with store.stretch():  # what is there keeps its graphs
        store.apply(batch(write("b", ["beta"])))
        store._follower.catch_up(store.sequence(), 60)
        assert builds_graphs()
    killed = SharedStore(address)
    with killed._postgres.stretch():
        with store.writing(), store.transaction() as db:
            condemn(db)
        store._follower.catch_up(store.sequence(), 60)
        assert not builds_graphs()
    deadline = time.monotonic() + 60
    while not builds_graphs() and time.monotonic() < deadline:
        assert len(store.view().lexical(["alpha"], 5)) == 1  # whoever asks next sees to it
    assert builds_graphs()
    killed.close()


def test_nodes_that_were_started_again_are_told_once_to_go_on_with_their_graphs(
    address: str, store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdrant_client import grpc as messages

    store.apply(batch(write("a", ["alpha"])))
    until(lambda: store.read(lambda db: meta(db, "index without graphs")) == "")
    other = SharedStore(address)
    call, told = other._nodes.call, list[str]()

    def started_again(service: str, method: str, request: Any, *more: Any, node: str = "") -> Any:
        if method == "Update":
            told.append(request.collection_name)
        answer = call(service, method, request, *more, node=node)
        if (service, method) == ("Collections", "Get"):
            answer.result.status = messages.CollectionStatus.Grey
        return answer

    monkeypatch.setattr(other._nodes, "call", started_again)
    state = store.read(state_of)
    other.view()
    until(lambda: bool(told))
    until(lambda: other._follower._thread is None)
    other.view()
    other.close()
    assert state is not None and told == [state.name]


def test_a_long_run_waits_for_nodes_that_are_too_busy_to_answer_once(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up, failures = store._follower.catch_up, iter([IndexAway("busy")] * 2)

    def busy(*given: Any, **more: Any) -> Any:
        if (failure := next(failures, None)) is not None:
            raise failure
        return catch_up(*given, **more)

    monkeypatch.setattr(shared_store, "_AGAIN_S", 0.0)
    monkeypatch.setattr(shared_store, "_LONG_S", 0.0)
    monkeypatch.setattr(store._follower, "catch_up", busy)
    monkeypatch.setattr(store._follower, "wake", lambda: None)
    with store.stretch():
        store.apply(batch(write("a.md", ["alpha"])))
    with store.reading() as db:
        state = state_of(db)
    assert state is not None and state.built is None and state.seq == store.sequence()


def test_doctor_takes_an_index_that_is_still_being_made_for_no_damage(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._follower, "wake", lambda: None)
    store.apply(batch(write("a.md", ["alpha"])))
    step = store._follower._step

    def short_of_time(db: Translating, *given: Any, **more: Any) -> bool:
        step(db, *given, **more)
        raise IndexAway("deadline exceeded")

    with store.writing(), store.transaction() as db:
        condemn(db)
    monkeypatch.setattr(store._follower, "_step", short_of_time)
    found = store.verify(repair=False)[1]
    assert found.ok and "catching up" in found.message


def test_what_a_killed_writer_left_is_indexed_by_the_next_query(address: str) -> None:
    dead, alive = filled(address), SharedStore(address)
    dead._follower.catch_up = lambda *_, **__: None  # type: ignore[method-assign, assignment, return-value]
    dead.apply(batch(write("a", ["alpha"])))
    assert texts_with(alive, "alpha") == ["alpha"]
    dead.close()
    alive.close()


def test_a_wrong_name_in_the_address_is_not_said_to_be_a_server_that_does_not_answer(address: str) -> None:
    for wrong, said in (("/nodb?", 'database "nodb" does not exist.'), ("//nobody@", 'role "nobody" does not exist.')):
        with pytest.raises(StoreError, match=f"Postgres refused the connection: {said} Correct"):
            SharedStore(address.replace("/postgres?" if "?" in wrong else "//refdesk@", wrong))


def test_a_commit_without_passages_is_not_said_to_be_missing_from_the_index(address: str, store: SharedStore) -> None:
    with store.stretch():
        store.apply(batch(write("a", ["alpha"])))
    store.put_collection(collection("other"))
    alone = SharedStore(address)
    assert alone.view().notices == ()
    alone.close()


def test_a_library_is_copied_up_and_down(address: str, tmp_path: Path) -> None:
    below = LocalStore(tmp_path / "below")
    below.put_collection(collection())
    below.set_embedder_identity(IDENTITY)
    below.apply(batch(write("a", [chunk("alpha", key="k"), chunk("beta nul \0", key="k")]), write("b", ["gamma"])))
    below.put_collection(dataclasses.replace(collection("empty"), description="of nothing"))
    fresh = SharedStore(address)
    again = LocalStore(tmp_path / "again")
    try:
        counts = copy(below, fresh, lambda done, total, table: None)
        assert counts == {"collections": 2, "documents": 2, "chunks": 3, "vectors": 3, "skills": 0}
        assert texts_with(fresh, "alpha") == ["alpha"] and fresh.embedder_identity() == IDENTITY
        fresh.apply(batch(write("c", ["delta"])))  # its numbers go on
        copy(fresh, again, lambda done, total, table: None)
        assert [one.path for one in again.documents("", 10, 0)] == [one.path for one in fresh.documents("", 10, 0)]
        assert again.raw("a") == below.raw("a")
        assert again.collections() == fresh.collections()
        assert all(one.ok for one in again.verify(repair=True))
        assert len(again.view().nearest(vector("gamma"), 10)) == 4
        assert RecordPlaybooks(again).list_skills() == []
        with pytest.raises(InvalidInput, match="not empty"):
            copy(below, again, lambda done, total, table: None)
    finally:
        for one in (below, fresh, again):
            one.close()


def test_a_copy_may_take_longer_than_a_query(store: SharedStore) -> None:
    with store.snapshot() as db:
        db.execute("SELECT pg_sleep(5)")
        assert db.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
    with pytest.raises(StoreError, match="too long"), store.reading() as db:
        db.execute("SELECT pg_sleep(60)")


def test_a_backup_has_the_state_of_crawls_and_the_description_of_the_docs(address: str, tmp_path: Path) -> None:
    beside = Library(tmp_path / "beside")
    store = SharedStore(address, beside=beside)
    store.put_collection(collection())
    store.apply(batch(write("a", ["alpha"], vectors=False)))
    state = CrawlState(store.crawls, "SITE")
    state.begin_round("https://example.org/")
    state.add([Entry(f"https://example.org/{number}", 1) for number in range(50)])
    beside.metadata.write_text('{"corpus_description": "of lanterns"}')
    store.share_metadata()
    assert back_up(store, beside, tmp_path / "copy")["pages"] == 50
    assert "of lanterns" in (tmp_path / "copy" / "metadata.json").read_text()
    with pytest.raises(InvalidInput):
        back_up(store, beside, tmp_path / "copy")
    with contextlib.closing(LocalStore(tmp_path / "copy")) as copied:
        assert texts_with(copied, "alpha") == texts_with(store, "alpha") == ["alpha"]
        assert all(one.ok for one in copied.verify(repair=False))
    elsewhere = Library(tmp_path / "elsewhere")  # another machine
    other = SharedStore(address, beside=elsewhere)
    assert "of lanterns" in elsewhere.metadata.read_text()
    beside.metadata.write_text('{"corpus_description": "of fish"}')
    store.share_metadata()
    other.collections()
    assert "of fish" in elsewhere.metadata.read_text()
    for one in (store, other):
        one.close()


def test_two_servers_are_one_but_for_sessions(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(5):
        (docs / f"{number}.md").write_text(f"# Lantern {number}\n\nA lantern of kind {number} needs oil.\n")
    main = Path(refdesk.__file__).with_name("__main__.py")
    index = [sys.executable, str(main), "--library", address, "index", str(docs), "--kind", "docs"]
    subprocess.run(index, check=True, capture_output=True)
    arguments = ("--library", address, "serve", "--transport", "http", "--port", "0", "--allow-root", str(tmp_path))
    with contextlib.ExitStack() as opened:
        first, second = (opened.enter_context(HttpServer(main, *arguments)) for _ in range(2))
        one, other = (opened.enter_context(HttpClient(server.url)) for server in (first, second))

        def call(client: HttpClient, tool: str, given: dict[str, object]) -> dict[str, Any]:
            params = {"name": tool, "arguments": given, "_meta": {"correlationId": "lantern-7"}}
            result: dict[str, Any] = client.modern("tools/call", params)["result"]
            assert not result["isError"], result
            return dict(result["structuredContent"])

        asked: dict[str, object] = {"query": "lantern oil", "limit": 2}
        seen = call(one, "search_docs", asked)
        then = call(other, "search_docs", {**asked, "cursor": seen["next_cursor"]})  # of the other server
        assert len({hit["chunk_id"] for hit in seen["hits"] + then["hits"]}) == 4
        (tmp_path / "note.md").write_text("# Harp\n\nA harp needs strings.\n")
        call(one, "rag_create_collection", {"name": "notes"})
        call(one, "rag_ingest", {"uri": (tmp_path / "note.md").as_uri(), "collection": "notes"})
        found = call(other, "rag_search", {"query": "harp strings", "collection": "notes"})
        assert "needs strings" in json.dumps(found)
        one.initialize()  # a session, with its tasks, is its server's
        session = {key: one.headers[key] for key in ("mcp-session-id", "mcp-protocol-version")}
        astray = opened.enter_context(HttpClient(second.url, headers=session))
        answer = astray.post({"jsonrpc": "2.0", "id": 1, "method": "tasks/list"})
        assert answer.status_code == 404 and "must go to the server that opened it" in answer.json()["error"]["message"]
        figures = httpx.get(f"{second.root}/metrics").text
        assert 'refdesk_calls_total{tool="rag_search",outcome="' in figures and "refdesk_index_behind{" in figures
        assert 'refdesk_call_seconds_count{tool="rag_search"' in figures
    said = [json.loads(line) for line in second.log]  # every line
    assert any(line.get("correlation_id") == "lantern-7" for line in said), said[-3:]


def test_a_scrape_reads_from_the_record_how_far_the_index_is_behind(
    store: SharedStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--library", address, "serve", "--toolsets", "rag", "--transport", "http", "--port", "0")
    store.apply(batch(write("a", ["alpha"])))
    with HttpServer(Path(refdesk.__file__).with_name("__main__.py"), *arguments) as server:

        def behind() -> list[int]:
            answer = httpx.get(f"{server.root}/metrics", timeout=60)
            assert answer.status_code == 200
            return [int(line.split()[-1]) for line in answer.text.splitlines() if line.startswith("refdesk_index_beh")]

        deadline = time.monotonic() + 60
        while not behind() and time.monotonic() < deadline:  # it loads
            time.sleep(0.05)
        assert behind() == [0]  # on a server that was never asked anything
        with only_follower(store), monkeypatch.context() as patched:
            patched.setattr(store._follower, "catch_up", lambda *_, **__: None)
            patched.setattr(store._follower, "wake", lambda: None)
            for name in "bc":
                store.apply(batch(write(name, [name])))
            assert behind() == [2]
        store._follower.catch_up(store.sequence(), 60)
        assert behind() == [0]
        store.put_collection(collection("other"))
        assert behind() == [0]  # no passage has changed
        with servers.for_tests()[0].frozen():
            began = time.monotonic()
            assert behind() == []
            assert time.monotonic() - began < 4  # it waits for one second, and for no connection
        assert behind() == [0]


def test_what_documents_are_about_is_read_without_their_vectors(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha beta", "gamma"]), write("b", ["beta"])))
    asked, ids = vector("alpha beta"), [one.id for name in "ab" for one in store.chunks_of(name)]
    before = store.view().topics(asked, ids)
    assert {topic.passages for topic in before.values()} == {1, 2}
    store.note(lambda db: db.execute("UPDATE vectors SET numbers = ''"))
    assert store.view().topics(asked, ids) == before
    store.note(lambda db: db.execute("UPDATE documents SET raw = raw + 1000"))  # an earlier RefDesk wrote all anew
    assert store.view().topics(asked, ids) == {}  # so it looks for vectors
    store.apply(Batch(collection="code", removes=("a", "b")))
    assert store.read(lambda db: db.execute("SELECT count(*) FROM means").fetchone()[0]) == 0


def test_old_servers_go_on_while_a_new_one_changes_the_tables(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = filled(address)
    old.apply(batch(write("a", ["alpha"])))
    is_filling, may_end = threading.Event(), threading.Event()

    def add(db: Connection) -> None:
        db.execute("ALTER TABLE documents ADD COLUMN mood TEXT NOT NULL DEFAULT ''")
        db.execute("ALTER TABLE chunks ADD COLUMN mood TEXT NOT NULL DEFAULT ''")

    def fill(db: Connection) -> None:
        db.execute("UPDATE documents SET mood = 'calm'")
        is_filling.set()
        assert may_end.wait(60)

    def works() -> bool:
        view = old.view()
        found = view.lexical(["alpha"], 5)
        topics = view.topics(vector("alpha"), found.ids)
        return len(old.chunks(found.ids)) == len(topics) == 1 and old.documents("code", 9, 0)[0].path == "src/a.py"

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add, fill))  # those of the next version
    with ThreadPoolExecutor(1) as beside:
        with old.snapshot() as backup:
            assert len(backup.execute("SELECT * FROM documents").fetchall()) == 1
            opened = beside.submit(SharedStore, address)  # waits for the end of the backup
            for _ in range(4):
                assert works() and not opened.done()
                time.sleep(0.5)
        while not is_filling.wait(0.1):
            assert works() and not opened.done()
        assert works() and not opened.done()
        may_end.set()
        new = opened.result(60)
    old.apply(batch(write("b", ["beta"])))
    assert works() and texts_with(new, "beta") == ["beta"]
    moods = new.read(lambda db: db.execute("SELECT path, mood FROM documents ORDER BY path").fetchall())
    assert moods == [("src/a.py", "calm"), ("src/b.py", "")]
    monkeypatch.undo()
    with pytest.raises(LibraryTooNew):
        SharedStore(address)
    for one in (old, new):
        one.close()


def test_an_index_that_a_later_version_made_is_left_alone_by_earlier_ones(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = filled(address)
    old.apply(batch(write("a", ["alpha"])))
    with monkeypatch.context() as later:
        later.setattr(shared_state, "ANALYSED", shared_state.ANALYSED + 1)
        new = SharedStore(address)
        with only_follower(new) as db:  # the background may have left nothing to do
            while new._follower._step(db) or new._follower._finish(db):
                pass
    made = old.read(state_of)
    assert made is not None and made.is_later and made.built is None
    old.apply(batch(write("b", ["alpha"])))
    assert old._follower.catch_up(old.sequence(), 0).state == made  # at once, though the index is behind
    assert texts_with(old, "alpha") == ["alpha"] * 2 and "later RefDesk" in old.view().notices[0]
    assert not (checked := old.verify(repair=True)[1]).ok and "later RefDesk" in checked.message
    assert old.behind() == 1 and old.read(state_of) == made
    old.close()
    with monkeypatch.context() as later:
        later.setattr(shared_state, "ANALYSED", shared_state.ANALYSED + 1)
        assert texts_with(new, "alpha") == ["alpha"] * 2 and new.view().notices == ()
        state = new.read(state_of)
        assert state is not None and state.name == made.name
        new.close()


def test_a_search_goes_on_while_the_vectors_are_replaced_by_longer_ones(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha", "beta"])))
    view = store.view()
    ids = view.lexical(["alpha"], 5).ids
    assert view.cosines(vector("alpha"), ids)
    store.set_embedder_identity(EmbedderIdentity("wide", "1", 256))
    wide = np.eye(256, dtype=np.float32)
    store.apply(
        Batch(
            collection="code",
            writes=(write("a", ["alpha", "beta"]),),
            vectors={key("alpha"): wide[0], key("beta"): wide[1]},
        )
    )
    assert view.cosines(vector("alpha"), ids) == {}


def test_vectors_of_16_bits_and_rows_of_symbols_are_packed_when_a_library_is_opened(address: str) -> None:
    def answers(store: SharedStore) -> tuple[object, ...]:
        nearest = store.view().nearest(vector("alpha beta"), 5)
        scores = [round(float(score), 2) for score in nearest.scores]
        return nearest.ids, scores, store.symbols_named("run"), texts_with(store, "beta")

    old = filled(address)
    symbols = tuple(Symbol("run", f"Till{n}.run", "method", n, n + 1, "def run(self)", "") for n in range(1, 100))
    old.apply(batch(write("a", ["alpha beta", "gamma"], symbols=symbols), write("b", ["beta"])))
    before = answers(old)
    with old.writing(), old.transaction() as db:
        make_version_8(db)
    old.close()
    new = SharedStore(address)
    length = new.read(lambda db: db.execute("SELECT max(length(numbers)) FROM vectors").fetchone()[0])
    assert answers(new) == before and length == IDENTITY.dimension
    assert all(one.ok for one in new.verify(repair=False))
    new.close()


@pytest.mark.parametrize("quantisation", ["int8", "binary"])
def test_codes_find_what_is_nearest_and_scores_are_exact(
    address: str, quantisation: str, request: pytest.FixtureRequest
) -> None:
    _, (node,) = servers.for_tests()
    store = SharedStore(f"{address}&quantisation={quantisation}")
    request.addfinalizer(store.close)
    store.put_collection(collection())
    store.set_embedder_identity(EmbedderIdentity("wide", "1", 256))
    made = np.random.default_rng(1).normal(size=(5000, 256)).astype(np.float32)  # enough to have codes
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    names = [f"passage {number}" for number in range(len(made))]
    vectors = {key(name): row for name, row in zip(names, made, strict=True)}
    store.apply(Batch(collection="code", writes=(write("a", names),), vectors=vectors))
    state = store.read(state_of)
    assert state is not None
    deadline = time.monotonic() + 60
    while not (node.is_optimised() and node.indexed(state.name) > 1.5 * len(made)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert node.indexed(state.name) > 1.5 * len(made)  # all by words, most by meaning
    shared = []
    for number in range(20):
        asked = made[number] + 0.8 * made[number + 1000]
        asked /= np.linalg.norm(asked)
        exact = made @ asked
        found = store.view().nearest(asked, 10)
        texts = store.chunks(found.ids)
        places = [int(texts[one].chunk.text.split()[1]) for one in found.ids]
        assert places[0] == number
        assert np.allclose(found.scores, exact[places], atol=2e-3)  # not those of codes
        shared.append(len(set(places) & set(np.argsort(-exact)[:10].tolist())))
    assert np.mean(shared) > 8  # of vectors without any structure, the hardest case


def test_tables_of_a_later_version_are_refused(store: SharedStore, address: str) -> None:
    with store.writing(), store.transaction() as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'own version'")
    with pytest.raises(LibraryTooNew):
        SharedStore(address, lock_timeout_s=1)


# --- addresses and secrets ------------------------------------------------------------------------


def test_an_address_names_servers_and_options() -> None:
    found = addresses.parse("postgres://u@db:1/kb?index=qdrants://q1:6334,q2&schema=team&shards=3&sslmode=require")
    assert found.record == "postgresql://u@db:1/kb?sslmode=require"
    assert (found.nodes, found.is_encrypted, found.schema) == (("q1:6334", "q2:6334"), True, "team")
    assert (found.shards, found.replicas, found.quantisation) == (3, 2, "binary")
    assert addresses.parse("postgres://db/kb?index=qdrant://q1,q2").shards == 6
    for wrong in (
        "postgres://db/kb",
        "postgres:///kb?index=qdrant://q",
        "postgres://db/kb?index=qdrant://q&schema=a-b",
    ):
        with pytest.raises(SettingsError):
            addresses.parse(wrong)


def test_a_password_is_refused_on_the_command_line_and_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared = "postgres://u:hunter2@127.0.0.1:1/kb?index=qdrant://127.0.0.1:1"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match="list of processes") as refused:
        load({"library": shared}, {}, tmp_path)
    assert "hunter2" not in str(refused.value)
    settings = load({}, {"REFDESK_LIBRARY": shared, "REFDESK_QDRANT_API_KEY": "k3y"}, tmp_path)
    assert settings.database == shared and "hunter2" not in repr(settings) and "k3y" not in repr(settings)
    assert settings.library.is_relative_to(tmp_path)
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreError, match="Postgres does not answer") as away:
        SharedStore(shared)
    assert "hunter2" not in caplog.text and "hunter2" not in str(away.value)
    command = [sys.executable, "-m", "refdesk", "stats"]
    environment = {**os.environ, "REFDESK_LIBRARY": shared}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 7 and "hunter2" not in done.stdout + done.stderr


def test_passages_are_looked_up_by_their_ids_however_many_are_asked_for(store: SharedStore) -> None:
    many = [chunk(f"passage {number}", number) for number in range(600)]
    store.apply(batch(write("a.md", many)))
    with store.reading() as db:
        ids = [row[0] for row in db.execute("SELECT id FROM chunks").fetchall()]
        assert len(points.read(db, ids[:500])) == 500
        asked, _ = translated(f"{points._SELECT} WHERE c.id IN (SELECT value FROM json_each(?))")
        db.execute(f"PREPARE asked AS {asked.replace('%s', '$1')}")
        plan = str(db.execute(f"EXPLAIN EXECUTE asked ('{{{str(ids[:500])[1:-1]}}}')").fetchall())
    assert "Seq Scan" not in plan and all(f"{table}_pkey" in plan for table in ("chunks", "texts", "vectors"))
    assert "Hash" not in plan and "Merge" not in plan


def test_statements_are_translated() -> None:
    assert translated("SELECT ':kept ?', x FROM t WHERE a = ? AND b = :name AND c LIKE 'x%'") == (
        "SELECT ':kept ?', x FROM t WHERE a = %s AND b = %(name)s AND c LIKE 'x%%'", ()
    )  # fmt: skip
    listed = "SELECT a FROM t WHERE b = ? AND c.id IN ({0}) AND d IN ({0})".format("SELECT value FROM json_each(?)")
    assert translated(listed) == (
        "SELECT a FROM t WHERE b = %s AND c.id = ANY(%s::bigint[]) AND d = ANY(%s::text[])", (1, 2)
    )  # fmt: skip
    made, _ = translated("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b BLOB) STRICT, WITHOUT ROWID")
    assert made == (
        'CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a TEXT COLLATE "C" NOT NULL, b BYTEA)'
    )
