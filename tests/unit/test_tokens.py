"""An estimate near the truth, and one measure of pieces however it is taken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.text import tokens

FIXTURES = Path(__file__).parents[1] / "fixtures"
ROWS = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=60)) | st.lists(
    st.text(st.characters(max_codepoint=127, exclude_characters="\n"), max_size=60)
    | st.text("ab9_ \t\r(=-", max_size=60)
)


@given(ROWS)
def test_rows_have_the_pieces_that_each_has_alone(rows: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_FEW", 0)
        patch.setattr(tokens, "_BEFORE_NUMPY", 0)
        assert tokens.pieces_of_rows(rows) == [tokens.pieces(row) for row in rows]


@given(st.text(st.characters(max_codepoint=127), max_size=80) | st.text("anrt'sldve_Z9 \\\t\r\n\x1c(\"", max_size=80))
def test_ascii_is_split_as_any_text_is(text: str) -> None:
    assert re.findall(tokens._ASCII_BLOCK, text) == re.findall(tokens._BLOCK, text)


ASCII = st.text(st.characters(max_codepoint=127), max_size=80) | st.text(
    "anrt'sldveZZ90_ \\\t\r\n\x1c((\"", max_size=80
)


@given(st.lists(ASCII | st.sampled_from(["", "é", "don'tStop", r"\nend \t", '"""""', "1234567890" * 3, "HTTPServer"])))
def test_texts_counted_together_have_the_tokens_that_each_has_alone(texts: list[str]) -> None:
    assert tokens.count_each(texts) == [tokens.count_once(text) for text in texts]


@given(st.text(st.characters(max_codepoint=127), max_size=80) | st.text("aB_9 \\\t\r\n'sn\x1c(\"é", max_size=80))
def test_no_text_has_more_tokens_than_its_bound(text: str) -> None:
    assert tokens.count_once(text) <= tokens.at_most(text)


def test_long_runs_are_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_BEFORE_NUMPY", 0)
    rows = ["a" * 15, "1" * 7, " " * 33, "=" * 9, "_" * 50, "x" * 3000]
    assert tokens.pieces_of_rows(rows) == [3, 3, 2, 3, 1, 429]
    assert tokens.pieces_of_rows([*rows, "é" * 3, "\U0001f600" * 5]) == [3, 3, 2, 3, 1, 429, 3, 2]


TRUE = json.loads((FIXTURES / "cl100k.json").read_text(encoding="utf-8"))  # made by cl100k.mjs beside it


@pytest.mark.parametrize("row", TRUE, ids=lambda row: str(row["name"]))
def test_the_estimate_is_near_what_cl100k_gives(row: dict[str, Any]) -> None:
    text = row.get("text") or (FIXTURES.parent / row["name"]).read_text(encoding="utf-8")
    assert tokens.count(text) == pytest.approx(row["tokens"], rel=0.1)
