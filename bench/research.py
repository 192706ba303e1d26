"""Is research quick?  code_research three hops deep against one search, in the same process on the same index.

`python -m bench.research [--corpus large] [--json FILE]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.corpora import DEFAULT_CACHE, speed_corpus
from refdesk.app import open_desk
from refdesk.graph import Graph
from refdesk.model import Filters, Query
from refdesk.research import Focus, research
from refdesk.research.tell import told
from refdesk.settings import Settings

TIMES = 50
DEPTH = 3
QUESTIONS: tuple[tuple[str, Focus | None], ...] = (
    ("what calls get_queryset", None),
    ("all implementations of Field", None),
    ("who uses HttpResponse", None),
    ("how does a request reach a view", "flow"),
    ("how are migrations applied to the database", "architecture"),
    ("template rendering", "dependencies"),
    ("form validation", "patterns"),
    ("how is a password checked", None),
)


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The median of some rounds."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def run(corpus: str) -> dict[str, Any]:
    folder = speed_corpus(corpus, DEFAULT_CACHE)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as library, open_desk(Settings(library=Path(library))) as desk:
        desk.index(folder, "code", name="corpus")
        filters = Filters(collections=("corpus",))
        for text, focus in QUESTIONS:
            query = Query(text=text, filters=filters, limit=20)
            desk.engine.search(query)
            one = seconds(lambda query=query: desk.engine.search(query), 9)  # type: ignore[misc]

            def ask(text: str = text, focus: Focus | None = focus) -> object:
                graph = Graph(desk.store, "corpus")  # as each call makes its own
                answer = research(text, graph, desk.engine, filters, depth=DEPTH, focus=focus)
                return told(answer, desk.settings.max_answer_tokens)

            rows.append({"question": text, "focus": focus, "search_s": one, "research_s": seconds(ask, 3)})
    search = statistics.median(row["search_s"] for row in rows)
    walk = statistics.median(row["research_s"] for row in rows)
    return {"corpus": corpus, "depth": DEPTH, "search_s": search, "research_s": walk, "questions": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="large")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = run(given.corpus)
    for row in found["questions"]:
        times = row["research_s"] / row["search_s"]
        print(
            f"{row['question']!r:52} {row['focus'] or '':13} search {row['search_s'] * 1000:7.1f} ms"
            f"  research {row['research_s'] * 1000:8.1f} ms  {times:6.1f} times"
        )
    times = found["research_s"] / found["search_s"]
    print(f"{given.corpus}: {times:.1f} times one search, floor {TIMES} {'pass' if times < TIMES else 'FAIL'}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
