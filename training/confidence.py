"""Learns how sure an answer is, and each hit of it: logistic mixes of what bench.abstention's tuning half shows.

    python training/confidence.py --out FOLDER [--write src/refdesk/search/confidence.json]
    python training/confidence.py --out FOLDER --clones FOLDER --write src/refdesk/search/confidence.json

What was asked is kept in FOLDER/evidence.json, for the next run.  Judged by folds: a collection's questions by what was
learned from the others.  Under `hidden` are HIDDEN of the good questions, under `weak` WEAK of them.

With clones (see bench.files) only the certainty of files is learned, from the tuning repositories: their questions, the
subjects of later commits, and the questions of two other repositories, which have no answer here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import corpora, files, names
from bench.abstention import Question, of_names, packages, questions
from refdesk.app import open_desk
from refdesk.model import Filters, Query
from refdesk.search import confidence, engine, group
from refdesk.search.engine import Engine
from refdesk.search.understand import spelt
from refdesk.settings import Settings

SHIPPED = Path(__file__).parent.parent / "src/refdesk/search/confidence.json"
HIDDEN, WEAK = 0.002, 0.07
SHRINKAGE = 1e-4
FOLDS = 5
GOOD = ("good", "misspelt")
COUNTS = {"good": 3.0, "misspelt": 1.0, "other package": 3.0, "everyday": 2.0, "gibberish": 0.5}
HITS = 10
COMMITS, OF_A_COMMIT = 40, 0.25  # of a repository, and what a hit for one counts: a commit names few of the right files
FOREIGN = 8  # questions of another repository


def fit(values: np.ndarray, right: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weights and bias of a logistic regression with a little shrinkage, by Newton's method."""
    rows = np.hstack([values, np.ones((len(values), 1))])
    shrunk = np.append(np.full(values.shape[1], SHRINKAGE), 0.0)
    learned = np.zeros(rows.shape[1])
    share = weight / weight.sum()
    for _ in range(30):
        odds = 1 / (1 + np.exp(-np.clip(rows @ learned, -30, 30)))
        gradient = rows.T @ (share * (odds - right)) + shrunk * learned
        curve = (rows * (share * odds * (1 - odds))[:, None]).T @ rows + np.diag(shrunk)
        learned -= np.clip(np.linalg.solve(curve, gradient), -5, 5)
    return learned


def gather(asking: Engine, question: Question, alpha: float | None = None) -> dict[str, object]:
    """What the engine knows of one question before it judges, and its first hits: their scores, and who is right."""
    query = Query(text=question.text, filters=Filters(collections=question.collections), alpha=alpha)
    view = asking._store.view(query.filters)
    meant = spelt(view, asking._store, query, asking._matcher)
    query, asked, close = meant.query, meant.asked, engine.closely(meant.asked)
    found, fused, window = asking._candidates(view, query, asked, close)
    best, rest = asking._rerank(query, asked, found, fused, window[:close], close)
    ranked = group.grouped(best, rest, asked, query.by, query.prefer, lambda _: {}, {})
    assert asking._matcher is not None
    is_mixed = asked.kind == "words" and bool(found.cosines) and not asked.quoted
    sense = confidence.sense(asked, found.frequency, asking._matcher.knows_word)
    alone = confidence.of_words(asked, found.frequency, sense) if found.frequency else None
    is_defined = any("definition" in one.signals for one in best[:1])
    return {
        "group": question.group,
        "where": question.where,
        "collection": question.collections[0],
        "kind": asked.kind,
        "evidence": engine.evidence(asked, found, best or rest, sense)
        if is_mixed and alone is None and not is_defined
        else None,
        "scores": [one.score for one in ranked[:HITS]],
        "right": [bool(question.answer and question.answer(one.stored)) for one in ranked[:HITS]],
    }


def collected(out: Path) -> Iterator[dict[str, object]]:
    """One row a question, by both indexes and, for some, by keywords alone."""
    with packages("tune", corpora.DEFAULT_CACHE, out) as (desk, by_collection):
        for number, one in enumerate(questions(desk, by_collection, "tune")):
            yield gather(desk.engine, one)
            if one.group in GOOD and number % 2:
                yield {**gather(desk.engine, one, 0.0), "kind": "keywords", "evidence": None}
    with names.named("tune", corpora.DEFAULT_CACHE, out) as (desk, asked):
        yield from (gather(desk.engine, one) for one in of_names(asked))


