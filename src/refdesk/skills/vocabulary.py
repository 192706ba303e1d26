"""The words of support conversations: meanings and weights, languages, and what they say about identifiers."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
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
        show shows shown work works worked working happen happens happened thx cheers alright brilliant wonderful
        excellent lovely"""
    )
)


# What redaction puts in place of what it removes.
PLACEHOLDER = re.compile(r"\[(?:[a-zA-Z]+ )?(?:address|number|name|secret|code|id|date|phone|email|postcode|IBAN|IP)\]")


def content_terms(text: str) -> list[str]:
    """The terms of a text that carry meaning, in order."""
    return [term for term in analyse.terms(PLACEHOLDER.sub(" ", text)) if term not in STOP_TERMS]


def lines(file: str) -> list[str]:
    """The lines of a file of this package, without comments."""
    text = resources.files("refdesk.skills").joinpath(file).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@cache
def people() -> frozenset[str]:
    """Given and family names, which few other words are written like."""
    return words(" ".join(lines("names.txt")))


def is_person(word: str) -> bool:
    """Whether the word is a known name, with or without its accents."""
    if word.isascii():
        return word in people()
    plain = "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
    return word in people() or plain in people()


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
        hat kann wie seit noch aber nach mir uns ihre wurde wird keine kein nur bis | passwort konto rechnung bestellung
        kunde kundin gesperrt vergessen lieferung paket kündigen fehlermeldung erstattung anmelden angemeldet
        funktioniert""",
    "French": """le la les des est et je vous nous ne pas mon ma mes une pour avec dans sur qui que du au ce cette
        j'ai c'est n'est suis été plus votre mais depuis | passe compte facture commande livraison colis
        remboursement bloqué oublié abonnement connexion bonjour fonctionne""",
    "Spanish": """el la los las es y no mi mis una para con por que del se su está he ha pero desde cuando como muy ya
        lo al tengo puedo hola | contraseña cuenta factura pedido paquete reembolso bloqueada bloqueado olvidé
        suscripción envío funciona cobraron""",
    "Portuguese": """o os as é e não meu minha uma para com por que do da se está mas desde quando como muito já ao
        na no tenho posso olá foi | senha conta fatura encomenda pedido reembolso bloqueada bloqueado esqueci
        assinatura entrega funciona cobraram""",
}


_ACCENTED = {"German": "äöüß", "French": "àâçèéêëîïôùûœ", "Spanish": "áéíñóú", "Portuguese": "ãõçáâêéíóú"}
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
    runs = " ".join(run for run in re.findall(r"[\w'’-]+", text) if not re.search(r"\d", run))  # without ids
    written = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", runs)
    said = [word.lower().replace("’", "'") for word in written]
    small = [word for word in written if not word.isascii() and word.islower()]  # no names
    counts = {
        name: sum(word in common for word in said) + 2 * sum(word in telling for word in said)
        for name, (common, telling) in _function_words().items()
    }
    for name, letters_of in _ACCENTED.items():
        if counts[name]:  # "crème brûlée" alone is no French
            counts[name] += sum(not set(letters_of).isdisjoint(word) for word in small)
    best = max(counts, key=lambda name: counts[name])  # English comes first and wins a tie
    if counts[best] <= _FEW and not _function_words()[best][1].intersection(said):
        known = analyse.STOP_TERMS | {word for word in said if len(word) < 3} - _function_words()[best][0]
        readable = sum(word in known or analyse.is_english(word) for word in said)
        return best if 2 * readable < len(said) and counts[best] > 1 else "English"  # "Las Vegas booking, no show"
    return best if counts[best] > 1 else "English"
