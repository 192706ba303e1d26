"""Is research right, and is it quick?

Right: `research_questions.yaml` asks 40 questions of 8 codebases and knows what must be found. Quick: code_research
three hops deep against one search, in the same process on the same index.

`python -m bench.research [--clones DIR] [--corpus large] [--json FILE]`

DIR holds the codebases as folders, `tornado` or `tornadoweb+tornado`, each at the commit that the questions name:
`git clone https://github.com/tornadoweb/tornado DIR/tornado && git -C DIR/tornado checkout a86d3c7746`.
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

import yaml

from bench.corpora import DEFAULT_CACHE, speed_corpus
from refdesk.app import open_desk
from refdesk.graph.languages import is_test
from refdesk.model import Filters, Query
from refdesk.research import Focus, research
from refdesk.research.render import as_json
from refdesk.settings import Settings

ANSWERS = Path(__file__).with_name("research_questions.yaml")
RECALL, PRECISION = 0.85, 0.9
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


def judged(clones: Path) -> dict[str, Any]:
    """The share of what must be found that answers tell, and the share of true ones of the relations asked for."""
    wanted = found = told_edges = true_edges = 0
    rows: list[dict[str, Any]] = []
    for one in yaml.safe_load(ANSWERS.read_text(encoding="utf-8")):
        owner, _, name = one["repository"].partition("/")
        folder = next((clones / each for each in (name, f"{owner}+{name}") if (clones / each).is_dir()), None)
        if folder is None:
            raise SystemExit(f"{clones} has no folder {name}: clone {one['repository']} at {one['commit']} there.")
        with tempfile.TemporaryDirectory() as library, open_desk(Settings(library=Path(library))) as desk:
            desk.index(folder.resolve(), "code", name=name)
            for asked in one["questions"]:
                graph, filters = desk.graph(name), Filters(collections=(name,))
                answer = research(asked["ask"], graph, desk.engine, filters)
                body = as_json(answer, desk.settings.max_answer_tokens)
                lines = [line.strip().partition(" ")[0] for each in body.get("sections", {}).values() for line in each]
                names = [*(each["symbol"] for each in body["findings"]), *lines]
                expected = asked.get("expect") or asked["edges"]
                missed = [each for each in expected if not any(_is(each, symbol) for symbol in names)]
                wanted, found = wanted + len(expected), found + len(expected) - len(missed)
                starts = {each.node.id for each in answer.findings.values() if each.hop == 0}
                edges = [
                    each.source.qualified
                    for each in answer.relations.values()
                    if "edges" in asked and each.target.id in starts and not is_test(each.source.path)
                ]
                wrong = [each for each in edges if not any(_is(known, each) for known in asked["edges"])]
                told_edges, true_edges = told_edges + len(edges), true_edges + len(edges) - len(wrong)
                rows.append({"repository": one["repository"], "ask": asked["ask"], "missed": missed, "wrong": wrong})
    return {"recall": found / wanted, "precision": true_edges / told_edges, "edges": told_edges, "questions": rows}


def _is(expected: str, symbol: str) -> bool:
    """Whether a qualified name is meant: Site.process is Jekyll.Site.process."""
    return f".{symbol}".endswith(f".{expected}")


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
                graph = desk.graph("corpus")  # as each call makes its own
                answer = research(text, graph, desk.engine, filters, depth=DEPTH, focus=focus)
                return as_json(answer, desk.settings.max_answer_tokens)

            rows.append({"question": text, "focus": focus, "search_s": one, "research_s": seconds(ask, 3)})
    search = statistics.median(row["search_s"] for row in rows)
    walk = statistics.median(row["research_s"] for row in rows)
    return {"corpus": corpus, "depth": DEPTH, "search_s": search, "research_s": walk, "questions": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, help="where the codebases are that the questions are about")
    parser.add_argument("--corpus", default="large", help="what is asked for speed; none: only the questions")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    if given.clones:
        found["judged"] = quality = judged(given.clones)
        for row in quality["questions"]:
            if row["missed"] or row["wrong"]:
                print(f"{row['repository']}: {row['ask']!r} missed {row['missed']}, wrong {row['wrong']}")
        for what, floor in (("recall", RECALL), ("precision", PRECISION)):
            print(f"{what} {quality[what]:.3f}, floor {floor} {'pass' if quality[what] >= floor else 'FAIL'}")
    else:
        print("no --clones: the questions with known answers were not asked")
    if given.corpus != "none":
        found |= _told_speed(given.corpus)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


def _told_speed(corpus: str) -> dict[str, Any]:
    found = run(corpus)
    for row in found["questions"]:
        times = row["research_s"] / row["search_s"]
        print(
            f"{row['question']!r:52} {row['focus'] or '':13} search {row['search_s'] * 1000:7.1f} ms"
            f"  research {row['research_s'] * 1000:8.1f} ms  {times:6.1f} times"
        )
    times = found["research_s"] / found["search_s"]
    print(f"{corpus}: {times:.1f} times one search, floor {TIMES} {'pass' if times < TIMES else 'FAIL'}")
    return found


if __name__ == "__main__":
    main()
