"""Fits the points of the clues that tell an identifier of a case from one of the procedure: skills/clues.txt.

    python -m training.redaction [--write]

A logistic regression on the talks under `tuned` in tests/fixtures/redaction.yaml.  First it prints the shares that are
told right of businesses left out of the fit, a twelfth of them at a time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from refdesk.skills.conversation import spoken
from refdesk.skills.identifiers import clues_in
from refdesk.skills.redact import formal

_ROOT = Path(__file__).parents[1]
_MARKED = re.compile(r"\{([cp]):([^}]+)\}")
_PENALTY, _CASE_WEIGHT, _PARTS = 0.3, 2.2, 12  # an identifier that is kept wrongly is worse than one that is lost

Sample = tuple[str, bool, frozenset[str]]  # business, whether it is of the procedure, clues


def samples(talks: Sequence[dict[str, Any]]) -> Iterator[Sample]:
    """The marked identifiers of the talks with their clues."""
    for each in talks:
        kinds = {item: kind for kind, item in _MARKED.findall(each["talk"] + each["feedback"])}
        talk, feedback = (_MARKED.sub(r"\2", each[part]) for part in ("talk", "feedback"))
        said = [(role, formal(text)) for role, text in (*spoken(talk), ("feedback", feedback))]
        for one, clues in clues_in(said).items():
            kind = kinds.get(one) or next((kind for item, kind in kinds.items() if one in item.split()), None)
            if kind:
                yield each["business"], kind == "p", frozenset({"any", *clues})


def fit(given: Sequence[Sample]) -> dict[str, float]:
    """The points of each clue, by Newton's method."""
    names = sorted({clue for *_, clues in given for clue in clues})
    x = np.array([[name in clues for name in names] for *_, clues in given], float)
    y = np.array([procedural for _, procedural, _ in given], float)
    of_case, points = np.where(y == 1, 1.0, _CASE_WEIGHT), np.zeros(len(names))
    for _ in range(12):
        p = 1 / (1 + np.exp(-x @ points))
        slope = x.T @ (of_case * (p - y)) + _PENALTY * points
        points -= np.linalg.solve((x.T * (of_case * p * (1 - p))) @ x + _PENALTY * np.eye(len(names)), slope)
    return dict(zip(names, points.tolist(), strict=True))


def main() -> None:
    talks = yaml.safe_load((_ROOT / "tests/fixtures/redaction.yaml").read_text(encoding="utf-8"))["tuned"]
    given = list(samples(talks))
    businesses = sorted({business for business, *_ in given})
    right = {True: 0, False: 0}
    for part in range(_PARTS):
        left_out = set(businesses[part::_PARTS])
        points = fit([one for one in given if one[0] not in left_out])
        for business, procedural, clues in given:
            if business in left_out:
                right[procedural] += (sum(points.get(clue, 0.0) for clue in clues) >= 0) == procedural
    for procedural, name in ((False, "case"), (True, "procedure")):
        print(f"{name}: {right[procedural]} of {sum(one[1] == procedural for one in given)}")
    if "--write" in sys.argv:
        lines = [f"{name} {points:.2f}" for name, points in sorted(fit(given).items(), key=lambda one: -one[1])]
        head = "# Points for the procedure, fitted by training/redaction.py; an identifier below zero is of the case."
        (_ROOT / "src/refdesk/skills/clues.txt").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
