"""Who hears of what was written without a call of ours?  By another process, or by another toolset here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from refdesk.desk import Desk
from refdesk.errors import RefdeskError
from refdesk.toolsets.contract import Announcer, CallContext, Json, Tool, ToolAnswer

Handler = Callable[[Json, CallContext], ToolAnswer]


class Notices:
    """Looks now and then whether the record went on; what changed in it is not asked, so every collection may have."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._mutex = threading.Lock()
        self._announcer: Announcer | None = None
        self._told: int | None = None  # the record's state that clients know of
        self._names: frozenset[str] = frozenset()

        self._writing = 0  # calls here that tell of what they write themselves

    def attach(self, announcer: Announcer) -> None:
        self._announcer = announcer

    def telling(self, handler: Handler) -> Handler:
        """The handler, whose answer tells of what it wrote."""

        def call(arguments: Json, context: CallContext) -> ToolAnswer:
            with self._mutex:
                self._writing += 1
            told = False
            try:
                answer = handler(arguments, context)
                told = True
                return answer
            finally:
                with self._mutex:
                    self._writing -= 1
                    if told:
                        self._settle()

        return call

    def _settle(self) -> None:
        self._told, self._names = self._desk.store.sequence(), self._collections()

    def poll(self) -> Sequence[Tool]:
        """Tells of changes since; tools never change."""
        with self._mutex, contextlib.suppress(RefdeskError):  # calls say what is wrong with a library
            now = self._desk.store.sequence()
            if self._told is None:
                self._settle()
            if self._announcer is None or self._writing or now == self._told:
                return ()
            before, self._names, self._told = self._names, self._collections(), now
            for name in sorted(self._names | before):
                self._announcer.updated(f"rag://collections/{name}")
            self._announcer.updated("rag://collections")
            if self._names != before:
                self._announcer.relisted("resources")
        return ()

    def _collections(self) -> frozenset[str]:
        return frozenset(one.name for one in self._desk.store.collections())
