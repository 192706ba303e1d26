"""What does index_codebase answer?  What was done, and what was left out, in few words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from refdesk.desk import Desk
from refdesk.model import Skipped
from refdesk.progress import Report
from refdesk.sources.judge import IGNORED, LASTING
from refdesk.sources.names import HIDDEN
from refdesk.toolsets.contract import Json

LISTED = 20  # files that an answer names
_OF_ONE_REASON = 5
_EXPECTED = (IGNORED, HIDDEN, "git's own", "empty file")  # counted, not listed
_DETAIL = re.compile(r":| \(| to |\. ")  # what follows differs from file to file


def statistics(report: Report, folder: Path, desk: Desk) -> Json:
    """The counts of a run and of what is there after it, and what was left out."""
    stats = desk.store.stats(report.collection)
    return {
        "path": str(folder),
        "collection": report.collection,
        "files": stats.documents,
        "chunks": stats.chunks,
        "symbols": stats.symbols,
        "edges": stats.references,
        "written": report.written,
        "unchanged": report.unchanged,
        "moved": report.moved,
        "removed": report.removed,
        "skipped": len(report.skipped),
        "skipped_reasons": _counted(report.skipped),
        "skipped_files": _listed(_some_of_each(report.skipped)),
        "errors": _listed(report.errors),
        **({"errors_not_listed": len(report.errors) - LISTED} if len(report.errors) > LISTED else {}),
        "seconds": round(report.seconds, 3),
    }


def _counted(skipped: Iterable[Skipped]) -> str:
    """How many for which reason, most first: "12 ignored by .gitignore, 3 not text by its name"."""
    reasons = Counter(_stem(one) for one in skipped)
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())


def _some_of_each(skipped: Iterable[Skipped]) -> list[Skipped]:
    """The first few of each reason that may surprise, whole folders last; a file that its name decided does not."""
    seen: Counter[str] = Counter()
    found: list[Skipped] = []
    for one in sorted(skipped, key=lambda one: one.path.endswith("/")):
        if one.reason.startswith(_EXPECTED) or (one.reason.startswith(LASTING) and not one.path.endswith("/")):
            continue
        stem = _stem(one)
        seen[stem] += 1
        if seen[stem] <= _OF_ONE_REASON:
            found.append(one)
    return found


def _stem(skipped: Skipped) -> str:
    return _DETAIL.split(skipped.reason, maxsplit=1)[0]


def _listed(left_out: Sequence[Skipped]) -> list[Json]:
    return [{"path": one.path, "reason": one.reason} for one in left_out[:LISTED]]
