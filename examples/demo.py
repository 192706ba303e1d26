"""The main job, end to end: index this repository, then ask the real MCP server over stdio, as an agent would."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).parent.parent
CODE = str(ROOT / "src")
LIBRARY = ROOT / ".refdesk"
MADE_BY_ANOTHER_MODEL = 6  # an exit code of refdesk: the library was made with an older embedding model
REFDESK = [sys.executable, "-m", "refdesk", "--library", str(LIBRARY)]


def index() -> None:
    for path, kind, name in ((ROOT / "src", "code", "refdesk-code"), (ROOT / "docs", "docs", "refdesk-docs")):
        print(f"$ refdesk index {path.relative_to(ROOT)} --kind {kind}")
        command = [*REFDESK, "index", str(path), "--kind", kind, "--name", name]
        if subprocess.run(command, check=False).returncode == MADE_BY_ANOTHER_MODEL:
            subprocess.run([*REFDESK, "reembed"], check=True)
            subprocess.run(command, check=True)


async def ask() -> None:
    server = StdioServerParameters(command=REFDESK[0], args=[*REFDESK[1:], "serve", "--log-level", "warning"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        print(f"\nThe server offers {', '.join(tool.name for tool in tools.tools)}")
        for name, arguments in (
            ("search_code", {"query": "how is the number of tokens in a text counted", "path": CODE, "limit": 2}),
            ("code_research", {"query": "what calls pieces_of_rows", "path": CODE, "depth": 2}),
            ("search_docs", {"query": "crawl a site whose pages need a browser", "limit": 1}),
        ):
            print(f"\n> {name} {json.dumps(arguments)}")
            answer = await session.call_tool(name, arguments)
            print("\n".join(block.text for block in answer.content if block.type == "text"))


if __name__ == "__main__":
    index()
    asyncio.run(ask())
