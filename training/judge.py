"""Fits the weights of the built-in judge, and measures how often it picks the right playbook, or a wrong one.

    python -m training.judge FOLDER

FOLDER has public sets of customers' questions by intent, which are not part of this repository:

    banking77/{train,test}.csv               github.com/PolyAI-LDN/task-specific-datasets, banking_data
    clinc150/{data_full,domains}.json        github.com/clinc/oos-eval, data
    hint3/{curekart,…}_{train,test}.csv      github.com/hellohaptik/HINT3, dataset/v2
    multidogo/{airline,finance,…}.tsv        github.com/awslabs/multi-domain-goal-oriented-dialogues-dataset, train.tsv
                                             of each business in splits_annotated_at_turn_level

Of each business half of the intents become playbooks, each made by create_skill from one question; other people's
questions of these intents should find them, those of the other half should find nothing.  Candidates come from
search_skills.  The weights are fitted to the businesses under `tuning` and to our own calibration sets, and printed for
`Calibration.weights`; the rates on `tuning` are of weights fitted without the business.  They are printed for several
bounds of the judge.
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refdesk.errors import RefdeskError
from refdesk.llm.thinkers import LocalThinker
from refdesk.ports import Embedder
from refdesk.skills import redact
from refdesk.skills.judge import NEVER, Calibration, EvidenceJudge, Verdict
from refdesk.skills.learn import Learner
from refdesk.skills.model import Skill
from tests.unit.skills.conversations import foreign, learner, read_topics, shipped_embedder, split

Intents = Mapping[str, Sequence[str]]

_TALK = (
    "Customer: {}\nAgent: Let me look into that for you. Please open the settings page and follow the steps I am"
    " sending you now.\nCustomer: That worked, thank you."
)
_ASKED = 4  # questions of each intent
_NOT_A_PROBLEM = re.compile(
    "CHAT_WITH|greet|thank|contentonly|confirmation|rejection|outofdomain|APPRECIATION|CRITICISM|CAPABILITIES", re.I
)


@dataclass
class Search:
    """A query with its candidates, and which intent they are of."""

    group: str
    query: str
    intent: str  # "" where no playbook is right
    candidates: list[Skill]
    intents: list[str]
    is_near: bool = False


class Recorder(LocalThinker):
    """Judges nothing and remembers what it was asked."""

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        self.asked = (redact.strip(query), list(candidates))
        return Verdict(None)


# --- the public sets ---------------------------------------------------------------------------------------


def businesses(folder: Path) -> dict[str, dict[str, Intents]]:
    """The intents with their questions, by business and by part."""
    banking: dict[str, list[str]] = defaultdict(list)
    for part in ("train", "test"):
        for row in csv.DictReader((folder / f"banking77/{part}.csv").open(encoding="utf-8")):
            banking[row["category"]].append(" ".join(row["text"].split()))
    names = sorted(banking)
    random.Random(77).shuffle(names)

    domains = json.loads((folder / "clinc150/domains.json").read_text(encoding="utf-8"))
    questions = json.loads((folder / "clinc150/data_full.json").read_text(encoding="utf-8"))

    def clinc(domain: str) -> Intents:
        found: dict[str, list[str]] = defaultdict(list)
        for text, intent in (each for part in ("train", "val", "test") for each in questions[part]):
            if intent in domains[domain]:
                found[intent].append(text)
        return found

    def hint(business: str) -> Intents:
        found: dict[str, list[str]] = defaultdict(list)
        for part in ("train", "test"):
            for row in csv.DictReader((folder / f"hint3/{business}_{part}.csv").open(encoding="utf-8")):
                if row["label"] != "NO_NODES_DETECTED" and len(row["sentence"].split()) > 2:
                    found[row["label"]].append(row["sentence"].strip())
        return _problems(found, 6)

    def dogo(business: str) -> Intents:
        found: dict[str, list[str]] = defaultdict(list)
        with (folder / f"multidogo/{business}.tsv").open(encoding="utf-8") as file:
            rows = (row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if len(row) == 6)
            for *_, text, slots, intent in rows:
                if "<div>" not in intent and set(slots.split()) == {"O"} and 4 <= len(text.split()) <= 40:
                    found[intent].append(text)
        return _problems(found, 21)

    return {
        "tuning": {
            "banking77, 38 intents": {name: banking[name] for name in names[:38]},
            **{
                f"clinc {each}": clinc(each) for each in ("auto_and_commute", "travel", "kitchen_and_dining", "utility")
            },
            "hint3 curekart": hint("curekart"),
            **{f"multidogo {each}": dogo(each) for each in ("finance", "software", "airline")},
        },
        "held out": {
            "banking77, 39 others": {name: banking[name] for name in names[38:]},
            **{f"clinc {each}": clinc(each) for each in ("banking", "credit_cards", "home", "work")},
            **{f"hint3 {each}": hint(each) for each in ("sofmattress", "powerplay11")},
            **{f"multidogo {each}": dogo(each) for each in ("insurance", "media")},
        },
    }


def _problems(found: Mapping[str, list[str]], least: int) -> Intents:
    return {name: each for name, each in found.items() if len(each) >= least and not _NOT_A_PROBLEM.search(name)}


# --- searches through the real path ------------------------------------------------------------------------


def search_all(group: str, intents: Intents, embedder: Embedder) -> list[Search]:
    """The searches for a business, several times with other playbooks."""
    found: list[Search] = []
    for time in range(4 if len(intents) > 20 else 6 if len(intents) > 8 else 8):
        chance = random.Random(f"{group}{time}")
        names = sorted(intents)
        chance.shuffle(names)
        kept = names[: (len(names) + 1) // 2] if len(names) > 3 else names[:-1]
        picked = {name: chance.sample(intents[name], min(len(intents[name]), _ASKED + 1)) for name in names}
        thinker = Recorder(embedder)
        with tempfile.TemporaryDirectory() as folder, learner(Path(folder), embedder) as loop:
            of: dict[str, str] = {}
            for name in kept:
                with suppress(RefdeskError):  # a question without content makes no playbook
                    of.setdefault(loop.create(_TALK.format(picked[name][0]), thinker).skill.skill_id, name)
            asked = [(query, name) for name in names for query in picked[name][1:]]
            found += [each for query, name in asked if (each := _search(loop, thinker, group, query, name, of))]
    _mark_nearest(found)
    return found


def _search(
    loop: Learner, thinker: Recorder, group: str, query: str, intent: str, of: Mapping[str, str]
) -> Search | None:
    thinker.asked = (query, [])
    try:
        loop.search(query, thinker)
    except RefdeskError:  # it looks like another language
        return None
    asked, candidates = thinker.asked
    right = intent if intent in of.values() else ""
    return Search(group, asked, right, candidates, [of[each.skill_id] for each in candidates])


def _mark_nearest(searches: Sequence[Search]) -> None:
    """Marks the half of the queries without a right playbook whose words are most like a candidate's."""
    said = [set(re.findall(r"\w+", each.query.lower())) for each in searches]
    counts = Counter(word for words in said for word in words)

    def weight(words: set[str]) -> float:
        return sum(math.log(len(said) / counts.get(word, 1)) ** 2 for word in words)

    def likeness(own: set[str], problem: str) -> float:
        other = set(re.findall(r"\w+", problem.lower()))
        return weight(own & other) / (math.sqrt(weight(own) * weight(other)) or 1.0)

    unknown = [
        (max((likeness(own, skill.problem) for skill in each.candidates), default=0.0), place)
        for place, (own, each) in enumerate(zip(said, searches, strict=True))
        if not each.intent
    ]
    for _, place in sorted(unknown)[len(unknown) // 2 :]:
        searches[place].is_near = True


def own_searches(embedder: Embedder) -> dict[str, list[Search]]:
    """The searches of our own fixtures, by set."""
    found: dict[str, list[Search]] = defaultdict(list)

    def ask(group: str, talks: Mapping[str, str], asked: Sequence[tuple[str, str]]) -> None:
        thinker = Recorder(embedder)
        with tempfile.TemporaryDirectory() as folder, learner(Path(folder), embedder) as loop:
            of = {loop.create(talk, thinker).skill.skill_id: name for name, talk in talks.items()}
            found[group] += filter(None, (_search(loop, thinker, group, query, name, of) for query, name in asked))

    for half in ("calibration", "test", "fresh"):
        topics = read_topics(half)
        asked = [(query, each["business"]) for each in topics for query in each["same"]]
        asked += [(query, "") for each in topics for query in each["near"]]
        ask(f"own topics, {half}", {each["business"]: each["talk"] for each in topics}, asked)
    for half in ("calibration", "test"):
        kinds = split(half)
        for first in range(5):
            others = [(kind, each) for kind, talks in kinds.items() for n, each in enumerate(talks) if n != first]
            asked = [(query, kind) for kind, each in others for query in (each.query, each.opening)]
            talks = {kind: each[first].transcript for kind, each in kinds.items()}
            ask(f"own talks, {half}", talks, [*asked, *((query, "") for query in foreign(half))])
            if half == "test":
                ask("own near misses, test", talks, [(query, "") for query in foreign("near_test")])
    return found


# --- the fit -------------------------------------------------------------------------------------------------

# Our own sets are small, and have near misses of playbooks about different things.
_TIMES = {"own topics, calibration": 3.0, "own talks, calibration": 1.0}
_PENALTY = 3.0


def fit(searches: Sequence[Search], judge: EvidenceJudge) -> tuple[float, ...]:
    """The weights of the evidence by logistic regression, by Newton's method."""
    rows, right, times = [], [], []
    for each in searches:
        weighed = judge.weigh(each.query, each.candidates)
        for place, (one, intent) in enumerate(zip(weighed, each.intents, strict=True)):
            others = [*weighed[:place], *weighed[place + 1 :]]
            if one.odds(others, Calibration()) > NEVER:
                rows.append(one.among(others, Calibration()))
                right.append(bool(each.intent) and intent == each.intent)
                times.append(_TIMES.get(each.group, 1.0))
    x, y, n = np.array(rows), np.array(right, float), np.array(times)
    middle, spread = x.mean(axis=0), x.std(axis=0)
    middle[0], spread[0] = 0.0, 1.0
    x = (x - middle) / spread
    weights, penalty = np.zeros(x.shape[1]), _PENALTY * np.eye(x.shape[1])
    penalty[0, 0] = 0.0
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (n * (p - y)) + penalty @ weights
        weights -= np.linalg.solve((x.T * (n * p * (1 - p))) @ x + penalty, slope)
    weights /= spread
    weights[0] -= weights[1:] @ middle[1:]
    return tuple(weights.round(3).tolist())


# --- rates -------------------------------------------------------------------------------------------------


def rates(searches: Sequence[Search], judge: EvidenceJudge) -> Counter[str]:
    """How many right playbooks were found, how many others instead, and how many where none is right."""
    counts: Counter[str] = Counter()
    for each in searches:
        verdict = judge.judge(each.query, each.candidates)
        of = {skill.skill_id: name for skill, name in zip(each.candidates, each.intents, strict=True)}
        picked = of.get(verdict.skill_id or "", "")
        counts["known" if each.intent else "unknown"] += 1
        counts["right"] += bool(each.intent) and picked == each.intent
        counts["another"] += bool(each.intent) and picked not in ("", each.intent)
        counts["false"] += not each.intent and bool(picked)
        counts["near"] += each.is_near
        counts["near false"] += each.is_near and bool(picked)
    return counts


def told(counts: Mapping[str, int]) -> str:
    """The rates in words."""

    def share(some: str, of: str) -> str:
        return f"{counts[some]}/{counts[of]}" + (f" = {counts[some] / counts[of]:.3f}" if counts[of] else "")

    near = f", of the nearest half {share('near false', 'near')}" if counts["near"] else ""
    return (
        f"right {share('right', 'known')}, another {share('another', 'known')}, false {share('false', 'unknown')}{near}"
    )


def main() -> None:
    embedder = shipped_embedder()
    own = own_searches(embedder)
    parts: dict[str, dict[str, list[Search]]] = {"own": own}
    for part, sets in businesses(Path(sys.argv[1])).items():
        parts[part] = {name: search_all(name, intents, embedder) for name, intents in sets.items()}
    fitted_on = [own[name] for name in _TIMES] + list(parts["tuning"].values())
    judge = EvidenceJudge(embedder)
    weights = fit([one for some in fitted_on for one in some], judge)
    print(f"weights {weights}, in force {Calibration().weights}")
    without = {
        name: fit([one for other in fitted_on if other is not some for one in other], judge)
        for name, some in parts["tuning"].items()
    }
    for needed in (0.3, 0.35, 0.4, 0.5, 0.6, 0.7):
        print(f"\nneeded {needed}")
        for part, searched in parts.items():
            total: Counter[str] = Counter()
            for name, some in searched.items():
                by = Calibration(weights=without.get(name, weights) if part == "tuning" else weights, needed=needed)
                counts = rates(some, EvidenceJudge(embedder, by))
                print(f"  {part:9} {name:26} {told(counts)}")
                total += counts
            print(f"  {part:9} {'all':26} {told(total)}")


if __name__ == "__main__":
    main()
