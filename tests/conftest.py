"""Real libraries in temporary folders."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.settings import Settings

# A shell starts what runs in the background deaf to Ctrl-C, and so would be every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Tree = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files, by relative path, under one folder and gives the folder."""
    root = tmp_path / "tree"

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return root

    return write


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """An empty library with the shipped embedder."""
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as opened:
        yield opened
