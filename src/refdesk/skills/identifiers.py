"""Tells the identifiers of a case from those of the procedure: by nouns, verbs, speakers and shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from refdesk.skills.vocabulary import lines, words

IDENTIFIER = re.compile(
    r"(?<![\w@$€£.,/#*-])#?((?=[\w./#-]{0,80}\d|[A-Za-z]+_)[A-Za-z0-9]++(?:[-_/.#][A-Za-z0-9]++)*+"
    r"(?: (?:\d{4,}+|(?=[A-Z]*\d)[A-Z0-9]{4}+)(?![\w.,]*\w))*+)"
    r"(?![\w%=(]|[.,]\d)"
)
# Dates, amounts, sizes and counts are no identifiers.
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
QUANTITY = re.compile(
    rf"(?:(?:19|20)\d\d(?:[-/.](?:0[1-9]|1[0-2]))?|(?:0[1-9]|1[0-2])/20\d\d|\d{{4}}[-/.]{_MONTH}[-/.]{_DAY}|{_DAY}[-/.]{_MONTH}[-/.](?:19|20)?\d\d"
    rf"|{_MONTH}[-/.]{_DAY}[-/.](?:19|20)?\d\d|\d{{1,2}}[-/]\d{{1,3}}"
    r"|\d+(?:\.\d+)?(?:[a-z]{1,2}|[KMGT]i?[Bb]|k?Hz))(?![\w/-]|\.\w)"
    r"|\d{1,6}(?:\.\d+)?(?= ?(?:%|[x×] ?\d|(?:euros?|dollars?|pounds?|pence|cents|eur|usd|gbp|chf|seconds?|secs?|days?"
    r"|hours?|minutes?|mins?|weeks?|months?|years?|times|items?|m[lmgA]|cl|l|lit(?:re|er)s?|gallons?|k?g|kgs|tons?|tonnes|lbs?|oz"
    r"|cm|m|km|met(?:re|er)s?|miles|feet|ft|inch(?:es)?|px|pixels|dpi|k?V|volts?|A|amps?|k?W|k?Wh|watts|bar|psi|°C|°F|degrees"
    r"|rpm|[kMG]?Hz|[KMGT]i?B|[kMG]?bps|[kMG]bit/s|bits?|bytes|points|pages|pieces|units|users|seats|rows|characters|kcal"
    r"|mmol|mcg|IU|ppm|hectares|acres|sqm|credits|attempts|tries|copies|people|guests|nights)\b(?!-\w)))"
    r"|(?<=[x×] )\d+|(?<=[x×])\d+"
)
_FEW = re.compile(r"\d{1,2}")  # digits, which identify nobody
_CASE_PREFIXES = words(
    """ord order inv tkt tck txn rma acc acct cust case req inc bkg res ref pnr cn clm pol crm tick sr wo bk tx usr
    rfd pay"""
)
_ERROR_PREFIXES = words("0x err error http https cve kb fault")
_PROCEDURE_PREFIXES = words(
    """rfc iso utf sha tls usb wpa ieee ps ios mp covid sop rb fw din vde ec eu win bios
    hotfix en bs ansi nfpa ral api qos dns ip"""
)
_VERSION = re.compile(r"v?\d{1,3}(?:\.\d{1,4})+[a-z]?\d?(?:-\w+)?", re.I)
_LOCATOR = re.compile(r"(?=.*[A-Z]\d+[A-Z])[A-Z0-9]{6}")  # as of a booking: QX7LMZ
_KEY = re.compile(r"(?:(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{4}(?:-|$)){2,}")  # as of a licence or voucher: 9KQ2-77LM
_MACHINE_MADE = re.compile(r"[a-z]{2,5}_[A-Za-z0-9]{4,}|(?=.*[a-z])(?=.*[A-Z])(?=.*\d.*\d)\w{8,}")
_DATED = re.compile(r"(?:.*\D)?(?:20[12]\d|(?:19|2\d)(?=[-/]))[-/].*\d|.*\d[-/]20[12]\d")
# As of a device: RM-600S.
_MODEL = re.compile(r"[A-Z]{0,4}-?\d{1,4}[A-Z]{1,3}\d{0,2}[A-Z]?|[A-Z]{1,3}-?\d{1,3}|[A-Z]{2}-?\d{4}")
_ISBN = re.compile(r"97[89]-[\d-]{10,14}")
# Codes that their makers publish, in shapes that no case has: of a status, an update, a hole, a database, a sign-in.
_PUBLISHED = re.compile(r"0[xX][0-9A-Fa-f]{2,8}|KB\d{6,7}|CVE-\d{4}-\d{4,7}|ORA-\d{4,5}|AADSTS\d{5,7}|[A-Z]\.\d{3}")
_WEB = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}/.*")
_FILE = re.compile(
    r".*\.(?:tar|zip|gz|exe|bin|img|iso|pdf|msi|pkg|deb|rpm|dmg|xml|csv|ya?ml|json|conf|cfg|ini|log|sh|py|js|sql|dll|sys|hex|fw)"
)
_HOST = re.compile(r"[a-z]+(?:[-_.][a-z0-9]+){2,}")
_PREFIX = re.compile(r"0x|[A-Za-z]+")
_TOKEN = re.compile(r"\w+(?:[-./]\w+)*|[:#=(,\"“]|\S")
_PROCEDURAL = ("procedure", "product")
_FEEDBACK = ("feedback", "feedback again")
_LAST = 8  # words before an identifier that are looked at
# What may stand between an identifier and the noun that says what it is; other identifiers may too, as in a list.
_LABELS = words("number no nr num id ids ref reference n° nº numbers")
_BETWEEN = _LABELS | words(
    """is was are the a an my your our his her its this that : # = ( " “ , and or not nor instead rather than old new
    current says said shows both called named reads ist der die das und oder le la les est et ou el los es y o os e é"""
)
_VERBS = words("order quote book draw file claim request mention charge record ship pass run test list note report")
_BEFORE_VERBS = words("; , and then always to please or must should can will now just also not never you we I")
_OWNERS = words("my your his her their our customer's client's patient's mine yours meine mein ihre ma mon mi su minha")
_SHOWN = re.compile(
    r"\b(?:shows?|showing|says?|said|displays?|reads|reported|errors?|faults?|alarms?|still|now|gets?|got|gives?"
    r"|getting|prints?|throws?|blink\w*|flash\w*"
    r"|(?:fail\w*|crash\w*|stop\w*|hangs?|ends?|ended|abort\w*|breaks?|quits?|exits?|bails?)(?: \w+){0,3} with)"
    r"(?: (?:me|a|an|the|error|it|[A-Z]{2,4}|\d{3}))*\W{1,3}$",
    re.I,
)
_NAMED = re.compile(
    r"(?:\b(?:[Aa]n?|[Tt]he|[Tt]hese|[Tt]his|[Ee]ach|[Oo]ur|[Mm]y)|[^.!?:\s]\s[A-Z]\w*[a-z]) (?:[A-Z]{2,4} )?$"
)
_ON = re.compile(r"\b(?:on|with|for|to) (?:my|our|your|his|her|their|the|an?) (?:[A-Z]\w+ )?$")  # nobody is on an order
_EXPLAINED = re.compile(r" (?:is|are|means?|needs?|was|were|breaks?|comes?|has|fits|works?|helps?|covers?|requires?)\b")
_CAUSE = re.compile(
    r"\b(?:changed with|since|due to|because of|com(?:es?|ing) with|came with|fixed in|ships? in|described in|new in"
    r"|see|look at|listed in|bug|denied with|refused with|rejected with|failed with|stopped with"
    r"|ends? with|replied with) $"
)
_CHOSEN = re.compile(r"\b(?:not|instead of|rather than|replaces|replaced by|older|newer) (?:the |an? )?$")
_DEFINED = re.compile(
    r",? (?:means?|stands for|says|tells)\b"
    r"|,? (?:is|was|are|=) (?:an?|the|mostly|always|usually|often|no|not|just|when|too|out|only)\b"
)
_DONE = re.compile(r" (?:was|were|is|are|has been|got|gets) (?:\w+ly |now |already )?\w+(?:ed|en|id)\b")
_SEEN = re.compile(
    r"\b(?:(?:I|[Ww]e)(?: can| have|['’]ve)? (?:see|found|find|have|checked|looked up|updated|noted"
    r"|marked|merged|closed|put|sent|pulled up)"
    r"|[Nn]oted|[Dd]one for|[Ff]or|[Oo]n|[Ff]ound|[Gg]ot) $"
)
_UNASKED = re.compile(
    r"\b(?:it['’]?s|its|it is|that['’]?s|under|i['’]?m|im|mine is|here is|here['’]?s|btw|thats) $", re.I
)
_DOES = re.compile(
    r" (?:stops?|shows?|says?|keeps?|has|had|is|was|does|do|won['’]t|will|gets?|makes?|fails?|with"
    r"|blinks?|beeps?|starts?|drops?|leaks?|freezes|crashes|reboots?|restarts?|jams)\b"
)
_INSTRUCTED = re.compile(
    r"\b(?:use|using|install|run|follow|(?<!I )(?<!can )(?<!we )see|apply|press|dial|fill in|complete|sign"
    r"|send|quote|add|set|attach|replace|take|select|choose|open|enter|go to|switch to|swap to|update to|roll back to"
    r"|download|push(?:ed)?|put|under|per|according to|as in|by|tick|print|keep|upload|submit|needs?|requires?"
    r"|type|hold|switch (?:off|on)|turn (?:off|on)|enable|disable|toggle|activate|clear|start|upgrade to"
    r"|restart|at least|up to|within|older than|newer than)(?: \w+){0,2} $",
    re.I,
)
_MADE = re.compile(
    r"\b(?:opened|raised|created|logged|booked|noted|issued|registered|(?:re)?shipped|refunded|cancell?ed|released|prepared"
    r"|closed|assigned|generated|reserved|scheduled|left|ordered|restored|wrote|written|put you|moved|filed|saved"
    r"|exchange|held|started|requested|arranged|I (?:close|open|book|create|raise|file|refund|cancel|note|log)"
    r"|your|for you)(?:,? [\w-]+){0,5},? $",
    re.I,
)


def identifiers(text: str) -> Iterator[str]:
    """The identifiers in a text."""
    return (found[1] for found in IDENTIFIER.finditer(text))


def procedural_ids(said: Iterable[tuple[str, str]]) -> dict[str, bool]:
    """Whether each identifier of the texts, which come with their roles, belongs to the procedure."""
    points = _points()
    scores = {one: sum(points.get(clue, 0.0) for clue in {"any", *known}) for one, known in clues_in(said).items()}
    families: dict[str, list[float]] = {}
    for one, score in scores.items():
        families.setdefault(re.sub(r"\d", "0", one), []).append(score)
    # What is written alike, as INV-7731 and INV-7748, is mostly of one kind.
    alike = {one: families[re.sub(r"\d", "0", one)] for one in scores}
    # No form or error has a name as long as a hash, but a page or a file may.
    return {
        one: score + sum(alike[one]) / len(alike[one]) >= 0 and (len(one) < 30 or _is_page(one))
        for one, score in scores.items()
    }


def _is_page(one: str) -> bool:
    return bool(_WEB.fullmatch(one) or _FILE.fullmatch(one))


def clues_in(said: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The clues to each identifier of the texts."""
    clues: dict[str, set[str]] = {}
    first: dict[str, str] = {}  # who wrote it first
    question = ""
    for role, text in said:
        for found in IDENTIFIER.finditer(text):
            if role != "customer" and found[1] not in clues and not any(map(str.isdigit, found[1])):
                continue  # a setting or a field; but "svc_reports", which a customer begins with, is theirs
            if found[0][0] == "#" or not (_FEW.fullmatch(found[1]) or is_quantity(found)):
                known = clues.setdefault(found[1], set())
                if any(shape.fullmatch(found[1]) for shape in (_VERSION, _ISBN, _PUBLISHED)):
                    known.add("version")
                    continue
                # Who is the first to write it says more than who repeats it; feedback comes last and always counts.
                by = role if not known else "feedback again" if role == "feedback" else "again"
                if by == "feedback again":
                    known.add(f"feedback, first {first.get(found[1], '')}")
                first.setdefault(found[1], role)
                known.update(_clues(found, by or "agent", question))
        question = text
    return clues


