"""The port of judges, and the built-in judge, which needs no model and abstains when in doubt.

The built-in judge looks at each candidate by itself first.  Meaning: how far the query and the skill's problem stand
nearer to one another than to a crowd of other questions, in standard deviations, so that the numbers mean the same for
any embedder.  Words: the share of what the skill's problem says that the query says too, synonyms made one, rare words
counting more.  Near misses are about the same thing, so it compares what happens to it, too (events.txt): the same
speaks for a skill, something else against it, and a skill that fixes trouble answers neither a wish nor a question.

Then it looks at the candidates together, since playbooks of one business are alike: how far one is ahead of the next,
and how near the others are.  Learned weights make a probability of both (training/judge.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Protocol

from refdesk.skills.conversation import Transcript
from refdesk.skills.model import DISTRUSTED, Draft, Skill
from refdesk.skills.vocabulary import background, events, lines, meanings, total_weight, words

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

    def check(self, query: str) -> None:
        """Raises InvalidInput if it can't read the language of the query."""

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict: ...
    def extract(self, transcript: Transcript, metadata: Mapping[str, object]) -> Draft: ...
    def repair(self, draft: Draft, problems: Sequence[str], transcript: Transcript) -> Draft: ...
    def refine(self, current: Draft, transcript: Transcript, feedback: str) -> Draft: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The points of the evidence for one candidate, and the weights that make log odds of them among the others.

    The points were chosen by hand on the calibration topics of tests/fixtures/conversations, the weights are fitted by
    training/judge.py.  Of questions that others wrote, about businesses that nothing was fitted on,
    35% find their playbook and 7% another; 18% of those that no playbook solves find one (before the candidates were
    compared with each other 41, 17 and 35%).  On our own sets nothing changed: 528 of 664 right, 39 of 876 false (40).
    """

    meaning: float = 0.5  # for each standard deviation
    words: float = 17.0  # for the whole of what the problem says
    same: float = 1.5  # times the weight of what happens in both
    other: float = 5.5  # less where something else happens; a third of it where they share three things
    unsaid: float = 1.0  # less where the query does not say what happens, and the skill does
    no_trouble: float = 2.0  # less where the skill fixes a problem that the query does not report
    other_wish: float = 6.0  # less where the query wants something and the skill is about no wish
    enough: float = 4.65  # points
    meaning_floor: float = 0.74  # standard deviations
    words_floor: float = 0.15  # share of what the problem says
    words_floor_same: float = 0.04  # where the same happens
    # In the order of `among`.
    weights: tuple[float, ...] = (-3.05, 0.228, 0.081, 0.403, -1.589, -0.315, 0.991)
    needed: float = 0.35  # probability; from 0.4 on matches of our own topics are lost
    distrust: float = 1.5  # log odds less for a skill that failed often
    one_word_above: float = 3.0  # standard deviations from which one shared word is enough
    words_alone: float = 0.5  # share needed where there is no embedder


_LONG = 20.0  # about the weight of five rare words; a longer problem need not be matched in full
_LEAST, _MOST = -6.0, 14.0  # points beyond which there is no more to tell
_TWIN = 0.9  # likeness of the problems of two playbooks for the same; neither speaks against the other
_KEPT = 2_000
_ALIKE = 0.5  # log odds between skills that fit alike: half of what the same event adds
_SUREST = 4.0  # log odds, a probability of .98: a fit to a few hundred conversations allows no more certainty
NEVER = -20.0  # log odds of what can't be
TROUBLE = re.compile(
    r"\b(?:not|cannot|never|no|nothing|none|without|wrong|incorrect|errors?|fail\w*|brok\w*|crash\w*|lock\w*|lost"
    r"|block\w*|missing|stolen|twice|double|duplicat\w*|two times|overcharg\w*|reject\w*|declin\w*|refus\w*|expired"
    r"|invalid|stuck|down|offline|dead|unable|late|damag\w*|leak\w*|gone|grey\w*|bounc\w*|closes|quits|freez\w*"
    r"|different|instead|mistake|misspel\w*|forgot\w*|problems? with|trouble|but|still|although|though|keeps?|kept"
    r"|stops?|stopped|too (?:much|many)|less|out of order|outage|hacked|disput\w*|complain\w*|empty|blank|slow\w*"
    r"|dark)\b|n['’]t\b",
    re.I,
)
_WISH = re.compile(
    r"\b(?:(?:(?:i|we|customer) )?(?<!you )(?:want|wish|hope|need|plan)s?|would like|(?<=['’])d like|please"
    r"|(?:can|could|would) you|how (?:do|can|could|should|to))\b",
    re.I,
)
_VAGUE = words("missing wrong broken dead refused charged uncounted crash")  # what may be said of any trouble
_UNWANTED = re.compile(r"\b(?:do not|don['’]t) want\b", re.I)
_MILD = re.compile(r"\b(?:instead|without|different|less|but|still|though|no|not)\b", re.I)  # no trouble in a question
_HOW = re.compile(r"\W*(?:(?:hi|hello|hey)\W+)?how (?:do|can|could|should|to)\b", re.I)
# A wish in one sentence may have a word of trouble in it: how do I report a broken window?
_PLAN = re.compile(
    rf"{_HOW.pattern}|\W*(?:(?:can|may) (?:i|we)|(?:i|we) (?:want|would like|need) to|i['’]d like to"
    r"|where (?:can|do) (?:i|we))\b",
    re.I,
)
_AT_ODDS = re.compile(r"\b(?:but|still|although|though|because|not|never|since|cannot)\b|n['’]t\b|[.!?]\s+\w", re.I)
_ASKS = re.compile(
    r"(?:^|[.!?]\s+)\W*(?:(?:hi|hello|hey|customer reports)\W+)?"
    r"(?:how (?:many|much|long|often|far|high|big|old|soon)|when|which|what|where|who|do (?:you|i|we)|does"
    r"|is (?:there|it)|are there|will (?:there|you|my|the)|(?:can|may|could|should) (?!you)\w+)\b",
    re.I,
)
# Questions that report no trouble, whatever words they have.
_ONLY_ASKS = re.compile(
    r"\W*(?:(?:hi|hello|hey)\W+)?(?:how (?!do\b|can\b|could\b|should\b|to\b|come\b)\w+"
    r"|when (?:is|are|do|does|will|can)|which|what (?:is|are|time|do)"
    r"|where (?:can|do|is the)|do you|does (?!not)|(?:is|are|will) there)\b",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for a skill and against it.

    `agreed` when the words it shares with the query say enough; `things` are those that are no events.  `same` is the
    weight of what happens in both, `other` whether something else does, `unsaid` whether only the skill says what.
    `no_trouble`, `other_wish` and `only_asks` are about queries that report no trouble that the skill could fix: they
    want something that it is not about, or only ask a question.
    """

    problem: frozenset[str]  # what the skill's problem says

    meaning: float | None
    words: float
    agreed: bool
    things: int = 0
    same: float = 0.0
    other: bool = False
    unsaid: bool = False
    no_trouble: bool = False
    other_wish: bool = False
    only_asks: bool = False

    def points(self, by: Calibration) -> float:
        """What the evidence for this skill alone adds up to."""
        reported = by.same * self.same - by.unsaid * self.unsaid
        reported -= by.other * self.other * (0.3 if self.things > 2 else 1.0)
        reported -= by.no_trouble * self.no_trouble + by.other_wish * (self.other_wish + self.only_asks)
        return min(_MOST, max(_LEAST, by.meaning * (self.meaning or 0.0) + by.words * self.words + reported))

    def among(self, others: Sequence[Evidence], by: Calibration) -> tuple[float, ...]:
        """The evidence that the learned weights are for: of this skill, and of its lead over those that differ."""
        points, meaning = self.points(by), self.meaning or 0.0
        alike = [(_likeness(self.problem, each.problem), each) for each in others]
        rivals = [(like, each) for like, each in alike if like < _TWIN]
        near = [each.meaning or 0.0 for _, each in rivals]
        lead = points - max((each.points(by) for _, each in rivals), default=_LEAST)
        likest = max((like for like, _ in rivals), default=0.0)
        rest = sum(near) / max(1, len(near))
        return 1.0, points, lead, meaning - max(near, default=0.0), likest, rest, math.log1p(len(self.problem))

    def odds(self, others: Sequence[Evidence], by: Calibration) -> float:
        """The log odds that the skill fits, given the other candidates; hardly any where words and meaning disagree."""
        if self.meaning is None:  # the weights are for both kinds of evidence
            agree = self.agreed and self.words >= by.words_alone
            return 8 * (self.words - by.words_alone) if agree and not self.only_asks else NEVER
        if self.same and self.things:
            agree = self.agreed and self.words >= by.words_floor_same
        else:
            agree = self.agreed and self.meaning >= by.meaning_floor and self.words >= by.words_floor
        if self.only_asks or not agree or self.points(by) < by.enough:
            return NEVER
        return sum(weight * value for weight, value in zip(by.weights, self.among(others, by), strict=True))


