"""Whose member is a name behind a dot?  The receiver's type decides, where the text tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from refdesk.graph import languages
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
from refdesk.graph.extensions import Extensions
from refdesk.graph.files import File
from refdesk.graph.go_types import GoTypes
from refdesk.graph.lambdas import Lambdas
from refdesk.graph.typed import Names, Typed, Types
from refdesk.model import Reference

_GENERATIONS = 6
# What a member is called that is of the type it is a member of.
_OF_ONE_KIND = frozenset(["base", "child", "copy", "head", "left", "next", "node", "other", "parent", "right", "root"])
_TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
_NO_KIN = frozenset(["object", "Protocol", "ABC", "Generic", "Exception", "Object", "NSObject"])


class Members:
    """Resolves names that stand behind a receiver."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._types = Types(names)
        self._go_types = GoTypes(names)
        self.extensions = Extensions(names)
        self._lambdas = Lambdas(names, self._types)
        self._lines: dict[str, set[str]] = {}

    def behind(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        """What `receiver.name` may mean."""
        if ref.receiver == languages.LEFT_OUT:
            return self._of_expected(file, ref, candidates)
        language = file.document.content_type
        receiver = ref.receiver.removesuffix("()")
        last = receiver.replace("::", ".").replace("->", ".").rpartition(".")[2].rstrip("?!")
        if receiver in languages.SELF and file.enclosing_type(ref.source):
            return self.own(file, ref.source, candidates)
        if receiver == languages.SUPER.get(language) or receiver.startswith("super"):
            return self._inherited(file, ref.source, candidates)
        if by_type := self._of_named(file, ref, receiver, last, candidates):
            return by_type
        if not ref.receiver.endswith("()") and (bound := _modules(file, receiver)):
            return self._names.from_imports(file, bound, candidates.outer)
        is_path = language == "rust" and receiver.islower() and "." not in receiver
        if is_path and (found := self._names.from_imports(file, [(receiver, "")], candidates.outer)):
            return found  # crate::run(), walk::build()
        return self._of_value(file, ref, receiver, last, candidates)

    def _of_value(self, file: File, ref: Reference, receiver: str, last: str, candidates: Candidates) -> list[Resolved]:
        """Members of what a variable or a call gives."""
        if file.document.content_type == "go":
            types = self._go_types.of_receiver(file, ref, ref.receiver)
        else:
            types = self._types.of_receiver(file, ref, receiver, last)
        if types and (found := self._of_types(file, types, candidates)):
            return found
        if extending := self.extensions.visible(file, candidates):
            return shared(extending, FAIR)
        is_result = ref.receiver.endswith("()")
        if types or is_result or self._types.is_foreign(file, ref, receiver, last):
            return []  # what a function gives that does not say it, or what is known to be of no use here
        return self._by_name_alone(file, ref, last, candidates)

    def own(self, file: File, source: str, candidates: Candidates) -> list[Resolved]:
        """Members of the type around a place."""
        own = file.enclosing_type(source)
        if not own:
            return []
        if file.document.content_type in languages.WHOLE and (found := self._along_bases([(file, own)], candidates)):
            return all_of(found, CERTAIN)
        return self._by_type_names(file, {own.rpartition(".")[2]}, candidates, CERTAIN)

    def in_lambda(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        """Members that a lambda around a call sees without naming whose they are."""
        if file.document.content_type != "kotlin" or not candidates.members:
            return []
        for types in self._lambdas.receivers_of(file, ref):
            if found := self._by_type_names(file, types, candidates):
                return found
        return []

    def _inherited(self, file: File, source: str, candidates: Candidates) -> list[Resolved]:
        own = file.enclosing_type(source)
        if not own:
            return []
        is_whole = file.document.content_type in languages.WHOLE
        if is_whole and (found := self._along_bases(self._bases(file, own), candidates)):
            return all_of(found, LIKELY)
        mine = {id(one) for one in candidates.by_place.get((languages.home(file.document), own), ())}
        others = Candidates([one for one in candidates.every if id(one) not in mine])
        return self._by_type_names(file, self._names.supertypes(own.rpartition(".")[2]), others)

    # --- members of a type ----------------------------------------------------------------------------

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
            owners = self._types.meant(one)
            if owners is None:
                unknown.add(one.last)
            for member in self._along_bases(owners or [], candidates):
                found.setdefault((member[0].id, member[1].qualified), member)
        if found:
            return all_of(found.values(), confidence)
        return self._by_type_names(file, unknown, candidates, confidence) if unknown else []

    def _along_bases(self, level: Sequence[tuple[File, str]], candidates: Candidates) -> list[Candidate]:
        """Members of the very classes, else of those that their bases mean where they are named."""
        home = languages.home
        seen = {(home(one.document), name) for one, name in level}
        for _ in range(_GENERATIONS):
            places = {(home(one.document), name): None for one, name in level}
            if found := [one for place in places for one in candidates.by_place.get(place, ())]:
                return found
            above = [base for one, name in level for base in self._bases(one, name)]
            level = [(one, name) for one, name in above if (home(one.document), name) not in seen]
            seen |= {(home(one.document), name) for one, name in level}
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

    def _of_expected(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        """Of `.init(…)` and `.failure(…)`, members of the type that is wanted there; else by a telling name."""
        if types := self._types.expected(file, ref):
            return self._of_types(file, types, candidates)
        telling = [one for one in candidates.members if one[1].kind not in languages.INITIALIZERS]
        return shared(telling, FAIR)

    # --- without a type -------------------------------------------------------------------------------

    def _by_name_alone(self, file: File, ref: Reference, last: str, candidates: Candidates) -> list[Resolved]:
        """A method that only one family of types has, or whose type is called like the variable."""
        if last.strip("\"'`)") != last or not last:
            return []  # a literal
        if last == ref.receiver and _TYPE_NAME.fullmatch(last) and not self._names.named(last):
            return []  # Thread.current, Object.assign: a type of another codebase
        word = last.lower().strip("_").replace("_", "")
        here = [
            (file, one.qualified) for one in file.symbols if one.kind in languages.TYPES and one.name.lower() == word
        ]
        if here and file.document.content_type in languages.WHOLE:  # connection is this file's Connection, no other's
            return all_of(self._along_bases(here, candidates), FAIR)
        members = candidates.members
        if not languages.is_for_tests(file.document.path):
            members = [one for one in members if not languages.stands_in(one[0].path, container(one[1]))]
        alike = [one for one in members if len(word) > 2 and container(one[1]).lower().endswith(word)]
        if alike:  # scheduler is Scheduler rather than BaseScheduler
            return shared([one for one in alike if container(one[1]).lower() == word] or alike, FAIR)
        telling = [one for one in members if one[1].name not in languages.COMMON]
        if ref.receiver not in languages.SELF and word not in _OF_ONE_KIND:  # this.router.handle is no handle of ours
            telling = [one for one in telling if not _is_of_same(file, ref.source, one)]
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


def _is_of_same(file: File, source: str, candidate: Candidate) -> bool:
    """Whether the candidate is a member of what is around a place of the file."""
    around = candidate[1].qualified.rpartition(".")[0]
    return candidate[0].id == file.document.id and source.startswith(f"{around}.")


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
