"""Token counts: an estimate of a language model's tokens, and the coarser measure by which documents are cut."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, wraps
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    def know(self, texts: Sequence[str], work_out: Callable[[Sequence[str]], Sequence[T]]) -> None:
        """Caches what is new of these texts, worked out together."""
        new = [text for text in dict.fromkeys(texts) if hash(text) not in self._known]
        if len(new) > 1:
            if len(self._known) + len(new) > self._most:
                self._known = {}
            self._known |= zip(map(hash, new), work_out(new), strict=True)

    def cache_clear(self) -> None:
        self._known = {}

    def cache_parameters(self) -> dict[str, Any]:
        """As lru_cache's: system/memory.py finds caches by it."""
        return {"maxsize": self._most}


# Both patterns are compiled on first use, which takes 2 ms.

# How cl100k splits a text before it looks for tokens: words with the character before them, up to three digits, runs of
# punctuation, white space.
_BLOCK = (
    r"\\[nrt]|'(?:[sdmt]|ll|ve|re)(?![a-z])|[^\r\n\w]?[^\W\d_]+|_[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# The same for ASCII: written out as ranges, it takes two thirds of the time.
_ASCII_BLOCK = (
    r"[A-Za-z]+|\\[nrt]|'(?:[sdmt]|ll|ve|re)(?![a-z])|[^\r\nA-Za-z0-9_][A-Za-z]+|_[A-Za-z]+|[0-9]{1,3}"
    r"| ?[!-/:-@\[-`{-~\x00-\x08\x0e-\x1b\x7f]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Tokens per non-ASCII character, by the end of its Unicode range; fitted to 30,000 words of 40 projects.
_CHARACTER = ((0x80, 0.25), (0x250, 1.24), (0x400, 1.0), (0x530, 0.64), (0x1100, 1.5), (0x3000, 0.3), (0xFFF0, 1.05))
_ASTRAL = 2.5  # tokens of a character beyond those: emoji
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())
_NO_CAPITALS = bytes(code for code in range(128) if not chr(code).isupper())
_ONLY_LETTERS = bytes(code if chr(code).isalpha() else 32 for code in range(128)).ljust(256)


def count_once(text: str) -> int:
    """As `count`, for a text that is not counted again."""
    return round(sum(map(_hundredths, re.findall(_ASCII_BLOCK if text.isascii() else _BLOCK, text))) / 100)


def count_each(texts: Sequence[str]) -> list[int]:
    """The same for several texts: ASCII ones together, which takes half the time."""
    found = dict.fromkeys(texts, 0)
    together = [text for text in found if text.isascii() and not re.search(_ODD, text)]
    found |= zip(together, counted_together(together), strict=True)
    return [found[text] or count_once(text) for text in texts]


def at_most(text: str) -> int:
    """A number that `count` does not exceed, for ASCII in a fifth of its time."""
    if not text.isascii():
        return count_once(text)
    data = text.encode()
    words, letters = len(data.translate(_ONLY_LETTERS).split()), len(data.translate(None, _NO_LETTERS))
    capitals = len(data.translate(None, _NO_CAPITALS))
    # A word has a token, a tenth of one for each further letter, 1.15 for each capital; any other character has one.
    return int(0.9 * words - 0.9 * letters + 1.15 * capitals + len(data)) + 1


@by_hash  # for passages that are shown often; a count takes a twentieth of a search
def count(text: str) -> int:
    """The estimated number of tokens, within a tenth of cl100k's for code, prose and CJK."""
    return count_once(text)


@lru_cache(maxsize=20_000)
def _hundredths(block: str) -> int:
    return round(100 * _tokens(block))


def _tokens(block: str) -> float:
    """The average number of tokens of such a block, fitted to the same 40 projects."""
    if not block.isascii():
        weights = (next((weight for end, weight in _CHARACTER if ord(one) < end), _ASTRAL) for one in block)
        return max(1.0, sum(weights))
    if block[-1].isalpha():
        humps = len(_HUMP.findall(block))
        if humps > 1:
            return 1.15 * humps - 0.3
        letters = len(block) - (not block[0].isalpha())
        if block[0] == " ":
            return 1 + (0.03 if block[-1].islower() else 0.1) * max(0, letters - 4)
        return 1 + 0.09 * max(0, letters - 3)
    if block.isspace() or block.isdigit():
        return 1.0
    usual = 4 if '"' in block else 2  # `":{"` is one token
    return 1 + 0.33 * min(10, max(0, len(block.strip()) - usual))


# The same for ASCII as arithmetic on runs of characters of one kind, which are blocks or parts of them: what one costs
# follows from its kind, its size and the runs beside it, but for words, whose capitals count too.

_END, _WORD, _DIGITS, _BLANKS, _TABS, _LINES, _MARKS = range(7)  # kinds of runs; _BLANKS end in a blank, _TABS do not
_KINDS, _SIZES = 7, 16
_APART = "\x80"  # between texts: no ASCII
_RUNS = bytes(
    _END if code > 127 else _WORD if chr(code).isalpha() else _DIGITS if chr(code).isdigit() else _LINES
    if code in b"\r\n" else _TABS if chr(code).isspace() else _MARKS
    for code in range(256)
)  # fmt: skip
_CASES = bytes(code < 128 and chr(code).islower() + 2 * chr(code).isupper() for code in range(256))
_ODD = r"'(?:[sdmt]|ll|ve|re)[A-Z]"  # a word that an ending of another is written together with


def counted_together(texts: Sequence[str]) -> list[int]:
    """The tokens of ASCII texts."""
    import numpy as np

    data = f"{_APART}{_APART.join(texts)}{_APART}".encode("latin-1")
    raw = np.frombuffer(data, np.uint8)
    codes = np.frombuffer(data.translate(_RUNS), np.uint8)
    begins = np.empty(len(codes), np.bool_)
    begins[0] = True
    np.not_equal(codes[1:], codes[:-1], out=begins[1:])
    begins |= codes == _END
    starts = np.flatnonzero(begins)
    around = np.zeros(len(starts) + 2, np.int32)  # the kinds of runs, with none before the first and after the last
    before, kinds, after = around[:-2], around[1:-1], around[2:]
    kinds[:] = codes[starts]
    ends = np.append(starts[1:], len(codes))
    sizes = ends - starts
    kinds[raw[ends - 1] == ord(" ")] = _BLANKS
    quotes = np.cumsum(raw == ord('"'), dtype=np.int32)
    bounded = np.minimum(sizes, _SIZES - 1)
    quoted = np.flatnonzero((kinds == _MARKS) & (sizes > 2) & (quotes[ends - 1] > quotes[starts - 1]))
    bounded[quoted] = np.minimum(np.maximum(sizes[quoted] - 2, 2), _SIZES - 1)
    costs = _costs()[((kinds * _KINDS + before) * _KINDS + after) * _SIZES + bounded]
    long = np.flatnonzero((kinds == _DIGITS) & (sizes >= _SIZES))
    costs[long] = (sizes[long] + 2) // 3 * 100
    lines = np.flatnonzero(kinds[:-2] == _LINES)
    white = (kinds[lines + 1] == _BLANKS) | (kinds[lines + 1] == _TABS)
    costs[lines[white & (kinds[lines + 2] == _LINES)]] = 0  # one with the next lines
    # Words
    cases = np.frombuffer(data.translate(_CASES), np.uint8)
    lower, upper = cases == 1, cases == 2
    parts = upper.copy()  # whether a part of a name begins
    parts[1:-1] &= ~upper[:-2] | lower[2:]
    parts[1:] |= lower[1:] & (cases[:-1] == 0)
    humps = np.cumsum(parts, dtype=np.int32)
    words = np.flatnonzero(kinds == _WORD)
    first, last, letters = starts[words], ends[words] - 1, sizes[words]
    many = humps[last] - humps[first - 1]
    # `\\n` is a block, if it is not a part of a longer run; the word begins behind it.
    escaped = np.flatnonzero((raw[first - 1] == ord("\\")) & (sizes[words - 1] == 1) & (before[words - 1] != _BLANKS))
    if len(escaped):
        letter = raw[first[escaped]]
        escaped = escaped[(letter == ord("n")) | (letter == ord("r")) | (letter == ord("t"))]
        costs[words[escaped] - 1] = 100
        letters[escaped] -= 1
        many[escaped] -= cases[first[escaped] + 1] != 1
    usual = np.where(
        before[words] == _BLANKS,
        100 + np.where(lower[last], 3, 10) * np.maximum(0, letters - 4),
        100 + 9 * np.maximum(0, letters - 3),
    )
    costs[words] = np.where(many > 1, 115 * many - 30, usual * (letters > 0))
    totals: list[int] = np.add.reduceat(costs, np.flatnonzero(kinds == _END))[: len(texts)].tolist()
    return [round(total / 100) for total in totals]


@cache
def _costs() -> NDArray[np.int32]:
    """Hundredths of tokens by a run's kind, that of the run before, of the one after, and its size."""
    import numpy as np

    found = np.zeros((_KINDS, _KINDS, _KINDS, _SIZES), np.int32)
    for before, after, size in product(range(_KINDS), range(_KINDS), range(1, _SIZES)):
        at = (before, after, size)
        found[_DIGITS, *at] = 100 * -(-size // 3)
        found[_LINES, *at] = 0 if before == _MARKS else 100
        for kind in (_BLANKS, _TABS):  # the last blank is a part of a word, or of marks, behind it
            joins = after == _WORD or (after == _MARKS and kind == _BLANKS)
            found[kind, *at] = 0 if after == _LINES else 100 if after == _END else 100 * (size > 1) + 100 * (not joins)
        joins = size == 1 and after == _WORD and before != _BLANKS
        found[_MARKS, *at] = 0 if joins else 100 + 33 * min(10, max(0, size - 2))
    return found.ravel()


# Documents are cut by a coarser measure that is additive over lines and fast: about a fifth above the token count.

# A piece is up to 7 letters, up to 3 digits, a run of line ends, up to 4 equal punctuation marks or one other
# character; a single blank is free. Indentation counts once for every 16 columns.
_PIECE = re.compile(r"[A-Za-z]{1,7}|[0-9]{1,3}|[\r\n]+|[ \t]{2,16}|([^\w\s])\1{0,3}|[^\W\d_A-Za-z]|_+|[^\s]")
_FEW = 1_000  # characters up to which the regular expression is faster than numpy
_BEFORE_NUMPY = 1_000_000  # and altogether, where numpy is not loaded yet: they take as long as that
_seen = 0


def pieces(text: str) -> int:
    """The number of pieces, by which texts are cut into passages."""
    return len(_PIECE.findall(text))


def pieces_of_rows(rows: Sequence[str]) -> list[int]:
    """The pieces of each row; rows hold no line feed."""
    global _seen  # of this process
    text = "\n".join(rows)
    _seen += len(text)
    is_early = _seen < _BEFORE_NUMPY and "numpy" not in sys.modules
    wide = [] if text.isascii() else [at for at, row in enumerate(rows) if not row.isascii()]
    if not text or len(text) < _FEW or is_early or 2 * len(wide) > len(rows):
        return [pieces(row) for row in rows]
    import numpy as np

    if wide:  # rows in other alphabets are counted one by one
        plain = list(rows)
        for at in wide:
            plain[at] = ""
        text = "\n".join(plain)
    found = _counted(np.frombuffer(text.encode().translate(_kinds()), np.uint8))
    for at in wide:
        found[at] = pieces(rows[at])
    return found


# The same for ASCII as arithmetic on runs of characters of one kind, which takes a sixth of the time.

_FIRST = 128  # the kinds below are numbered after all characters; any other character is its own kind
_LETTER, _DIGIT, _BLANK, _UNDERSCORE, _RETURN, _NOTHING, _FEED = range(7)
_SHORT = 63  # characters up to which the pieces of a run are in a table


def _counted(kinds: NDArray[np.uint8]) -> list[int]:
    """The number of pieces in each line."""
    import numpy as np

    starts = np.concatenate(([0], np.flatnonzero(kinds[1:] != kinds[:-1]) + 1))
    lengths = np.diff(starts, append=len(kinds))
    runs = np.maximum(kinds[starts].astype(np.int32) - _FIRST, -1)
    pieces = _pieces()[runs, np.minimum(lengths, _SHORT)]
    for at in np.flatnonzero(lengths > _SHORT).tolist():
        pieces[at] = _pieces_of(int(runs[at]), int(lengths[at]))
    sums = np.cumsum(pieces)
    feeds = runs == _FEED
    ends = np.append(np.repeat(sums[feeds], lengths[feeds]), sums[-1])
    found: list[int] = np.diff(ends, prepend=0).tolist()
    return found


@cache
def _pieces() -> NDArray[np.int32]:
    """The number of pieces by kind and length of a run; the last row is for single-character kinds."""
    import numpy as np

    kinds = (*range(7), -1)
    return np.array([[_pieces_of(kind, length) for length in range(_SHORT + 1)] for kind in kinds], np.int32)


def _pieces_of(kind: int, length: int) -> int:
    if kind == _BLANK:
        return length // 16 + (length % 16 >= 2)
    if kind in (_NOTHING, _FEED):
        return 0
    longest = {_LETTER: 7, _DIGIT: 3, _UNDERSCORE: length, _RETURN: length}.get(kind, 4)
    return -(-length // longest) if length else 0


@cache
def _kinds() -> bytes:
    """The kind of each ASCII character."""
    marks = {" ": _BLANK, "\t": _BLANK, "\r": _RETURN, "\n": _FEED, "_": _UNDERSCORE}
    found = bytearray(256)
    for code, character in enumerate(map(chr, range(128))):
        if character.isalnum():
            kind = _FIRST + (_DIGIT if character.isdigit() else _LETTER)
        elif character in marks or character.isspace():
            kind = _FIRST + marks.get(character, _NOTHING)
        else:
            kind = code
        found[code] = kind
    return bytes(found)
