"""Text analysis: terms, token counts, globs, and the detection of text that addresses the agent."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words between the blanks of a text, as long tables of words are written."""
    return frozenset(text.split())


def word_table(text: str) -> dict[str, str]:
    """Each word behind a name → the name, of a text such as `python: py pyi; ruby: rb rake`."""
    rows = (row.split(":") for row in text.split(";") if row.strip())
    return {word: name.strip() for name, words in rows for word in words.split()}
