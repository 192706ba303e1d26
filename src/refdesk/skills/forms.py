"""What is sensitive by its form or by a word beside it: secrets, cards, addresses, phones, dates of birth, places."""

from __future__ import annotations

import ipaddress
import re
import string
from collections.abc import Callable, Collection

from refdesk.skills.identifiers import QUANTITY, clause
from refdesk.text import analyse
from refdesk.text.analyse import is_english

_VERSION_OF = re.compile(
    r"\b(?:app|version|firmware|fw|build|release|driver|software|bios|client|upgrade|update|flash)"
    r"(?: (?:to|below|above|before|from|is|at least))? $",
    re.I,
)

Replace = Callable[[re.Match[str]], str]


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


def _labelled(placeholder: str) -> Replace:
    def put(found: re.Match[str]) -> str:
        start, end = (place - found.start() for place in found.span(1))
        return found[0][:start] + placeholder + found[0][end:]

    return put


def _plain(placeholder: str) -> Replace:
    return lambda found: placeholder


_USER = (
    r"\b(?:user ?name|user(?: id)?|login|handle|nick(?:name)?|gamer ?tag|screen name|profile name|account name|tenant"
    r"|workspace|organi[sz]ation|subdomain|sign in as|log in as|logged in as|yours(?= is )|mine(?= is )"
    r"|(?:account|profile|avatar|character|(?:sub)?domain|host ?name|server)(?= is |: ?|=| under ))"
    r"(?: is| was| under|:|=)? "
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
    r"\b(?:born|birth(?:day|date)?|d\.?o\.?b|geb|geboren|geburtsdatum|née?|naissance|nacid[oa]|nacimiento|nascid[oa]"
    r"|nascimento)\b"
)
_STREET = (
    "Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Court|Ct|Boulevard|Blvd|Way|Place|Pl|Terrace|Close|Square|Sq|Gardens"
    "|Crescent|Cres|Grove|Hill|Park|Row|Mews|View|Walk|Green|Quay|Wharf|Parade|Circle|Cir|Trail|Parkway|Pkwy|Highway|Hwy"
    "|Alley|Loop|Path|Rise|Vale|Meadows?|Heights|Yard|Bridge|Gate|Embankment|Promenade|Esplanade|Broadway|Fields?|Common"
    "|End|Croft|Farm|House|Cottage|Villas?|Buildings?|Mount|Ridge|Valley|Orchard|Strand|Crossing|Point|Bay|Turnpike|Pike"
)

