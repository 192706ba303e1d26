"""Can resources be listed, read and completed?"""

from __future__ import annotations

import json

import pytest

from tests.mcp_client.stdio import Message, StdioClient
from tests.server.conftest import Start
from tests.server.test_handshake import MODERN


def complete(client: StdioClient, uri: str, name: str, value: str) -> Message:
    params = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": name, "value": value}}
    return client.request("completion/complete", params)


def test_resources_are_listed_in_pages(shared: StdioClient) -> None:
    seen: list[str] = []
    params: Message = {}
    while True:
        result = shared.request("resources/list", params)["result"]
        seen += [each["uri"] for each in result["resources"]]
        if "nextCursor" not in result:
            break
        params = {"cursor": result["nextCursor"]}
    assert seen == [f"toy://about/{n}" for n in range(250)]
    assert shared.request("resources/list", {"cursor": "rubbish"})["error"]["code"] == -32602


def test_templates_are_listed(shared: StdioClient) -> None:
    templates = shared.request("resources/templates/list")["result"]["resourceTemplates"]
    assert templates == [{"uriTemplate": "toy://notes/{number}", "name": "note"}]


def test_a_resource_and_a_template_are_read(shared: StdioClient) -> None:
    [contents] = shared.request("resources/read", {"uri": "toy://about/7"})["result"]["contents"]
    assert contents == {"uri": "toy://about/7", "mimeType": "application/json", "text": json.dumps({"n": 7})}
    [contents] = shared.request("resources/read", {"uri": "toy://notes/12"})["result"]["contents"]
    assert contents["text"] == "note 12"


@pytest.mark.parametrize("uri", ["toy://notes/404", "toy://nowhere", "rubbish", ""])
def test_what_is_not_there(shared: StdioClient, uri: str) -> None:
    error = shared.request("resources/read", {"uri": uri})["error"]
    assert error["code"] == -32002
    assert error["data"] == {"uri": uri}


def test_on_2026_07_28_what_is_not_there_has_the_newer_code(start: Start) -> None:
    error = start().request("resources/read", {"uri": "toy://notes/404", "_meta": MODERN})["error"]
    assert (error["code"], error["data"]) == (-32602, {"uri": "toy://notes/404"})


def test_a_failing_read_tells_its_id_only(shared: StdioClient) -> None:
    params = {"uri": "toy://notes/500", "_meta": {"correlationId": "read-me"}}
    error = shared.request("resources/read", params)["error"]
    assert (error["code"], error["data"]) == (-32603, {"correlationId": "read-me"})
    assert "secret" not in error["message"]


def test_completion(shared: StdioClient) -> None:
    few = complete(shared, "toy://notes/{number}", "number", "19")["result"]["completion"]
    assert few == {"values": ["19", *(f"19{n}" for n in range(10))], "total": 11, "hasMore": False}
    many = complete(shared, "toy://notes/{number}", "number", "")["result"]["completion"]
    assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 200, True)
    none = complete(shared, "toy://notes/{number}", "other", "x")["result"]["completion"]
    assert none == {"values": [], "total": 0, "hasMore": False}
    assert complete(shared, "toy://no/{x}", "x", "")["error"]["code"] == -32602
