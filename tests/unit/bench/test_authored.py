"""Where a hand-written question is answered."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench import authored, corpora
from bench.tables import Row

CODE = """import os


class Cache:
    def get(self, key):
        return 1

    def put(
        self, key
    ):
        pass


def get():
    pass
"""
DOCS = """# Title

Words.

## Part

More words.

## Other

Last.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "a.md").write_text(DOCS)
    return tmp_path


@pytest.mark.parametrize(
    ("at", "lines"),
    [
        ("a.py#class Cache", [(4, 13)]),
        ("a.py#def get", [(5, 7), (14, 15)]),
        ("a.py#def put", [(8, 13)]),
        ("a.md### Part", [(5, 8)]),
        ("a.md", [(1, 11)]),
    ],
)
def test_places(folder: Path, at: str, lines: list[tuple[int, int]]) -> None:
    assert [(one.first, one.last) for one in authored.places(folder, at)] == lines


def test_a_place_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(corpora.CorpusError, match="no line starts"):
        authored.places(folder, "a.py#def nothing")


def test_questions_are_about_pinned_packages_and_unlike_each_other() -> None:
    asked = yaml.safe_load(authored.FILE.read_text())
    assert {("pypi", name) for name in asked} <= set(corpora.pins())
    queries = [one["ask"] for own in asked.values() for one in own]
    assert len(set(queries)) == len(queries) >= 60


def test_rows_say_whether_they_pass() -> None:
    assert Row("x", 4.0, "times", 5.0).passed is True
    assert Row("x", 4.0, "files/s", 5.0, at_least=True).passed is False
    assert Row("x", 4.0, "ms").passed is None
    assert Row("x", 4.0, "files/s", 5.0, at_least=True).cells()[2:4] == ("≥ 5 files/s", "FAIL")
