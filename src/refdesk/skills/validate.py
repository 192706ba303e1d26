"""Is this playbook fit to be kept?"""

from __future__ import annotations

from refdesk.skills.format import InvalidPlaybook, parse, render, tidy
from refdesk.skills.model import Draft, Playbook

MAX_TITLE = 120
MAX_STEPS = 100
MAX_ITEMS = 200
MAX_TEXT = 4_000
MAX_KEYWORDS = 32


def checked(draft: Draft) -> Draft:
    """The draft, tidied, if its playbook may be kept; InvalidPlaybook says all that is wrong with it."""
    book = tidy(draft.playbook)
    wrong = [*problems(book), *_draft_problems(draft)]
    if not wrong and parse(render(book)) != book:
        wrong = ["It can't be read back as it was written."]
    if wrong:
        raise InvalidPlaybook(wrong)
    keywords = dict.fromkeys(key for word in draft.keywords if (key := " ".join(word.split()).lower()))
    return Draft(playbook=book, problem=" ".join(draft.problem.split()), keywords=tuple(keywords)[:MAX_KEYWORDS])


def problems(book: Playbook) -> list[str]:
    """What keeps the playbook from being used, each in one sentence."""
    found = []
    if not book.title:
        found.append("The title is missing.")
    if len(book.title) > MAX_TITLE:
        found.append(f"The title has more than {MAX_TITLE} characters.")
    if not book.goal:
        found.append("The Goal is missing.")
    if not book.escalation:
        found.append("The Escalation is missing: say when to hand over to a person.")
    if not book.steps:
        found.append("There are no Steps.")
    if len(book.steps) > MAX_STEPS:
        found.append(f"There are more than {MAX_STEPS} Steps.")
    for name, items in (("Prerequisites", book.prerequisites), ("Edge Cases", book.edge_cases)):
        if len(items) > MAX_ITEMS:
            found.append(f"There are more than {MAX_ITEMS} {name}.")
    return [*found, *_step_problems(book), *_length_problems(book)]


def _step_problems(book: Playbook) -> list[str]:
    found = []
    for number, step in enumerate(book.steps, 1):
        parts = {"title": step.title, "Do": step.do, "Check": step.check, "Say": step.say}
        if missing := [name for name, text in parts.items() if not text]:
            found.append(f"Step {number} lacks its {' and '.join(missing)}.")
    return found


def _length_problems(book: Playbook) -> list[str]:
    texts = [book.goal, book.escalation, *book.prerequisites, *book.edge_cases]
    texts += [text for step in book.steps for text in (step.title, step.do, step.check, step.say)]
    return [f"A text has more than {MAX_TEXT} characters: {text[:40]!r}…" for text in texts if len(text) > MAX_TEXT]


def _draft_problems(draft: Draft) -> list[str]:
    found = []
    if not draft.problem.strip():
        found.append("The problem is missing: say what issue the playbook solves.")
    if len(draft.problem) > MAX_TEXT:
        found.append(f"The problem has more than {MAX_TEXT} characters.")
    if not any(word.strip() for word in draft.keywords):
        found.append("There are no keywords.")
    return found
