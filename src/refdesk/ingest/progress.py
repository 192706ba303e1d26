"""Progress and cancellation of long runs, and the report of what a run did."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from refdesk.errors import Cancelled
from refdesk.model import Skipped

# Whether a caller still waits for the result; checked by code that waits itself, such as for a lock.
is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)


@dataclass(slots=True)
class Progress:
    """Receives the progress of a long run and tells it whether to go on."""

    report: Callable[[int, int, str], None] = lambda done, total, what: None
    cancelled: Callable[[], bool] = lambda: False
    until: float = math.inf  # on time.monotonic(): files not started by then are left for another run

    def step(self, done: int, total: int, what: str) -> None:
        if self.cancelled():
            raise Cancelled("The work was cancelled.", "What was indexed before stays searchable.")
        self.report(done, total, what)


@dataclass(slots=True, kw_only=True)
class Report:
    """What a run did."""

    collection: str
    files: int = 0  # files that are indexed
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
    waiting: list[str] = field(default_factory=list)  # paths left for another run
    seconds: float = 0.0
    document_ids: list[str] = field(default_factory=list)
    written_ids: list[str] = field(default_factory=list)

    def leave_out(self, one: Skipped) -> None:
        """Records a file that is not indexed: skipped by a rule, or an error."""
        (self.errors if one.failed else self.skipped).append(one)

    def join(self, other: Report) -> None:
        """Adds another run's report."""
        for name in self.__dataclass_fields__:
            if name != "collection":
                setattr(self, name, getattr(self, name) + getattr(other, name))
