"""The written support conversations, and the learning loop run over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from refdesk.embed.static import StaticEmbedder
from refdesk.llm.thinkers import LocalThinker
from refdesk.ports import Embedder
from refdesk.skills.conversation import read
from refdesk.skills.extract import issue_of
from refdesk.skills.learn import Learner
from refdesk.store.local import LocalStore
from refdesk.store.playbooks import RecordPlaybooks

FOLDER = Path(__file__).parents[2] / "fixtures" / "conversations"


@dataclass(frozen=True)
class Conversation:
    """A transcript, the search an agent would make for it, and the customer's own opening words."""

    kind: str
    query: str
    transcript: str

    @property
    def opening(self) -> str:
        return " ".join(issue_of(read(self.transcript)))


def split(name: str) -> dict[str, list[Conversation]]:
    """The conversations of one split, by issue type."""
    kinds = yaml.safe_load((FOLDER / "split.yaml").read_text())[name]
    return {kind: of_kind(kind) for kind in kinds}


def of_kind(kind: str) -> list[Conversation]:
    """The conversations of one issue type."""
    content = yaml.safe_load((FOLDER / f"{kind}.yaml").read_text())
    return [Conversation(kind, each["query"], each["transcript"]) for each in content["conversations"]]


def foreign(name: str) -> list[str]:
    """Issues that no playbook solves."""
    issues: list[str] = yaml.safe_load((FOLDER / "foreign.yaml").read_text())[name]
    return issues


def shipped_embedder() -> Embedder:
    """The embedder that comes with the package."""
    return StaticEmbedder()


@contextmanager
def learner(folder: Path, embedder: Embedder) -> Iterator[Learner]:
    """The learning loop over an empty store."""
    store = LocalStore(folder / "library")
    try:
        yield Learner(RecordPlaybooks(store), lambda: embedder)
    finally:
        store.close()


@dataclass
class Rates:
    """How often a search came back right."""

    known: int = 0
    hits: int = 0
    mixed_up: int = 0
    unknown: int = 0
    false: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, other: Rates) -> None:
        """Counts another measurement in."""
        for name in ("known", "hits", "mixed_up", "unknown", "false"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += other.notes

    @property
    def hit_rate(self) -> float:
        return self.hits / self.known

    @property
    def false_rate(self) -> float:
        return self.false / self.unknown

    def __str__(self) -> str:
        return (
            f"known {self.hits}/{self.known} = {self.hit_rate:.3f} (another type's playbook: {self.mixed_up}),"
            f" unknown {self.false}/{self.unknown} = {self.false_rate:.3f} false"
        )


Words = Callable[[Conversation], str]


def cold(folder: Path, name: str, embedder: Embedder, thinker: LocalThinker, words: Words, first: int = 0) -> Rates:
    """One conversation of each type is learnt, all others are searched for; then each type is left out in turn."""
    rates = Rates()
    kinds = split(name)
    with learner(folder, embedder) as loop:
        of = {loop.create(each[first].transcript, thinker).skill.skill_id: kind for kind, each in kinds.items()}
        assert len(of) == len(kinds)
        for kind, conversations in kinds.items():
            for place, each in enumerate(conversations):
                if place != first:
                    _count_known(rates, kind, of.get(_found(loop, words(each), thinker)), words(each))
        for issue in foreign(name):
            _count_unknown(rates, of.get(_found(loop, issue, thinker)), issue)
    for left_out, conversations in kinds.items():
        (folder / left_out).mkdir()
        with learner(folder / left_out, embedder) as loop:
            others = {kind: each for kind, each in kinds.items() if kind != left_out}
            of = {loop.create(each[first].transcript, thinker).skill.skill_id: kind for kind, each in others.items()}
            for each in conversations:
                _count_unknown(rates, of.get(_found(loop, words(each), thinker)), words(each))
    return rates


def learning(folder: Path, name: str, embedder: Embedder, thinker: LocalThinker, words: Words, first: int = 0) -> Rates:
    """The loop as an agent runs it: search; a hit is refined by its conversation, a miss becomes a playbook."""
    rates = Rates()
    kinds = split(name)
    of: dict[str, str] = {}
    with learner(folder, embedder) as loop:
        for place in range(max(map(len, kinds.values()))):
            for kind, conversations in kinds.items():
                each = conversations[(place + first) % len(conversations)]
                found = _found(loop, words(each), thinker)
                if place == 0:
                    _count_unknown(rates, of.get(found), words(each))
                else:
                    _count_known(rates, kind, of.get(found), words(each))
                if of.get(found) == kind:
                    loop.update(found, each.transcript, thinker, feedback="")
                else:
                    of[loop.create(each.transcript, thinker, confirmed=True).skill.skill_id] = kind
        for issue in foreign(name):
            _count_unknown(rates, of.get(_found(loop, issue, thinker)), issue)
    return rates


def _found(loop: Learner, query: str, thinker: LocalThinker) -> str:
    skill = loop.search(query, thinker).skill
    return skill.skill_id if skill else ""


def _count_known(rates: Rates, kind: str, found: str | None, query: str) -> None:
    rates.known += 1
    rates.hits += found == kind
    rates.mixed_up += found not in (None, kind)
    if found != kind:
        rates.notes.append(f"{kind} → {found}: {query[:90]}")


def _count_unknown(rates: Rates, found: str | None, query: str) -> None:
    rates.unknown += 1
    rates.false += found is not None
    if found is not None:
        rates.notes.append(f"unknown → {found}: {query[:90]}")


def near_misses(folder: Path, embedder: Embedder, thinker: LocalThinker) -> Rates:
    """Questions about what the playbooks are about, but other problems, with each conversation learnt first in turn."""
    rates = Rates()
    for first in range(5):
        (folder / f"near{first}").mkdir()
        with learner(folder / f"near{first}", embedder) as loop:
            kinds = split("test")
            of = {loop.create(each[first].transcript, thinker).skill.skill_id: kind for kind, each in kinds.items()}
            for issue in foreign("near_test"):
                _count_unknown(rates, of.get(_found(loop, issue, thinker)), issue)
    return rates


def read_topics(half: str) -> list[dict[str, Any]]:
    """The topics of one half of near.yaml."""
    found: list[dict[str, Any]] = yaml.safe_load((FOLDER / "near.yaml").read_text())[half]
    return found


def topics(folder: Path, half: str, embedder: Embedder, thinker: LocalThinker) -> Rates:
    """One playbook for each topic of near.yaml; the same problem in other words is known, a near miss is not."""
    rates = Rates()
    found = read_topics(half)
    with learner(folder, embedder) as loop:
        of = {loop.create(each["talk"], thinker).skill.skill_id: each["business"] for each in found}
        assert len(of) == len(found)
        for each in found:
            for query in each["same"]:
                _count_known(rates, each["business"], of.get(_found(loop, query, thinker)), query)
            for query in each["near"]:
                _count_unknown(rates, of.get(_found(loop, query, thinker)), query)
    return rates