class EvidenceJudge:
    """Picks the skill with the most evidence, if it has enough."""

    def __init__(self, embedder: Embedder | None, calibration: Calibration = Calibration()) -> None:
        self._embedder = embedder
        self._calibration = calibration
        self._crowd: tuple[Vector, Vector] | None = None  # the same questions, as queries and as passages
        self._problems: dict[str, Vector] = {}

    def judge(self, query: str, candidates: Sequence[Skill]) -> Verdict:
        """The candidate that fits, or none; of those that fit alike, the first, so that the caller's order counts."""
        distrusted = (self._calibration.distrust * (skill.confidence < DISTRUSTED) for skill in candidates)
        weighed = self.weigh(query, candidates)
        odds = [one - less for one, less in zip(self._odds(weighed), distrusted, strict=True)]
        needed = math.log(self._calibration.needed / (1 - self._calibration.needed))
        if not odds or max(odds) < needed:
            return Verdict(None, "none has the words, the meaning and the event of the query")
        least = max(needed, max(odds) - _ALIKE)
        best = next(place for place, each in enumerate(odds) if each >= least)
        meaning = weighed[best].meaning
        seen = "" if meaning is None else f", {meaning:.1f} standard deviations nearer than other questions"
        return Verdict(candidates[best].skill_id, f"{weighed[best].words:.0%} of the problem's words{seen}")

    def chances(self, query: str, candidates: Sequence[Skill]) -> list[float]:
        """The probability that each candidate is about the query, whether the query reports a problem or not."""
        weighed = [
            replace(one, no_trouble=False, other_wish=False, only_asks=False) for one in self.weigh(query, candidates)
        ]
        return [1 / (1 + math.exp(-min(_SUREST, odds))) for odds in self._odds(weighed)]

    def _odds(self, weighed: Sequence[Evidence]) -> list[float]:
        others = ([*weighed[:place], *weighed[place + 1 :]] for place in range(len(weighed)))
        return [one.odds(rest, self._calibration) for one, rest in zip(weighed, others, strict=True)]

    def weigh(self, query: str, candidates: Sequence[Skill]) -> list[Evidence]:
        """The evidence for each candidate."""
        said = meanings(query)
        asks = _ASKS.match(query) or _HOW.match(query) or _WISH.match(query)
        quiet = not TROUBLE.search(_MILD.sub("", query) if asks else query)
        wishes = bool((quiet and _WISH.search(query)) or _UNWANTED.search(query))
        plain, plan = _ONLY_ASKS.match(query), _PLAN.match(query) and not _AT_ODDS.search(query)
        weighed = []
        for skill, near in zip(candidates, self._standing_out(query, candidates), strict=True):
            described = meanings("\n".join((skill.title, skill.problem, *skill.conditions, *skill.keywords)))
            shared, problem = said & described, frozenset(meanings(skill.problem))
            # One shared word of several is too little, unless the meanings are nearly the same.
            telling_words = len(shared) > 1 or shared == said or (near or 0.0) >= self._calibration.one_word_above
            share = total_weight(said & problem) / (min(total_weight(problem), _LONG) or 1.0)
            (happens, wrong), (happened, was_wrong) = happenings(query), happenings(skill.problem)
            both = happens & happened
            if wrong and was_wrong and not wrong & was_wrong:
                both -= {"wrong"}
            asked, wished = _ASKS.match(skill.problem) is not None, _WISH.search(skill.problem) is not None
            no_trouble = quiet and TROUBLE.search(skill.problem) is not None
            only_asks = quiet and bool(_ASKS.match(query) or (no_trouble and _HOW.match(query))) and not asked
            weighed.append(
                Evidence(
                    problem=problem,
                    meaning=near,
                    words=min(1.0, share),
                    agreed=bool(shared) and telling_words,
                    things=len(shared - events(shared)),
                    same=max(map(telling, both), default=0.0),
                    other=bool(happens) and not both and (bool(happened) or not happens & _VAGUE),
                    unsaid=bool(happened) and not happens,
                    no_trouble=no_trouble,
                    other_wish=wishes and not (asked or wished),
                    only_asks=only_asks or bool((plain and not asked) or (plan and not (asked or wished))),
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


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """The weight of the meanings that both have, as a share of the geometric mean of their weights."""
    return total_weight(one & other) / (math.sqrt(total_weight(one) * total_weight(other)) or 1.0)


def _deviations(asked: Vector, kept: Vector, other_queries: Vector, other_passages: Vector) -> float:
    """How many standard deviations nearer the two are to each other than to the crowd, averaged over both."""
    near = float(asked @ kept)
    sides = [other_passages @ asked, other_queries @ kept]
    scores = [(near - float(side.mean())) / (float(side.std()) or 1.0) for side in sides]
    return 0.0 if any(map(math.isnan, scores)) else sum(scores) / 2


# --- what is said to happen -------------------------------------------------------------------------------


@cache
def _happenings() -> list[tuple[frozenset[str], re.Pattern[str]]]:
    """Names of what may happen, and the expression that tells it."""
    entries = (line.partition(": ") for line in lines("events.txt"))
    return [(words(names.replace(" = ", " ")), re.compile(pattern)) for names, _, pattern in entries]


_WRITTEN_OUT = (
    (re.compile(r"\bwon['’]t\b"), "will not"),
    (re.compile(r"\bcan['’]t\b|\bcannot\b"), "can not"),
    (re.compile(r"n['’]t\b"), " not"),
)
_WHAT_IS_WRONG = re.compile(
    r"\b(?:wrong|incorrect|different) (\w+)"
    r"|\b(\w+)(?: (?:on|of|in|for)(?: \w+){1,3}?)? (?:is|was|are|were) (?:wrong|incorrect)\b"
)


@lru_cache(4_000)
def happenings(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names of what is said to happen, and the meanings of what is wrong."""
    text = text.lower()
    for pattern, put in _WRITTEN_OUT:
        text = pattern.sub(put, text)
    found = frozenset(name for names, pattern in _happenings() if pattern.search(text) for name in names)
    return found, frozenset(meanings(" ".join("".join(each) for each in _WHAT_IS_WRONG.findall(text))))


@cache
def _happened() -> Mapping[str, int]:
    return Counter(name for text in background() for name in happenings(text)[0])


def telling(happening: str) -> float:
    """The weight of a happening: low if customers report it about anything."""
    return math.log(len(background()) / (1 + _happened().get(happening, 0)))
