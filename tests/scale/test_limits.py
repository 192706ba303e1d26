"""No request on a shared library waits beyond its limit for a server that hangs, nor for others that wait for it."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from qdrant_client import grpc as messages

import refdesk
from refdesk.errors import StoreError
from refdesk.store.shared import address as addresses
from refdesk.store.shared import database, dialect, nodes, scan
from refdesk.store.shared.state import state_of
from refdesk.store.shared.store import SharedStore
from refdesk.system.wanted import Outage, wanted_since
from tests.mcp_client.http import HttpClient, HttpServer
from tests.mcp_client.stdio import environment
from tests.ports.library import IDENTITY, batch, collection, write
from tests.scale import servers

LONG_S = 25.0  # far more than a request takes when a server hangs, and less than it took
_number = itertools.count()


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[servers.Postgres, list[servers.Qdrant]]]:
    """Servers that these tests may stop."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(servers.running(1, in_memory=True))
        except servers.Missing as missing:
            pytest.skip(str(missing))
        yield found


@pytest.fixture
def address(running: tuple[servers.Postgres, list[servers.Qdrant]]) -> str:
    """The address of a new library."""
    return servers.address(*running, schema=f"limits{next(_number)}", shards="1", replicas="1")


@pytest.fixture
def store(address: str) -> Iterator[SharedStore]:
    made = SharedStore(address)
    made.put_collection(collection())
    made.set_embedder_identity(IDENTITY)
    yield made
    made.close()


def _call() -> Context:
    """The context of a call that arrives now."""
    context = copy_context()
    context.run(wanted_since.set, time.monotonic())
    return context


def _in_turn(count: int, work: Callable[[], object]) -> list[str]:
    """What calls say that arrive together and take turns, two at a time; waits for them."""

    def call(context: Context) -> str:
        try:
            return str(context.run(work))
        except StoreError as error:
            return str(error)

    with ThreadPoolExecutor(2) as threads:
        return [one.result() for one in [threads.submit(call, _call()) for _ in range(count)]]


def test_the_first_calls_of_a_server_do_not_wait_one_after_another_for_postgres(
    running: tuple[servers.Postgres, list[servers.Qdrant]], address: str
) -> None:
    arguments = ("--library", address, "serve", "--toolsets", "rag", "--transport", "http", "--port", "0")
    asked = {"name": "rag_search", "arguments": {"query": "alpha"}}

    def ask(url: str) -> str:
        with HttpClient(url) as client:
            return str(client.modern("tools/call", asked))

    with HttpServer(Path(refdesk.__file__).with_name("__main__.py"), *arguments) as server, running[0].frozen():
        began = time.monotonic()
        with ThreadPoolExecutor(16) as threads:
            said = list(threads.map(ask, [server.url] * 16))
        assert all("Postgres does not answer" in one for one in said)
        assert time.monotonic() - began < LONG_S  # each waited for three seconds, after all before it


def test_playbooks_say_what_their_contract_says_while_postgres_is_away(
    running: tuple[servers.Postgres, list[servers.Qdrant]], address: str
) -> None:
    arguments = ("--library", address, "serve", "--toolsets", "rag,skills", "--transport", "http", "--port", "0")
    talk = "Customer: The router is offline.\nAgent: Restart it.\nCustomer: That helped."
    asked: dict[str, dict[str, object]] = {
        "search_skills": {"query": "router offline"},
        "create_skill": {"conversation": talk},
        "update_skill": {"skill_id": "x", "conversation": talk},
    }
    with (
        HttpServer(Path(refdesk.__file__).with_name("__main__.py"), *arguments) as server,
        HttpClient(server.url) as to,
    ):

        def call(name: str, given: dict[str, object]) -> str:
            began = time.monotonic()
            result = to.modern("tools/call", {"name": name, "arguments": given})["result"]
            assert time.monotonic() - began < LONG_S
            return str(result["content"][0]["text"])

        def all_are_refused() -> None:
            for name, given in asked.items():
                assert call(name, given) == "Database connection failed: timeout after 5s"
            assert "Postgres does not answer" in call("rag_search", {"query": "router"})

        running[0].stop()
        try:
            all_are_refused()  # the library was never opened
        finally:
            running[0].start()
        assert '"skill": null' in call("search_skills", asked["search_skills"])  # at once when it is back
        with running[0].frozen():
            all_are_refused()
    assert any("Postgres does not answer" in line and '"warning"' in line.lower() for line in server.log)


