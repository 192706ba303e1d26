"""Words of names and prose, and the parts of words the vocabulary does not hold."""

from __future__ import annotations

from array import array

import pytest

from refdesk.embed.static import Pieces, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parseHTTPResponse2", ["parse", "HTTP", "Response", "2"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("SCREAMING_CASE", ["SCREAMING", "CASE"]),
        ("naïve Größe", ["naive", "Gro", "ß", "e"]),
        ("日本 text", ["日", "本", "text"]),
        ("... ()", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def _ids(pieces: Pieces, text: str) -> list[int]:
    return array("H", pieces.ids(text)).tolist()


def test_rare_words_are_spelt_in_parts() -> None:
    pieces = Pieces(["un", "##known", "##kn", "word", "a"])
    assert _ids(pieces, "Unknown word") == [0, 1, 3]
    assert _ids(pieces, "unknz") == [0, 2]
    assert _ids(pieces, "zzz") == []
    assert len(pieces) == 5


def test_remembered_words_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refdesk.embed.static._RUNS", 2)
    pieces = Pieces(["a", "b", "c", "d"])
    for text in ("a b c", "d", "a b c d"):
        assert len(_ids(pieces, text)) == len(text.split())
