"""The words of support conversations: meanings and weights, languages, and what they say about identifiers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

from refdesk.text import analyse


def words(text: str) -> frozenset[str]:
    """The set of words in a text."""
    return frozenset(text.split())


# The stop words of any text, and what customers and agents say about anything.
STOP_TERMS = analyse.STOP_TERMS | frozenset(
    analyse.terms(
        """about above after again against all also am any aren because been before being below between both cannot
        could couldn d didn doesn doing don down during each few further get gets getting got hadn hasn haven having
        he her here hers him his isn just ll m more most myself nor now off once only other ours out over own re s
        same she shouldn some t than theirs them those through too under until up us ve very wasn weren while whom
        won wouldn yours yourself im ive dont doesnt didnt cant wont isnt one ones even still yet ever never thing
        things something anything nothing everything please thanks thank hi hello hey help sorry sure ok okay yes
        want need trying try tried know think like really actually today yesterday day days week weeks month months
        time times great perfect good nice fine awesome done right many much every already back let see sees seen
        say says said tell tells told ask asks asked look looks come came go goes went gone make made take took give
        gave put keep keeps since last next new old first second bit lot soon always anymore though although instead
        itself himself possible probably maybe morning evening night noon tonight tomorrow year years hour hours
        minute minutes two three four five six seven eight nine ten able unable else somebody nobody someone
        everybody customer customers reports report agent support issue issues problem problems use uses used using
        show shows shown work works worked working happen happens happened"""
    )
)


# What redaction puts in place of what it removes.
PLACEHOLDER = re.compile(r"\[(?:[a-zA-Z]+ )?(?:address|number|name|secret|code|id|date|phone|email|IBAN|IP)\]")


def content_terms(text: str) -> list[str]:
    """The terms of a text that carry meaning, in order."""
    return [term for term in analyse.terms(PLACEHOLDER.sub(" ", text)) if term not in STOP_TERMS]


def lines(file: str) -> list[str]:
    """The lines of a file of this package, without comments."""
    text = resources.files("refdesk.skills").joinpath(file).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@cache
def given_names() -> frozenset[str]:
    """Names that people are given, which few other words are written like."""
    return words(" ".join(lines("names.txt")))


@cache
def background() -> tuple[str, ...]:
    """Questions of customers about all kinds of things: the crowd that evidence must stand out from."""
    return tuple(lines("background.txt"))


@cache
def _thesaurus() -> tuple[Mapping[str, str], Mapping[tuple[str, ...], str]]:
    """The meaning of each term, and of each phrase, that has synonyms."""
    single: dict[str, str] = {}
    phrases: dict[tuple[str, ...], str] = {}
    for line in lines("thesaurus.txt"):
        entries = [tuple(analyse.terms(entry)) for entry in line.removeprefix("! ").split(",")]
        meaning = ("!" if line.startswith("! ") else "=") + entries[0][0]
        for entry in entries:
            if len(entry) == 1:
                single.setdefault(entry[0], meaning)
            else:
                phrases.setdefault(entry, meaning)
    return single, phrases


def meanings(text: str) -> set[str]:
    """The content terms of a text, synonyms replaced by their common meaning."""
    single, phrases = _thesaurus()
    terms = analyse.terms(PLACEHOLDER.sub(" ", text))
    found = set()
    place = 0
    while place < len(terms):
        size = next((n for n in (3, 2) if tuple(terms[place : place + n]) in phrases), 1)
        term = terms[place]
        if size > 1:
            found.add(phrases[tuple(terms[place : place + size])])
        elif term in single or term not in STOP_TERMS:
            found.add(single.get(term, term))
        place += size
    return found


def events(of: Iterable[str]) -> set[str]:
    """Those of the meanings that say what happens or is wanted."""
    return {each for each in of if each.startswith("!")}


@cache
def _frequencies() -> Mapping[str, int]:
    return Counter(meaning for text in background() for meaning in meanings(text) | set(content_terms(text)))


def weight(meaning: str) -> float:
    """The weight of a term or meaning: low if customers write it about anything."""
    return math.log1p(len(background()) / (1 + _frequencies().get(meaning, 0)))


def total_weight(said: Iterable[str]) -> float:
    """The sum of the weights of distinct terms or meanings."""
    return sum(weight(each) for each in set(said))


# --- languages -------------------------------------------------------------------------------------------

# The words of a language that are few others' and in nearly every sentence; after the bar, words of support talks,
# which count twice, so that one of them will do in a short query.
_LANGUAGES = {
    "English": """the and is to of my it i you not for with this that have are been has we your from they there
        when how what which where after does did do can cannot won't can't don't didn't doesn't isn't our at be
        will would""",
    "German": """der das und ist nicht ich sie mein meine meinen ein eine einen mit für auf den dem zu wir bei habe
        hat kann wie seit noch aber nach mir uns ihre wurde wird keine kein | passwort konto rechnung bestellung
        kunde kundin gesperrt vergessen lieferung paket kündigen fehlermeldung erstattung anmelden angemeldet
        funktioniert""",
    "French": """le les des est et je vous nous ne pas mon ma mes une pour avec dans sur qui que du au ce cette
        j'ai c'est n'est suis été plus votre mais depuis | passe compte facture commande livraison colis
        remboursement bloqué oublié abonnement connexion bonjour fonctionne""",
    "Spanish": """el los las es y no mi mis una para con por que del se su está he ha pero desde cuando como muy ya
        lo al tengo puedo hola | contraseña cuenta factura pedido paquete reembolso bloqueada bloqueado olvidé
        suscripción envío funciona cobraron""",
    "Portuguese": """o os as é e não meu minha uma para com por que do da se está mas desde quando como muito já ao
        na no tenho posso olá foi | senha conta fatura encomenda pedido reembolso bloqueada bloqueado esqueci
        assinatura entrega funciona cobraram""",
}


_FEW = 3  # words of another language, which a short English text with a name may have


@cache
def _function_words() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    halves = {name: text.partition("|") for name, text in _LANGUAGES.items()}
    return {name: (words(common), words(telling)) for name, (common, _, telling) in halves.items()}


def language_of(text: str) -> str:
    """The language of a text, as far as it is one of these; English in doubt, "another script" if it is not Latin."""
    letters = [c for c in text if c.isalpha()]
    if sum(c > "\u024f" for c in letters) * 2 > len(letters):
        return "another script"
    said = [word.replace("’", "'") for word in re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", text.lower())]
    counts = {
        name: sum(word in common for word in said) + 2 * sum(word in telling for word in said)
        for name, (common, telling) in _function_words().items()
    }
    best = max(counts, key=lambda name: counts[name])  # English comes first and wins a tie
    if counts[best] <= _FEW and not _function_words()[best][1].intersection(said):
        readable = sum(len(word) < 3 or analyse.is_english(word) for word in said)
        return best if 2 * readable < len(said) and counts[best] > 1 else "English"  # "Las Vegas booking, no show"
    return best if counts[best] > 1 else "English"


# --- identifiers ------------------------------------------------------------------------------------------

# What an identifier is of: a case, a procedure, or either; "my policy" and a "policy number" are of a case.
_CASE_NOUNS = words(
    """order invoice ticket case booking reservation confirmation pnr tracking account customer client member
    membership claim serial sn imei iccid sim vin frame transaction payment payout purchase subscription rma
    shipment parcel package waybill agreement contract application incident request complaint meter bill
    prescription patient receipt payslip employee personnel student matriculation passport user username login
    player workspace asset tag barcode withdrawal dispatch credit note delivery visit appointment enrolment
    enrollment folio loan deposit fine wallet vehicle container lading report server host instance tenant session
    chat conversation thread call quote offer estimate statement charge refund transfer cheque voucher lease
    consignment referral badge vendor supplier store shop site plant property matter entry locker line merchant mid
    tax insurance social ssn security eori owner iban swift phone fax cell mobile label warranty licence license
    express dossier bestellung auftrag rechnung kunde kunden vertrag konto vorgang sendung commande facture compte
    contrat colis billet pedido factura cuenta cliente contrato reserva envío encomenda fatura conta bike scooter
    pallet pitch seat berth cabin bag replacement trip ride job inspection slot chart deed donor operator
    insured exam permit sample specimen donation"""
)
_PROCEDURE_NOUNS = words(
    """form article runbook playbook error fault firmware version model part component procedure bulletin guideline
    section paragraph clause rule regulation directive sop macro template checklist page chapter step manual
    document standard protocol schedule sheet build release patch update driver bios kernel tool script flag option
    setting parameter menu mode branch image reason status rejection level kit module sensor pump board cable
    adapter battery filter valve gasket series sku isbn tariff bug issue state event command function field column
    queue instruction appendix annex software product item type class category exception action message warning
    alert alarm connector wiki faq hall dock gate lane counter rack shelf scheme formular fehler artikel modell
    teil abschnitt formulaire erreur modèle pièce formulario modelo pieza versión formulário erro peça versão"""
)
_EITHER_NOUNS = words(
    """policy profile device certificate notice terminal course group guide slip test room list card file police póliza
    apólice"""
)
_CASE_PREFIXES = words("ord order inv tkt tck txn rma acc acct cust case req inc bkg res ref sn pnr cn")
_PROCEDURE_PREFIXES = words(
    """0x err error http https cve rfc iso utf sha tls kb usb wpa ieee ps ios mp covid sop rb fw din vde ec eu win bios
    hotfix en"""
)

IDENTIFIER = re.compile(
    r"(?<![\w@$€£.,/#-])#?((?=[\w./#-]{0,80}\d)[A-Za-z0-9]++(?:[-_/.#][A-Za-z0-9]++)*+"
    r"(?: (?:\d{4,}+|(?=[A-Z]*\d)[A-Z0-9]{4}+)(?![\w.,]*\w))*+)"
    r"(?![\w%]|[.,]\d)"
)
# Dates, amounts, sizes and counts are no identifiers.
_QUANTITY = re.compile(
    r"(?:(?:19|20)\d\d|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)?\d\d|\d{1,2}[-/]\d{1,3}"
    r"|\d+(?:\.\d+)?(?:[a-z]{1,2}|[KMGT]i?[Bb]|k?Hz))(?![\w/-]|\.\w)"
    r"|\d+(?= ?(?:%|euros?|dollars?|pounds?|eur|usd|days?|hours?|minutes?|weeks?|months?|years?|times|items?)\b)"
)
_VERSION = re.compile(r"v?\d{1,3}(?:\.\d{1,4})+[a-z]?\d?", re.I)
_LOCATOR = re.compile(r"(?=.*[A-Z]\d+[A-Z])[A-Z0-9]{6}")  # as of a booking: QX7LMZ
_PREFIX = re.compile(r"0x|[A-Za-z]+")
_TOKEN = re.compile(r"\w+(?:[-./]\w+)*|[:#=(,\"“]|\S")
_LAST = 8  # words before an identifier that are looked at
# What may stand between an identifier and the noun that says what it is; other identifiers may too, as in a list.
_LABELS = words("number no nr num id ids ref reference n° nº")
_BETWEEN = _LABELS | words(
    """is was are the a an my your our his her its this that : # = ( " “ , and or not nor instead rather than old new
    current both code codes ist der die das und oder le la les est et ou el los es y o os e é"""
)
_SHOWN = re.compile(
    r"\b(?:shows?|showing|says?|said|displays?|reads|reported|errors?|faults?|alarms?|still|now|gets?"
    r"|getting|prints?|throws?|(?:fails?|crash\w*|stops?|hangs?|ends?|aborts?|breaks?)(?: \w+){0,3} with)"
    r"(?: (?:me|a|an|the|error|it|[A-Z]{2,4}|\d{3}))*\W{1,3}$",
    re.I,
)
_NAMED = re.compile(
    r"(?:\b(?:[Aa]n?|[Tt]he|[Tt]hese|[Tt]his|[Ee]ach|[Oo]ur|[Mm]y)|[^.!?:\s]\s[A-Z]\w*[a-z]) (?:[A-Z]{2,4} )?$"
)
_MACHINE_MADE = re.compile(r"[a-z]{2,5}_[A-Za-z0-9]{4,}|(?=.*[a-z])(?=.*[A-Z])(?=.*\d.*\d)\w{8,}")
_EXPLAINED = re.compile(r" (?:is|are|means?|needs?|was|were|breaks?|comes?|has|fits|works?|helps?)\b")
_INSTRUCTED = re.compile(
    r"\b(?:use|using|install|run|follow|(?<!I )(?<!can )(?<!we )see|apply|press|dial|fill in|complete|sign"
    r"|send|quote|add|set|attach|replace|take|select|choose|open|enter|go to|switch to|swap to|update to|roll back to"
    r"|download|push(?:ed)?|put|under|per|according to|as in)(?: \w+){0,2} $",
    re.I,
)
_MADE = re.compile(
    r"\b(?:opened|raised|created|logged|booked|noted|issued|registered|(?:re)?shipped|refunded|cancell?ed|released|prepared"
    r"|closed|assigned|generated|reserved|scheduled|left|ordered|restored|wrote|written|put you|moved|filed|saved"
    r"|exchange|I (?:close|open|book|create|raise|file|refund|cancel|note|log)|your|for you)(?:,? [\w-]+){0,5},? $",
    re.I,
)
_OWN = re.compile(r"\b(?:my|your)(?: \w+){1,3}\W+$", re.I)
_KEY = re.compile(r"(?:(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{4}(?:-|$)){2,}")  # as of a licence or voucher: 9KQ2-77LM
# Points for the procedure: an identifier below zero belongs to the case.  Each clue counts once in a conversation.
# On the held-out talks of tests/fixtures/redaction.yaml 130 of 131 identifiers of a case go and 136 of 142 of a
# procedure stay.  On twenty talks of other trades, read only afterwards, 85 of 91 went and 78 of 81 stayed.
_POINTS = {
    "procedure noun": 5.0, "case noun": -5.0, "either noun": 2.0, "either noun, long": -1.0, "noun after": 3.0,
    "procedure prefix": 4.0, "case prefix": -4.0, "feedback": 4.0, "query": 1.0, "customer": -1.0, "shown": 3.0,
    "named": 2.0, "explained": 2.0, "instructed": 2.0, "made": -2.0, "case asked": -3.0, "procedure asked": 4.0,
    "machine-made": -3.0, "key": -6.0, "version": 3.0, "two digits": 2.0, "plain number": 2.0,
    "longer number": 0.5, "hash": -2.0, "five digits": -1.5, "eight digits": -2.0,
}  # fmt: skip


def identifiers(text: str) -> Iterator[str]:
    """The identifiers in a text."""
    return (found[1] for found in IDENTIFIER.finditer(text))


def procedural_ids(said: Iterable[tuple[str, str]]) -> dict[str, bool]:
    """Whether each identifier of the texts, which come with their roles, belongs to the procedure."""
    return {one: sum(_POINTS.get(clue, 0.0) for clue in known) >= 0 for one, known in clues_in(said).items()}


def clues_in(said: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The clues to each identifier of the texts."""
    clues: dict[str, set[str]] = {}
    question = ""
    for role, text in said:
        for found in IDENTIFIER.finditer(text):
            if found[0][0] == "#" or not _QUANTITY.match(text, found.start(1)):
                # Who is the first to write it says more than who repeats it; feedback comes last and always counts.
                first = {role} if found[1] not in clues or role == "feedback" else set()
                clues[found[1]] = clues.get(found[1], set()) | first | set(_clues(found, question))
        question = text
    return clues


