"""What does a library on Postgres and Qdrant cost beside one in a folder, and does it answer the same?

python -m bench.cluster [--corpus medium|large|chunks100k|chunks1m] [--nodes 1 3] [--clients 1 8 64] [--queries 200]
python -m bench.cluster --corpus chunks1m --nodes 1 --keep DIR --minutes 60    goes on where the last run stopped
python -m bench.cluster --faults 300   kills nodes, servers, the writer and Postgres; nothing acknowledged may be lost

All servers run on this machine, beside what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import clock, corpora, http_load, metrics, quality, sets, spelling, tables
from bench.query_speed import queries_from, sampled
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Query
from refdesk.settings import Settings
from tests.scale import faults, servers

_P50_MS = {1: 15.0, 3: 30.0}  # floors of the hybrid search at 100,000 passages, by nodes
_REST = 8  # looks, half a second apart
_AGREEMENT, _NDCG, _INGEST, _THROUGHPUT = 0.9, 0.01, 1 / 3, 1.5

Places = list[tuple[str, int]]


@dataclass(slots=True)
class Side:
    """One of the libraries that are compared."""

    library: Path
    address: str = ""
    postgres: servers.Postgres | None = None
    nodes: list[servers.Qdrant] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return Settings(library=self.library, database=self.address)


def fill(sides: dict[str, Side], packages: list[Path], kept: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Indexes package by package in every library, so that other work of the machine slows all alike; how fast.

    What is done is kept: the next run goes on from there.
    """
    ends = time.monotonic() + 60 * given.minutes
    done: dict[str, dict[str, list[float]]] = json.loads(kept.read_text()) if kept.exists() else {}
    for package in packages:
        free = shutil.disk_usage(kept.parent).free / 1e9
        missing = [name for name in sides if package.name not in done.setdefault(name, {})]
        if missing and (time.monotonic() > ends or free < given.free_gb):
            print(f"stopped before {package.name}: {free:.0f} GB are free", flush=True)
            return {name: {one: done[name][one] for one in done["embedded"]} for name in sides}
        for name in missing:
            side = sides[name]
            with open_desk(side.settings) as desk:
                began = time.perf_counter()
                report = desk.index(package, "code", name=package.name.replace(".", "-"))
                seconds = time.perf_counter() - began
                if not given.rush:
                    _wait_for_graphs(side)
                settled = time.perf_counter() - began
            done[name][package.name] = [report.chunks, seconds, settled]
            kept.write_text(json.dumps(done))
            print(
                f"{package.name}, {name}: {report.chunks} chunks, {seconds:.0f} s, with graphs {settled:.0f} s",
                flush=True,
            )
    return done


def _wait_for_graphs(*sides: Side) -> None:
    """Waits until all nodes have been at rest for some seconds: between two merges they seem to be."""
    rested = 0
    while rested < _REST:
        is_resting = all(node.is_optimised() for side in sides for node in side.nodes)
        rested = rested + 1 if is_resting else 0
        time.sleep(0.5)


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


def slips(texts: Sequence[str], desk: Desk) -> list[str]:
    """Those queries that can be misspelt, with one or two slips in a word."""
    pick = random.Random(5)
    made = [spelling.misspell(text, 1 + number % 2, desk, pick) for number, text in enumerate(texts)]
    return [one for one in made if one]


def agreement(ours: Sequence[Places], theirs: Sequence[Places]) -> float:
    """The mean share of the ten best that both have."""
    shares = [len(set(a) & set(b)) / max(len(a), len(b)) for a, b in zip(ours, theirs, strict=True) if a or b]
    return statistics.mean(shares)


@contextmanager
def ahead(is_wanted: bool) -> Iterator[None]:
    """Gives this process and all that it started the highest niceness, which takes root."""

    def renice(niceness: int) -> None:
        for pid in clock._tree(os.getpid()):
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)

    if is_wanted:  # real-time priority would let each run for 100 ms at a time, and clients wait for one another
        renice(-20)
    try:
        yield
    finally:
        if is_wanted:
            renice(0)


