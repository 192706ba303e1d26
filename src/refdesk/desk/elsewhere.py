"""Index runs in a process of their own: in a server's they would take Python's lock from its searches."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from refdesk.desk.parts import Order
from refdesk.errors import RefdeskError, StoreError
from refdesk.ingest.prepare import Progress, Report
from refdesk.settings import Settings
from refdesk.system.pipes import claimed, loaded, receive, send, started
from refdesk.system.wanted import is_wanted

if TYPE_CHECKING:
    from refdesk.desk.desk import Desk

_TOLD_S = 0.1  # between two messages on the progress; after each the parent can cancel the run
_GRACE_S = 2.0  # for a cancelled run to end by itself; being killed loses nothing either
_AGAIN = "Index again; what was indexed before stays searchable."


def index_elsewhere(order: Order, progress: Progress) -> Report:
    """What a process of its own reports on the run; it ends with this one, and if the progress is cancelled."""
    try:
        process = started("refdesk.app", "index_for_parent")
    except OSError as error:
        raise StoreError(f"A process that indexes can't be started: {error.strerror}.", _AGAIN) from error
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        send(process.stdin, pickle.dumps(order))
        while not isinstance(said := loaded(receive(process.stdout)), Report):
            if isinstance(said, Exception):
                raise said
            progress.step(*said)
        return said
    except (EOFError, OSError) as error:
        status = process.wait()
        raise StoreError(f"The process that indexed {order.root} ended (status {status}).", _AGAIN) from error
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()  # which tells it to end
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def answer_parent(open_desk: Callable[[Settings], AbstractContextManager[Desk]]) -> None:
    """Runs the order that the parent sends, and reports to it."""
    requests, answers = claimed()
    order: Order = loaded(receive(requests))
    is_over = threading.Event()
    last: tuple[int, int, str] = (0, 0, "starting")

    def note(done: int, total: int, what: str) -> None:
        nonlocal last
        last = done, total, what

    def await_end() -> None:
        requests.read(1)  # the parent sends nothing more
        is_over.set()

    def tell() -> None:
        with contextlib.suppress(OSError):
            while not is_over.wait(_TOLD_S):
                send(answers, pickle.dumps(last))

    threading.Thread(target=await_end, daemon=True).start()
    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    is_wanted.set(lambda: not is_over.is_set())
    said: Report | Exception
    try:
        with open_desk(order.settings) as desk:
            said = desk.index(
                order.root,
                order.kind,
                name=order.name,
                description=order.description,
                force=order.force,
                verify=order.verify,
                progress=Progress(report=note, cancelled=is_over.is_set),
            )
    except RefdeskError as error:
        said = error
    is_over.set()
    telling.join()
    with contextlib.suppress(OSError):
        send(answers, pickle.dumps(last))
        send(answers, pickle.dumps(said))
