"""Cuts a file into segments: definitions, what is between them, and groups of small neighbours."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import islice
from typing import Literal, NamedTuple

from tree_sitter import Node

from refdesk.model import Chunking
from refdesk.parse.code.definitions import CALLABLES, SOFT, SPACES, TYPES, Definition
from refdesk.parse.code.syntax import Lines

_DEEPEST = 40  # containers opened inside each other; anything deeper is cut by statements
_SLACK = 8  # tokens a chunk may have too many for the brackets that close it

Form = Literal["definition", "gap", "outline", "part"]


class Segment(NamedTuple):
    """Rows that become one chunk."""

    start: int
    end: int
    tokens: int
    form: Form
    definition: Definition | None = None  # what the chunk is named after
    within: Definition | None = None  # the enclosing definition
    part: int = 0  # 1-based when a definition or gap was cut
    grouped: tuple[Definition, ...] = ()  # the main definitions of a group


class Segmenter:
    """Cuts the rows of one file."""

    def __init__(self, lines: Lines, cuts: Cuts, imports: set[int], chunking: Chunking) -> None:
        self._lines = lines
        self._cuts = cuts
        self._imports = imports
        self._max = max(chunking.max_tokens, 1)
        self._min = min(chunking.min_tokens, self._max)

    def segment(self, definitions: list[Definition]) -> list[Segment]:
        """The file's segments in order; every row that is not blank is in one that is not an outline."""
        roots = [d for d in definitions if d.parent is None]
        return self._group(self._level(0, self._lines.count, roots, None, 0))

    def _level(
        self, start: int, end: int, definitions: list[Definition], within: Definition | None, depth: int
    ) -> list[Segment]:
        segments: list[Segment] = []
        row = start
        for first, last, members in self._clusters(definitions, start, end):
            segments += self._gap(row, first, within, segments)
            segments += self._place(first, last, members, within, depth)
            row = last
        segments += self._gap(row, end, within, segments)
        return segments

    def _clusters(self, definitions: list[Definition], start: int, end: int) -> list[tuple[int, int, list[Definition]]]:
        """Definitions that stand on their own, with their rows; those that share a row are one."""
        clusters: list[tuple[int, int, list[Definition]]] = []
        for d in sorted(definitions, key=lambda d: d.top):
            first, last = self._lines.trim(max(d.top, start), min(d.end, end))
            if first >= last or (d.kind in SOFT and self._lines.tokens(first, last) < self._min):
                continue
            if clusters and first < clusters[-1][1]:
                before = clusters.pop()
                clusters.append((before[0], max(before[1], last), [*before[2], d]))
            else:
                clusters.append((first, last, [d]))
        return clusters

    def _place(
        self, start: int, end: int, members: list[Definition], within: Definition | None, depth: int
    ) -> list[Segment]:
        d = members[0]
        tokens = self._lines.tokens(start, end)
        alone = len(members) == 1
        if alone and depth < _DEEPEST and self._is_opened(d, tokens):
            outline = [Segment(start, end, tokens, "outline", d, within)] if d.kind in TYPES else []
            return outline + self._level(start, end, d.children, d, depth + 1)
        if tokens <= self._max:
            return [Segment(start, end, tokens, "definition", d, within, grouped=tuple(members))]
        parts = self._cuts.split(start, end)
        many = len(parts) > 1
        return [
            Segment(a, b, self._lines.tokens(a, b), "part" if many else "definition", d, within, i if many else 0)
            for i, (a, b) in enumerate(parts, 1)
        ]

    def _is_opened(self, d: Definition, tokens: int) -> bool:
        if not d.children:
            return False
        if d.kind in SPACES:
            return True
        if tokens <= self._max:
            return False
        if d.kind in TYPES:
            return True
        inner = sum(self._lines.tokens(c.top, c.end) for c in d.children if c.kind in TYPES or c.kind in CALLABLES)
        return inner * 2 > tokens

    def _gap(self, start: int, end: int, within: Definition | None, before: list[Segment]) -> list[Segment]:
        if before and before[-1].form != "outline":
            start = self._close(before, start, end)
        start, end = self._lines.trim(start, end)
        if start >= end:
            return []
        segments = []
        for a, b in self._apart(start, end):
            parts = self._cuts.split(a, b)
            for i, (c, d) in enumerate(parts, 1):
                part = i if len(parts) > 1 else 0
                head = within if within is not None and c <= within.start < d else None
                around = within.parent if within is not None and head is not None else within
                segments.append(Segment(c, d, self._lines.tokens(c, d), "gap", head, around, part))
        return segments

    def _close(self, before: list[Segment], start: int, end: int) -> int:
        """The row after the closing brackets, which go with what they follow."""
        last = before[-1]
        for row in range(start, end):
            if not self._lines.is_closing(row):
                return row
            if self._lines.is_blank(row):
                continue
            tokens = self._lines.tokens(last.start, row + 1)
            if tokens > self._max + _SLACK:
                return row
            before[-1] = last._replace(end=row + 1, tokens=tokens)
        return end

    def _apart(self, start: int, end: int) -> list[tuple[int, int]]:
        """Imports and what follows them apart, when both are worth it."""
        last = max(self._imports.intersection(range(start, end)), default=-1)
        if last < 0 or last + 1 >= end:
            return [(start, end)]
        head, tail = self._lines.trim(start, last + 1), self._lines.trim(last + 1, end)
        if tail[0] >= tail[1] or min(self._lines.tokens(*head), self._lines.tokens(*tail)) < self._min // 2:
            return [(start, end)]
        return [head, tail]

    def _group(self, segments: list[Segment]) -> list[Segment]:
        """Small neighbours joined; what is tiny goes with the definition after it, else before it."""
        grouped: list[Segment] = []
        waiting: Segment | None = None  # a tiny gap that rather belongs to what follows
        for segment in segments:
            if segment.form == "outline":
                continue
            if waiting is not None:
                joined = self._joined(waiting, segment)
                if joined is None:
                    self._append(grouped, waiting)
                else:
                    segment = joined
                waiting = None
            if segment.form == "gap" and not segment.part and segment.tokens < self._min // 2:
                waiting = segment
            else:
                self._append(grouped, segment)
        if waiting is not None:
            self._append(grouped, waiting)
        outlines = [segment for segment in segments if segment.form == "outline"]
        return sorted(outlines + grouped, key=lambda s: s.start)

    def _append(self, grouped: list[Segment], segment: Segment) -> None:
        joined = self._joined(grouped[-1], segment) if grouped else None
        if joined is None:
            grouped.append(segment)
        else:
            grouped[-1] = joined

    def _joined(self, a: Segment, b: Segment) -> Segment | None:
        if "part" in (a.form, b.form) or a.part or b.part:
            return None
        is_inside = a.form == "gap" and a.definition is not None and a.definition is b.within
        tokens = self._lines.tokens(a.start, b.end)
        if not (a.within is b.within or is_inside) or tokens > self._limit(a, b):
            return None
        main = b if a.form == "gap" and (b.form == "definition" or a.definition is None) else a
        form: Form = "gap" if a.form == b.form == "gap" else "definition"
        return Segment(a.start, b.end, tokens, form, main.definition, main.within, 0, (*a.grouped, *b.grouped))

    def _limit(self, a: Segment, b: Segment) -> int:
        """How many tokens two neighbours may have together."""
        tiny = self._min // 2
        if a.form == b.form == "gap":
            apart = self._is_import(a) != self._is_import(b) and min(a.tokens, b.tokens) >= tiny
            return 0 if apart else self._max
        if a.form == b.form == "definition":  # each found by itself, unless both are one-liners
            return self._max // 2 if max(a.tokens, b.tokens) < tiny else 0
        if a.tokens < self._min and b.tokens < self._min:
            return self._max // 2
        is_tiny_gap = (a.form == "gap" and a.tokens < tiny) or (b.form == "gap" and b.tokens < tiny)
        return self._max if is_tiny_gap else 0

    def _is_import(self, segment: Segment) -> bool:
        return segment.end - 1 in self._imports


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
        self._known: tuple[int, int, tuple[list[int], dict[int, int]]] | None = None  # what was last asked for

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
        rows, depths = self._rows(start, end)
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

    def _rows(self, first: int, last: int) -> tuple[list[int], dict[int, int]]:
        """Where statements start, and how deep, in these rows alone: most of a file need not be cut."""
        if self._known is not None and self._known[0] <= first and last <= self._known[1]:
            return self._known[2]
        depths: dict[int, int] = {}
        above, lines, much = self._above, self._lines, self._max // 4
        stack = [(self._root, 0)] if self._root is not None else []
        while stack:
            node, depth = stack.pop()
            at = bisect_left(node.children, first, key=_last_row)
            previous = _last_row(node.children[at - 1]) if at else node.start_point[0]
            for child in islice(node.children, at, None):
                start = child.start_point[0]
                if start > last:
                    break
                if start > previous and not lines.is_closing(start):
                    row = start
                    while row - 1 in above:  # its comments
                        row = above[row - 1]
                    depths[row] = min(depths.get(row, _NO_STATEMENT), depth)
                previous = _last_row(child)
                if previous - start > 1 and lines.tokens(start, previous + 1) > much:
                    stack.append((child, depth + 1))
        for row in list(depths):
            if row - 1 in depths and row - 1 in self._above:
                del depths[row]
        self._known = (first, last, (sorted(depths), depths))
        return self._known[2]


def _last_row(node: Node) -> int:
    end, column = node.end_point
    return end - 1 if column == 0 and end > node.start_point[0] else end
