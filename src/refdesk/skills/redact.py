"""Removes from transcripts what must not be kept: addresses, numbers, secrets, names, identifiers of the case.

An identifier may belong to the case (an order, a ticket, an account) or to the procedure (a form, an article, an error
code, a model, a version), which is what a playbook is learned for.  They look alike, so the words around each
occurrence, who wrote it and its length are weighed together over the whole conversation.
"""

from __future__ import annotations

import ipaddress
import re
import string
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from refdesk.skills.answers import answers
from refdesk.skills.format import titled
from refdesk.skills.identifiers import IDENTIFIER, QUANTITY, clause, identifiers, noun_before, procedural_ids
from refdesk.skills.model import Draft
from refdesk.skills.people import names_in, without_names
from refdesk.skills.vocabulary import PLACEHOLDER, is_person
from refdesk.text import analyse
from refdesk.text.analyse import is_english

_VERSION_OF = re.compile(
    r"\b(?:app|version|firmware|fw|build|release|driver|software|bios|client|upgrade|update|flash)"
    r"(?: (?:to|below|above|before|from|is|at least))? $",
    re.I,
)

_Replace = Callable[[re.Match[str]], str]


def _luhn(digits: str) -> bool:
    doubled = [int(d) * (2 if place % 2 else 1) for place, d in enumerate(reversed(digits))]
    return sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0


def _card(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found[0])
    return "[card number]" if _luhn(digits) else "[number]"


def _iban(found: re.Match[str]) -> str:
    packed = re.sub(r"\s", "", found[0]).upper()
    if not 15 <= len(packed) <= 34:
        return found[0]
    number = "".join(str(int(c, 36)) for c in packed[4:] + packed[:4])
    return "[IBAN]" if int(number) % 97 == 1 else found[0]


def _ip(found: re.Match[str]) -> str:
    if _VERSION_OF.search(clause(found)):
        return found[0]
    try:
        ipaddress.ip_address(found[0])
    except ValueError:
        return found[0]
    return "[IP address]"


def _email(found: re.Match[str]) -> str:
    return "[email]"


def _phone(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found[0])
    return "[phone]" if 7 <= len(digits) <= 15 else found[0]


def _user_name(found: re.Match[str]) -> str:
    start, end = (place - found.start() for place in found.span(1))
    is_name = (
        not is_english(found[1].lower()) and not found[1].isupper() and not found[1].endswith(("ed", "ing", "able"))
    )
    return f"{found[0][:start]}[user name]{found[0][end:]}" if is_name else found[0]


def _locator(found: re.Match[str]) -> str:
    start = found.start(1) - found.start()
    return found[0] if is_english(found[1].lower()) else f"{found[0][:start]}[reference id]"


def _grouped(found: re.Match[str]) -> str:
    first = found.start() + len(found[0]) - len(found[0].lstrip(string.ascii_uppercase + " "))
    is_number = sum(map(str.isdigit, found[0])) > 5 and not QUANTITY.match(found.string, first)
    return "[number]" if is_number else found[0]


def _street(found: re.Match[str]) -> str:
    """An address in small letters; not "10 minutes down the road"."""
    named = set(found[1].split())
    is_address = not named & analyse.STOP_TERMS and not QUANTITY.match(found.string, found.start())
    return "[address]" if is_address else found[0]


def _labelled(placeholder: str) -> _Replace:
    def put(found: re.Match[str]) -> str:
        start, end = (place - found.start() for place in found.span(1))
        return found[0][:start] + placeholder + found[0][end:]

    return put


def _plain(placeholder: str) -> _Replace:
    return lambda found: placeholder