def load(library: Path | str, texts: list[str], given: argparse.Namespace) -> dict[str, Any]:
    """What so many clients feel of one port over HTTP."""
    found: dict[str, Any] = {}
    with http_load.served(library, given.workers) as (port, _):
        asyncio.run(http_load.load(port, texts, 4, 0, None, 3))  # warm
        for count in given.clients:
            felt = asyncio.run(http_load.load(port, texts, count, 0, None, given.seconds))
            found[f"{count} clients"] = {
                "p50_ms": statistics.median(felt.searches) * 1e3,
                "p95_ms": metrics.percentile(felt.searches, 95) * 1e3,
                "per_s": len(felt.searches) / given.seconds,
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
    packages = [folder / pin.folder for pin in corpora.speed_pins(given.corpus)]
    known = sets.known_items("python", given.cache) if given.quality else None
    rows: list[Row] = []
    result: dict[str, Any] = {}
    texts: list[str] = []
    misspelt: list[str] = []
    best: list[Places] = []
    best_yet: list[Places] = []
    with ExitStack() as stack:
        sides = {"embedded": Side(scratch / "embedded")}
        for count in given.nodes:
            postgres, nodes = stack.enter_context(servers.running(count, kept=scratch / f"{count}-nodes"))
            parameters = {"schema": "bench", "replicas": str(min(2, count))}
            parameters |= {"shards": str(given.shards)} if given.shards else {}
            address = servers.address(postgres, nodes, **parameters)
            sides[f"{count} nodes"] = Side(scratch / f"beside{count}", address, postgres, nodes)
        stack.enter_context(ahead(given.ahead))
        filled = fill(sides, packages, scratch / "filled.json", given)
        for name, side in sides.items():
            chunks, seconds, settled = map(sum, zip(*filled[name].values(), strict=True))
            own: dict[str, Any] = {"chunks": chunks, "chunks_per_s": chunks / seconds, "with_graphs": chunks / settled}
            _wait_for_graphs(*sides.values())  # any would slow this one down
            with open_desk(side.settings) as desk:
                texts = texts or list(queries_from(list(sampled(desk, 2 * given.queries)), given.queries))
                asked, found = ask(desk, texts)
                best = best or found
                misspelt = misspelt or slips(texts, desk)
                felt, found_yet = ask(desk, misspelt)
                best_yet = best_yet or found_yet
            own |= asked | {"agreement": agreement(found, best)}
            own["misspelt"] = felt | {"asked": len(misspelt), "agreement": agreement(found_yet, best_yet)}
            own["load"] = load(side.address or side.library, texts, given)
            own["node_rss_mb"] = [round(clock._rss(node.pid) / 1e6) for node in side.nodes]
            own["node_disk_mb"] = [round(node.size / 1e6) for node in side.nodes]
            own["record_disk_mb"] = round((side.postgres.size if side.postgres else servers.size(side.library)) / 1e6)
            if known is not None:
                address = side.address.replace("schema=bench", "schema=quality")
                with open_desk(Settings(library=scratch / f"quality {name}", database=address)) as desk:
                    own["ndcg"] = ndcg(desk, known)
            result[name] = own
            floor = _P50_MS.get(len(side.nodes)) if given.corpus == "chunks100k" else None
            rows += _rows(len(side.nodes), own, result["embedded"], floor) if side.nodes else []
    return rows, result


def _rows(count: int, own: dict[str, Any], embedded: dict[str, Any], p50_ms: float | None) -> list[Row]:
    on = f"{count} nodes: " if count > 1 else "1 node: "
    rows = [
        Row(on + "hybrid p50", own["p50_ms"], "ms", p50_ms, note=f"embedded {embedded['p50_ms']:.1f}"),
        Row(on + "hybrid p95", own["p95_ms"], "ms", note=f"embedded {embedded['p95_ms']:.1f}"),
        Row(on + "top 10 shared with embedded", own["agreement"], "", _AGREEMENT, at_least=True),
        Row(on + "ingest over embedded", own["chunks_per_s"] / embedded["chunks_per_s"], "times",
            _INGEST if count == 1 else None, at_least=True, note=f"{own['chunks_per_s']:.0f} chunks/s"),
    ]  # fmt: skip
    slow, share = own["misspelt"]["p50_ms"], own["misspelt"]["agreement"]
    note = f"embedded {embedded['misspelt']['p50_ms']:.1f}; {share:.3f} of the ten best shared"
    rows.append(Row(on + "misspelt p50", slow, "ms", note=note))
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
    options.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    options.add_argument("--ahead", action="store_true", help="before all other work of the machine (root)")
    options.add_argument("--rush", action="store_true", help="index in the next library while nodes still build graphs")
    options.add_argument("--keep", type=Path, help="folder for libraries and servers: the next run goes on with them")
    options.add_argument("--minutes", type=float, default=1e9, help="after so many no further package is indexed")
    options.add_argument("--free-gb", type=float, default=5.0, help="nor with less disk")
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
        is_slow = any(outcome.slowest_s[kind] > limit for kind, limit in faults.LIMITS_S.items())
        is_bad = outcome.lost or outcome.half or outcome.doctor or outcome.share < 0.99 or not outcome.acknowledged
        raise SystemExit(bool(is_bad or is_slow))
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        kept = given.keep or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        kept.chmod(0o755)  # Postgres does not run as root
        rows, result = measure(given, kept.resolve())
    print(tables.show_rows(f"{given.corpus}: {result['embedded']['chunks']} chunks", rows))
    tables.keep("cluster", result, given.json)


if __name__ == "__main__":
    main()
