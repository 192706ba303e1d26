"""What fits into an answer?  Clients cut long ones, and every token is a cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from refdesk import tokens
from refdesk.model import Hit

LISTED = 10_000  # tokens of a list
READ = 20_000  # tokens from which on one thing says its size before it is read

T = TypeVar("T")


def shown(
    hits: Sequence[Hit], write: Callable[[int, Hit, bool], T], budget: int, how: str
) -> tuple[list[T], list[str]]:
    """The hits as `write` puts them by rank: whole, excerpts once most of the budget is used, and none beyond it.

    With them come the notices of what is cut and left out, and `how` to get at it.
    """
    written: list[T] = []
    used = excerpts = 0
    budget = int(tokens.SURE * budget)
    for rank, hit in enumerate(hits, 1):
        one = write(rank, hit, True)
        cost = _cost(one)
        if budget and rank > 1 and used + cost > budget * 3 // 4 and len(hit.snippet) < len(hit.stored.chunk.text):
            one = write(rank, hit, False)
            cost = _cost(one)
            excerpts += used + cost <= budget
        if budget and rank > 1 and used + cost > budget:
            break
        used += cost
        written.append(one)
    notices = []
    if excerpts:
        notices.append(f"{excerpts} of the results are excerpts: {how}")
    if left := len(hits) - len(written):
        notices.append(f"{left} more results left out to keep the answer short: ask more narrowly")
    return written, notices


def _cost(one: object) -> int:
    if isinstance(one, str):
        return tokens.count(one) + 4
    rest, content = one, ""
    if isinstance(one, dict) and isinstance(one.get("content"), str):  # counted before, and again for the next query
        content = one["content"]
        rest = {key: value for key, value in one.items() if key != "content"}
    return tokens.count(content) + content.count("\n") + len(json.dumps(rest, ensure_ascii=False)) // 3 + 4
