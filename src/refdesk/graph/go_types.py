"""Which type has a Go variable?  Declared, made, or a field of another one."""

from __future__ import annotations

from collections.abc import Iterator

from refdesk.graph import golang, languages
from refdesk.graph.candidates import FAIR, Resolved
from refdesk.graph.files import File
from refdesk.graph.typed import Names, Typed
from refdesk.model import Reference, Symbol

_DEEP = 6  # values of values


class GoTypes:
    """Finds the types of Go's receivers."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def of_receiver(self, file: File, ref: Reference, receiver: str, deep: int = 0) -> set[Typed]:
        """The types of `e`, `c.echo` or `New()`, as they are named somewhere."""
        if deep > _DEEP:
            return set()
        if receiver.endswith("()"):
            whole = self._given_by(file, ref, receiver.removesuffix("()"), 0)
            return whole or self._given_by(file, ref, receiver.partition("(")[0], 0)  # a long chain is mostly fluent
        first, *fields = receiver.split(".")
        types = self._of_variable(file, ref, first, deep)
        for field in fields:
            types = {found for one in types for found in self._of_field(one, field)}
        return types

    def _of_variable(self, file: File, ref: Reference, name: str, deep: int) -> set[Typed]:
        source = file.by_qualified.get(ref.source)
        if source is not None:
            around = golang.without_comments(file.text(source.start_line, ref.line))
            if found := self._of_origins(file, ref, name, around, deep):
                return found
        for document, symbol in self._names.named(name):  # a variable of the package
            is_here = languages.home(document) == languages.home(file.document)
            if is_here and symbol.kind in languages.VALUES and symbol.qualified == name:
                there = self._names.file(document)
                text = golang.without_comments(there.text(symbol.start_line, symbol.end_line))
                top = Reference("references", "", name, symbol.end_line)
                return self._of_origins(there, top, name, text, deep)
        return set()

    def _of_origins(self, file: File, ref: Reference, name: str, text: str, deep: int) -> set[Typed]:
        found: set[Typed] = set()
        for origin in golang.origins(name, text):
            if origin.kind == "type":
                found.add(Typed(file, origin.name, ref.source))
            elif origin.kind == "call":
                found |= self._given_by(file, ref, origin.name, origin.place)
            elif origin.name.partition(".")[0] != name:
                found |= self.of_receiver(file, ref, origin.name, deep + 1)
        return found

    def _of_field(self, typed: Typed, field: str, deep: int = 0) -> set[Typed]:
        """The types of a struct's field, its embedded types included."""
        found: set[Typed] = set()
        for file, struct in self._structs(typed):
            text = golang.without_comments(file.text(struct.start_line, struct.end_line))
            found |= {
                Typed(file, one.name, struct.qualified) for one in golang.origins(field, text) if one.kind == "type"
            }
            embedded = file.base_references.get(struct.qualified, ())
            bases = {base.target: Typed(file, _dotted(base), struct.qualified) for base in embedded}
            found |= {bases[field]} if field in bases else set()
            if not found and deep < _DEEP:  # promoted from what is embedded
                found |= {one for base in bases.values() for one in self._of_field(base, field, deep + 1)}
        return found

    def _structs(self, typed: Typed) -> Iterator[tuple[File, Symbol]]:
        before, _, last = typed.name.rpartition(".")
        ref = Reference("references", typed.source, last, 0, before)
        for one in _sure(self._names.resolve(typed.file.document, ref)):
            if one.symbol.kind in languages.TYPES:
                yield self._names.file(one.document), one.symbol

    def _given_by(self, file: File, ref: Reference, function: str, place: int) -> set[Typed]:
        """The type of one of a call's results; of a conversion, the type itself."""
        receiver, _, name = function.rpartition(".")
        found: set[Typed] = set()
        for one in _sure(self._names.resolve(file.document, Reference("calls", ref.source, name, ref.line, receiver))):
            there = self._names.file(one.document)
            if one.symbol.kind in languages.TYPES:
                found.add(Typed(there, one.symbol.qualified))
                continue
            results = golang.results(one.symbol.signature, name)
            if place < len(results) and results[place]:
                found.add(Typed(there, results[place], one.symbol.qualified))
        return found


def _sure(found: list[Resolved]) -> Iterator[Resolved]:
    return (one for one in found if one.confidence >= FAIR)


def _dotted(base: Reference) -> str:
    return f"{base.receiver}.{base.target}" if base.receiver else base.target
