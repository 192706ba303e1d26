"""Which protocol versions are spoken, and what is offered in each?"""

from __future__ import annotations

import pytest

from tests.mcp_client.stdio import StdioClient
from tests.server.conftest import Start

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_known_version_is_answered_in_kind(start: Start, version: str) -> None:
    greeting = start().initialize(version)
    assert greeting["protocolVersion"] == version
    assert greeting["serverInfo"] == {"name": "refdesk", "title": "RefDesk", "version": "1.2.3"}
    assert ("tasks" in greeting["capabilities"]) == (version == "2025-11-25")


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "nonsense", ""])
def test_another_version_gets_the_latest_that_shakes_hands(start: Start, version: str) -> None:
    assert start().initialize(version)["protocolVersion"] == "2025-11-25"


def test_everything_offered_is_declared(start: Start) -> None:
    assert start().initialize()["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
        "logging": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    }


def test_requests_before_the_handshake_are_refused_but_ping_is_not(start: Start) -> None:
    client = start()
    assert client.request("ping")["result"] == {}
    assert client.request("tools/list")["error"]["code"] == -32602
    assert client.call("echo", {"query": "x"}, task={})["error"]["code"] == -32602


def test_tools_carry_all_that_clients_show(client: StdioClient) -> None:
    tools = {tool["name"]: tool for tool in client.request("tools/list")["result"]["tools"]}
    echo = tools["echo"]
    assert echo["title"] == "Echo"
    assert echo["description"] == "The echo toy."
    assert echo["annotations"] == {
        "title": "Echo",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    }
    assert echo["icons"] == [{"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["16x16"]}]
    assert echo["outputSchema"] == {"type": "object"}
    assert echo["execution"] == {"taskSupport": "forbidden"}
    assert tools["slow"]["execution"] == {"taskSupport": "optional"}
    assert "outputSchema" not in tools["media"]


def test_2026_07_28_is_served_on_the_same_pipe(start: Start) -> None:
    client = start()
    found = client.request("server/discover", {"_meta": MODERN})["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    listed = client.request("tools/list", {"_meta": MODERN})["result"]
    assert listed["resultType"] == "complete"
    assert "execution" not in listed["tools"][0]
    answer = client.request("tools/call", {"name": "echo", "arguments": {"query": "x"}, "_meta": MODERN})["result"]
    assert answer["structuredContent"]["query"] == "x"
    for method in ("tasks/list", "tasks/get", "tasks/result", "tasks/cancel"):
        assert client.request(method, {"taskId": "x", "_meta": MODERN})["error"]["code"] == -32601
    # `task` does not exist there, so the call is answered as any other
    steps = {"name": "slow", "arguments": {"steps": 1}, "task": {}, "_meta": MODERN}
    assert client.request("tools/call", steps)["result"]["structuredContent"] == {"steps": 1}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_versions_before_tasks_know_none(start: Start, version: str) -> None:
    client = start()
    client.initialize(version)
    assert client.request("tasks/list")["error"]["code"] == -32601
    assert "content" in client.call("slow", {"steps": 1}, task={})["result"]


def test_old_clients_get_blocks_that_they_know(start: Start) -> None:
    client = start()
    client.initialize("2024-11-05")
    content = client.call("media")["result"]["content"]
    assert [block["type"] for block in content] == ["text", "text"]
    assert "audio/wav" in content[0]["text"]
    assert content[1]["text"] == "[Main.swift](file:///a%20b/Main.swift)"
    assert "structuredContent" not in client.call("echo", {"query": "x"})["result"]
