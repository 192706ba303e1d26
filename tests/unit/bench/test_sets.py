"""Headings that go, sets that are built, and what counts as found."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import corpora, sets
from bench.unheaded import unhead
from refdesk.model import Chunk, Document, StoredChunk

BODY = (
    "Words that say in some detail how it is done, so that there is enough to find it by, more than a line or two. " * 2
)
MARKDOWN = f"""---
title: Kept
---
# Making a garden

{BODY}

## Planting a tree {{#plant}}

{BODY} tree

```sh
# not a heading
```

Watering `daily` plants
-----------------------

{BODY} water

## Notes

{BODY} notes
"""
RST = f"""
.. _garden:

=================
Making a garden
=================

{BODY}

.. _plant-a-tree:

Planting a tree
---------------
{BODY} tree
"""


@pytest.mark.parametrize(("suffix", "source"), [("md", MARKDOWN), ("rst", RST)])
def test_headings_become_numbers_and_queries(suffix: str, source: str) -> None:
    found = unhead(source.encode(), suffix)
    assert found is not None
    lines = found.text.split("\n")
    queries = {one.query: one for one in found.targets}
    tree = queries["Making a garden Planting a tree"]
    assert "Planting" not in found.text and "Making" not in found.text and "plant-a-tree" not in found.text
    assert "Part 2" in lines[tree.start_line - 1]
    assert any("tree" in line for line in lines[tree.start_line - 1 : tree.end_line])
    assert "Making a garden Notes" not in queries
    if suffix == "md":
        assert "# not a heading" in found.text
        assert "water" in "".join(lines[queries["Making a garden Watering daily plants"].start_line - 1 :])


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def function(name: str, doc: str) -> str:
    return f'def {name}(a):\n    """{doc}"""\n    b = a + 1\n    return {name}_of(b)\n\n\n'


def test_a_set_asks_only_what_means_one_place(tmp_path: Path) -> None:
    first = write(
        tmp_path / "one",
        {
            "pkg/a.py": function("alpha", "Say the first letter of Greek.")
            + function("twice", "Said at two places here."),
            "pkg/vendor/x.py": function("x", "Code of some other project here."),
            "pkg/requests/y.py": function("y", "Code of a reserved project here."),
            "tests/test_a.py": function("test_alpha", "Check that the letter is said."),
        },
    )
    second = write(tmp_path / "two", {"b.py": function("beta", "Said at two places here.")})
    items = sets.build("python", [("one-1", first), ("two-2", second)], tmp_path / "set")
    assert [(one.query, one.path, one.start_line, one.end_line) for one in items] == [
        ("Say the first letter of Greek.", "one-1/pkg/a.py", 1, 3)
    ]
    written = sorted(path.relative_to(tmp_path / "set").as_posix() for path in (tmp_path / "set").rglob("*.py"))
    assert written == ["one-1/pkg/a.py", "one-1/tests/test_a.py", "two-2/b.py"]


def test_a_set_leaves_out_second_builds(tmp_path: Path) -> None:
    source = "/** Adds two numbers and returns the sum. */\nfunction add(a, b) {\n  const c = a + b;\n  return c;\n}\n"
    root = write(tmp_path / "one", {"lib/add.js": source, "es/add.js": source + "export { add };\n"})
    assert [one.path for one in sets.build("code", [("one-1", root)], tmp_path / "set")] == ["one-1/es/add.js"]


def stored(path: str, start: int, end: int, kind: str = "function") -> StoredChunk:
    document = Document(
        id="D", collection="c", uri="", path=path, title="", content_type="", content_hash="", size=0, modified_ns=0
    )
    chunk = Chunk(
        text="", kind=kind, type="code", language="python", start_line=start, end_line=end, tokens=1, key=f"{start}"
    )
    return StoredChunk(id=1, position=0, document=document, chunk=chunk)


@pytest.mark.parametrize(
    ("chunk", "met"),
    [
        (stored("a.py", 10, 20), True),
        (stored("a.py", 5, 30, "class"), True),
        (stored("a.py", 15, 18), True),  # a later part of it
        (stored("a.py", 5, 30, "outline"), False),
        (stored("a.py", 21, 30), False),
        (stored("b.py", 10, 20), False),
    ],
)
def test_what_counts_as_found(chunk: StoredChunk, met: bool) -> None:
    assert sets.Item("q", "p", "a.py", 10, 20).is_met_by(chunk) is met


def test_every_held_out_package_is_pinned_and_none_is_reserved() -> None:
    held = corpora.held_out()
    assert {one.set for one in held} == set(sets.NAMES)
    assert not {one.pin.name for one in held} & sets._reserved()
    assert all(len(one.sha256) == 64 for one in corpora.pins().values())


def test_halves_share_no_package() -> None:
    packages = {f"package-{number}" for number in range(9)}
    half = sets._tuning_half(packages)
    assert len(half) == 5 and half == sets._tuning_half(set(packages))
