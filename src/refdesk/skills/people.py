"""Finds the names of people in a text, by lists, by the words around them, and by what is no English word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set

from refdesk.skills.answers import introduced
from refdesk.skills.vocabulary import is_person, language_of, words
from refdesk.text.analyse import is_english

_ROLES = words(
    """agent support assistant rep representative bot system customer user client caller visitor shopper human ai
    advisor operator specialist member guest buyer subscriber note internal supervisor manager team desk help billing
    you me chatbot technician engineer admin summary subject resolution action issue problem step steps update result
    kunde kundin cliente agente berater beraterin conseiller conseillère atendente usuario utilizador"""
)
_NOT_A_NAME = _ROLES | words(
    """a an the not just really so sorry still very having trying getting looking calling writing happy glad sure here
    there back about from urgent regarding using unable afraid thanks thank hi hello all everyone again yes no ok
    okay it is was now and but for with sir madam folks guys this that which what who whose when where how why if then
    please can could would should may might will do does did has have had i we they he she our your my his her its
    pro ultra lite monday tuesday wednesday thursday friday saturday sunday january february march july september
    october november december"""
)
_CAP = r"[A-ZÀ-ÖØ-ÞĀ-Ž][\w'’-]{1,40}+"  # a word with a capital
_SPEAKER = re.compile(
    r"^[^\S\n]*+(?:[\[(][^\])\n]{1,30}[\])][^\S\n]*+)?[*_]{0,3}([A-ZÀ-ÖØ-ÞĀ-Ž][\w'’.-]+"
    r"(?: [A-ZÀ-ÖØ-ÞĀ-Ž][\w'’.-]+){0,2})[*_]{0,3}(?:[^\S\n]*+\(([^)\n]*)\))?[*_]{0,3}[^\S\n]*+:",
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
_KIN = (
    "son|daughter|wife|husband|mother|father|mum|mom|dad|friend|colleague|boss|partner|owner|tenant|brother|sister"
    "|employee|neighbou?r|assistant|manager|cousin|aunt|uncle|nephew|niece|grand(?:son|daughter|mother|father|ma|pa|child)"
    "|fianc[eé]e?|girlfriend|boyfriend|ex|flatmate|roommate|landlord|landlady|carer|nanny|solicitor|lawyer|accountant|agent"
    "|dog|cat|horse|puppy|Tochter|Sohn|Ehemann|Ehefrau|Hund|Katze|Kollegin|Kollege|fils|fille|mari|chien|collègue|hijo|hija"
    "|marido|esposa|perro|colega|filho|filha|guy|lady|kid|child|baby|twin|teammate|coworker|co-worker|supervisor|secretary|receptionist|intern|trainee|coach|tutor"
)
_OF_ROLE = (
    "customer|patient|client|guest|passenger|subscriber|member|driver|engineer|technician|examiner|inspector|nurse|doctor"
    "|teacher|trainer|clerk|courier|advise?or|adviser|pupil|student|witness|contact|surveyor|assessor|plumber|electrician"
    "|mechanic|pharmacist|vet|therapist|dentist|consultant|specialist|director|officer|captain|skipper|farmer|developer|admin"
    "|administrator|user|player|buyer|seller|host|applicant|claimant|insured|policyholder|beneficiary|payee|payer|recipient"
    "|sender|signatory|spouse|dependant|dependent|guardian|parent|executor|trustee|heir|deceased|cardholder|holder|account"
    "|name|surname|attn|attention|ask for|speak to|spoke (?:to|with)|speaking with|talk(?:ed)? to|signed by|contact is"
    "|yours|regards|cheers|sincerely"
)
_CUES = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (
            r"(?:\b[Nn]ame(?:['’]s| is|:| (?:on|of|for) (?:the )?\w+(?: is|:)?)?|\b[Mm]ein Name ist"
            r"|\b[Ii]ch hei(?:ß|ss)e"
            r"|\b[Jj]e m['’]appelle|\b[Mm]on nom est|\b[Mm]e llamo|\b[Mm]i nombre es|\b[Mm]i chiamo|\b[Mm]eu nome é"
            rf"|\b[Mm]e chamo|\b[Cc]hamo-me|\b(?:[Ss]oy|[Ss]ou(?: [ao])?|[Jj]e suis|[Ii]ch bin)(?= {_CAP} {_CAP}))"
            rf"\s+({_CAP}(?: {_CAP}){{0,2}})",
            0,
        ),
        (rf"\bname\b[^\n]*\?\n[^\n:]*: ({_CAP}(?:,? {_CAP})*)", 0),
        (rf"\b[Tt]his is ({_CAP}(?: {_CAP})?)(?=,| (?:from|here|calling|speaking|with|again)\b)", 0),
        (rf"\b(?i:{_KIN})(?:,? (?:called|named))?,? \(?({_CAP}(?: {_CAP})?)", 0),
        (rf"\b(?:for|of|with|to|and|is) ({_CAP}),? (?:my|our) [a-z]+", 0),
        (rf"\bI(?: am|['’]m) ({_CAP}(?: {_CAP}){{1,3}})(?=[,.!;\n]|$| (?:from|here|calling|with|and)\b)", re.M),
        (
            r"\b(?:[Hh]i|[Hh]ello|[Hh]ey|Dear|[Tt]hanks|[Tt]hank you|Welcome|[Ss]orry|[Cc]all me|Bonjour|Hola|Olá|Hallo"
            rf"|Merci|Gracias|Danke|Cheers|Morning|Afternoon|Evening)(?:,| there,| again,?)? ({_CAP})(?=[,.!?\n]|$)",
            re.M,
        ),
        (
            r"\b(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof|Mme|Sra?)\b\.?|(?:Miss|Sir|Herrn?|Frau|Madame|Monsieur|Señora?|Senhora?)\b)"
            rf" ((?:{_CAP}|[A-Z]\.)(?: (?:van |von |de |der |den |di |da |la )*{_CAP})?)",
            0,
        ),
        (rf"\b(?:[Hh]ier|[Ii]ci|[Aa]quí|[Aa]qui)(?: (?:ist|spricht|es|habla|fala|é))?,? ({_CAP} {_CAP})", 0),
        (rf"(?:^|[.!?,:] )({_CAP}(?: {_CAP})?) (?:here|speaking|calling|hier|is my name)\b", re.M),
        (rf"(?:\b(?:patient|of|by|for|from|to|with|and|card|name|is)|[,:(]) [A-Z]\. ({_CAP})(?=[,.;!?)\n]|$)", re.M),
        (r", ([A-Z][a-z]+)(?=[.!?]?\s*$)", re.M),
        (rf"(?:\d|[Hh]ello|[Hh]i|\]), ({_CAP} {_CAP})(?=[.,;!]|$)", re.M),
        (rf"^[^\w\n]{{0,4}}({_CAP}(?: {_CAP}){{1,2}})[^\w\n]{{0,4}}$", re.M),
    )
)
_ROLE_CUE = re.compile(
    rf"\b(?i:{_OF_ROLE})(?: is| was|,| \()?(?: [A-Z]\.)?( ?{_CAP}(?: {_CAP})?)(?! ?\d)"
    rf"|\bI(?: am|['’]m)( {_CAP})(?=[,.!;\n]|$| (?:from|here|calling|with|and|in|of)\b)"
)
_PARTICLE = r"(?:(?:van|von|de|der|den|di|da|dos|del|la|le|bin|al|el|ter|zu) )*"
_RUN = re.compile(rf"(?<![\w@./>-])({_CAP}(?: (?:[A-Z]\. )?{_PARTICLE}{_CAP}){{0,3}})(?:['’]s?\b)?")
_STARTS = re.compile(r"(?:^|[.!?:…\n]|[\"“”(>*])\s*$")
_THING = re.compile(  # before the name of a product
    r"(?:\b(?:a|an|the|this|that|these|your|my|our|his|her|their|its|use|using|install\w*|via|called|run|running|open|on"
    r"|in|press|click|tap|select|choose|hit|enter|type|set|pick|push|version|through|into|new|old|latest|brand|model|app|software|browser|tool|plan|program)"
    r"|[>→/\"“'‘]) ?$",
    re.I,
)
_THING_AFTER = re.compile(
    r" ?[>→\"”\d]| (?:v?\d|[A-Z]{1,3}-?\d|(?:app|router|account|plan|software|server|client|plugin|page|site|website"
    r"|card|form|screen|menu|button|tab|box|model|series|version|edition|device|system|tool|key|store|shop|tariff|policy|scheme|field|status|mode|portal"
    r"|console|browser|connector|driver|service|cable|port|unit|kit|desk|team|gmbh|ltd|inc|llc|plc)\b)",
    re.I,
)
_SAYS = re.compile(
    r"[,.]? *$|(?:[,.]| (?:my|our|from|at|here|said|says|told|will|wants?|asked|called|signed|signs|lives|helped"
    r"|can|is|was|has|and I|comes|gave|sent|did|promised|opened|wrote|mentioned|picked|paid|booked|ordered)\b)"
)
# Names that are other words too, where only a name can stand: "Cheers, Will".
_ADDRESSED = re.compile(
    r"(?:(?<=, )|(?<=\b[Hh]i )|(?<=\bHello )|(?<=\bThanks ))(?:Will|May|Sue|Bill)\b(?=[,.!?]?\s*(?:$|[A-Z\n]))", re.M
)
_JOINED = re.compile(r"\w+(?:['’.-]\w+){0,7}")
_JOINT = re.compile(r"(['’.-])")
_NAMES = re.compile(r"\[name\](?:\s++\[name\])+")


def names_in(text: str, by_guess: bool = True) -> set[str]:
    """The words of people's names in a text; `by_guess` also what has a capital and is no English word."""
    labels = _SPEAKER.findall(text)
    speakers = Counter(name for name, _ in labels if not _ROLES & _lower(name))
    # "Customer (Jane Doe):" and "Jane Doe (customer):" name a person: the role says so.
    beside = [name if _ROLES & _lower(other) else other for name, other in labels if _ROLES & _lower(f"{name} {other}")]
    found: set[str] = set()
    for phrase in (
        # A label that occurs once may be a heading; one that occurs again is a person.
        *(name for name, times in speakers.items() if times > 1),
        *(each for each in beside if _PERSON.fullmatch(each) and not (_ROLES | _NOT_A_PERSON) & _lower(each)),
        *_cued(text),
        *_in_runs(text, by_guess and language_of(text) == "English"),
    ):
        found.update(
            word for word in re.split(r"['’]s\b|[\s,]", phrase) if len(word.strip(".'’-")) > 1 and _may_name(word)
        )
    found.update(_ADDRESSED.findall(text))
    found.update(introduced(text))
    stripped = {word.strip(".'’-") for word in found}
    # The same in capitals, and in small letters if that is no other word.
    small = {word.lower() for word in stripped if len(word) > 3 and not is_english(word.lower())}
    return stripped | small | {word.upper() for word in stripped if len(word) > 3}


