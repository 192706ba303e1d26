"""How does each contract's failure look to the client?"""

from __future__ import annotations

import json

from tests.mcp_client.stdio import StdioClient


def test_text_errors(shared: StdioClient) -> None:
    missing = shared.call("refuse_text")["result"]
    assert missing == {"content": [{"type": "text", "text": "query is required"}], "isError": True}
    unknown = shared.call("refuse_text", {"query": "x", "lang": "go"})["result"]
    assert unknown["content"][0]["text"].startswith("Unknown argument 'lang'. Did you mean 'language'?")
    refused = shared.call("refuse_text", {"query": "x"})["result"]
    assert refused["isError"] is True
    assert refused["content"][0]["text"] == "Document not found: x. List the documents."


def test_coded_errors(shared: StdioClient) -> None:
    missing = shared.call("refuse_coded")["result"]
    assert missing["isError"] is True
    assert json.loads(missing["content"][0]["text"]) == {
        "error": {"code": "INVALID_ARGUMENT", "message": "Missing required argument: query"}
    }
    refused = shared.call("refuse_coded", {"query": "x"})["result"]["content"][0]["text"]
    assert json.loads(refused)["error"]["code"] == "DOCUMENTNOTFOUND"


def test_rpc_errors(shared: StdioClient) -> None:
    missing = shared.call("refuse_rpc")["error"]
    assert missing == {"code": -32602, "message": "Missing required argument: query"}
    assert shared.call("refuse_rpc", {"query": "invalid"})["error"]["code"] == -32602
    failed = shared.call("refuse_rpc", {"query": "x"}, _meta={"correlationId": "my-id"})["error"]
    assert failed["code"] == -32603
    assert failed["message"] == "Document not found: x. List the documents."
    assert failed["data"] == {"correlationId": "my-id"}


def test_the_unexpected_is_logged_and_only_its_id_is_told(client: StdioClient) -> None:
    text = client.call("crash_text", _meta={"correlationId": "id-one"})["result"]
    assert text["isError"] is True
    assert "id-one" in text["content"][0]["text"]
    coded = json.loads(client.call("crash_coded", _meta={"correlationId": "id-two"})["result"]["content"][0]["text"])
    assert coded["error"]["code"] == "DATABASE_ERROR"
    rpc = client.call("crash_rpc", _meta={"correlationId": "id-three"})["error"]
    assert (rpc["code"], rpc["data"]) == (-32603, {"correlationId": "id-three"})
    assert "secret" not in json.dumps([text, coded, rpc])
    assert client.end() == 0
    failures = [json.loads(line) for line in client.log if "ZeroDivisionError" in line]
    assert [line["correlation_id"] for line in failures] == ["id-one", "id-two", "id-three"]
    assert all("secret detail" in line["exception"] for line in failures)


def test_an_unknown_tool_names_the_known_ones(shared: StdioClient) -> None:
    error = shared.call("ekko")["error"]
    assert error["code"] == -32602
    assert error["message"].startswith("Unknown tool: ekko. Known tools: echo, refuse_text,")


def test_malformed_params_say_what_is_wrong(shared: StdioClient) -> None:
    nameless = shared.request("tools/call", {"arguments": {}})["error"]
    assert nameless["code"] == -32602
    assert "name" in nameless["message"]
    wrong = shared.request("tools/call", {"name": "echo", "arguments": [1]})["error"]
    assert wrong["code"] == -32602
    assert "arguments" in wrong["message"]
    assert shared.request("resources/read", {"uri": 7})["error"]["code"] == -32602
    assert shared.request("logging/setLevel", {"level": "loud"})["error"]["code"] == -32602
