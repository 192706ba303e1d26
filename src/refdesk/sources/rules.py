"""Are the rules of a folder the same as last time?  The state of every ignore file, as one string."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_FORMAT = 2  # goes up when names.py, sniff.py or the matching itself decide otherwise than before
_TICK_NS = 100_000_000


@dataclass(slots=True)
class RuleState:
    """What decided about a tree: settings, files outside it, ignore files by folder, rejected contents by path."""

    settings: list[Any]
    folders: dict[str, list[Any]] = field(default_factory=dict)
    rejected: dict[str, list[Any]] = field(default_factory=dict)  # size, time and hash
    readers: str = ""  # which parsers rejected them

    @classmethod
    def parse(cls, fingerprint: str) -> RuleState:
        """The state that a fingerprint stands for; an empty state for one that can't be read."""
        try:
            found = json.loads(fingerprint) if fingerprint else {}
            return cls(list(found["settings"]), dict(found["folders"]), dict(found["rejected"]), found["readers"])
        except (ValueError, TypeError, KeyError):
            return cls([])

    def fingerprint(self) -> str:
        """The state as a string."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def settings_of(
    max_file_bytes: int, allow_secrets: Iterable[str], outside: Iterable[Path], ignore_case: bool
) -> list[Any]:
    """The part of the state that holds for the whole tree."""
    return [_FORMAT, max_file_bytes, sorted(allow_secrets), ignore_case, state_of(outside)]


def state_of(files: Iterable[Path]) -> list[Any]:
    """Each file with its time and size, zeros for one that is not there."""
    return [[str(file), *_stat(file)] for file in files]


def _stat(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except (OSError, ValueError):
        return 0, 0
    now = time.time_ns()
    # A file written this very moment may be written again within one tick of its clock: its state is never taken for
    # the same, so that the next walk looks again.
    return now if abs(now - found.st_mtime_ns) < _TICK_NS else found.st_mtime_ns, found.st_size
