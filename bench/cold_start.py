"""How much later than a bare SDK server do we answer `initialize`?  Prints the ratio; at most 1.25 is the aim.

Both sides are started again and again, in turn, in this one run, so that what else the machine does falls on both.

    python bench/cold_start.py [--rounds 20] [--library DIR]
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

BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="hello")])

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


def start_and_greet(command: list[str]) -> tuple[float, float]:
    """Milliseconds from the start of the process to its answers to `initialize` and to `tools/list`."""
    begun = time.perf_counter()
    piped = subprocess.PIPE
    with subprocess.Popen(command, stdin=piped, stdout=piped, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        times = []
        for message in (HELLO, LIST):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["id"] == message["id"], answer
            assert "result" in answer, answer
            times.append((time.perf_counter() - begun) * 1000)
        process.stdin.close()
        process.wait(30)
    return times[0], times[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--library", type=Path, help="a library to serve; an empty one by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as empty:
        run = "from refdesk.cli import main; main()"
        library = str(given.library or Path(empty) / "library")
        sides = {
            "bare": [sys.executable, "-c", BARE],
            "refdesk": [sys.executable, "-c", run, "--library", library, "serve"],
        }
        for command in sides.values():
            start_and_greet(command)  # compiles and caches, on both sides
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for turn in range(given.rounds):
            order = list(sides) if turn % 2 else list(reversed(sides))
            for name in order:
                taken[name].append(start_and_greet(sides[name]))
    for name, times in taken.items():
        greeted = statistics.median(first for first, _ in times)
        listed = statistics.median(second for _, second in times)
        print(f"{name:8} initialize {greeted:7.0f} ms   tools/list {listed:7.0f} ms   (medians of {given.rounds})")
    ratios = [ours[0] / bare[0] for ours, bare in zip(taken["refdesk"], taken["bare"], strict=True)]
    print(f"initialize: refdesk / bare = {statistics.median(ratios):.3f} (median of pairs; the aim is at most 1.25)")


if __name__ == "__main__":
    main()
