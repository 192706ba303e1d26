"""What does the model read?  The query, a mark, and of each passage its head and its most telling window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
_START, _SEPARATOR = 1, 2  # 0 is padding


@dataclass(frozen=True, slots=True)
class Layout:
    """How long a row is, and how much of it a passage's head always gets."""

    places: int
    head: int


def arrange(
    query: Numbers, passages: Sequence[Numbers], telling: NDArray[np.float32], layout: Layout
) -> tuple[Numbers, Numbers]:
    """A row of piece numbers for each passage, and each piece's role: of query or passage, in the other too or not."""
    read = [_row(query, passage, telling, layout) for passage in passages]
    ids = np.zeros((len(read), max(len(row) for row, _ in read)), np.int64)
    roles = np.zeros_like(ids)
    for number, (row, role) in enumerate(read):
        ids[number, : len(row)] = row
        roles[number, : len(role)] = role
    return ids, roles


def _row(query: Numbers, passage: Numbers, telling: NDArray[np.float32], layout: Layout) -> tuple[Numbers, Numbers]:
    same = passage[:, None] == query[None, :]
    in_query, in_passage = same.any(1), same.any(0)
    room = layout.places - 2 - len(query)
    if len(passage) > room:
        kept = np.r_[: layout.head, _window(np.where(in_query, telling[passage], 0), layout.head, room - layout.head)]
        passage, in_query = passage[kept], in_query[kept]
    row = np.concatenate([[_START], query, [_SEPARATOR], passage])
    return row, np.concatenate([[0], in_passage, [0], 2 + in_query])


def _window(gains: NDArray[np.float32], first: int, size: int) -> slice:
    """Of the windows from there on, the first of those that hold the most."""
    sums = np.concatenate([[0], np.cumsum(gains[first:])])
    start = first + int(np.argmax(sums[size:] - sums[:-size]))
    return slice(start, start + size)
