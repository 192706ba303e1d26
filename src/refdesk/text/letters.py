"""Spellings of words that the analyser takes for the same, as regular expressions that Postgres searches texts for."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import chain

from refdesk.text.analyse import ACCENTS, fold

# All but ideographs, syllables, surrogates and private use, which have neither capitals nor other forms.
_LETTERS = (range(0x80, 0x3400), range(0xA000, 0xAC00), range(0xF900, 0x20000), range(0x2F800, 0x2FA20))
_JAMO = frozenset(map(chr, range(0x1100, 0x1200)))  # which are written together as one letter


def pattern(word: str) -> str:
    """Finds a folded word in texts that have no letter of `joining`, with accents and underscores."""
    alike, _ = _letters()
    spelt = ((re.escape(one), one.upper() if "a" <= one <= "z" else "", alike.get(one, "")) for one in word)
    return f"[{ACCENTS}_]*".join(f"[{''.join(letters)}]" for letters in spelt)


def joining() -> str:
    """Finds letters that fold to several, or to another one beside some neighbours."""
    return f"[{_letters()[1]}]"


@cache
def _letters() -> tuple[Mapping[str, str], str]:
    """The letters that fold to each one, and those of `joining`; made in 25 ms."""
    alike: dict[str, list[str]] = defaultdict(list)
    joining = set(_JAMO)
    for letter in map(chr, chain.from_iterable(_LETTERS)):
        parts = unicodedata.decomposition(letter).split()
        if not parts and letter.lower() == letter and not unicodedata.combining(letter):
            continue
        if parts and not parts[0].startswith("<"):
            joining.update(mark for mark in (chr(int(part, 16)) for part in parts[1:]) if fold(f"-{mark}") != "-")
        folded = fold(letter).lower()
        if any(unicodedata.combining(one) or one in _JAMO for one in folded):
            joining.add(letter)
        elif len(folded) > 1:
            joining.update(letter if any(map(str.isalnum, folded)) else ())
        elif folded != letter:
            alike[folded].append(letter)
    alike["σ"] = alike["ς"] = [*alike["σ"], *alike["ς"], "σ", "ς"]
    return {one: "".join(of) for one, of in alike.items()}, "".join(joining)
