"""Where may a stretch of code be cut?  Between statements, as far out as possible."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cached_property

from tree_sitter import Node

from refdesk.model import Chunking
from refdesk.parse.code.definitions import rows_of
from refdesk.parse.code.lines import Lines

_NO_STATEMENT = 1_000  # depth of a row that starts no node


class Cuts:
    """The rows at which a file may be cut, found when first asked for."""

    def __init__(self, root: Node | None, lines: Lines, above: Mapping[int, int], chunking: Chunking) -> None:
        self._root = root
        self._lines = lines
        self._above = above
        self._max = max(chunking.max_tokens, 1)
        self._overlap = min(chunking.overlap_tokens, self._max // 2)
        self._part = self._max - self._overlap - (1 if self._overlap else 0)

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """The rows in parts of at most the tokens a chunk may have, except where one row has more."""
        parts = []
        if self._lines.tokens(start, end) <= self._max:
            return [self._lines.trim(start, end)]
        while (total := self._lines.tokens(start, end)) > self._part:
            cut = self._best(start, end, total)
            if cut >= end:
                break
            parts.append(self._lines.trim(start, cut))
            start = self._lines.trim(cut, end)[0]
        parts.append(self._lines.trim(start, end))
        return [part if i == 0 else (self._back(*part, parts[0][0]), part[1]) for i, part in enumerate(parts)]

    def _best(self, start: int, end: int, total: int) -> int:
        """The outermost, then the latest row of the second half of what fits."""
        share = total / -(-total // self._part)
        furthest = max(self._lines.row_within(start, self._part), start + 1)
        nearest = max(self._lines.row_within(start, int(share / 2)), start + 1)
        rows, depths = self._rows
        low, high = bisect_left(rows, nearest), bisect_right(rows, min(furthest, end - 1))
        if low < high:
            return min(rows[low:high], key=lambda row: (depths[row], -row))
        blank = [row for row in range(nearest, min(furthest, end)) if self._lines.is_blank(row)]
        return blank[-1] if blank else furthest

    def _back(self, start: int, end: int, first: int) -> int:
        """The row from which a part repeats the end of the one before it."""
        row = start
        while self._overlap and row > first and self._lines.tokens(row - 1, start) <= self._overlap:
            if self._lines.tokens(row - 1, end) > self._max:
                break
            row -= 1
        return self._lines.trim(row, end)[0]

    @cached_property
    def _rows(self) -> tuple[list[int], dict[int, int]]:
        depths: dict[int, int] = {}
        stack = [(self._root, 0)] if self._root is not None else []
        while stack:
            node, depth = stack.pop()
            if node is None:
                continue
            previous = node.start_point[0]
            for child in node.children:
                start, end = rows_of(child)
                if start > previous and not self._lines.is_closing(start):
                    row = self._with_comments(start)
                    depths[row] = min(depths.get(row, _NO_STATEMENT), depth)
                previous = end - 1
                if end - start > 2 and self._lines.tokens(start, end) > self._max // 4:
                    stack.append((child, depth + 1))
        for row in list(depths):
            if row - 1 in depths and row - 1 in self._above:
                del depths[row]
        return sorted(depths), depths

    def _with_comments(self, row: int) -> int:
        while row - 1 in self._above:
            row = self._above[row - 1]
        return row
