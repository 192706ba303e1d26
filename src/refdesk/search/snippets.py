"""Which lines of a passage show why it was found?"""

from __future__ import annotations

from refdesk import analyse

_AIM = 220


def snippet(text: str, terms: tuple[str, ...], aim: int = _AIM) -> tuple[str, int]:
    """About `aim` characters of whole lines around the best match, as written, and the index of their first line."""
    lines = text.split("\n")
    if len(text) <= aim * 1.5:
        return text.strip("\n"), _leading_blank(lines)
    wanted = set(terms)
    hits = _hits(text, lines, wanted)
    first = _best_window(lines, hits, aim)
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


def _hits(text: str, lines: list[str], wanted: set[str]) -> list[int]:
    """How many of the terms each line has; only lines with the beginning of one anywhere are analysed."""
    folded = analyse.fold(text).lower()
    hits = [0] * len(lines)
    for row in _with_any(folded, {term[:3] for term in wanted}):
        hits[row] = len(wanted.intersection(analyse.terms(lines[row])))
    return hits


def _with_any(text: str, wanted: set[str]) -> set[int]:
    """The lines that hold any of these strings."""
    found: set[int] = set()
    for one in wanted:
        row = seen = 0
        at = text.find(one)
        while at >= 0:
            row += text.count("\n", seen, at)
            found.add(row)
            seen = text.find("\n", at)
            at = text.find(one, seen) if seen >= 0 else -1
    return found


def _best_window(lines: list[str], hits: list[int], aim: int) -> int:
    """The first line of the window with most matched terms, the earliest of equals."""
    best, best_score, end, size, score = 0, 0, 0, 0, 0
    for start in range(len(lines)):
        while end < len(lines) and (end == start or size + len(lines[end]) + 1 <= aim * 1.2):
            size += len(lines[end]) + 1
            score += hits[end]
            end += 1
        if score > best_score and lines[start].strip():
            best, best_score = start, score
        size -= len(lines[start]) + 1
        score -= hits[start]
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
