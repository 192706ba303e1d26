"""Query understanding: the kind of a query, its terms, names and phrases, and the correction of its spelling."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from refdesk.model import Query, StoredChunk
from refdesk.ports import Store, View, WordMatching
from refdesk.text import analyse

QueryKind = Literal["symbol", "path", "error", "code", "words"]

QUOTED = re.compile(r'"([^"]{2,})"')
_SHORT = 200  # characters: in longer texts, such as reports, quotes are quotations and no phrases to find
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->|/)[A-Za-z_$][\w$]*)*(?:\(\))?[?!]?")
_PARTS = re.compile(r"\.|::|#|->|/")
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|_\w|\w_|::|->|\w\.\w|\(\)$|[A-Z]{2}[a-z]|^[A-Z][a-z0-9]+[A-Z]")
_PATH = re.compile(r"^[\w@.+\-/\\]+\.[A-Za-z0-9]{1,8}$|^[\w@.+\-]+(?:/[\w@.+\-]+)+/?$")
_ERROR = re.compile(
    r"(?:Error|Exception|Warning|Traceback|Panic|panic)\b|\bE[A-Z]{4,}\b|\b[EWC]\d{3,5}\b|\berrno\b|[Ee]rror:|[Ff]ailed:"
)
_CODE = re.compile(r"[{};]|=>|->|\w\(|\)\s*[:{]|==|!=|&&|\|\||^\s*(?:def|fn|func|class|import|from|let|const|var)\s")
# What a keyword before a name says of its definition; rerank.py groups the kinds of chunks in the same way.
_CODE_WORDS = {
    "def": "function", "fn": "function", "func": "function", "fun": "function", "struct": "type", "enum": "type",
    "trait": "type", "impl": "type", "typedef": "type", "const": "value", "let": "value", "var": "value",
    "val": "value",
}  # fmt: skip
_ENGLISH = {  # English words, which may begin a question as well as a definition
    "function": "function", "method": "function", "macro": "function", "class": "type", "interface": "type",
    "type": "type", "protocol": "type", "record": "type", "union": "type", "object": "type", "constant": "value",
    "property": "value", "variable": "value",
}  # fmt: skip
_KEYWORDS = {**_CODE_WORDS, **_ENGLISH}
_DECLARED = re.compile(
    rf"(?:(?:pub|export|public|static|async|abstract) )*({'|'.join(_KEYWORDS)}) ([A-Za-z_$][\w$]*)(?:\(\))?"
)
_HOW = re.compile(r"\bhow\s+(?:long|many|much|often|soon)\b", re.IGNORECASE)  # asks for a number, and no answer says so
_MEMBER = re.compile(r"([A-Za-z_$][\w$]+) ([A-Za-z_$][\w$]+)(?:\(\))?")
_EXTENSIONS = frozenset(
    re.findall(
        r"\w+",
        "adoc bash bat c cc cfg conf cpp cs css csv cxx d dart ex exs fs go h hh hpp hs htm html hxx ini ipynb java jl"
        " js json jsx kt kts less lock log lua m md mdx mjs ml mm mts nim patch pdf php pl pm proto ps1 py pyi pyx r rb"
        " rs rst sass scss sh sql svg swift tex tf toml ts tsv tsx txt vue xml yaml yml zig zsh",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A query's kind and parts."""

    kind: QueryKind
    terms: tuple[str, ...]  # analysed, without stop words, in order, each once
    quoted: tuple[str, ...]  # quoted phrases of a short query: passages with them come first
    names: tuple[str, ...]  # joined forms of the identifiers a definition could have
    spelt: str  # the last part of a symbol as typed, "" if its case tells nothing
    words: tuple[str, ...]  # joined forms of all words, for names spelt with blanks
    whole: tuple[str, ...] = ()  # the whole query as one name, joined: the type, if given, and its member
    declared: str = ""  # what a keyword before that name makes it: function, type or value


