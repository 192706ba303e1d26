"""Terms that are spelt like a word are all those within so many edits, though most are never compared."""

from __future__ import annotations

import random

from rapidfuzz.distance import OSA

from refdesk.store.shared import spelling
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.store import SharedStore

ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюя", "検索言語設定変数関数型名前空間")


def test_no_term_within_the_edits_is_left_out(store: SharedStore) -> None:
    draw = random.Random(7)
    known, asked = set[str](), set[str]()
    for letters in ALPHABETS:
        words = ["".join(draw.choices(letters, k=draw.randint(5, 12))) for _ in range(300)]
        known |= {_slipped(word, letters, draw.randint(0, 3), draw) for word in words for _ in range(3)} - {""}
        asked |= set(draw.sample(words, 30))
    with store.writing(), store.transaction() as db:
        assert isinstance(db, Translating)
        spelling.add(db, sorted(known))
        spelling.add(db, sorted(known)[:10])  # again
    for edits in (0, 1, 2):
        there = {
            word: {one for one in known if OSA.distance(word, one) <= edits} if edits else {word} for word in asked
        }
        found = {word: store.read(lambda db, of=word, most=edits: spelling.alike(db, of, most)) for word in asked}  # type: ignore[misc]
        assert {word: set(terms) for word, terms in found.items()} == there
        distances = [[OSA.distance(word, one) for one in terms] for word, terms in found.items()]
        assert all(each == sorted(each) for each in distances)
        assert edits == 0 or sum(map(len, there.values())) > len(asked)


def _slipped(word: str, letters: str, times: int, draw: random.Random) -> str:
    for _ in range(times):
        at, way = draw.randrange(len(word) or 1), draw.randrange(4)
        rest = word[at:]
        end = (rest[1::-1] + rest[2:], rest[1:], draw.choice(letters) + rest, draw.choice(letters) + rest[1:])[way]
        word = word[:at] + end
    return word
