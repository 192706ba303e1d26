"""The ways to name a Postgres server that libpq knows, on a real one."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from refdesk.app import PARTS
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
