"""Removes from transcripts what must not be kept: addresses, numbers, secrets, names, identifiers of the case.

An identifier may belong to the case (an order, a ticket, an account) or to the procedure (a form, an article, an error
code, a model, a version), which is what a playbook is learned for.  They look alike, so the words around each
occurrence, who wrote it and its length are weighed together over the whole conversation.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from refdesk.skills.model import Draft
from refdesk.skills.vocabulary import (
    IDENTIFIER,
    PLACEHOLDER,
    clause,
    given_names,
    identifiers,
    noun_before,
    procedural_ids,
    words,
)
from refdesk.text.analyse import is_english

_LEADING = re.compile(rf"^(?:\W*{PLACEHOLDER.pattern}|['’]s\b|\W|(?:here|and|is|was|says|said|from)\b)++", re.I)

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
    try:
        ipaddress.ip_address(found[0])
    except ValueError:
        return found[0]
    return "[IP address]"


def _phone(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found[0])
    return "[phone]" if 7 <= len(digits) <= 15 else found[0]


def _labelled(placeholder: str) -> _Replace:
    def put(found: re.Match[str]) -> str:
        start, end = (place - found.start() for place in found.span(1))
        return found[0][:start] + placeholder + found[0][end:]

    return put


def _plain(placeholder: str) -> _Replace:
    return lambda found: placeholder


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
        _plain("[email]"),
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
    (re.compile(r"\b(?:ending|ends)(?:\s+in|\s+with)?\s+(\d{4})\b", re.I), _labelled("[card number]")),
    (re.compile(r"\b(?:cvv|cvc|security code)\b\D{0,8}(\d{3,4})\b", re.I), _labelled("[code]")),
    (re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"), _plain("[id number]")),
    (
        re.compile(r"\b(?:user ?name|user|login|handle)(?: is|:)? ([A-Za-z]++(?:[._][A-Za-z]++)++)(?![\w-])", re.I),
        _labelled("[user name]"),
    ),
    (
        re.compile(
            r"\b(?:plate|registration|car|van|kennzeichen|immatriculation|matr[ií]cula|placa)\b(?:\s++(?:number|is|was|n[ro]))*+"
            r"\W{1,3}((?=[A-Z0-9 -]{0,8}\d)[A-Z0-9]{1,4}(?:[ -][A-Z0-9]{1,4}){1,2})\b",
            re.I,
        ),
        _labelled("[plate number]"),
    ),
    (
        re.compile(
            r"\b(?:born|birth(?:day)?|dob|geboren|née?|nacid[oa]|nascid[oa])\b\D{0,12}(\d{1,4}[./-]\d{1,2}[./-]\d{2,4})",
            re.I,
        ),
        _labelled("[birth date]"),
    ),
)

# Not applied to what belongs to the procedure.
_UNLESS_KEPT: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    (re.compile(r"(?<![\w.-])\+\d[\d\s().-]{6,18}\d(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.-])\(?\d{3,5}\)?[\s.-]\d{3,4}[\s.-]?\d{3,4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.-])0\d{2,4}[\s/-]?\d{3,4}[\s-]?\d{2,5}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.$€£-])\d{3}-\d{4}(?![\w-])"), _phone),
    (
        re.compile(
            r"\b\d{1,5}[A-Za-z]?\s+(?:[A-Z][\w'.-]*\s+){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Court|Ct"
            r"|Boulevard|Blvd|Way|Place|Pl|Terrace|Close|Square|Sq)\b\.?(?:,?\s+(?:Apt|Unit|Suite|Flat|#)\s?\w+)?"
            r"|\b(?:Via|[Rr]ue|Calle|Rua|Avenida|[Aa]venue|Plaza|Praça)\s+(?:[\w'’.]+,?\s+){1,4}?\d{1,4}\b"
            r"|\b\d{1,4},?\s+(?:rue|avenue|boulevard|place|chemin|quai)\s+(?:d[eu]s?\s+|de la\s+|l')?\w+"
            r"|\b[Ff]lat\s\d+\w?\b"
            r"|\b[A-ZÄÖÜ][a-zäöüß]+(?:straße|strasse|str\.|weg|platz|allee|gasse)\s+\d{1,4}\s?[a-z]?\b"
        ),
        _plain("[address]"),
    ),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b", re.I), _plain("[secret]")),
    (re.compile(r"\b(?=\w*\d)(?=\w*[A-Z])(?=\w*[a-z])\w{20,}\b"), _plain("[secret]")),
)

_ROLES = words(
    """agent support assistant rep representative bot system customer user client caller visitor shopper human ai
    advisor operator specialist member guest buyer subscriber note internal supervisor manager team desk help billing
    you me chatbot technician engineer admin summary subject resolution action issue problem step steps update result
    kunde kundin cliente agente berater beraterin conseiller conseillère atendente usuario utilizador"""
)
_NOT_A_NAME = _ROLES | words(
    """a an the not just really so sorry still very having trying getting looking calling writing happy glad sure here
    there back about from urgent regarding using unable afraid thanks thank hi hello all everyone again yes no ok
    okay it is was now and but for with sir madam folks guys"""
)
_CAP = r"[A-ZÀ-ÖØ-Þ][\w'’-]{1,40}+"  # a word with a capital
_SPEAKER = re.compile(
    r"^[^\S\n]*+(?:[\[(][^\])\n]{1,30}[\])][^\S\n]*+)?[*_]{0,3}([A-ZÀ-ÖØ-Þ][\w'’.-]+(?: [A-ZÀ-ÖØ-Þ][\w'’.-]+){0,2})"
    r"[*_]{0,3}(?:[^\S\n]*+\(([^)\n]*)\))?[*_]{0,3}[^\S\n]*+:",
    re.M,
)
_PERSON = re.compile(r"[A-Z][a-z'’-]+(?: [A-Z]\.)?(?: [A-Z][\w'’-]+){0,2}")
# Capitalised words in parentheses after a speaker's role that are no names.
_NOT_A_PERSON = words(
    """tier level line plan premium pro basic free business enterprise gold silver platinum vip trial verified new sales
    phone chat email mail web mobile app online offline first second third senior junior english returning typing
    reply via day shift night morning evening live voice call continued later north south east west account accounts
    payments service services technical tech product portal onsite remote retail store public private unknown
    anonymous"""
)
_INTRODUCED = re.compile(
    r"(?:\b[Mm]y name(?:'s| is)|\b[Nn]ame:|\b[Nn]ame(?: is)?|\b[Nn]ame on (?:it|the account|the order) is"
    rf"|\b[Mm]ein Name ist|\b[Jj]e m'appelle|\b[Mm]e llamo|\b[Mm]e chamo"
    rf"|\b(?:Soy|Sou|Je suis|Ich bin)(?= {_CAP} {_CAP}))\s+({_CAP}(?: {_CAP}){{0,2}})"
    rf"|\b[Tt]his is ({_CAP}(?: {_CAP})?)(?=,| (?:from|here|calling|speaking|with)\b)"
    r"|\b(?:[Mm]y|[Hh]is|[Hh]er|[Oo]ur|the|account) (?:son|daughter|wife|husband|mother|father|mum|mom"
    rf"|dad|friend|colleague|boss|partner|owner|tenant|brother|sister|employee|neighbour|neighbor|assistant"
    rf"|manager) ({_CAP}(?: {_CAP})?)"
)
_I_AM = re.compile(rf"\bI(?: am|['’]m) ({_CAP}(?: {_CAP}){{1,3}})(?=[,.!;\n]|$| (?:from|here|calling|with|and)\b)")
_GREETED = re.compile(
    r"\b(?:[Hh]i|[Hh]ello|[Hh]ey|Dear|[Tt]hanks|[Tt]hank you|Welcome|[Ss]orry|[Cc]all me|Bonjour|Hola|Olá|Hallo|Merci"
    rf"|Gracias|Danke)(?:,| there,)? ({_CAP})(?=[,.!?\n]|$)",
    re.M,
)
_TITLED = re.compile(
    rf"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herrn?|Frau|Madame|Mme|Monsieur|Señora?|Sra?|Senhora?)\b\.? ({_CAP})"
)
_HERE = re.compile(rf"(?:^|[.!?,:] )({_CAP}(?: {_CAP})?) (?:here|speaking|calling|hier|is my name)\b", re.M)
_OF_ROLE = re.compile(
    r"\b(?i:customer|patient|client|guest|passenger|subscriber|tenant|member|owner|driver|engineer|technician|examiner"
    r"|inspector|colleague|nurse|doctor|teacher|trainer|clerk|courier|adviser|pupil|student|witness|contact)"
    rf"(?: is| was)?(?: [A-Z]\.)?( {_CAP}(?: {_CAP})?)"
    rf"|\bI(?: am|['’]m)( {_CAP})(?=[,.!;\n]|$| (?:from|here|calling|with|and|in|of)\b)"
)
_CALLED = re.compile(r"([\w,]) ([A-Z][a-zà-ÿ]{2,})\b(?=([.!?]|(?: is| was| will| has| helped| comes)\b)?)")
# At the start of a turn or sentence: "Leonor Duarte, born in May", "Wim Jansen."
_ALONE = re.compile(rf"(?:^|[.!?:] )({_CAP}(?: {_CAP}){{1,3}})(?=[,.] ?|\n|$)", re.M)
_INITIAL = re.compile(rf"\b(?:patient|of|by|for|from|to|with|and|,) [A-Z]\. ({_CAP})(?=[,.;!?\n]|$)")
_GIVEN_AND_LAST = re.compile(rf"(?:([\w,] )|\b)({_CAP}) ({_CAP})\b(?! ?\d)")
# Set off by a comma: "Was that all, Nadia?", "order 7781, Bill Hartley."
_APART = re.compile(
    rf", ([A-Z][a-z]+)(?=[.!?]\s*$)|(?:\d|[Hh]ello|[Hh]i|\]), ({_CAP} {_CAP})(?=[.,;!]|$)"
    r"|\b(?i:ask for|contact|attn|speak to) ([A-Z][a-zà-ÿ]+)",
    re.M,
)

_JOINED = re.compile(r"\w+(?:['’.-]\w+){0,7}")
_JOINT = re.compile(r"(['’.-])")
_NAMES = re.compile(r"\[name\](?:\s++\[name\])+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is known of a conversation: the people in it, and which of its identifiers belong to the procedure."""

    names: frozenset[str] = frozenset()
    procedural: Mapping[str, bool] = field(default_factory=dict)  # by identifier

    @classmethod
    def of(cls, said: Iterable[tuple[str, str]], whole: str = "", known: str = "") -> Redaction:
        """The redaction for texts by their roles; `whole` names people, `known` is the playbook as it stands."""
        names = frozenset(_names(whole))
        found = procedural_ids([(role, _formal(text)) for role, text in said])
        return cls(names, _without_people(found, names) | dict.fromkeys(identifiers(known), True))

    def clean(self, text: str, role: str = "") -> str:
        """The text with placeholders for everything sensitive."""
        text = _formal(text)
        names = _names(text)
        procedural = {**_without_people(procedural_ids([(role, text)]), names), **self.procedural}

        def put_unless_kept(put: _Replace) -> _Replace:
            return lambda found: found[0] if procedural.get(found[0]) else put(found)

        for pattern, put in _UNLESS_KEPT:
            text = pattern.sub(put_unless_kept(put), text)
        text = IDENTIFIER.sub(lambda found: found[0] if procedural.get(found[1], True) else _instead(found), text)
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


