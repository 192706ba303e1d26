"""Is the same server there over HTTP, for several clients, and does it keep them apart?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from refdesk.server.http.transport import listen
from refdesk.server.process import ServerOptions
from tests.mcp_client.http import ACCEPT, HttpClient, messages_in
from tests.mcp_client.stdio import Message
from tests.server.conftest import Serve
from tests.server.test_calls import MEDIA, wait_for

HELLO: Message = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
}

Connect = Callable[..., HttpClient]


def test_a_session_from_the_handshake_to_its_end(serve_http: Serve, connect: Connect) -> None:
    server = serve_http()
    client = connect(server.url)
    assert client.initialize()["capabilities"]["tasks"]["cancel"] == {}
    assert client.request("tools/list")["result"]["tools"][0]["name"] == "echo"
    assert client.call("media")["result"]["content"] == MEDIA
    answer = client.call("slow", {"steps": 3, "pause": 0.06}, _meta={"progressToken": 1})
    assert answer["result"]["structuredContent"] == {"steps": 3}
    assert client.inbox.wait(lambda each: each["method"] == "notifications/progress")["params"]["progress"] == 1
    assert client.end_session().status_code == 200
    assert client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"}).status_code == 404


@pytest.mark.parametrize(
    ("tool", "arguments", "meta", "kind"),
    [
        ("echo", {"query": "x"}, {}, "application/json"),
        ("slow", {"steps": 2, "pause": 0.01}, {}, "application/json"),
        ("slow", {"steps": 2, "pause": 0.06}, {"progressToken": 1}, "text/event-stream"),  # it tells how far it is
        ("slow", {"steps": 1, "pause": 2.5}, {}, "text/event-stream"),  # pings keep the connection open
    ],
)
def test_an_answer_that_is_all_comes_as_json(
    shared_url: str, connect: Connect, tool: str, arguments: Message, meta: Message, kind: str
) -> None:
    client = connect(shared_url)
    client.initialize()
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    with httpx.stream("POST", shared_url, json=call, headers=client.headers, timeout=30) as response:
        assert response.headers["content-type"].partition(";")[0] == kind
        response.read()
        assert [each["id"] for each in messages_in(response) if "result" in each] == [7]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_versions_over_http(shared_url: str, connect: Connect, version: str) -> None:
    client = connect(shared_url)
    assert client.initialize(version)["protocolVersion"] == version
    assert client.call("echo", {"query": "x"})["result"]["isError"] is False


def test_2026_07_28_needs_no_session(shared_url: str, connect: Connect) -> None:
    client = connect(shared_url)
    answer = client.modern("tools/call", {"name": "echo", "arguments": {"query": "x"}})["result"]
    assert answer["resultType"] == "complete"
    assert answer["structuredContent"]["query"] == "x"
    assert client.modern("tools/call", {"name": "media"})["result"]["content"] == MEDIA
    assert client.modern("tasks/list")["error"]["code"] == -32601
    assert client.modern("resources/read", {"uri": "toy://notes/404"})["error"]["code"] == -32602


def test_health(serve_http: Serve) -> None:
    answer = httpx.get(serve_http().root + "/healthz").json()
    assert (answer["status"], answer["name"], answer["version"]) == ("ok", "refdesk", "1.2.3")


def test_metrics_count_the_calls_of_tools(serve_http: Serve, connect: Callable[..., HttpClient]) -> None:
    server = serve_http()
    client = connect(server.url)
    client.initialize()
    client.call("echo", {"query": "x"})
    answer = httpx.get(server.root + "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    pattern = r'^refdesk_calls_total\{tool="echo",outcome="answered",process="\d+"\} 1$'
    assert re.search(pattern, answer.text, re.MULTILINE), answer.text
    assert re.search(
        r'^refdesk_call_seconds_bucket\{tool="echo",le="\+Inf",process="\d+"\} 1$', answer.text, re.MULTILINE
    )
    private = serve_http("--token", "secret")
    assert httpx.get(private.root + "/metrics").status_code == 401
    assert httpx.get(private.root + "/metrics", headers={"authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"", 400, -32700),
        (b"[]", 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
        (b"7", 400, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":5.5,"method":"ping"}', 400, -32600),
        (b" " * 200_000, 413, -32600),
    ],
)
def test_a_bad_body_gets_its_error(shared_url: str, connect: Connect, body: bytes, status: int, code: int) -> None:
    client = connect(shared_url)
    client.initialize()
    headers = {**client.headers, "content-type": "application/json"}
    answer = httpx.post(shared_url, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["id"] == (5 if b'"id":5,' in body else None)
    assert client.request("ping")["result"] == {}


def test_wrong_requests_over_http(serve_http: Serve, connect: Connect) -> None:
    server = serve_http()
    client = connect(server.url)
    client.initialize()
    headers = {**client.headers, "content-type": "text/plain"}
    assert httpx.post(server.url, content=b"{}", headers=headers).status_code == 400
    assert httpx.put(server.url, headers=client.headers).status_code == 405
    assert client.request("no/such")["error"]["code"] == -32601
    assert client.request("ping")["result"] == {}


BATCH: list[Message] = [
    {"jsonrpc": "2.0", "id": "a", "method": "ping"},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
    {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "echo", "arguments": {"query": "x"}}},
    {"jsonrpc": "2.0", "id": "c", "method": "no/such"},
    {"jsonrpc": "2.0", "id": "d", "method": "initialize", "params": {}},
    {"id": "e"},
]


def check_batch(answers: list[Message]) -> None:
    by_id = {each["id"]: each for each in answers}
    assert sorted(by_id) == ["a", "b", "c", "d", "e"]
    assert by_id["a"]["result"] == {}
    assert by_id["b"]["result"]["isError"] is False
    assert [by_id[key]["error"]["code"] for key in "cde"] == [-32601, -32600, -32600]


def test_batches_over_http(shared_url: str, connect: Connect) -> None:
    client = connect(shared_url)
    client.initialize("2025-03-26")
    check_batch(client.post(BATCH).json())
    assert client.post(BATCH[1:2]).status_code == 202


def test_clients_in_parallel_get_their_own_answers(shared_url: str, connect: Connect) -> None:
    url = shared_url
    wrong: list[str] = []

    def talk(client: HttpClient, name: str) -> None:
        client.initialize()
        for n in range(25):
            got = client.call("echo", {"query": f"{name}-{n}"})["result"]["structuredContent"]["query"]
            if got != f"{name}-{n}":
                wrong.append(got)

    threads = [threading.Thread(target=talk, args=(connect(url), str(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("same", [5, "5"])
def test_an_id_in_use_is_refused_and_harms_nobody(
    serve_http: Serve, connect: Connect, tmp_path: Path, same: int | str
) -> None:
    client = connect(serve_http().url)
    client.initialize("2025-03-26")
    answers: list[httpx.Response] = []
    called = {"name": "slow", "arguments": {"steps": 50, "pause": 0.02}}
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": called}
    waiting = threading.Thread(target=lambda: answers.append(client.post(message)))
    waiting.start()
    wait_for(tmp_path / "trace", "working")
    refused = client.post({"jsonrpc": "2.0", "id": same, "method": "ping"})
    assert (refused.status_code, refused.json()["error"]["code"], refused.json()["id"]) == (400, -32600, same)
    waiting.join()
    assert '"result"' in answers[0].text
    assert client.post({"jsonrpc": "2.0", "id": same, "method": "ping"}).status_code == 200
    twice = client.post([{"jsonrpc": "2.0", "id": 7, "method": "ping"}] * 2).json()
    assert sorted("error" in each for each in twice) == [False, True]


def test_a_client_that_vanishes_harms_nobody(serve_http: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve_http()
    client = connect(server.url)
    client.initialize()
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "slow", "arguments": {}}}
    with httpx.stream("POST", server.url, json=message, headers=client.headers, timeout=30):
        wait_for(tmp_path / "trace", "working")
    other = connect(server.url)
    other.initialize()
    assert other.call("echo", {"query": "x"})["result"]["isError"] is False
    client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    wait_for(tmp_path / "trace", "stopped at")


def test_leaving_a_2026_07_28_call_stops_its_work(serve_http: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve_http()
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    }
    params = {"name": "slow", "arguments": {}, "_meta": meta}
    headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "slow"}
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    with httpx.stream("POST", server.url, json=message, headers=headers, timeout=30) as response:
        assert next(messages_in(response))["method"] == "notifications/progress"
    wait_for(tmp_path / "trace", "stopped at")


def test_tasks_are_seen_by_their_session_only(shared_url: str, connect: Connect) -> None:
    url = shared_url
    mine, other = connect(url), connect(url)
    mine.initialize()
    other.initialize()
    task_id = mine.call("slow", {"steps": 5}, task={})["result"]["task"]["taskId"]
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert other.request(method, {"taskId": task_id})["error"]["code"] == -32602
    assert other.request("tasks/list")["result"]["tasks"] == []
    assert [each["taskId"] for each in mine.request("tasks/list")["result"]["tasks"]] == [task_id]
    result = mine.request("tasks/result", {"taskId": task_id})["result"]
    assert result["structuredContent"] == {"steps": 5}


def test_tasks_survive_a_reconnect(serve_http: Serve, connect: Connect) -> None:
    url = serve_http().url
    first = connect(url)
    first.initialize()
    first.listen()
    task_id = first.call("slow", {"steps": 20, "pause": 0.05}, task={"ttl": 600_000})["result"]["task"]["taskId"]
    session = {key: first.headers[key] for key in ("mcp-session-id", "mcp-protocol-version")}
    first.leave()
    again = connect(url, headers=session)
    again.listen()
    assert again.request("tasks/get", {"taskId": task_id})["result"]["status"] in ("working", "completed")
    result = again.request("tasks/result", {"taskId": task_id})["result"]
    assert result["structuredContent"] == {"steps": 20}
    told = again.inbox.wait(lambda each: each.get("method") == "notifications/tasks/status")
    assert told["params"]["status"] == "completed"


def test_a_session_with_a_running_task_is_not_idle(serve_http: Serve, connect: Connect, tmp_path: Path) -> None:
    client = connect(serve_http(session_idle_s=0.5).url)
    client.initialize()
    client.call("slow", {"steps": 200}, task={})
    wait_for(tmp_path / "trace", "working at 199")  # two seconds without a request
    [task] = client.request("tasks/list")["result"]["tasks"]
    assert client.request("tasks/result", {"taskId": task["taskId"]})["result"]["structuredContent"] == {"steps": 200}


def test_ending_the_session_ends_its_tasks(serve_http: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve_http()
    client = connect(server.url)
    client.initialize()
    client.call("slow", {}, task={})
    wait_for(tmp_path / "trace", "working")
    client.end_session()
    wait_for(tmp_path / "trace", "stopped at")


def test_a_task_asks_on_the_stream_of_its_result(shared_url: str, connect: Connect) -> None:
    client = connect(shared_url)
    client.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"name": "Ann"}}
    client.initialize(capabilities={"elicitation": {}})
    task_id = client.call("inquire", {}, task={})["result"]["task"]["taskId"]
    result = client.request("tasks/result", {"taskId": task_id})["result"]
    assert result["content"][0]["text"] == "hello Ann"


def test_calls_ask_on_their_own_stream(shared_url: str, connect: Connect) -> None:
    client = connect(shared_url)
    client.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"name": "Ann"}}
    client.initialize(capabilities={"elicitation": {}})
    assert client.call("inquire")["result"]["content"][0]["text"] == "hello Ann"


def test_changes_are_told_to_all_who_listen(serve_http: Serve, connect: Connect, tmp_path: Path) -> None:
    url = serve_http().url
    clients = [connect(url), connect(url)]
    for client in clients:
        client.initialize()
        client.listen()
        client.request("tools/list")
    (tmp_path / "taxonomy").write_text("guide")
    for client in clients:
        client.inbox.wait(lambda each: each.get("method") == "notifications/tools/list_changed")


class SseClient:
    """The older transport: one stream down, posts up."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._http = httpx.Client(timeout=60)
        self._stream = self._http.stream("GET", root + "/sse")
        self._lines = self._stream.__enter__().iter_lines()
        assert next(self._lines) == "event: endpoint"
        self.endpoint = next(self._lines).removeprefix("data: ")

    def close(self) -> None:
        self._stream.__exit__(None, None, None)
        self._http.close()

    def request(self, message: Message) -> Message:
        assert httpx.post(self._root + self.endpoint, json=message).status_code == 202
        for line in self._lines:
            if line.startswith("data: ") and (answer := json.loads(line[6:])).get("id") == message["id"]:
                found: Message = answer
                return found
        raise AssertionError("the stream ended")


