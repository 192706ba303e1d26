"""How does a playbook take in a conversation without a model?  What it lacks is added, nothing is taken away."""

from __future__ import annotations

import re
from dataclasses import replace

from refdesk.skills.extract import issue_of, keywords_of, steps_of
from refdesk.skills.merge import covered
from refdesk.skills.model import Draft, Step
from refdesk.skills.phrases import capitalised, third_person
from refdesk.skills.redact import redact
from refdesk.skills.transcript import Transcript, sentences
from refdesk.skills.validate import MAX_KEYWORDS
from refdesk.skills.words import content_terms, total_weight

_NEW_KEYWORDS = 6
_KNOWN = 0.8  # share of what a step says that an existing step says too
_REASON = re.compile(r"(?P<what>.+?),?\s+(?:because|since|as|when|if|for)\s+(?P<why>.+)", re.I | re.S)
_LEADS = re.compile(r"^(?:if|when|because|since|for)\s+(?P<why>[^,]+),\s*(?P<what>.+)", re.I | re.S)


def refine(current: Draft, transcript: Transcript, feedback: str) -> Draft:
    """The draft with the steps, edge cases and keywords that the conversation and the feedback add."""
    book = current.playbook
    steps, met = steps_of(transcript)
    new = [step for step in steps if not _is_known(step, book.steps)]
    told = [_edge_case(each) for each in sentences(redact(feedback))]
    edge_cases = [case for case in (*met, *told) if case and not covered(case, book.edge_cases)]
    # Only from how the customer put it: what the agent said about it would match questions about other things.
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
    numbers = {term for term in said if term.isdigit()}
    for other in steps:
        known = set(content_terms(f"{other.title} {other.do} {other.say}"))
        if numbers <= known and total_weight(said & known) >= _KNOWN * total_weight(said):
            return True
    return not said


def _placed(steps: tuple[Step, ...], new: list[Step]) -> tuple[Step, ...]:
    """The new steps before the last one, which closes the conversation if it is about confirming."""
    closes = bool(steps) and re.search(r"\bconfirm|\bclos", steps[-1].title, re.I)
    return (*steps[:-1], *new, steps[-1]) if closes else (*steps, *new)


def _edge_case(sentence: str) -> str:
    text = third_person(sentence.strip().rstrip("."))
    if not content_terms(text):
        return ""
    found = _LEADS.fullmatch(text) or _REASON.fullmatch(text)
    if found is None:
        return f"Seen in practice → {text}"
    return f"{capitalised(found['why'].strip())} → {found['what'].strip()}"
