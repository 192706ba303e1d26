"""What tests of shared libraries do with one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.store import SharedStore
from tests.ports.library import IDENTITY, collection

LONG_S = 60.0  # far more than anything waited for takes, also on a busy machine


def filled(address: str) -> SharedStore:
    """A new library with a collection and an embedder."""
    store = SharedStore(address)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    return store


@contextlib.contextmanager
def only_follower(store: SharedStore) -> Iterator[Translating]:
    """The connection of the only one that may follow, when the background has left."""
    deadline = time.monotonic() + LONG_S
    while True:
        with store._postgres.following() as db:
            if db is not None:
                yield db
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def texts_with(store: SharedStore, term: str) -> list[str]:
    """The texts of the passages that are found by a term."""
    found = store.view().lexical([term], 50)
    return sorted(one.chunk.text for one in store.chunks(found.ids).values())


def until(is_so: Callable[[], bool]) -> None:
    """Waits for what is to happen; it is for the caller to assert that it did."""
    deadline = time.monotonic() + LONG_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
