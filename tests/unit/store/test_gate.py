"""Writers take turns, whoever waits longest first; nobody who is dead, stopped or gone is waited for."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from refdesk.errors import Cancelled, LibraryBusy
from refdesk.library import Library
from refdesk.store.gate import Gate
from refdesk.system.wanted import is_wanted
from tests.mcp_client.stdio import environment

WAIT = """
import sys
from pathlib import Path
from refdesk.library import Library
from refdesk.store.gate import Gate
with Gate(Library(Path(sys.argv[1])), 60).held():
    print("entered", flush=True)
    sys.stdin.read()
"""


def _waiting(folder: Path) -> list[Path]:
    return list((folder / "waiting").glob("*"))


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def _process(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WAIT, str(folder)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), cwd=folder
    )


def test_waiting_writers_are_served_in_order(tmp_path: Path) -> None:
    gates = [Gate(Library(tmp_path), 60), Gate(Library(tmp_path), 60)]  # as of two processes
    order: list[int] = []

    def enter(number: int) -> None:
        with gates[number % 2].held():
            order.append(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
    with gates[0].held():
        for number, thread in enumerate(threads):
            thread.start()
            _until(lambda number=number: len(_waiting(tmp_path)) == number + 1)  # type: ignore[misc]
    with gates[0].held():  # who was there a moment ago comes last
        order.append(-1)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4, 5, -1]
    assert _waiting(tmp_path) == []


def test_a_killed_waiter_is_not_waited_for(tmp_path: Path) -> None:
    gate = Gate(Library(tmp_path), 60)
    with gate.held(), _process(tmp_path) as waiter:
        _until(lambda: len(_waiting(tmp_path)) == 1)
        waiter.kill()
    with gate.held_if_free() as free:
        assert free
    assert _waiting(tmp_path) == []


def test_a_killed_holder_lets_the_next_in(tmp_path: Path) -> None:
    entered = threading.Event()

    def enter() -> None:
        with Gate(Library(tmp_path), 60).held():
            entered.set()

    with _process(tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "entered\n"
        thread = threading.Thread(target=enter)
        thread.start()
        _until(lambda: len(_waiting(tmp_path)) == 1)
        assert not entered.is_set()
        holder.kill()
        thread.join()
    assert entered.is_set()


def test_one_who_is_not_wanted_any_more_leaves_the_queue(tmp_path: Path) -> None:
    gate, wanted = Gate(Library(tmp_path), 60), threading.Event()
    wanted.set()
    raised: list[BaseException] = []

    def enter() -> None:
        is_wanted.set(wanted.is_set)
        try:
            with gate.held():
                pass
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=enter)
    with gate.held():
        thread.start()
        _until(lambda: len(_waiting(tmp_path)) == 1)
        wanted.clear()
        thread.join()
        assert [type(error) for error in raised] == [Cancelled]
        assert _waiting(tmp_path) == []


def test_only_one_who_holds_on_makes_others_give_up(tmp_path: Path) -> None:
    """Five who hold it for 0.6 s each are no reason to refuse one who waits at most 2 s for any of them."""
    gate = Gate(Library(tmp_path), 2.0)
    failures: list[BaseException] = []

    def enter() -> None:
        try:
            with gate.held():
                time.sleep(0.6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=enter) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with _process(tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "entered\n"
        with pytest.raises(LibraryBusy, match=f"process {holder.pid}.*waited 2 s"), gate.held():
            pass
        holder.kill()
