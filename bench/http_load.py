"""What do many clients feel over HTTP?  Searches and ingests at once, against one process and against several.

python -m bench.http_load [--clients 64] [--writers 4] [--rate 2] [--seconds 30] [--workers 1 2] [--library DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import clock, corpora, tables
from bench.bulk import note
from bench.query_speed import queries_from, sampled
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.settings import Settings

HEADERS = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}


@dataclass(slots=True)
class Felt:
    """How long each call took, in seconds, and what went wrong."""

    searches: list[float] = field(default_factory=list)
    ingests: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Client:
    """One session on one kept connection; bare, so that the load takes little of the processors it measures."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._session = ""
        self._sent = 0

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self.request("initialize", HELLO)
        await self.request("notifications/initialized", None)

    def close(self) -> None:
        self._writer.close()

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What was wrong with the answer; nothing, if all is well."""
        answer = await self.request("tools/call", {"name": tool, "arguments": arguments})
        return "" if answer.get("result", {}).get("isError") is False else json.dumps(answer)[:300]

    async def request(self, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        self._sent += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message |= {"id": self._sent, "params": params}
        body = json.dumps(message).encode()
        session = f"Mcp-Session-Id: {self._session}\r\nMcp-Protocol-Version: 2025-11-25\r\n" if self._session else ""
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{HEADERS}{session}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self._session = headers.get("mcp-session-id", self._session)
        content = await self._content(headers)
        if params is None:
            return {}
        if headers["content-type"].startswith("text/event-stream"):
            content = next(line[6:] for line in content.split(b"\n") if line.startswith(b"data: {"))
        answer: dict[str, Any] = json.loads(content)
        return answer

    async def _content(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        content = b""
        while size := int(await self._reader.readline(), 16):
            content += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return content


async def load(port: int, texts: list[str], clients: int, writers: int, rate: float | None, seconds: float) -> Felt:
    """What clients feel that each ask `rate` times a second; without a rate, again as soon as they are answered."""
    felt = Felt()
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        client, rng = Client(port), random.Random(number)
        await client.open()
        writes = number < writers
        due = time.monotonic() + (rng.random() / rate if rate else 0)
        while due < until:
            await asyncio.sleep(max(0, due - time.monotonic()))
            text = note(rng.randrange(10**9)).replace("#", "%23").replace("\n", "%0A")
            ingest = {"uri": f"data:text/markdown,{text}", "collection": "notes"}
            begun = time.monotonic()
            try:
                if writes:
                    problem = await client.call("rag_ingest", ingest)
                else:
                    problem = await client.call("rag_search", {"query": rng.choice(texts)})
            except Exception as error:
                felt.errors.append(repr(error))
                return
            (felt.ingests if writes else felt.searches).append(time.monotonic() - begun)
            if problem:
                felt.errors.append(problem)
            due = max(due + 1 / rate, time.monotonic()) if rate else time.monotonic()
        client.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return felt


@contextmanager
def served(library: Path | str, workers: int) -> Iterator[tuple[int, int]]:
    """The port and the process id of a server on that library, in a folder or shared."""
    more = ["--workers", str(workers)] if workers > 1 else []
    command = [
        sys.executable,
        "-m",
        "refdesk",
        "--library",
        str(library),
        "serve",
        "--transport",
        "http",
        "--port",
        "0",
    ]
    folder = library if isinstance(library, Path) else None
    process = subprocess.Popen([*command, *more], stderr=subprocess.PIPE, env=clock.environment(), cwd=folder)
    assert process.stderr is not None
    try:
        url = next(said["url"] for line in process.stderr if "url" in (said := json.loads(line)))
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        yield int(url.rsplit(":", 1)[1].split("/")[0]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        drain.wait()


def measure(library: Path, texts: list[str], workers: int, given: argparse.Namespace) -> dict[str, Any]:
    """What clients felt of a server with so many processes: at their own pace, then as fast as they get answers."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "library"
        shutil.copytree(library, copy)
        with served(copy, workers) as (port, pid):
            asyncio.run(load(port, texts, given.clients, 0, None, 3))  # warm
            paced = asyncio.run(load(port, texts, given.clients, given.writers, given.rate, given.seconds))
            rushed = asyncio.run(load(port, texts, given.clients, 0, None, max(5, given.seconds / 3)))
            rss = sum(clock._rss(each) for each in clock._tree(pid))
    for error in [*paced.errors, *rushed.errors][:5]:
        print("ERROR", error)
    return {
        "workers": workers,
        "search_p50_ms": statistics.median(paced.searches) * 1e3,
        "search_p99_ms": statistics.quantiles(paced.searches, n=100)[98] * 1e3,
        "ingest_p99_ms": statistics.quantiles(paced.ingests or [0, 0], n=100)[98] * 1e3,
        "answered_per_s": (len(paced.searches) + len(paced.ingests)) / given.seconds,
        "most_searches_per_s": len(rushed.searches) / max(5, given.seconds / 3),
        "errors": len(paced.errors) + len(rushed.errors),
        "rss_mb": rss / 1e6,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--writers", type=int, default=4)
    options.add_argument("--rate", type=float, default=2.0, help="calls of each client a second")
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--library", type=Path, help="indexed before, or kept for the next run")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        library = given.library or Path(scratch) / "library"
        with open_desk(Settings(library=library.absolute())) as desk:
            if not desk.collections():
                desk.index(corpora.speed_corpus("medium", given.cache).resolve(), "code", name="medium")
                desk.create_collection("notes")
            texts = list(queries_from(list(sampled(desk, 400)), 400))
        runs = [measure(library, texts, workers, given) for workers in given.workers]
    rows = [[f"{value:.1f}" if isinstance(value, float) else str(value) for value in run.values()] for run in runs]
    print(tables.show(f"{given.clients} clients, {given.writers} writing", list(runs[0]), rows))
    best, floors = runs[-1], {"search_p50_ms": 80.0, "search_p99_ms": 600.0, "ingest_p99_ms": 1500.0}
    held = [Row(f"{best['workers']} processes: {name}", best[name], "ms", floor) for name, floor in floors.items()]
    if len(runs) > 1:
        gain = best["most_searches_per_s"] / runs[0]["most_searches_per_s"]
        held.append(Row("throughput over one process", gain, "times", 1.7, at_least=True))
    print(tables.show_rows("HTTP load", held))
    tables.keep("http_load", {"runs": runs}, given.json)


if __name__ == "__main__":
    main()
