"""Playbooks as text, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.errors import InvalidPlaybook
from refdesk.skills.format import checked, from_markdown, parse, render, tidy
from refdesk.skills.model import Draft, Playbook, Step

TRICKY = [
    "# Title", "## Goal", "### 1. x", "#", "**Do:** y", "**Say**: z", "- item", "\\", "\\# a", "None.", "none known",
    "  **Check:**", "* **Do:** a", "* * b", "**Confidence:** 0.3 | **Area:** x", "```", "\u2028", "\x00", "\u200b",
]  # fmt: skip
line = st.one_of(st.text(max_size=40), st.sampled_from(TRICKY))
text = st.lists(line, max_size=4).map("\n".join)
items = st.lists(line, max_size=3).map(tuple)
books = st.builds(
    Playbook,
    title=line,
    goal=text,
    prerequisites=items,
    steps=st.lists(st.builds(Step, line, text, text, text), max_size=3).map(tuple),
    edge_cases=items,
    escalation=text,
    product_area=line,
    issue_type=line,
    confidence=st.floats(0, 1),
)

BOOK = Playbook(
    title="Refund a duplicate charge",
    goal="Give back what was charged twice.",
    prerequisites=("Two payments for one order",),
    steps=(Step("Find both payments", "Look them up", "There are two", "“Let me look.”"),),
    edge_cases=("One is pending → release it",),
    escalation="Over $500 hand over to billing.",
    product_area="billing",
    issue_type="problem",
    confidence=0.75,
)

PUBLISHED = """# Reset a password

**Confidence:** 0.85 (23 uses, 20 confirmed)
**Product Area:** billing
**Issue Type:** how-to

## Goal
Get the customer in again.

## Prerequisites
- Customer has a verified email
* The account is active

## Steps

### 1. Look up the account
**Do:** GET /accounts/{id}
  then read `status`
**Check:** status is active
**Say:** "One moment."

### Step 2: Send the link
- **Do**: Send it
- **Check**: It was delivered
- **Say**: Nothing yet

## Edge Cases
- SSO user → send to the identity provider

## Escalation
After two tries.
"""


@settings(max_examples=400, deadline=None)
@given(books)
def test_what_is_written_is_read_back(book: Playbook) -> None:
    written = render(book)
    assert parse(written) == tidy(book)
    assert render(parse(written)) == written
    assert parse(render(book, (3, 2))) == tidy(book)


def test_a_playbook_as_a_person_sees_it() -> None:
    assert render(BOOK, (8, 6)) == (
        "# Refund a duplicate charge\n\n"
        "**Confidence:** 0.75 (8 uses, 6 confirmed) | **Product Area:** billing | **Issue Type:** problem\n\n"
        "## Goal\n\nGive back what was charged twice.\n\n"
        "## Prerequisites\n\n- Two payments for one order\n\n"
        "## Steps\n\n### 1. Find both payments\n"
        "**Do:** Look them up\n**Check:** There are two\n**Say:** “Let me look.”\n\n"
        "## Edge Cases\n\n- One is pending → release it\n\n"
        "## Escalation\n\nOver $500 hand over to billing.\n"
    )


def test_the_forms_that_others_write_are_read() -> None:
    book = parse(PUBLISHED)
    assert (book.title, book.confidence, book.product_area, book.issue_type) == (
        "Reset a password",
        0.85,
        "billing",
        "how-to",
    )
    assert book.prerequisites == ("Customer has a verified email", "The account is active")
    assert [step.title for step in book.steps] == ["Look up the account", "Send the link"]
    assert book.steps[0].do == "GET /accounts/{id}\n  then read `status`"
    assert book.steps[1].say == "Nothing yet"


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (PUBLISHED.replace("## Goal", "## Aim"), "Unknown heading '## Aim'"),
        (PUBLISHED.replace("## Escalation", "## Goal"), "## Goal comes twice"),
        (PUBLISHED.replace("### Step 2: Send", "### 5. Send"), "Step 2 must be headed"),
        (PUBLISHED.replace("- **Check**: It", "- **Do**: It"), r"Step 2 has \*\*Do:\*\* twice"),
        (PUBLISHED.replace("- SSO user", "SSO user"), "## Edge Cases is a list"),
        (PUBLISHED.replace("## Goal", "Some words.\n\n## Goal"), "Unexpected text before ## Goal"),
        (PUBLISHED.replace("## Steps\n", "## Steps\nDo these:\n"), "Unexpected text in ## Steps"),
    ],
)
def test_what_has_no_place_is_named(spoilt: str, said: str) -> None:
    with pytest.raises(InvalidPlaybook, match=said):
        parse(spoilt)


@pytest.mark.parametrize(
    ("book", "said"),
    [
        (replace(BOOK, title=""), "The title is missing"),
        (replace(BOOK, title="x" * 200), "more than 120 characters"),
        (replace(BOOK, goal=" "), "The Goal is missing"),
        (replace(BOOK, steps=()), "There are no Steps"),
        (replace(BOOK, escalation=""), "The Escalation is missing"),
        (replace(BOOK, steps=(Step("a", "b", "", "c"),)), "Step 1 lacks its Check"),
        (replace(BOOK, steps=(Step("", "b", "c", ""),)), "Step 1 lacks its title and Say"),
        (replace(BOOK, goal="x" * 5000), "A text has more than 4000 characters"),
    ],
)
def test_a_broken_playbook_is_refused(book: Playbook, said: str) -> None:
    with pytest.raises(InvalidPlaybook, match=said):
        checked(Draft(playbook=book, problem="charged twice", keywords=("charge",)))


def test_a_draft_needs_a_problem_and_keywords() -> None:
    with pytest.raises(InvalidPlaybook, match=r"problem is missing.*no keywords"):
        checked(Draft(playbook=BOOK, problem="", keywords=(" ",)))
    assert checked(Draft(playbook=BOOK, problem=" a  b ", keywords=("X", "x ", ""))).keywords == ("x",)


def test_an_id_in_a_file_has_a_limit() -> None:
    def of(skill_id: str) -> str:
        return f"---\nmetadata:\n  skill_id: {skill_id}\n---\n{PUBLISHED}"

    assert from_markdown(of("a" * 200)).skill_id == "a" * 200
    with pytest.raises(InvalidPlaybook, match="skill_id has more than 200 characters"):
        from_markdown(of("a" * 201))
