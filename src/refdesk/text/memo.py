"""A cache of results for texts that keeps none of the texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class by_hash(Generic[T]):  # noqa: N801 - used as a decorator, like lru_cache
    """Caches a function of one text by the text's hash: 50,000 passages take 6 MB, with their texts 60.

    Hashes have 64 bits and a random seed, so nobody can make two texts that share one.
    """

    def __init__(self, function: Callable[[str], T], most: int = 50_000) -> None:
        wraps(function)(self)
        self._function = function
        self._most = most
        self._known: dict[int, T] = {}

    def __call__(self, text: str) -> T:
        key = hash(text)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= self._most:
                self._known = {}  # a new object: other threads may be using the old one
            found = self._known[key] = self._function(text)
            return found

    def cache_clear(self) -> None:
        self._known = {}

    def cache_parameters(self) -> dict[str, Any]:
        """As lru_cache's: by it caches are found when memory is short."""
        return {"maxsize": self._most}
