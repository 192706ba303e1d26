"""Which words of what is searched were meant by words that it does not hold?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from refdesk.model import Query, StoredChunk
from refdesk.ports import Store, View, WordMatching
from refdesk.search.understand import QUOTED, Understood, understand
from refdesk.text import analyse

_RUN = re.compile(r"\w+")
_MOST_RUNS = 32  # of a query: a longer text says enough with the words that are known
_MOST_CORRECTED = 4
_NAMED = 3  # words spelt like an unknown one, where nothing was found
_SHORTEST = 4  # letters of a word that is corrected
_LONG = 6  # letters from which two edits may lie between a word and what was meant
_OTHER_LETTERS = 4  # that one of two words has and the other has not: two edits
_READ = 16  # passages in which the words spelt alike are looked up
_EDIT = 6.0  # an edit is as unlikely as a word that is this much rarer, as a logarithm; 3 to 7 do the same
_CERTAIN = 10  # passages of a known word that is an edit away, so that no other word is looked for
_RARE = 2  # passages of a word that may be misspelt there
_RARER = 100  # times that it is rarer than the word that was meant
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_KEYS = {key: (row, at + row / 2) for row, keys in enumerate(_ROWS) for at, key in enumerate(keys)}
_SOUNDS = ("aeiouy", "ckqsxz", "dt", "bp", "fv", "gj", "mn", "vw")
_SLIP, _NEAR = 0.7, 0.85  # what a swap or a doubled letter cost of an edit; one left out, the next key, a like sound
_FIRST = 0.35  # what an edit of the first letter costs beyond that
_BRITISH = [
    (re.compile(british), american)
    for british, american in (
        ("our", "or"), ("(?<=[iy])s(?=e|ing|ation)", "z"), ("(?<=[^aeiou])re(?=s?$)", "er"), ("ence", "ense"),
        ("ogue", "og"), ("ll(?=ing|ed|er)", "l"), ("grey", "gray"),
    )
]  # fmt: skip
_LIMITS, _LIMIT = {4: 1.0, 5: 1.0, 6: 1.2, 7: 1.3}, 2.0  # what may lie between words of so many letters, and of more


@dataclass(frozen=True, slots=True)
class Spelt:
    """A query with its words as they stand in what is searched, and what is to be said of that."""

    query: Query
    asked: Understood
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Word:
    """A word or a name as it stands in a passage, and the term that finds it."""

    text: str
    plain: str  # lower-cased and joined
    term: str


def spelt(view: View, store: Store, query: Query, matcher: WordMatching | None) -> Spelt:
    """The query with unknown words corrected; what was typed is searched for too, wherever it stands."""
    asked = understand(query.text)
    spans = [match.span() for match in _RUN.finditer(QUOTED.sub(lambda one: " " * len(one.group()), query.text))]
    if query.exact or not spans or len(spans) > _MOST_RUNS:
        return Spelt(query, asked)
    typed = [query.text[start:end] for start, end in spans]
    count = view.document_frequency([*asked.terms, *(analyse.joined_name(run) for run in typed)])
    unknown = view.unknown(list(count))
    text, found, rare = query.text, dict[str, str](), dict[str, str]()
    speller = _Speller(view, store, matcher, unknown)
    for run, (start, end) in reversed(list(zip(typed, spans, strict=True))):
        if len(found) + len(rare) < _MOST_CORRECTED and set(analyse.terms(run)).intersection(asked.terms):
            if right := speller.correct(run):
                found[run] = right
            elif right := speller.usual(run, count):
                rare[run] = right
            if right:
                text = text[:start] + right + text[end:]
    if text == query.text:
        return Spelt(query, asked)
    meant = understand(text)
    kept = [term for term in asked.terms if term not in unknown and term not in meant.terms]
    return Spelt(replace(query, text=text), replace(meant, terms=(*meant.terms, *kept)), _notes(found, rare))


def alike(view: View, store: Store, matcher: WordMatching | None, text: str) -> list[str]:
    """Words of what is searched that are spelt like the unknown ones of a text, a few of each, nearest first."""
    runs = _RUN.findall(text)[:_MOST_RUNS]
    speller = _Speller(view, store, matcher, view.unknown([term for run in runs for term in analyse.terms(run)]))
    unknown = [run for run in runs if speller.is_unknown(run)][:_MOST_CORRECTED]
    found = [word for run in unknown for word in speller.near(analyse.joined_name(run))[:_NAMED]]
    return list({word.term: word.text for word in reversed(found)}.values())[::-1]


def _notes(found: dict[str, str], rare: dict[str, str]) -> tuple[str, ...]:
    notes = []
    if found:
        meant, typed = " and ".join(reversed(found.values())), " or ".join(reversed(found))
        notes.append(f"searched for {meant}; nothing says {typed}")
    if rare:
        notes.append(f"searched for {' and '.join(reversed(rare.values()))} too")
    return tuple(notes)


class _Speller:
    """Corrects words by one view."""

    def __init__(self, view: View, store: Store, matcher: WordMatching | None, unknown: set[str]) -> None:
        self._view, self._store, self._matcher, self._unknown = view, store, matcher, unknown

    def is_unknown(self, run: str) -> bool:
        """Whether no passage has the word, or the name as a whole, and it is long enough to be told from others."""
        return len(run) >= _SHORTEST and run.isidentifier() and analyse.terms(run)[:1][0] in self._unknown

    def correct(self, run: str) -> str:
        """What was meant by an unknown word or name; "" where it is known or nothing is near."""
        parts = analyse.parts(analyse.fold(run))
        if not parts or not self.is_unknown(run) or any(map(str.isdigit, parts)):
            return ""
        if len(parts) == 1:
            best = self._best(parts[0])
            return _cased(best, run) if best else ""
        if len(joined := analyse.joined_name(run)) >= _LONG:
            for word in self.near(joined):
                if word.text != word.plain and self._is_same_but_for_unknown(parts, analyse.parts(word.text)):
                    return word.text
        corrected = run
        for part in parts:
            is_unknown = len(part) >= _SHORTEST and bool(self._view.unknown(analyse.terms(part)))
            if is_unknown and (best := self._best(part)):
                at = corrected.lower().find(part)
                typed = corrected[at : at + len(part)]
                corrected = corrected[:at] + _cased(best, typed) + corrected[at + len(part) :]
        return corrected if corrected != run else ""

    def usual(self, run: str, count: dict[str, int]) -> str:
        """The usual spelling of a word that stands in a passage or two, misspelt there as well; "" for none."""
        word = run.lower()
        term = analyse.terms(run)[0]
        if len(word) < _LONG or not word.isalpha() or not 0 < count.get(term, 0) <= _RARE or self._is_word(word):
            return ""
        near = [one for one in self.near(word) if one.text == one.plain and _cost(word, one.plain) <= _NEAR]
        known = self._view.document_frequency([one.term for one in near])
        usual = [one for one in near if known[one.term] >= _RARER * count[term]]
        return _cased(usual[0], run) if usual else ""

    def near(self, word: str) -> list[_Word]:
        """Words and names that are spelt nearly like this one, likeliest first."""
        limit = _LIMITS.get(len(word), _LIMIT)
        costs = {one: _cost(word, one.plain) for one in self._candidates(word)}
        close = [one for one, cost in costs.items() if cost <= limit]
        count = self._view.document_frequency([one.term for one in close])
        there = [one for one in close if count[one.term]]
        return sorted(there, key=lambda one: (_EDIT * costs[one] - math.log1p(count[one.term]), one.text))

    def _best(self, word: str) -> _Word | None:
        near = self.near(word)
        if is_english(word):  # and so it is foreign here rather than misspelt
            near = [one for one in near if _one_spelling(one.plain) == _one_spelling(word)]
        elif self._is_word(word):  # as are the model's own, as long as they sound otherwise: it learned `lenght` too
            near = [one for one in near if len(word) >= _LONG and _sound(one.plain) == _sound(word)]
        return near[0] if near else None

    def _is_word(self, word: str) -> bool:
        return is_english(word) or (self._matcher is not None and self._matcher.knows_word(word))

    def _candidates(self, word: str) -> Iterable[_Word]:
        """What stands in passages with a term of few edits, one if that gives any; and words that the model knows.

        Reading passages takes ten times as long: it is not done where the model knows a word that is nearly certain.
        """
        known = self._matcher.words_like(word) if self._matcher is not None else ()
        found = dict.fromkeys(_Word(one, one, analyse.terms(one)[0]) for one in known)
        near = [one.term for one in found if _cost(word, one.plain) <= 1.0]
        if near and max(self._view.document_frequency(near).values()) >= _CERTAIN:
            return found
        whole = list(dict.fromkeys((word, analyse.terms(word)[0])))
        for edits in (0, 1, 2) if len(word) >= _LONG else (0, 1):
            ids = self._view.spelt_like(whole, edits, _READ).ids
            before = len(found)
            for stored in self._store.chunks(ids).values():
                found |= dict.fromkeys(_words_of(stored, word))
            if len(found) > before:
                break
        return found

    def _is_same_but_for_unknown(self, typed: Sequence[str], there: Sequence[str]) -> bool:
        """False for `set_value` and `get_value`, which differ in words that are both known."""
        if len(typed) != len(there):
            return True
        other = [(one, two) for one, two in zip(typed, there, strict=True) if analyse.terms(one) != analyse.terms(two)]
        unknown = self._view.unknown([term for one, _ in other for term in analyse.terms(one)])
        return all(unknown.intersection(analyse.terms(one)) for one, _ in other)


def _words_of(stored: StoredChunk, like: str) -> Iterator[_Word]:
    """The words of a passage that may have been meant: names as a whole and by their parts."""
    chunk = stored.chunk
    text = " ".join((chunk.text, chunk.title, *chunk.breadcrumb, *chunk.symbols))
    shortest, longest, letters = len(like) - 2, len(like) + 2, set(like)

    def may_be(word: str) -> bool:
        return shortest <= len(word) <= longest and len(letters.symmetric_difference(word)) <= _OTHER_LETTERS

    for run in set(_RUN.findall(text)):
        if len(run) < shortest:
            continue
        parts = analyse.parts(analyse.fold(run))
        yield from (_Word(part, part, analyse.terms(part)[0]) for part in parts if may_be(part))
        if len(parts) > 1 and may_be(joined := analyse.joined_name(run)):
            yield _Word(run, joined, joined)


def _cased(word: _Word, typed: str) -> str:
    if word.text != word.plain or not typed[:1].isupper():
        return word.text
    return word.text.upper() if typed.isupper() else word.text.capitalize()


def is_english(word: str) -> bool:
    """Whether a lower-case word is usual English."""
    return f"\n{word}\n" in _english()


@cache
def _english() -> str:
    return (Path(__file__).parent / "english.txt").read_text(encoding="utf-8")


def _one_spelling(word: str) -> str:
    """The same for `colour` and `color`, `tokenise` and `tokenize`, `modelling` and `modeling`."""
    for british, american in _BRITISH:
        word = british.sub(american, word)
    return word


def _sound(word: str) -> list[str]:
    """Its consonants, each once: those of `seperate` and `separate`, of `lenght` and `length` are the same."""
    return sorted({letter for letter in word if letter not in _SOUNDS[0]})


def _cost(typed: str, meant: str) -> float:
    """How many edits lie between two words; slips of hand and ear count less, those of the first letter more."""
    before: list[float] = []
    row = [float(j) for j in range(len(meant) + 1)]
    for i, a in enumerate(typed, 1):
        last, before, row = before, row, [float(i)] + [0.0] * len(meant)
        for j, b in enumerate(meant, 1):
            added = _SLIP if i > 1 and a == typed[i - 2] else 1.0
            left_out = _SLIP if j > 1 and b == meant[j - 2] else _NEAR
            row[j] = min(before[j] + added, row[j - 1] + left_out, before[j - 1] + _change(a, b))
            if i > 1 and j > 1 and a == meant[j - 2] and typed[i - 2] == b:
                row[j] = min(row[j], last[j - 2] + _SLIP)
    return row[-1] + (_FIRST if typed[:1] != meant[:1] else 0.0)


def _change(a: str, b: str) -> float:
    if a == b:
        return 0.0
    if a in _KEYS and b in _KEYS:
        (row, at), (other, there) = _KEYS[a], _KEYS[b]
        if abs(row - other) <= 1 and abs(at - there) <= 1:
            return _NEAR
    return _NEAR if any(a in sound and b in sound for sound in _SOUNDS) else 1.0
