"""A crawl as a person sees it: on a terminal, with a bar that moves and a Ctrl-C that is typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.settings import Settings
from tests.e2e.docsite.server import Site, page
from tests.mcp_client.stdio import environment

pytest.importorskip("termios", reason="there are no pseudo-terminals here")

PAGES = 150
# A program that a terminal belongs to: what is typed there reaches it as a signal.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        for number in range(PAGES):
            text = f"<h1>Page {number}</h1><p>What page {number} says about topic {number * 7}.</p>"
            served.routes[f"/p{number}"] = page(f"Page {number}", text)
        links = "".join(f"<a href='/p{number}'>x</a>" for number in range(PAGES))
        served.routes["/"] = page("Start", f"<h1>Start</h1><p>Here it all begins.</p>{links}")
        yield served


class Terminal:
    """A program on a terminal, all that it wrote there, and a keyboard."""

    def __init__(self, command: list[str]) -> None:
        self._master, slave = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *command],
            stdin=slave, stdout=slave, stderr=slave, env={**environment(), "TERM": "xterm", "COLUMNS": "100"},
        )  # fmt: skip
        os.close(slave)
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:  # Linux says so when nobody has the other end
                return
            if not data:
                return
            self._written += data

    @property
    def text(self) -> str:
        return self._written.decode("utf-8", "replace")

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait(self) -> int:
        code = self.process.wait(90)
        self._reader.join(10)
        os.close(self._master)
        return code


def command(library: Path, site: Site) -> list[str]:
    start = [sys.executable, "-m", "refdesk", "--library", str(library), "--embedder", "none", "crawl", site.root]
    return [*start, "--name", "site", "--allow-host", "127.0.0.1", "--delay", "0", "--no-browser", "--concurrency", "1"]


class Held:
    """Holds the answer to one page back until it is let go, and says when it was asked for."""

    def __init__(self, site: Site, path: str) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._path = path
        site.on_request = self._wait

    def _wait(self, path: str) -> None:
        if path == self._path and not self.go_on.is_set():
            self.reached.set()
            self.go_on.wait(60)


def test_a_bar_shows_how_far_the_crawl_is(tmp_path: Path, site: Site) -> None:
    held = Held(site, "/p100")
    terminal = Terminal(command(tmp_path / "library", site))
    assert held.reached.wait(60)
    seen = _when(terminal, r"crawling: 101 of 151 \S*/p99\b")
    held.go_on.set()
    assert terminal.wait() == 0
    assert seen, terminal.text[-2000:]
    shown = [int(done) for done in re.findall(r"(\d+) of 151", terminal.text)]
    assert shown == sorted(shown) and 101 in shown
    assert terminal.text.rstrip().endswith(" s") and "151 pages, 151 written" in terminal.text
    last = re.split(r"crawling: [^\r\n]*", terminal.text)[-1]
    assert last.startswith("\r\x1b[K") and "151 pages" in last  # the line was erased before the summary


def test_ctrl_c_on_the_keyboard_ends_cleanly_and_the_crawl_goes_on(tmp_path: Path, site: Site) -> None:
    held = Held(site, "/p120")
    terminal = Terminal(command(tmp_path / "library", site))
    assert held.reached.wait(60)
    terminal.type(b"\x03")
    assert terminal.wait() == 130
    held.go_on.set()
    assert "run the same command to go on" in terminal.text and "Traceback" not in terminal.text
    assert "\r\x1b[K" in terminal.text
    site.asked["/p120"] -= 1  # never answered

    again = Terminal(command(tmp_path / "library", site))
    assert again.wait() == 0
    assert f"{PAGES + 1} pages" in again.text
    assert {site.asked[f"/p{number}"] for number in range(PAGES)} == {1}
    with open_desk(Settings(library=tmp_path / "library", embedder="none")) as desk:
        assert desk.count_documents("site") == PAGES + 1
        assert all(one.ok for one in desk._store.verify(repair=False))


def _when(terminal: Terminal, pattern: str) -> bool:
    """Whether the terminal comes to show something."""
    shown = threading.Event()
    for _ in range(600):
        if re.search(pattern, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.text)):
            return True
        shown.wait(0.05)
    return False
