"""The ways to name a Postgres server that libpq knows, on a real one."""

from __future__ import annotations

import contextlib
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from refdesk.app import PARTS
from refdesk.errors import RecordAway, StoreError
from refdesk.settings import load
from refdesk.store.shared import dialect
from refdesk.store.shared.store import SharedStore
from tests.ports.library import batch, collection, write
from tests.scale import servers


@pytest.mark.parametrize(
    "place", ["refdesk@127.0.0.1:1,127.0.0.1:{}/postgres?", "/postgres?user=refdesk&host=127.0.0.1&port={}&"]
)
def test_a_library_is_reached_by_several_hosts_and_by_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    postgres, nodes = servers.for_tests()
    named = servers.address(postgres, nodes, shards="1", replicas="1", schema=f"hosts{place.count(',')}")
    address = f"postgres://{place.format(postgres.port)}{named.partition('?')[2]}"
    with closing(PARTS.store(load({"library": address}, {}, tmp_path))) as store:
        store.put_collection(collection())
        store.apply(batch(write("a", ["alpha"], vectors=False)))
        assert len(store.view().lexical(["alpha"], 5)) == 1


def test_a_host_that_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    postgres, nodes = servers.for_tests()
    named = servers.address(postgres, nodes, shards="1", replicas="1", schema="hanging")
    limits: list[int] = []
    made = dialect._limited()

    class Watched:
        @staticmethod
        def connect(*given: Any, **named: Any) -> Any:
            limits.append(named["connect_timeout"])
            return made.connect(*given, **named)

    monkeypatch.setattr(dialect, "_limited", lambda: Watched)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        both = f"@127.0.0.1:{hanging.getsockname()[1]},127.0.0.1:{postgres.port}/"
        with closing(SharedStore(named.replace(f"@127.0.0.1:{postgres.port}/", both))) as store:
            assert store.collections() == []
    assert max(limits) < dialect.CONNECT_S  # else there is no time for the next


def test_of_several_hosts_the_one_that_takes_writes_is_used() -> None:
    with servers.running(1, in_memory=True) as (postgres, nodes):
        named = servers.address(postgres, nodes, shards="1", replicas="1")
        standby = postgres.standby(postgres._folder.parent / "standby")
        both = f"@127.0.0.1:{standby.port},127.0.0.1:{postgres.port}/"
        try:
            with closing(SharedStore(named.replace(f"@127.0.0.1:{postgres.port}/", both))) as store:
                store.put_collection(collection())
                store.apply(batch(write("a", ["alpha"], vectors=False)))
                with psycopg.connect(standby.address, autocommit=True) as db:
                    at = store.sequence()
                    while db.execute("SELECT coalesce(max(seq), 0) FROM refdesk.commits").fetchone() != (at,):
                        time.sleep(0.05)
                    postgres.stop()
                    db.execute("SELECT pg_promote()")
                with contextlib.suppress(StoreError):  # of a connection that the server took with it
                    store.sequence()
                store.apply(batch(write("b", ["alpha"], vectors=False)))
                assert len(store.view().lexical(["alpha"], 5)) == 2
        finally:
            standby.stop()


def test_a_session_of_a_machine_that_lost_its_power_ends_soon() -> None:
    postgres, nodes = servers.for_tests()
    with closing(SharedStore(servers.address(postgres, nodes, schema="power"))) as store:
        shown = "SELECT setting::int FROM pg_settings WHERE name LIKE 'tcp_keepalives%' ORDER BY name"
        (count,), (idle,), (interval,) = store.read(lambda db: db.execute(shown).fetchall())
        assert idle + interval * count <= 30  # seconds, after which its locks are free


@pytest.mark.parametrize(
    ("limit", "error", "said"),
    [
        ("LOGIN CONNECTION LIMIT 0", RecordAway, "too many connections for role"),
        ("NOLOGIN", StoreError, "Correct the lib"),
    ],
)
def test_a_server_that_is_full_is_away_and_the_address_is_not_blamed(
    limit: str, error: type[StoreError], said: str
) -> None:
    postgres, nodes = servers.for_tests()
    with psycopg.connect(postgres.address, autocommit=True) as db:
        db.execute("DROP ROLE IF EXISTS limited")
        db.execute(f"CREATE ROLE limited {limit}")  # type: ignore[call-overload]
    with pytest.raises(StoreError, match=said) as away:
        SharedStore(servers.address(postgres, nodes).replace("//refdesk@", "//limited@"))
    assert type(away.value) is error
