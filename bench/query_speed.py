"""How fast is a query among 100,000 chunks?  The engine, an FTS5 table and exact numpy on the same chunks."""

from __future__ import annotations

import random
import re
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import clock, corpora, metrics
from bench.jobs import chunk_texts
from bench.tables import Row
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Filters, Query, StoredChunk
from refdesk.search.understand import understand
from refdesk.settings import Settings

WANTED_CHUNKS = 100_000
_WARM_UP = 20  # queries
_STRETCH = 25
_TOP = 120  # as many candidates as the engine takes from each index
_WORD = re.compile(r"[A-Za-z]{3,}")


@dataclass(frozen=True, slots=True)
class Asked:
    """The times of one kind of query in ms."""

    times: tuple[float, ...]
    cpu: tuple[float, ...]  # of the whole process: what a busy machine does not stretch

    @property
    def p50(self) -> float:
        return metrics.percentile(self.times, 50)

    @property
    def p95(self) -> float:
        return metrics.percentile(self.times, 95)


def measure(cache: Path, library: Path, queries: int) -> tuple[list[Row], dict[str, Any]]:
    """Rows for warm and cold queries over the library, indexed first."""
    built = clock.child("index_each", str(corpora.speed_corpus("chunks100k", cache)), str(library))
    with open_desk(Settings(library=library)) as desk:
        chunks = desk.stats().chunks
        asked, facts = _warm(desk, queries)
    rows = [Row("chunks in the library", chunks, "", WANTED_CHUNKS, at_least=True)]
    if built["files"]:  # it was not kept from an earlier run
        rows.append(Row("peak memory while they were indexed", built["rss_mb"], "MB"))
    rows += _warm_rows(asked)
    texts = facts.pop("queries")
    cold, cold_facts = _cold(library, texts)
    return rows + cold, {"built": built, "chunks": chunks, **facts, **cold_facts, "asked": _plain(asked)}


def _warm(desk: Desk, count: int) -> tuple[dict[str, Asked], dict[str, Any]]:
    sample = list(sampled(desk, 4 * count))
    texts = list(queries_from(sample, count + _WARM_UP))
    filters = _filters(desk, sample)
    sides: dict[str, Callable[[str], object]] = {
        "hybrid": lambda text: desk.search(Query(text=text)),
        "keywords only": lambda text: desk.search(Query(text=text, alpha=0.0)),
        "vectors only": lambda text: desk.search(Query(text=text, alpha=1.0)),
    }
    for name, (one, _) in filters.items():
        sides[f"hybrid, {name}"] = _filtered(desk, one)
    sides |= {"FTS5 only": _fts5(desk), "exact numpy": _exact(desk)}
    times = _each(sides, texts)
    asked = {name: Asked(tuple(one[0] for one in own), tuple(one[1] for one in own)) for name, own in times.items()}
    selected = {name: round(share, 3) for name, (_, share) in filters.items()}
    return asked, {"queries": texts, "selected": selected, "stages": _stages(desk, texts[:100])}


