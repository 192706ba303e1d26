"""Which lines of a passage show why it was found?"""

from __future__ import annotations

from refdesk import analyse

_AIM = 220
_OWN_STEM = 4  # letters of the longest words that are mostly their own stems


def snippet(text: str, terms: tuple[str, ...], aim: int = _AIM) -> tuple[str, int]:
    """About `aim` characters of whole lines around the best match, as written, and the index of their first line."""
    lines = text.split("\n")
    if len(text) <= aim * 1.5:
        return text.strip("\n"), _leading_blank(lines)
    wanted = set(terms)
    first = _best_window(lines, _hits(text, len(lines), wanted), aim)
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


def _hits(text: str, rows: int, wanted: set[str]) -> list[int]:
    """How many of the terms each line seems to have: where the beginning of one begins a word or a part of a name."""
    folded = analyse.fold(text)
    lower = folded.lower()
    written = folded if len(folded) == len(lower) else lower
    hits = [0] * rows
    for one in {_beginning(term) for term in wanted}:
        row = seen = 0
        at = lower.find(one)
        while at >= 0:
            if _begins(written, at):
                row += lower.count("\n", seen, at)
                hits[row] += 1
                seen = lower.find("\n", at)
                at = lower.find(one, seen) if seen >= 0 else -1
            else:
                at = lower.find(one, at + 1)
    return hits


def _beginning(term: str) -> str:
    """What the words of a term begin with: a stem is that but for its last letter, `hope` of hoping."""
    return term[:-1] if len(term) > _OWN_STEM else term


def _begins(text: str, at: int) -> bool:
    """Whether a word, or a part of a name, begins there; in other alphabets than ours it may anywhere."""
    before = text[at - 1] if at else " "
    if not before.isalpha() or not text[at].isascii():
        return True
    return text[at].isupper() and (before.islower() or text[at + 1 : at + 2].islower())


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
