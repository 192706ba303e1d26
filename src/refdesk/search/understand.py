"""What is being asked?  Rules that read a query before it is searched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from refdesk import analyse

QueryKind = Literal["symbol", "path", "error", "code", "words"]

QUOTED = re.compile(r'"([^"]{2,})"')
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->|/)[A-Za-z_$][\w$]*)*(?:\(\))?[?!]?")
_PARTS = re.compile(r"\.|::|#|->|/")
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|_\w|\w_|::|->|\w\.\w|\(\)$|[A-Z]{2,}[a-z]|^[A-Z][a-z0-9]+[A-Z]")
_PATH = re.compile(r"^[\w@.+\-/\\]+\.[A-Za-z0-9]{1,8}$|^[\w@.+\-]+(?:/[\w@.+\-]+)+/?$")
_ERROR = re.compile(
    r"(?:Error|Exception|Warning|Traceback|Panic|panic)\b|\bE[A-Z]{4,}\b|\b[EWC]\d{3,5}\b|\berrno\b|[Ee]rror:|[Ff]ailed:"
)
_CODE = re.compile(r"[{};]|=>|->|\w\(|\)\s*[:{]|==|!=|&&|\|\||^\s*(?:def|fn|func|class|import|from|let|const|var)\s")
_STOP = frozenset(
    analyse.terms(
        "a an and are as at be but by can do does did for from had has have how i if in into is it its me my no not of"
        " on or our should so such that the their then there these they this to was we were what when where which who"
        " why will with would you your"
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A query taken apart."""

    kind: QueryKind
    terms: tuple[str, ...]  # analysed, without stop words, in order, each once
    quoted: tuple[str, ...]  # what stood in quotes
    names: tuple[str, ...]  # joined forms of the identifiers a definition could have
    spelt: str  # the last part of a symbol as it was typed, "" where its letters tell nothing
    words: tuple[str, ...]  # joined forms of all words, for names spelt with blanks


def understand(text: str) -> Understood:
    """The query's kind, its terms, its quoted phrases and the names it may mean."""
    quoted = tuple(one for one in QUOTED.findall(text) if analyse.terms(one))
    every = tuple(dict.fromkeys(analyse.terms(text)))
    content = tuple(term for term in every if term not in _STOP)
    stripped = text.strip()
    kind = _kind(stripped)
    return Understood(
        kind=kind,
        terms=content or every,
        quoted=quoted,
        names=_names(stripped),
        spelt=_spelt(stripped) if kind == "symbol" else "",
        words=tuple(analyse.names(text)),
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
    """True for `Session.request`, false for `session.py`: an extension is short and lower-case."""
    head, _, last = text.rpartition(".")
    return "/" not in text and bool(head) and (len(last) > 4 or not last.islower())


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
