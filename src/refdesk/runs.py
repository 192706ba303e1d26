"""Which runs of letters is a text made of, which words is a run, and what was made of each before?"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

_SHORT = 64  # letters of what is worth remembering
# Every ASCII character that is in no name becomes a blank; the rest stays, whatever its alphabet.
_NAMES = bytes(code if code >= 128 or chr(code).isalnum() or chr(code) == "_" else 32 for code in range(256))
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # of ASCII

K = TypeVar("K", str, bytes)
V = TypeVar("V")


def runs(text: str) -> list[bytes]:
    """What stands between blanks and ASCII punctuation, in order: no word and no term goes over them."""
    return text.encode("utf-8", "surrogatepass").translate(_NAMES).split()


def text_of(run: bytes) -> str:
    """The run as text."""
    return run.decode("utf-8", "surrogatepass")


def words(run: str) -> list[str]:
    """The words of an ASCII run, lower-cased: names are split at capitals, underscores and digits."""
    if run.isalpha() and (run.islower() or run.istitle() or run.isupper()):
        return [run.lower()]
    found = WORD.findall(run)
    return found if run.islower() else [word.lower() for word in found]


class Remembered(dict[K, V], Generic[K, V]):
    """What each of many runs or words gives, worked out when it is first asked for.

    Those of the last while are known: when there are too many, those asked for since are kept.
    """

    def __init__(self, work_out: Callable[[K], V], most: int) -> None:
        self._work_out: Callable[[K], V] = work_out
        self._half = max(most // 2, 1)
        self._before: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        found = self._before.get(key)
        if found is None:
            found = self._work_out(key)
        if len(self) >= self._half:
            self._before = dict(self)
            self.clear()
        if len(key) <= _SHORT:
            self[key] = found
        return found
