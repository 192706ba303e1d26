"""The same tools over Streamable HTTP and SSE, with the official client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

import refdesk
from tests.contracts.conftest import refdesk as run
from tests.mcp_client.http import HttpServer
from tests.scale.servers import library_argument

MAIN = Path(refdesk.__file__).with_name("__main__.py")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("rag_create_collection", {"name": "notes"}),
    ("rag_ingest", {"uri": "data:text/markdown,%23%20Harp%0A%0AStrings of gut.", "collection": "notes"}),
    ("rag_search", {"query": "what is a harp strung with"}),
    ("rag_list_documents", {"collection": "notes"}),
    ("rag_stats", {}),
    ("search_docs", {"query": "harp strings"}),
    ("search_skills", {"query": "refund for a broken harp"}),
    ("qurio_list_sources", {}),
    ("qurio_search", {"query": "harp"}),
]


async def answers(url: str, transport: str, code: Path) -> list[str]:
    client = streamable_http_client(url) if transport == "http" else sse_client(url)
    async with client as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        calls = [*CALLS, ("search_code", {"query": "tune_strings", "path": str(code), "format": "json"})]
        calls.append(("code_research", {"query": "what calls tune_strings", "path": str(code)}))
        found = []
        for name, arguments in calls:
            result = await session.call_tool(name, arguments)
            text = result.content[0].text
            assert not result.is_error, (name, text)
            found.append(text)
        return found


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_every_toolset_answers(tmp_path: Path, transport: str) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "harp.py").write_text("def tune_strings(harp):\n    return harp\n\n\ndef play():\n    tune_strings(1)\n")
    library = tmp_path / "library"
    run(library, "index", str(code), "--kind", "code")
    with HttpServer(
        MAIN, "--library", library_argument(library), "serve", "--transport", transport, "--port", "0"
    ) as server:
        url = server.url if transport == "http" else f"{server.root}/sse"
        found = asyncio.run(answers(url, transport, code))
    assert any(one["content"].startswith("# Harp") for one in json.loads(found[2])["results"])
    assert "notes" in found[7]
    assert json.loads(found[-2])["results"][0]["path"] == "harp.py"
    assert "play" in found[-1]
