"""Globs for path filters and manifests, matched in time linear in the path.

A glob is parsed into items: expressions for one character, and stars. If it is enough to try the shortest match of
each star, the items become a regular expression that never backtracks over a star; otherwise one for RE2, which takes
linear time for all of them, but ten times as long for a short path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

from refdesk.errors import InvalidInput

STAR = "[^/]*"  # within a name
ANY = ".*"
FOLDERS = "(?:.*/)?"  # any number of whole folders
_LAZY = {STAR: "[^/]*?", ANY: ".*?", FOLDERS: "(?:[^/]*+/)*?"}  # takes half the time of "(?:.*?/)??"
_CROSSING = (ANY, FOLDERS)
_MEMBER = re.compile(r"(.)(?:-(.))?", re.DOTALL)
_RANGE = re.compile(r"(\d{1,4})\.\.(\d{1,4})")
_SHORTER = "Write a shorter one, or several."
MOST_CHARACTERS = 4_096  # as many as a path may have
_MOST_CHOICES = 256  # alternatives that braces make of a glob: each is tried on each path
_MOST_DEPTH = 8  # of groups in each other, each of which multiplies the alternatives
_MOST_ITEMS = 10_000  # in all choices
_NO_CHARACTER = chr(0x10FFFF)  # no path has it


class Matcher(Protocol):
    """Matches whole paths."""

    def fullmatch(self, string: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Many:
    """A group that repeats: one of the choices each time."""

    choices: tuple[tuple[Item, ...], ...]
    may_be_none: bool


@dataclass(frozen=True, slots=True)
class Not:
    """Part of a name that is none of the choices."""

    choices: tuple[tuple[Item, ...], ...]


Item = str | Many | Not


@lru_cache(maxsize=512)
def path_filter(glob: str) -> Matcher:
    """The matcher of a path filter.

    As in gitignore: a glob without a slash matches a name at any depth, `*` stays within a name, `**` crosses
    slashes, and everything below a matching folder matches. Braces hold alternatives.
    """
    body = glob.strip().removeprefix("./")
    anchored = "/" in body.rstrip("/")
    body = body.strip("/")
    if body in ("", "**"):
        return re.compile(ANY, re.DOTALL)
    read = _Reader(body).read()
    return _matcher([one if anchored else (FOLDERS, *one) for one in read], below="(?:/.*)?")


@lru_cache(maxsize=1024)
def manifest_glob(glob: str) -> Matcher:
    """The matcher of a manifest's pattern, with picomatch's syntax and its `dot` option."""
    negated = glob.startswith("!") and not glob.startswith("!(")
    wanted: list[tuple[Item, ...]] = []
    unwanted: list[tuple[Item, ...]] = []
    for one in _Reader(glob[negated:].removeprefix("./"), as_picomatch=True).read():
        wanted.append(_with_stars(one))
        for at, item in enumerate(one):
            if isinstance(item, Not):
                unwanted += [_with_stars((*one[:at], *choice, *one[at + 1 :])) for choice in item.choices]
    matcher = _matcher(wanted)
    if unwanted:
        matcher = _Unless(matcher, _matcher(unwanted))
    return _Unless(re.compile(ANY, re.DOTALL), matcher) if negated else matcher


def _with_stars(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(STAR if isinstance(item, Not) else item for item in items)


@dataclass(frozen=True, slots=True)
class _Unless:
    """Matches what one glob matches and another does not."""

    wanted: Matcher
    unwanted: Matcher

    def fullmatch(self, path: str) -> bool:
        return bool(self.wanted.fullmatch(path)) and not self.unwanted.fullmatch(path)


def _matcher(choices: Sequence[Sequence[Item]], below: str = "") -> Matcher:
    expressions = [expression(one) for one in choices]
    if None not in expressions:
        either = "|".join(one for one in expressions if one is not None)
        return re.compile(f"(?:{either}){below}" if len(expressions) > 1 else either + below, re.DOTALL)
    return linear(choices, below)


def linear(choices: Sequence[Sequence[Item]], below: str = "") -> Matcher:
    """RE2's matcher of one of the choices."""
    import re2

    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    matcher: Matcher = re2.compile(f"(?:{_either(choices)}){below}", options)
    return matcher


