"""A desk opens its parts once, however many threads ask for them first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from refdesk.app import PARTS
from refdesk.desk.desk import Desk
from refdesk.ports import Store
from refdesk.settings import Settings


def test_first_calls_at_once_open_one_store(tmp_path: Path) -> None:
    opened: list[Store] = []
    all_there = threading.Barrier(4)

    def open_slowly(settings: Settings) -> Store:
        opened.append(PARTS.store(settings))
        threading.Event().wait(0.2)  # long enough for the others to come
        return opened[-1]

    desk = Desk(Settings(library=tmp_path), replace(PARTS, store=open_slowly))

    def first_call(_: int) -> int:
        all_there.wait()
        return desk.sequence()

    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(first_call, range(4)))) == 4
    desk.close()
    assert len(opened) == 1
