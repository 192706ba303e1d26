"""Learnings merged into playbooks, and what changed by it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.skills.conversation import read
from refdesk.skills.format import render
from refdesk.skills.learn import as_draft
from refdesk.skills.merge import NOTHING_NEW, changes, merge
from refdesk.skills.model import Draft, Playbook, Skill, Step
from refdesk.skills.refine import refine

ONE = Step("Unlock the account", "Lift the lock", "The account is active", "Please try again.")
TWO = Step("Send a reset link", "Mail the link", "The mail was delivered", "Look into your mailbox.")
NEW = Step("Check the security log", "Open the log", "No foreign sign-in", "One moment.")
BASE = Draft(
    playbook=Playbook(
        title="Locked out", goal="Access again", prerequisites=("Mailbox works",), steps=(ONE, TWO),
        edge_cases=("No mail → spam folder",), escalation="After two tries.",
    ),
    problem="locked out",
    keywords=("locked",),
)  # fmt: skip


def with_steps(*steps: Step, **more: object) -> Draft:
    return replace(BASE, playbook=replace(BASE.playbook, steps=steps, **more))


def titles(draft: Draft) -> list[str]:
    return [step.title for step in draft.playbook.steps]


def test_new_steps_come_where_they_belong_and_nothing_goes() -> None:
    assert titles(merge(BASE, with_steps(ONE, NEW, TWO), BASE)) == [ONE.title, NEW.title, TWO.title]
    assert titles(merge(BASE, with_steps(NEW), BASE)) == [NEW.title, ONE.title, TWO.title]
    assert merge(BASE, with_steps(TWO, edge_cases=(), prerequisites=()), BASE) == BASE


def test_a_correction_replaces_the_text_it_corrects() -> None:
    better = replace(ONE, do="Lift the lock in the admin console")
    assert merge(BASE, with_steps(better, TWO), BASE).playbook.steps == (better, TWO)


def test_what_two_learnt_at_once_is_all_kept() -> None:
    mine = replace(ONE, do="Lift the lock in the admin console")
    theirs = replace(ONE, do="Lift the lock by script")
    newest = merge(BASE, with_steps(theirs, NEW, TWO, edge_cases=("SSO → identity provider",)), BASE)
    both = merge(BASE, with_steps(mine, TWO, edge_cases=("No phone → ID check",)), newest)
    assert both.playbook.steps[0].do == "Lift the lock by script\nAlso: Lift the lock in the admin console"
    assert NEW in both.playbook.steps
    assert set(both.playbook.edge_cases) == {"No mail → spam folder", "SSO → identity provider", "No phone → ID check"}


def test_the_same_learning_twice_is_kept_once() -> None:
    proposed = with_steps(ONE, NEW, TWO, edge_cases=("No mail → the spam folder.",))
    once = merge(BASE, proposed, BASE)
    assert merge(BASE, proposed, once) == once


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=6))
def test_any_sequence_of_merges_loses_nothing(rounds: list[list[int]]) -> None:
    newest = BASE
    for numbers in rounds:
        steps = tuple(Step(f"Try fix {n}", f"Apply fix number {n}", "ok", "ok") for n in dict.fromkeys(numbers))
        newest = merge(BASE, with_steps(*BASE.playbook.steps, *steps), newest)
    found = set(titles(newest))
    assert {ONE.title, TWO.title} <= found
    assert found >= {f"Try fix {n}" for numbers in rounds for n in numbers}
    assert len(titles(newest)) == len(found)


def skill(draft: Draft, version: int) -> Skill:
    return Skill(
        skill_id="s", title=draft.playbook.title, version=version, problem=draft.problem,
        resolution_md=render(draft.playbook), conditions=draft.playbook.prerequisites, keywords=draft.keywords,
    )  # fmt: skip


def test_changes_are_told_from_the_difference() -> None:
    better = replace(TWO, say="Look into your mailbox and the spam folder.")
    after = replace(
        with_steps(ONE, NEW, better, edge_cases=(*BASE.playbook.edge_cases, "SSO → identity provider"), title="Locked"),
        keywords=("locked", "login"),
    )
    assert changes(skill(BASE, 1), skill(after, 2)) == [
        "Title changed from “Locked out” to “Locked”.",
        "Added step 2: “Check the security log”. Open the log",
        "Changed the Say of step 3 “Send a reset link”: Look into your mailbox and the spam folder",
        "Added edge case: SSO → identity provider",
        "Added keywords: login.",
    ]
    assert changes(skill(BASE, 1), skill(BASE, 2)) == [NOTHING_NEW]
    assert (
        changes(skill(after, 2), skill(BASE, 3))[1]
        == "Changed the Say of step 2 “Send a reset link”: Look into your mailbox"
    )
    assert as_draft(skill(after, 2)).playbook.steps == after.playbook.steps


def test_rules_add_what_the_conversation_and_the_feedback_add() -> None:
    chat = read(
        "Customer: The login says locked, and I use single sign-on.\nAgent: I've lifted the lock.\nCustomer: No luck.\n"
        "Agent: I've reset the link to the identity provider. If it fails again, restart the browser.\nCustomer: Works!"
    )
    feedback = "Used the identity provider because the customer has single sign-on."
    refined = refine(BASE, chat, feedback)
    assert titles(refined)[:2] == [ONE.title, TWO.title]
    assert any("identity provider" in title for title in titles(refined))
    assert not any("lock" in title.lower() for title in titles(refined)[2:])
    assert "The customer has single sign-on → Used the identity provider" in refined.playbook.edge_cases
    assert "It fails again → restart the browser" in refined.playbook.edge_cases
    assert set(BASE.keywords) < set(refined.keywords)
    assert titles(refine(refined, chat, feedback)) == titles(refined)
