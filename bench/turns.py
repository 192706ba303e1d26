"""How long does a small write, or a search, wait beside a long index run?  As served, on files made for it.

Searches are asked before the run too, in a library that holds as many files as the run adds: beside it their p95 is to
be at most twice as long.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.metrics import percentile
from bench.tables import Row, show_rows
from tests.mcp_client.stdio import Message, StdioClient

_WORDS = (
    "retry",
    "queue",
    "lease",
    "token",
    "cursor",
    "window",
    "shard",
    "ledger",
    "parcel",
    "harbour",
    "signal",
    "lantern",
)
_WANTED_S = 1.5
_WANTED_TIMES = 2.0
_IDLE = 100  # searches before the run
_SETTLED_S = 3.0  # what an index run leaves to do has been done


def make_files(root: Path, count: int, seed: int = 1) -> None:
    """Source files of eight functions each."""
    drawn = random.Random(seed)
    for number in range(count):
        file = root / f"p{number % 50}" / f"m{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n\n".join(_function(drawn, f"{number}_{part}") for part in range(8)) + "\n", encoding="utf-8")


def _function(drawn: random.Random, name: str) -> str:
    about = " ".join(drawn.choices(_WORDS, k=12))
    word = drawn.choice(_WORDS)
    return f'def {word}_{name}(a, b):\n    """{about}."""\n    for x in range(a):\n        b += {word}(x)\n    return b'


def measure(files: int, same_server: bool) -> dict[str, list[float]]:
    """Seconds that ingests and searches took until the run beside them ended, searches before it, and the run."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root, before = Path(folder, "files"), Path(folder, "before")
        make_files(root, files)
        make_files(before, files, seed=2)

        def serve() -> StdioClient:
            library = ["--library", str(Path(folder, "library"))]
            served = ["serve", "--toolsets", "rag,code", "--allow-root", folder]
            client = stack.enter_context(StdioClient([sys.executable, "-m", "refdesk", *library, *served]))
            client.initialize()
            return client

        indexing = serve()
        writing = indexing if same_server else serve()
        assert not indexing.call("index_codebase", {"path": str(before)})["result"].get("isError")
        assert not writing.call("rag_create_collection", {"name": "notes"})["result"].get("isError")
        _timed(writing, "rag_ingest", {"uri": "data:text/plain,first", "collection": "notes"}, [])  # loads much
        took: dict[str, list[float]] = {"idle": [], "ingest": [], "search": [], "again": [], "run": []}
        _timed(writing, "rag_search", {"query": "first"}, [])
        time.sleep(_SETTLED_S)
        for _ in range(_IDLE):
            _timed(writing, "rag_search", {"query": f"note on the {random.choice(_WORDS)}"}, took["idle"])
            time.sleep(0.02)
        began = time.monotonic()
        run = indexing.start("tools/call", {"name": "index_codebase", "arguments": {"path": str(root)}})
        while not any(each.get("id") == run for each in list(indexing.inbox.messages)):
            number = len(took["ingest"])
            text = f"note {number} on the {random.choice(_WORDS)}"
            note: Message = {"uri": f"data:text/plain,{text.replace(' ', '%20')}", "collection": "notes"}
            _timed(writing, "rag_ingest", note, took["ingest"])
            _timed(writing, "rag_search", {"query": text, "collection": "notes"}, took["search"])
            for _ in range(3):  # after nothing that they must wait for
                time.sleep(0.02)
                _timed(writing, "rag_search", {"query": f"note on the {random.choice(_WORDS)}"}, took["again"])
        answer = indexing.finish(run)["result"]
        assert not answer.get("isError"), answer
        took["run"] = [time.monotonic() - began]
        return took


def _timed(client: StdioClient, tool: str, arguments: Message, times: list[float]) -> None:
    began = time.monotonic()
    answer = client.call(tool, arguments)
    assert not answer["result"].get("isError"), answer
    times.append(time.monotonic() - began)


def rows(files: int) -> list[Row]:
    """The waits, from another process and within the same server."""
    found: list[Row] = []
    for where, same_server in (("another server", False), ("the same server", True)):
        took = measure(files, same_server)
        found.append(Row(f"index run beside {where}, {files} files", took["run"][0], "s"))
        for what, limit in (("ingest", _WANTED_S), ("search", None)):
            times = took[what]
            found.append(Row(f"{what} in {where}, p50 of {len(times)}", percentile(times, 50), "s"))
            found.append(Row(f"{what} in {where}, p99", percentile(times, 99), "s", limit))
        idle, beside = percentile(took["idle"], 95), percentile(took["again"], 95)
        note = f"{1000 * beside:.1f} ms of {len(took['again'])}, {1000 * idle:.1f} before the run"
        found.append(Row(f"search in {where}, p95 over that before", beside / idle, "times", _WANTED_TIMES, note=note))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5000)
    print(show_rows("Writers beside a long index run", rows(parser.parse_args().files)))
