"""Calls that wait for another writer are in no reader's way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from refdesk.store.local import LocalStore
from tests.contracts.conftest import Client, serving

MANY = 20  # more than a server has threads for reading


def test_reads_are_answered_while_many_writes_wait_and_a_cancelled_one_leaves_the_queue(tmp_path: Path) -> None:
    library = tmp_path / "library"
    with serving() as serve:
        client = serve(library, "--toolsets", "rag")
        assert client.json("rag_list_collections")["total"] == 0
        store = LocalStore(library, lock_timeout_s=5)
        queue = library / "waiting"
        with store.writing():
            asked = [_create(client, 0)]
            _until(lambda: queue.is_dir() and any(queue.iterdir()))
            (first,) = queue.iterdir()
            asked += [_create(client, number) for number in range(1, MANY)]
            _until(lambda: len(list(queue.iterdir())) >= 16)
            assert client.json("rag_list_collections")["total"] == 0  # answered although all of them wait
            client.raw.notify("notifications/cancelled", {"requestId": asked[0]})
            _until(lambda: not first.exists())
        for each in asked[1:]:
            assert not client.raw.finish(each)["result"].get("isError")
        assert client.json("rag_list_collections")["total"] == MANY - 1
        store.close()


def _create(client: Client, number: int) -> int:
    return client.raw.start("tools/call", {"name": "rag_create_collection", "arguments": {"name": f"c{number}"}})


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")
