"""A served library and a real Chromium that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from refdesk.app import open_desk
from refdesk.settings import Settings
from refdesk.skills.format import from_markdown
from tests.mcp_client.http import HttpServer

ROOT = Path(__file__).parents[2]
SERVE = Path(__file__).with_name("serve.py")
ARGUMENTS = ("serve", "--transport", "http", "--port", "0", "--allow-host", "127.0.0.1", "--log-level", "info")

# On a machine that is busy with other tests, some pages come late.
get, post, Client = (partial(one, timeout=60.0) for one in (httpx.get, httpx.post, httpx.Client))

PLAYBOOK = """# Reset a locked account

**Confidence:** 0.50 | **Product Area:** Accounts | **Issue Type:** Login

## Goal

Let a locked customer sign in again.

## Prerequisites

- The account is locked after too many wrong passwords

## Steps

### 1. Confirm who is asking
**Do:** Compare the mail address with the one of the account.
**Check:** They are the same.
**Say:** I am looking at your account.

### 2. Unlock it
**Do:** Press Unlock in the admin panel.
**Check:** The state is active.
**Say:** Please sign in again.

## Edge Cases

- The account is suspended for fraud: do not unlock it.

## Escalation

Hand over to the security team when the lock comes back within an hour.
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of this project's own code and docs, with a playbook of two versions."""
    folder = tmp_path_factory.mktemp("console") / "library"
    with open_desk(Settings(library=folder)) as desk:
        desk.index(ROOT / "src" / "refdesk", "code", name="refdesk", description="RefDesk's own source code")
        desk.index(ROOT / "docs", "docs", name="handbook", description="RefDesk's documentation")
        desk.index(ROOT / "tests" / "fixtures" / "code", "code", name="samples", description="One file per language")
        draft = from_markdown(PLAYBOOK).draft
        skill, _ = desk.learner.adopt(draft)
        better = PLAYBOOK.replace("Press Unlock in the admin panel.", "Press Unlock and clear the failed attempts.")
        desk.learner.adopt(from_markdown(better).draft, skill_id=skill.skill_id)
        desk.learner.rate(skill.skill_id, "confirmed")
    return folder


Serve = Callable[..., HttpServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves a copy of a library from a folder of its own, with more arguments."""
    with ExitStack() as stack:

        def start(library: Path, *more: str, here: Path = tmp_path) -> HttpServer:
            own = tmp_path / "library"
            if not own.exists():
                shutil.copytree(library, own)
            return stack.enter_context(HttpServer(SERVE, str(here), "--library", str(own), *ARGUMENTS, *more))

        yield start


@pytest.fixture(scope="module")
def served(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a console that a whole module looks at."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(library, folder / "library")
    with HttpServer(SERVE, str(ROOT), "--library", str(folder / "library"), *ARGUMENTS) as server:
        yield server.root


@pytest.fixture(scope="module")  # not the session: while Playwright runs, no other event loop can in this thread
def chromium() -> Iterator[Any]:
    """Debian's Chromium, which `.ci/run` installs."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'refdesk[browser]'")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page of the browser, and what it asked for and complained about."""

    def __init__(self, page: Any, root: str) -> None:
        self.page = page
        self.root = root
        self.asked: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda told: self.errors.append(told.text) if told.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def go(self, path: str) -> Any:
        answer = self.page.goto(self.root + path)
        assert answer is not None
        return answer

    @property
    def strangers(self) -> list[str]:
        """The addresses outside of the console that were asked for."""
        own = urlsplit(self.root).netloc
        return [url for url in self.asked if urlsplit(url).netloc != own and not url.startswith("data:")]


Open = Callable[..., Watched]


@pytest.fixture
def browse(chromium: Any) -> Iterator[Open]:
    """Opens pages in contexts of their own."""
    contexts = []

    def open_page(root: str, **options: Any) -> Watched:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = chromium.new_context(**options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        return Watched(context.new_page(), root)

    yield open_page
    for context in contexts:
        context.close()
