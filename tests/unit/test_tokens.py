"""One count of tokens, however it is arrived at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk import tokens

ROWS = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=60) | st.text("ab9_ \t\r(=-", max_size=60))


@given(ROWS)
def test_rows_have_the_tokens_that_each_has_alone(rows: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_FEW", 0)
        assert tokens.count_rows(rows) == [tokens.count(row) for row in rows]


def test_long_runs_are_several_tokens() -> None:
    rows = ["a" * 15, "1" * 7, " " * 33, "=" * 9, "_" * 50, "é" * 3, "\U0001f600" * 5, "x" * 3000]
    assert tokens.count_rows(rows) == [3, 3, 2, 3, 1, 3, 2, 429]
