"""Which type has a name?  What its file says of it: annotations, constructor calls, the results of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from refdesk.graph import languages, receivers
from refdesk.graph.candidates import FAIR, Candidate, Candidates, Resolved
from refdesk.graph.files import File
from refdesk.model import Document, Reference, Symbol

_HEAD_LINES = 60  # of a signature that was too long to keep
_MAKES_OWN = frozenset(["cls", "cls.__new__", "self.__class__", "object.__new__", "super().__new__"])
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


class Names(Protocol):
    """What is known of names: the resolver."""

    named: Callable[[str], list[Candidate]]
    file: Callable[[Document], File]
    supertypes: Callable[[str], set[str]]

    def resolve(self, document: Document, ref: Reference) -> list[Resolved]: ...
    def from_imports(
        self, file: File, bound: list[tuple[str, str]], candidates: Candidates, hops: int = 3
    ) -> list[Resolved]: ...


class Types:
    """Finds the types of names."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._asking: set[tuple[str, str]] = set()
        self._results: dict[tuple[str, str], set[Typed]] = {}
        self._owners: dict[Typed, list[tuple[File, str]] | None] = {}

    # --- what a type's name means ---------------------------------------------------------------------

    def meant(self, typed: Typed) -> list[tuple[File, str]] | None:
        """The classes that the name means in its file; None where that can not be told."""
        if typed not in self._owners:
            self._owners[typed] = None  # while it is being found
            self._owners[typed] = self._find_meant(typed)
        return self._owners[typed]

    def _find_meant(self, typed: Typed) -> list[tuple[File, str]] | None:
        file = typed.file
        if file.document.content_type not in languages.WHOLE:
            return None
        before, _, last = typed.name.rpartition(".")
        if local := self._local_types(typed) if not before else self._member_types(file, typed.source, before, last):
            return [owner for one in local for owner in self.meant(one) or ()]
        found = self._names.resolve(file.document, Reference("references", typed.source, last, 0, before))
        sure = [(one.document, one.symbol) for one in found if one.confidence >= FAIR]
        classes = [(self._names.file(where), one.qualified) for where, one in sure if one.kind in languages.TYPES]
        if classes:
            return classes
        values = [one for one in sure or self._names.named(last) if one[1].kind in languages.VALUES]
        given = [one for value in values if "." not in value[1].qualified for one in self._value_types(*value)]
        if given:
            return [owner for one in given for owner in self.meant(one) or ()]
        if file.document.content_type == "go":
            return []  # another module's, or the language's own: what is seen here would have been found
        is_foreign = file.document.content_type == "python" and (before or last) in file.imports and not found
        return [] if is_foreign else None

    def _local_types(self, typed: Typed) -> set[Typed]:
        """The types that a variable of the function stands for: `Custom = extend(…)`, then Custom()."""
        source = typed.file.by_qualified.get(typed.source)
        if source is None or source.kind in languages.TYPES:
            return set()
        text = typed.file.text(source.start_line, source.end_line)
        ref = Reference("references", typed.source, typed.name, source.end_line)
        called = receivers.made_by(typed.name, text)
        return {one for function in called for one in self._given_by(typed.file, ref, function)}

    @staticmethod
    def _member_types(file: File, source: str, receiver: str, name: str) -> set[Typed]:
        """The types that a member stands for: `self.maker = Maker`, then self.maker()."""
        owner = file.by_qualified.get(file.enclosing_type(source)) if receiver in languages.SELF else None
        if owner is None:
            return set()
        named = receivers.alias_of(name, file.text(owner.start_line, owner.end_line))
        return {Typed(file, one, source) for one in named}

    def _value_types(self, document: Document, symbol: Symbol) -> set[Typed]:
        """The types that a module's variable stands for: of `Draft = create(…)`, what create gives; of A | B, both."""
        file = self._names.file(document)
        text = file.text(symbol.start_line, symbol.end_line)
        if named := receivers.alias_of(symbol.name, text):
            return {Typed(file, one) for one in named}
        called = receivers.made_by(symbol.name, text)
        ref = Reference("references", "", symbol.name, symbol.start_line)
        return {one for function in called for one in self._given_by(file, ref, function)}

    # --- the type of a receiver -----------------------------------------------------------------------

    def of_receiver(self, file: File, ref: Reference, receiver: str, last: str) -> set[Typed]:
        """What the text around the call says of the variable's type."""
        if ref.receiver.endswith("()"):
            return self._given_by(file, ref, receiver)
        language = file.document.content_type

        def types_of(name: str, text: str) -> set[Typed]:
            found = {Typed(file, one, ref.source) for one in receivers.types_of(name, text, language)}
            for function in receivers.made_by(name, text) if not found else ():
                found = found or self._given_by(file, ref, function)
            return found

        owner = file.by_qualified.get(file.enclosing_type(ref.source))
        of_type = file.text(owner.start_line, owner.end_line) if owner else ""
        if "." not in receiver:
            source = file.by_qualified.get(ref.source)
            around = file.text(source.start_line if source else 1, ref.line)
            found = types_of(last, around)
            for member in receivers.taken_from(last, around) if not found else ():
                found = found or types_of(member, of_type)
            for looped in receivers.looped_over(last, around) if not found else ():
                held = looped.rpartition(".")[2]
                found = found or types_of(held, of_type if "." in looped else around)
            if language in languages.IMPLICIT_SELF:
                found = found or types_of(last, of_type)
            for outer in file.functions_around(ref.source) if not found else ():
                found = found or types_of(last, file.text(outer.start_line, outer.end_line))
            return found or types_of(last, file.top_lines(last))
        found = types_of(last, of_type) or self._of_member(receiver, last)
        for variable in receivers.handed_from(last, of_type) if not found else ():
            found = found or types_of(variable, of_type)
        return found

    def expected(self, file: File, ref: Reference) -> set[Typed]:
        """The type that is wanted where a receiver is left out: of `let a: A = .init()`, A; of a result, its type."""
        line = file.lines[ref.line - 1]
        if found := receivers.wanted_before(ref.target, line):
            return {Typed(file, one, ref.source) for one in found}
        owner = file.by_qualified.get(file.enclosing_type(ref.source))
        if owner and (member := receivers.assigned_before(ref.target, line)):
            found = receivers.types_of(member, file.text(owner.start_line, owner.end_line), "swift")
            return {Typed(file, one, ref.source) for one in found}
        source = file.by_qualified.get(ref.source)
        if source is None or not receivers.is_result(ref.target, line):
            return set()
        text = file.text(source.start_line, source.end_line)
        given = receivers.returned(source.signature) or receivers.types_of(source.name, text, "swift")
        return {Typed(file, one, ref.source) for one in given}

    def _of_member(self, receiver: str, last: str) -> set[Typed]:
        """The type of a type's own member: of Log.shared, what Log says."""
        name = receiver.replace("::", ".").split(".")[-2]
        found: set[Typed] = set()
        for document, symbol in self._names.named(name) if name[:1].isupper() else ():
            if symbol.kind in languages.TYPES:
                file = self._names.file(document)
                text = file.text(symbol.start_line, symbol.end_line)
                types = receivers.types_of(last, text, document.content_type)
                found |= {Typed(file, one, symbol.qualified) for one in types}
        return found

    # --- the type of a result -------------------------------------------------------------------------

    def _given_by(self, file: File, ref: Reference, function: str) -> set[Typed]:
        """The type of a call's result, by the signature of the function that it surely means."""
        if function in _MAKES_OWN:
            outer, _, own = file.enclosing_type(ref.source).rpartition(".")
            return {Typed(file, own, outer)} if own else set()
        receiver, _, name = function.replace("::", ".").rpartition(".")
        if named := self._member_types(file, ref.source, receiver, name):
            return named
        if (name, receiver) in self._asking:  # a result of a result of itself
            return set()
        self._asking.add((name, receiver))
        called = self._names.resolve(file.document, Reference("calls", ref.source, name, ref.line, receiver))
        self._asking.discard((name, receiver))
        found: set[Typed] = set()
        for meant in called:
            if meant.confidence >= FAIR:
                found |= self._given(self._names.file(meant.document), meant.symbol)
        return found

    def _given(self, file: File, symbol: Symbol) -> set[Typed]:
        place = (file.document.id, symbol.qualified)
        if place not in self._results:
            self._results[place] = set()  # while it is being found: one that returns itself
            self._results[place] = self._find_given(file, symbol)
        return self._results[place]

    def _find_given(self, file: File, symbol: Symbol) -> set[Typed]:
        outer = symbol.qualified.rpartition(".")[0]
        if symbol.kind in languages.TYPES:
            return {Typed(file, symbol.name, outer)}
        signature = symbol.signature
        if signature.endswith("…"):
            signature = receivers.whole_head(file.text(symbol.start_line, symbol.start_line + _HEAD_LINES))
        if said := receivers.returned(signature):
            return {Typed(file, one, outer) for one in said}
        return self._returned(file, symbol) if file.document.content_type in languages.WHOLE else set()

    def _returned(self, file: File, symbol: Symbol) -> set[Typed]:
        """What a function that does not declare it gives, by the calls that it returns."""
        text = file.text(symbol.start_line, symbol.end_line)
        found: set[Typed] = set()
        for called in receivers.returned_calls(text):
            if called.rpartition(".")[2].lstrip("_")[:1].isupper():
                found.add(Typed(file, called, symbol.qualified))
            else:
                ref = Reference("calls", symbol.qualified, called, symbol.end_line)
                found |= self._given_by(file, ref, called)
        return found

    # --- what is of no use here -----------------------------------------------------------------------

    def is_foreign(self, file: File, ref: Reference, receiver: str, last: str) -> bool:
        """Whether a Python variable is surely of a type from elsewhere: `at: datetime`, `self.sock = socket()`."""
        if file.document.content_type != "python":
            return False
        if "." in receiver:
            owner = file.by_qualified.get(file.enclosing_type(ref.source))
            places = [owner] if owner and receiver.partition(".")[0] in languages.SELF else []
        else:
            places = [one for one in (file.by_qualified.get(ref.source), *file.functions_around(ref.source)) if one]
        for place in places:
            if written := receivers.origins(last, file.text(place.start_line, place.end_line)):
                return all(self._is_outside(file, ref.source, one) for one in written)
        return False

    def _is_outside(self, file: File, source: str, name: str) -> bool:
        if name in _BUILTIN_TYPES:
            return True
        before, _, last = name.rpartition(".")
        is_bound = name.partition(".")[0] in file.imports
        return is_bound and not self._names.resolve(file.document, Reference("references", source, last, 0, before))
