"""Is a call that bypasses the SDK's session answered as by it?  A call right behind `logging/setLevel` does not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.server.connection import Connection
from mcp_types import InitializeRequestParams

from refdesk.server.direct import direct_call
from refdesk.server.dispatcher import Dispatcher
from refdesk.server.process import ServerOptions
from tests.mcp_client.http import HttpClient, messages_in
from tests.mcp_client.stdio import Message, StdioClient
from tests.server.conftest import Serve, Start
from tests.server.test_calls import wait_for
from tests.server.toy import make_toolsets

CALLS: list[Message] = [
    {"name": "echo", "arguments": {"query": "é \u2028 \x01 \U0001f600", "limit": 3.0}, "_meta": {"correlationId": "a"}},
    {"name": "echo", "arguments": {"query": "x"}, "_meta": {"correlationId": "a", "progressToken": "t"}},
    {"name": "echo", "arguments": {"query": 1}},
    {"name": "echo", "arguments": {"qeury": "x"}},
    {"name": "echo"},
    {"name": "echo", "arguments": None},
    {"name": "nothing"},
    {"name": "refuse_text", "arguments": {"query": "invalid"}},
    {"name": "refuse_coded", "arguments": {"query": "x"}},
    {"name": "refuse_rpc", "arguments": {"query": "x"}, "_meta": {"correlationId": "a"}},
    {"name": "crash_rpc", "_meta": {"correlationId": "a"}},
    {"name": "crash_text", "_meta": {"correlationId": "a"}},
    {"name": "media"},
    {"name": "odd"},
    {"name": "odd", "arguments": {"fail": True}},
    {"name": "think"},
    {"name": "echo", "arguments": {"query": "x"}, "_meta": {"progressToken": 1.5}},
    {"name": "echo", "arguments": {"query": "x"}, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}},
]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_same_is_answered_either_way(start: Start, version: str) -> None:
    client = start()
    client.initialize(version)
    for params in CALLS:
        client.request("logging/setLevel", {"level": "info"})
        by_sdk = client.request("tools/call", params)
        told = client.notifications("notifications/progress")
        client.inbox.messages.clear()
        directly = client.request("tools/call", params)
        again = client.notifications("notifications/progress")
        client.inbox.messages.clear()
        del by_sdk["id"], directly["id"]
        assert json.dumps(directly) == json.dumps(by_sdk)  # the order of their members too
        assert again == told


PLAIN: Message = {"name": "echo", "arguments": {"query": "x"}, "_meta": {"progressToken": 1}}
ODD: list[dict[str, Any]] = [
    {"method": "tools/list"},
    {"jsonrpc": "1.0"},
    {"id": 1.5},
    {"id": True},
    {"more": 1},
    {"params": PLAIN | {"task": {}}},
    {"params": PLAIN | {"name": "touch"}},  # it writes
    {"params": PLAIN | {"arguments": []}},
    {"params": PLAIN | {"_meta": {"progressToken": None}}},
    {"params": PLAIN | {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}}}},
]


def test_whatever_is_not_plain_is_left_to_the_sdk(tmp_path: Path) -> None:
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": PLAIN}

    async def tell() -> None:
        dispatcher, loop = Dispatcher(lambda: make_toolsets(tmp_path), ServerOptions()), asyncio.get_running_loop()
        connection = Connection.for_loop(None)  # type: ignore[arg-type]
        await dispatcher.registry()
        assert direct_call(message, connection, dispatcher, loop) is None  # it has not shaken hands
        connection.client_params = InitializeRequestParams.model_validate(info)
        found = direct_call(message, connection, dispatcher, loop)
        assert found is not None
        assert (found.request_id, found.tool.name, found.arguments) == (7, "echo", {"query": "x"})
        assert [odd for odd in ODD if direct_call(message | odd, connection, dispatcher, loop)] == []

    asyncio.run(tell())


def test_a_cancelled_call_is_told_of_by_any_form_of_its_id(client: StdioClient, tmp_path: Path) -> None:
    running = client.start("tools/call", {"name": "slow", "_meta": {"progressToken": 1}})
    wait_for(tmp_path / "trace", "working at 3")
    client.notify("notifications/cancelled", {"requestId": str(running)})
    wait_for(tmp_path / "trace", "stopped at")
    assert client.request("ping")["result"] == {}
    assert not [each for each in client.inbox.messages if each.get("id") == running]


def test_a_call_beside_it_waits_for_nobody(client: StdioClient, tmp_path: Path) -> None:
    slow = client.start("tools/call", {"name": "slow", "arguments": {"steps": 100}})
    wait_for(tmp_path / "trace", "working")
    for _ in range(3):
        assert client.call("echo", {"query": "x"})["result"]["structuredContent"]["query"] == "x"
    assert not [each for each in client.inbox.messages if each.get("id") == slow]
    assert client.finish(slow)["result"]["structuredContent"] == {"steps": 100}


def test_the_end_of_input_waits_for_it_and_a_signal_does_not(start: Start, tmp_path: Path) -> None:
    for ends_by_signal in (False, True):
        client = start(exit_grace_s=4.0)
        client.initialize()
        client.call("echo", {"query": "x"})
        (tmp_path / "trace").unlink(missing_ok=True)
        steps = 10_000 if ends_by_signal else 30
        running = client.start("tools/call", {"name": "slow", "arguments": {"steps": steps}})
        wait_for(tmp_path / "trace", "working")
        if ends_by_signal:
            client.process.terminate()
            assert client.finish(running)["error"] == {"code": -32000, "message": "Connection closed"}
        else:
            client.end()
            assert client.finish(running)["result"]["structuredContent"] == {"steps": 30}


def test_answers_of_many_threads_are_whole_lines(client: StdioClient) -> None:
    """More than the pipe holds, with answers of the SDK's between them."""
    long = {"name": "echo", "arguments": {"query": "x" * 50_000}}
    asked = [client.start("tools/call", long) if number % 5 else client.start("ping") for number in range(40)]
    for request_id in asked:
        assert "result" in client.finish(request_id)
    assert client.stray == []


@pytest.mark.parametrize("after", ["at once", "when it has become a stream", "by the end of its session"])
def test_over_http_the_client_hears_of_the_end(
    serve_http: Serve, connect: Callable[..., HttpClient], tmp_path: Path, after: str
) -> None:
    client = connect(serve_http().url)
    client.initialize()
    answers: list[Message] = []
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "slow"}}

    def ask() -> None:
        with httpx.stream("POST", client.url, json=message, headers=client.headers, timeout=60) as response:
            answers.extend(messages_in(response))

    asking = threading.Thread(target=ask)
    asking.start()
    wait_for(tmp_path / "trace", "working at 150" if "stream" in after else "working")
    if "session" in after:
        httpx.delete(client.url, headers=client.headers)
    else:
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    wait_for(tmp_path / "trace", "stopped at")
    asking.join()
    code = -32600 if "session" in after else -32800
    assert [each["error"]["code"] for each in answers] == [code]
