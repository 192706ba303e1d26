"""What does a long run tell while it goes on, and what did it do?"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from refdesk.errors import Cancelled
from refdesk.model import Skipped

# Whether somebody still waits for what is done here; asked by whatever waits itself.
is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)


@dataclass(slots=True)
class Progress:
    """Where long work reports to and asks whether to go on."""

    report: Callable[[int, int, str], None] = lambda done, total, what: None
    cancelled: Callable[[], bool] = lambda: False
    until: float = math.inf  # on time.monotonic(): what has not begun by then is left for another run

    def step(self, done: int, total: int, what: str) -> None:
        if self.cancelled():
            raise Cancelled("The work was cancelled.", "What was indexed before stays searchable.")
        self.report(done, total, what)


@dataclass(slots=True, kw_only=True)
class Report:
    """What a run did."""

    collection: str
    files: int = 0  # found worth reading, also by what is in them
    written: int = 0
    unchanged: int = 0
    moved: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    symbols: int = 0
    references: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[Skipped] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)  # paths that were left for another run
    seconds: float = 0.0
    document_ids: list[str] = field(default_factory=list)
    written_ids: list[str] = field(default_factory=list)

    def leave_out(self, one: Skipped) -> None:
        """Takes note of what is not indexed: nothing to read there, or an error."""
        (self.errors if one.failed else self.skipped).append(one)

    def join(self, other: Report) -> None:
        """Adds what another run did."""
        for name in self.__dataclass_fields__:
            if name != "collection":
                setattr(self, name, getattr(self, name) + getattr(other, name))
