"""No collections while somebody waits."""

from __future__ import annotations

import gc
import threading

import pytest

from refdesk.system.memory import MOST, gc_paused


def test_the_collector_rests_inside_and_goes_on_outside() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_lets_the_collector_go_on() -> None:
    with pytest.raises(ValueError, match="broken"), gc_paused():
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_of_many_threads_switches_it_on() -> None:
    inside, leave = threading.Barrier(3), threading.Event()

    def stay() -> None:
        with gc_paused():
            inside.wait()
            leave.wait()

    others = [threading.Thread(target=stay) for _ in range(2)]
    for one in others:
        one.start()
    inside.wait()
    with gc_paused():
        pass
    assert not gc.isenabled()
    leave.set()
    for one in others:
        one.join()
    assert gc.isenabled()


def test_the_collector_has_its_turn_when_there_is_always_somebody_inside() -> None:
    stack = [gc_paused()]
    stack[0].__enter__()
    for _ in range(MOST + 5):  # the next one comes before the last one is out
        following = gc_paused()
        following.__enter__()
        stack.pop().__exit__(None, None, None)
        stack.append(following)
        if gc.isenabled():
            break
    assert gc.isenabled()
    stack.pop().__exit__(None, None, None)
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
