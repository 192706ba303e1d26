"""What does a library on Postgres and Qdrant cost beside one in a folder, and does it answer the same?

python -m bench.cluster [--corpus medium|large|chunks100k] [--nodes 1 3] [--clients 1 8 64] [--queries 200] [--quality]
python -m bench.cluster --faults 300   kills nodes, servers, the writer and Postgres; nothing acknowledged may be lost

All servers run on this machine, beside what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import clock, corpora, http_load, metrics, quality, sets, tables
from bench.query_speed import queries_from, sampled
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Query
from refdesk.settings import Settings
from tests.scale import faults, servers

_P50_MS = {1: 15.0, 3: 30.0}  # floors of the hybrid search, by nodes
_AGREEMENT, _NDCG, _INGEST, _THROUGHPUT = 0.9, 0.01, 1 / 3, 1.5
_SECONDS = 10.0

Places = list[tuple[str, int]]


def index(desk: Desk, folder: Path) -> dict[str, float]:
    """Indexes the folder; how fast."""
    began = time.perf_counter()
    report = desk.index(folder, "code", name="corpus")
    seconds = time.perf_counter() - began
    return {"chunks": report.chunks, "index_s": seconds, "chunks_per_s": report.chunks / seconds}


def ask(desk: Desk, texts: Sequence[str]) -> tuple[dict[str, float], list[Places]]:
    """How long each hybrid search takes, and the places of its ten best."""
    for text in texts[:20]:
        desk.search(Query(text=text))  # warm
    times, found = [], []
    for text in texts:
        began = time.perf_counter()
        page = desk.search(Query(text=text))
        times.append((time.perf_counter() - began) * 1e3)
        found.append([(hit.stored.document.path, hit.stored.chunk.start_line) for hit in page.hits])
    return {"p50_ms": statistics.median(times), "p95_ms": metrics.percentile(times, 95)}, found


def agreement(ours: Sequence[Places], theirs: Sequence[Places]) -> float:
    """The mean share of the ten best that both have."""
    shares = [len(set(a) & set(b)) / max(len(a), len(b)) for a, b in zip(ours, theirs, strict=True) if a or b]
    return statistics.mean(shares)


def load(library: Path | str, texts: list[str], clients: Sequence[int], workers: int) -> dict[str, Any]:
    """What so many clients feel of one port over HTTP."""
    found: dict[str, Any] = {}
    with http_load.served(library, workers) as (port, _):
        asyncio.run(http_load.load(port, texts, 4, 0, None, 3))  # warm
        for count in clients:
            felt = asyncio.run(http_load.load(port, texts, count, 0, None, _SECONDS))
            found[f"{count} clients"] = {
                "p50_ms": statistics.median(felt.searches) * 1e3,
                "p95_ms": metrics.percentile(felt.searches, 95) * 1e3,
                "per_s": len(felt.searches) / _SECONDS,
                "errors": len(felt.errors),
                "first": felt.errors[:1],
            }
    return found


def ndcg(desk: Desk, known: sets.KnownItems) -> float:
    """NDCG@10 of the hybrid search on a quality set."""
    desk.index(known.folder, sets.KINDS[known.name], name=known.name)
    return float(quality.score("hybrid", quality.rankers(desk, sweep=False)["hybrid"], known.report).ndcg.mean)


def measure(given: argparse.Namespace, scratch: Path) -> tuple[list[Row], dict[str, Any]]:
    """Everything, embedded first."""
    folder = corpora.speed_corpus(given.corpus, given.cache).resolve()
    with open_desk(Settings(library=scratch / "embedded")) as desk:
        embedded: dict[str, Any] = index(desk, folder)
        texts = list(queries_from(list(sampled(desk, 2 * given.queries)), given.queries))
        asked, best = ask(desk, texts)
        embedded |= asked
    embedded["load"] = load(scratch / "embedded", texts, given.clients, given.workers)
    known = sets.known_items("python", given.cache) if given.quality else None
    if known is not None:
        with open_desk(Settings(library=scratch / "quality")) as desk:
            embedded["ndcg"] = ndcg(desk, known)
    rows: list[Row] = []
    result: dict[str, Any] = {"embedded": embedded}
    for count in given.nodes:
        with servers.running(count) as (postgres, nodes):
            replicas = str(min(2, count))
            own_shards = {"shards": str(given.shards)} if given.shards else {}
            address = servers.address(postgres, nodes, schema="bench", replicas=replicas, **own_shards)
            with open_desk(Settings(library=scratch / f"beside{count}", database=address)) as desk:
                own: dict[str, Any] = index(desk, folder)
                settled = time.monotonic() + 120  # while Qdrant builds its graphs
                while time.monotonic() < settled and not all(node.is_optimised() for node in nodes):
                    time.sleep(1)
                asked, found = ask(desk, texts)
                own |= asked
                own["agreement"] = agreement(found, best)
            own["load"] = load(address, texts, given.clients, given.workers)
            own["node_rss_mb"] = [round(clock._rss(node.pid) / 1e6) for node in nodes]
            own["node_disk_mb"] = [round(node.size / 1e6) for node in nodes]
            own["postgres_disk_mb"] = round(postgres.size / 1e6)
            if known is not None:
                other = servers.address(postgres, nodes, schema="quality", replicas=replicas, **own_shards)
                with open_desk(Settings(library=scratch / f"quality{count}", database=other)) as desk:
                    own["ndcg"] = ndcg(desk, known)
        result[f"{count} nodes"] = own
        rows += _rows(count, own, embedded)
    return rows, result


def _rows(count: int, own: dict[str, Any], embedded: dict[str, Any]) -> list[Row]:
    on = f"{count} nodes: " if count > 1 else "1 node: "
    rows = [
        Row(on + "hybrid p50", own["p50_ms"], "ms", _P50_MS.get(count), note=f"embedded {embedded['p50_ms']:.1f}"),
        Row(on + "hybrid p95", own["p95_ms"], "ms", note=f"embedded {embedded['p95_ms']:.1f}"),
        Row(on + "top 10 shared with embedded", own["agreement"], "", _AGREEMENT, at_least=True),
        Row(on + "ingest over embedded", own["chunks_per_s"] / embedded["chunks_per_s"], "times",
            _INGEST if count == 1 else None, at_least=True, note=f"{own['chunks_per_s']:.0f} chunks/s"),
    ]  # fmt: skip
    if "ndcg" in own:
        away = abs(own["ndcg"] - embedded["ndcg"])
        rows.append(Row(on + "NDCG@10 away from embedded", away, "", _NDCG, note=f"{own['ndcg']:.3f}"))
    loads = own["load"]
    for name, felt in loads.items():
        said = f"p95 {felt['p95_ms']:.0f} ms, {felt['per_s']:.0f}/s, {felt['errors']} errors"
        rows.append(Row(f"{on}{name}, p50", felt["p50_ms"], "ms", note=said))
    if "1 clients" in loads and "8 clients" in loads:
        gain = loads["8 clients"]["per_s"] / loads["1 clients"]["per_s"]
        rows.append(Row(on + "8 clients over 1", gain, "times", _THROUGHPUT, at_least=True))
    if "64 clients" in loads:
        rows.append(Row(on + "errors at 64 clients", loads["64 clients"]["errors"], "", 0))
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", choices=corpora.SPEED, default="chunks100k")
    options.add_argument("--nodes", type=int, nargs="*", default=[1, 3])
    options.add_argument("--shards", type=int, default=0, help="of the index; by itself 1 on one node, 6 on several")
    options.add_argument("--workers", type=int, default=2, help="processes that serve over HTTP")
    options.add_argument("--clients", type=int, nargs="*", default=[1, 8, 64])
    options.add_argument("--queries", type=int, default=200)
    options.add_argument("--quality", action="store_true", help="NDCG on the python set too")
    options.add_argument("--faults", type=int, default=0, help="so many kills, and nothing else")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    if given.faults:
        outcome = faults.run(given.faults, given.seed)
        said = faults.table(outcome)
        print(tables.show("faults", ("what", "how many"), [(name, str(value)) for name, value in said.items()]))
        tables.keep("cluster_faults", said, given.json)
        is_bad = outcome.lost or outcome.half or outcome.doctor or outcome.share < 0.99 or not outcome.acknowledged
        raise SystemExit(bool(is_bad))
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        rows, result = measure(given, Path(scratch))
    print(tables.show_rows(f"{given.corpus}: {result['embedded']['chunks']} chunks", rows))
    tables.keep("cluster", result, given.json)


if __name__ == "__main__":
    main()
