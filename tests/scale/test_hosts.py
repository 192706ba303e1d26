"""The ways to name a Postgres server that libpq knows, on a real one."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
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


def _named(place: str, hosts: Sequence[int], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The part of an address that has servers of these ports named there."""
    service = folder / "services"
    service.write_text("[kb]\nuser=refdesk\ndbname=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    names, ports = ",".join("127.0.0.1" for _ in hosts), ",".join(map(str, hosts))
    if place == "service":
        service.write_text(f"{service.read_text()}host={names}\nport={ports}\n")
    elif place == "variables":
        monkeypatch.setenv("PGHOST", names)
        monkeypatch.setenv("PGPORT", ports)
    else:
        return f"/postgres?user=refdesk&hostaddr={names}&port={ports}&"
    return "/?service=kb&"


@pytest.mark.parametrize("place", ["service", "variables", "parameters"])
def test_wherever_hosts_are_named_the_one_that_takes_writes_is_used(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres, nodes = servers.for_tests()
    named = servers.address(postgres, nodes, shards="1", replicas="1", schema=f"writes_{place}")
    standby = postgres.standby(postgres._folder.parent / f"standby_{place}")
    try:
        # A service file's host that hangs would have all of the time, if the next one were not known.
        with socket.create_server(("127.0.0.1", 0)) as hanging:
            for first in (standby.port, hanging.getsockname()[1]):
                both = _named(place, (first, postgres.port), tmp_path, monkeypatch)
                with closing(SharedStore(f"postgres://{both}{named.partition('?')[2]}")) as store:
                    store.put_collection(collection())
    finally:
        standby.stop()


@pytest.mark.parametrize(
    ("address", "variable", "meant"),
    [
        ("postgresql://h/db", "", "primary"),
        ("postgresql://h,i/db", "", "read-write"),
        ("postgresql://h/db?target_session_attrs=any", "", "any"),
        ("postgresql://h/db", "any", "any"),
        ("postgresql:///db?service=chosen", "", "prefer-standby"),
        ("postgresql:///db?service=chosen&target_session_attrs=primary", "", "primary"),
    ],
)
def test_a_choice_of_the_server_is_kept(
    address: str, variable: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "services").write_text("[chosen]\nhost=h\ntarget_session_attrs=prefer-standby\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    if variable:
        monkeypatch.setenv("PGTARGETSESSIONATTRS", variable)
    found = dialect._servers(address)
    assert found["host"] in ("h", "h,i") and found["target_session_attrs"] == meant


def test_a_lone_standby_is_refused_until_it_is_promoted() -> None:
    with servers.running(1, in_memory=True) as (postgres, nodes):
        with closing(SharedStore(servers.address(postgres, nodes, shards="1", replicas="1"))) as store:
            store.put_collection(collection())
        standby = postgres.standby(postgres._folder.parent / "standby")
        lone = servers.address(standby, nodes, shards="1", replicas="1")
        try:
            for more in ("", "&target_session_attrs=primary"):
                with pytest.raises(RecordAway, match=r"takes no writes: .*\. If it is a standby, promote it, or name"):
                    SharedStore(lone + more)
            with psycopg.connect(standby.address, autocommit=True) as db:
                db.execute("SELECT pg_promote()")
            with closing(SharedStore(lone)) as store:
                store.apply(batch(write("a", ["alpha"], vectors=False)))
                assert len(store.view().lexical(["alpha"], 5)) == 1
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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('FATAL:  password authentication failed for user "x"', "refused the connection: password auth"),
        ("fe_sendauth: no password supplied", "refused the connection: fe_sendauth"),
        ("SSL error: certificate verify failed", "refused the connection: SSL"),
        ("server does not support SSL, but SSL was required", "refused the connection: server does"),
        ('FATAL:  unrecognized configuration parameter "plan_cache_mode"', "too old"),
        ("FATAL:  the database system is starting up", ""),
        ("SSL error: unexpected eof while reading", ""),
    ],
)
def test_what_is_wrong_in_the_address_is_not_called_away(said: str, told: str) -> None:
    assert (told or "does not answer") in str(dialect.no_connection(said))
