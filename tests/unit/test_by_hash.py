"""The cache that keeps no texts."""

from __future__ import annotations

from refdesk.text.tokens import by_hash


def test_a_text_is_looked_at_once_until_there_are_too_many() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        """Counts."""
        asked.append(text)
        return len(text)

    cached = by_hash(length, most=2)
    assert [cached("".join(["ab", "c"])), cached("abc"), cached("")] == [3, 3, 0]
    assert asked == ["abc", ""] and cached.__doc__ == "Counts."
    assert (cached("four"), cached("abc"), asked) == (4, 3, ["abc", "", "four", "abc"])
    cached.know(["five", "six", "five"], lambda texts: [asked.append(text) or len(text) for text in texts])  # type: ignore[func-returns-value]
    assert (cached("six"), cached("five"), asked[4:]) == (3, 4, ["five", "six"])
    asked[4:] = []
    cached.cache_clear()
    assert (cached("abc"), asked[4:]) == (3, ["abc"])
