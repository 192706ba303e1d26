"""What can a handler do with the client that called it?"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.mcp_client.stdio import Message, StdioClient
from tests.server.conftest import Start


def wait_for(path: Path, text: str) -> str:
    """What the file says once it holds `text`."""
    for _ in range(6000):
        said = path.read_text() if path.exists() else ""
        if text in said:
            return said
        time.sleep(0.01)
    raise AssertionError(f"{path} never said {text!r}")


def test_progress_comes_in_order_and_before_the_answer(client: StdioClient) -> None:
    arguments = {"steps": 20, "pause": 0.02}
    answer = client.call("slow", arguments, _meta={"progressToken": "mine"})
    assert answer["result"]["structuredContent"] == {"steps": 20}
    told = [each["params"] for each in client.notifications("notifications/progress")]
    assert told[0]["progress"] == 1
    assert told[-1] == {"progressToken": "mine", "progress": 20, "total": 20, "message": "step 20"}
    steps = [each["progress"] for each in told]
    assert steps == sorted(set(steps))


def test_no_token_no_progress(client: StdioClient) -> None:
    client.call("slow", {"steps": 2})
    assert client.notifications("notifications/progress") == []


def test_cancelling_stops_the_work_and_nothing_is_answered(client: StdioClient, tmp_path: Path) -> None:
    running = client.start("tools/call", {"name": "slow", "arguments": {}})
    wait_for(tmp_path / "trace", "working at 3")
    client.notify("notifications/cancelled", {"requestId": running, "reason": "enough"})
    wait_for(tmp_path / "trace", "stopped at")
    assert client.request("ping")["result"] == {}
    assert not [each for each in client.inbox.messages if each.get("id") == running]


def test_a_queued_call_that_is_cancelled_never_runs(start: Start, tmp_path: Path) -> None:
    client = start(workers=1)
    client.initialize()
    first = client.start("tools/call", {"name": "slow", "arguments": {}})
    wait_for(tmp_path / "trace", "working")
    second = client.start("tools/call", {"name": "echo", "arguments": {"query": "x"}})
    client.notify("notifications/cancelled", {"requestId": second})
    client.notify("notifications/cancelled", {"requestId": first})
    assert client.call("echo", {"query": "y"})["result"]["structuredContent"]["query"] == "y"


def test_the_correlation_id_is_the_clients_or_made(client: StdioClient) -> None:
    given = client.call("echo", {"query": "x"}, _meta={"correlationId": "abc"})["result"]
    assert given["_meta"] == {"refdesk/correlation": "abc"}
    made = client.call("echo", {"query": "x"}, _meta={"correlationId": 7})["result"]
    assert len(made["_meta"]["refdesk/correlation"]) == 32


def test_structured_content_equals_the_text(client: StdioClient) -> None:
    result = client.call("echo", {"query": "é", "limit": 3.0})["result"]
    assert result["structuredContent"] == {"query": "é", "limit": 3}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


MEDIA = [
    {
        "type": "audio",
        "data": "UklGRg==",
        "mimeType": "audio/wav",
        "annotations": {"audience": ["user"], "priority": 0.25},
    },
    {
        "type": "resource_link",
        "uri": "file:///a%20b/Main.swift",
        "name": "Main.swift",
        "description": "Where it starts",
        "mimeType": "text/x-swift",
        "annotations": {"audience": ["user", "assistant"], "priority": 0.9},
    },
]


def test_audio_and_links_pass_unharmed(client: StdioClient) -> None:
    assert client.call("media")["result"]["content"] == MEDIA


def test_roots_are_asked_for_once_until_they_change(start: Start) -> None:
    asked: list[Message] = []

    def answer(params: Message) -> Message:
        asked.append(params)
        return {"roots": [{"uri": f"file:///home/me/my%20code/{len(asked)}"}, {"uri": "https://example.org"}]}

    client = start(answers={"roots/list": answer})
    client.initialize(capabilities={"roots": {"listChanged": True}})
    for _ in range(2):
        assert client.call("roots")["result"]["structuredContent"] == {"roots": ["/home/me/my code/1"]}
    client.notify("notifications/roots/list_changed")
    assert client.call("roots")["result"]["structuredContent"] == {"roots": ["/home/me/my code/2"]}


def test_a_client_without_roots_has_none(start: Start) -> None:
    client = start()
    client.initialize()
    assert client.call("roots")["result"]["structuredContent"] == {"roots": []}


def test_a_client_that_does_not_answer_is_not_waited_for_twice(start: Start) -> None:
    client = start(roots_timeout_s=0.2)
    client.initialize(capabilities={"roots": {}})
    for _ in range(2):
        assert client.call("roots")["result"]["structuredContent"] == {"roots": []}
    assert len(list(client.notifications("roots/list"))) == 1


def test_the_clients_model_can_be_asked(start: Start) -> None:
    asked: list[Message] = []

    def answer(params: Message) -> Message:
        asked.append(params)
        return {"role": "assistant", "model": "m-1", "content": {"type": "text", "text": "three"}}

    client = start(answers={"sampling/createMessage": answer})
    client.initialize(capabilities={"sampling": {}})
    assert client.call("think")["result"]["content"][0]["text"] == "the client's model says three"
    assert asked == [
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "How many?"}}],
            "maxTokens": 5,
            "systemPrompt": "Be brief.",
        }
    ]


def test_without_a_model_the_handler_knows(client: StdioClient) -> None:
    assert client.call("think")["result"]["content"][0]["text"] == "the client has no model"
    refused = client.call("inquire")["result"]
    assert refused["isError"] is True
    assert refused["content"][0]["text"] == "The client does not offer elicitation/create."


def test_the_user_can_be_asked(start: Start) -> None:
    client = start(answers={"elicitation/create": lambda _: {"action": "accept", "content": {"name": "Ann"}}})
    client.initialize(capabilities={"elicitation": {}})
    assert client.call("inquire")["result"]["content"][0]["text"] == "hello Ann"


def test_cancelling_while_the_client_is_asked_frees_the_worker(start: Start) -> None:
    client = start(workers=1)
    client.initialize(capabilities={"elicitation": {}})
    asking = client.start("tools/call", {"name": "inquire", "arguments": {}})
    client.inbox.wait(lambda each: each.get("method") == "elicitation/create")
    client.notify("notifications/cancelled", {"requestId": asking})
    assert client.call("echo", {"query": "x"})["result"]["isError"] is False


def test_on_2026_07_28_questions_come_back_as_results(start: Start) -> None:
    client = start()
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    params = {"name": "inquire", "arguments": {}, "_meta": meta}
    asked = client.request("tools/call", params)["result"]
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["who"]["params"]["message"] == "Who?"
    answers = {"who": {"action": "accept", "content": {"name": "Ann"}}}
    again = params | {"inputResponses": answers, "requestState": asked["requestState"]}
    assert client.request("tools/call", again)["result"]["content"][0]["text"] == "hello Ann"
    forged = again | {"requestState": asked["requestState"][:-2] + "xx"}
    assert client.request("tools/call", forged)["error"]["code"] == -32602


def test_every_log_line_of_a_call_has_its_id(client: StdioClient) -> None:
    client.call("refuse_text", {"query": "x"}, _meta={"correlationId": "trace-me"})
    client.end()
    lines = [json.loads(line) for line in client.log]
    assert [line["message"] for line in lines if line.get("correlation_id") == "trace-me"] == [
        "refuse_text refused: Document not found: x. List the documents.",
        "called refuse_text",
    ]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
