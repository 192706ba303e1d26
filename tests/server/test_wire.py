"""Does the server survive what comes over the pipe, and end when it should?"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from refdesk.server import ServerOptions
from refdesk.server.dispatcher import Dispatcher
from refdesk.server.stdio import StdioSession
from tests.mcp_client.stdio import StdioClient, environment
from tests.server.conftest import TOY, Start
from tests.server.test_http import BATCH, check_batch


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"not json at all", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"7", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}', -32600),
        (b'{"jsonrpc":"2.0","id":5.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ],
)
def test_a_bad_line_gets_its_error_and_the_server_goes_on(shared: StdioClient, line: bytes, code: int) -> None:
    shared.send_bytes(line + b"\n")
    error = shared.inbox.wait(lambda each: "error" in each)
    assert error["error"]["code"] == code
    assert error["id"] == (5 if b'"id":5,' in line else None)
    assert shared.request("ping")["result"] == {}


def test_blank_lines_are_nothing(shared: StdioClient) -> None:
    shared.send_bytes(b"\n  \n\r\n")
    assert shared.request("ping")["result"] == {}


def test_a_message_may_be_large_but_not_without_end(start: Start) -> None:
    client = start(max_message_bytes=1_000_000)
    client.initialize()
    large = client.call("echo", {"query": "x" * 900_000})["result"]
    assert len(large["structuredContent"]["query"]) == 900_000
    for size in (1_000_000, 5_000_000):
        client.send_bytes(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "ping", "x": "y" * size}).encode() + b"\n")
        error = client.inbox.wait(lambda each: "error" in each)
        assert (error["id"], error["error"]["code"]) == (None, -32600)
        assert "too large" in error["error"]["message"]
    assert client.request("ping")["result"] == {}


def test_unknown_methods_and_stray_messages(shared: StdioClient) -> None:
    assert shared.request("no/such")["error"]["code"] == -32601
    assert shared.request("prompts/list")["error"]["code"] == -32601
    shared.notify("notifications/no/such", {"a": 1})
    shared.notify("notifications/cancelled", {"requestId": 12345})
    shared.notify("notifications/cancelled", {})
    shared.send({"jsonrpc": "2.0", "id": 77, "result": {}})
    shared.send({"jsonrpc": "2.0", "id": 78, "error": {"code": 1, "message": "x"}})
    assert shared.request("ping")["result"] == {}


def test_ids_come_back_as_they_went(shared: StdioClient) -> None:
    shared.send({"jsonrpc": "2.0", "id": "a string", "method": "ping"})
    assert shared.finish("a string")["result"] == {}
    shared.send({"jsonrpc": "2.0", "id": 0, "method": "ping"})
    assert shared.finish(0)["result"] == {}


def test_a_thousand_quick_calls_at_once(shared: StdioClient) -> None:
    ids = [shared.start("tools/call", {"name": "echo", "arguments": {"query": str(n)}}) for n in range(1000)]
    for n, request_id in enumerate(ids):
        assert shared.finish(request_id)["result"]["structuredContent"]["query"] == str(n)


def test_quick_calls_pass_slow_ones(client: StdioClient) -> None:
    slow = [client.start("tools/call", {"name": "slow", "arguments": {"steps": 10_000}}) for _ in range(4)]
    assert client.call("echo", {"query": "x"})["result"]["isError"] is False
    for request_id in slow:
        client.notify("notifications/cancelled", {"requestId": request_id})
    assert client.end() == 0


def test_only_protocol_on_stdout(client: StdioClient) -> None:
    assert client.call("chatter")["result"]["content"][0]["text"] == "quiet"
    assert client.end() == 0
    assert client.stray == []
    assert any("stray print" in line for line in client.log)


def test_what_was_asked_before_the_end_is_answered(start: Start) -> None:
    client = start()
    client.initialize()
    asked = client.start("tools/call", {"name": "slow", "arguments": {"steps": 5}})
    assert client.end() == 0
    assert client.finish(asked)["result"]["structuredContent"] == {"steps": 5}


@pytest.mark.parametrize("tool", ["slow", "stubborn"])
def test_it_ends_with_its_input_whatever_runs(start: Start, tool: str) -> None:
    client = start(exit_grace_s=0.2)
    client.initialize()
    client.start("tools/call", {"name": tool, "arguments": {}})
    client.start("tools/call", {"name": tool, "arguments": {}, "task": {}})
    assert client.end() == 0


def test_it_ends_when_nobody_ever_spoke(start: Start) -> None:
    assert start().end() == 0


def test_it_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    command = [sys.executable, str(TOY), str(tmp_path)]
    piped = subprocess.PIPE
    with subprocess.Popen(command, stdin=piped, stdout=piped, stderr=subprocess.DEVNULL, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        process.stdin.flush()
        assert process.wait(60) == 0


def test_answers_are_whole_lines_for_a_client_that_reads_late(tmp_path: Path) -> None:
    command = [sys.executable, str(TOY), str(tmp_path)]
    piped = subprocess.PIPE
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "late", "version": "0"}}
    with subprocess.Popen(command, stdin=piped, stdout=piped, stderr=subprocess.DEVNULL, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked: list[tuple[str, Any]] = [("initialize", hello)]
        asked += [("tools/call", {"name": "echo", "arguments": {"query": str(n) * 50_000}}) for n in range(6)]
        for number, (method, params) in enumerate(asked):
            line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        time.sleep(1)  # the pipe is full now
        answers = [json.loads(process.stdout.readline()) for _ in asked]
        process.stdin.close()
        assert process.wait(60) == 0
    assert sorted(one["id"] for one in answers) == list(range(7))
    assert all(str(one["id"] - 1) * 50_000 in json.dumps(one["result"]) for one in answers if one["id"])


def test_a_client_that_never_reads_the_log_stalls_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StdioClient, "_read_log", lambda self: None)
    client = start()
    client.initialize()
    for _ in range(300):  # each logs a traceback: far more than a pipe holds
        assert client.call("crash_text")["result"]["isError"] is True
    assert client.end() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("tool", ["slow", "stubborn"])
def test_a_termination_signal_ends_it_and_its_children(start: Start, tmp_path: Path, tool: str) -> None:
    client = start(exit_grace_s=0.2)
    client.initialize()
    child = client.call("child")["result"]["structuredContent"]["pid"]
    client.start("tools/call", {"name": tool, "arguments": {}})
    client.request("ping")
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(60) == 0
    for _ in range(6000):
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.01)
    raise AssertionError("an orphan")


def test_batches_in_the_one_version_that_has_them(start: Start) -> None:
    client = start()
    client.initialize("2025-03-26")
    client.send_bytes(json.dumps(BATCH).encode() + b"\n")
    answers: Any = client.inbox.wait(lambda each: isinstance(each, list))
    check_batch(answers)
    client.send_bytes(json.dumps([{"id": 1}]).encode() + b"\n")
    answers = client.inbox.wait(lambda each: isinstance(each, list))
    assert [each["error"]["code"] for each in answers] == [-32600]
    client.send_bytes(b"[]\n")
    assert client.inbox.wait(lambda each: "error" in each)["error"]["code"] == -32600
    assert client.request("ping")["result"] == {}


def test_text_that_is_no_text_harms_nobody(client: StdioClient) -> None:
    meta = {"progressToken": 1}
    answer = client.call("odd", _meta=meta)["result"]
    assert answer["structuredContent"] == {"name ?": ["é ?"]}
    assert client.notification("notifications/progress")["params"]["message"] == "half ?"
    assert client.call("odd", {"fail": True})["error"]["message"] == "half ?"
    task_id = client.call("odd", task={})["result"]["task"]["taskId"]
    assert client.request("tasks/result", {"taskId": task_id})["result"]["structuredContent"] == {"name ?": ["é ?"]}
    assert client.call("odd", {"worse": True})["error"]["code"] == -32603
    task_id = client.call("odd", {"worse": True}, task={})["result"]["task"]["taskId"]
    assert client.request("tasks/result", {"taskId": task_id})["error"]["code"] == -32603
    assert client.request("ping")["result"] == {}


class BrokenInput:
    """Input whose reading fails as nobody foresaw."""

    def readline(self, size: int) -> bytes:
        raise ValueError("not a file any more")


@pytest.mark.parametrize("broken", ["input", "output"])
def test_a_pipe_that_breaks_inside_takes_the_server_with_it(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    ends = os.pipe()
    os.write(ends[1], b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')  # and it stays open
    dispatcher = Dispatcher(list, ServerOptions(exit_grace_s=0.2))
    with os.fdopen(ends[0], "rb") as wire_in:
        if broken == "input":
            pipe = StdioSession(dispatcher, BrokenInput(), ends[1])  # type: ignore[arg-type]
        else:
            pipe = StdioSession(dispatcher, wire_in, "no descriptor")  # type: ignore[arg-type]
        asyncio.run(pipe.serve())
        os.close(ends[1])
    assert pipe.failed
    assert [record.levelname for record in caplog.records if record.exc_info] == ["CRITICAL"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", ["signal", "end of input"])
def test_it_ends_even_if_nothing_of_it_runs_any_more(start: Start, how: str) -> None:
    client = start()
    client.initialize()
    client.start("tools/call", {"name": "hog", "arguments": {}})
    time.sleep(0.5)
    if how == "signal":
        client.process.terminate()
        client.process.wait(60)
    else:
        client.end()
    assert client.process.returncode == -signal.SIGKILL
