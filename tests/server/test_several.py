"""Do several processes serve one port as one server?"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.mcp_client.http import HttpServer
from tests.server.conftest import Serve
from tests.server.test_calls import wait_for
from tests.server.test_http import HELLO, Connect, SseClient

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def children(server: HttpServer) -> list[int]:
    listed = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return [int(each) for each in listed.split()]


def test_connections_are_handed_out_in_turn(serve_http: Serve, connect: Connect) -> None:
    url = serve_http(processes=2).url
    clients = [connect(url) for _ in range(6)]
    sessions = [client.post(HELLO).headers["mcp-session-id"] for client in clients]
    assert sorted(session.rsplit(".", 1)[1] for session in sessions) == ["0", "0", "0", "1", "1", "1"]


def test_a_session_is_reached_by_any_connection(serve_http: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve_http(processes=2)
    client = connect(server.url)
    client.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"name": "Ann"}}
    client.initialize(capabilities={"elicitation": {}})
    client.listen()  # on a connection of its own, which is the other process's
    task_id = client.call("slow", {"steps": 20, "pause": 0.02}, task={})["result"]["task"]["taskId"]
    session = {key: client.headers[key] for key in ("mcp-session-id", "mcp-protocol-version")}
    for number in range(1, 5):
        other = connect(server.url, headers=session)
        other._next_id = 100 * number  # a stream may end later than its answer is read, and ids are the session's
        assert [each["taskId"] for each in other.request("tasks/list")["result"]["tasks"]] == [task_id]
        assert other.call("echo", {"query": "x" * 70_000})["result"]["isError"] is False
        answer = other.call("slow", {"steps": 3, "pause": 0.06}, _meta={"progressToken": 1})
        assert answer["result"]["structuredContent"] == {"steps": 3}
        assert other.inbox.wait(lambda each: each["method"] == "notifications/progress")
    told = client.inbox.wait(lambda each: each.get("method") == "notifications/tasks/status")
    assert told["params"]["status"] == "completed"
    assert client.call("inquire")["result"]["content"][0]["text"] == "hello Ann"
    assert connect(server.url, headers=session).end_session().status_code == 200
    for _ in range(2):
        gone = connect(server.url, headers=session).post({"jsonrpc": "2.0", "id": 9, "method": "ping"})
        assert gone.status_code == 404


def test_a_question_of_one_process_is_answered_through_another(serve_http: Serve, connect: Connect) -> None:
    url = serve_http(processes=2).url
    for _ in range(2):
        client = connect(url)
        questions = {"elicitation": {}}
        first = client.modern("tools/call", {"name": "inquire", "arguments": {}}, questions)["result"]
        given = {key: {"action": "accept", "content": {"name": "Ann"}} for key in first["inputRequests"]}
        again = {"name": "inquire", "arguments": {}, "inputResponses": given, "requestState": first["requestState"]}
        for other in (connect(url), connect(url)):
            assert other.modern("tools/call", again, questions)["result"]["content"][0]["text"] == "hello Ann"


def test_the_older_transport_too(serve_http: Serve) -> None:
    root = serve_http(processes=2).root
    info = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "0"}}
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            client = SseClient(root)
            stack.callback(client.close)
            for number in range(4):  # each post on a connection of its own
                message = {"jsonrpc": "2.0", "id": number, "method": "initialize" if number == 0 else "ping"}
                assert "result" in client.request(message | {"params": info if number == 0 else {}})


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
def test_a_process_that_dies_is_replaced(serve_http: Serve, connect: Connect) -> None:
    server = serve_http(processes=2)
    sessions = [connect(server.url).post(HELLO).headers["mcp-session-id"] for _ in range(2)]
    before = children(server)
    os.kill(before[0], signal.SIGKILL)
    for session, status in zip(sorted(sessions, key=lambda each: each[-1]), (404, 200), strict=True):
        for _ in range(2):
            answer = connect(server.url, headers={"mcp-session-id": session}).post(
                {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            )
            assert answer.status_code == status
    while set(children(server)) == {before[1]}:
        time.sleep(0.05)
    again = [connect(server.url).post(HELLO).headers["mcp-session-id"] for _ in range(2)]
    assert sorted(session[-1] for session in again) == ["0", "1"]
    assert any("a worker process ended" in line for line in server.log)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
def test_each_scrape_answers_for_all_processes(serve_http: Serve, connect: Connect) -> None:
    server = serve_http("--token", "secret", processes=2)
    allowed = {"authorization": "Bearer secret"}
    clients = {}
    while len(clients) < 2:  # one of each process
        client = connect(server.url, headers=allowed)
        client.initialize()
        clients[client.headers["mcp-session-id"][-1]] = client
        httpx.get(f"{server.root}/healthz")  # takes a turn, as each of a client's two connections did
    for number, client in clients.items():
        for _ in range(1 + int(number)):
            client.call("echo", {"query": "x"})

    def calls() -> dict[int, int]:
        answer = httpx.get(f"{server.root}/metrics", headers=allowed, timeout=60)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.splitlines()
        heads = [line.split()[2] for line in lines if line.startswith("# HELP")]
        assert len(heads) == len(set(heads))
        of_metric = [line.split("{")[0].removesuffix("_count") for line in lines if "_bucket" not in line]
        assert of_metric.index("refdesk_call_seconds") > of_metric.index("refdesk_calls_total")  # each in one piece
        found = re.findall(r'^refdesk_calls_total\{tool="echo",.*process="(\d+)"\} (\d+)$', answer.text, re.MULTILINE)
        return {int(process): int(count) for process, count in found}

    first, second = children(server)
    assert sorted(calls()) == sorted((first, second)) and sorted(calls().values()) == [1, 2]
    assert calls() == calls() == calls()
    assert httpx.get(f"{server.root}/metrics").status_code == 401
    kept = calls()[second]
    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while first in calls() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert calls() == calls() == {second: kept}  # what replaces the other one begins under a number of its own


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_end_with_the_first(serve_http: Serve, connect: Connect, tmp_path: Path, how: signal.Signals) -> None:
    server = serve_http(processes=2, exit_grace_s=0.5)
    client = connect(server.url)
    client.initialize()
    client.listen()
    client.call("slow", {}, task={})
    wait_for(tmp_path / "trace", "working")
    pids = children(server)
    server.process.send_signal(how)
    assert server.process.wait(60) == (0 if how == signal.SIGTERM else -9)
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.05)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.root + "/healthz")