def _either(choices: Iterable[Sequence[Item]]) -> str:
    """One of the choices as a regular expression."""
    written = []
    for items in choices:
        parts = []
        for item in items:
            if isinstance(item, Many):
                parts.append(f"(?:{_either(item.choices)}){'*' if item.may_be_none else '+'}")
            else:
                assert isinstance(item, str), "Not was replaced before"
                parts.append(item)
        written.append("".join(parts))
    return "|".join(written)


def _start(glob: str) -> str:
    return glob if len(glob) <= 60 else f"{glob[:60]}…"


# --- a regular expression that does not backtrack -------------------------------------------------


def expression(items: Sequence[Item]) -> str | None:
    """A regular expression that matches the items in linear time; None if there is none.

    Between two stars that cross the same characters, the first match is as good as any later one, since the second star
    can match what lies between them. So only the first is tried, in an atomic group. This does not hold for repeating
    groups, nor for FOLDERS after part of a name; and after ANY a star within a name would be tried at each character.
    """
    blocks: list[list[str]] = [[]]  # each but the first starts with a star that crosses slashes
    for item in items:
        if not isinstance(item, str):
            return None
        block = blocks[-1]
        last = block[-1] if block else ""
        if item in _CROSSING and last in _CROSSING:
            block[-1] = FOLDERS if item == last == FOLDERS else ANY
        elif item == STAR and last in (STAR, ANY):
            continue
        elif item in _CROSSING:
            if item == FOLDERS and not (last in ("", "/") or (len(blocks) == 1 and STAR not in block)):
                return None
            blocks.append([item])
        else:
            block.append(item)
    if any(one[:1] == [ANY] and STAR in one and one[1] != "/" for one in blocks):
        return None
    rest = ANY if blocks[1:] and blocks[-1] == [ANY] else ""  # it matches whatever is left
    *before, end = blocks[:-1] if rest else blocks
    return "".join([f"(?>{_block(one, is_last=False)})" for one in before if one] + [_block(end, is_last=True), rest])


def _block(items: Sequence[str], *, is_last: bool) -> str:
    """The expression of one block; in the last block the last star reaches the end."""
    starts = [0, *(at for at, item in enumerate(items) if item == STAR and at), len(items)]
    *first, final = (items[a:b] for a, b in pairwise(starts))
    each = [f"(?>{_lazy(part)})" if part[0] == STAR else ("".join if is_last else _lazy)(part) for part in first]
    return "".join([*each, "".join(final) if is_last else _lazy(final)])


def _lazy(part: Sequence[str]) -> str:
    return "".join([_LAZY.get(one, one) for one in part])


# --- parsing --------------------------------------------------------------------------------------


