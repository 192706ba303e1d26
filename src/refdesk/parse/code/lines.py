"""Where are the lines of a text, and how long is a stretch of them?"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from refdesk.text import tokens

_CLOSERS = re.compile(r"^(?:[\s\])};,]|end\b|#endif\b.*|fi\b|done\b|esac\b)*$")


class Lines:
    """The rows of a text (0-based, ends exclusive) with their token counts summed up."""

    __slots__ = ("_exact", "_sums", "contents", "count", "starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        rows = text.split("\n")
        if rows and not rows[-1]:
            rows.pop()
        self.count = len(rows)
        self.starts = [0, *accumulate(len(row) + 1 for row in rows)]
        has_returns = "\r" in text
        self.contents = [row.rstrip("\r") for row in rows] if has_returns else rows
        # Line ends in a row are one token; a stray carriage return breaks that arithmetic.
        self._exact = not has_returns or not any("\r" in row for row in self.contents)
        counted = zip(tokens.pieces_of_rows(self.contents), self.contents, strict=True)
        self._sums = [0, *accumulate(own + 1 if row else 0 for own, row in counted)]  # with the line end

    def tokens(self, start: int, end: int) -> int:
        """The tokens of the rows as `text_of` gives them."""
        last = end - 1
        if last < start:
            return 0
        total = self._sums[end] - self._sums[start] - (1 if self.contents[last] else 0)
        if not self._exact or not self.contents[start]:
            return tokens.pieces(self.text_of(start, end))
        return total

    def row_within(self, start: int, budget: int) -> int:
        """The furthest end for which the rows from `start` keep within a budget of tokens."""
        return bisect_right(self._sums, self._sums[start] + budget) - 1

    def text_of(self, start: int, end: int) -> str:
        """The rows as they stand in the text, without the last line end."""
        return self.text[self.starts[start] : self.starts[end]].rstrip("\r\n")

    def is_blank(self, row: int) -> bool:
        return not self.contents[row] or self.contents[row].isspace()

    def is_closing(self, row: int) -> bool:
        """Whether nothing stands there but what ends something begun above, or nothing at all."""
        return row >= self.count or _CLOSERS.match(self.contents[row]) is not None

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """The rows without the blank ones at both ends; empty when all are blank."""
        while start < end and self.is_blank(start):
            start += 1
        while end > start and self.is_blank(end - 1):
            end -= 1
        return start, end

    def starts_at(self, row: int, column: int) -> bool:
        """Whether nothing but blanks stands before a column."""
        return row < self.count and (column == 0 or not self.contents[row][:column].strip())
