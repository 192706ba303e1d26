"""What has a name, and how sure is it that it is meant?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from refdesk.graph.languages import EXTENSIONS, home
from refdesk.model import Document, Symbol

CERTAIN, LIKELY, FAIR, GUESS = 0.95, 0.85, 0.7, 0.6

Candidate = tuple[Document, Symbol]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A symbol that a reference means, and how sure that is."""

    document: Document
    symbol: Symbol
    confidence: float


class Candidates:
    """The definitions of one name, found by what they are defined in."""

    def __init__(self, found: Sequence[Candidate]) -> None:
        self.every = found

    @cached_property
    def outer(self) -> Candidates:
        """Those outside of any type or function, alone."""
        return Candidates(self.top)

    @cached_property
    def top(self) -> list[Candidate]:
        """Those outside of any type or function."""
        return [one for one in self.every if "." not in one[1].qualified]

    @cached_property
    def members(self) -> list[Candidate]:
        return [one for one in self.every if container(one[1])]

    @cached_property
    def by_container(self) -> dict[str, list[Candidate]]:
        """The name of a type → what is defined in types of that name."""
        found: dict[str, list[Candidate]] = {}
        for one in self.every:
            found.setdefault(container(one[1]), []).append(one)
        return found

    @cached_property
    def by_place(self) -> dict[tuple[str, str], list[Candidate]]:
        """The home and qualified name of a type → what is defined in it."""
        found: dict[tuple[str, str], list[Candidate]] = {}
        for one in self.every:
            found.setdefault((home(one[0]), one[1].qualified.rpartition(".")[0]), []).append(one)
        return found


def container(symbol: Symbol) -> str:
    """The last name of what the symbol is defined in."""
    return _container(symbol.qualified)


@lru_cache(maxsize=65_536)
def _container(qualified: str) -> str:
    return qualified.rpartition(".")[0].rpartition(".")[2].rstrip("?!")  # of Kotlin's String?.orNone, String


def _place(document: Document, symbol: Symbol) -> str:
    """The same for the parts of one type, and for what a header declares and a source file defines."""
    if symbol.kind in EXTENSIONS:
        return ""
    if document.content_type in ("c", "cpp", "objc"):
        return document.path.rpartition("/")[2].partition(".")[0]
    return document.id


def all_of(found: Iterable[Candidate], confidence: float) -> list[Resolved]:
    return [Resolved(document, symbol, confidence) for document, symbol in found]


def shared(found: Sequence[Candidate], confidence: float) -> list[Resolved]:
    """One is as sure as can be; several share it, unless they are overloads of one name or parts of one type."""
    places = {(_place(document, symbol), symbol.qualified) for document, symbol in found}
    share = round(confidence / max(1, len(places)) ** 0.5, 3)
    return [Resolved(document, symbol, share) for document, symbol in found]
