"""Resolves names behind a dot or in a lambda by the type of their receiver, where it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from refdesk.graph import languages
from refdesk.graph.nodes import (
    CERTAIN,
    FAIR,
    GUESS,
    LIKELY,
    Candidate,
    Candidates,
    File,
    Resolved,
    all_of,
    container,
    said,
    shared,
)
from refdesk.graph.types import Typed, Types
from refdesk.model import Document, Reference, Symbol

if TYPE_CHECKING:
    from refdesk.graph.resolve import Resolver

_GENERATIONS = 6  # of supertypes
# What a member is called that is of the type it is a member of.
_OF_ONE_KIND = frozenset(["base", "child", "copy", "head", "left", "next", "node", "other", "parent", "right", "root"])
_TYPE_NAME = re.compile(r"[A-Z][A-Z0-9_]*+[a-z]\w*")
_HANDED_OVER = frozenset(["apply", "run", "with"])  # whose lambdas see the members of what they are called on


class Members:
    def __init__(self, names: Resolver) -> None:
        self._names = names
        self._graph = names.graph
        self._types = Types(names)

    def behind(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        """The members that a reference with a receiver may mean."""
        if ref.receiver in (languages.LEFT_OUT, languages.RESULT):
            # Of `.init(…)` and `.failure(…)`, members of the result's type where they are it; else by a telling name.
            source = file.by_qualified.get(ref.source) if ref.receiver == languages.RESULT else None
            if source is not None and (expected := self._types.result(file, source)):
                return self._of_types(file, expected, candidates)
            return shared([one for one in candidates.members if one[1].kind not in languages.INITIALIZERS], FAIR)
        language = file.language
        receiver = ref.receiver.removesuffix("()")
        last = receiver.replace("::", ".").replace("->", ".").rpartition(".")[2].rstrip("?!")
        if receiver in languages.SELF and file.enclosing_type(ref.source):
            return self.own(file, ref.source, candidates)
        if receiver == languages.SUPER.get(language) or receiver.startswith("super"):
            return self._inherited(file, ref.source, candidates)
        if language == "erlang":  # a module is a file of its name; what is behind a variable is unknown
            module = _stem(file.document.path) if last == "?MODULE" else last
            return all_of([one for one in candidates.every if _stem(one[0].path) == module], CERTAIN)
        if by_type := self._of_named(file, ref, receiver, last, candidates):
            return by_type
        for local in (receiver, receiver.partition(".")[0]) if not ref.receiver.endswith("()") else ():
            if bound := file.imports.get(local):  # `.` and base are `.base`, a and b are a.b
                modules = [f"{one}{'' if one.endswith('.') else '.'}{name}" if name else one for one, name in bound]
                inner = [(module + receiver[len(local) :], "") for module in modules]
                return self._names.from_imports(file, inner, candidates.outer)
        is_path = language == "rust" and receiver.islower() and "." not in receiver
        if is_path and (found := self._names.from_imports(file, [(receiver, "")], candidates.outer)):
            return found  # crate::run(), walk::build()
        types = self._of_receiver(file, ref)
        if types and (found := self._of_types(file, types, candidates)):
            return found
        if extending := self.extending(file, candidates):
            return shared(extending, FAIR)
        is_result = ref.receiver.endswith("()")
        if types or is_result or self._types.is_foreign(file, ref, receiver):
            return []  # what a function gives that does not say it, or what is known to be of no use here
        return self._by_name_alone(file, ref, last, candidates)

    def _of_receiver(self, file: File, ref: Reference) -> set[Typed]:
        written = ref.receiver.replace("::", ".").replace("->", ".").replace("?", "").replace("!", "").lstrip("@$")
        return self._types.of_expression(file, ref.source, ref.line, written)

    def own(self, file: File, source: str, candidates: Candidates) -> list[Resolved]:
        """The members of the type that encloses a place."""
        own = file.enclosing_type(source)
        if not own:
            return []
        if file.language in languages.WHOLE and (found := self._along_bases([(file, own)], candidates)):
            return all_of(found, CERTAIN)
        return self._by_type_names(file, {own.rpartition(".")[2]}, candidates, CERTAIN)

    def in_lambda(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        """The members of the receiver of a Kotlin lambda around a call."""
        for types in self._lambda_receivers(file, ref) if ref.alias and candidates.members else ():
            if found := self._by_type_names(file, types, candidates):
                return found
        return []

    def _lambda_receivers(self, file: File, ref: Reference) -> Iterator[set[str]]:
        """The receiver types of the lambdas around a call, innermost first, up to the first unknown one."""
        calls = ref.alias.split(" ")
        for number, called in enumerate(calls, 1):
            before, _, name = called.rpartition(".")
            if name in _HANDED_OVER:
                asked = Reference("calls", ref.source, ref.target, ref.line, before)
                types = {one.last for one in self._of_receiver(file, asked)} if before else set()
                if not types and (before or name == "with"):
                    return
            else:
                call = Reference("calls", ref.source, name, ref.line, before, " ".join(calls[number:]))
                found = [one for one in self._names.resolve(file.document, call) if one.confidence >= FAIR]
                given = {said(one.symbol, "{") for one in found}
                if "?" in given:
                    return
                types = {one for one in given if one}
            if any(not self._graph.named(one) for one in types):
                return  # what the codebase does not define may have a member of that name, which comes first
            if types:
                yield types

    def extending(self, file: File, candidates: Candidates) -> list[Candidate]:
        """The visible extensions of unknown types or of types that the codebase does not define."""
        if file.language not in ("kotlin", "csharp", "swift"):
            return []
        return [
            one
            for one in candidates.members
            if one[1].name not in languages.COMMON and self._is_visible_extension(file, *one)
        ]

    def _is_visible_extension(self, file: File, document: Document, symbol: Symbol) -> bool:
        if file.language == "swift":
            holders = [one for _, one in self._graph.named(container(symbol))]
            return bool(holders) and all(one.kind in languages.EXTENSIONS for one in holders)
        if said(symbol, "+") is None or file.language == "csharp":
            return said(symbol, "+") is not None
        if symbol.signature.startswith("private ") or symbol.qualified.count(".") > 1:  # of the file, or in a class
            return document.id == file.document.id
        package = self._graph.file(document).package
        return package == file.package or symbol.name in file.imports or package in file.starred

    def _inherited(self, file: File, source: str, candidates: Candidates) -> list[Resolved]:
        own = file.enclosing_type(source)
        if not own:
            return []
        is_whole = file.language in languages.WHOLE
        if is_whole and (found := self._along_bases(self._bases(file, own), candidates)):
            return all_of(found, LIKELY)
        mine = {id(one) for one in candidates.by_place.get((languages.home(file.document), own), ())}
        others = Candidates([one for one in candidates.every if id(one) not in mine])
        return self._by_type_names(file, self._graph.supertype_names(own.rpartition(".")[2]), others)

    # --- members of a type ----------------------------------------------------------------------------

    def _of_named(self, file: File, ref: Reference, receiver: str, last: str, candidates: Candidates) -> list[Resolved]:
        """The members of a receiver that is a type: Foo.run(), models.Foo.run()."""
        looks_like_one = last.lstrip("_$")[:1].isupper() or last in candidates.by_container or last in file.imports
        if not looks_like_one:
            return []
        if file.language not in languages.WHOLE:
            named = {name for _, name in file.imports.get(last, ()) if name}
            return self._by_type_names(file, named or {last}, candidates)
        if receiver.partition(".")[0] in languages.SELF:
            return []
        return self._of_types(file, {Typed(file, receiver, ref.source)}, candidates)

    def _of_types(self, file: File, types: Iterable[Typed], candidates: Candidates) -> list[Resolved]:
        """The members of the classes that the types mean; of all types of these names if that is unknown."""
        found: dict[tuple[str, str], Candidate] = {}
        unknown: set[str] = set()
        for one in types:
            owners = self._types.meant(one)
            if owners is None:
                unknown.add(one.last)
            for member in self._along_bases(owners or [], candidates):
                found.setdefault((member[0].id, member[1].qualified), member)
        if found:
            return all_of(found.values(), LIKELY)
        return self._by_type_names(file, unknown, candidates) if unknown else []

    def _along_bases(self, level: Sequence[tuple[File, str]], candidates: Candidates) -> list[Candidate]:
        """The members of these classes, else of their base classes."""
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
            (self._graph.file(base.document), base.symbol.qualified)
            for ref in file.base_references.get(own, ())
            for base in self._names.resolve(file.document, ref)
            if base.confidence >= FAIR
        ]

    def _by_type_names(
        self, file: File, types: set[str], candidates: Candidates, confidence: float = LIKELY
    ) -> list[Resolved]:
        """The members of all types of these names, else of their nearest supertypes."""
        seen: set[str] = set()
        level = types
        for _ in range(_GENERATIONS):
            found = [one for name in sorted(level) for one in candidates.by_container.get(name, ())]
            if found:
                near = [one for one in found if one[0].id == file.document.id]
                return all_of(near, confidence) if near else shared(found, confidence)
            seen |= level
            level = {above for name in level for above in self._graph.supertype_names(name)} - seen
            if not level:
                break
        return []

    # --- without a type -------------------------------------------------------------------------------

    def _by_name_alone(self, file: File, ref: Reference, last: str, candidates: Candidates) -> list[Resolved]:
        """Methods that only one family of types has, or whose type is named like the variable."""
        if last.strip("\"'`)") != last or not last:
            return []  # a literal
        if last == ref.receiver and _TYPE_NAME.fullmatch(last) and not self._graph.named(last):
            return []  # Thread.current, Object.assign: a type of another codebase
        word = last.lower().strip("_").replace("_", "")
        here = [
            (file, one.qualified) for one in file.symbols if one.kind in languages.TYPES and one.name.lower() == word
        ]
        if here and file.language in languages.WHOLE:  # connection is this file's Connection, no other's
            return all_of(self._along_bases(here, candidates), FAIR)
        members = candidates.members
        if not languages.is_for_tests(file.document.path):
            members = [one for one in members if not languages.stands_in(one[0].path, container(one[1]))]
        alike = [one for one in members if len(word) > 2 and container(one[1]).lower().endswith(word)]
        if alike:  # scheduler is Scheduler rather than BaseScheduler
            return shared([one for one in alike if container(one[1]).lower() == word] or alike, FAIR)
        telling = [one for one in members if one[1].name not in languages.COMMON]
        if ref.receiver not in languages.SELF and word not in _OF_ONE_KIND:  # this.router.handle is no handle of ours
            telling = [
                one
                for one in telling
                if one[0].id != file.document.id or not ref.source.startswith(f"{one[1].qualified.rpartition('.')[0]}.")
            ]
        # Of overrides of one method, the one they override.
        lines = [self._graph.line_of(container(symbol)) for _, symbol in telling]
        kin = set.intersection(*lines) if len(lines) > 1 else set()
        first = [one for one in telling if container(one[1]) in kin]
        return all_of(first, GUESS) if first else shared(telling, GUESS)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]
