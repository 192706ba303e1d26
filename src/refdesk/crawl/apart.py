"""Who indexes while pages come?  Another process, so that fetching and indexing do not wait for each other."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from refdesk.crawl.keep import Kept, keep_some
from refdesk.crawl.state import CrawlState
from refdesk.desk import Desk
from refdesk.errors import RefdeskError, StoreError
from refdesk.model import Collection
from refdesk.settings import Settings

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

OpenDesk = Callable[[Settings], AbstractContextManager[Desk]]
_ENDS_WITHIN_S = 30.0
_NICENESS = 5  # fetching comes first: it waits for others, indexing for nobody


class Apart:
    """A process with a desk of its own, once it is started; it ends with this one."""

    def __init__(self, open_desk: OpenDesk, settings: Settings, file: Path, collection: Collection) -> None:
        self._open_desk = open_desk
        self._settings = settings
        self._file = file
        self._collection = collection
        self._pipe: Connection | None = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._process.join(_ENDS_WITHIN_S)

    def leave(self) -> None:
        """Nothing more is asked of the process: it may end."""
        if self._pipe is not None:
            self._pipe.close()

    def kill(self) -> None:
        """Ends the process, which is safe at any moment: what it did not finish is done again."""
        if self._pipe is not None:
            self._process.kill()
            self._process.join(_ENDS_WITHIN_S)

    def keep_some(self) -> Kept | None:
        """What the process indexed of the pages that wait; None when none does."""
        assert self._pipe is not None, "it was not started"
        try:
            self._pipe.send(True)
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise StoreError("The process that indexes ended by itself.", "Crawl again to go on.") from error
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Kept) else None

    def start(self) -> None:
        """Starts the process: it comes up while others work."""
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = (theirs, self._open_desk, self._settings, self._file, self._collection)
        self._process = context.Process(target=_serve, args=given)
        with _main_not_rerun(), _no_interrupts():
            self._process.start()
        theirs.close()


@contextlib.contextmanager
def _main_not_rerun() -> Iterator[None]:
    """Keeps multiprocessing from importing the caller's main module in the child, which has no need of it."""
    main: Any = sys.modules.get("__main__")
    kept = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
    try:
        main.__spec__ = None
        if hasattr(main, "__file__"):
            del main.__file__
        yield
    finally:
        main.__spec__ = kept["__spec__"]
        if kept["__file__"] is not None:
            main.__file__ = kept["__file__"]


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """What is started meanwhile is deaf to Ctrl-C, which a terminal sends to all: whoever started it ends it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # of multiprocessing; it would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, open_desk: OpenDesk, settings: Settings, file: Path, collection: Collection) -> None:
    """Indexes when asked, until nobody asks any more; a failure is the answer to whoever asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with contextlib.suppress(EOFError, OSError):
        try:
            with open_desk(settings) as desk, closing(CrawlState(file, collection.id, settings.durability)) as state:
                while pipe.recv():
                    pipe.send(keep_some(desk, collection, state))
        except (RefdeskError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            pipe.send(error)
    os._exit(0)  # all is closed: to take the interpreter apart piece by piece would only take time
