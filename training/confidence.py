"""Learns how sure an answer is: a logistic mix of the evidence that evidence.py kept.

    python training/confidence.py --evidence FOLDER/evidence.jsonl [--write src/refdesk/search/confidence.json]

The floor is where 99% of the relevant queries pass.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np

from refdesk.search.confidence import NAMES
from refdesk.search.understand import understand

KEPT = 0.99


def fit(values: np.ndarray, right: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weights and bias of a logistic regression with a little shrinkage, all weights of the evidence at least 0."""
    rows = np.hstack([values, np.ones((len(values), 1))])
    learned = np.zeros(rows.shape[1])
    for _ in range(4000):
        odds = 1 / (1 + np.exp(-rows @ learned))
        gradient = rows.T @ (weight * (odds - right)) + 0.0005 * np.append(learned[:-1], 0.0)
        learned -= 3.0 * gradient
        learned[:-1] = np.maximum(learned[:-1], 0.0)
    return learned


def balanced(rows: list[dict]) -> np.ndarray:
    """Each kind of query in each place counts the same, and relevant ones are as short as everyday ones are.

    Else it would be learned that docstrings are longer than people's questions.
    """
    length = [min(9, len(understand(row["query"]).terms)) for row in rows]
    everyday = Counter(size for row, size in zip(rows, length, strict=True) if row["what"] == "everyday")
    places = Counter((row["what"], row["where"]) for row in rows)
    sizes = Counter((row["what"], row["where"], size) for row, size in zip(rows, length, strict=True))
    weight = []
    for row, size in zip(rows, length, strict=True):
        place = row["what"], row["where"]
        wanted = everyday[size] / sum(everyday.values())
        own = sizes[*place, size] / places[place]
        weight.append((2.0 if row["what"] == "relevant" else 1.0) * min(10.0, wanted / own) / places[place])
    return np.array(weight) / sum(weight)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--evidence", type=Path, required=True)
    arguments.add_argument("--write", type=Path)
    options = arguments.parse_args()
    every = [json.loads(line) for line in options.evidence.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in every if row["what"] != "other package"]
    right = np.array([row["what"] == "relevant" for row in rows], float)
    whole = np.array([row["where"] == "whole library" for row in rows])
    weight = balanced(rows)
    for count in (len(NAMES),):
        for names in combinations(NAMES, count):
            values = np.array([[row["evidence"][name] for name in names] for row in rows])
            learned = fit(values, right, weight)
            total = values @ learned[:-1] + learned[-1]
            said = []
            for part in (whole, ~whole):
                floor = np.quantile(total[part & (right == 1)], 0.02)
                said.append(f"{np.mean(total[part & (right == 0)] < floor):.3f}")
            print(" + ".join(names), "drops at 98% kept, whole libraries and packages:", *said)
    odds = 1 / (1 + np.exp(-total))
    floor = round(float(np.quantile(odds[right == 1], 1 - KEPT)), 3)
    for where, part in (("whole library", whole), ("one package", ~whole)):
        print(
            f"{where}: floor {floor} keeps {np.mean(odds[part & (right == 1)] >= floor):.3f} of relevant,"
            f" drops {np.mean(odds[part & (right == 0)] < floor):.3f} of everyday"
        )
    written = {
        "version": 1,
        "weights": {name: round(float(value), 3) for name, value in zip(NAMES, learned, strict=False)},
        "bias": round(float(learned[-1]), 3),
        "floor": floor,
    }
    print(json.dumps(written, indent=1))
    if options.write:
        options.write.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