def test_sse_for_older_clients(serve_http: Serve, tmp_path: Path) -> None:
    client = SseClient(serve_http().root)
    info = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "0"}}
    greeting = client.request({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info})
    assert greeting["result"]["protocolVersion"] == "2024-11-05"
    called = {"name": "echo", "arguments": {"query": "x"}}
    answer = client.request({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": called})
    assert answer["result"]["isError"] is False
    client.close()


def test_leaving_sse_ends_its_tasks(serve_http: Serve, tmp_path: Path) -> None:
    client = SseClient(serve_http().root)
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "0"}}
    client.request({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info})
    started = {"name": "slow", "arguments": {}, "task": {}}
    client.request({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": started})
    wait_for(tmp_path / "trace", "working")
    client.close()
    wait_for(tmp_path / "trace", "stopped at")


def test_it_stops_when_told_even_with_streams_open(serve_http: Serve, connect: Connect) -> None:
    server = serve_http(exit_grace_s=0.5)
    client = connect(server.url)
    client.initialize()
    client.listen()
    client.call("stubborn", {}, task={})
    server.process.terminate()
    assert server.process.wait(60) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("processes", [1, 2])
def test_it_ends_even_if_nothing_of_it_runs_any_more(serve_http: Serve, connect: Connect, processes: int) -> None:
    server = serve_http(processes=processes)
    clients = [connect(server.url) for _ in range(processes)]
    sessions = [client.post(HELLO).headers["mcp-session-id"] for client in clients]
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "hog"}}
    for session in sessions:
        with contextlib.suppress(httpx.ReadTimeout):
            httpx.post(server.url, json=message, headers={**ACCEPT, "mcp-session-id": session}, timeout=1)
    server.process.terminate()
    assert server.process.wait(60) == (0 if processes > 1 else -signal.SIGKILL)


def test_forgotten_sessions_make_room(serve_http: Serve, connect: Connect) -> None:
    server = serve_http(max_sessions=3)
    clients = [connect(server.url) for _ in range(3)]
    for client in clients:
        client.initialize()
    clients[0].request("ping")
    newest = connect(server.url)
    newest.initialize()
    held = [client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code for client in (*clients, newest)]
    assert held == [200, 404, 200, 200]
    for client in (clients[0], clients[2], newest):
        client.listen()
    assert connect(server.url).post(HELLO).status_code == 503  # all of them are in use
    assert clients[0].request("ping")["result"] == {}


def test_answers_go_out_at_once() -> None:
    with listen(ServerOptions(port=0)) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
