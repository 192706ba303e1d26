"""Infers the types of expressions from the facts that grammars recorded: declarations, assignments, loops, results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from refdesk.graph import languages
from refdesk.graph.nodes import FAIR, Fact, File, facts_of, said
from refdesk.model import Reference, Symbol

if TYPE_CHECKING:
    from refdesk.graph.resolve import Resolver

_DEEP = 6  # values of values, fields of bases
_MAKES_OWN = frozenset(["cls", "cls.__new__", "self.__class__", "object.__new__", "super().__new__"])
_OWN = frozenset(["Self", "self", "this", "static"])  # as a result: the type around
_BUILTIN_TYPES = frozenset(
    ["bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "open", "set", "str"]
)


class Typed(NamedTuple):
    """A type by the name that some file calls it, at some place in it."""

    file: File
    name: str  # as written: Foo, models.Foo
    source: str = ""  # the qualified name of what it is named in

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


class Types:
    def __init__(self, names: Resolver) -> None:
        self._names = names
        self._graph = names.graph
        self._asking: set[tuple[str, str, str]] = set()
        self._results: dict[tuple[str, Symbol, int], set[Typed]] = {}
        self._owners: dict[Typed, list[tuple[File, str]] | None] = {}
        self._expressions: dict[tuple[str, str, int, str], set[Typed]] = {}
        self._fields: dict[tuple[Typed, str], set[Typed]] = {}

    # --- what a type's name means ---------------------------------------------------------------------

    def meant(self, typed: Typed) -> list[tuple[File, str]] | None:
        """The classes that the name means in its file; None where that is unknown."""
        if typed not in self._owners:
            self._owners[typed] = None  # while it is being found
            self._owners[typed] = self._find_meant(typed)
        return self._owners[typed]

    def _find_meant(self, typed: Typed) -> list[tuple[File, str]] | None:
        file, language = typed.file, typed.file.language
        if language not in languages.WHOLE:
            return None
        before, _, last = typed.name.rpartition(".")
        source = file.by_qualified.get(typed.source)
        local: set[Typed] = set()
        if before:
            local = self._member_aliases(file, typed.source, before, last)
        elif language != "go" and source is not None and source.kind not in languages.TYPES:
            # A variable of the function: `Custom = extend(…)`, then Custom().
            local = self._made_by(file, [one for one in file.facts_in(typed.source, last) if one.what != f"{last}()"])
        if local:
            return [owner for one in local for owner in self.meant(one) or ()]
        found = self._names.resolve(file.document, Reference("references", typed.source, last, 0, before))
        sure = [(one.document, one.symbol) for one in found if one.confidence >= FAIR]
        classes = [(self._graph.file(where), one.qualified) for where, one in sure if one.kind in languages.TYPES]
        if classes:
            return classes
        given: set[Typed] = set()
        for document, symbol in sure or self._graph.named(last):
            # A variable of the module: of `Draft = create(…)` what create gives, of `Input = A | B` both.
            if symbol.kind in languages.VALUES and "." not in symbol.qualified:
                there = self._graph.file(document)
                facts = [one for one in there.top_facts(symbol.name) if one.sign == "="]
                given |= {one for fact in facts for one in _aliases(there, fact)} or self._made_by(there, facts)
        if given:
            return [owner for one in given for owner in self.meant(one) or ()]
        if language == "go":
            return []  # another module's, or the language's own: what is seen here would have been found
        is_foreign = language == "python" and (before or last) in file.imports and not found
        return [] if is_foreign else None

    def _member_aliases(self, file: File, source: str, receiver: str, name: str) -> set[Typed]:
        """The types that a member stands for: `self.maker = Maker`, then self.maker()."""
        own = file.enclosing_type(source) if receiver in languages.SELF else ""
        facts = file.member_facts(own, name) if own else []
        return {one for fact in facts if fact.sign == "=" for one in _aliases(file, fact)}

    def _made_by(self, file: File, facts: Iterable[Fact]) -> set[Typed]:
        """The types of the calls that are assigned to a variable."""
        calls = [(one, function) for one in facts if one.sign == "=" and (function := _function(one.what))]
        return {typed for one, function in calls for typed in self._type_of_call(file, one.scope, one.line, function)}

    # --- the type of an expression --------------------------------------------------------------------

    def of_expression(self, file: File, source: str, line: int, text: str, deep: int = 0) -> set[Typed]:
        """The types of `shelf`, `self.store`, `c.echo.router` or `make()`, as they are named somewhere."""
        if deep > _DEEP:
            return set()
        key = (file.document.id, source, line, text)
        if key not in self._expressions:  # memoised: a file can have exponentially many chains of values
            self._expressions[key] = set()
            self._expressions[key] = self._find_expression(file, source, line, text, deep)
        return self._expressions[key]

    def _find_expression(self, file: File, source: str, line: int, text: str, deep: int) -> set[Typed]:
        if text.endswith("()"):
            function = text.removesuffix("()")
            found = self._type_of_call(file, source, line, function)
            if not found and file.language == "go":  # in a long chain, methods mostly return their receiver
                found = self._type_of_call(file, source, line, text.partition("(")[0])
            return found
        head, _, last = text.rpartition(".")
        if not head:
            return self._of_variable(file, source, line, last, deep)
        own = file.enclosing_type(source)
        if head in languages.SELF and own and file.language != "go":
            return self._of_own(file, own, last, deep)
        found = set()
        for one in self.of_expression(file, source, line, head, deep + 1):
            found |= self._of_field(one, last, deep)
        if not found and file.language != "go":
            found = self._of_own(file, own, last, deep)
            name = head.rpartition(".")[2]
            for document, symbol in self._graph.named(name) if not found and name[:1].isupper() else ():
                if symbol.kind in languages.TYPES:  # a type's own member: of Log.shared, what Log says
                    there = self._graph.file(document)
                    found |= self._of_facts(there, there.member_facts(symbol.qualified, last), last, deep)
        return found

    def _of_variable(self, file: File, source: str, line: int, name: str, deep: int) -> set[Typed]:
        """The types of a variable, by facts of the function, of the enclosing type and functions, of the module."""
        before = [one for one in file.facts_in(source, name) if one.line <= line]
        if not source:  # each block of tests has variables of its own, or those of a fixture
            before = before or [one for one in file.facts_of(name) if one.line <= line]
            before = before and [max(before, key=lambda one: one.line)]
        if found := self._of_facts(file, before, name, deep):
            return found
        if file.language == "go":
            for document, symbol in self._graph.named(name):  # a variable of the package
                is_here = languages.home(document) == languages.home(file.document)
                if is_here and symbol.kind in languages.VALUES and symbol.qualified == name:
                    there = self._graph.file(document)
                    return self._of_facts(there, there.top_facts(name), name, deep)
            return set()
        if file.language in languages.IMPLICIT_SELF and (
            found := self._of_own(file, file.enclosing_type(source), name, deep)
        ):
            return found
        around = [file.facts_in(scope, name) for scope in file.functions_around(source)]
        for facts in (*around, file.top_facts(name)):
            if found := self._of_facts(file, facts, name, deep):
                return found
        return set()

    def _of_own(self, file: File, own: str, name: str, deep: int) -> set[Typed]:
        """The types of a member of the type around, which may be declared in another file: a header, an extension."""
        if not own:
            return set()
        found = self._of_facts(file, file.member_facts(own, name), name, deep)
        if not found and file.language not in languages.WHOLE:
            found = self._of_field(Typed(file, own), name, deep + 1)
        return found

    def _of_facts(self, file: File, facts: Iterable[Fact], name: str, deep: int) -> set[Typed]:
        """The declared types of a variable or those it is constructed as; else the types of what it is assigned."""
        found: set[Typed] = set()
        derived: dict[tuple[str, str], Fact] = {}  # each expression once
        for fact in facts:
            function = _function(fact.what) if fact.sign == "=" else ""
            if fact.sign == ":":
                found |= {Typed(file, one, fact.scope) for one in fact.what.split("|") if _is_type(one, file)}
            elif function and file.language != "go" and _is_type(function, file):
                found.add(Typed(file, function, fact.scope))
            elif fact.sign in "=~":
                derived[fact.scope, fact.what] = fact
        for fact in derived.values() if not found or file.language == "go" else ():
            value, _, place = fact.what.partition("#")
            if function := _function(value):
                given = self._type_of_call(file, fact.scope, fact.line, function, int(place or 0))
                holder = function.rpartition(".")[0]
                is_constant = holder.rpartition(".")[2].isupper()
                if not given and holder and not is_constant and file.language != "go" and _is_type(holder, file):
                    given = {Typed(file, holder, fact.scope)}  # Foo.create() mostly makes one
            elif "|" not in value and value.partition(".")[0] != name:
                given = self.of_expression(file, fact.scope, fact.line, value, deep + 1)
                holder, _, last = value.rpartition(".")
                if not given and last == "shared" and _is_type(holder, file):
                    given = {Typed(file, holder, fact.scope)}
            else:
                given = set()
            found |= given
            if found and file.language != "go":
                break
        return found

    def _of_field(self, typed: Typed, field: str, deep: int) -> set[Typed]:
        """The types of a type's member, also of those it embeds or inherits from."""
        if deep > _DEEP or (typed, field) in self._fields:
            return self._fields.get((typed, field), set())
        found = self._fields[typed, field] = set()
        owners = self.meant(typed)
        if owners is None:
            named = [one for one in self._graph.named(typed.last) if one[1].kind in languages.TYPES]
            owners = [(self._graph.file(document), symbol.qualified) for document, symbol in named]
        for file, qualified in owners:
            bases = file.base_references.get(qualified, ())
            above = {}
            for ref in bases:
                name = f"{ref.receiver}.{ref.target}" if ref.receiver else ref.target
                above[ref.target] = Typed(file, name, qualified)
            found |= self._of_facts(file, file.member_facts(qualified, field), field, deep + 1)
            if not found and field in above:
                found.add(above[field])
            for base in above.values() if not found else ():
                found |= self._of_field(base, field, deep + 1)
        return found

    # --- the type of a result -------------------------------------------------------------------------

    def _type_of_call(self, file: File, source: str, line: int, function: str, place: int = 0) -> set[Typed]:
        """The type of one of a call's results, by the facts of the function that it means."""
        if function in _MAKES_OWN:
            outer, _, own = file.enclosing_type(source).rpartition(".")
            return {Typed(file, own, outer)} if own else set()
        receiver, _, name = function.rpartition(".")
        if named := self._member_aliases(file, source, receiver, name):
            return named
        if (file.document.id, name, receiver) in self._asking:  # a result of a result of itself
            return set()
        self._asking.add((file.document.id, name, receiver))
        called = self._names.resolve(file.document, Reference("calls", source, name, line, receiver))
        self._asking.discard((file.document.id, name, receiver))
        found: set[Typed] = set()
        for one in called:
            if one.confidence >= FAIR:
                found |= self.result(self._graph.file(one.document), one.symbol, place)
        return found

    def result(self, file: File, symbol: Symbol, place: int = 0) -> set[Typed]:
        """The type that a function is declared to return, else those of the calls it returns; a type itself."""
        key = (file.document.id, symbol, place)
        if key not in self._results:
            self._results[key] = set()  # while it is being found: one that returns itself
            outer = symbol.qualified.rpartition(".")[0]
            if symbol.kind in languages.TYPES:
                self._results[key] = {Typed(file, symbol.name, outer)}
            elif (declared := said(symbol, ">")) is not None:
                places = declared.split(",") if file.language == "go" else [declared]
                types = places[place].split("|") if place < len(places) else []
                above, _, own = file.enclosing_type(outer).rpartition(".")
                self._results[key] = {
                    Typed(file, own, above) if one in _OWN else Typed(file, one, outer)
                    for one in types
                    if _is_type(one, file) or (one in _OWN and own)
                }
            elif file.language in languages.WHOLE and file.language != "go":
                for fact in facts_of(symbol):
                    function = _function(fact.what) if fact.sign == "<" else ""
                    if function and _is_type(function, file):
                        self._results[key].add(Typed(file, function, symbol.qualified))
                    elif function:
                        self._results[key] |= self._type_of_call(file, symbol.qualified, symbol.end_line, function)
        return self._results[key]

    # --- types of other libraries ---------------------------------------------------------------------

    def is_foreign(self, file: File, ref: Reference, receiver: str) -> bool:
        """Whether a Python variable certainly has a type of another library: `at: datetime`, `self.sock = socket()`."""
        if file.language != "python":
            return False
        head, _, last = receiver.rpartition(".")
        own = file.enclosing_type(ref.source) if head.partition(".")[0] in languages.SELF else ""
        for scope in ([own] if own else []) if head else [ref.source, *file.functions_around(ref.source)]:
            written: set[str] = set()
            for fact in file.facts_in(scope, last) if scope else ():
                if fact.sign == ":":
                    written.update(fact.what.split("|"))
                elif fact.sign == "=" and (function := _function(fact.what)):
                    written.add(function)
            if written:
                return all(self._is_outside(file, ref.source, one) for one in written)
        return False

    def _is_outside(self, file: File, source: str, name: str) -> bool:
        before, _, last = name.rpartition(".")
        if name in _BUILTIN_TYPES or name.partition(".")[0] not in file.imports:
            return name in _BUILTIN_TYPES
        return not self._names.resolve(file.document, Reference("references", source, last, 0, before))


def _function(value: str) -> str:
    """What is called in an expression that ends in a call, "" for any other."""
    return value[:-2] if value.endswith("()") else ""


def _is_type(name: str, file: File) -> bool:
    """Whether a name is written as types are; Go's own types may begin with a small letter."""
    last = name.rpartition(".")[2]
    if last in _OWN or last.startswith("__"):
        return False
    return file.language == "go" or last.lstrip("_$")[:1].isupper()


def _aliases(file: File, fact: Fact) -> set[Typed]:
    """The types that are assigned to a variable: `Input = Union[A, B]`, `self.maker = Maker if strict else Other`."""
    named = [] if "()" in fact.what else fact.what.split("|")
    return {Typed(file, one, fact.scope) for one in named if one.rpartition(".")[2][:1].isupper()}