def _each(sides: dict[str, Callable[[str], object]], texts: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds (wall, processor) of every side for every query, after some that only warm up.

    The sides take turns in stretches, so that each is measured warm and not as it finds the processor's caches behind
    another one; in a turn each asks other queries, so that none finds what another has just looked up.
    """
    generator = random.Random(13)
    for search in sides.values():
        for text in texts[:_WARM_UP]:
            search(text)
    stretches = [texts[start : start + _STRETCH] for start in range(_WARM_UP, len(texts), _STRETCH)]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for turn in range(len(stretches)):
        for name in generator.sample(list(sides), len(sides)):
            for text in stretches[(turn + list(sides).index(name)) % len(stretches)]:
                started, used = time.perf_counter(), time.process_time()
                sides[name](text)
                times[name].append(((time.perf_counter() - started) * 1e3, (time.process_time() - used) * 1e3))
    return times


def _warm_rows(asked: dict[str, Asked]) -> list[Row]:
    rows = []
    for name, one in asked.items():
        of_engine = name.startswith("hybrid")
        times = 2 if "," in name else 1
        busy = [f"processor time {metrics.percentile(one.cpu, share):.2f} ms" for share in (50, 95)]
        rows.append(Row(f"{name}: p50", one.p50, "ms", 5.0 * times if of_engine else None, note=busy[0]))
        rows.append(Row(f"{name}: p95", one.p95, "ms", 15.0 * times if of_engine else None, note=busy[1]))
    others = ("FTS5 only", "exact numpy")
    return rows + [Row(f"hybrid over {one}, p50", asked["hybrid"].p50 / asked[one].p50, "times") for one in others]


def _stages(desk: Desk, texts: Sequence[str]) -> dict[str, float]:
    """Median milliseconds of what a hybrid query is made of."""
    store, embedder = desk._store, desk.embedder
    assert embedder is not None
    times: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[..., Any], *given: Any) -> Any:
        started = time.perf_counter()
        answer = work(*given)
        times.setdefault(name, []).append((time.perf_counter() - started) * 1e3)
        return answer

    for text in texts:
        view = timed("view", store.view)
        asked = timed("understand", understand, text)
        timed("lexical", view.lexical, asked.terms, _TOP)
        vector = timed("embed", embedder.embed_queries, [text])[0]
        near = timed("nearest", view.nearest, vector, _TOP)
        timed("chunks", store.chunks, near.ids[:60])
        timed("whole", desk.search, Query(text=text))
    return {name: round(statistics.median(own), 3) for name, own in times.items()}


def sampled(desk: Desk, count: int) -> Iterator[StoredChunk]:
    """Chunks from all over the library."""
    generator = random.Random(7)
    documents = [document for one in desk.collections() for document in desk.documents(one.name, 100_000, 0)]
    for document in generator.sample(documents, min(count, len(documents))):
        if own := desk.chunks_of(document.id):
            yield generator.choice(own)


def queries_from(sample: Sequence[StoredChunk], count: int) -> Iterator[str]:
    """In turn: a symbol, a few words of one line, a title, words of a whole passage."""
    generator = random.Random(11)
    given = 0
    for number, stored in enumerate(sample):
        chunk = stored.chunk
        words = _WORD.findall(chunk.text)
        lines = [line for line in chunk.text.splitlines() if len(_WORD.findall(line)) >= 3]
        if not lines or len(words) < 8:
            continue
        kind = number % 4
        if kind == 0 and chunk.symbols:
            text = chunk.symbols[0]
        elif kind == 2 and len(chunk.title) > 3:
            text = chunk.title
        elif kind == 3:
            text = " ".join(generator.sample(words, min(5, len(words))))
        else:
            text = " ".join(_WORD.findall(generator.choice(lines))[:7])
        yield text
        given += 1
        if given == count:
            return


def _filters(desk: Desk, sample: Sequence[StoredChunk]) -> dict[str, tuple[Filters, float]]:
    """Filters by collection that keep about half and about a twentieth, one by path and one by language."""
    sizes = {one.name: desk.stats(one.name).chunks for one in desk.collections()}
    half, twentieth = _closest(sizes, 0.5), _closest(sizes, 0.05)
    total = sum(sizes.values())
    in_tests = sum("/tests/" in f"/{one.document.path}" for one in sample) / len(sample)
    python = sum(one.chunk.language == "python" for one in sample) / len(sample)
    return {
        "filter 50%": (Filters(collections=half), sum(sizes[one] for one in half) / total),
        "filter 5%": (Filters(collections=twentieth), sum(sizes[one] for one in twentieth) / total),
        "path glob": (Filters(paths=("**/tests/**",)), in_tests),
        "language": (Filters(languages=("python",)), python),
    }


def _closest(sizes: dict[str, int], share: float) -> tuple[str, ...]:
    """The collections that together hold nearest to that share of all chunks."""
    names = sorted(sizes)
    wanted = share * sum(sizes.values())
    subsets = ([name for bit, name in enumerate(names) if mask >> bit & 1] for mask in range(1, 2 ** len(names)))
    return tuple(min(subsets, key=lambda one: abs(sum(sizes[name] for name in one) - wanted)))


def _filtered(desk: Desk, filters: Filters) -> Callable[[str], object]:
    return lambda text: desk.search(Query(text=text, filters=filters))


def _fts5(desk: Desk) -> Callable[[str], object]:
    """A plain FTS5 table in memory with the same texts; the words of the query as alternatives, by bm25."""
    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE chunk USING fts5(text)")
    table.executemany("INSERT INTO chunk(text) VALUES (?)", ((text,) for text in chunk_texts(desk._store)))

    def search(text: str) -> object:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
        return table.execute(
            "SELECT rowid, text FROM chunk WHERE chunk MATCH ? ORDER BY rank LIMIT 10", (words,)
        ).fetchall()

    return search


def _exact(desk: Desk) -> Callable[[str], object]:
    """All cosines in one product.  The vectors are random: a product takes as long whatever it multiplies."""
    embedder = desk.embedder
    assert embedder is not None
    shape = (desk.stats().chunks, embedder.identity.dimension)
    vectors = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    def search(text: str) -> object:
        scores = vectors @ embedder.embed_queries([text])[0]
        best = np.argpartition(-scores, _TOP)[:_TOP]
        return best[np.argsort(-scores[best])]

    return search


def _cold(library: Path, texts: Sequence[str], rounds: int = 9) -> tuple[list[Row], dict[str, Any]]:
    """`refdesk search` in a process of its own over `import numpy` in one."""
    number = iter(range(10_000))

    def search() -> None:
        text = texts[next(number) % len(texts)]
        _run([sys.executable, "-m", "refdesk", "--library", str(library), "search", text])

    def empty() -> None:
        _run([sys.executable, "-c", "import numpy"])

    search()
    empty()
    times = clock.alternate({"search": search, "numpy": empty}, rounds)
    value = clock.ratio(times, "search", "numpy")
    medians = {name: statistics.median(own) * 1e3 for name, own in times.items()}
    note = f"{medians['search']:.0f} ms against {medians['numpy']:.0f} ms, medians of {rounds}"
    return [Row("refdesk search, cold process, over import numpy", value, "times", 4.0, note=note)], {
        "cold_ms": medians
    }


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=clock.ROOT, env=clock.environment())


def _plain(asked: dict[str, Asked]) -> dict[str, dict[str, float]]:
    return {
        name: {"p50": one.p50, "p95": one.p95, "cpu_p50": metrics.percentile(one.cpu, 50), "n": len(one.times)}
        for name, one in asked.items()
    }
