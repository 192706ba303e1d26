"""Learns how sure an answer is: a logistic mix of the evidence that evidence.py kept.

    python training/confidence.py --evidence FOLDER/evidence.jsonl [--write src/refdesk/search/confidence.json]

Judged by folds: a library's queries by what was learned from the other libraries, everyday questions also from the
other half of them.  The floor is where KEPT of the relevant queries pass.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from refdesk.search.confidence import NAMES
from refdesk.search.understand import understand

KEPT = 0.985
SHRINKAGE = 1e-4
CURVE = (0.98, 0.983, 0.985, 0.99, 0.995)


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
    if (learned[:-1] < 0).any():
        raise SystemExit("evidence that speaks against an answer: something is wrong")
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


def crossed(rows: list[dict], values: np.ndarray, right: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each row's total by what was learned without its library and without its half of the everyday questions."""
    library = np.array([row["set"] for row in rows])
    half = np.array([zlib.crc32(row["query"].encode()) % 2 for row in rows])
    total = np.zeros(len(rows))
    for name in np.unique(library):
        for number in (0, 1):
            outside = (library != name) & ((right == 1) | (half != number))
            learned = fit(values[outside], right[outside], weight[outside])
            own = (library == name) & (half == number)
            total[own] = values[own] @ learned[:-1] + learned[-1]
    return total


def tell(title: str, rows: list[dict], total: np.ndarray, right: np.ndarray) -> None:
    """What is dropped at each share of relevant queries kept, in whole libraries and in packages."""
    whole = np.array([row["where"] == "whole library" for row in rows])
    written = np.array([row["written"] for row in rows])
    for share in CURVE:
        floor = np.quantile(total[whole & (right == 1)], 1 - share)
        said = [f"{np.mean(total[part & (right == 0)] < floor):.3f}" for part in (whole, ~whole)]
        kept = f"{np.mean(total[~whole & (right == 1)] >= floor):.3f}"
        hand = f"{np.sum(total[whole & written] >= floor)} of {np.sum(whole & written)}"
        print(
            f"{title}, {share} kept: drops {said[0]} of everyday questions; by hand {hand} kept;"
            f" one package: drops {said[1]}, keeps {kept}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--evidence", type=Path, required=True)
    arguments.add_argument("--write", type=Path)
    options = arguments.parse_args()
    every = [json.loads(line) for line in options.evidence.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in every if row["what"] != "other package"]
    right = np.array([row["what"] == "relevant" for row in rows], float)
    values = np.array([[row["evidence"][name] for name in NAMES] for row in rows])
    weight = balanced(rows)
    tell("by folds", rows, crossed(rows, values, right, weight), right)
    for names in (*((name,) for name in NAMES), ("usual", "least usual")):
        others = np.delete(values, [NAMES.index(name) for name in names], axis=1)
        tell(f"without {' and '.join(names)}", rows, crossed(rows, others, right, weight), right)
    learned = fit(values, right, weight)
    total = values @ learned[:-1] + learned[-1]
    tell("learned from all", rows, total, right)
    odds = 1 / (1 + np.exp(-total))
    written = {
        "version": 2,
        "weights": {name: round(float(value), 3) for name, value in zip(NAMES, learned, strict=False)},
        "bias": round(float(learned[-1]), 3),
        "floor": round(float(np.quantile(odds[right == 1], 1 - KEPT)), 3),
    }
    print(json.dumps(written, indent=1))
    if options.write:
        options.write.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