def test_who_waits_behind_a_call_that_postgres_does_not_answer_fails_with_it(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    tried = []

    def connect(*given: Any) -> Any:
        tried.append(given)
        return dialect.connect(*given)

    monkeypatch.setattr(database, "connect", connect)
    with running[0].frozen():
        assert all("Postgres does not answer" in one for one in _in_turn(14, store.sequence))
        assert len(tried) <= 2  # those that had the first turns
    assert store.sequence() > 0  # at once when it is back


def test_writers_that_wait_leave_connections_to_readers(address: str, store: SharedStore) -> None:
    store._follower.catch_up(store.sequence(), 60)  # making an index may take a busy machine longer than a reader waits
    other = SharedStore(address)
    writers = [threading.Thread(target=store.put_collection, args=(collection(f"c{n}"),)) for n in range(20)]
    with other.writing():
        for writer in writers:
            writer.start()
        time.sleep(0.5)
        assert store.view().notices == ()  # it was an error: all connections were in use
    for writer in writers:
        writer.join()
    assert len(store.collections()) == 21
    other.close()


def test_a_statement_has_the_time_that_is_left_to_its_search(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore
) -> None:
    def limit(db: dialect.Translating) -> tuple[str, float]:
        return db.execute("SHOW statement_timeout").fetchone()[0], db.raw.limit_s

    now = time.monotonic()
    for began, left_s in ((now, 4), (now - 2, 2.5), (now - 60, 1)):
        with store._postgres.reading(began) as db:
            said, waits_s = limit(db)
        assert said == "4s" if began == now else said.endswith("ms") or said == "1s"
        assert left_s - 1 < waits_s - dialect.GRACE_S <= left_s
    with store._postgres.following(1.0) as following:
        assert following is None or limit(following) == ("1s", 1 + dialect.GRACE_S)
    with store._postgres.reading() as db:
        assert limit(db) == ("4s", 4 + dialect.GRACE_S)
    asked = store._postgres.reading(now - 60)
    with running[0].frozen(), pytest.raises(StoreError, match=r"no answer in 1\.4 s"), asked:
        pass  # what sets the limit keeps to it


def test_connecting_has_one_limit_for_all_addresses_of_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as deaf:
        hosts = ",".join([f"127.0.0.1:{deaf.getsockname()[1]}"] * 12)
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            dialect.connect(f"postgresql://refdesk@{hosts}/postgres", "own")
        assert time.monotonic() - began < LONG_S  # it was three seconds for each


def test_a_search_while_the_index_is_away_prints_the_note_alone(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        wrong = f"{running[0].address}?index=qdrant://127.0.0.1:{closed.getsockname()[1]}&schema={store.address.schema}"
        program = str(Path(refdesk.__file__).with_name("__main__.py"))
        command = [sys.executable, program, "--library", wrong, "--embedder", "none", "search", "alpha"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert "alpha" in done.stdout
    assert "note: the index can't be reached" in done.stderr
    assert all(line.startswith("note: ") for line in done.stderr.splitlines()), done.stderr


def test_grpc_writes_no_lines_of_its_own_into_the_log() -> None:
    """Among lines of JSON they would be none."""
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = plain.accept()
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()

        threading.Thread(target=answer, daemon=True).start()
        code = (
            "from refdesk.store.shared import address, nodes\n"
            "from qdrant_client import grpc as messages\n"
            f"at = address.parse('postgres://db/kb?index=qdrants://127.0.0.1:{plain.getsockname()[1]}')\n"
            "nodes.Nodes(at, '').call('Collections', 'List', messages.ListCollectionsRequest())\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    lines = done.stderr.splitlines()
    assert "IndexAway" in lines[-1] and not [line for line in lines if "ssl_transport" in line or "absl" in line]


def test_an_error_tells_what_each_node_said() -> None:
    def refuse(_: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "a replica did not take it")
        raise AssertionError

    methods = {"List": grpc.unary_unary_rpc_method_handler(refuse)}
    answering = grpc.server(ThreadPoolExecutor(1))
    answering.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("qdrant.Collections", methods),))
    port = answering.add_insecure_port("127.0.0.1:0")
    answering.start()
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        named = [f"127.0.0.1:{each}" for each in (port, silent.getsockname()[1], closed.getsockname()[1])]
        cluster = nodes.Nodes(addresses.parse(f"postgres://db/kb?index=qdrant://{','.join(named)}"), "")
        with pytest.raises(nodes.IndexAway) as caught:
            cluster.call("Collections", "List", messages.ListCollectionsRequest(), 3.0)
        cluster.close()
    answering.stop(None).wait()
    said = str(caught.value)
    assert said.startswith(
        f"No node of the index did what it was asked: {named[0]}: internal: a replica did not take it;"
    )
    assert f"{named[1]}: no answer in time;" in said and f"{named[2]}: unavailable: " in said


def test_a_write_that_a_hanging_replica_fails_keeps_no_query_from_its_answer(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    state = store.read(state_of)
    assert state is not None
    known = store._nodes
    with running[1][0].frozen(), pytest.raises(nodes.IndexAway):
        known.call("Points", "Delete", messages.DeletePoints(collection_name=state.name), 0.5)
    assert not known.is_away
    count = messages.CountPoints(collection_name=state.name)
    with running[1][0].frozen(), pytest.raises(nodes.IndexAway):
        known.call("Points", "Count", count, 0.5)
    assert known.is_away
    known._outage.ends()
    assert known.call("Points", "Count", count).result.count == 2  # with the head


def test_one_connection_that_a_restart_ended_fails_and_no_other(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore
) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(store._postgres.reading()) for _ in range(5)]
    with psycopg.connect(running[0].address) as other:
        for one in opened:
            other.execute("SELECT pg_terminate_backend(%s)", (one.raw.info.backend_pid,))
    failed = 0
    for _ in opened:
        try:
            store.sequence()
        except StoreError:
            failed += 1
    assert failed <= 1


def test_one_call_looks_whether_a_server_is_back_and_others_fail_meanwhile() -> None:
    outage = Outage()
    assert not outage.hinders(60)
    waiting = _call()
    outage.begins("gone")
    assert waiting.run(outage.hinders, 60)  # it was there before
    assert not _call().run(outage.hinders, 60) and not _call().run(outage.hinders, 60)  # this thread looks
    with ThreadPoolExecutor(1) as another:
        assert another.submit(outage.hinders, 60).result()
        outage.ends()
        assert not another.submit(outage.hinders, 60).result()


def test_a_node_that_hangs_is_tried_again_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    known = nodes.Nodes(addresses.parse("postgres://db/kb?index=qdrant://q1,q2,q3"), "")
    tried = []
    for second in range(60):
        monkeypatch.setattr(nodes.time, "monotonic", lambda second=second: float(second))
        if any(known._order()[0] == "q1:6334" for _ in range(3)):
            tried.append(second)
            known._avoid("q1:6334")
    assert tried == [0, 2, 6, 14, 30]  # it was every other second


def test_a_node_that_hangs_leaves_time_for_the_others(
    running: tuple[servers.Postgres, list[servers.Qdrant]],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        places = f"127.0.0.1:{deaf.getsockname()[1]},127.0.0.1:{running[1][0].port}"
        for ask in ("call", "start"):
            known = nodes.Nodes(addresses.parse(f"postgres://db/kb?index=qdrant://{places}"), "")
            answer = getattr(known, ask)("Collections", "List", messages.ListCollectionsRequest(), 2.0)
            assert (answer() if ask == "start" else answer).time > 0
            known.close()


def test_a_reader_does_not_create_the_index_and_a_hanging_node_is_soon_known(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore, caplog: pytest.LogCaptureFixture
) -> None:
    store._nodes.call("Collections", "List", messages.ListCollectionsRequest())  # it is connected
    with running[1][0].frozen():
        began = time.monotonic()
        view = store.view()
        assert len(view.lexical(["alpha"], 5)) == 0 and "being made" in view.notices[0]
        assert time.monotonic() - began < LONG_S
        while "unavailable" not in caplog.text and time.monotonic() - began < LONG_S:
            time.sleep(0.05)
        assert "unavailable" in caplog.text  # in the background; it had a minute for it
    store.apply(batch(write("a", ["alpha"])))
    assert len(store.view().lexical(["alpha"], 5)) == 1


def test_one_reader_waits_for_a_follower_that_is_stuck_and_the_next_do_not(
    address: str, store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    other = SharedStore(address)
    limits = []
    catch_up = store._follower.catch_up

    def limited(seq: int, limit_s: float, **options: bool) -> Any:
        limits.append(limit_s)
        return catch_up(seq, limit_s, **options)

    with ExitStack() as opened:
        while opened.enter_context(other._postgres.following()) is None:  # until the background has left
            opened.close()
            time.sleep(0.05)
        with monkeypatch.context() as patched:
            patched.setattr(store._follower, "catch_up", lambda *_, **__: None)
            store.apply(batch(write("b", ["alpha beta"])))
        monkeypatch.setattr(store._follower, "catch_up", limited)
        seen = [store.view().notices for _ in range(3)]
    assert limits == [1.5, 0, 0] and all("the last 1 writes" in one[0] for one in seen)
    assert len(store.view().lexical(["alpha"], 5)) == 2
    other.close()


def test_words_that_take_too_long_to_search_without_the_index_are_an_error_at_once(
    running: tuple[servers.Postgres, list[servers.Qdrant]], store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    monkeypatch.setattr(scan, "_LIMIT_S", 0.1)
    monkeypatch.setattr(scan, "_LEAST_S", 0.1)
    node = running[1][0]
    node.kill()
    try:
        with store.writing(), store.transaction(logged=False) as db:
            db.execute("LOCK TABLE texts IN ACCESS EXCLUSIVE MODE")  # as long as it takes to read many
            with pytest.raises(StoreError, match="too many passages"):
                store.view().lexical(["alpha"], 5)
        with pytest.raises(StoreError, match="too many passages"):  # nor is it tried again for each that waits
            store.view().lexical(["alpha"], 5)
    finally:
        node.start()
    deadline = time.monotonic() + 60
    found = 0
    while not found and time.monotonic() < deadline:
        with suppress(StoreError):
            found = len(store.view().lexical(["alpha"], 5))
    assert found == 1
