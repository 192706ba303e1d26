"""Are tasks as in the 2025-11-25 text?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client.stdio import Message, StdioClient
from tests.server.conftest import Start
from tests.server.test_calls import wait_for

RELATED = "io.modelcontextprotocol/related-task"


def create(client: StdioClient, tool: str, arguments: Message | None = None, **task: Any) -> Message:
    created: Message = client.call(tool, arguments, task=task)["result"]["task"]
    return created


def finished(client: StdioClient, task_id: str) -> Message:
    """The task after its result can be had."""
    client.request("tasks/result", {"taskId": task_id})
    got: Message = client.request("tasks/get", {"taskId": task_id})["result"]
    return got


def test_a_task_is_answered_at_once_and_its_result_waits(client: StdioClient) -> None:
    created = create(client, "slow", {"steps": 5}, ttl=60_000)
    assert created["status"] == "working"
    assert created["ttl"] == 60_000
    assert created["pollInterval"] == 500
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", created["createdAt"])
    assert created["lastUpdatedAt"] == created["createdAt"]
    assert len(created["taskId"]) >= 32 and created["taskId"].isalnum()
    result = client.request("tasks/result", {"taskId": created["taskId"]})["result"]
    assert result["structuredContent"] == {"steps": 5}
    assert result["_meta"] == {RELATED: {"taskId": created["taskId"]}}
    done = client.request("tasks/get", {"taskId": created["taskId"]})["result"]
    assert done["status"] == "completed"
    assert "_meta" not in done
    told = client.notification("notifications/tasks/status")["params"]
    assert told == done


def test_the_task_is_heard_of_before_its_end(client: StdioClient) -> None:
    for _ in range(50):
        request_id = client.start("tools/call", {"name": "slow", "arguments": {"steps": 0}, "task": {}})
        client.inbox.wait(lambda each: each.get("method") == "notifications/tasks/status")
        assert any(each.get("id") == request_id for each in client.inbox.messages)


def test_without_a_ttl_it_is_null(client: StdioClient) -> None:
    created = create(client, "slow", {"steps": 1})
    assert created["ttl"] is None
    assert finished(client, created["taskId"])["ttl"] is None


@pytest.mark.parametrize("ttl", [-1, "long", True, [1]])
def test_a_ttl_that_makes_no_sense_is_refused(client: StdioClient, ttl: object) -> None:
    assert client.call("slow", {}, task={"ttl": ttl})["error"]["code"] == -32602


def test_the_server_bounds_the_ttl(start: Start) -> None:
    client = start(max_task_ttl_ms=1000)
    client.initialize()
    assert create(client, "slow", {"steps": 1}, ttl=10**12)["ttl"] == 1000


def test_an_error_result_fails_the_task_and_is_still_given(client: StdioClient) -> None:
    created = create(client, "slow", {"steps": 1, "fail": True})
    result = client.request("tasks/result", {"taskId": created["taskId"]})["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == "it went wrong"
    got = client.request("tasks/get", {"taskId": created["taskId"]})["result"]
    assert (got["status"], got["statusMessage"]) == ("failed", "it went wrong")


def test_bad_arguments_fail_the_task(client: StdioClient) -> None:
    created = create(client, "slow", {"stepz": 1})
    result = client.request("tasks/result", {"taskId": created["taskId"]})["result"]
    assert "Did you mean 'steps'?" in result["content"][0]["text"]
    assert finished(client, created["taskId"])["status"] == "failed"


def test_a_json_rpc_error_is_the_result(client: StdioClient) -> None:
    created = create(client, "crash_rpc")
    error = client.request("tasks/result", {"taskId": created["taskId"]})["error"]
    assert error["code"] == -32603
    assert "correlationId" in error["data"]
    assert client.request("tasks/get", {"taskId": created["taskId"]})["result"]["status"] == "failed"


def test_cancelling_stops_the_work_and_it_stays_cancelled(client: StdioClient, tmp_path: Path) -> None:
    created = create(client, "slow")
    wait_for(tmp_path / "trace", "working at 2")
    waiting = client.start("tasks/result", {"taskId": created["taskId"]})
    cancelled = client.request("tasks/cancel", {"taskId": created["taskId"]})["result"]
    assert cancelled["status"] == "cancelled"
    assert "cancelled" in client.finish(waiting)["error"]["message"]
    wait_for(tmp_path / "trace", "stopped at")
    assert client.request("tasks/get", {"taskId": created["taskId"]})["result"]["status"] == "cancelled"
    again = client.request("tasks/cancel", {"taskId": created["taskId"]})["error"]
    assert again["code"] == -32602
    assert [each["params"]["status"] for each in client.notifications("notifications/tasks/status")] == ["cancelled"]


def test_a_finished_task_cannot_be_cancelled(client: StdioClient) -> None:
    created = create(client, "slow", {"steps": 1})
    assert finished(client, created["taskId"])["status"] == "completed"
    assert client.request("tasks/cancel", {"taskId": created["taskId"]})["error"]["code"] == -32602


def test_work_that_ignores_cancelling_changes_nothing(client: StdioClient) -> None:
    created = create(client, "stubborn")
    assert client.request("tasks/cancel", {"taskId": created["taskId"]})["result"]["status"] == "cancelled"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_an_unknown_id(client: StdioClient, method: str) -> None:
    assert client.request(method, {"taskId": "no-such"})["error"]["code"] == -32602
    assert client.request(method, {})["error"]["code"] == -32602


def test_tools_that_forbid_tasks(client: StdioClient) -> None:
    assert client.call("echo", {"query": "x"}, task={})["error"]["code"] == -32601
    assert client.call("no_such", {}, task={})["error"]["code"] == -32602


def test_listing_goes_by_pages(start: Start) -> None:
    client = start(page_size=4)
    client.initialize()
    assert client.request("tasks/list")["result"] == {"tasks": []}
    ids = [create(client, "slow", {"steps": 1})["taskId"] for _ in range(10)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        result = client.request("tasks/list", cursor)["result"]
        assert len(result["tasks"]) <= 4
        seen += [task["taskId"] for task in result["tasks"]]
        if "nextCursor" not in result:
            break
        cursor = {"cursor": result["nextCursor"]}
    assert seen == ids
    for bad in ("x", "YXQ6OTk5OTk=", "!!!"):
        assert client.request("tasks/list", {"cursor": bad})["error"]["code"] == -32602


def test_an_expired_task_is_gone_and_its_work_ends(client: StdioClient, tmp_path: Path) -> None:
    created = create(client, "slow", ttl=300)
    waiting = client.start("tasks/result", {"taskId": created["taskId"]})
    assert client.finish(waiting)["error"]["code"] == -32603
    wait_for(tmp_path / "trace", "stopped at")
    assert client.request("tasks/get", {"taskId": created["taskId"]})["error"]["code"] == -32602
    assert client.request("tasks/list")["result"]["tasks"] == []


def test_progress_goes_on_after_the_task_was_created(client: StdioClient) -> None:
    arguments = {"name": "slow", "arguments": {"steps": 3, "pause": 0.06}, "task": {}}
    params = arguments | {"_meta": {"progressToken": 99}}
    task_id = client.request("tools/call", params)["result"]["task"]["taskId"]
    finished(client, task_id)
    told = [each["params"] for each in client.notifications("notifications/progress")]
    assert told[-1] == {
        "progressToken": 99,
        "progress": 3,
        "total": 3,
        "message": "step 3",
        "_meta": {RELATED: {"taskId": task_id}},
    }


def test_a_task_that_needs_an_answer_says_so(start: Start) -> None:
    client = start(answers={"elicitation/create": lambda _: {"action": "accept", "content": {"name": "Ann"}}})
    client.initialize(capabilities={"elicitation": {}})
    created = create(client, "inquire")
    told = client.notification("notifications/tasks/status")["params"]
    assert told["status"] == "input_required"
    assert client.request("tasks/get", {"taskId": created["taskId"]})["result"]["status"] == "input_required"
    result = client.request("tasks/result", {"taskId": created["taskId"]})["result"]
    assert result["content"][0]["text"] == "hello Ann"
    asked = client.inbox.wait(lambda each: each.get("method") == "elicitation/create")
    assert asked["params"]["_meta"] == {RELATED: {"taskId": created["taskId"]}}
    told = [each["params"]["status"] for each in client.notifications("notifications/tasks/status")]
    assert told == ["working", "completed"]


def test_a_task_that_waits_for_an_answer_can_be_cancelled(start: Start) -> None:
    client = start(task_workers=1)
    client.initialize(capabilities={"elicitation": {}})
    created = create(client, "inquire")
    client.notification("notifications/tasks/status")
    assert client.request("tasks/cancel", {"taskId": created["taskId"]})["result"]["status"] == "cancelled"
    assert finished(client, create(client, "slow", {"steps": 1})["taskId"])["status"] == "completed"


def test_a_task_knows_the_clients_roots(start: Start) -> None:
    client = start(answers={"roots/list": lambda _: {"roots": [{"uri": "file:///code"}]}})
    client.initialize(capabilities={"roots": {}})
    created = create(client, "roots")
    result = client.request("tasks/result", {"taskId": created["taskId"]})["result"]
    assert result["structuredContent"] == {"roots": ["/code"]}


def test_too_many_at_once_are_refused(start: Start) -> None:
    client = start(max_tasks_per_client=2)
    client.initialize()
    ids = [create(client, "slow")["taskId"] for _ in range(2)]
    error = client.call("slow", {}, task={})["error"]
    assert error["code"] == -32603
    assert "Too many tasks" in error["message"]
    client.request("tasks/cancel", {"taskId": ids[0]})
    assert create(client, "slow", {"steps": 1})["status"] == "working"


def test_finished_tasks_without_a_ttl_do_not_pile_up(start: Start) -> None:
    client = start(max_tasks_per_client=3)
    client.initialize()
    for _ in range(20):
        finished(client, create(client, "slow", {"steps": 1, "pause": 0})["taskId"])
    assert len(client.request("tasks/list")["result"]["tasks"]) <= 7


def test_giving_up_on_the_result_leaves_the_task(client: StdioClient) -> None:
    created = create(client, "slow", {"steps": 30})
    waiting = client.start("tasks/result", {"taskId": created["taskId"]})
    client.notify("notifications/cancelled", {"requestId": waiting})
    assert finished(client, created["taskId"])["status"] == "completed"
