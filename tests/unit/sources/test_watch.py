"""A watch tells what changed and keeps quiet about what is left out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system tells when it likes")
def test_the_next_call_tells_of_a_change_on_a_busy_machine_too(tmp_path: Path) -> None:
    watching = Watch(tmp_path)
    spin = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        for _ in range(6 * (os.cpu_count() or 1)):
            stack.callback(stack.enter_context(subprocess.Popen(spin)).kill)
        for turn in range(150):
            (tmp_path / f"file{turn % 7}.md").write_text(str(turn))
            told = watching.changed()
            assert told is None or f"file{turn % 7}.md" in told, (turn, told)
    assert watching.changed() == set()


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
