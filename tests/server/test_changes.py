"""In which order are tools listed, and who hears when something changes?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from refdesk.server.registry import Change, Registry
from refdesk.toolsets.content import TextErrors, ToolAnswer
from refdesk.toolsets.contract import Announcer, Tool, ToolHints, Toolset
from tests.mcp_client.stdio import StdioClient
from tests.server.conftest import Start
from tests.server.test_handshake import MODERN


def tool(name: str, description: str = "") -> Tool:
    return Tool(
        name=name,
        title=name,
        description=description,
        input_schema={"type": "object"},
        handler=lambda arguments, ctx: ToolAnswer.of_text(""),
        hints=ToolHints(read_only=True),
        error_style=TextErrors(),
    )


def test_tools_keep_their_order_and_a_name_keeps_its_place() -> None:
    a, b, c, d = (tool(name) for name in "abcd")
    registry = Registry([Toolset(name="one", tools=(a, b, c)), Toolset(name="two", tools=(replace(b, title="B"), d))])
    assert [(each.name, each.title) for each in registry.tools()] == [("a", "a"), ("b", "B"), ("c", "c"), ("d", "d")]
    assert registry.tool("b") is registry.tools()[1]
    assert registry.tool("e") is None


def test_only_a_real_change_is_announced() -> None:
    heard: list[Change] = []
    first = tool("a")
    registry = Registry([Toolset(name="one", tools=(first,))])
    registry.listen(heard.append)
    registry.register(first)
    assert heard == []
    registry.register(replace(first, description="new"))
    registry.relisted("prompts")
    registry.updated("x://y")
    assert heard == [Change("tools"), Change("prompts"), Change("resource", "x://y")]


def test_a_toolset_that_fails_to_answer_a_poll_harms_nobody() -> None:
    class Polled:
        turns = 0

        def __call__(self) -> list[Tool]:
            self.turns += 1
            raise OSError("gone")

    polled = Polled()
    held: list[Announcer] = []
    registry = Registry([Toolset(name="one", poll=polled, attach=held.append)])
    registry.attach()
    registry.poll()
    registry.poll()
    assert polled.turns == 2
    assert held == [registry]


def test_a_changed_schema_is_listed_and_told(client: StdioClient, tmp_path: Path) -> None:
    before = [each["name"] for each in client.request("tools/list")["result"]["tools"]]
    (tmp_path / "taxonomy").write_text("guide reference")
    client.notification("notifications/tools/list_changed")
    tools = client.request("tools/list")["result"]["tools"]
    assert [each["name"] for each in tools] == before
    assert tools[0]["inputSchema"]["properties"]["scope"]["enum"] == ["guide", "reference"]
    wrong = client.call("echo", {"query": "x", "scope": "other"})["result"]
    assert "must be one of: guide, reference" in wrong["content"][0]["text"]


def test_a_2026_07_28_client_hears_where_it_listens(start: Start, tmp_path: Path) -> None:
    client = start()
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["toy://notes/1"]}
    listening = client.start("subscriptions/listen", {"notifications": wanted, "_meta": MODERN})
    client.notification("notifications/subscriptions/acknowledged")
    client.request("tools/list", {"_meta": MODERN})
    (tmp_path / "taxonomy").write_text("guide")
    told = client.notification("notifications/tools/list_changed")
    assert told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listening
    client.request("tools/call", {"name": "touch", "_meta": MODERN})
    assert client.notification("notifications/resources/updated")["params"]["uri"] == "toy://notes/1"
    assert client.notifications("notifications/resources/list_changed") == []
    assert client.end() == 0


def test_subscribers_hear_of_their_resource(client: StdioClient) -> None:
    client.call("touch")
    client.notification("notifications/resources/list_changed")
    assert client.notifications("notifications/resources/updated") == []
    assert client.request("resources/subscribe", {"uri": "toy://notes/1"})["result"] == {}
    client.call("touch")
    assert client.notification("notifications/resources/updated")["params"] == {"uri": "toy://notes/1"}
    assert client.request("resources/unsubscribe", {"uri": "toy://notes/1"})["result"] == {}
    client.notification("notifications/resources/list_changed")
    client.call("touch")
    client.notification("notifications/resources/list_changed")
    assert client.notifications("notifications/resources/updated") == []
