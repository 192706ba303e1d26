"""Real libraries in temporary folders."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.settings import Settings
from tests.ports.neo4j_server import Neo4jServer, required
from tests.scale import servers

# A shell starts what runs in the background deaf to Ctrl-C, and so would be every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts wall-clock time, and an example may wait long on a busy machine.  A run tries the same examples as the
# last one, so that what fails was changed; `--hypothesis-profile explore` tries others.
hypothesis.settings.register_profile("refdesk", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("refdesk")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--shared`."""
    parser.addoption("--shared", action="store_true", help="run the contract tests on Postgres and Qdrant")


def pytest_configure(config: pytest.Config) -> None:
    """Tells it to what makes libraries."""
    servers.is_wanted = bool(config.getoption("--shared"))
    if servers.is_wanted:  # what belongs to this machine of a shared library is in the user's data folder
        os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="refdesk-data-")


# What takes longest begins first, so that no process is left with it at the end.
_LONGEST = ("scale/test_faults", "faults/", "scale/", "e2e/", "console/", "server/", "contracts/", "ports/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts long tests first, and leaves out what is about the files of a library."""
    items.sort(key=lambda item: next((at for at, name in enumerate(_LONGEST) if name in item.nodeid), len(_LONGEST)))
    if config.getoption("--shared"):
        for item in items:
            if item.get_closest_marker("folder"):
                item.add_marker(pytest.mark.skip(reason="is about the files of a library in a folder"))


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


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """A Neo4j that runs until the last test."""
    required()
    server = Neo4jServer(tmp_path_factory.mktemp("neo4j"))
    try:
        server.start()
        server.wait()
        yield server
    finally:
        server.kill()