def is_quantity(found: re.Match[str]) -> bool:
    """Whether it is a date, an amount, a size or a count; "entry 24-071" is none."""
    is_range = re.search(r"\d[-/]\d{3}$", found[0]) and noun_before(clause(found)) == "case"
    return not is_range and QUANTITY.match(found.string, found.start(1)) is not None


@cache
def _points() -> Mapping[str, float]:
    """The points of each clue for the procedure, fitted by training/redaction.py."""
    # These are rare in the talks, so their points are set by hand: answers to "which form?", pages and files that the
    # agent names, bookings in feedback, which the customer told first.
    fitted = {name: float(points) for name, _, points in (line.rpartition(" ") for line in lines("clues.txt"))}
    rare = {f"{kind} asked": 2.0 for kind in _PROCEDURAL} | {f"{role}, case, long": -4.0 for role in _FEEDBACK}
    return (
        fitted | rare | {"web, agent": 6.0, "web, feedback": 6.0, "file, agent": 4.0, "locator, feedback again": -6.0}
    )


@cache
def _nouns() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for kind, _, nouns in (line.partition(": ") for line in lines("nouns.txt")):
        found |= dict.fromkeys(nouns.split(), kind)
    return found


def _kind(word: str) -> str:
    """What identifiers a noun is of, in the singular or plural."""
    nouns = _nouns()
    if word.endswith("nummer"):
        kind = nouns.get(word[:-6].removesuffix("s"), "")
        return kind if kind in _PROCEDURAL else "case"
    return nouns.get(word) or nouns.get(word.removesuffix("s")) or nouns.get(word.removesuffix("es"), "")


