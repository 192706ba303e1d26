"""Ignore rules decide as git does, on random trees and on the awkward cases by name."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refdesk.model import Found
from refdesk.sources import judge
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


def only_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves git's rules alone in force, as git knows no others."""
    monkeypatch.setattr(judge.names, "why_not_file", lambda name: "hidden" if name == ".gitignore" else "")
    monkeypatch.setattr(judge.names, "why_not_folder", lambda name: "")
    monkeypatch.setattr(judge.names, "why_not_contents", lambda *_: "")


def make_tree(root: Path, files: list[str], ignores: dict[str, bytes]) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    for folder, rules in ignores.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / ".gitignore").write_bytes(rules)


piece = st.sampled_from(
    ["a", "b", "foo", "x", "y", "m", "*", "**", "?", "/", "/**/", "**/", "/**", "*.log", ".txt", "\\", "\\ ", " ", "[",
     "]", "[a-c]", "[!a]", "[^a]", "[[:alpha:]]", "[[:digit:]x]", "[]-]", "[\\]a]", "[a-", "[[:", "!", "#", "\\!",
     "\\#", "-", "ü", "sp", "\t", "bar", "2", "[x/]", "[[:nope:]]", "[z-a]", "\\a", "***", "[_-]", "[[:space:]]"]
)  # fmt: skip
line = st.builds(lambda mark, parts, end: mark + "".join(parts) + end,
                 st.sampled_from(["", "", "!", "/", "!/"]), st.lists(piece, min_size=1, max_size=5),
                 st.sampled_from(["", "", "/", " ", "\\ ", "  ", "\r", "\t"]))  # fmt: skip
rules = st.lists(line, min_size=1, max_size=6).map(lambda lines: "\n".join(lines).encode())


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["", "x", "x/y", "m"]), rules, min_size=1, max_size=3))
@example({"": b"foo**/bar"})
@example({"": b"*\n!*/\n!x/**/a"})
@example({"": b"/x/*\n!/x/y/\n/x/y/*\n!/x/y/b.txt"})
@example({"": b"sp\\ \ntab\t\n"})
@example({"": b"x/", "x": b"!a"})
@example({"": b"\xef\xbb\xbfa\r\nb\r\n"})
@example({"": b"m/**/y\n**/foo/**\n"})
@example({"": b"foo\n!foo/\n"})
def test_a_random_tree_is_listed_as_git_lists_it(ignores: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        only_rules(patch)
        root = Path(name)
        git(root, "init", "-q")
        make_tree(root, FILES, ignores)
        expected = {path for path in listed_by_git(root) if not path.endswith(".gitignore")}
        assert found_by_us(root) == expected


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["", "x", "x/y", "m"]), rules, min_size=1, max_size=3))
def test_a_subfolder_of_a_repository_obeys_the_rules_above_it(ignores: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        only_rules(patch)
        root = Path(name)
        git(root, "init", "-q")
        make_tree(root, FILES, ignores)
        inner = root / "x" / "y"
        if subprocess.run(["git", "check-ignore", "-q", "x/y"], cwd=root, check=False).returncode == 0:
            return  # a root that is named is walked even where git would not look into it
        expected = {path for path in listed_by_git(inner) if not path.endswith(".gitignore")}
        assert found_by_us(inner) == expected


def test_a_line_keeps_its_number_and_its_text() -> None:
    rules = parse_rules(b"# comment\n\n*.log\n  \n!keep.log\n")
    assert [(rule.line, rule.text, rule.negated) for rule in rules] == [(3, "*.log", False), (5, "!keep.log", True)]