class _Reader:
    """Parses a glob into sequences of items, one for each choice of its alternatives."""

    def __init__(self, glob: str, *, as_picomatch: bool = False) -> None:
        if len(glob) > MOST_CHARACTERS:
            raise InvalidInput(f"The glob {_start(glob)} has {len(glob)} characters.", f"At most {MOST_CHARACTERS}.")
        self._glob = glob
        self._as_picomatch = as_picomatch
        self._closing = self._pairs()

    def read(self) -> list[tuple[Item, ...]]:
        """The sequences of items; raises InvalidInput if there are too many."""
        return self._between(0, len(self._glob))

    def _pairs(self) -> dict[int, int]:
        """The end of each group by its start; in picomatch's syntax an open parenthesis ends with the glob."""
        pairs: dict[int, int] = {}
        open_at: dict[str, list[int]] = {"{": [], "(": []}
        at = 0
        while at < len(self._glob):
            match self._glob[at]:
                case "\\":
                    at += 1
                case "{":
                    open_at["{"].append(at)
                case "}" if open_at["{"]:
                    pairs[open_at["{"].pop()] = at
                case "(" if self._as_picomatch and at and self._glob[at - 1] in "?*+@!":
                    open_at["("].append(at)
                case ")" if open_at["("]:
                    pairs[open_at["("].pop()] = at
            at += 1
        pairs |= dict.fromkeys(open_at["("], len(self._glob))
        ends: list[int] = []
        for start in sorted(pairs):
            ends = [end for end in ends if end > start]
            ends.append(pairs[start])
            if len(ends) > _MOST_DEPTH:
                raise InvalidInput(f"The groups in {_start(self._glob)} are nested too deep.", _SHORTER)
        return pairs

    def _between(self, start: int, end: int) -> list[tuple[Item, ...]]:
        found: list[list[Item]] = [[]]
        at = start
        while at < end:
            choices, at = self._next(at, start, end)
            if len(choices) > 1:
                found = [[*one, *choice] for one in found for choice in choices]
            else:
                for one in found:
                    one += choices[0]
            if len(found) > _MOST_CHOICES or sum(map(len, found)) > _MOST_ITEMS:
                raise InvalidInput(f"The glob {_start(self._glob)} has too many alternatives.", _SHORTER)
        return list(map(tuple, found))

    def _next(self, at: int, start: int, end: int) -> tuple[list[tuple[Item, ...]], int]:
        """The alternatives at a position, and the next position."""
        glob, character = self._glob, self._glob[at]
        if self._closing.get(at + 1, 0) and character in "?*+@!" and glob[at + 1] == "(":
            return self._extended(at)
        if character == "*":
            return self._stars(at, start, end)
        if character == "?":
            return [("[^/]",)], at + 1
        if character == "[" and (close := glob.find("]", at + 2, end)) > 0 and (one := _set(glob[at + 1 : close])):
            return [(one,)], close + 1
        if character == "{" and at in self._closing:
            return self._braces(at)
        if character == "\\" and at + 1 < end:
            return [(re.escape(glob[at + 1]),)], at + 2
        return [(re.escape(character),)], at + 1

    def _stars(self, at: int, start: int, end: int) -> tuple[list[tuple[Item, ...]], int]:
        glob, after = self._glob, at
        while after < end and glob[after] == "*":
            after += 1
        if after - at > 1:
            is_whole = at == start or glob[at - 1] == "/"
            if is_whole and after < end and glob[after] == "/":
                return [(FOLDERS,)], after + 1
            if not self._as_picomatch or (is_whole and after == end):
                return [(ANY,)], after
        return [(STAR,)], after

    def _braces(self, at: int) -> tuple[list[tuple[Item, ...]], int]:
        close = self._closing[at]
        parts = self._split(at + 1, close, ",")
        if self._as_picomatch and len(parts) == 1:
            if span := _RANGE.fullmatch(self._glob, at + 1, close):
                low, high = sorted((int(span[1]), int(span[2])))
                return [tuple(str(number)) for number in range(low, high + 1)], close + 1
            return [("\\{", *one, "\\}") for one in self._between(at + 1, close)], close + 1
        return [one for a, b in parts for one in self._between(a, b)], close + 1

    def _extended(self, at: int) -> tuple[list[tuple[Item, ...]], int]:
        """Picomatch's groups: one of several, none or one, any number, none of them."""
        kind, close = self._glob[at], self._closing[at + 1]
        choices = [one for a, b in self._split(at + 2, close, "|") for one in self._between(a, b)]
        if kind == "!":
            return [(Not(tuple(map(_with_stars, choices))),)], close + 1
        if kind in "+*":
            return [(Many(tuple(map(_with_stars, choices)), kind == "*"),)], close + 1
        return [*choices, ()] if kind == "?" else choices, close + 1

    def _split(self, start: int, end: int, mark: str) -> list[tuple[int, int]]:
        """The parts between marks that are not in an inner group."""
        parts, at, first = [], start, start
        while at < end:
            if self._glob[at] == mark:
                parts.append((first, at))
                first = at + 1
            at = self._closing.get(at, at) + 1 + (self._glob[at] == "\\")
        return [*parts, (first, end)]


def _set(inside: str) -> str:
    """The expression for a set of characters, which never matches a slash; "" if it is invalid."""
    negated = inside[:1] in ("!", "^")
    members = ""
    for low, high in _MEMBER.findall(inside[negated:]):
        high = high or low
        if low > high:
            return ""
        around = ((low, "."), ("0", high)) if low <= "/" <= high else ((low, high),)
        members += "".join(f"{re.escape(a)}-{re.escape(b)}" for a, b in around if a <= b)
    return f"[^/{members}]" if negated else f"[{members or _NO_CHARACTER}]"
