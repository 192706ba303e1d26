"""How long does a search take as served?  Each search tool over stdio and HTTP beside the engine alone, sides in turn.

python -m bench.latency [--folders DIR...] [--queries 100] [--semble COMMAND] [--json FILE]

A folder is indexed as code into a library of its own. The floors: a tool adds at most 2.5 ms to the engine's p50, HTTP
2 ms to stdio's, and `search_code` has its p95 within twice its p50. Milliseconds depend on the machine, so a bare SDK
server that answers with 8,000 letters is asked in turn, and what a tool adds is given in times of its answer, too. With
the command of semble's server over stdio (`pip install semble[mcp]`; SEMBLE_MODEL_NAME names its model) that is asked
the same in turn, and is to be slower. Where the system tells it, the note has each side's processor time, which also
counts on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from bench import clock, cold_start, corpora, http_load, query_speed, tables
from bench.metrics import percentile
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.model import Filters, Query
from refdesk.settings import Settings
from tests.mcp_client.stdio import StdioClient

Ask = Callable[[str], object]
Given = Callable[[str], dict[str, Any]]


def measure(folder: Path, library: Path, queries: int, semble: list[str]) -> tuple[list[Row], dict[str, Any]]:
    """Rows for one folder."""
    with open_desk(Settings(library=library)) as desk:
        files = desk.index(folder, "code", name="tree").files
        texts = list(query_speed.queries_from(list(query_speed.sampled(desk, 4 * queries)), queries + 10))
        engine: dict[str, Ask] = {
            "search_code": lambda text: desk.search(_query(text, limit=20, by="file", prefer="code")),
            "rag_search": lambda text: desk.search(_query(text, limit=10)),
            "qurio_search": lambda text: desk.search(_query(text, limit=10)),
        }
        given: dict[str, Given] = {
            "search_code": lambda text: {"query": text, "path": str(folder)},
            "rag_search": lambda text: {"query": text, "collection": "tree"},
            "qurio_search": lambda text: {"query": text},
        }
        command = [sys.executable, "-m", "refdesk", "--library", str(library), "serve", "--allow-root", str(folder)]
        with (
            StdioClient(command) as stdio,
            StdioClient([sys.executable, "-c", cold_start.BARE]) as bare,
            http_load.served(library, 1) as (port, server),
            asyncio.Runner() as loop,
            StdioClient(semble) if semble else nullcontext() as peer,
        ):
            stdio.initialize()
            bare.initialize()
            if peer is not None:
                peer.initialize()
                _of_semble(peer, folder, texts[0])  # it indexes now
            http = http_load.Client(port)
            loop.run(http.open())
            rows: list[Row] = []
            facts: dict[str, Any] = {"folder": folder.name, "files": files}
            for tool, arguments in given.items():

                def over_stdio(text: str, tool: str = tool, arguments: Given = arguments) -> object:
                    return stdio.call(tool, arguments(text))

                def over_http(text: str, tool: str = tool, arguments: Given = arguments) -> object:
                    return loop.run(http.call(tool, arguments(text)))

                sides: dict[str, Ask] = {"engine": engine[tool], "stdio": over_stdio, "http": over_http}
                sides["bare"] = lambda text: bare.call("echo", {"query": text})
                if peer is not None and tool == "search_code":
                    sides["semble"] = partial(_of_semble, peer, folder)
                pids = {"engine": os.getpid(), "stdio": stdio.process.pid, "http": server, "bare": bare.process.pid}
                if peer is not None:
                    pids["semble"] = peer.process.pid
                times, spent = _in_turn(sides, texts, pids)
                p50 = {side: percentile(taken, 50) for side, taken in times.items()}
                p95 = {side: percentile(taken, 95) for side, taken in times.items()}
                facts[tool] = {"p50": p50, "p95": p95}
                what = f"{files} files, {tool}"
                processor = {side: percentile(taken, 50) for side, taken in spent.items()}
                facts[tool]["processor"] = processor
                note = "p50 " + ", ".join(f"{side} {value:.1f}" for side, value in p50.items())
                note += "; processor " + ", ".join(f"{side} {value:.1f}" for side, value in processor.items())
                more, over = 2.5 if tool == "search_code" else 2.0, p50["stdio"] - p50["engine"]
                rows.append(Row(f"{what}: stdio over engine, p50", over, "ms", more, note=note))
                rows.append(Row(f"{what}: that to a bare server's answer", over / p50["bare"], "times"))
                rows.append(Row(f"{what}: HTTP over stdio, p50", p50["http"] - p50["stdio"], "ms", 2.0))
                if "semble" in p50:
                    note = f"p50 {p50['semble']:.1f}, p95 {p95['semble']:.1f} ms"
                    rows.append(
                        Row(f"{what}: over semble's, p50", p50["stdio"] / p50["semble"], "times", 1.0, note=note)
                    )
                note = f"p95 {p95['stdio']:.1f} ms"
                rows.append(Row(f"{what}: p95 over p50", p95["stdio"] / p50["stdio"], "times", 2.0, note=note))
            loop.run(_close(http))
        return rows, facts


def _of_semble(peer: StdioClient, folder: Path, text: str) -> object:
    answer = peer.call("search", {"query": text, "repo": str(folder), "top_k": 20})
    assert not answer["result"].get("isError"), answer
    return answer


def _query(text: str, **more: Any) -> Query:
    return Query(text=text, filters=Filters(collections=("tree",)), **more)


async def _close(client: http_load.Client) -> None:
    client.close()


def _in_turn(
    sides: dict[str, Ask], texts: list[str], pids: dict[str, int]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Milliseconds that each side took for each text, then of its processor, after ten that warm it up."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    spent: dict[str, list[float]] = {side: [] for side in sides}
    for number, text in enumerate(texts):
        for side, ask in sides.items():
            before, begun = clock.processor_ms(pids[side]), time.perf_counter()
            ask(text)
            if number >= 10:
                times[side].append((time.perf_counter() - begun) * 1000)
                spent[side].append(clock.processor_ms(pids[side]) - before)
    return times, spent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folders", type=Path, nargs="*", help="trees of code; without, the corpora of bench.speed")
    options.add_argument("--queries", type=int, default=100)
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--semble", type=shlex.split, default=[], help="the command of its server")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    folders = asked.folders or [corpora.speed_corpus(size, asked.cache) for size in ("small", "medium", "large")]
    rows: list[Row] = []
    facts: list[dict[str, Any]] = []
    for folder in folders:
        with tempfile.TemporaryDirectory() as library:
            found, fact = measure(folder.resolve(), Path(library), asked.queries, asked.semble)
        rows += found
        facts.append(fact)
    print(tables.show_rows("searches as served", rows))
    tables.keep("latency", {"trees": facts}, asked.json)


if __name__ == "__main__":
    main()
