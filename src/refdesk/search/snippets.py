"""Which lines of a passage show why it was found?"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from refdesk.text import analyse

_AIM = 220
_OWN_STEM = 4  # letters of the longest words that are mostly their own stems


def snippet(text: str, terms: tuple[str, ...], aim: int = _AIM) -> tuple[str, int]:
    """About `aim` characters of whole lines around the best match, as written, and the index of their first line."""
    lines = text.split("\n")
    if len(text) <= aim * 1.5:
        return text.strip("\n"), _leading_blank(lines)
    wanted = set(terms)
    first = _best_window(lines, _hits(text, wanted), aim)
    if len(lines[first]) > 2 * aim:
        return _cut(lines[first], wanted, aim), first
    taken: list[str] = []
    size = 0
    for line in lines[first:]:
        if taken and size + len(line) > aim * 1.2:
            break
        taken.append(line[: 2 * aim])
        size += len(line) + 1
    return "\n".join(taken).rstrip(), first


def _leading_blank(lines: list[str]) -> int:
    return next((index for index, line in enumerate(lines) if line), 0)


def _hits(text: str, wanted: set[str]) -> list[tuple[int, str]]:
    """The lines in order with each term that they seem to have: its beginning begins a word or a part of a name."""
    folded = analyse.fold(text)
    lower = folded.lower()
    written = folded if len(folded) == len(lower) else lower
    found: list[tuple[int, str]] = []
    for one in {_beginning(term) for term in wanted}:
        row = seen = 0
        at = lower.find(one)
        while at >= 0:
            if not written[at - 1 : at].isalpha() or _begins_inside(written, at):
                row += lower.count("\n", seen, at)
                found.append((row, one))
                seen = lower.find("\n", at)
                at = lower.find(one, seen) if seen >= 0 else -1
            else:
                at = lower.find(one, at + 1)
    return sorted(found)


def _beginning(term: str) -> str:
    """What the words of a term begin with: a stem is that but for its last letter, `hope` of hoping."""
    return term[:-1] if len(term) > _OWN_STEM else term


def _begins_inside(text: str, at: int) -> bool:
    """Whether a part of a name begins there, after a letter; in other alphabets than ours it may anywhere."""
    if not text[at].isascii():
        return True
    return text[at].isupper() and (text[at - 1].islower() or text[at + 1 : at + 2].islower())


def _best_window(lines: list[str], hits: list[tuple[int, str]], aim: int) -> int:
    """The first line of the window with most different terms, the earliest of equals."""
    starts = list(accumulate([len(line) + 1 for line in lines], initial=0))
    best = most = 0
    last: dict[str, int] = {}  # line with each term, up to the hit
    for row, term in hits:
        last[term] = row
        if len(last) > most:
            # Where a window begins that ends with the hit.
            first = min(row, bisect_left(starts, starts[row + 1] - aim * 1.2))
            different = len([line for line in last.values() if line >= first])
            if different > most:
                best, most = first, different
    while hits and not lines[best].strip():
        best += 1
    return best


def _cut(line: str, wanted: set[str], aim: int) -> str:
    """A window of one very long line around its first matched word."""
    position = 0
    for start in range(0, len(line), aim):
        if wanted.intersection(analyse.terms(line[start : start + aim])):
            position = start
            break
    begin, end = max(0, position - aim // 4), min(len(line), position + aim)
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")
