"""Does every message get an answer, however wrong it is?"""

from __future__ import annotations

import pytest

from tests.faults.fuzz import BATCH_VERSION, RAW, hostile, over_http, over_stdio
from tests.server.conftest import Serve, Start, connect, serve_http, start
from tests.server.test_http import Connect

__all__ = ["connect", "serve_http", "start"]

ENDLESS = ("slow", "stubborn", "hog", "child", "inquire", "think")
SMALL = {"max_message_bytes": 200_000}


@pytest.mark.parametrize("version", ["2025-11-25", BATCH_VERSION])
def test_every_line_gets_its_answer(start: Start, version: str) -> None:
    client = start(**SMALL)
    client.initialize(version)
    tools = client.request("tools/list")["result"]["tools"]
    harmless = [tool for tool in tools if tool["name"] not in ENDLESS]
    batches = version == BATCH_VERSION
    assert over_stdio(client, iter(RAW), len(RAW), batches=batches).wrong == []
    assert over_stdio(client, hostile(1, harmless), 1000, batches=batches).wrong == []
    assert client.request("ping")["result"] == {}
    assert client.end() == 0


def test_every_body_gets_its_answer(serve_http: Serve, connect: Connect) -> None:
    url = serve_http(**SMALL).url
    client = connect(url)
    client.initialize()
    tools = client.request("tools/list")["result"]["tools"]
    harmless = [tool for tool in tools if tool["name"] not in ENDLESS]
    assert over_http(url, iter(RAW), len(RAW)).wrong == []
    assert over_http(url, hostile(2, harmless), 400).wrong == []
    assert client.request("ping")["result"] == {}