def _clues(found: re.Match[str], role: str, question: str) -> Iterator[str]:
    one, before = found[1], clause(found)
    after = found.string[found.end() : found.end() + 30]
    digits = sum(map(str.isdigit, one))
    noun, labelled, owned = _noun_before(before)
    following = re.match(r" (?:(?:is|was) (?:the|my|our|your|his|her|their) )?(\w+)", after)
    kind_after = _kind(following[1].lower()) if following else ""
    if noun:
        told = f"{'own ' * owned}{noun} {'number' if labelled else 'noun'}"
        if "code" in before.lower().split()[-3:]:
            yield f"{noun} code"
    elif labelled:
        told = "number"
    elif kind_after:
        told, noun = f"{kind_after} noun after", kind_after
    elif found.start() < 24 and (asked := _asked_for(question)):
        told, noun = f"{asked} asked", asked
    else:
        told = "own" if owned else "no noun"
    yield from (told, f"of {noun}", f"{noun or told}, {role}", f"{noun or told}, {'short' if digits < 5 else 'long'}")
    if role in ("feedback", "again", "feedback again"):
        yield role
        yield f"{role}, {'short' if digits < 5 else 'long'}"
        yield f"{role}, {noun or told}, {'short' if digits < 5 else 'long'}"
    prefix = (_PREFIX.match(one) or [""])[0].lower()
    if one.isdigit() and (capitals := re.search(r"\b[A-Z][A-Za-z]{0,4} $", before)):
        prefix = capitals[0].strip().lower()
        yield f"after capitals, {'long' if digits > 4 else 'short'}"
    if prefix in _ERROR_PREFIXES and len(one) < 16:
        yield "error prefix"
    elif prefix in _PROCEDURE_PREFIXES:
        yield "procedure prefix"
    elif prefix in _CASE_PREFIXES:
        yield "case prefix"
    if _MADE.search(before):
        yield f"made{', procedure' if noun in _PROCEDURAL else ''}"
    elif _INSTRUCTED.search(before):
        yield "instructed"
        if role != "customer":
            yield "instructed by the agent"
    for clue, pattern in (("shown", _SHOWN), ("named", _NAMED), ("on it", _ON)):
        if pattern.search(before):
            yield clue
            yield f"{clue}, {'short' if digits < 5 else 'mixed' if not one.isdigit() else 'long'}"
    if before.count('"') % 2 or before.rfind("“") > before.rfind("”"):
        yield "quoted"
    if _EXPLAINED.match(after):
        yield "explained" if not before.strip() else "explained later"
    if _DEFINED.match(after):
        yield f"defined, {role}"
    if re.match(r",? (?:instead|rather)\b", after) or _CHOSEN.search(before):
        yield "chosen"
    if _CAUSE.search(before):
        yield f"cause, {role}"
    if "_" in one:
        yield f"{'constant' if one.isupper() else 'underscored'}, {role}"
    if _DONE.match(after):
        yield "done to"
    if _SEEN.search(before):
        yield f"seen, {role}"
    if _UNASKED.search(before):
        yield f"unasked, {role}"
    if role in ("customer", "again"):
        yield f"{role}, {'capitals' if one.isupper() else 'digits' if one.isdigit() else 'mixed'}, {min(digits, 9)}"
    groups = len(re.findall(r"\d+", one))
    if groups > 1:
        yield f"{min(groups, 3)} groups"
        yield f"{min(groups, 3)} groups, {'short' if digits < 5 else 'long'}"
    for clue, pattern in (
        ("machine-made", _MACHINE_MADE),
        ("key", _KEY),
        ("locator", _LOCATOR),
        ("dated", _DATED),
        ("web", _WEB),
        ("file", _FILE),
        ("host", _HOST),
    ):
        if pattern.fullmatch(one):
            yield f"{clue}, {role}"
            if clue in ("web", "file"):
                break  # though it looks like a host
            yield clue
    if found[0][0] == "#" and digits > 2:
        yield "hash"
    if _MODEL.fullmatch(one):
        yield "model"
        yield f"model, {noun or role}"
        if _DOES.match(after):
            yield "model does"
    yield f"{'only ' * one.isdigit()}{min(digits, 9)} digits"


