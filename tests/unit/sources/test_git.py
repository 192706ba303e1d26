"""What git's files say is what git says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from refdesk.sources.git import head_commit, parse_config, read_config


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    return root


def commit(root: Path) -> str:
    git(root, "commit", "-q", "--allow-empty", "-m", "m")
    return git(root, "rev-parse", "HEAD")


def test_there_is_no_commit_outside_a_repository_or_before_the_first_one(tmp_path: Path, repository: Path) -> None:
    assert head_commit(tmp_path) == ""
    assert head_commit(repository) == ""
    (tmp_path / "fake" / ".git").mkdir(parents=True)
    assert head_commit(tmp_path / "fake") == ""


def test_the_commit_of_a_branch_of_packed_refs_and_of_a_detached_head(repository: Path) -> None:
    first = commit(repository)
    assert head_commit(repository) == first
    (repository / "sub").mkdir()
    assert head_commit(repository / "sub") == first
    second = commit(repository)
    git(repository, "pack-refs", "--all")
    assert head_commit(repository) == second
    git(repository, "checkout", "-q", first)
    assert head_commit(repository) == first


def test_the_commit_of_a_worktree_and_of_a_submodule(tmp_path: Path, repository: Path) -> None:
    commit(repository)
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    in_tree = commit(tmp_path / "tree")
    assert head_commit(tmp_path / "tree") == in_tree != head_commit(repository)
    git(tmp_path / "tree", "pack-refs", "--all")
    assert head_commit(tmp_path / "tree") == in_tree
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")
    assert (outer / "inner" / ".git").is_file()
    assert head_commit(outer / "inner") == head_commit(repository)


def test_a_head_that_leads_astray_gives_nothing(repository: Path) -> None:
    for text in ("ref: ../../secret", "ref: HEAD", "nonsense", ""):
        (repository / ".git" / "HEAD").write_text(text)
        assert head_commit(repository) == ""


CONFIG = r"""
# comment
[core] excludesFile = "a \"quoted\" # name" ; not this
	ignoreCase
	long = one \
two
[Include]
	path = other
[section "Sub \"x\" ]"]
	Key = value   with  spaces   # cut
	empty =
	tab = "\ta"
[old.Style]
	k = v
"""


def test_a_configuration_is_read_as_git_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(CONFIG)
    raw = subprocess.run(["git", "config", "-z", "--list", "--file", str(file)], check=True, capture_output=True)
    theirs = [entry.partition("\n") for entry in raw.stdout.decode().split("\0") if entry]
    ours = [
        (section + (f".{sub}" if sub is not None else "") + "." + key, value)
        for section, sub, key, value in parse_config(CONFIG)
    ]
    assert ours == [(name, value if mark else "true") for name, mark, value in theirs]


def test_included_files_count(tmp_path: Path) -> None:
    (tmp_path / "included").write_text("[core]\nexcludesFile = here\n")
    (tmp_path / "config").write_text("[core]\nexcludesFile = there\n[include]\npath = included\n")
    assert read_config([tmp_path / "config"])["core.excludesfile"] == "here"
