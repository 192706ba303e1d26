"""A watch tells what changed and keeps quiet about what is left out."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Queue

import pytest

from refdesk.sources.watch import Interest, watch


def test_the_rules_decide_about_paths_that_exist_and_about_those_that_went(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\nskip/\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".gitignore").write_text("own.py\n")
    interest = Interest(str(tmp_path))
    told = ["a.md", "src/b.py", "src/gone/c.py", ".gitignore", "src/.gitignore", "src"]
    quiet = ["a.log", "skip/x.md", "src/own.py", ".git/index", "node_modules/a/b.js", "x.png", ".hidden/x", "../x", "."]
    assert [path for path in told if not interest.has(path)] == []
    assert [path for path in quiet if interest.has(path)] == []


@pytest.mark.filterwarnings("ignore")
def test_changes_are_told_until_the_watch_is_stopped(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    stop, batches = threading.Event(), Queue[set[str]]()

    def run() -> None:
        for batch in watch(tmp_path, stop):
            batches.put(batch)

    thread = threading.Thread(target=run)
    thread.start()
    seen: set[str] = set()
    number = 0
    try:
        while not {"a.md", "sub/b.md"} <= seen and number < 200:
            # Written again and again, since the watch may not have begun when the first change comes.
            number += 1
            (tmp_path / "noise.log").write_text(str(number))
            (tmp_path / "a.md").write_text(str(number))
            (tmp_path / "sub").mkdir(exist_ok=True)
            (tmp_path / "sub" / "b.md").write_text(str(number))
            threading.Event().wait(0.05)
            while not batches.empty():
                seen |= batches.get()
    finally:
        stop.set()
        thread.join()
    assert {"a.md", "sub/b.md"} <= seen
    assert "noise.log" not in seen
