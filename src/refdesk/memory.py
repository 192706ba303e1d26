"""How does memory that was freed go back to the system?  glibc keeps what its threads let go of, unless it is asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Gives back what can be, where the C library knows how; a few milliseconds."""
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    import ctypes

    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # macOS, musl, Windows
        return None
    return found
