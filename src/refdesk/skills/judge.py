"""The port of judges, and the built-in judge, which needs no model and abstains when in doubt.

The built-in judge weighs two kinds of evidence.  Meaning: how far the query and the skill's problem stand nearer to one
another than to a crowd of other questions, in standard deviations, so that the numbers mean the same for any embedder.
Words: the share of what the skill's problem says that the query says too, synonyms made one, rare words counting more.
It picks a skill only where both agree.  Near misses are about the same thing, so it compares what happens to it, too:
the same event speaks for a skill, another one against it, and a skill that fixes trouble seldom answers a wish.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from refdesk.skills.conversation import Transcript
from refdesk.skills.model import DISTRUSTED, Draft, Skill
from refdesk.skills.vocabulary import background, events, meanings, total_weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refdesk.model import Vector
    from refdesk.ports import Embedder


@dataclass(frozen=True, slots=True)
class Verdict:
    """The skill a judge picked, or None, and why."""

    skill_id: str | None
    reason: str = ""


class Thinker(Protocol):
    """Who judges, extracts and refines: a language model with prompts, or rules."""

    @property
    def name(self) -> str:
        """What answers call it: `local`, `gemini`, …"""

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict: ...
    def extract(self, transcript: Transcript, metadata: Mapping[str, object]) -> Draft: ...
    def repair(self, draft: Draft, problems: Sequence[str], transcript: Transcript) -> Draft: ...
    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The weights of the evidence, fitted by tests/unit/skills/calibrate.py on the calibration conversations.

    On topics that were never fitted on, 18 of 32 searches in other words find the playbook (18 where events and
    wishes are not compared) and 3 of 40 near misses do (6).  On the test conversations 205 of 240 searches find it
    (212), 16 of 510 for an unknown problem a wrong one (17), and 15 of 135 questions near a playbook's topic do (28).
    """

    meaning_floor: float = 0.74  # standard deviations
    words_floor: float = 0.15  # share of what the problem says
    meaning_weight: float = 1.09
    words_weight: float = 16.24
    same_event: float = 1.0  # log odds more where the same is said to happen or is wanted
    other_event: float = 2.0  # log odds less where something else does
    no_trouble: float = 2.88  # log odds less where the skill fixes a problem that the query does not report
    other_wish: float = 3.0  # log odds less where the query wants something and the skill is about no wish
    bias: float = -3.88
    needed: float = 1.93  # log odds
    distrust: float = 1.5  # log odds more for a skill that failed often
    one_word_above: float = 3.0  # standard deviations from which one shared word is enough
    words_alone: float = 0.5  # share needed where there is no embedder