def _asked_for(question: str) -> str:
    """What the last noun of the last question is of, for the answer to it."""
    asked = re.split(r"[.!?]\s", question.rpartition("?")[0])[-1]
    for word in reversed(re.findall(r"\w+", asked.lower())):
        if word in ("number", "id", "name", "birth", "address", "postcode", "zip"):
            return "case"
        if kind := _kind(word):
            return kind
    return ""


def _noun_before(before: str) -> tuple[str, bool, bool]:
    """What the nearest noun is of, whether "number" or the like follows it, and whether somebody owns it."""
    passed: set[str] = set()
    tokens: list[str] = _TOKEN.findall(before)[-_LAST:]
    while tokens:
        token = tokens.pop()
        word = token.lower()
        if word in ("code", "codes"):
            passed.add("code")
            continue
        if word in _VERBS and token.islower() and (not tokens or tokens[-1].lower() in _BEFORE_VERBS):
            break  # "then quote BP-7"
        if word not in _LABELS and (kind := _kind(word)):
            owned = passed | {each.lower() for each in tokens[-3:]}
            return kind, bool(passed & _LABELS), bool(owned & _OWNERS)
        if word == "," and passed & _LABELS:
            break  # "template NB-2, reference 4471"
        if word not in _BETWEEN and not any(map(str.isdigit, word)) and not (token.isupper() and len(token) < 7):
            break
        passed.add(word)
    if "code" in passed:
        return "stated code" if passed & {"is", "was"} else "code", bool(passed & _LABELS), bool(passed & _OWNERS)
    return "", bool(passed & _LABELS), bool(passed & _OWNERS)


def noun_before(before: str) -> str:
    """What the nearest noun before an identifier says it is of: the case, the procedure, either, or nothing."""
    noun, labelled, _ = _noun_before(before)
    return noun or ("case" if labelled else "")


def clause(found: re.Match[str]) -> str:
    """What stands before the match in its clause."""
    return re.split(r"[.!?;]\s|\n", found.string[max(0, found.start() - 80) : found.start()])[-1]
