"""Text analysis: terms, token counts, globs, and the detection of text that addresses the agent."""

from __future__ import annotations

from collections.abc import Iterable


def word_set(text: str) -> frozenset[str]:
    """The words between the blanks of a text, as long tables of words are written."""
    return frozenset(text.split())


def word_table(text: str) -> dict[str, str]:
    """Each word behind a name → the name, of a text such as `python: py pyi; ruby: rb rake`."""
    rows = (row.split(":") for row in text.split(";") if row.strip())
    return {word: name.strip() for name, words in rows for word in words.split()}


class Unique:
    """Makes names unique by numbering repeated ones."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        given = wanted
        number = self._next.get(wanted, 2)
        while given in self._taken:
            given, number = f"{wanted}-{number}", number + 1
        self._next[wanted] = number
        self._taken.add(given)
        return given
