"""What a child process of the speed benchmark does: one job, timed inside, its result as JSON on stdout."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refdesk.app import open_desk
from refdesk.ingest.prepare import embedding_text
from refdesk.library import name_from
from refdesk.ports import Embedder, Store
from refdesk.settings import Settings


def index(folder: str, library: str, *, each: bool = False) -> dict[str, Any]:
    """Indexes the folder into the library; with `each`, every folder in it as its own collection."""
    roots = sorted(one for one in Path(folder).iterdir() if one.is_dir()) if each else [Path(folder)]
    with open_desk(Settings(library=Path(library))) as desk:
        started, used = time.perf_counter(), cpu()
        reports = [desk.index(root, "code", name=name_from(root.name)) for root in roots]
        took, used = time.perf_counter() - started, cpu() - used
        stats = desk.stats()
    return {
        "seconds": took,
        "cpu_s": used,
        "files": sum(one.written for one in reports),
        "found": sum(one.files for one in reports),
        "errors": sum(len(one.errors) for one in reports),
        "chunks": sum(one.chunks for one in reports),
        "embedded": sum(one.embedded for one in reports),
        "symbols": stats.symbols,
        "storage_mb": stats.storage_bytes / 1e6,
    }


def index_each(folder: str, library: str) -> dict[str, Any]:
    """Every folder in the folder as its own collection."""
    return index(folder, library, each=True)


def floor(folder: str, library: str) -> dict[str, Any]:
    """What no indexer can do without: every indexed file read and hashed once, every different chunk embedded once."""
    with open_desk(Settings(library=Path(library))) as desk:
        paths = [Path(folder, path) for path, _ in desk.file_states(name_from(Path(folder).name))]
        texts = sorted(set(chunk_texts(desk._store)))
        embedder = desk.embedder
        assert embedder is not None
        embedder.embed_passages(texts[:1])  # loads it
        started, used = time.perf_counter(), cpu()
        for path in paths:
            hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
        read = time.perf_counter() - started
        embed_all(embedder, texts)
        took, used = time.perf_counter() - started, cpu() - used
    times = {"seconds": took, "cpu_s": used, "read_s": read, "embed_s": took - read}
    return {**times, "files": len(paths), "texts": len(texts)}


def cpu() -> float:
    """Processor seconds of this process and its ended children: what a busy machine does not stretch."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in own)


def chunk_texts(store: Store) -> Iterator[str]:
    """What was embedded of every chunk."""
    for collection in store.collections():
        offset = 0
        while documents := store.documents(collection.name, 500, offset):
            for document in documents:
                yield from (embedding_text(one.chunk) for one in store.chunks_of(document.id))
            offset += len(documents)


def embed_all(embedder: Embedder, texts: list[str]) -> None:
    for start in range(0, len(texts), 2_000):
        embedder.embed_passages(texts[start : start + 2_000])


def walk(folder: str) -> int:
    """A bare recursive stat walk; says how many files there are."""
    count = 0
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count


JOBS: dict[str, Callable[..., dict[str, Any]]] = {"index": index, "index_each": index_each, "floor": floor}


if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
