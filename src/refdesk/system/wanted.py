"""Whether a caller still waits for the result; checked by code that waits itself, such as for a lock."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)
