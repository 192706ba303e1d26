"""Which paths a glob means."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.store import globs

PATHS = [
    "src/a.py",
    "src/deep/er/b.py",
    "src_utils/c.py",
    "lib/src/d.py",
    "docs/e.md",
    "docs/sub/f.md",
    "README.md",
    "odd [1] & (2).t+t",
]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("src", ["src/a.py", "src/deep/er/b.py", "lib/src/d.py"]),
        ("/src", ["src/a.py", "src/deep/er/b.py"]),
        ("./src/", ["src/a.py", "src/deep/er/b.py", "lib/src/d.py"]),
        ("src/**", ["src/a.py", "src/deep/er/b.py"]),
        ("src/*", ["src/a.py", "src/deep/er/b.py"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/deep/er/b.py"]),
        ("**/er/*.py", ["src/deep/er/b.py"]),
        ("docs/*.md", ["docs/e.md"]),
        ("*.md", ["docs/e.md", "docs/sub/f.md", "README.md"]),
        ("README.md", ["README.md"]),
        ("{src,docs}/**", ["src/a.py", "src/deep/er/b.py", "docs/e.md", "docs/sub/f.md"]),
        ("*.{md,t+t}", ["docs/e.md", "docs/sub/f.md", "README.md", "odd [1] & (2).t+t"]),
        ("docs/[ef].md", ["docs/e.md"]),
        ("**/[!e].md", ["docs/sub/f.md"]),
        ("docs/[d-f].md", ["docs/e.md"]),
        ("docs/[-e].md", ["docs/e.md"]),
        ("docs/[--e||~~&&].md", ["docs/e.md"]),
        ("src/?.py", ["src/a.py"]),
        ("odd [[]1] & (2).t+t", ["odd [1] & (2).t+t"]),
        (r"odd \[1\]*", ["odd [1] & (2).t+t"]),
        ("**", PATHS),
        ("", PATHS),
        ("none", []),
    ],
)
def test_a_glob_means_these_paths(glob: str, expected: list[str]) -> None:
    assert [path for path in PATHS if globs.compile(glob).fullmatch(path)] == expected


@given(st.text(alphabet="ab/*?[]{},!-^\\.z|&~", max_size=12))
def test_any_text_is_a_glob(glob: str) -> None:
    assert isinstance(globs.compile(glob), re.Pattern)


@given(st.lists(st.text(alphabet="ab.+(_", min_size=1, max_size=4), min_size=2, max_size=4).map("/".join))
def test_a_path_and_each_of_its_folders_mean_it(path: str) -> None:
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        assert globs.compile("/" + folder).fullmatch(path)
        assert globs.compile("/" + folder).fullmatch("x" + path) is None
        assert globs.compile("/" + folder).fullmatch(folder + "x/y") is None
