"""A watch tells what changed and keeps quiet about what is left out."""

from __future__ import annotations

import threading
from pathlib import Path

from refdesk.sources.watch import Interest, Watch


def test_the_rules_decide_about_paths_that_exist_and_about_those_that_went(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\nskip/\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".gitignore").write_text("own.py\n")
    interest = Interest(str(tmp_path))
    told = ["a.md", "src/b.py", "src/gone/c.py", ".gitignore", "src/.gitignore", "src"]
    quiet = ["a.log", "skip/x.md", "src/own.py", ".git/index", "node_modules/a/b.js", "x.png", ".hidden/x", "../x", "."]
    assert [path for path in told if not interest.has(path)] == []
    assert [path for path in quiet if interest.has(path)] == []


def test_changes_are_told_once_and_ignored_files_are_not(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "sub").mkdir()
    watching = Watch(tmp_path)
    for name in ("noise.log", "a.md", "sub/b.md"):
        (tmp_path / name).write_text("x")
    seen: set[str] = set()
    for _ in range(200):
        seen |= watching.changed() or set()
        if {"a.md", "sub/b.md"} <= seen:
            break
        threading.Event().wait(0.05)
    assert seen == {"a.md", "sub/b.md"}
    (tmp_path / ".gitignore").write_text("*.txt\n")
    for _ in range(200):
        if (told := watching.changed()) is None:
            break  # other rules hold: everything must be looked at
        threading.Event().wait(0.05)
    assert told is None