def understand(text: str) -> Understood:
    """The query's kind, its terms, its quoted phrases and the names it may mean."""
    quoted = tuple(one for one in QUOTED.findall(text) if analyse.terms(one)) if len(text) <= _SHORT else ()
    every = tuple(dict.fromkeys(analyse.terms(_HOW.sub(" ", text))))
    content = tuple(term for term in every if term not in analyse.STOP_TERMS)
    stripped = " ".join(text.split()) if len(text) < _SHORT else text.strip()
    declared = ""
    whole: tuple[str, ...] = ()
    if match := _DECLARED.fullmatch(stripped):
        declared, whole = _KEYWORDS[match[1]], (analyse.joined_name(match[2]),)
        if match[1] in _CODE_WORDS or _COMPOUND.search(match[2]) or match[2].istitle():
            stripped = match[2]
            content = tuple(dict.fromkeys(analyse.terms(stripped)))
    elif match := _MEMBER.fullmatch(stripped):
        whole = (analyse.joined_name(match[1]), analyse.joined_name(match[2]))
    kind = _kind(stripped)
    return Understood(
        kind=kind,
        terms=content or every,
        quoted=quoted,
        names=_names(stripped),
        spelt=_spelt(stripped) if kind == "symbol" else "",
        words=tuple(analyse.names(text)),
        whole=whole,
        declared=declared,
    )


def _kind(text: str) -> QueryKind:
    if " " not in text and _PATH.match(text) and ("/" in text or "." in text) and not text.endswith("()"):
        # Session.request and Pool.add are names, session.py and .env are not.
        is_name = "/" not in text and _IDENTIFIER.fullmatch(text) and text.rpartition(".")[2] not in _EXTENSIONS
        return "symbol" if is_name else "path"
    if _IDENTIFIER.fullmatch(text):
        return "symbol"
    if _ERROR.search(text):
        return "error"
    if _CODE.search(text):
        return "code"
    return "words"


def _spelt(symbol: str) -> str:
    """The name as typed, if its case is deliberate: `desk` may mean `Desk`, but `Desk` and `desk()` are exact."""
    name = _PARTS.split(symbol.removesuffix("()"))[-1]
    return name if "_" in name or not name.islower() or symbol.endswith("()") else ""


