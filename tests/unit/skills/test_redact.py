"""What leaves a transcript, and what may stay."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.skills.conversation import read
from refdesk.skills.format import titled
from refdesk.skills.redact import Redaction, redact, strip

_TALKS = yaml.safe_load((Path(__file__).parents[2] / "fixtures" / "redaction.yaml").read_text(encoding="utf-8"))
_MARKED = re.compile(r"\{([cp]):([^}]+)\}")
_NAME = re.compile(r"(?:[A-Z][a-z]*\.? )?[A-Z][^\W\d]+")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("mail jo.bloggs+x@mail.example.co.uk please", "mail [email] please"),
        ("jane (at) mail.example", "[email]"),
        ("card 4111 1111 1111 1111 exp 12/27", "card [card number] exp 12/27"),
        ("card 5500-0000-0000-0004", "card [card number]"),
        ("amex 378282246310005", "amex [card number]"),
        ("4111 1111 1111 1112", "[number]"),
        ("Visa ending in 4242", "Visa ending in [card number]"),
        ("cvv 123", "cvv [code]"),
        ("call +44 20 7946 0958", "call [phone]"),
        ("call (555) 010-9999 or 555-0199", "call [phone] or [phone]"),
        ("key sk-proj-abcdefghijkl1234", "key [secret]"),
        ("ghp_abcdefghijklmnop1234", "[secret]"),
        ("AKIAIOSFODNN7EXAMPLE", "[secret]"),
        ("Authorization: Bearer abc.def.ghi123456", "Authorization: Bearer [secret]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF123", "[secret]"),
        ("my password is hunter2!", "my password is [secret]"),
        ("api_key=abc123def", "api_key=[secret]"),
        ("https://bob:pw@x.test/", "https://[secret]@x.test/"),
        ("x.test/reset?token=abc123&a=1", "x.test/reset?token=[secret]&a=1"),
        ("order #A-10023 and order number 9912345", "order #[reference id] and order number [reference id]"),
        ("ORD-2024-00017", "[reference id]"),
        ("tracking number 1Z999AA10123456784", "tracking number [reference id]"),
        ("550e8400-e29b-41d4-a716-446655440000", "[reference id]"),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN [IBAN]"),
        ("from 192.168.1.20 or 2001:db8::1", "from [IP address] or [IP address]"),
        ("ssn 078-05-1120", "ssn [id number]"),
        ("the code is 482913", "the code is [code]"),
        ("I live at 42 Baker Street, Apt 3", "I live at [address]"),
        ("My name is Maria Lopez.", "My name is [name]."),
        ("Hi Tom, thanks. Tom!", "Hi [name], thanks. [name]!"),
        ("I'm Maria Lopez, from Acme. Lopez it is", "I'm [name], from Acme. [name] it is"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[secret]"),
    ],
)
def test_what_is_sensitive_is_replaced_by_what_it_was(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "the password is not working and the token expired",
        "I can't pass 2FA since my phone broke",
        "error ERR-5003, HTTP-404, 0x80070005 and error code 50012",
        "order 3-4 days ago, 2 weeks, $1,250.00 on 2024-10-15 at 10:30",
        "iOS 17.2 on the Pixel 7, version 5.3.1, two-factor and 2FA",
        "go to Settings > Apps and tap Clear cache within 30 minutes",
        "Thanks for contacting us. Please restart the router.",
        "I am Premium Plus, and I'm German. The Premium plan",
        "Agent (Tier 2): The Tier 2 desk\nCustomer (Premium): Premium is paid\nSettings (Advanced): Advanced mode",
    ],
)
def test_what_a_playbook_needs_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Excel crashes with 0xc0000005 when opening the sheet, KB5002138 is installed",
        "it says AADSTS50126, or ORA-00942, or CVE-2021-44228",
        "My phone, a Pixel 7 Pro with a case, does not charge",
    ],
)
def test_codes_that_are_published_stay_whoever_writes_them(text: str) -> None:
    assert redact(text, "customer") == text


def test_who_says_their_name_in_another_language_is_not_kept() -> None:
    said = "Ich heiße Jürgen Müller, mein Drucker zeigt Fehler 0x6100004a. Was ist das?"
    assert redact(said, "customer") == "Ich heiße [name], mein Drucker zeigt Fehler 0x6100004a. Was ist das?"
    assert redact("Buenas, mi nombre es Íñigo Etxeberria y la caldera no va") == (
        "Buenas, mi nombre es [name] y la caldera no va"
    )


def test_names_that_are_other_words_go_only_where_a_name_stands() -> None:
    said = "Agent: Will it start? Have fun, Will\nCustomer: Thanks Will. Will do."
    assert redact(said) == "Agent: Will it start? Have fun, [name]\nCustomer: Thanks [name]. Will do."


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Buenos días, soy Encarna Villalobos, tengo una multa", "Buenos días, soy [name], tengo una multa"),
        ("Shift lead Łukasz confirms, so does Oisín's mother", "Shift lead [name] confirms, so does [name]'s mother"),
        ("the previous owner (Kowalczyk) had approval", "the previous owner ([name]) had approval"),
        ("it is on path /Users/tmbeki/Docs", "it is on path /Users/[user name]/Docs"),
        ("still. sn 3121094477A", "still. sn [reference id]"),  # and not so many amperes
        ("pupil ref 8W-2210", "pupil ref [reference id]"),  # nor watts
    ],
)
def test_what_is_sensitive_is_known_by_its_place(text: str, redacted: str) -> None:
    assert redact(text, "customer") == redacted


@pytest.mark.parametrize("text", ["upgrade to fw 108.86.0.75", "Then set its IP to 10.0.3.3 and order part 00145212."])
def test_what_the_agent_tells_to_use_stays(text: str) -> None:
    redaction = Redaction.of([("agent", text)])
    assert redaction.clean(text, "agent") == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert "@mail.example" not in redact(f"{text} a.b@mail.example")
    assert redact(once) == once


def test_a_search_looks_at_what_is_left() -> None:
    assert strip("refund for jo@mail.example order #A-10023") == "refund for order #"
    assert strip("jo@mail.example") == "jo@mail.example"


def test_a_long_transcript_is_redacted_quickly() -> None:
    chat = "Customer: my order 1234567 a.b-c_d@@ 1.2.3.4.5 aaaaaaaaaaaaaaaaaaaaaaaaaaaa 0000 0000 0000\n" * 3000
    started = time.process_time()
    redact(chat)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("run", ["x", "7", "a.", "A-", "eyJ-", "\n", "order\n"])
def test_a_long_run_is_read_once(run: str) -> None:
    """A pasted attachment, say: an address looked for from each of its letters would take minutes."""
    started = time.process_time()
    redact(run * (100_000 // len(run)))
    redact("order" + run[-1] * 50_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("label", ["Customer (Jane Doe)", "Jane Doe (customer)", "**Customer (Jane Doe)**"])
def test_a_name_beside_a_role_is_a_name(label: str) -> None:
    transcript = read(
        f"{label}: Jane Doe here, my account is locked.\nAgent (Tom): Sorry about that, Jane. Tom unlocked it."
    )
    assert {"Jane", "Doe", "Tom"} <= transcript.redaction.names
    assert not {"Jane", "Doe", "Tom"} & set(str(transcript).replace(".", " ").split())


def test_named_speakers_become_their_roles() -> None:
    chat = "Sarah: I lost my phone.\nTom: Hi Sarah, I've reset it.\nSarah: Works, thanks Tom!\nTom: Great."
    transcript = read(chat)
    assert [turn.role for turn in transcript.turns] == ["customer", "agent", "customer", "agent"]
    assert "Sarah" not in str(transcript) and "Tom" not in str(transcript)


def _rates(half: str) -> tuple[float, float]:
    """The shares of case data that is removed and of procedure data that is kept, each identifier of a talk once."""
    right, total = Counter[str](), Counter[str]()
    for each in _TALKS[half]:
        talk, feedback = (_MARKED.sub(r"\2", each[part]) for part in ("talk", "feedback"))
        transcript = read(talk, feedback)
        left = f"{transcript}\n{transcript.redaction.clean(feedback)}"
        for kind, item in set(_MARKED.findall(each["talk"] + each["feedback"])):
            words = [w for w in item.split() if w[-1] != "."] if _NAME.fullmatch(item) else [item]
            there = [len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", left)) for word in words]
            before = len(re.findall(rf"(?<!\w){re.escape(item)}(?!\w)", f"{talk}\n{feedback}"))
            right[kind] += there[0] >= before if kind == "p" else not any(there)
            total[kind] += 1
    print(f"\n{half}: case data removed {right['c']}/{total['c']}, procedure data kept {right['p']}/{total['p']}")
    return right["c"] / total["c"], right["p"] / total["p"]


@pytest.mark.parametrize(
    ("half", "least_removed", "least_kept"),
    [
        ("tuned", 0.98, 0.95),
        ("held_out", 0.98, 0.95),
        ("fresh", 0.93, 0.94),  # as measured once; the aim is the same as above
    ],
)
def test_case_data_goes_and_procedure_data_stays(half: str, least_removed: float, least_kept: float) -> None:
    removed, kept = _rates(half)
    assert removed >= least_removed
    assert kept >= least_kept


def test_what_a_word_tells_in_one_place_goes_from_all() -> None:
    chat = (
        "Customer: my login is petra-kol and the gate code 4417# fails, we are Kontor Nord GmbH\n"
        "Agent: I put a note on petra-kol. Type 4417# slowly.\nCustomer: Kontor Nord GmbH says thanks"
    )
    assert str(read(chat)) == (
        "Customer: my login is [user name] and the gate code [code] fails, we are [name]\n"
        "Agent: I put a note on [user name]. Type [code] slowly.\nCustomer: [name] says thanks"
    )


def test_months_and_days_are_no_names() -> None:
    said = "Agent: I've set the freeze from 1 December to 31 January, from Monday to Friday."
    assert str(read(f"Customer: Pause it.\n{said}")).endswith(said)


def test_feedback_keeps_forms_but_no_bookings() -> None:
    chat = "Customer: It is under ZK2M8R.\nAgent: Done. Press F9 for that."
    assert read(chat, "Was ZK2M8R.").redaction.clean("Was ZK2M8R.") == "Was [reference id]."
    feedback = "Booking ZK2M8R needed F9. Bill 40881920 was amended with form RC-12."
    assert read(chat, feedback).redaction.clean(feedback) == (
        "Booking [reference id] needed F9. Bill [reference id] was amended with form RC-12."
    )


def test_an_identifier_is_told_by_the_whole_conversation() -> None:
    chat = (
        "Customer: It failed, T-4417.\nAgent: Which form did you use?\nCustomer: PX-8443.\nAgent: Take QR-8100 instead."
    )
    assert str(read(chat)) == (
        "Customer: It failed, [reference id].\nAgent: Which form did you use?\nCustomer: PX-8443.\n"
        "Agent: Take QR-8100 instead."
    )
    # What feedback says stays unless it is known to be of the case; so does what the playbook has.
    assert "T-4417" in str(read(chat, "T-4417 is the form for payouts.")) and "T-4417" in str(
        read(chat, known="T-4417")
    )
    assert (
        read(chat, "Closed ticket T-4417.").redaction.clean("Closed ticket T-4417.") == "Closed ticket [reference id]."
    )


@pytest.mark.parametrize(
    ("redacted", "title"),
    [
        ("[name] here, account is locked", "Account is locked"),
        ("#[reference id] never came", "Never came"),
        ("[name]'s card [card number] was refused", "Card was refused"),
        ("Where is order number [reference id] from May?", "Where is order from May?"),
        ("My name is [name] and the app crashes", "The app crashes"),
        ("Refund (ticket #[reference id]) did not arrive", "Refund did not arrive"),
        ("[email]", "Other"),
        ("This is [name], the charger stops", "The charger stops"),
        ("Is the account locked?", "Is the account locked?"),
    ],
)
def test_no_title_has_a_placeholder(redacted: str, title: str) -> None:
    assert titled(redacted, "Other") == title


def test_what_a_customer_answers_is_removed_without_capitals_too() -> None:
    chat = (
        "Customer: hi, my parcel never came\n"
        "Agent: May I have your name, please?\nCustomer: sure, jorunn harrow\n"
        "Agent: What is your user name?\nCustomer: brambling\n"
        "Agent: Please tell me the delivery address.\nCustomer: its 48 quarry view, flat 3, dunmore\n"
        "Agent: And the last four digits of the card number?\nCustomer: 2019\n"
        "Agent: Thanks jorunn. Please fill in form RC-12, I need the order number too.\n"
        "Customer: 2021, but the page shows error E-31"
    )
    assert str(read(chat)) == (
        "Customer: hi, my parcel never came\n"
        "Agent: May I have your name, please?\nCustomer: sure, [name]\n"
        "Agent: What is your user name?\nCustomer: [user name]\n"
        "Agent: Please tell me the delivery address.\nCustomer: its [address]\n"
        "Agent: And the last four digits of the card number?\nCustomer: [number]\n"
        "Agent: Thanks [name]. Please fill in form RC-12, I need the order number too.\n"
        "Customer: [number], but the page shows error E-31"
    )


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("my name is jorunn and i want a refund", "my name is [name] and i want a refund"),
        ("i want to send money to jorunn vasquel tomorrow", "i want to send money to [name] tomorrow"),
        ("it goes to 48 quarry street please", "it goes to [address] please"),
        ("it is 10 minutes down the road", "it is 10 minutes down the road"),
        ("please call 0688 872 49 90 or (72) 754-186", "please call [phone] or [phone]"),
        ("i am having trouble with the router", "i am having trouble with the router"),
        ("i moved from netflix to roku", "i moved from netflix to roku"),
    ],
)
def test_names_and_addresses_in_small_letters(said: str, left: str) -> None:
    assert redact(said, "customer") == left