_USER = (
    r"\b(?:user ?name|user(?: id)?|login|handle|nick(?:name)?|gamer ?tag|screen name|profile name|account name|tenant"
    r"|workspace|organi[sz]ation|subdomain|sign in as|log in as|logged in as|yours(?= is )|mine(?= is )"
    r"|(?:account|profile|avatar|character)(?= is |: ?|=| under ))(?: is| was| under|:|=)? "
)
_MONTH = (
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mär|Mai|Okt|Dez|janv|févr|mars|avr|juin|juil|août|ene|abr|ago|dic"
    r"|fev|set|out|dez)[a-zé]*\.?"
)
_DATE = (
    r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{2,4}|\d{1,2}(?:st|nd|rd|th)?\.? (?:of |de )?"
    rf"{_MONTH},? (?:de )?(?:\d{{4}}|['’]\d\d)|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})"
)
_BORN = (
    r"\b(?:born|birth(?:day|date)?|d\.?o\.?b|geboren|geburtsdatum|née?|naissance|nacid[oa]|nacimiento|nascid[oa]"
    r"|nascimento)\b"
)
_STREET = (
    "Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Court|Ct|Boulevard|Blvd|Way|Place|Pl|Terrace|Close|Square|Sq|Gardens"
    "|Crescent|Cres|Grove|Hill|Park|Row|Mews|View|Walk|Green|Quay|Wharf|Parade|Circle|Cir|Trail|Parkway|Pkwy|Highway|Hwy"
    "|Alley|Loop|Path|Rise|Vale|Meadows?|Heights|Yard|Bridge|Gate|Embankment|Promenade|Esplanade|Broadway|Fields?|Common"
    "|End|Croft|Farm|House|Cottage|Villas?|Buildings?|Mount|Ridge|Valley|Orchard|Strand|Crossing|Point|Bay|Turnpike|Pike"
)

