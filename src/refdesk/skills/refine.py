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
from refdesk.skills.wording import capitalised, sentences, third_person

_NEW_KEYWORDS = 6
_KNOWN = 0.8  # share of a step's weight that an existing step has too
_REASON = re.compile(r"(?P<what>.+?),?(?<!\s)\s++(?:because|since(?!\s+v?\d)|as|when|if)\s+(?P<why>.+)", re.I | re.S)
# "Use PX-8443 for accounts abroad", but not "reserve it for 20 minutes" or "ask for a certificate".
_CASE = re.compile(
    r"(?P<what>.+?)(?<!\s)(?<!\bask)(?<!\bwait)(?<!\blook)\s++for\s+(?!\d|\[|(?:the|an?|at|up|one|two)\b)(?P<why>.+)",
    re.I | re.S,
)
_LEADS = re.compile(r"^(?:if|when|because|since|for)\s+(?P<why>[^,]+),\s*(?P<what>.+)", re.I | re.S)


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
    text = third_person(sentence.strip().rstrip("."))
    if not content_terms(text):
        return ""
    found = _LEADS.fullmatch(text) or _REASON.fullmatch(text) or _CASE.fullmatch(text)
    if found is None:
        return f"Seen in practice → {text}"
    return f"{capitalised(found['why'].strip())} → {found['what'].strip()}"
