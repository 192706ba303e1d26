"""Chooses the weights of the built-in judge on the calibration topics: run it when the shipped embedder changes.

    PYTHONPATH=src:. python tests/unit/skills/calibrate.py [--report]

Prints the rates with the constants of `Calibration` in src/refdesk/skills/judge.py, and with each of them a fifth less
and more.  Only the calibration split is read, unless `--report` asks for the rates on the test split.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from refdesk.llm.thinkers import LocalThinker
from refdesk.ports import Embedder
from refdesk.skills.judge import Calibration, EvidenceJudge
from tests.unit.skills.conversations import cold, learning, shipped_embedder, topics


def around(embedder: Embedder) -> None:
    """Prints the rates on the calibration topics for constants near those in force."""
    for name, value in asdict(Calibration()).items():
        for factor in (0.8, 1.25):
            thinker = LocalThinker(embedder)
            thinker._judge = EvidenceJudge(embedder, replace(Calibration(), **{name: value * factor}))
            with tempfile.TemporaryDirectory() as folder:
                print(f"{name} {value * factor:.3g}", topics(Path(folder), "calibration", embedder, thinker))


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
    around(model)
    report(model, "calibration")
    if "--report" in sys.argv:
        report(model, "test")