# In this order: what is recognised by its form alone before what is recognised by the words around it.
_RULES: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.S), _plain("[secret]")),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), _plain("[secret]")),
    (
        re.compile(
            r"\b(?:sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abprs]|hf|npm|pypi|dop_v1|shpat)[-_][\w-]{10,}"
            r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"
        ),
        _plain("[secret]"),
    ),
    (re.compile(r"[?&](?:token|key|sig|signature|code|auth|session|password)=([^\s&#]+)", re.I), _labelled("[secret]")),
    (re.compile(r"\b(?:Bearer|Basic)\s+([\w.~+/=-]{12,})", re.I), _labelled("[secret]")),
    (
        re.compile(
            r"\b(?:pass(?:word|code|phrase|wd)?|pwd|secret|api[ _-]?key|access[ _-]?key|token|pin|auth code)\b"
            r"(?:\s+(?:is|was|of)\b|\s*[:=]|(?<=auth code))\s*[\"'“]?((?!reset|expired|wrong|incorrect|not\b|the\b"
            r"|being\b|correct|invalid|required|still\b|too\b|same\b|now\b|on\b|in\b|never\b|also\b|already\b|set\b|sent\b|at\b)"
            r"[^\s\"'”,;&]{3,})",
            re.I,
        ),
        _labelled("[secret]"),
    ),
    (re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"), _plain("[secret]")),
    # Possessive, so that a pasted attachment, one long run of such characters, is read once.
    (
        re.compile(r"(?<![\w.+%-])[\w.+%-]++(?:@|\s?[(\[]at[)\]]\s?)[\w-]+(?:\.[\w-]+)+", re.I),
        _email,
    ),
    (re.compile(r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){2,7}(?:\s?[A-Z0-9]{1,4})?\b", re.I), _iban),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)"), _ip),
    (re.compile(r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{1,4}(?![\w:])", re.I), _ip),
    (re.compile(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", re.I), _plain("[device id]")),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I), _plain("[reference id]")),
    (re.compile(r"(?<![\w:])(?:[0-9A-F]{2} ){4,}[0-9A-F]{2}(?![\w:])"), _plain("[device id]")),
    (re.compile(r"(?<![\w-])(?!97[89]-)\d(?:[ -]?\d){12,18}(?![\w-]*\d)"), _card),  # but not an ISBN
    (
        re.compile(r"/(?:u|users?|accounts?|profiles?|customers?|orders?|tickets?|cases?|members?)/([\w-]*\d[\w-]*)"),
        _labelled("[reference id]"),
    ),
    (re.compile(r"[/\\](?:[Uu]sers|home)[/\\]((?!Shared\b|Public\b)[\w.-]+)(?=[/\\])"), _labelled("[user name]")),
    (re.compile(r"\b(?:ending|ends)(?:\s+in|\s+with)?\s+(\d{4})\b", re.I), _labelled("[card number]")),
    (re.compile(r"\b(?:cvv|cvc|security code)\b\D{0,8}(\d{3,4})\b", re.I), _labelled("[code]")),
    (re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"), _plain("[id number]")),
    (re.compile(rf"{_USER}([A-Za-z]++(?:[._-][A-Za-z]++)++)(?![\w-])", re.I), _labelled("[user name]")),
    (re.compile(rf"{_USER}[\"'“‘]?([A-Za-z]{{4,}}+)(?![\w'’-])", re.I), _user_name),
    (
        re.compile(
            r"\b(?:plate|registration|car|van|kennzeichen|immatriculation|matr[ií]cula|placa)\b(?:\s++(?:number|is|was|n[ro]))*+"
            r"\W{1,3}((?=[A-Z0-9 -]{0,8}\d)[A-Z0-9]{1,4}(?:[ -][A-Z0-9]{1,4}){1,2})\b",
            re.I,
        ),
        _labelled("[plate number]"),
    ),
    (re.compile(rf"{_BORN}[^\d\n.]{{0,30}}?\b({_DATE})", re.I), _labelled("[birth date]")),
    # Postcodes: British, Irish, Canadian, and those after a word that says so.
    (
        re.compile(
            r"\b(?:[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[\dW] (?=\d*[A-Z])"
            r"(?=[A-Z]*\d)[A-Z\d]{4}|[A-Z]\d[A-Z] \d[A-Z]\d)\b"
        ),
        _plain("[postcode]"),
    ),
    (
        re.compile(
            r"\b(?:post ?code|zip(?: ?code)?|eircode|plz|postleitzahl|code postal)\W{0,3}(?:is |ist )?"
            r"([A-Z0-9-]*\d[A-Z0-9-]*(?: (?:\d[A-Z]{2}|[A-Z]{2}))?)\b",
            re.I,
        ),
        _labelled("[postcode]"),
    ),
    (re.compile(r"(?<=, )[A-Z]{2} \d{5}(?:-\d{4})?\b"), _plain("[postcode]")),
    # A locator of letters alone: "booking reference KQXTRW".
    (re.compile(r"\b(?i:book|reserv|confirm)(?i:\w{0,8})[^.!?\n]{1,40}?\b([A-Z]{6})\b"), _locator),
    (
        re.compile(
            r"\b(?i:booking|reservation|confirmation|pnr|locator|reference|record|ref|voucher|tracking)"
            r"(?: (?i:code|number|no|ref\w*|locator|is|:))*:? [\"'“‘]?([A-Z]{5,10})\b(?! [a-z]+ (?:form|error))"
        ),
        _locator,
    ),
)

# What the next turn answers to a question, or says of it.
_ANSWERS = (
    (re.compile(rf"{_BORN}[^\n]{{0,80}}\n[^\n]{{0,80}}?\b({_DATE})", re.I), "[birth date]"),
    (re.compile(r"\b(?:Are|are) you (?:still )?([a-z]+[\w.-]*[\d_.-]\w*)\?"), "[user name]"),
    (
        re.compile(
            r"(?<![\w.-])([A-Za-z][\w.-]{3,30}+)(?:[^\w\n]{0,3}\n\w{1,20}:)?[^\w\n]{1,3}(?:yes\W{1,3}|yep\W{1,3})?"
            r"(?:that['’]?s|is) (?:me|my (?:handle|user ?name|nick\w*|login|gamer ?tag))\b",
            re.I,
        ),
        "[user name]",
    ),
)

# Not applied to what belongs to the procedure.
_UNLESS_KEPT: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    (re.compile(r"(?<![\w.-])\+\d[\d\s().-]{6,18}\d(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.-])\(?\d{3,5}\)?[\s.-]\d{3,4}[\s.-]?\d{3,4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.-])0\d{1,4}(?:[\s/.-]?\d{2,4}){2,4}(?![\w-]|[.,]\d)"), _phone),
    (re.compile(r"\(\d{2,5}\)\s?\d[\d\s-]{4,9}\d(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.$€£-])\d{3}-\d{4}(?![\w-])"), _phone),
    (
        re.compile(
            rf"\b\d{{1,5}}[A-Za-z]?(?:[-/]\d+[A-Za-z]?)?,?\s+(?:[A-Z][\w'’.-]{{0,30}}+\s+){{1,3}}(?:{_STREET})\b\.?"
            r"(?:,?\s+(?:Apt|Unit|Suite|Flat|Floor|#)\.?\s?\w+)?"
            r"|(?<![\w-])(?:[A-Z][\w'’-]{1,30}+\s+){1,3}(?:Street|Avenue|Road|Lane|Drive|Boulevard|Terrace|Square|Crescent|Grove)\s+\d{1,5}[a-z]?\b(?!\.\d)"
            r"|\b(?:[Aa]pt|[Aa]partment|[Uu]nit|[Ss]uite|[Ff]lat|P\.?O\.? [Bb]ox)\.?\s#?\d+\w?\b(?=,| [A-Z])"
            r"|\b(?:Via|[Rr]ue|Calle|Rua|Avenida|[Aa]venue|Plaza|Praça)\s+(?:[\w'’.]+,?\s+){1,4}?\d{1,4}\b"
            r"|\b\d{1,4},?\s+(?:rue|avenue|boulevard|place|chemin|quai)\s+(?:d[eu]s?\s+|de la\s+|l')?\w+"
            r"|\b[Ff]lat\s\d+\w?\b"
            r"|\b[A-ZÄÖÜ][a-zäöüß]+(?:straße|strasse|str\.|weg|platz|allee|gasse)\s+\d{1,4}\s?[a-z]?\b"
        ),
        _plain("[address]"),
    ),
    (
        re.compile(
            r"(?<![\w./-])\d{1,5}[a-z]?,? ((?:[a-z][a-z'’.-]*\.? ){1,4})(?:street|st|avenue|ave|road|rd|lane|ln|drive"
            r"|boulevard|blvd|highway|hwy|terrace|crescent)\b(?:(?:,? [a-z]+){0,3}? [a-z]{2},? \d{5}\b)?"
        ),
        _street,
    ),
    (re.compile(r"(?<![\w.,-])(?:[A-Z]{1,3} ?)?\d{1,4}(?:[ -]\d{1,4}){2,}(?: ?[A-Z])?(?![\w.,-]*\w)"), _grouped),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b", re.I), _plain("[secret]")),
    (re.compile(r"\b(?=\w*\d)(?=\w*[A-Z])(?=\w*[a-z])\w{20,}\b"), _plain("[secret]")),
)


_CONTACTS = (
    *((pattern, put) for pattern, put in _RULES if put in (_email, _ip)),
    *((p, f) for p, f in _UNLESS_KEPT if f is _phone),
)
# Before an address of the business: a line or an office of it, or where the customer is sent.
_OUR = re.compile(
    r"\b(?:our|us (?:at|on|under)|hotline|helpline|switchboard|open|dns|gateway|server|browse to|go (?:in)?to"
    r"|(?:set|enter|open|use|ping|type)\b[^.]{0,20}\bIP"
    r"|(?:night|help|service|claims?|billing|records|returns|fraud|support|emergency|customer|duty|front|hot|free|toll-free"
    r"|press|legal|technical|medical)[ -]?(?:line|desk|team|office|number|department|cent(?:re|er)|mailbox|phone))\b"
    r"(?:\W+\w+){0,6}\W*$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is known of a conversation: the people in it, and which of its identifiers belong to the procedure."""

    names: frozenset[str] = frozenset()
    contacts: frozenset[str] = frozenset()  # addresses of the business, which a playbook needs
    answers: Mapping[str, str] = field(default_factory=dict)  # placeholders by what was answered to a question
    procedural: Mapping[str, bool] = field(default_factory=dict)  # by identifier

    @classmethod
    def of(cls, said: Iterable[tuple[str, str]], whole: str = "", known: str = "") -> Redaction:
        """The redaction for texts by their roles; `whole` names people, `known` is the playbook as it stands."""
        said = list(said)
        found = procedural_ids([(role, formal(text)) for role, text in said])
        given = {each[1]: put for pattern, put in _ANSWERS for each in pattern.finditer(whole)}
        # An answer may name an error or a form, too: "it is 88120, but I get E-31".
        given |= {one: put for one, put in answers(said) if one.isdigit() or not found.get(one)}
        called = {word for one, put in given.items() if put == "[name]" for word in one.split()}
        called = {word for word in called if len(word) > 2 and not is_english(word.lower())}
        names = frozenset(names_in(whole)) | called | set(map(str.capitalize, called))
        contacts = {
            each[0]
            for role, text in (*said, ("feedback", known))
            if role in ("agent", "feedback")
            for pattern, put in _CONTACTS
            for each in pattern.finditer(text)
            if put(each) != each[0] and _is_of_business(each, is_known=text == known)
        }
        return cls(
            names, frozenset(contacts), given, _without_people(found, names) | dict.fromkeys(identifiers(known), True)
        )

    def clean(self, text: str, role: str = "") -> str:
        """The text with placeholders for everything sensitive."""
        text = formal(text, self.contacts)
        for answer, placeholder in sorted(self.answers.items(), key=lambda one: -len(one[0])):
            text = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", placeholder, text)
        names = names_in(text, by_guess=not self.names and not self.procedural)
        procedural = {**_without_people(procedural_ids([(role, text)]), names), **self.procedural}

        kept = {one for one, is_kept in procedural.items() if is_kept} | self.contacts
        for pattern, put in _UNLESS_KEPT:
            text = pattern.sub(_unless(kept, put), text)

        def put_id(found: re.Match[str]) -> str:
            is_kept = procedural.get(found[1], True) or any(found[1] in one or one in found[1] for one in self.contacts)
            return found[0] if is_kept else _instead(found)

        text = IDENTIFIER.sub(put_id, text)
        return without_names(text, self.names | names)

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


def _without_people(procedural: dict[str, bool], names: Iterable[str]) -> dict[str, bool]:
    """The same, but an identifier that has a name in it belongs to the case."""
    named = [name.lower() for name in names if len(name) > 3] if procedural else []
    return {one: kept and not any(name in one.lower() for name in named) for one, kept in procedural.items()}


def formal(text: str, kept: Collection[str] = ()) -> str:
    """The text without what is recognised by its form alone, but for addresses to keep."""
    for pattern, put in _RULES:
        text = pattern.sub(_unless(kept, put), text)
    return text


def _unless(kept: Collection[str], put: _Replace) -> _Replace:
    return lambda found: found[0] if found[0] in kept else put(found)


def _is_of_business(found: re.Match[str], is_known: bool) -> bool:
    """Whether an address that the agent wrote is the business's own, as of a hotline, a mailbox or a router."""
    before = clause(found)
    if is_known or (_OUR.search(before) and not re.search(r"\byours?\b", before)):
        return True
    mailbox = re.findall(r"[^\W\d_]+", found[0].partition("@")[0])  # claims, no-reply; but no name
    return "@" in found[0] and all(is_english(word.lower()) and not is_person(word.capitalize()) for word in mailbox)


def _instead(found: re.Match[str]) -> str:
    before = clause(found)
    if found[1].isdigit() and not noun_before(before):
        return "[number]"
    kind = "[code]" if re.search(r"\bcode\b[^\w]*(?:is|was)?[^\w]*$", before) else "[reference id]"
    return "#" * found[0].startswith("#") + kind
