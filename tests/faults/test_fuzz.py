"""Does every message get an answer, however wrong it is?"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.faults.fuzz import BATCH_VERSION, RAW, hostile, over_http, over_stdio
from tests.mcp_client.stdio import StdioClient
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


# The real server with a thread that says how much is alive whenever it is asked through a pipe.
COUNTED = """
import gc, runpy, sys, threading
asked, told = sys.argv[1:3]
def count():
    while True:
        open(asked).read()
        gc.collect()
        with open(told, "w") as out:
            out.write(f"{len(gc.get_objects())} {sys.getallocatedblocks()}")
threading.Thread(target=count, daemon=True).start()
sys.argv[:] = ["refdesk", *sys.argv[3:]]
runpy.run_module("refdesk", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="wants named pipes that are opened twice")
def test_wrong_calls_leave_nothing_behind(tmp_path: Path) -> None:
    asked, told = tmp_path / "asked", tmp_path / "told"
    for pipe in (asked, told):
        os.mkfifo(pipe)
    library = ["--library", str(tmp_path / "library"), "serve"]
    with StdioClient([sys.executable, "-c", COUNTED, str(asked), str(told), *library]) as client:
        client.initialize()
        tools = client.request("tools/list")["result"]["tools"]

        def alive() -> list[int]:
            asked.write_text("")
            return [int(number) for number in told.read_text().split()]

        raw = hostile(5, tools)
        assert over_stdio(client, raw, 3000).wrong == []
        before, grown = alive(), []
        # One thing that each call left behind would be 3,000 in every round. Lines of source for tracebacks and short
        # strings are remembered: 2,500 blocks in a round, at most 700 from the third on.
        while not grown or (grown[-1][1] > 1500 and len(grown) < 5):
            assert over_stdio(client, raw, 3000).wrong == []
            now = alive()
            grown.append([after - then for after, then in zip(now, before, strict=True)])
            before = now
        assert grown[-1][1] <= 1500, grown
        assert min(objects for objects, _ in grown) < 1000, grown
        assert client.end() == 0
