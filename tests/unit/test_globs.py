"""Which paths a glob means."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refdesk.errors import InvalidInput
from refdesk.text.globs import ANY, FOLDERS, STAR, Matcher, expression, linear, manifest_glob, path_filter

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
    assert [path for path in PATHS if path_filter(glob).fullmatch(path)] == expected


@given(st.text(alphabet="ab/*?[]{},!-^\\.z|&~", max_size=12))
def test_any_text_is_a_glob(glob: str) -> None:
    for read in (path_filter, manifest_glob):
        read(glob).fullmatch("a/b.z")


@given(st.lists(st.text(alphabet="ab.+(_", min_size=1, max_size=4), min_size=2, max_size=4).map("/".join))
def test_a_path_and_each_of_its_folders_mean_it(path: str) -> None:
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        assert path_filter("/" + folder).fullmatch(path)
        assert path_filter("/" + folder).fullmatch("x" + path) is None
        assert path_filter("/" + folder).fullmatch(folder + "x/y") is None


ITEMS = st.lists(st.sampled_from(["a", "b", "/", "[^/]", "[ab]", STAR, STAR, ANY, FOLDERS, FOLDERS]), max_size=9)
TEXTS = st.lists(st.text(alphabet="aab/b", max_size=12), min_size=1, max_size=20)


@settings(max_examples=1000, deadline=None)  # RE2 is imported by the first
@given(ITEMS, TEXTS)
@example(["b", FOLDERS, "a"], ["bb/a", "b/a", "ba"])
@example([FOLDERS, "b", FOLDERS, "a"], ["b/ba"])
@example([ANY, "a", STAR, "b", ANY, "a"], ["aaba", "a/aba"])
@example([FOLDERS, "a", "/", "b", FOLDERS, "a"], ["a/b/a/b/a"])
def test_an_expression_without_backtracking_means_what_re2_matches(items: list[str], texts: list[str]) -> None:
    """RE2 follows every way; the expression tries one per star, where that is said to be enough."""
    written = expression(items)
    if written is None:
        return
    by_re2, naive = linear([items]), re.compile("".join(items), re.DOTALL)
    for text in texts:
        expected = naive.fullmatch(text) is not None
        assert (re.fullmatch(written, text, re.DOTALL) is not None) == expected == bool(by_re2.fullmatch(text))


@pytest.mark.parametrize("read", [path_filter, manifest_glob])
@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("{" * 50_000, "50000 characters"),
        ("{" * 50 + "a,b" + "}" * 50, "nested too deep"),
        ("{a,b}" * 9, "too many alternatives"),
        ("{" + ",".join(map(str, range(300))) + "}", "too many alternatives"),
    ],
)
def test_a_glob_beyond_the_limits_is_refused_with_the_reason(
    read: Callable[[str], Matcher], glob: str, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        read(glob)
    assert refused.value.what_next and len(str(refused.value)) < 200


def test_many_repeating_groups_do_not_backtrack() -> None:
    many = manifest_glob("+(a|b)" * 200)
    assert many.fullmatch("ab" * 300) and not many.fullmatch("ab" * 300 + "c")
