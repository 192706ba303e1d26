"""What is being asked?  Rules that read a query before it is searched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from refdesk.text import analyse

QueryKind = Literal["symbol", "path", "error", "code", "words"]

_SHORT = 200  # letters of what may be a name with a keyword or a type before it
QUOTED = re.compile(r'"([^"]{2,})"')
_SHORT = 200  # characters: in longer texts, such as reports, quotes quote
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->|/)[A-Za-z_$][\w$]*)*(?:\(\))?[?!]?")
_PARTS = re.compile(r"\.|::|#|->|/")
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|_\w|\w_|::|->|\w\.\w|\(\)$|[A-Z]{2}[a-z]|^[A-Z][a-z0-9]+[A-Z]")
_PATH = re.compile(r"^[\w@.+\-/\\]+\.[A-Za-z0-9]{1,8}$|^[\w@.+\-]+(?:/[\w@.+\-]+)+/?$")
_ERROR = re.compile(
    r"(?:Error|Exception|Warning|Traceback|Panic|panic)\b|\bE[A-Z]{4,}\b|\b[EWC]\d{3,5}\b|\berrno\b|[Ee]rror:|[Ff]ailed:"
)
_CODE = re.compile(r"[{};]|=>|->|\w\(|\)\s*[:{]|==|!=|&&|\|\||^\s*(?:def|fn|func|class|import|from|let|const|var)\s")
# What a keyword before a name says of its definition; a chunk's kinds are sorted so in features.py.
_CODE_WORDS = {
    "def": "function", "fn": "function", "func": "function", "fun": "function", "struct": "type", "enum": "type",
    "trait": "type", "impl": "type", "typedef": "type", "const": "value", "let": "value", "var": "value",
    "val": "value",
}  # fmt: skip
_ENGLISH = {  # and so may begin a question as well as a definition
    "function": "function", "method": "function", "macro": "function", "class": "type", "interface": "type",
    "type": "type", "protocol": "type", "record": "type", "union": "type", "object": "type", "constant": "value",
    "property": "value", "variable": "value",
}  # fmt: skip
_KEYWORDS = {**_CODE_WORDS, **_ENGLISH}
_DECLARED = re.compile(
    rf"(?:(?:pub|export|public|static|async|abstract) )*({'|'.join(_KEYWORDS)}) ([A-Za-z_$][\w$]*)(?:\(\))?"
)
_MEMBER = re.compile(r"([A-Za-z_$][\w$]+) ([A-Za-z_$][\w$]+)(?:\(\))?")
_EXTENSIONS = frozenset(
    re.findall(
        r"\w+",
        "adoc bash bat c cc cfg conf cpp cs css csv cxx d dart ex exs fs go h hh hpp hs htm html hxx ini ipynb java jl"
        " js json jsx kt kts less lock log lua m md mdx mjs ml mm mts nim patch pdf php pl pm proto ps1 py pyi pyx r rb"
        " rs rst sass scss sh sql svg swift tex tf toml ts tsv tsx txt vue xml yaml yml zig zsh",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A query taken apart."""

    kind: QueryKind
    terms: tuple[str, ...]  # analysed, without stop words, in order, each once
    quoted: tuple[str, ...]  # what stood in quotes of a short query: passages with it come first
    names: tuple[str, ...]  # joined forms of the identifiers a definition could have
    spelt: str  # the last part of a symbol as it was typed, "" where its letters tell nothing
    words: tuple[str, ...]  # joined forms of all words, for names spelt with blanks
    whole: tuple[str, ...] = ()  # joined: the name that all of the query may be, after the type it is a member of
    declared: str = ""  # what a keyword before that name makes it: function, type or value


def understand(text: str) -> Understood:
    """The query's kind, its terms, its quoted phrases and the names it may mean."""
    quoted = tuple(one for one in QUOTED.findall(text) if analyse.terms(one)) if len(text) <= _SHORT else ()
    every = tuple(dict.fromkeys(analyse.terms(text)))
    content = tuple(term for term in every if term not in analyse.STOP_TERMS)
    stripped = " ".join(text.split()) if len(text) < _SHORT else text.strip()
    declared = ""
    whole: tuple[str, ...] = ()
    if match := _DECLARED.fullmatch(stripped):
        declared, whole = _KEYWORDS[match[1]], (analyse.joined_name(match[2]),)
        if match[1] in _CODE_WORDS or _COMPOUND.search(match[2]) or match[2].istitle():
            stripped = match[2]
            content = tuple(dict.fromkeys(analyse.terms(stripped)))
    elif match := _MEMBER.fullmatch(stripped):
        whole = (analyse.joined_name(match[1]), analyse.joined_name(match[2]))
    kind = _kind(stripped)
    return Understood(
        kind=kind,
        terms=content or every,
        quoted=quoted,
        names=_names(stripped),
        spelt=_spelt(stripped) if kind == "symbol" else "",
        words=tuple(analyse.names(text)),
        whole=whole,
        declared=declared,
    )


def _kind(text: str) -> QueryKind:
    if " " not in text and _PATH.match(text) and ("/" in text or "." in text) and not text.endswith("()"):
        return "symbol" if _is_dotted_name(text) else "path"
    if _IDENTIFIER.fullmatch(text):
        return "symbol"
    if _ERROR.search(text):
        return "error"
    if _CODE.search(text):
        return "code"
    return "words"


def _is_dotted_name(text: str) -> bool:
    """True for `Session.request` and `Pool.add`, false for `session.py` and `.env`."""
    return "/" not in text and bool(_IDENTIFIER.fullmatch(text)) and text.rpartition(".")[2] not in _EXTENSIONS


def _spelt(symbol: str) -> str:
    """The name as it was typed where somebody cared how: `desk` may mean `Desk`, `Desk` and `desk()` are meant so."""
    name = _PARTS.split(symbol.removesuffix("()"))[-1]
    return name if "_" in name or not name.islower() or symbol.endswith("()") else ""


def _names(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(text):
        name = match.group().removesuffix("()")
        if " " in text and not _COMPOUND.search(match.group()):
            continue
        for part in _PARTS.split(name):
            found.update(dict.fromkeys(analyse.names(part)))
    return tuple(found)
