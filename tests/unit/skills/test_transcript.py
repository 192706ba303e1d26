"""Who said what."""

from __future__ import annotations

import json

import pytest

from refdesk.errors import InvalidInput
from refdesk.skills.conversation import read
from refdesk.skills.vocabulary import language_of
from refdesk.skills.wording import base_form, core_of, finding, imperative, kind_of, request, sentences, shortened

SAID = [("user", "It is broken."), ("assistant", "I've mended it."), ("user", "Thanks!")]
EXPECTED = [("customer", "It is broken."), ("agent", "I've mended it."), ("customer", "Thanks!")]


@pytest.mark.parametrize(
    "chat",
    [
        "Customer: It is broken.\nAgent: I've mended it.\nCustomer: Thanks!",
        "**User:** It is broken.\n**Assistant:** I've mended it.\n**User:** Thanks!",
        "[10:02] Client: It is broken.\n[10:03 AM] Support: I've mended it.\n[10:04] Client: Thanks!",
        "10:02 Caller: It is broken.\n10:03 Rep: I've mended it.\n10:04 Caller: Thanks!",
        "Ann Lee: It is broken.\nBob (Support): I've mended it.\nAnn Lee: Thanks!",
        "It is broken.\n\nI've mended it.\n\nThanks!",
        json.dumps([{"role": role, "content": text} for role, text in SAID]),
        json.dumps({"messages": [{"speaker": role, "text": [{"text": text}]} for role, text in SAID]}),
    ],
)
def test_the_forms_a_transcript_comes_in(chat: str) -> None:
    assert [(turn.role, turn.text) for turn in read(chat).turns] == EXPECTED


def test_an_agent_may_speak_first() -> None:
    turns = read("Kim: How can I help?\nLee: It is broken.\nKim: Fixed.\nLee: Yes.").turns
    assert [turn.role for turn in turns] == ["agent", "customer", "agent", "customer"]


def test_speakers_in_other_scripts() -> None:
    turns = read("顧客：ログインできません。\nAgent: ロックを解除しました。\n顧客：できました。").turns
    assert [turn.role for turn in turns] == ["customer", "agent", "customer"]


def test_notes_and_lines_that_go_on() -> None:
    turns = read("Customer: It is broken.\nSettings: all on\n[Agent checks the log]\nAgent: Fixed.\nnow").turns
    assert [(turn.role, turn.text) for turn in turns] == [
        ("customer", "It is broken.\nSettings: all on"),
        ("note", "Agent checks the log"),
        ("agent", "Fixed.\nnow"),
    ]


def test_nothing_said() -> None:
    with pytest.raises(InvalidInput, match="conversation is required"):
        read("   \n ")


def test_turns_on_one_line_are_told_apart() -> None:
    turns = read(
        "Customer: My export fails. Agent: Rotate the key under Settings: API keys. Customer: That worked!"
    ).turns
    assert [(turn.role, turn.text) for turn in turns] == [
        ("customer", "My export fails."),
        ("agent", "Rotate the key under Settings: API keys."),
        ("customer", "That worked!"),
    ]


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("Please hold the button while you plug it in.", "Hold the button while they plug it in"),
        ("Check whether you get a light.", "Check whether they get a light"),
        ("Look at the label and tell me the port.", "Look at the label and tell us the port"),
        ("I've sent you a link.", "Send the customer a link"),
        ("I've created a label.", "Create a label"),
        ("I had to call the courier twice.", "Call the courier twice"),
        ("You can drop the parcel at any shop.", "Drop the parcel at any shop"),
        ("You'll keep your rate.", "They'll keep their rate"),
    ],
)
def test_a_step_reads_as_english(said: str, step: str) -> None:
    assert imperative(said) == step


@pytest.mark.parametrize(
    ("verb", "base"),
    [("taking", "take"), ("planned", "plan"), ("treated", "treat"), ("agreed", "agree"), ("string", "string")],
)
def test_verbs_are_put_into_their_base_form_by_the_dictionary(verb: str, base: str) -> None:
    assert base_form(verb) == base


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Peel off the old label.", "directive"),
        ("Have them sign out at the portal.", "directive"),
        ("When it comes, put the logger inside.", "directive"),
        ("Even the router is fine.", "information"),
        ("You'll get a mail within an hour.", "information"),
        ("Let's see how it behaves tonight.", "action"),
        ("Let me see what I can do.", "pleasantry"),
        ("I just checked, and the file is empty.", "finding"),
        ("We've had reports that it fails.", "finding"),
        ("As a workaround, set a start date.", "directive"),
        ("Don't use the old exporter.", "directive"),
        ("Next time, you may send it in the app.", "directive"),
        ("Hi there, happy to help.", "pleasantry"),
    ],
)
def test_instructions_are_told_from_what_is_so(said: str, kind: str) -> None:
    assert kind_of(said) == kind


@pytest.mark.parametrize(
    ("question", "step"),
    [
        ("May I have the last four digits of your card?", "Ask for the last four digits of their card"),
        ("Would you mind shaking it?", "Ask whether they would mind shaking it"),
        ("While you wait, could you send me a photo?", "While they wait, ask for a photo"),
        ("For security, what's your date of birth?", "For security, ask: What's your date of birth?"),
        ("Could you tell me what the light does, please?", "Ask what the light does"),
    ],
)
def test_a_question_reads_as_an_instruction_to_ask(question: str, step: str) -> None:
    assert request(question) == step


def test_a_title_is_cut_at_a_clause_or_before_words_that_lead_on() -> None:
    assert shortened("Run the cleaning page: hold OK and Cancel while they switch it on", 10) == (
        "Run the cleaning page: hold OK and Cancel"
    )
    assert shortened("Ask which of the cards it is, and put it inside before they close it", 13) == (
        "Ask which of the cards it is, and put it inside"
    )


def test_what_was_found_is_told_without_the_looking() -> None:
    assert finding("I just checked, and the file is empty.") == "The file is empty"


def test_a_title_before_a_name_ends_no_sentence() -> None:
    assert sentences("Dr. Khan is here. It whistles.") == ["Dr. Khan is here.", "It whistles."]


def test_a_courtesy_is_no_step_and_no_part_of_the_problem() -> None:
    assert kind_of("Let me look.") == "pleasantry"
    assert kind_of("Let me look at the order.") == "action"
    assert core_of("hi my bill is wrong") == "My bill is wrong"


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("Batterie lädt nur bis 60 Prozent", "German"),
        ("la batterie ne charge pas", "French"),
        ("la batería no carga", "Spanish"),
        ("bateria não carrega", "Portuguese"),
        ("La Quinta no refund", "English"),
        ("crème brûlée torch leaks gas", "English"),
        ("José can't log in", "English"),
    ],
)
def test_few_words_tell_a_language(query: str, language: str) -> None:
    assert language_of(query) == language
