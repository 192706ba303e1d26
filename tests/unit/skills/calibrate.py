"""Fits the built-in judge on the calibration conversations: run it when the shipped embedder changes.

    PYTHONPATH=src:. python tests/unit/skills/calibrate.py [--report]

Prints the constants for `Calibration` in src/refdesk/skills/judge.py: the weights of words and meaning are fitted, what
an event or a wish counts is chosen from the grid of rates on the calibration topics.  Only the calibration split is
read, unless `--report` asks for the rates on the test split with the constants that are in force.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refdesk.llm.thinkers import LocalThinker
from refdesk.ports import Embedder
from refdesk.skills.judge import Calibration, EvidenceJudge
from refdesk.skills.model import Skill
from tests.unit.skills.conversations import (
    Conversation,
    cold,
    foreign,
    learner,
    learning,
    shipped_embedder,
    split,
    topics,
)

FALSE_MATCHES = 0.08  # nearly half of the unknown calibration issues are near misses, so this is strict
Pairs = list[
    tuple[str, str, NDArray[np.float64], list[str]]
]  # kind, query, evidence for each skill, kinds of the skills


def evidence(embedder: Embedder) -> Pairs:
    """For every query the evidence for every skill, each skill made from one other conversation."""
    judge = EvidenceJudge(embedder)
    asked: list[tuple[Conversation | None, str]] = [(None, issue) for issue in foreign("calibration")]
    kept: list[tuple[Conversation, Skill]] = []
    with tempfile.TemporaryDirectory() as folder, learner(Path(folder), embedder) as loop:
        for conversations in split("calibration").values():
            for each in conversations:
                kept.append((each, loop.create(each.transcript, LocalThinker(embedder)).skill))
                kept[-1] = (each, loop.skills()[-1])
                asked += [(each, each.query), (each, each.opening)]
    pairs: Pairs = []
    for source, query in asked:
        others = [(each, skill) for each, skill in kept if each != source]
        weighed = judge.weigh(query, [skill for _, skill in others])
        # What a rule settles needs no weights.
        others = [other for other, one in zip(others, weighed, strict=True) if not one.only_asks]
        weighed = [one for one in weighed if not one.only_asks]
        if not weighed:
            continue
        rows = np.array([[one.meaning or 0.0, one.words * one.agreed, -float(one.no_trouble)] for one in weighed])
        pairs.append((source.kind if source else "", query, rows, [each.kind for each, _ in others]))
    return pairs


def fit(pairs: Pairs) -> Calibration:
    """Balanced logistic regression, then the odds that keep false matches rare."""
    rows = np.concatenate([row for _, _, row, _ in pairs])
    right = np.array([kind == asked for asked, _, _, kinds in pairs for kind in kinds], float)
    scale = rows.std(axis=0)
    weights, bias = np.zeros(3), 0.0
    balance = np.where(right == 1, (right == 0).sum() / right.sum(), 1.0)
    for _ in range(4000):
        slope = (1 / (1 + np.exp(-(rows / scale @ weights + bias))) - right) * balance
        weights -= 0.5 * ((rows / scale).T @ slope / len(rows) + 0.001 * weights)
        bias -= 0.5 * slope.mean()
    weights = weights / scale
    positives = rows[(right == 1) & (rows[:, 1] > 0)]
    floors = 0.75 * np.percentile(positives[:, :2], 2, axis=0)  # room for what the calibration set has not seen
    agreeing = (rows[:, :2] >= floors).all(axis=1)
    wrong = np.where(agreeing, rows @ weights + bias, -99.0)[right == 0]
    # A search sees five candidates, so each of them may be wrong a fifth as often.
    # And where that asks for little, what only one right skill in thirty lacks is asked for: abstaining is cheap.
    asked_for = np.quantile(wrong, 1 - FALSE_MATCHES / 5)
    needed = float(max(asked_for, np.percentile(positives @ weights + bias, 3)))
    return Calibration(
        meaning_floor=round(float(floors[0]), 2),
        words_floor=round(float(floors[1]), 2),
        meaning_weight=round(float(weights[0]), 2),
        words_weight=round(float(weights[1]), 2),
        no_trouble=round(float(weights[2]), 2),
        bias=round(float(bias), 2),
        needed=round(needed, 2),
    )


def grid(embedder: Embedder) -> None:
    """Prints the rates on the calibration topics for several weights of events and wishes."""
    for same, other, wish in product((0.0, 1.0), (0.0, 1.0, 2.0, 3.0), (0.0, 3.0, 6.0)):
        thinker = LocalThinker(embedder)
        tried = replace(Calibration(), same_event=same, other_event=other, other_wish=wish)
        thinker._judge = EvidenceJudge(embedder, tried)
        with tempfile.TemporaryDirectory() as folder:
            print(f"same {same} other {other} wish {wish}", topics(Path(folder), "calibration", embedder, thinker))


def report(embedder: Embedder, name: str) -> None:
    """Prints the rates with the constants in force."""
    thinker = LocalThinker(embedder)
    for label, words in (("query", lambda each: each.query), ("opening", lambda each: each.opening)):
        for first in range(5):
            with tempfile.TemporaryDirectory() as folder:
                print(name, label, "cold", first, cold(Path(folder), name, embedder, thinker, words, first))
        with tempfile.TemporaryDirectory() as folder:
            print(name, label, "loop", learning(Path(folder), name, embedder, thinker, words))
    with tempfile.TemporaryDirectory() as folder:
        print(name, "topics", topics(Path(folder), name, embedder, thinker))


if __name__ == "__main__":
    model = shipped_embedder()
    print(model.identity)
    print(fit(evidence(model)))
    grid(model)
    report(model, "calibration")
    if "--report" in sys.argv:
        report(model, "test")
