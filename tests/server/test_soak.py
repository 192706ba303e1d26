"""Does the server stay the same after twenty thousand calls of all kinds?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp_client.stdio import Message, StdioClient
from tests.server.conftest import Serve, Start
from tests.server.test_http import Connect

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

CALLS = 20_000
AT_ONCE = 100
MAY_GROW_KB = 8 * 1024


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


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
    before = resident_kb(pid), open_files(pid)
    make_calls(client, CALLS // 5, CALLS - CALLS // 5)
    after = resident_kb(pid), open_files(pid)
    assert after[0] - before[0] < MAY_GROW_KB
    assert after[1] <= before[1]
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
    before = resident_kb(pid), open_files(pid)
    visit(160)
    after = resident_kb(pid), open_files(pid)
    assert after[0] - before[0] < MAY_GROW_KB
    assert after[1] <= before[1] + 3
