"""Does the inspector, a client that others wrote, get along with us over stdio and HTTP?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client.stdio import SOURCE
from tests.server.conftest import TOY, Serve
from tests.server.node_tools import NodeTools, required

Target = list[str]


@pytest.fixture
def tools() -> NodeTools:
    return required()


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, tmp_path: Path, serve_http: Serve) -> Target:
    """How to reach a toy server, as the inspector wants to be told."""
    if request.param == "http":
        return [serve_http().url]
    return ["-e", f"PYTHONPATH={SOURCE}", "--", sys.executable, str(TOY), str(tmp_path)]


def run(command: list[str], home: Path) -> Any:
    environment = {**os.environ, "HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "file"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_calls_and_reads(tools: NodeTools, target: Target, tmp_path: Path) -> None:
    def inspect(*more: str) -> Any:
        options = [*more, "--format", "json"]
        return run([*tools.inspector, *options, *target], tmp_path)["result"]

    names = [each["name"] for each in inspect("--method", "tools/list")["tools"]]
    assert names[0] == "echo"
    answer = inspect("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "query=hi")
    assert answer["structuredContent"] == {"query": "hi", "limit": 10}
    media = inspect("--method", "tools/call", "--tool-name", "media")
    assert [each["type"] for each in media["content"]] == ["audio", "resource_link"]
    assert len(inspect("--method", "resources/list")["resources"]) == 250
    read = inspect("--method", "resources/read", "--uri", "toy://notes/3")
    assert read["contents"][0]["text"] == "note 3"
    templates = inspect("--method", "resources/templates/list")["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "toy://notes/{number}"


@pytest.fixture
def mcpdo(tools: NodeTools, target: Target, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`mcpdo` commands on one connection, with a daemon of its own."""
    home = tmp_path / "home"
    home.mkdir()

    def command(*more: str) -> Any:
        return run([*tools.mcpdo, "--format", "json", "--connection", "toy", *more], home)

    command("connect", *target)
    yield command
    command("daemon", "stop")


def test_mcpdo_drives_tasks(mcpdo: Callable[..., Any]) -> None:
    done = mcpdo("tools/call", "slow", "--task", "--tool-arg", "steps=5")
    assert done["structuredContent"] == {"steps": 5}
    [task] = mcpdo("tasks/list")["tasks"]
    assert task["status"] == "completed"
    assert mcpdo("tasks/get", task["taskId"])["task"]["status"] == "completed"
    assert mcpdo("tasks/result", task["taskId"])["structuredContent"] == {"steps": 5}
    with pytest.raises(AssertionError, match="can't be cancelled"):
        mcpdo("tasks/cancel", task["taskId"])
