"""Do the tools find what the engine finds?  Known items asked of each search tool through the real server.

python -m bench.served [--sets python docs] [--queries 200] [--libraries FOLDER]

The figure is NDCG@10 of the item's file, beside that of the engine asked as the tool asks it; they are the same unless
an answer was cut to its budget.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from bench import authored, corpora, metrics, sets, tables
from bench.sets import KnownItems
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Filters, Hit, Page, Query, StoredChunk
from refdesk.settings import Settings
from tests.mcp_client.stdio import StdioClient

_URL = re.compile(r"^URL: file://(.*)$", re.MULTILINE)
Tool = Literal["search_code", "search_docs", "rag_search"]
Search = Callable[[Query], Page]


@contextmanager
def as_served(desk: Desk, tool: Tool) -> Iterator[Search]:
    """What a tool of a real server over the desk's library shows for a query of one collection, or of all."""
    library = str(desk.settings.library.absolute())
    command = [sys.executable, "-m", "refdesk", "--library", library, "serve", "--toolsets", TOOLS[tool][0]]
    with StdioClient(command) as client:
        client.initialize()

        def search(query: Query) -> Page:
            (name,) = query.filters.collections or ("",)
            where = {"search_code": {"path": name}, "rag_search": {"collection": name}}.get(tool, {})
            given = {"query": query.text, **({"format": "json"} if tool == "search_code" else {})}
            result = client.call(tool, given | {key: value for key, value in where.items() if value})["result"]
            answer = result["structuredContent"]
            rows = answer["hits"] if tool == "search_docs" else answer["results"]
            notes = tuple(result.get("_meta", {}).get("refdesk/notices", ()))
            hits = tuple(_hit(desk, name, tool, row) for row in rows)
            return Page(hits=hits, more=False, state=0, notes=notes, weak=any("weak match" in one for one in notes))

        yield search


def _hit(desk: Desk, collection: str, tool: str, row: dict[str, Any]) -> Hit:
    """The passages that a row of an answer shows."""
    if tool == "rag_search":
        stored = desk.chunks_of(row["source"])[row["metadata"]["chunk_index"]]
        return Hit(stored=stored, score=row["score"], excerpt=lambda: ("", 0))
    names = [collection] if collection else [one.name for one in desk.collections()]
    path = row["filepath"] if tool == "search_docs" else row["path"]
    document = next(found for one in names if (found := desk.document_by_path(one, path)))
    chunks = desk.chunks_of(document.id)
    if tool == "search_docs":
        key = row["chunk_id"].partition("#")[2]
        stored = next(one for one in chunks if one.chunk.key == key)
        return Hit(stored=stored, score=row["score"], excerpt=lambda: ("", 0))
    further = {one.partition(" ")[0] for one in row.get("more", ())}
    more = tuple(one for one in chunks if one.chunk.lines in further)
    shown = next(one for one in chunks if _shows(one, row))
    return Hit(stored=shown, score=row["relevance_percent"] / 100, excerpt=lambda: ("", 0), more=more)


def _shows(stored: StoredChunk, row: dict[str, Any]) -> bool:
    chunk = stored.chunk
    is_alike = chunk.kind == row["kind"] and list(chunk.symbols) == row["symbols"]
    return is_alike and (not chunk.start_line or chunk.start_line <= row["start_line"] <= chunk.end_line)


def _ask_code(client: StdioClient, folder: Path, text: str) -> list[str]:
    given = {"query": text, "path": str(folder), "limit": 10, "format": "json"}
    return [one["path"] for one in client.call("search_code", given)["result"]["structuredContent"]["results"]]


def _ask_docs(client: StdioClient, folder: Path, text: str) -> list[str]:
    answer = client.call("search_docs", {"query": text, "limit": 10})["result"]["structuredContent"]
    return [one["filepath"] for one in answer["hits"]]


def _ask_rag(client: StdioClient, folder: Path, text: str) -> list[str]:
    given = {"query": text, "collection": "known", "top_k": 10}
    answer = client.call("rag_search", given)["result"]["structuredContent"]
    return [_below(folder, one["uri"].removeprefix("file://")) for one in answer["results"]]


def _ask_pages(client: StdioClient, folder: Path, text: str) -> list[str]:
    said = client.call("qurio_search", {"query": text, "limit": 10})["result"]["content"][0]["text"]
    return [_below(folder, path) for path in _URL.findall(said)]


def _below(folder: Path, quoted: str) -> str:
    return Path(unquote(quoted)).relative_to(folder).as_posix()


TOOLS: dict[str, tuple[str, Callable[[StdioClient, Path, str], list[str]], dict[str, Any]]] = {
    "search_code": ("code", _ask_code, {"by": "file", "prefer": "code"}),
    "search_docs": ("docs", _ask_docs, {}),
    "rag_search": ("rag", _ask_rag, {}),
    "qurio_search": ("pages", _ask_pages, {}),
}


def measure(known: KnownItems, library: Path, most: int) -> list[tuple[str, ...]]:
    """For each tool that serves such a set: its figure, the engine's, and how many answers differ."""
    kind = sets.KINDS[known.name]
    folder = known.folder.resolve()
    asked = known.report[:: max(1, len(known.report) // most)][:most]
    rows: list[tuple[str, ...]] = []
    with open_desk(Settings(library=library)) as desk:
        desk.index(folder, kind, name="known")
        for tool, (toolset, ask, how) in TOOLS.items():
            if (tool == "search_docs") != (kind == "docs") and tool in ("search_docs", "search_code"):
                continue
            command = [sys.executable, "-m", "refdesk", "--library", str(library), "serve", "--toolsets", toolset]
            served, own, different = [], [], 0
            with StdioClient(command) as client:
                client.initialize()
                for item in asked:
                    shown = ask(client, folder, item.query)
                    query = Query(text=item.query, filters=Filters(collections=("known",)), **how)
                    found = [hit.stored.document.path for hit in desk.search(query).hits]
                    different += shown != found[: len(shown)]
                    served.append(metrics.ndcg(_rank(item, shown)))
                    own.append(metrics.ndcg(_rank(item, found)))
            figures = f"{_mean(served):.3f}", f"{_mean(own):.3f}"
            rows.append((known.name, tool, str(len(asked)), *figures, str(different)))
    return rows


def _rank(item: Any, paths: Sequence[str]) -> int | None:
    right = {item.path} if hasattr(item, "path") else {place.path for place in item.places}
    return next((rank for rank, path in enumerate(dict.fromkeys(paths), 1) if path in right), None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*sets.NAMES, "authored"]
    options.add_argument("--sets", nargs="*", default=["docs", "authored"], choices=names)
    options.add_argument("--queries", type=int, default=200)
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--libraries", type=Path, help="where the indexed sets are kept for the next run")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    rows: list[tuple[str, ...]] = []
    for name in given.sets:
        known = authored.known_items(given.cache) if name == "authored" else sets.known_items(name, given.cache)
        with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
            rows += measure(known, ((given.libraries or Path(scratch)) / f"served-{name}").absolute(), given.queries)
    head = ("set", "tool", "queries", "as served", "engine", "answers that differ")
    print(tables.show("NDCG@10 by file", head, rows))
    tables.keep("served", {"rows": rows}, given.json)
    if any(row[3] != row[4] for row in rows):
        raise SystemExit(f"as served is not the engine: {json.dumps(rows)}")


if __name__ == "__main__":
    main()
