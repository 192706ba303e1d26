"""What must not leave a transcript?  Addresses, numbers, secrets and names, each replaced by what it was."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable

from refdesk.skills.model import Draft
from refdesk.skills.vocabulary import words

_PLACEHOLDER = re.compile(r"\[(?:[a-z]+ )?(?:address|number|name|secret|code|id|phone|email|IBAN|IP)\]")

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


# Looks like an order id but says what happened, and so belongs in a playbook.
_NOT_AN_ID = r"(?!(?:ERR|ERROR|HTTP|HTTPS|CVE|RFC|ISO|UTF|SHA|TLS|KB|USB|WPA|IEEE|PS|IOS|MP|COVID)\b)"

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
            r"\b(?:pass(?:word|code|phrase|wd)?|pwd|secret|api[ _-]?key|access[ _-]?key|token|pin)\b"
            r"(?:\s+(?:is|was|of)\b|\s*[:=])\s*[\"'“]?((?!reset|expired|wrong|incorrect|not\b|the\b|being\b|correct|invalid"
            r"|required|still\b|too\b|same\b|now\b|on\b|in\b|never\b|also\b|already\b|set\b|sent\b|at\b)[^\s\"'”,;&]{3,})",
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
    (re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-]*\d)"), _card),
    (re.compile(r"\b(?:ending|ends)(?:\s+in|\s+with)?\s+(\d{4})\b", re.I), _labelled("[card number]")),
    (re.compile(r"\b(?:cvv|cvc|security code)\b\D{0,8}(\d{3,4})\b", re.I), _labelled("[code]")),
    (re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"), _plain("[id number]")),
    (
        re.compile(
            r"\b(?:order|invoice|ticket|case|booking|reservation|confirmation|tracking|reference|account|customer|member"
            r"|policy|claim|serial|transaction|payment|subscription|return|rma|ref|shipment|parcel)"
            r"(?:\s++(?:number|no|num|id|code|ref|reference)){0,3}\.?\s*+(?:is|was|[:#=]){0,3}\s*+"
            r"((?=[A-Z0-9-]*\d)(?=[A-Z0-9-]{4})[A-Z0-9]+(?:-[A-Z0-9]+)*)(?![\w-])",
            re.I,
        ),
        _labelled("[reference id]"),
    ),
    (
        re.compile(
            r"(?<!error )(?<!status )\b(?:code|otp|one-time (?:code|password))\b[^\d\n]{0,24}?\b(\d{4,8})\b", re.I
        ),
        _labelled("[code]"),
    ),
    (re.compile(rf"\b{_NOT_AN_ID}[A-Z]{{2,6}}[-_]?\d[\dA-Z]{{3,}}(?:-\w+)*\b"), _plain("[reference id]")),
    (re.compile(rf"\b{_NOT_AN_ID}[A-Z]{{2,6}}-\d{{3,}}(?:-\w+)*\b"), _plain("[reference id]")),
    (re.compile(r"(?<!\w)#\s?(?=[A-Z0-9-]*\d)[A-Z0-9][A-Z0-9-]{2,}\b", re.I), _plain("[reference id]")),
    (re.compile(r"(?<![\w.-])\+\d[\d\s().-]{6,18}\d(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.-])\(?\d{3,5}\)?[\s.-]\d{3,4}[\s.-]?\d{3,4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.-])0\d{2,4}[\s/-]?\d{3,4}[\s-]?\d{2,5}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.$€£-])\d{3}-\d{4}(?![\w-])"), _phone),
    (
        re.compile(
            r"\b\d{1,5}[A-Za-z]?\s+(?:[A-Z][\w'.-]*\s+){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Court|Ct"
            r"|Boulevard|Blvd|Way|Place|Pl|Terrace|Close|Square|Sq)\b\.?(?:,?\s+(?:Apt|Unit|Suite|Flat|#)\s?\w+)?"
        ),
        _plain("[address]"),
    ),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b", re.I), _plain("[secret]")),
    (re.compile(r"\b(?=\w*\d)(?=\w*[A-Z])(?=\w*[a-z])\w{20,}\b"), _plain("[secret]")),
    (re.compile(r"(?<![\w.$€£,-])\d{6,}(?![\w%]|[.,]\d)"), _plain("[number]")),
)

_ROLES = words(
    """agent support assistant rep representative bot system customer user client caller visitor shopper human ai
    advisor operator specialist member guest buyer subscriber note internal supervisor manager team desk help billing
    you me chatbot technician engineer admin summary subject resolution action issue problem step steps update result"""
)
_NOT_A_NAME = _ROLES | words(
    """a an the not just really so sorry still very having trying getting looking calling writing happy glad sure here
    there back about from urgent regarding using unable afraid thanks thank hi hello all everyone again yes no ok
    okay it is was now and but for with sir madam folks guys"""
)
_SPEAKER = re.compile(
    r"^[^\S\n]*+(?:[\[(][^\])\n]{1,30}[\])][^\S\n]*+)?[*_]{0,3}([A-Z][\w'’.-]+(?: [A-Z][\w'’.-]+){0,2})"
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
    r"(?:\b[Mm]y name(?:'s| is)|\b[Nn]ame:|\b[Nn]ame is|\b[Nn]ame on (?:it|the account|the order) is)"
    r"\s+([A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,2})"
    r"|\b[Tt]his is ([A-Z][\w'’-]+(?: [A-Z][\w'’-]+)?)(?=,| (?:from|here|calling|speaking|with)\b)"
)
_I_AM = re.compile(r"\bI(?: am|['’]m) ([A-Z][a-z'’-]+ [A-Z][\w'’-]+)(?=[,.!;\n]|$| (?:from|here|calling|with|and)\b)")
_GREETED = re.compile(
    r"\b(?:Hi|Hello|Hey|Dear|Thanks|[Tt]hank you|Welcome|Sorry|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)(?:,| there,)?"
    r" ([A-Z][a-z'’-]+)(?=[,.!?\n]|$)",
    re.M,
)

_JOINED = re.compile(r"\w+(?:['’.-]\w+){0,7}")
_JOINT = re.compile(r"(['’.-])")
_NAMES = re.compile(r"\[name\](?:\s++\[name\])+")


def redact(text: str) -> str:
    """The text with placeholders for everything sensitive."""
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return without_names(text, _names(text))


def strip(text: str) -> str:
    """The text without anything sensitive and without placeholders, for searching."""
    return " ".join(_PLACEHOLDER.sub(" ", redact(text)).split()) or text


def redact_draft(draft: Draft, names: Iterable[str] = ()) -> Draft:
    """The draft with every text of it redacted; `names` are people known from the transcript."""
    known = tuple(names)

    def clean(text: str) -> str:
        return without_names(redact(text), known)

    return Draft(
        playbook=draft.playbook.rewritten(clean),
        problem=clean(draft.problem),
        keywords=tuple(word for word in draft.keywords if clean(word) == word),
    )


def names_in(text: str) -> tuple[str, ...]:
    """The people that a transcript names: speakers, and those who are greeted or introduced."""
    return tuple(sorted(_names(text)))


def _names(text: str) -> set[str]:
    labels = _SPEAKER.findall(text)
    speakers = Counter(name for name, _ in labels if not _ROLES & _lower(name))
    # "Customer (Jane Doe):" and "Jane Doe (customer):" name a person: the role says so.
    beside = [name if _ROLES & _lower(other) else other for name, other in labels if _ROLES & _lower(f"{name} {other}")]
    titled = [each for each in beside if _PERSON.fullmatch(each)] + _I_AM.findall(text)
    persons = [each for each in titled if not (_ROLES | _NOT_A_PERSON) & _lower(each)]
    introduced = [first or second for first, second in _INTRODUCED.findall(text)]
    found: set[str] = set()
    # A label that occurs once may be a heading; one that occurs again is a person.
    for phrase in [
        *(name for name, times in speakers.items() if times > 1),
        *persons,
        *introduced,
        *_GREETED.findall(text),
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
