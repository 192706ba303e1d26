"""The parts of the graph: nodes and edges, files with their facts, candidates for a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

from refdesk.graph.languages import CALLABLES, EXTENSIONS, TYPES, VALUES, go_name, home
from refdesk.model import Document, Reference, Symbol
from refdesk.ports import Store

# How sure it is that a name means a definition.  By bench.graph's judges, of the callers found in lark and kombu 143 of
# 143, 37 of 39, 8 of 17 and 8 of 10 are right, and none of the 17 whose confidence is below SURE, which are left out.
CERTAIN, LIKELY, FAIR, GUESS = 0.95, 0.85, 0.7, 0.6
SURE = 0.5

Candidate = tuple[Document, Symbol]
T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """Like functools.cached_property, which on Python 3.11 holds one lock for all instances while it computes one.

    Searches in 16 threads waited for each other there. Two threads that share an instance may both compute the value.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._compute.__name__] = self._compute(instance)
        return value


@dataclass(frozen=True, slots=True)
class Node:
    """A symbol, or a whole file where `qualified` is empty."""

    path: str
    qualified: str
    kind: str
    start_line: int
    end_line: int
    signature: str = ""
    document_id: str = ""
    language: str = ""

    @property
    def id(self) -> str:
        return f"{self.path}:{self.qualified}" if self.qualified else self.path

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2] or self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` does `kind` to `target` at a line of source's file."""

    source: Node
    target: Node
    kind: str
    line: int
    confidence: float


def file_node(document: Document) -> Node:
    return Node(document.path, "", "file", 1, 1, "", document.id, document.content_type)


def symbol_node(document: Document, symbol: Symbol) -> Node:
    return Node(
        document.path,
        symbol.qualified,
        symbol.kind,
        symbol.start_line,
        symbol.end_line,
        symbol.signature,
        document.id,
        document.content_type,
    )


class Fact(NamedTuple):
    """What the grammar says about a name inside a definition; `Symbol.facts` lists the signs."""

    sign: str
    name: str
    line: int
    what: str
    scope: str  # the qualified name of the definition


def facts_of(symbol: Symbol) -> list[Fact]:
    found = []
    for written in symbol.facts.split("\n") if symbol.facts else ():
        name, line, what = written[1:].split(" ", 2)
        found.append(Fact(written[0], name, symbol.start_line + int(line), what, symbol.qualified))
    return found


def said(symbol: Symbol, sign: str) -> str | None:
    """The content of the first fact with that sign, or None."""
    return next((one.what for one in facts_of(symbol) if one.sign == sign), None) if sign in symbol.facts else None


class File:
    """One source file as name resolution sees it; each part is read when it is needed."""

    def __init__(self, store: Store, document: Document) -> None:
        self._store = store
        self.document = document
        self.language = document.content_type

    @lazy
    def symbols(self) -> list[Symbol]:
        return self._store.symbols_of(self.document.id)

    @lazy
    def references(self) -> list[Reference]:
        return self._store.references_of(self.document.id)

    @lazy
    def declared(self) -> list[Reference]:
        """The imports and declared supertypes of the file: a small part of its references."""
        return self._store.references_of(self.document.id, ("imports", "inherits", "conforms", "package", "fact"))

    @lazy
    def by_qualified(self) -> dict[str, Symbol]:
        found: dict[str, Symbol] = {}
        for symbol in self.symbols:
            found.setdefault(symbol.qualified, symbol)
        return found

    @lazy
    def imports(self) -> dict[str, list[tuple[str, str]]]:
        """Local name → the modules and names it may mean; "" as a name is the module itself."""
        found: dict[str, list[tuple[str, str]]] = {}
        for ref in self.declared:
            if ref.kind != "imports":
                continue
            is_alike = ref.receiver in ("", ref.target) or ref.receiver.endswith(f".{ref.target}")
            if self.language == "go":
                module = ref.receiver or ref.target
                found.setdefault(ref.alias or go_name(module), []).append((module, ""))
            elif not is_alike or (self.language == "python" and ref.alias == ref.target):
                found.setdefault(ref.alias or ref.target, []).append((ref.receiver, ref.target))
            elif ref.alias or self.language != "python":
                found.setdefault(ref.alias or ref.target, []).append((ref.receiver or ref.target, ""))
            else:  # `import a.b` binds a, and is used as a.b
                found.setdefault(ref.receiver.partition(".")[0], []).append((ref.receiver.partition(".")[0], ""))
        return found

    @lazy
    def starred(self) -> list[str]:
        return [ref.receiver or ref.target for ref in self.declared if ref.kind == "imports" and ref.target == "*"]

    @lazy
    def base_references(self) -> dict[str, list[Reference]]:
        """The declared supertypes of each type of the file, as written."""
        found: dict[str, list[Reference]] = {}
        for ref in self.declared:
            if ref.kind in ("inherits", "conforms"):
                found.setdefault(ref.source, []).append(ref)
        return found

    @lazy
    def package(self) -> str:
        """The unit whose files see each other without imports: the declared package, else the folder."""
        declared = next((ref.target for ref in self.declared if ref.kind == "package"), None)
        return self.document.path.rpartition("/")[0] if declared is None else declared

    @lazy
    def _facts(self) -> dict[str, list[Fact]]:
        found: dict[str, list[Fact]] = {}
        for symbol in self.symbols:
            for fact in facts_of(symbol):
                found.setdefault(fact.name, []).append(fact)
        for ref in self.declared:
            if ref.kind == "fact":
                found.setdefault(ref.target, []).append(Fact(ref.alias, ref.target, ref.line, ref.receiver, ""))
        return found

    def facts_of(self, name: str) -> list[Fact]:
        """The facts about a variable anywhere in the file."""
        return self._facts.get(name, [])

    def facts_in(self, scope: str, name: str) -> list[Fact]:
        """The facts about a variable in a definition and inside it; outside of any definition for ""."""
        found = self.facts_of(name)
        return [one for one in found if one.scope == scope or (scope and one.scope.startswith(f"{scope}."))]

    def member_facts(self, owner: str, name: str) -> list[Fact]:
        """The facts about a type's member: from its declaration, else from any method."""
        found = self.facts_in(owner, name)
        return [one for one in found if self.by_qualified[one.scope].kind not in CALLABLES] or found

    def top_facts(self, name: str) -> list[Fact]:
        """The facts about a module-level variable."""
        top = [one for one in self.facts_of(name) if one.scope and "." not in one.scope]
        return [one for one in top if self.by_qualified[one.scope].kind in VALUES]

    def functions_around(self, qualified: str) -> list[str]:
        """The enclosing functions of a symbol, innermost first: their variables are visible in it."""
        parts = qualified.split(".")[:-1]
        around = [self.by_qualified.get(".".join(parts[:size])) for size in range(len(parts), 0, -1)]
        return [one.qualified for one in around if one is not None and one.kind in CALLABLES]

    def enclosing_type(self, qualified: str) -> str:
        """The qualified name of the innermost type around a symbol, or of the symbol if it is one; "" for none."""
        parts = qualified.split(".")
        for size in range(len(parts), 0, -1):
            name = ".".join(parts[:size])
            symbol = self.by_qualified.get(name)
            if symbol is not None and symbol.kind in TYPES:
                return name
            if symbol is None and size < len(parts):
                return name  # members of a type that is defined elsewhere: an extension, an impl
        return ""


@dataclass(frozen=True, slots=True)
class Resolved:
    document: Document
    symbol: Symbol
    confidence: float


class Candidates:
    """The definitions of one name, indexed by what they are defined in."""

    def __init__(self, found: Sequence[Candidate]) -> None:
        self.every = found

    @lazy
    def outer(self) -> Candidates:
        """The top-level candidates."""
        return Candidates(self.top)

    @lazy
    def top(self) -> list[Candidate]:
        return [one for one in self.every if "." not in one[1].qualified]

    @lazy
    def members(self) -> list[Candidate]:
        return [one for one in self.every if container(one[1])]

    @lazy
    def by_container(self) -> dict[str, list[Candidate]]:
        """The name of a type → what is defined in types of that name."""
        found: dict[str, list[Candidate]] = {}
        for one in self.every:
            found.setdefault(container(one[1]), []).append(one)
        return found

    @lazy
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


def all_of(found: Iterable[Candidate], confidence: float) -> list[Resolved]:
    return [Resolved(document, symbol, confidence) for document, symbol in found]


def shared(found: Sequence[Candidate], confidence: float) -> list[Resolved]:
    """The candidates with a confidence that decreases with their number; overloads and parts of one type count once."""
    places = set()
    for document, symbol in found:
        place = document.id
        if symbol.kind in EXTENSIONS:
            place = ""
        elif document.content_type in ("c", "cpp", "objc"):  # declared in a header, defined in a source file
            place = document.path.rpartition("/")[2].partition(".")[0]
        places.add((place, symbol.qualified))
    return all_of(found, round(confidence / max(1, len(places)) ** 0.5, 3))
