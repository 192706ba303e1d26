"""What the judges of the graph are asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.graph import Module

TEXT = """from kit import Base as Root, mark
import kit.parts as parts


@mark(1)
class Deep(Root[int], parts.Part):
    def run(self):
        é = 1; self.walk().run()

        def inner():
            return mark(2)

        return inner
"""


@pytest.fixture
def module(tmp_path: Path) -> Module:
    path = tmp_path / "one.py"
    path.write_text(TEXT, encoding="utf-8")
    return Module(path)


def test_definitions_by_the_line_of_their_name(module: Module) -> None:
    assert module.definitions == {6: "Deep", 7: "Deep.run", 10: "Deep.run.inner"}


def test_calls_are_put_to_what_they_stand_in(module: Module) -> None:
    assert {(one.line, one.column, one.owner) for one in module.uses("mark", "calls")} == {
        (5, 1, ""),
        (11, 19, "Deep.run.inner"),
    }
    assert [(one.line, one.column) for one in module.uses("run", "calls")] == [(8, 27)]


def test_bases_are_found_behind_their_aliases(module: Module) -> None:
    assert [(one.line, one.column, one.owner) for one in module.uses("Base", "subtypes")] == [(6, 11, "Deep")]
    assert [one.column for one in module.uses("Part", "subtypes")] == [28]
