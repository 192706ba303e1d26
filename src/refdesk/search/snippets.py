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
    hits = [len(wanted.intersection(analyse.terms(line))) if wanted else 0 for line in lines]
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


def _best_window(lines: list[str], hits: list[int], aim: int) -> int:
    """The first line of the window with most matched terms, the earliest of equals."""
    best, best_score = 0, 0
    for start in range(len(lines)):
        if not lines[start].strip():
            continue
        size, score = 0, 0
        for index in range(start, len(lines)):
            size += len(lines[index]) + 1
            if size > aim * 1.2 and index > start:
                break
            score += hits[index]
        if score > best_score:
            best, best_score = start, score
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