_LONG = 20.0  # about the weight of five rare words; a longer problem need not be matched in full
_KEPT = 2_000
_ALIKE = 0.5  # log odds between skills that fit alike: half of what the same event adds
_SUREST = 4.0  # log odds, a probability of .98: a fit to a few hundred conversations allows no more certainty
_TROUBLE = re.compile(
    r"\b(?:not|cannot|never|no|nothing|none|without|wrong|incorrect|errors?|fail\w*|brok\w*|crash\w*|lock\w*|lost"
    r"|block\w*|missing|stolen|twice|double|duplicat\w*|two times|overcharg\w*|reject\w*|declin\w*|refus\w*|expired"
    r"|invalid|stuck|down|offline|dead|unable|late|damag\w*|leak\w*|gone|grey\w*|bounc\w*|closes|quits|freez\w*"
    r"|different|instead|mistake|misspel\w*|forgot\w*|problems? with|trouble|but|still|although|though|keeps?|kept"
    r"|stops?|stopped|too (?:much|many)|less|out of order|outage|hacked|disput\w*|complain\w*|empty|blank|slow\w*"
    r"|dark)\b|n['’]t\b",
    re.I,
)
_WISH = re.compile(
    r"\b(?:(?:(?:i|we|customer) )?(?:want|wish|hope|need|plan)s?|would like|(?<=['’])d like|please"
    r"|(?:can|could|would) you|how (?:do|can|could|should|to))\b",
    re.I,
)
_MILD = re.compile(r"\b(?:instead|without|different|less|but|still|though|no|not)\b", re.I)  # no trouble in a question
_HOW = re.compile(r"\W*(?:(?:hi|hello|hey)\W+)?how (?:do|can|could|should|to)\b", re.I)
_ASKS = re.compile(
    r"(?:^|[.!?]\s+)\W*(?:(?:hi|hello|hey|customer reports)\W+)?"
    r"(?:how (?:many|much|long|often|far|high|big|old|soon)|when|which|what|where|who|do (?:you|i|we)|does"
    r"|is (?:there|it)|are there|will (?:there|you|my|the)|(?:can|may|could|should) (?!you)\w+)\b",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for a skill and against it.

    `agreed` when the words it shares with the query say enough.  The others compare what is reported: whether the same
    happens in both (`same_event`) or something else (`other_event`); whether the query reports no trouble that the
    skill could fix, wants something that the skill is not about, or only asks a question that no such skill answers.
    """

    meaning: float | None
    words: float
    agreed: bool
    same_event: bool = False
    other_event: bool = False
    no_trouble: bool = False
    other_wish: bool = False
    only_asks: bool = False

    def odds(self, by: Calibration) -> float:
        """The log odds that the skill fits; negative where words and meaning disagree."""
        if self.only_asks:
            return -1.0
        reported = by.same_event * self.same_event - by.other_event * self.other_event
        reported -= by.no_trouble * self.no_trouble + by.other_wish * self.other_wish
        if self.meaning is None:
            return by.needed + 8 * (self.words - by.words_alone) + min(0.0, reported) if self.agreed else -1.0
        odds = by.meaning_weight * self.meaning + by.words_weight * self.words + by.bias + reported
        agree = self.agreed and self.meaning >= by.meaning_floor and self.words >= by.words_floor
        return odds if agree else min(odds, -1.0)


class EvidenceJudge:
    """Picks the skill with the most evidence, if it has enough."""

    def __init__(self, embedder: Embedder | None, calibration: Calibration = Calibration()) -> None:  # noqa: B008
        self._embedder = embedder
        self._calibration = calibration
        self._crowd: tuple[Vector, Vector] | None = None  # the same questions, as queries and as passages
        self._problems: dict[str, Vector] = {}

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        """The candidate that fits, or none; of those that fit alike, the first, so that the caller's order counts."""
        weighed = self.weigh(query, candidates)
        distrusted = (self._calibration.distrust * (skill.confidence < DISTRUSTED) for skill in candidates)
        odds = [one.odds(self._calibration) - less for one, less in zip(weighed, distrusted, strict=True)]
        if not odds or max(odds) < self._calibration.needed:
            return Verdict(None, "no playbook has both the words and the meaning of the query")
        least = max(self._calibration.needed, max(odds) - _ALIKE)
        best = next(place for place, each in enumerate(odds) if each >= least)
        meaning = weighed[best].meaning
        seen = "" if meaning is None else f", {meaning:.1f} standard deviations nearer than other questions"
        return Verdict(candidates[best].skill_id, f"{weighed[best].words:.0%} of the problem's words{seen}")

    def chances(self, query: str, candidates: Sequence[Skill]) -> list[float]:
        """The probability that each candidate is about the query, whether the query reports a problem or not."""
        weighed = (
            replace(one, no_trouble=False, other_wish=False, only_asks=False) for one in self.weigh(query, candidates)
        )
        return [1 / (1 + math.exp(-min(_SUREST, one.odds(self._calibration)))) for one in weighed]

    def weigh(self, query: str, candidates: Sequence[Skill]) -> list[Evidence]:
        """The evidence for each candidate."""
        said = meanings(query)
        asks = _ASKS.match(query) or _HOW.match(query) or _WISH.match(query)
        quiet = not _TROUBLE.search(_MILD.sub("", query) if asks else query)
        weighed = []
        for skill, near in zip(candidates, self._standing_out(query, candidates), strict=True):
            described = meanings("\n".join((skill.title, skill.problem, *skill.conditions, *skill.keywords)))
            shared, problem = said & described, meanings(skill.problem)
            # One shared word of several is too little, unless the meanings are nearly the same.
            telling = len(shared) > 1 or shared == said or (near or 0.0) >= self._calibration.one_word_above
            words = total_weight(said & problem) / (min(total_weight(problem), _LONG) or 1.0)
            same_event, either = bool(events(shared)), events(said) and events(described)
            asked, wished = _ASKS.match(skill.problem) is not None, _WISH.search(skill.problem) is not None
            no_trouble = quiet and _TROUBLE.search(skill.problem) is not None
            weighed.append(
                Evidence(
                    meaning=near,
                    words=min(1.0, words),
                    agreed=bool(shared) and telling,
                    same_event=same_event,
                    other_event=bool(either) and not same_event,
                    no_trouble=no_trouble,
                    other_wish=quiet and _WISH.search(query) is not None and not (asked or wished),
                    only_asks=quiet and bool(_ASKS.match(query) or (no_trouble and _HOW.match(query))) and not asked,
                )
            )
        return weighed

    def _standing_out(self, query: str, candidates: Sequence[Skill]) -> list[float | None]:
        if self._embedder is None:
            return [None] * len(candidates)
        if self._crowd is None:
            self._crowd = (self._embedder.embed_queries(background()), self._embedder.embed_passages(background()))
        if len(self._problems) > _KEPT:
            self._problems.clear()
        if new := [skill.problem for skill in candidates if skill.problem not in self._problems]:
            self._problems.update(zip(new, self._embedder.embed_passages(new), strict=True))
        asked = self._embedder.embed_queries([query])[0]
        return [_deviations(asked, self._problems[skill.problem], *self._crowd) for skill in candidates]


def _deviations(asked: Vector, kept: Vector, other_queries: Vector, other_passages: Vector) -> float:
    """How many standard deviations nearer the two are to each other than to the crowd, averaged over both."""
    near = float(asked @ kept)
    sides = [other_passages @ asked, other_queries @ kept]
    scores = [(near - float(side.mean())) / (float(side.std()) or 1.0) for side in sides]
    return 0.0 if any(map(math.isnan, scores)) else sum(scores) / 2
