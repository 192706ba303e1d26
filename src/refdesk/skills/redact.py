"""Removes from transcripts what must not be kept: addresses, numbers, secrets, names, identifiers of the case.

An identifier may belong to the case (an order, a ticket, an account) or to the procedure (a form, an article, an error
code, a model, a version), which is what a playbook is learned for.  They look alike, so the words around each
occurrence, who wrote it and its length are weighed together over the whole conversation.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from refdesk.skills.answers import answers
from refdesk.skills.format import titled
from refdesk.skills.forms import ANSWERS, CONTACTS, OUR, OURS_AFTER, PLACES, RULES, SENT_TO, UNLESS_KEPT, formal, unless
from refdesk.skills.identifiers import IDENTIFIER, clause, identifiers, noun_before, procedural_ids
from refdesk.skills.model import Draft
from refdesk.skills.people import names_in, without_names
from refdesk.skills.vocabulary import PLACEHOLDER, is_person
from refdesk.text.analyse import is_english

_MOST = 200  # addresses, or things that are looked for in the whole conversation, since each takes time


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is known of a conversation: the people in it, and which of its identifiers belong to the procedure."""

    names: frozenset[str] = frozenset()
    contacts: frozenset[str] = frozenset()  # addresses of the business, which a playbook needs
    answers: Mapping[str, str] = field(default_factory=dict)  # placeholders by what was answered to a question
    procedural: dict[str, bool] = field(default_factory=dict)  # by identifier

    @classmethod
    def of(cls, said: Iterable[tuple[str, str]], whole: str = "", known: str = "") -> Redaction:
        """The redaction for texts by their roles; `whole` names people, `known` is the playbook as it stands."""
        said = list(said)
        found = procedural_ids([(role, formal(text)) for role, text in said])
        given = {each[1]: put for pattern, put in ANSWERS for each in pattern.finditer(whole)}
        # An answer may name an error or a form, too: "it is 88120, but I get E-31".
        given |= {one: put for one, put in answers(said) if one.isdigit() or not found.get(one)}
        given |= dict(islice(_told(said), _MOST))
        called = {word for one, put in given.items() if put == "[name]" for word in one.split()}
        called = {word for word in called if len(word) > 2 and not is_english(word.lower())}
        names = frozenset(names_in(whole)) | called | set(map(str.capitalize, called))
        contacts = dict.fromkeys(
            each[0]
            for role, text in (*said, ("feedback", known))
            if role in ("agent", "feedback")
            for pattern, put in CONTACTS
            for each in pattern.finditer(text)
            if put(each) != each[0] and _is_of_business(each, is_known=text == known)
        )
        return cls(
            names,
            frozenset(islice(contacts, _MOST)),
            given,
            _without_people(found, names) | dict.fromkeys(identifiers(known), True),
        )

    def clean(self, text: str, role: str = "") -> str:
        """The text with placeholders for everything sensitive."""
        text = formal(text, self.contacts)
        for answer, placeholder in sorted(self.answers.items(), key=lambda one: -len(one[0])):
            text = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", placeholder, text)
        names = names_in(text, by_guess=not self.names and not self.procedural)
        # What is known of the whole is looked up, not copied: each of many turns would take as long as there are turns.
        procedural = ChainMap(self.procedural, _without_people(procedural_ids([(role, text)]), names))
        for pattern, put in UNLESS_KEPT:
            text = pattern.sub(unless(lambda one: one in self.contacts or procedural.get(one, False), put), text)

        def put_id(found: re.Match[str]) -> str:
            is_kept = procedural.get(found[1], True) or any(found[1] in one or one in found[1] for one in self.contacts)
            return found[0] if is_kept else _instead(found)

        text = IDENTIFIER.sub(put_id, text)
        return without_names(text, self.names, names)

    def clean_all(self, value: Any) -> Any:
        """The value with each text in it redacted at any depth; numbers too: they may be of a card or an account."""
        if isinstance(value, Mapping):
            return {self.clean(str(key)): self.clean_all(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.clean_all(each) for each in value]
        if isinstance(value, bool) or value is None:
            return value
        cleaned = self.clean(str(value))
        return value if cleaned == str(value) else cleaned


def redact(text: str, role: str = "") -> str:
    """The text with placeholders for everything sensitive, judged by itself."""
    return Redaction().clean(text, role)


def strip(text: str) -> str:
    """The text without anything sensitive and without placeholders, for searching."""
    return " ".join(PLACEHOLDER.sub(" ", redact(text, "query")).split()) or text


def redact_draft(draft: Draft, by: Redaction) -> Draft:
    """The draft with every text of it redacted."""
    book = draft.playbook.rewritten(lambda text: by.clean(text))
    steps = tuple(replace(step, title=titled(step.title, "Next step")) for step in book.steps)
    return Draft(
        playbook=replace(book, title=titled(book.title, "Customer problem"), steps=steps),
        problem=by.clean(draft.problem),
        keywords=tuple(word for word in draft.keywords if by.clean(word) == word),
    )


def _told(said: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is known by a word beside it in one place, and has to go from all others, with its placeholder."""
    for role, text in said:
        for pattern, put in RULES:
            for found in pattern.finditer(text) if pattern.groups == 1 else ():
                one, instead = found[1], PLACEHOLDER.search(put(found)[found.start(1) - found.start() :])
                if instead and found[0] != put(found) and len(one) > 3 and not is_english(one.lower()):
                    yield one, instead[0]
        if role == "customer":
            yield from ((found[1], put) for pattern, put in PLACES for found in pattern.finditer(text))


def _without_people(procedural: dict[str, bool], names: Iterable[str]) -> dict[str, bool]:
    """The same, but an identifier that has a name in it belongs to the case."""
    named = [name.lower() for name in names if len(name) > 3] if procedural else []
    return {one: kept and not any(name in one.lower() for name in named) for one, kept in procedural.items()}


def _is_of_business(found: re.Match[str], is_known: bool) -> bool:
    """Whether an address that the agent wrote is the business's own, as of a hotline, a mailbox or a router."""
    before = clause(found)
    if SENT_TO.search(before):
        return False
    if (
        is_known
        or OURS_AFTER.match(found.string, found.end())
        or (OUR.search(before) and not re.search(r"\byours?\b", before))
    ):
        return True
    mailbox = re.findall(r"[^\W\d_]+", found[0].partition("@")[0])  # claims, no-reply; but no name
    return "@" in found[0] and all(is_english(word.lower()) and not is_person(word.capitalize()) for word in mailbox)


def _instead(found: re.Match[str]) -> str:
    before = clause(found)
    if found[1].isdigit() and not noun_before(before):
        return "[number]"
    kind = "[code]" if re.search(r"\bcode\b[^\w]*(?:is|was)?[^\w]*$", before) else "[reference id]"
    return "#" * found[0].startswith("#") + kind