def _names(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(text):
        name = match.group().removesuffix("()")
        if " " in text and not _COMPOUND.search(match.group()):
            continue
        for part in _PARTS.split(name):
            found.update(dict.fromkeys(analyse.names(part)))
    return tuple(found)


# ── spelling: unknown words are replaced by similar words of what is searched ──
# bench/spelling.py measures the costs and limits below.

_RUN = re.compile(r"\w+")
_PARTICLES = frozenset(["up", "down", "in", "out", "on", "off", "back", "over"])
_MOST_RUNS = 32  # words of a query: the known words of a longer text are enough
_MOST_CORRECTED = 4
_NAMED = 3  # suggestions for an unknown word, if nothing was found
_SHORTEST, _LONGEST = 4, 64  # letters of a word that is corrected; 20,000 take the index 0.8 s
_LONG = 6  # letters from which two edits are allowed
_OTHER_LETTERS = 4  # that only one of two words has: two edits
_READ = 16  # passages that are read for similar words
_EDIT = 6.0  # log of how much rarer a word must be to outweigh an edit; 3 to 7 do equally well
_CERTAIN = 10  # passages of a known word one edit away, from which no other word is looked for
_RARE = 2  # passages of a word that may be misspelt in them too
_RARER = 100  # times that it is rarer than the right word
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_KEYS = {key: (row, at + row / 2) for row, keys in enumerate(_ROWS) for at, key in enumerate(keys)}
_SOUNDS = ("aeiouy", "ckqsxz", "dt", "bp", "fv", "gj", "mn", "vw")
_SLIP, _NEAR = 0.7, 0.85  # cost of a swap or a doubled letter; of a missing letter, an adjacent key, a similar sound
_FIRST = 0.35  # extra cost of an edit of the first letter
_BRITISH = [
    (re.compile(british), american)
    for british, american in (
        ("our", "or"), ("(?<=[iy])s(?=e|ing|ation)", "z"), ("(?<=[^aeiou])re(?=s?$)", "er"), ("ence", "ense"),
        ("ogue", "og"), ("ll(?=ing|ed|er)", "l"), ("grey", "gray"),
    )
]  # fmt: skip
_LIMITS, _LIMIT = {4: 1.0, 5: 1.0, 6: 1.2, 7: 1.3}, 2.0  # highest cost by the word's length, and for longer words


@dataclass(frozen=True, slots=True)
class Spelt:
    """A query with its spelling corrected, and the notes that say so."""

    query: Query
    asked: Understood
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Word:
    """A word or a name of a passage, and its term."""

    text: str
    plain: str  # lower-cased and joined
    term: str


def spelt(view: View, store: Store, query: Query, matcher: WordMatching | None) -> Spelt:
    """The query with unknown words corrected; the words as typed are searched too, if they occur."""
    asked = understand(query.text)
    spans = [match.span() for match in _RUN.finditer(QUOTED.sub(lambda one: " " * len(one.group()), query.text))]
    if query.exact or not spans or len(spans) > _MOST_RUNS:
        return Spelt(query, asked)
    typed = [query.text[start:end] for start, end in spans]
    compounds = _compounds(typed)
    joined = [analyse.terms(one)[0] for one in compounds.values()]
    count = view.document_frequency([*asked.terms, *joined, *(analyse.joined_name(run) for run in typed)])
    unknown = view.unknown(list(count))
    text, found, rare = query.text, dict[str, str](), dict[str, str]()
    speller = _Speller(view, store, matcher, unknown)
    for run, (start, end) in reversed(list(zip(typed, spans, strict=True))):
        terms = analyse.terms(run)
        is_odd = bool(terms) and (terms[0] in unknown or 0 < count.get(terms[0], 0) <= _RARE)
        if is_odd and len(found) + len(rare) < _MOST_CORRECTED and not set(terms).isdisjoint(asked.terms):
            if right := speller.correct(run):
                found[run] = right
            elif right := speller.usual(run, count):
                rare[run] = right
            if right:
                text = text[:start] + right + text[end:]
    for (apart, compound), term in zip(compounds.items(), joined, strict=True):
        if apart in text and count[term] and not view.phrase([apart], 1):
            text, found[apart] = text.replace(apart, compound), compound
            unknown.update(analyse.terms(apart))  # the halves mean something else
    if text == query.text:
        return Spelt(query, asked)
    meant = understand(text)
    kept = [term for term in asked.terms if term not in unknown and term not in meant.terms]
    return Spelt(replace(query, text=text), replace(meant, terms=(*meant.terms, *kept)), _notes(found, rare))


def _compounds(words: Sequence[str]) -> dict[str, str]:
    """English words that may have been typed as two: `back up` for `backup`, `file name` for `filename`."""
    return {
        f"{first} {second}": first + second
        for first, second in pairwise(words)
        if len(first) > 2
        and len(second) > 1
        and first not in analyse.STOP_TERMS
        and (second in _PARTICLES or second not in analyse.STOP_TERMS)
        and analyse.is_english(first + second)
    }


def alike(view: View, store: Store, matcher: WordMatching | None, text: str) -> list[str]:
    """Indexed words that are spelt like the unknown words of a text, a few for each, nearest first."""
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
    """Corrects words by what one view holds."""

    def __init__(self, view: View, store: Store, matcher: WordMatching | None, unknown: set[str]) -> None:
        self._view, self._store, self._matcher, self._unknown = view, store, matcher, unknown

    def is_unknown(self, run: str) -> bool:
        """Whether no passage has the word or name, and it is long enough to be corrected."""
        return len(run) >= _SHORTEST and run.isidentifier() and analyse.terms(run)[:1][0] in self._unknown

    def correct(self, run: str) -> str:
        """The correction of an unknown word or name; "" if it is known or nothing is near."""
        parts = analyse.parts(analyse.fold(run)) if self.is_unknown(run) else []
        if not parts or any(map(str.isdigit, parts)):
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
        """The usual spelling of a word that only one or two passages have, probably misspelt there too; "" for none."""
        word = run.lower()
        term = analyse.terms(run)[0]
        if len(word) < _LONG or not word.isalpha() or not 0 < count.get(term, 0) <= _RARE or self._is_word(word):
            return ""
        near = [one for one in self.near(word) if one.text == one.plain and _cost(word, one.plain) <= _NEAR]
        known = self._view.document_frequency([one.term for one in near])
        usual = [one for one in near if known[one.term] >= _RARER * count[term]]
        return _cased(usual[0], run) if usual else ""

    def near(self, word: str) -> list[_Word]:
        """Words and names with a similar spelling, likeliest first."""
        if len(word) > _LONGEST:
            return []
        limit = _LIMITS.get(len(word), _LIMIT)
        costs = {one: _cost(word, one.plain) for one in self._candidates(word)}
        close = [one for one, cost in costs.items() if cost <= limit]
        count = self._view.document_frequency([one.term for one in close])
        there = [one for one in close if count[one.term]]
        return sorted(there, key=lambda one: (_EDIT * costs[one] - math.log1p(count[one.term]), one.text))

    def _best(self, word: str) -> _Word | None:
        if analyse.is_english(word):  # rather absent from the library than misspelt
            return self._spelt_otherwise(word)
        near = self.near(word)
        if self._is_word(word):  # the model knows misspellings too, such as `lenght`: correct those that sound alike
            near = [one for one in near if len(word) >= _LONG and _sound(one.plain) == _sound(word)]
        return near[0] if near else None

    def _spelt_otherwise(self, word: str) -> _Word | None:
        """The American form of a British word, or the other way round, that the library has; passages are not read."""
        known = self._matcher.words_like(word) if self._matcher is not None else ()
        same = [_Word(one, one, analyse.terms(one)[0]) for one in known if _one_spelling(one) == _one_spelling(word)]
        count = self._view.document_frequency([one.term for one in same]) if same else {}
        return max((one for one in same if count[one.term]), key=lambda one: count[one.term], default=None)

    def _is_word(self, word: str) -> bool:
        return analyse.is_english(word) or (self._matcher is not None and self._matcher.knows_word(word))

    def _candidates(self, word: str) -> Iterable[_Word]:
        """Words of the model, and words of passages with a term within two edits (one, if that gives any).

        Reading passages takes ten times as long, so it is skipped if the model has a nearly certain word.
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
        """Whether two names differ in unknown words only: false for `set_value` and `get_value`."""
        if len(typed) != len(there):
            return True
        other = [(one, two) for one, two in zip(typed, there, strict=True) if analyse.terms(one) != analyse.terms(two)]
        unknown = self._view.unknown([term for one, _ in other for term in analyse.terms(one)])
        return all(unknown.intersection(analyse.terms(one)) for one, _ in other)


def _words_of(stored: StoredChunk, like: str) -> Iterator[_Word]:
    """The words of a passage that are similar enough: whole names and their parts."""
    chunk = stored.chunk
    text = " ".join((chunk.text, chunk.title, *chunk.breadcrumb, *chunk.symbols))
    shortest, longest, letters = len(like) - 2, len(like) + 2, set(like)

    def may_be(word: str) -> bool:
        return shortest <= len(word) <= longest and len(letters.symmetric_difference(word)) <= _OTHER_LETTERS

    for run in {one for one in _RUN.findall(text) if len(one) >= shortest}:
        parts = analyse.parts(analyse.fold(run))
        yield from (_Word(part, part, analyse.terms(part)[0]) for part in parts if may_be(part))
        if len(parts) > 1 and may_be(joined := analyse.joined_name(run)):
            yield _Word(run, joined, joined)


def _cased(word: _Word, typed: str) -> str:
    if word.text != word.plain or not typed[:1].isupper():
        return word.text
    return word.text.upper() if typed.isupper() else word.text.capitalize()


def _one_spelling(word: str) -> str:
    """The word in American spelling, roughly: `color` for `colour`, `tokenize` for `tokenise`."""
    for british, american in _BRITISH:
        word = british.sub(american, word)
    return word


def _sound(word: str) -> list[str]:
    """The word's distinct consonants: the same for `seperate` and `separate`, `lenght` and `length`."""
    return sorted({letter for letter in word if letter not in _SOUNDS[0]})


def _cost(typed: str, meant: str) -> float:
    """The edit distance; typical slips of typing and hearing cost less, an edit of the first letter more."""
    before: list[float] = []
    row = [float(j) for j in range(len(meant) + 1)]
    for i, a in enumerate(typed, 1):
        last, before, row = before, row, [float(i)] + [0.0] * len(meant)
        for j, b in enumerate(meant, 1):
            added = _SLIP if i > 1 and a == typed[i - 2] else 1.0
            left_out = _SLIP if j > 1 and b == meant[j - 2] else _NEAR
            row[j] = min(before[j] + added, row[j - 1] + left_out, before[j - 1] + (_change(a, b) if a != b else 0.0))
            if i > 1 and j > 1 and a == meant[j - 2] and typed[i - 2] == b:
                row[j] = min(row[j], last[j - 2] + _SLIP)
    return row[-1] + (_FIRST if typed[:1] != meant[:1] else 0.0)


def _change(a: str, b: str) -> float:
    if a in _KEYS and b in _KEYS:
        (row, at), (other, there) = _KEYS[a], _KEYS[b]
        if abs(row - other) <= 1 and abs(at - there) <= 1:
            return _NEAR
    return _NEAR if any(a in sound and b in sound for sound in _SOUNDS) else 1.0
