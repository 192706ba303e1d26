"""Every store that the suite runs on: add a factory to STORES."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from refdesk.ports import Store
from refdesk.store.local import LocalStore
from tests.ports.memory import Data, MemoryStore
from tests.scale import servers

OpenStore = Callable[..., Store]
_number = itertools.count()


def _local(folder: Path, lock_timeout_s: float = 30.0) -> Store:
    return LocalStore(folder / "library", lock_timeout_s=lock_timeout_s)


def _shared(folder: Path, lock_timeout_s: float = 30.0) -> Store:
    from refdesk.store.shared.store import SharedStore

    postgres, nodes = servers.for_tests()
    schema = folder / "schema"  # the same for every store that is opened on the folder
    if not schema.exists():
        schema.parent.mkdir(parents=True, exist_ok=True)
        schema.write_text(f"s{next(_number)}")
    # With one shard equal passages have equal scores: Qdrant counts terms in each shard by itself.
    address = servers.address(postgres, nodes, schema=schema.read_text(), shards="1", replicas="1")
    return SharedStore(address, lock_timeout_s=lock_timeout_s)


_libraries: dict[Path, Data] = {}


def _memory(folder: Path, lock_timeout_s: float = 30.0) -> Store:
    return MemoryStore(_libraries.setdefault(folder, Data()), lock_timeout_s)


STORES: dict[str, Callable[..., Store]] = {"local": _local, "shared": _shared, "memory": _memory}


@pytest.fixture(params=list(STORES))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same library as often as it is called, each time with a store of its own."""
    opened: list[Store] = []

    def again(**settings: float) -> Store:
        opened.append(STORES[request.param](tmp_path, **settings))
        return opened[-1]

    yield again
    for each in opened:
        each.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    """An empty store with a collection and an embedder."""
    from tests.ports.library import IDENTITY, collection

    made = open_store()
    made.put_collection(collection())
    made.set_embedder_identity(IDENTITY)
    return made
