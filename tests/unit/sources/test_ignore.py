"""Ignore rules decide as git does, on random trees and on the awkward cases by name."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refdesk.model import FileState, Found, Skipped
from refdesk.sources.ignore import parse_rules
from refdesk.sources.walk import FolderSource

FILES = ["a", "b", "c.log", "d.txt", "foo", "foo bar", "x/a", "x/foo", "x/c.log", "x/y/a", "x/y/b.txt", "x/y/z/a",
         "foo2/a", "foo2/x/bar", "A", "x/ü", "[a]", "a]", "x/-", "sp ", "x/sp ", "tab\t", "é.log", "nl\nx",
         "x/y/foo/bar", "!a", "#a", "\\a", "m/x/y/a", "m/foo/x/bar", "m/d.txt", "9", "x/_"]  # fmt: skip


def git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True).stdout


def listed_by_git(folder: Path) -> set[str]:
    raw = git(folder, "ls-files", "-co", "--exclude-standard", "-z", ".")
    return {os.fsdecode(name) for name in raw.split(b"\0") if name}


def found_by_us(root: Path) -> set[str]:
    source = FolderSource(root, max_file_bytes=1_000_000)
    return {item.path for item in source.walk() if isinstance(item, Found)}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of files that only ignore rules can leave out."""
    root = tmp_path_factory.mktemp("tree")
    git(root, "init", "-q")
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


_CLOCK = itertools.count()
PLACES = ["", "x", "x/y", "m"]
INFO, GLOBAL = "info/exclude", "core.excludesFile"


def put_rules(root: Path, ignores: dict[str, bytes], ignore_case: bool = False) -> None:
    """Writes the ignore files of these places and takes away all others."""
    files = {place: root / place / ".gitignore" for place in PLACES}
    files |= {INFO: root / ".git" / "info" / "exclude", GLOBAL: root / ".git" / "global"}
    for place, file in files.items():
        file.unlink(missing_ok=True)
        if place in ignores:
            file.write_bytes(ignores[place])
            # Old enough to be trusted, and never twice the same.
            os.utime(file, ns=(0, 10**18 + next(_CLOCK)))
    config = f"[core]\n\trepositoryformatversion = 0\n\tignorecase = {str(ignore_case).lower()}\n"
    (root / ".git" / "config").write_text(f"{config}\texcludesFile = {files[GLOBAL]}\n")


piece = st.sampled_from(
    ["a", "b", "foo", "x", "y", "m", "*", "**", "?", "/", "/**/", "**/", "/**", "*.log", ".txt", "\\", "\\ ", " ", "[",
     "]", "[a-c]", "[!a]", "[^a]", "[[:alpha:]]", "[[:digit:]x]", "[]-]", "[\\]a]", "[a-", "[[:", "!", "#", "\\!",
     "\\#", "-", "ü", "sp", "\t", "bar", "2", "[x/]", "[[:nope:]]", "[z-a]", "\\a", "***", "[_-]", "[[:space:]]"]
)  # fmt: skip
line = st.builds(lambda mark, parts, end: mark + "".join(parts) + end,
                 st.sampled_from(["", "", "!", "/", "!/"]), st.lists(piece, min_size=1, max_size=5),
                 st.sampled_from(["", "", "/", " ", "\\ ", "  ", "\r", "\t"]))  # fmt: skip
rules = st.lists(line, min_size=1, max_size=6).map(lambda lines: "\n".join(lines).encode())


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from([*PLACES, INFO, GLOBAL]), rules, min_size=1, max_size=4), st.booleans())
@example({"": b"foo**/bar"}, False)
@example({"": b"*\n!*/\n!x/**/a"}, False)
@example({"": b"/x/*\n!/x/y/\n/x/y/*\n!/x/y/b.txt"}, False)
@example({"": b"sp\\ \ntab\t\n"}, False)
@example({"": b"x/", "x": b"!a"}, False)
@example({"": b"\xef\xbb\xbfa\r\nb\r\n"}, False)
@example({"": b"m/**/y\n**/foo/**\n"}, False)
@example({"": b"foo\n!foo/\n"}, False)
@example({INFO: b"!a\nb\n", GLOBAL: b"a\n!b\n", "x/y": b"!b.txt"}, False)
@example({"": b"[!a]\nFOO\nX/[a-b]"}, True)
def test_a_random_tree_is_listed_as_git_lists_it(tree: Path, ignores: dict[str, bytes], ignore_case: bool) -> None:
    put_rules(tree, ignores, ignore_case)
    expected = {path for path in listed_by_git(tree) if not path.endswith(".gitignore")}
    assert found_by_us(tree) == expected


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(PLACES), rules, min_size=1, max_size=3))
def test_a_subfolder_of_a_repository_obeys_the_rules_above_it(tree: Path, ignores: dict[str, bytes]) -> None:
    put_rules(tree, ignores)
    if subprocess.run(["git", "check-ignore", "-q", "x/y"], cwd=tree, check=False).returncode == 0:
        return  # a root that is named is walked even where git would not look into it
    inner = tree / "x" / "y"
    expected = {path for path in listed_by_git(inner) if not path.endswith(".gitignore")}
    assert found_by_us(inner) == expected


place = st.sampled_from([*PLACES, INFO, GLOBAL])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(place, rules, max_size=3), st.dictionaries(place, rules, max_size=3), st.booleans())
def test_a_walk_that_knows_the_last_one_finds_what_a_fresh_one_finds(
    tree: Path, before: dict[str, bytes], after: dict[str, bytes], ignore_case: bool
) -> None:
    put_rules(tree, before)
    first = FolderSource(tree, max_file_bytes=1_000_000)
    items = list(first.walk())
    put_rules(tree, {**before, **after}, ignore_case)
    second = FolderSource(
        tree,
        max_file_bytes=1_000_000,
        known_skipped={item.path: item.reason for item in items if isinstance(item, Skipped)},
        rules_fingerprint=first.fingerprint(),
    )
    known = {item.path: FileState("id", 1, 1, "hash") for item in items if isinstance(item, Found)}
    assert list(second.walk(known=known)) == list(FolderSource(tree, max_file_bytes=1_000_000).walk())


def test_a_line_keeps_its_number_and_its_text() -> None:
    rules, _ = parse_rules(b"# comment\n\n*.log\n  \n!keep.log\n")
    assert [(rule.line, rule.text, rule.negated) for rule in rules] == [(3, "*.log", False), (5, "!keep.log", True)]


def test_lines_that_are_too_long_are_no_rules_and_are_told(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"*.log\n" + b"*a" * 3000 + b"\n*.tmp\n")
    (tmp_path / ".refdeskignore").write_bytes(b"x\n" * 10_002)
    for name in ("a.log", "b.tmp", "c.txt"):
        (tmp_path / name).write_text("text")
    skipped = {
        one.path: one.reason for one in FolderSource(tmp_path, max_file_bytes=99).walk() if isinstance(one, Skipped)
    }
    assert skipped[".gitignore"].startswith("line 2 not taken for rules: longer than 4096 bytes")
    assert skipped[".refdeskignore"].startswith("line 10001 and 1 more not taken for rules")
    assert skipped["a.log"] == "ignored by .gitignore:1 (*.log)"
    assert skipped["b.tmp"] == "ignored by .gitignore:3 (*.tmp)"
    assert found_by_us(tmp_path) == {"c.txt"}
