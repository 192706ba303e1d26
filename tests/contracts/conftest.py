"""The real server over stdio, on a real library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client.stdio import StdioClient, environment
from tests.scale.servers import library_argument

Serve = Callable[..., "Client"]


def refdesk(library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line on a library; it must succeed."""
    command = [sys.executable, "-m", "refdesk", "--library", library_argument(library), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done


class Client:
    """A client that reads answers as an agent does."""

    def __init__(self, raw: StdioClient) -> None:
        self.raw = raw

    def result(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = self.raw.call(tool, arguments)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def text(self, tool: str, /, **arguments: Any) -> str:
        result = self.result(tool, **arguments)
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text

    def json(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The JSON in the text, which must equal the structured content."""
        result = self.result(tool, **arguments)
        assert not result.get("isError"), result
        value: dict[str, Any] = json.loads(result["content"][0]["text"])
        assert result["structuredContent"] == value
        return value

    def error(self, tool: str, /, **arguments: Any) -> str:
        result = self.result(tool, **arguments)
        assert result["isError"] is True, result
        text: str = result["content"][0]["text"]
        return text

    def tools(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in self.raw.request("tools/list")["result"]["tools"]}


@contextmanager
def serving() -> Iterator[Serve]:
    """Starts servers, each on a library, and gives clients that have said hello; ends them all at the end."""
    with ExitStack() as stack:

        def start(library: Path, *arguments: str) -> Client:
            command = [sys.executable, "-m", "refdesk", "--library", library_argument(library), "serve", *arguments]
            raw = stack.enter_context(StdioClient(command))
            raw.initialize()
            return Client(raw)

        yield start


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server of the test's own."""
    with serving() as start:
        yield start


@pytest.fixture(scope="module")
def serve_all() -> Iterator[Serve]:
    """A server that the module's tests share, for those that change nothing."""
    with serving() as start:
        yield start
