"""A Neo4j that does not answer is given up in time, without any Neo4j to test with."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from refdesk.errors import StoreAway
from refdesk.store.bolt import Bolt, Tx
from refdesk.store.neo4j import Neo4jPlaybooks

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


def test_a_call_is_given_up_though_the_driver_gets_no_processor(silent: str) -> None:
    async def nothing(tx: Tx) -> None:
        return None

    bolt = Bolt(silent, "neo4j", "x", "", "", ())
    with pytest.raises(StoreAway):
        bolt.run(nothing)
    assert bolt._loop is not None
    busy = threading.Event()

    def hold() -> None:
        time.sleep(20)
        busy.set()

    bolt._loop.call_soon_threadsafe(hold)  # as on a machine that is badly overloaded
    with pytest.raises(StoreAway, match=AWAY):
        bolt.run(nothing)
    assert not busy.is_set()