def _may_name(word: str) -> bool:
    if re.match(r"(?:i|it|we|you|they|he|she|that|there|what|who|let|here)['’]", word, re.I):
        return False
    return word.lower().strip(".'’-") not in _NOT_A_NAME and not word.islower()


def _cued(text: str) -> Iterator[str]:
    """Phrases with a capital that the words around them call a person."""
    for pattern in _CUES:
        for phrase in pattern.findall(text):
            if not (_NOT_A_PERSON & _lower(phrase)) and not phrase.isupper():
                yield phrase
    for named in ("".join(each) for each in _ROLE_CUE.findall(text)):
        yield from (word for word in named.split() if _unusual(word))


def _unusual(word: str) -> bool:
    """Whether the word is a known name, or no English word at all."""
    plain = re.sub(r"['’]s$", "", word)
    letters = plain.replace("-", "").replace("'", "").replace("’", "")
    return is_person(plain) or (letters.isalpha() and letters[1:].islower() and not is_english(plain.lower()))


def _in_runs(text: str, by_guess: bool) -> Iterator[str]:
    """Runs of words with capitals that have a known name in them, or that are no English words."""
    for run in _RUN.finditer(text):
        before, after = text[max(0, run.start() - 40) : run.start()], text[run.end() : run.end() + 20]
        parts = run[1].split()
        while parts and not _may_name(parts[0]):
            before, parts = f"{before}{parts[0]} ", parts[1:]
        if not parts:
            continue
        begins = _STARTS.search(before) is not None or not before
        if begins and len(parts) > 1 and not is_person(parts[0]) and is_english(parts[0].lower()):
            before, parts, begins = f"{before}{parts[0]} ", parts[1:], False
        known = [is_person(re.sub(r"['’]s$", "", part)) for part in parts]
        thing = _THING_AFTER.match(after)
        if any(known) and not re.match(r" [A-Z]{0,3}-?\d", after):
            first = known.index(True)
            if beside := re.search(rf"[\w,] ({_CAP}) (?:and|&|or) $", before):
                yield beside[1]
            # A family name is often an English word; what comes before a given name seldom belongs to it.
            yield " ".join(parts if first == 1 and _unusual(parts[0]) else parts[first:])
        elif not by_guess or thing or any(part.isupper() for part in parts) or not any(map(_unusual, parts)):
            continue
        elif begins:
            sure = all(map(_unusual, parts)) and len(parts) > 1
            if _SAYS.match(after) and (sure or not re.match(r"[,.]? *$|[,.]| (?:is|was|has|can)", after)):
                yield " ".join(parts)
        elif not _THING.search(before) or (len(parts) > 1 and all(map(_unusual, parts))):
            yield " ".join(parts)


def _lower(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def without_names(text: str, *names: Set[str]) -> str:
    """The text with one placeholder for each of these names, or for several in a row."""
    if not any(names):
        return text

    def is_name(said: str) -> bool:
        return any(said in some for some in names)

    addressed = {each.start() for each in _ADDRESSED.finditer(text)}

    def put(found: re.Match[str]) -> str:
        # A pattern of all names would be tried at each word, so each word is looked up, with what is joined to it.
        parts = _JOINT.split(found[0])
        out, at = "", 0
        while at < len(parts):
            end = next((end for end in range(len(parts), at, -1) if is_name("".join(parts[at:end]))), 0)
            is_other = end == len(parts) == 1 and found[0].lower() in _NOT_A_NAME and found.start() not in addressed
            out += "[name]" if end and not is_other else parts[at]
            at = end or at + 1
        return out

    return _NAMES.sub("[name]", _JOINED.sub(put, text))
