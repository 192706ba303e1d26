"""Does the server stay the same after ten thousand calls of all kinds?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.faults.fuzz import hostile, over_http, own_kb, soak
from tests.mcp_client.stdio import Message, StdioClient
from tests.server.conftest import Serve, Start
from tests.server.test_http import HELLO, Connect

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

CALLS = 10_000
AT_ONCE = 100
MAY_GROW_KB = 8 * 1024


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def call(tool: str, **arguments: object) -> tuple[str, Message]:
    return "tools/call", {"name": tool, "arguments": arguments}


def complete(value: str) -> tuple[str, Message]:
    ref = {"type": "ref/resource", "uri": "toy://notes/{number}"}
    return "completion/complete", {"ref": ref, "argument": {"name": "number", "value": value}}


KINDS: tuple[Callable[[int], tuple[str, Message]], ...] = (
    lambda n: call("echo", query=f"word {n}", tags=["a", "b"]),
    lambda n: call("echo", query="x" * (n % 2000)),
    lambda n: call("echo", qery=f"misspelt {n}"),
    lambda n: call("refuse_rpc", query="x"),
    lambda n: call("no_such_tool", n=n),
    lambda n: call("media"),
    lambda n: call("touch"),
    lambda n: ("tools/call", {"name": "slow", "arguments": {"steps": 1, "pause": 0}, "task": {"ttl": 50}}),
    lambda n: ("resources/read", {"uri": f"toy://notes/{n}"}),
    lambda n: ("resources/read", {"uri": f"toy://nowhere/{n}"}),
    lambda n: ("resources/subscribe", {"uri": f"toy://notes/{n % 50}"}),
    lambda n: complete(str(n % 30)),
    lambda n: ("tasks/list", {}),
    lambda n: ("tools/list", {}) if n % 10 == 0 else ("ping", {}),
    lambda n: (f"no/such/{n}", {}),
)


def make_calls(client: StdioClient, first: int, how_many: int) -> None:
    """Makes calls, a hundred under way at a time, with bad lines and cancellations between them."""
    for start in range(first, first + how_many, AT_ONCE):
        ids = [client.start(*KINDS[n % len(KINDS)](n)) for n in range(start, start + AT_ONCE)]
        client.send_bytes(b"this is not a message\n")
        client.notify("notifications/cancelled", {"requestId": ids[-1] + 10**9})
        for request_id in ids:
            client.finish(request_id)
        slow = client.start("tools/call", {"name": "slow", "arguments": {}})
        client.notify("notifications/cancelled", {"requestId": slow})
        client.inbox.messages.clear()


def test_memory_stays_flat_over_many_calls(start: Start) -> None:
    client = start()
    client.initialize()
    pid = client.process.pid
    make_calls(client, 0, CALLS // 5)
    before = own_kb(pid), open_files(pid)
    make_calls(client, CALLS // 5, CALLS - CALLS // 5)
    assert own_kb(pid) - before[0] < MAY_GROW_KB
    for _ in range(100):  # a file that is open for a moment is no leak
        if open_files(pid) <= before[1]:
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"{open_files(pid)} files are open, {before[1]} were")
    assert threads(pid) < 40
    assert client.end() == 0


def test_memory_stays_flat_over_many_sessions(serve_http: Serve, connect: Connect) -> None:
    server = serve_http()
    pid = server.process.pid

    def visit(times: int) -> None:
        for _ in range(times):
            client = connect(server.url)
            client.initialize()
            client.call("echo", {"query": "x"})
            client.call("slow", {"steps": 1, "pause": 0}, task={})
            client.end_session()
            client.modern("tools/call", {"name": "echo", "arguments": {"query": "x"}})
            client.leave()

    visit(40)
    before = own_kb(pid), open_files(pid)
    visit(160)
    after = own_kb(pid), open_files(pid)
    assert after[0] - before[0] < MAY_GROW_KB
    assert after[1] <= before[1] + 3


def test_sessions_that_nobody_ends_take_no_more_than_their_share(serve_http: Serve, connect: Connect) -> None:
    server = serve_http(max_sessions=20)
    client = connect(server.url)

    def forget(times: int) -> None:
        for _ in range(times):
            assert client.post(HELLO).status_code == 200

    forget(50)
    before = own_kb(server.process.pid)
    forget(400)  # 16 MB, if all were kept
    assert own_kb(server.process.pid) - before < MAY_GROW_KB


def test_memory_stays_flat_whatever_is_sent_over_http(serve_http: Serve, connect: Connect) -> None:
    server = serve_http(max_sessions=20, max_message_bytes=200_000)
    client = connect(server.url)
    client.initialize()
    tools = [
        each for each in client.request("tools/list")["result"]["tools"] if each["name"] in ("echo", "media", "odd")
    ]
    tally, held = soak(server.process.pid, partial(over_http, server.url, hostile(3, tools)), 1000)
    assert tally.wrong == []
    assert held[-1] - held[3] < MAY_GROW_KB
