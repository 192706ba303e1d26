"""Whether the regular expressions that Postgres searches for find what the analyser takes for the same."""

from __future__ import annotations

import re
import string

from hypothesis import assume, given
from hypothesis import strategies as st

from refdesk.store.words.scan import held
from refdesk.text.analyse import fold
from refdesk.text.letters import joining, pattern

_JOINING = re.compile(joining())
_LETTERS = st.characters(categories=("L", "N", "M")) | st.sampled_from(string.ascii_letters + "_- éßΣςσЙй")


@given(st.text(_LETTERS, min_size=1, max_size=12), st.data())
def test_a_pattern_finds_what_folding_finds(text: str, data: st.DataObject) -> None:
    assume(not _JOINING.search(text))
    folded = fold(text).lower().replace("_", "")
    assume(folded)
    start = data.draw(st.integers(0, len(folded) - 1))
    word = folded[start : start + data.draw(st.integers(1, 4))] + data.draw(st.sampled_from(["", "", "a", "σ", "й"]))
    assume(word.isalnum())
    assert bool(re.search(pattern(word), text)) == held(text, [word])[0]