def titled(title: str, otherwise: str) -> str:
    """The title without placeholders at its start; another one where nothing else is left of it."""
    rest = _LEADING.sub("", title) if PLACEHOLDER.match(title.lstrip("#\"'“( ")) else title
    return rest[:1].upper() + rest[1:] if any(map(str.isalpha, PLACEHOLDER.sub("", rest))) else otherwise


def _without_people(procedural: dict[str, bool], names: Iterable[str]) -> dict[str, bool]:
    """The same, but an identifier that has a name in it belongs to the case."""
    named = [name.lower() for name in names if len(name) > 3] if procedural else []
    return {one: kept and not any(name in one.lower() for name in named) for one, kept in procedural.items()}


def _formal(text: str) -> str:
    """The text without what is recognised by its form alone."""
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return text


def _instead(found: re.Match[str]) -> str:
    before = clause(found)
    if found[1].isdigit() and not noun_before(before, found[1]):
        return "[number]"
    kind = "[code]" if re.search(r"\bcode\b[^\w]*(?:is|was)?[^\w]*$", before) else "[reference id]"
    return "#" * found[0].startswith("#") + kind


def _names(text: str) -> set[str]:
    labels = _SPEAKER.findall(text)
    speakers = Counter(name for name, _ in labels if not _ROLES & _lower(name))
    # "Customer (Jane Doe):" and "Jane Doe (customer):" name a person: the role says so.
    beside = [name if _ROLES & _lower(other) else other for name, other in labels if _ROLES & _lower(f"{name} {other}")]
    titled = [each for each in beside if _PERSON.fullmatch(each)] + _I_AM.findall(text)
    persons = [each for each in titled if not (_ROLES | _NOT_A_PERSON) & _lower(each)]
    introduced = ["".join(each) for each in _INTRODUCED.findall(text)]
    found: set[str] = set()
    # A label that occurs once may be a heading; one that occurs again is a person.
    for phrase in [
        *(name for name, times in speakers.items() if times > 1),
        *persons,
        *introduced,
        *_GREETED.findall(text),
        *_TITLED.findall(text),
        *_HERE.findall(text),
        *_INITIAL.findall(text),
        *(
            word
            for named in ("".join(each) for each in _OF_ROLE.findall(text))
            for word in named.split()
            if word.isalpha() and not (word.isupper() or is_english(word.lower()))
        ),
        *(
            name
            for before, name, end in _CALLED.findall(text)
            if name in given_names() or (before == "," and end and not is_english(name.lower()))
        ),
        *(
            named
            for named in _ALONE.findall(text)
            if all(word.isalpha() and not word.isupper() for word in named.split())
            and not all(is_english(word.lower()) for word in named.split())
        ),
        *(
            f"{given} {last}"
            for within, given, last in _GIVEN_AND_LAST.findall(text)
            # A last name is often no English word; the first word of a sentence has its capital for another reason.
            if given in given_names()
            or (within and not (given.isupper() or last.isupper() or is_english(last.lower())))
        ),
        *("".join(each) for each in _APART.findall(text)),
    ]:
        found.update(w for w in phrase.strip(".'’-").split() if len(w) > 1 and w.lower() not in _NOT_A_NAME)
    return found


def _lower(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def without_names(text: str, names: Iterable[str]) -> str:
    """The text with one placeholder for each of these names, or for several in a row."""
    known = frozenset(names)
    if not known:
        return text

    def put(found: re.Match[str]) -> str:
        # A pattern of all names would be tried at each word, so each word is looked up, with what is joined to it.
        parts = _JOINT.split(found[0])
        out, at = "", 0
        while at < len(parts):
            end = next((end for end in range(len(parts), at, -1) if "".join(parts[at:end]) in known), 0)
            out += "[name]" if end else parts[at]
            at = end or at + 1
        return out

    return _NAMES.sub("[name]", _JOINED.sub(put, text))
