"""Readers together, changers alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from refdesk.store.vectors.index import Shared

_PATIENCE_S = 10.0


def test_readers_are_inside_at_the_same_time() -> None:
    lock, together = Shared(), threading.Barrier(3)

    def read() -> int:
        with lock.reading():
            return together.wait(_PATIENCE_S)

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(lambda _: read(), range(3))) == [0, 1, 2]


def test_who_changes_is_alone_and_not_kept_out_by_later_readers() -> None:
    lock, order = Shared(), []
    inside, waits = threading.Event(), threading.Event()

    def change() -> None:
        waits.set()
        with lock.changing():
            order.append("changed")

    def read_later() -> None:
        with lock.reading():
            order.append("read later")

    with ThreadPoolExecutor(2) as pool:
        with lock.reading():
            changing = pool.submit(change)
            assert waits.wait(_PATIENCE_S)
            while not lock._door.locked():
                inside.wait(0.001)
            reading = pool.submit(read_later)
            inside.wait(0.05)
            order.append("read first")
        changing.result(_PATIENCE_S)
        reading.result(_PATIENCE_S)
    assert order == ["read first", "changed", "read later"]


def test_nothing_is_lost_and_nothing_half_seen_among_many() -> None:
    lock, pair, torn = Shared(), [0, 0], []

    def change() -> None:
        for _ in range(300):
            with lock.changing():
                pair[0] += 1
                pair[1] += 1

    def read() -> None:
        for _ in range(1000):
            with lock.reading():
                first, second = pair
                if first != second:
                    torn.append((first, second))

    with ThreadPoolExecutor(6) as pool:
        for one in [pool.submit(work) for work in (change, read, read, change, read, read)]:
            one.result(_PATIENCE_S)
    assert (pair, torn) == ([600, 600], [])


def test_an_error_inside_opens_the_door() -> None:
    lock = Shared()
    for door in (lock.reading, lock.changing, lock.reading, lock.changing):
        try:
            with door():
                raise ValueError
        except ValueError:
            continue
    with lock.changing():
        assert not lock._readers