def _clues(found: re.Match[str], question: str) -> Iterator[str]:
    before = clause(found)
    after = found.string[found.end() : found.end() + 30]
    if noun := noun_before(before, found[1]):
        yield noun
    elif (word := re.match(r" (\w+)", after)) and word[1].lower() in _PROCEDURE_NOUNS:
        yield "noun after"
    elif found.start() < 24 and (asked := _asked_for(question)):
        yield asked
    prefix = (_PREFIX.match(found[1]) or [""])[0].lower()
    if prefix in _CASE_PREFIXES:
        yield "case prefix"
    if _VERSION.fullmatch(found[1]):
        yield "version"
    if _MACHINE_MADE.fullmatch(found[1]):
        yield "machine-made"
    if _KEY.fullmatch(found[1]):
        yield "key"
    if noun != "procedure noun" and _MADE.search(before):
        yield "made"
    elif _INSTRUCTED.search(before):
        yield "instructed"
    for clue, pattern in (("shown", _SHOWN), ("named", _NAMED)):
        if pattern.search(before):
            yield clue
    if not before.strip() and _EXPLAINED.match(after):
        yield "explained"
    if prefix in _PROCEDURE_PREFIXES:
        yield "procedure prefix"
        return
    digits = sum(map(str.isdigit, found[1]))
    if digits < 3 and not _LOCATOR.fullmatch(found[1]):
        yield "two digits"
    if found[0][0] == "#" and digits > 2:
        yield "hash"
    if len(found[1]) == digits < 6:
        yield "plain number" if digits < 4 else "longer number"
        return
    yield from (f"{name} digits" for name, least in (("five", 5), ("eight", 8)) if digits >= least)


