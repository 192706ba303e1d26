"""Whose member is a name behind a dot?  The receiver's type decides, where the text tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from refdesk.graph import languages, receivers
from refdesk.graph.candidates import (
    CERTAIN,
    FAIR,
    GUESS,
    LIKELY,
    Candidate,
    Candidates,
    Resolved,
    all_of,
    container,
    shared,
)
from refdesk.graph.files import File
from refdesk.model import Document, Reference, Symbol

_GENERATIONS = 6
_HEAD_LINES = 60  # of a signature that was too long to keep
_MAKES_OWN = frozenset(["cls", "cls.__new__", "self.__class__", "object.__new__", "super().__new__"])
_BUILTIN_TYPES = frozenset(
    ["bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "open", "set", "str"]
)
_NO_KIN = frozenset(["object", "Protocol", "ABC", "Generic", "Exception", "Object", "NSObject"])


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


class Members:
    """Resolves names that stand behind a receiver."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._asking: set[tuple[str, str]] = set()
        self._lines: dict[str, set[str]] = {}
        self._results: dict[tuple[str, str], set[Typed]] = {}
        self._owners: dict[Typed, list[tuple[File, str]] | None] = {}

    def behind(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        """What `receiver.name` may mean."""
        language = file.document.content_type
        receiver = ref.receiver.removesuffix("()")
        last = receiver.replace("::", ".").replace("->", ".").rpartition(".")[2].rstrip("?!")
        if receiver in languages.SELF and file.enclosing_type(ref.source):
            return self.own(file, ref.source, candidates)
        if receiver == languages.SUPER.get(language) or receiver.startswith("super"):
            return self._inherited(file, ref.source, candidates)
        if by_type := self._of_named(file, ref, receiver, last, candidates):
            return by_type
        if bound := _modules(file, receiver):
            return self._names.from_imports(file, bound, candidates.outer)
        is_path = language == "rust" and receiver.islower() and "." not in receiver
        if is_path and (found := self._names.from_imports(file, [(receiver, "")], candidates.outer)):
            return found  # crate::run(), walk::build()
        types = self._types_of_receiver(file, ref, receiver, last)
        if types:
            return self._of_types(file, types, candidates)
        if ref.receiver.endswith("()") or self._is_foreign(file, ref, receiver, last):
            return []  # what a function gives that does not say it, or what is known to be of no use here
        return self._by_name_alone(file, last, candidates)

    def own(self, file: File, source: str, candidates: Candidates) -> list[Resolved]:
        """Members of the type around a place."""
        own = file.enclosing_type(source)
        if not own:
            return []
        if file.document.content_type in languages.WHOLE and (found := self._along_bases([(file, own)], candidates)):
            return all_of(found, CERTAIN)
        return self._by_type_names(file, {own.rpartition(".")[2]}, candidates, CERTAIN)

    def _inherited(self, file: File, source: str, candidates: Candidates) -> list[Resolved]:
        own = file.enclosing_type(source)
        if not own:
            return []
        is_whole = file.document.content_type in languages.WHOLE
        if is_whole and (found := self._along_bases(self._bases(file, own), candidates)):
            return all_of(found, LIKELY)
        mine = {id(one) for one in candidates.by_place.get((file.document.id, own), ())}
        others = Candidates([one for one in candidates.every if id(one) not in mine])
        return self._by_type_names(file, self._names.supertypes(own.rpartition(".")[2]), others)

    # --- members of a type ---------------------------------------------------------------------------

    def _of_named(self, file: File, ref: Reference, receiver: str, last: str, candidates: Candidates) -> list[Resolved]:
        """Members of the type that the receiver itself is: Foo.run(), models.Foo.run()."""
        looks_like_one = last.lstrip("_$")[:1].isupper() or last in candidates.by_container or last in file.imports
        if not looks_like_one:
            return []
        if file.document.content_type not in languages.WHOLE:
            named = {name for _, name in file.imports.get(last, ()) if name}
            return self._by_type_names(file, named or {last}, candidates)
        if receiver.partition(".")[0] in languages.SELF:
            return []
        return self._of_types(file, {Typed(file, receiver, ref.source)}, candidates)

    def _of_types(
        self, file: File, types: Iterable[Typed], candidates: Candidates, confidence: float = LIKELY
    ) -> list[Resolved]:
        """Members of the types, as they are known where they are named; by their names where they are not."""
        found: dict[tuple[str, str], Candidate] = {}
        unknown: set[str] = set()
        for one in types:
            owners = self._meant(one)
            if owners is None:
                unknown.add(one.last)
            for member in self._along_bases(owners or [], candidates):
                found.setdefault((member[0].id, member[1].qualified), member)
        if found:
            return all_of(found.values(), confidence)
        return self._by_type_names(file, unknown, candidates, confidence) if unknown else []

    def _meant(self, typed: Typed) -> list[tuple[File, str]] | None:
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
            return [owner for one in local for owner in self._meant(one) or ()]
        meant = self._names.resolve(file.document, Reference("references", typed.source, last, 0, before))
        sure = [(one.document, one.symbol) for one in meant if one.confidence >= FAIR]
        classes = [(self._names.file(where), one.qualified) for where, one in sure if one.kind in languages.TYPES]
        if classes:
            return classes
        values = [one for one in sure or self._names.named(last) if one[1].kind in languages.VALUES]
        given = [one for value in values if "." not in value[1].qualified for one in self._value_types(*value)]
        if given:
            return [owner for one in given for owner in self._meant(one) or ()]
        is_foreign = file.document.content_type == "python" and (before or last) in file.imports and not meant
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

    def _along_bases(self, level: Sequence[tuple[File, str]], candidates: Candidates) -> list[Candidate]:
        """Members of the very classes, else of those that their bases mean where they are named."""
        seen = {(one.document.id, name) for one, name in level}
        for _ in range(_GENERATIONS):
            places = {(one.document.id, name): None for one, name in level}
            if found := [one for place in places for one in candidates.by_place.get(place, ())]:
                return found
            above = [base for one, name in level for base in self._bases(one, name)]
            level = [(one, name) for one, name in above if (one.document.id, name) not in seen]
            seen |= {(one.document.id, name) for one, name in level}
            if not level:
                break
        return []

    def _bases(self, file: File, own: str) -> list[tuple[File, str]]:
        """The classes that a class is declared to derive from."""
        return [
            (self._names.file(base.document), base.symbol.qualified)
            for ref in file.base_references.get(own, ())
            for base in self._names.resolve(file.document, ref)
            if base.confidence >= FAIR
        ]

    def _by_type_names(
        self, file: File, types: set[str], candidates: Candidates, confidence: float = LIKELY
    ) -> list[Resolved]:
        """Members of the types of those names, else of the types they inherit from, nearest first."""
        seen: set[str] = set()
        level = types
        for _ in range(_GENERATIONS):
            found = [one for name in sorted(level) for one in candidates.by_container.get(name, ())]
            if found:
                near = [one for one in found if one[0].id == file.document.id]
                return all_of(near, confidence) if near else shared(found, confidence)
            seen |= level
            level = {above for name in level for above in self._names.supertypes(name)} - seen
            if not level:
                break
        return []

    # --- the type of a receiver ----------------------------------------------------------------------

    def _types_of_receiver(self, file: File, ref: Reference, receiver: str, last: str) -> set[Typed]:
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

    # --- without a type ------------------------------------------------------------------------------

    def _is_foreign(self, file: File, ref: Reference, receiver: str, last: str) -> bool:
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

    def _by_name_alone(self, file: File, last: str, candidates: Candidates) -> list[Resolved]:
        """A method that only one family of types has, or whose type is called like the variable."""
        if last.strip("\"'`)") != last or not last:
            return []  # a literal
        word = last.lower().strip("_").replace("_", "")
        here = [
            (file, one.qualified) for one in file.symbols if one.kind in languages.TYPES and one.name.lower() == word
        ]
        if here and file.document.content_type in languages.WHOLE:  # connection is this file's Connection, no other's
            return all_of(self._along_bases(here, candidates), FAIR)
        alike = [one for one in candidates.members if len(word) > 2 and container(one[1]).lower().endswith(word)]
        if alike:
            return shared(alike, FAIR)
        telling = [one for one in candidates.members if one[1].name not in languages.COMMON]
        first = self._first_of_kin(telling)
        return all_of(first, GUESS) if first else shared(telling, GUESS)

    def _first_of_kin(self, members: list[Candidate]) -> list[Candidate]:
        """Of overrides of one method, the one they override; none when they are not kin."""
        lines = [self._line_of(container(symbol)) for _, symbol in members]
        if len(lines) < 2:
            return []
        kin = set.intersection(*lines)
        return [one for one in members if container(one[1]) in kin]

    def _line_of(self, name: str) -> set[str]:
        """The names of a type and of all above it."""
        if name not in self._lines:
            line, level = {name}, {name}
            for _ in range(_GENERATIONS):
                level = {above for one in level for above in self._names.supertypes(one)} - line
                line |= level
            self._lines[name] = line - _NO_KIN
        return self._lines[name]


def _modules(file: File, receiver: str) -> list[tuple[str, str]]:
    """The modules that the receiver may stand for, if imports bind it."""
    for local in (receiver, receiver.partition(".")[0]):
        if bound := file.imports.get(local):
            inner = receiver[len(local) :]
            return [(_joined(module, name) + inner, "") for module, name in bound]
    return []


def _joined(module: str, name: str) -> str:
    """`.` and base are `.base`, a and b are a.b."""
    return f"{module}{'' if module.endswith('.') else '.'}{name}" if name else module
