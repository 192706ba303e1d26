"""How much later than a bare SDK server do we answer `initialize` and `tools/list`?  At most 1.1 times is the aim.

Both sides are started again and again, in turn, in this one run, so that what else the machine does falls on both.

    python -m bench.cold_start [--rounds 20] [--library DIR]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import clock

BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="hello" * 1_600)])

async def main():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def start_and_greet(command: list[str]) -> tuple[float, ...]:
    """Milliseconds from a process's start to its answers to `initialize` and to `tools/list`, then of its processor."""
    begun = time.perf_counter()
    piped = subprocess.PIPE
    with subprocess.Popen(command, stdin=piped, stdout=piped, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        times: list[float] = []
        spent: list[float] = []
        for message in (HELLO, LIST):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["id"] == message["id"], answer
            assert "result" in answer, answer
            times.append((time.perf_counter() - begun) * 1000)
            spent.append(clock.processor_ms(process.pid))
        process.stdin.close()
        process.wait(30)
    return (*times, *spent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--library", type=Path, help="a library to serve; an empty one by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as empty:
        library = str(given.library or Path(empty) / "library")
        sides = {
            "bare": [sys.executable, "-c", BARE],
            "refdesk": [sys.executable, "-m", "refdesk", "--library", library, "serve"],
        }
        for command in sides.values():
            start_and_greet(command)  # compiles and caches, on both sides
        taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
        for turn in range(given.rounds):
            order = list(sides) if turn % 2 else list(reversed(sides))
            for name in order:
                taken[name].append(start_and_greet(sides[name]))
    told = ("initialize", "tools/list", "processor for initialize", "processor for both")
    for at, what in enumerate(told):
        bare, ours = (statistics.median(times[at] for times in taken[name]) for name in sides)
        ratios = [one[at] / (other[at] or 1) for one, other in zip(taken["refdesk"], taken["bare"], strict=True)]
        ratio = statistics.median(ratios)
        print(f"{what:25} bare {bare:6.0f} ms, refdesk {ours:6.0f} ms; median of {given.rounds} ratios {ratio:.2f}")


if __name__ == "__main__":
    main()
