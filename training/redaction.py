"""Fits the points of the clues that tell an identifier of a case from one of the procedure: skills/clues.txt.

    python -m training.redaction [--write]
    python -m training.redaction --public FOLDER

A logistic regression on the talks under `tuned` in tests/fixtures/redaction.yaml.  First it prints the shares that are
told right of businesses left out of the fit, a twelfth of them at a time.

The second form measures the whole redaction on talks that others wrote: FOLDER has {airline,finance,…}.tsv, the
train.tsv of each business in splits_annotated_at_turn_level of
github.com/awslabs/multi-domain-goal-oriented-dialogues-dataset, which are not part of this repository.  They have the
customers' turns only, in small letters and without punctuation, so the agent's questions are put in by what is labelled
in the answer; and once more an "ok" instead.
"""

from __future__ import annotations

import csv
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from refdesk.skills.conversation import read, spoken
from refdesk.skills.forms import formal
from refdesk.skills.identifiers import clues_in
from refdesk.skills.vocabulary import is_person
from refdesk.text.analyse import is_english

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


# --- talks that others wrote ---------------------------------------------------------------------------------

_TALKS = 400  # of each business
# Questions to which the slots with data of the case are answers.
_QUESTIONS = {
    "name": "May I have your name, please?",
    "ssn": "Can you give me the last four digits of your social security number?",
    "card_number": "Please tell me your card number.",
    "account_number": "What is your account number?",
    "target_account_number": "To which account number shall I transfer it?",
    "address": "What is the address?",
    "booking_confirmation_number": "May I have your booking confirmation number?",
    "email_address": "What is your email address?",
    "phone_number": "And your phone number?",
    "phonenumber": "And your phone number?",
    "claimid": "Please provide your claim id.",
    "policyid": "Can I have the policy id?",
    "username": "What is your user name?",
    "account_id": "Please share your account id.",
    "password": "What is the password of the account?",
    "order_number": "What is the order number?",
    "current_zipcode": "May I know your city and zip code?",
}
_WORDS = ("name", "address", "password", "username")  # slots of words rather than numbers


def public(path: Path, *, asks: bool) -> str:
    """The shares of a business's labelled case data that goes and of its other English words that stay."""
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if len(row) == 6][1:]
    talks = [[(row[3].split(), row[4].split()) for row in turns] for _, turns in groupby(rows, lambda row: row[0])]
    talks = [turns for turns in talks if all(len(words) == len(slots) for words, slots in turns)]
    random.Random(path.stem).shuffle(talks)
    counts: Counter[str] = Counter()
    for turns in talks[:_TALKS]:
        lines = []
        for words, slots in turns:
            asked = next((_QUESTIONS[slot] for slot in slots if slot in _QUESTIONS), "How can I help you with this?")
            lines += [f"Agent: {asked if asks else 'ok'}", f"Customer: {' '.join(words)}"]
        for (words, slots), left in zip(turns, read("\n".join(lines)).said_by("customer"), strict=True):
            there = set(re.findall(r"[^\s,]+", left))
            for slot, run in groupby(zip(words, slots, strict=True), lambda one: one[1]):
                said = [word for word, _ in run]
                if slot in _QUESTIONS:
                    telling = {word for word in said if len(word) > 2 and _tells(word, slot)}
                    counts["case"] += bool(telling)
                    counts["gone"] += bool(telling) and not telling & there
                elif slot == "O":
                    other = [word for word in said if len(word) > 1 and is_english(word) and not _is_name(word)]
                    counts["other"] += len(other)
                    counts["stay"] += sum(word in there for word in other)
    gone, stay = counts["gone"] / counts["case"], counts["stay"] / counts["other"]
    return f"case data removed {counts['gone']}/{counts['case']} = {gone:.3f}, other words kept {stay:.4f}"


def _is_name(word: str) -> bool:
    return is_person(word.capitalize())


def _tells(word: str, slot: str) -> bool:
    """Whether the word of a slot tells anything: a number, or a word that is no common one."""
    return any(map(str.isdigit, word)) or (slot in _WORDS and (_is_name(word) or not is_english(word)))


def main() -> None:
    if "--public" in sys.argv:
        for path in sorted(Path(sys.argv[-1]).glob("*.tsv")):
            for asks in (True, False):
                print(f"{path.stem}, {'asked' if asks else 'not asked'}: {public(path, asks=asks)}")
        return
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
