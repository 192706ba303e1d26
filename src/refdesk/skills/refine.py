"""Adds a conversation, and the feedback on it, to a playbook by rules."""

from __future__ import annotations

import re
from dataclasses import replace

from refdesk.skills.conversation import Transcript
from refdesk.skills.extract import issue_of, keywords_of, steps_of
from refdesk.skills.format import MAX_KEYWORDS
from refdesk.skills.identifiers import identifiers
from refdesk.skills.merge import covered
from refdesk.skills.model import Draft, Step
from refdesk.skills.vocabulary import content_terms, total_weight
from refdesk.skills.wording import capitalised, finding, imperative, kind_of, sentences, third_person
from refdesk.text import analyse

_NEW_KEYWORDS = 6
_KNOWN = 0.8  # share of a step's weight that an existing step has too
# "As" gives a reason where a clause follows it: "use the form as it is faster", but not "use it as a form".
_REASON = re.compile(
    r"(?P<what>.+?),?(?<!\s)\s++(?:because|since(?!\s+v?\d)|when|if|as(?=\s+(?:they|it|there|we|he|she|this|these"
    r"|(?:the|some|most|many)\s[^,.;]{1,40}?\s(?:is|are|was|were|has|have|had|do|does|did|can|cannot|will|may))\s+\w+\s))"
    r"\s+(?P<why>.+)",
    re.I | re.S,
)
# "Use PX-8443 for accounts abroad", but not "reserve it for 20 minutes" or "ask for a certificate".
_CASE = re.compile(
    r"(?P<what>.+?)(?<!\s)(?<!\bask)(?<!\bwait)(?<!\blook)\s++for\s+(?!\d|\[|(?:the|an?|at|up|one|two)\b)(?P<why>.+)",
    re.I | re.S,
)
_LEADS = re.compile(r"^(?:if|when|because|since|for)\s+(?P<why>[^,]+),\s*(?P<what>.+)", re.I | re.S)
# Words of feedback that only says that all went by the playbook; others may say something new.
_AS_KNOWN = analyse.STOP_TERMS | frozenset(
    analyse.terms(
        """all any anything everything nothing other than further new was were been just only also very well fine good
        great perfectly exactly correctly smoothly successfully completely fully precisely i we agent customer playbook
        skill procedure guide instructions script steps changes changed changing updates additions deviations deviated
        differences issues problems needed necessary required made make made add to follow followed following used using
        use apply applied applies work works worked go went stick stuck solved resolved helped done described written
        documented expected intended planned outlined usual before always standard accurate correct complete up date
        happy satisfied thanks"""
    )
)


def refine(current: Draft, transcript: Transcript, feedback: str) -> Draft:
    """The draft with the steps, edge cases and keywords that the conversation and the feedback add."""
    book = current.playbook
    steps, met = steps_of(transcript)
    new = [step for step in steps if not _is_known(step, book.steps)]
    told = [_case_told(each) for each in sentences(feedback)]
    edge_cases = [case for case in (*met, *told) if case and not covered(case, book.edge_cases)]
    # From the customer's words only: the agent's would match questions about other things.
    keywords = keywords_of(Transcript(()), issue_of(transcript))[:_NEW_KEYWORDS]
    return replace(
        current,
        playbook=replace(
            book, steps=_placed(book.steps, new), edge_cases=tuple(dict.fromkeys((*book.edge_cases, *edge_cases)))
        ),
        keywords=tuple(dict.fromkeys((*current.keywords, *keywords)))[:MAX_KEYWORDS],
    )


def _is_known(step: Step, steps: tuple[Step, ...]) -> bool:
    said = set(content_terms(f"{step.title} {step.do}"))
    named = set(identifiers(step.do))
    for other in steps:
        text = f"{other.title} {other.do} {other.say}"
        known = set(content_terms(text))
        if named <= set(identifiers(text)) and total_weight(said & known) >= _KNOWN * total_weight(said):
            return True
    return not said


def _placed(steps: tuple[Step, ...], new: list[Step]) -> tuple[Step, ...]:
    """The steps with the new ones at the end, before a closing step that asks for confirmation."""
    closes = bool(steps) and re.search(r"\bconfirm|\bclos", steps[-1].title, re.I)
    return (*steps[:-1], *new, steps[-1]) if closes else (*steps, *new)


def _case_told(sentence: str) -> str:
    text = sentence.strip().rstrip(".")
    if not content_terms(text) or _AS_KNOWN.issuperset(analyse.terms(text)):
        return ""
    found = _LEADS.fullmatch(text) or _REASON.fullmatch(text) or _CASE.fullmatch(text)
    if found is None:
        return f"Seen in practice → {_instruction(text)}"
    return f"{capitalised(third_person(found['why'].strip()))} → {_instruction(found['what'].strip())}"


def _instruction(text: str) -> str:
    """What an agent did ("I skipped the reset") as an instruction, anything else as words about the customer."""
    reworded = {"action": imperative, "finding": finding}.get(kind_of(text), third_person)
    return reworded(text) if re.match(r"(?:I|we)\b", text, re.I) else third_person(text)