def _asked_for(question: str) -> str:
    """What the last noun of a question is of, for the answer to it."""
    for word in reversed(
        re.findall(r"\w+", question.rstrip().rpartition(".")[2].lower()) if "?" in question[-40:] else []
    ):
        if word in _CASE_NOUNS or word in ("number", "id", "name"):
            return "case asked"
        if word in _PROCEDURE_NOUNS:
            return "procedure asked"
    return ""


def noun_before(before: str, identifier: str) -> str:
    """What the nearest noun before an identifier says it is."""
    passed: set[str] = set()
    for token in reversed(_TOKEN.findall(before)[-_LAST:]):
        word = token.lower()
        stem = word.removesuffix("s") if word not in _PROCEDURE_NOUNS else word
        if word.endswith("nummer"):
            return "procedure noun" if word[:-6].removesuffix("s") in _PROCEDURE_NOUNS else "case noun"
        if word in _EITHER_NOUNS:
            if _OWN.search(before) or passed & _LABELS:
                return "case noun"
            return "either noun" if sum(map(str.isdigit, identifier)) < 4 else "either noun, long"
        if word in _CASE_NOUNS or stem in _CASE_NOUNS:
            return "case noun"
        if word in _PROCEDURE_NOUNS or stem in _PROCEDURE_NOUNS:
            return "procedure noun"
        if word == "," and passed & _LABELS:
            break  # "template NB-2, reference 4471"
        if word not in _BETWEEN and not any(map(str.isdigit, word)) and not (token.isupper() and len(token) < 5):
            break
        passed.add(word)
    if "code" in passed:
        return "case noun" if identifier.isdigit() and len(identifier) > 3 else "procedure noun"
    return "case noun" if passed & _LABELS else ""


def clause(found: re.Match[str]) -> str:
    """What stands before the match in its clause."""
    return re.split(r"[.!?;]\s|\n", found.string[max(0, found.start() - 80) : found.start()])[-1]
