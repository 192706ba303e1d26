"""Words of a shared library that are spelt alike, from a table of all its terms.

Beside its length a term has the set of its letters: an edit adds at most one that the other word lacks, and takes at
most one that it has.  Of 234,000 terms some 2,000 are left to compare with a word for two edits, and 80 for one; with
a fitting length alone they were 69,000 and 42,000.
"""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.store.shared.dialect import Translating

_LONGEST = 72  # letters of a term that is kept; no longer word is corrected
_MOST = 64  # words spelt like one
_BITS = 31  # of a set of letters: some have one in common
# What an earlier version kept.
PREPARE = """DELETE FROM terms WHERE size > 72; UPDATE terms SET letters = (
SELECT bit_or(1 << ascii(one) % 31) FROM unnest(string_to_array(term, NULL)) AS one)"""
_ADD = """
INSERT INTO terms SELECT one, length(one), its FROM unnest(%s::text[], %s::int[]) AS new (one, its)
ON CONFLICT DO NOTHING
"""


def is_word(term: str) -> bool:
    """Whether it may be what a word was meant to be."""
    return len(term) <= _LONGEST and term.isalpha()


def add(db: Translating, terms: Sequence[str]) -> None:
    """Adds those that are new."""
    db.raw.execute(_ADD, (list(terms), list(map(_letters, terms))))


def alike(db: Translating, term: str, edits: int) -> list[str]:
    """Terms within so many edits, the nearest first."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    if not edits:
        return [term]
    here = _letters(term)
    added, missing = _at_most(edits, f"letters & {~here & (1 << _BITS) - 1}"), _at_most(edits, f"~letters & {here}")
    known = db.execute(  # those without letters were added by an earlier version
        f"SELECT term FROM terms WHERE size BETWEEN ? AND ? AND (letters IS NULL OR {added} AND {missing})",  # noqa: S608 - integers
        (len(term) - edits, len(term) + edits),
    )
    found = extract(term, [row[0] for row in known], scorer=OSA.distance, limit=None, score_cutoff=edits)
    return [one for _, one in sorted((distance, one) for one, distance, _ in found)][:_MOST]


def _letters(term: str) -> int:
    found = 0
    for one in term:
        found |= 1 << ord(one) % _BITS
    return found


def _at_most(many: int, bits: str) -> str:
    """That no more bits are set: each step takes the lowest one away."""
    bits = f"({bits})"
    for _ in range(many):
        bits = f"({bits} & ({bits} - 1))"
    return f"{bits} = 0"
