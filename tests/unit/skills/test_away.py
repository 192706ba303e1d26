"""A Neo4j that does not answer is given up in time, without any Neo4j to test with."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from refdesk.errors import StoreAway
from refdesk.store import bolt
from refdesk.store.neo4j import Neo4jPlaybooks
from refdesk.system.retry import arrived

AWAY = "Database connection failed: timeout after 5s"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a socket that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"bolt://127.0.0.1:{listening.getsockname()[1]}"


def test_nobody_answers(silent: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening, so it refuses
        refusing = f"bolt://127.0.0.1:{taken.getsockname()[1]}"
        for uri in (silent, refusing):
            store = Neo4jPlaybooks(uri, "neo4j", "x")
            with pytest.raises(StoreAway, match=AWAY):
                store.list_skills()
            store.close()


async def _nothing(tx: bolt.Tx) -> None:
    return None


@pytest.fixture
def held(silent: str) -> tuple[bolt.Bolt, threading.Event]:
    """A connection whose thread gets no processor, as on an overloaded machine, and what is set when it does again."""
    connection = bolt.Bolt(silent, "neo4j", "x", "", "", ())
    with pytest.raises(StoreAway):
        connection.run(_nothing)
    assert connection._loop is not None
    free = threading.Event()

    def hold() -> None:
        time.sleep(20)
        free.set()

    connection._loop.call_soon_threadsafe(hold)
    return connection, free


def test_a_call_is_given_up_though_the_driver_gets_no_processor(held: tuple[bolt.Bolt, threading.Event]) -> None:
    with pytest.raises(StoreAway, match=AWAY):
        held[0].run(_nothing)
    assert not held[1].is_set()


def test_the_time_begins_when_the_call_arrives(
    held: tuple[bolt.Bolt, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bolt, "_SILENT_S", 60.0)

    def call() -> None:
        arrived.set(time.monotonic() - 60)
        with pytest.raises(StoreAway, match=AWAY):
            held[0].run(_nothing)

    copy_context().run(call)
    assert not held[1].is_set()