# In this order: what is recognised by its form alone before what is recognised by the words around it.
RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
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
            r"(?:\s+(?:is|was|of)\b(?: still)?|\s*[:=]|(?<=auth code)"
            r"|(?:(?<=password)|(?<=passcode)|(?<=pwd)|(?<=pin))(?= [^\s,;]*\d))\s*"
            r"[\"'“]?((?!reset|expired|wrong|incorrect|not\b|the\b"
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
    (
        re.compile(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b|\b(?=\d*[A-F])(?=[A-F]*\d)[0-9A-F]{12}\b", re.I),
        _plain("[device id]"),
    ),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I), _plain("[reference id]")),
    (re.compile(r"(?<![\w:])(?:[0-9A-F]{2} ){4,}[0-9A-F]{2}(?![\w:])"), _plain("[device id]")),
    (re.compile(r"(?<![\w-])(?!97[89]-)\d(?:[ -]?\d){12,18}(?![\w-]*\d)"), _card),  # but not an ISBN
    (
        re.compile(r"/(?:u|users?|accounts?|profiles?|customers?|orders?|tickets?|cases?|members?)/([\w-]*\d[\w-]*)"),
        _labelled("[reference id]"),
    ),
    # What a machine made up, at the end of a link: /b/9fK2wQz1.
    (
        re.compile(r"(?<=\w/)(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*[a-z])[A-Za-z0-9]{7,}(?![\w.-])"),
        _plain("[reference id]"),
    ),
    (re.compile(r"[/\\](?:[Uu]sers|home)[/\\]((?!Shared\b|Public\b)[\w.-]+)(?=[/\\])"), _labelled("[user name]")),
    (re.compile(r"\b(?:ending|ends)(?:\s+in|\s+with)?\s+(\d{4})\b", re.I), _labelled("[card number]")),
    (re.compile(r"\b(?:cvv|cvc|security code)\b\D{0,8}(\d{3,4})\b", re.I), _labelled("[code]")),
    (
        re.compile(
            r"\b(?:door|gate|entry|alarm|access|lock|lockbox|barrier|lobby|intercom|key ?safe|safe|locker)(?: code)?\b"
            r"(?: is| was|:)? ([#*]?(?=[A-Z]?\d)[A-Z0-9]{4,8}[#*]?)(?![\w-])",
            re.I,
        ),
        _labelled("[code]"),
    ),
    (
        re.compile(
            r"\b(?:network|ssid|wi-?fi|hotspot)(?: name| network)?(?: is|:)? ((?=\S*[_\d])\w[\w.-]{3,})(?![\w%])", re.I
        ),
        _labelled("[network id]"),
    ),
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
    # British and French plates are told by their form.
    (re.compile(r"\b[A-Z]{2}\d{2} [A-Z]{3}\b|\b[A-Z]{2}-\d{3}-[A-Z]{2}\b"), _plain("[plate number]")),
    (re.compile(rf"{_BORN}(?:(?<=geb)\.)?[^\d\n.]{{0,30}}?\b({_DATE})", re.I), _labelled("[birth date]")),
    (
        re.compile(r"(?<![\w.])[-−]?\d{1,2}\.\d{4,}°?(?: ?[NS])?[,;/ ] ?[-−]?\d{1,3}\.\d{4,}°?(?: ?[EWO]\b)?"),
        _plain("[address]"),
    ),
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
ANSWERS = (
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
UNLESS_KEPT: tuple[tuple[re.Pattern[str], Replace], ...] = (
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
            r"|\b(?:P\.?O\.? ?[Bb]ox|Postfach|[Aa]partado|[Bb]o[iî]te postale|[Cc]aixa postal)\s\d[\d ]*\b"
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


# Firms and houses by the word that ends or begins their name; one that the agent alone names may be our own.
_NAMED = r"(?:[A-ZÀ-ÖØ-Þ][\w'’&-]{1,30}+ (?:& |and |und |de |of )?)"
PLACES = (
    (
        re.compile(
            rf"\b({_NAMED}{{1,3}}(?:GmbH|AG|KG|OHG|Ltd|Limited|LLC|LLP|Inc|Corp|AS|ASA|A/S|AB|Oy|BV|NV|SA|SAS|SARL|SL|SpA"
            r"|Srl|Lda|PLC|plc|Pty|e\.V\.|eG))(?!\w)"
        ),
        "[name]",
    ),
    (
        re.compile(
            rf"(?:(?:^|[.!?,:;(] ?|\n)|\b(?i:at|in|from|to|of|is|by|with|near|for|and|address|the) )"
            rf"({_NAMED}{{1,2}}(?:Tower|House|Court|Lodge|Cottage|Manor"
            r"|Mansions|Farm|Barn|Villas|Mill|Grange|Gardens|Mews|Rectory|Vicarage|Heights|Apartments|Clinic|Surgery|Vets"
            r"|School|Academy|Nursery|Garage|(?:(?:Trading|Industrial) )?Estate|(?:Business|Retail) Park|Care Home))\b"
        ),
        "[address]",
    ),
    (
        re.compile(
            r"\b((?:Villa|Casa|Hotel|Haus|Château|Finca|Pension|Résidence|Residenz|Hof) [A-ZÀ-ÖØ-Þ][\w'’-]{2,30})"
        ),
        "[address]",
    ),
)


CONTACTS = (
    *((pattern, put) for pattern, put in RULES if put in (_email, _ip)),
    *((p, f) for p, f in UNLESS_KEPT if f is _phone),
)
# Before an address of the business: a line or an office of it, or where the customer is sent.
OUR = re.compile(
    r"\b(?:our|us (?:at|on|under)|hotline|helpline|switchboard|open|dns|gateway|server|browse to|go (?:in)?to"
    r"|(?:set|enter|open|use|ping|type)\b[^.]{0,20}\bIP"
    r"|(?:night|help|service|claims?|billing|records|returns|fraud|support|emergency|customer|duty|front|hot|free|toll-free"
    r"|press|legal|technical|medical)[ -]?(?:line|desk|team|office|number|department|cent(?:re|er)|mailbox|phone))\b"
    r"(?:\W+\w+){0,6}\W*$",
    re.I,
)
SENT_TO = re.compile(r"\b(?:I|[Ww]e)(?: have|['’]ve)?(?: \w+)? (?:sent|e?mailed|forwarded|faxed)\b(?! our)[^.]*\bto $")
OURS_AFTER = re.compile(
    r",? (?:\(|which is |that is |is )?(?:our|the) [\w ]{0,20}\b(?:line|desk|team|office|hotline|mailbox)\b", re.I
)


def formal(text: str, kept: Collection[str] = ()) -> str:
    """The text without what is recognised by its form alone, but for addresses to keep."""
    for pattern, put in RULES:
        text = pattern.sub(unless(kept.__contains__, put), text)
    return text


def unless(is_kept: Callable[[str], bool], put: Replace) -> Replace:
    """The replacement for what is not to be kept."""
    return lambda found: found[0] if is_kept(found[0]) else put(found)
