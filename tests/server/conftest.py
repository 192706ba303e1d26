"""Toy servers, each a real process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client.http import HttpClient, HttpServer
from tests.mcp_client.stdio import StdioClient

TOY = Path(__file__).parent / "toy.py"

Start = Callable[..., StdioClient]
Serve = Callable[..., HttpServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts toy servers on stdio; keywords become server options."""
    with ExitStack() as stack:

        def start(answers: dict[str, Any] | None = None, **options: Any) -> StdioClient:
            client = StdioClient.python(TOY, str(tmp_path), "--options", json.dumps(options), answers=answers)
            return stack.enter_context(client)

        yield start


@pytest.fixture
def client(start: Start) -> StdioClient:
    """A toy server that has shaken hands, and has loaded its tools."""
    client = start()
    client.initialize()
    client.request("tools/list")
    return client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """One toy server for a whole module, for tests that leave it as it was."""
    with StdioClient.python(TOY, str(tmp_path_factory.mktemp("shared"))) as client:
        client.initialize()
        yield client


@pytest.fixture(scope="module")
def shared_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One toy server on HTTP for a whole module; messages are limited to 100,000 bytes."""
    options = json.dumps({"max_message_bytes": 100_000})
    folder = str(tmp_path_factory.mktemp("shared"))
    with HttpServer(TOY, folder, "--transport", "http", "--options", options) as server:
        yield server.url


@pytest.fixture
def serve_http(tmp_path: Path) -> Iterator[Serve]:
    """Starts toy servers on HTTP; positional arguments go to the command line."""
    with ExitStack() as stack:

        def serve(*arguments: str, **options: Any) -> HttpServer:
            given = ["--transport", "http", *arguments, "--options", json.dumps(options)]
            return stack.enter_context(HttpServer(TOY, str(tmp_path), *given))

        yield serve


@pytest.fixture
def connect() -> Iterator[Callable[..., HttpClient]]:
    """Opens HTTP clients."""
    with ExitStack() as stack:
        yield lambda url, **more: stack.enter_context(HttpClient(url, **more))