def crossed(rows: list[dict], values: np.ndarray, right: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each row's total by what was learned without its fold of the collections."""
    names = sorted({row["collection"] for row in rows})
    fold = np.array([names.index(row["collection"]) % FOLDS for row in rows])
    total = np.zeros(len(rows))
    for number in range(FOLDS):
        outside = fold != number
        learned = fit(values[outside], right[outside], weight[outside])
        total[~outside] = values[~outside] @ learned[:-1] + learned[-1]
    return total


def mix(rows: list[dict]) -> tuple[dict[str, float], float, float, float]:
    """Weights, bias and both limits of there being an answer."""
    own = [row for row in rows if row["evidence"] is not None and row["where"] != "name"]
    right = np.array([row["group"] in GOOD for row in own], float)
    values = np.array([[row["evidence"][name] for name in confidence.NAMES] for row in own])
    places = Counter((row["group"], row["where"]) for row in own)
    weight = np.array([COUNTS.get(row["group"], 0.0) / places[row["group"], row["where"]] for row in own])
    total = crossed(own, values, right, weight)
    good = np.array([row["group"] == "good" for row in own])
    limits = [float(np.quantile(total[good], share)) for share in (HIDDEN, WEAK)]
    for what in sorted({row["group"] for row in own}):
        of = np.array([row["group"] == what for row in own])
        shares = [f"{np.mean(total[of] < limit):.3f}" for limit in limits]
        print(f"{what}: {of.sum()}, hidden {shares[0]}, hidden or weak {shares[1]}")
    learned = fit(values, right, weight)
    if (learned[:-1] < 0).any():
        raise SystemExit("evidence that speaks against an answer: something is wrong")
    hidden, weak = (1 / (1 + np.exp(-limit)) for limit in limits)
    weights = {name: round(float(value), 3) for name, value in zip(confidence.NAMES, learned, strict=False)}
    return weights, round(float(learned[-1]), 3), round(float(hidden), 4), round(float(weak), 4)


def certainty(rows: list[dict], weights: dict[str, float], bias: float) -> dict[str, dict[str, float]]:
    """For each way to judge hits what makes one the right one."""
    taught: dict[str, list[tuple[list[float], bool]]] = {"words": [], "text": [], "names": [], "keywords": []}
    for row in rows:
        sure = None
        if row["evidence"] is not None and row["where"] != "name":
            sure = 1 / (1 + np.exp(-(bias + sum(weights[name] * row["evidence"][name] for name in weights))))
        if row["group"] in ("one word", "gibberish") or (row["kind"] == "symbol" and row["where"] != "name"):
            continue
        ways = ["text"] if sure is None else ["words", "text"]
        ways = {"keywords": ["keywords"], "symbol": ["names"]}.get(row["kind"], ways)
        for way in ways:
            if way == "text" and row["group"] not in GOOD:
                continue
            for rank, is_right in enumerate(row["right"]):
                known = confidence.hit_evidence(row["scores"], rank, sure if way == "words" else None)
                taught[way].append(([known[name] for name in confidence.OF_HITS], is_right))
    return {
        way: weights_of([one for one, _ in own], [right for _, right in own], [1.0] * len(own))
        for way, own in taught.items()
        if own
    }


def weights_of(values: list[list[float]], right: list[bool], counts: list[float]) -> dict[str, float]:
    """The learned weights of a hit's features, by name."""
    learned = fit(np.array(values), np.array(right, float), np.array(counts))
    return dict(zip((*confidence.OF_HITS, "bias"), (round(float(one), 3) for one in learned), strict=True))


def certainty_of_files(clones: Path, out: Path) -> dict[str, float]:
    """What makes a file the right one for a question."""
    pages: list[tuple[list[float], str, float | None]] = []
    judge = confidence.of_hits

    def recording(scores: Sequence[float], way: str, sure: float | None) -> list[float]:
        pages.append((list(scores), way, sure))
        return judge(scores, way, sure)

    confidence.of_hits = recording
    values, right, counts = [], [], []
    entries = list(files.repositories(clones, "tune", None))
    for at, (entry, clone) in enumerate(entries):
        asked = [*files.questions(entry), *islice(files.changes(clone, entry["commit"], ["changes"]), COMMITS)]
        for other, _ in (entries[at - 1], entries[at - 2]):
            asked += [replace(one, files=()) for one in files.questions(other)[:FOREIGN]]
        library = out / entry["repo"].replace("/", "+")
        with files.tree(clone, entry["commit"]) as folder, open_desk(Settings(library=library)) as desk:
            desk.index(folder, "code", name="tree")
            for one in asked:
                found = desk.search(Query(text=one.text, limit=20, by="file", prefer="code"))
                if not found.hits or pages[-1][1] != "files":
                    continue
                scores, _, sure = pages[-1]
                for rank, hit in enumerate(found.hits):
                    known = confidence.hit_evidence(scores, rank, sure)
                    values.append([known[name] for name in confidence.OF_HITS])
                    right.append(hit.stored.document.path in one.files)
                    counts.append(OF_A_COMMIT if one.kind == "change" else 1.0)
    return weights_of(values, right, counts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--write", type=Path)
    arguments.add_argument("--clones", type=Path)
    options = arguments.parse_args()
    if options.clones:
        written = json.loads(SHIPPED.read_text(encoding="utf-8"))
        written["hits"]["files"] = certainty_of_files(options.clones, options.out)
        finish(written, options.write)
        return
    kept = options.out / "evidence.json"
    if not kept.is_file():
        kept.write_text(json.dumps(list(collected(options.out))), encoding="utf-8")
    rows = json.loads(kept.read_text(encoding="utf-8"))
    weights, bias, hidden, weak = mix(rows)
    hits = json.loads(SHIPPED.read_text(encoding="utf-8"))["hits"] | certainty(rows, weights, bias)
    finish(
        {"version": 3, "weights": weights, "bias": bias, "hidden": hidden, "weak": weak, "hits": hits}, options.write
    )


def finish(written: dict[str, object], to: Path | None) -> None:
    """Prints what was learned, and writes it where it is wanted."""
    text = json.dumps(written, indent=1) + "\n"
    print(text)
    if to:
        to.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
