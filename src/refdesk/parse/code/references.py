"""The names that a file uses, with the line and the definition that they are used in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import itemgetter
from typing import Any, cast

from tree_sitter import Node

from refdesk.model import Reference, RelationKind
from refdesk.parse.code.definitions import MAX_RECEIVER, Definition, innermost, split_name, without_groups
from refdesk.parse.code.facts import BUILTIN, LONGEST, dotted, type_names
from refdesk.parse.code.imports import READERS
from refdesk.parse.code.languages import Language

_BASES = ("inherits", "conforms", "base")
_NAMING = ("name", "owner", "nocall")
_LINE = itemgetter(3)
_reference = partial(cast(Any, tuple.__new__), Reference)  # without the call of Reference's own __new__
_ARGUMENTS = re.compile(rb"[<\[(]")
_CALLS = ("call", "invoke", "bare", "new")
_DOTS = b" \t\r\n.:->?&!"
_FOLLOWED = {"invoke": (b"(", b" ", b"{", b"<", b"\n"), "bare": (b"(",)}  # what makes it a call and no subscript
_MEMBERS = frozenset(["property", "field", "case", "test"])
_MOST_LAMBDAS = 8  # around a call; deeper ones are seldom builders
_PATHS = re.compile(r"[\w.:]+")
_WORD = re.compile(rb"\w+")
_VARIABLES = re.compile(
    rb"\|([^|\n]*)\||\b(\w+)[ \t]*(?:\|\||&&|[-+*/])?=(?![=~>])|^[ \t]*(\w+(?:, *\w+)+)[ \t]*=", re.M
)


def references(
    found: Mapping[str, list[Node]], definitions: list[Definition], data: bytes, language: Language
) -> tuple[Reference, ...]:
    """Every import, call, base and mention once per line, in the order of the text."""
    reader = _Reader(data, definitions, language.no_calls, found.get("lambda", ()), found.get("wanted", ()))
    for node in found.get("package", ())[:1]:
        package = data[node.start_byte : node.end_byte].decode("utf-8", "replace").replace("`", "")
        reader.found["package", "", package, node.start_point[0] + 1, "", ""] = None
    for ref in _imports(found.get("import", ()), data, language):
        reader.bind(ref)
    for role in _BASES:
        for node in found.get(role, ()):
            reader.base(role, node)
    named = {_name_end(node, data) for role in _NAMING for node in found.get(role, ())}
    for role in _CALLS:
        for node in found.get(role, ()):
            if node.end_byte not in named:
                reader.call(role, node)
    for role in ("new", *_BASES):
        for node in found.get(role, ()):
            named |= {node.end_byte, _name_end(node, data)}
    receivers = {node.end_byte: node for node in reversed(found.get("receiver", ()))}
    for node in found.get("message", ()):
        reader.message(node, receivers)
    for node in found.get("send", ()):
        reader.send(node)
    for node in found.get("type", ()):
        if node.end_byte not in named:
            named.add(node.end_byte)  # of `a.b.C` only the whole, not C again
            reader.mention(node)
    reader.values(found.get("value", ()))
    return tuple(map(_reference, sorted(reader.found, key=_LINE)))


def _name_end(node: Node, data: bytes) -> int:
    """Where a name ends that is no mention besides: before its type arguments."""
    start, end = node.byte_range
    arguments = _ARGUMENTS.search(data, start + 1, end)
    return arguments.start() if arguments is not None else end


class _Reader:
    """Collects the references of one file."""

    def __init__(
        self,
        data: bytes,
        definitions: list[Definition],
        no_calls: frozenset[str],
        lambdas: Sequence[Node],
        wanted: Iterable[Node],
    ) -> None:
        self.found: dict[tuple[RelationKind, str, str, int, str, str], None] = {}  # as in a Reference
        self._data = data
        self._lambdas = lambdas  # handed to calls, which may give them a receiver
        self._lambda_starts = [node.start_byte for node in lambdas]
        self._lambda_parents: list[int] = []
        opened: list[int] = []
        for number, node in enumerate(lambdas):
            while opened and lambdas[opened[-1]].end_byte <= node.start_byte:
                opened.pop()
            self._lambda_parents.append(opened[-1] if opened else -1)
            opened.append(number)
        self._wanted = {node.end_byte: node for node in wanted}  # the types of values that leave them out
        self._split: dict[bytes, tuple[str, str]] = {}  # names come again and again
        self._bounds, self._owners = innermost(definitions)
        self._bound = {d.name.encode("utf-8", "replace") for d in definitions if d.kind not in _MEMBERS}
        self._methods = {d.name.encode("utf-8", "replace") for d in definitions if d.kind in ("function", "method")}
        self._variables: dict[int, set[bytes]] = {}  # the names that a definition gives to values
        self._no_calls = no_calls
        self._bases: Counter[int] = Counter()

    def bind(self, ref: Reference) -> None:
        self.found[ref] = None
        if not ref.receiver.endswith(ref.target):
            self._bound.add((ref.alias or ref.target).encode("utf-8", "replace"))

    def base(self, role: str, node: Node) -> None:
        source = self._source(node)
        if role == "base":
            role = self._base_kind(source, self._data[node.start_byte : node.start_byte + 2])
        self._add(cast(RelationKind, role), node, source)

    def call(self, role: str, node: Node) -> None:
        end = node.end_byte
        if role in _FOLLOWED and self._data[end : end + 1] not in _FOLLOWED[role]:
            return
        receiver = None
        if role == "bare":
            start, receiver = node.start_byte, ""  # of `let x = Point::new`, the receiver is Point
            before = self._data[max(start - 80, 0) : start].decode("utf-8", "replace").rstrip()
            if before.endswith((".", "::")):
                path = _PATHS.findall(before)[-1]
                path = path[:-1] if path[-1] == "." else path[:-2]
                receiver = path if path[-1:] not in ("", ".", ":") else ""
        self._add("calls", node, self._source(node), receiver)

    def message(self, node: Node, receivers: Mapping[int, Node]) -> None:
        """A call whose receiver is another node, which ends before the dot before the name."""
        start = node.start_byte
        before = self._data[max(start - 200, 0) : start]
        receiver = receivers.get(start - len(before) + len(before.rstrip(_DOTS)))
        text = ""
        if receiver is not None and receiver.end_byte < start:
            text = self._data[receiver.start_byte : receiver.end_byte].decode("utf-8", "replace")
        if not text.isidentifier():  # an expression, which is made short and put on one line
            text = without_groups(text) + ("()" if text.endswith(")") else "")
        self._add("calls", node, self._source(node), text.lstrip("$")[-MAX_RECEIVER:])

    def send(self, node: Node) -> None:
        """A name without arguments, which is a call where the file defines a method of that name and no variable."""
        name, source = self._data[node.start_byte : node.end_byte], self._source(node)
        if name not in self._methods or source is None:
            return
        if id(source) not in self._variables:
            text = self._data[source.start_byte : source.end_byte]
            head = text.partition(b"\n")[0]
            told = [
                head[head.find(b"(") :] if b"(" in head else b"",
                *(part for one in _VARIABLES.findall(text) for part in one),
            ]
            self._variables[id(source)] = {word for part in told for word in _WORD.findall(part)}
        if name not in self._variables[id(source)]:
            self._add("calls", node, source)

    def mention(self, node: Node) -> None:
        self._add("references", node, self._source(node))

    def values(self, nodes: Iterable[Node]) -> None:
        """Names that are no calls, which count when this file defines or imports them."""
        data, wanted = self._data, _Wanted(self._bound)
        for node in nodes:
            if wanted[data[node.start_byte : node.end_byte]]:
                self._add("references", node, self._source(node))

    def _source(self, node: Node) -> Definition | None:
        return self._owners[bisect_right(self._bounds, node.start_byte) - 1]

    def _base_kind(self, source: Definition | None, start: bytes) -> str:
        """Where the syntax does not tell: a class's first base may be its superclass, the others it conforms to."""
        if source is None or source.kind not in ("class", "record") or (start[:1] == b"I" and start[1:].isupper()):
            return "conforms"
        self._bases[id(source)] += 1
        return "inherits" if self._bases[id(source)] == 1 else "conforms"

    def _add(self, kind: RelationKind, node: Node, source: Definition | None, receiver: str | None = None) -> None:
        start = node.start_byte
        raw = self._data[start : node.end_byte]
        split = self._split.get(raw)
        if split is None:
            target, before = split_name(raw.decode("utf-8", "replace"))
            split = self._split[raw] = ("" if target.isdigit() else target, before)
        target, before = split
        if not target:
            return
        if kind == "references":
            if target in BUILTIN or len(target) == 1 or (source is not None and target == source.name):
                return
        elif kind == "calls":
            if target in self._no_calls:
                return
        elif source is not None and target == source.name and not before:  # not class Channel(base.Channel)
            return
        if receiver is None:
            receiver = before
        around = ""
        if kind == "calls" and self._lambdas and not receiver:
            around = self._calls_around(start, source.start_byte if source is not None else 0)
        elif receiver == "." and kind == "calls":
            receiver = self._receiver_left_out(start)
        where = source.qualified if source is not None else ""
        line = node.end_point[0] + 1  # the name is the last part of what was captured
        self.found[kind, where, target, line, receiver, around] = None

    def _calls_around(self, at: int, first: int) -> str:
        """The calls whose lambdas a place is in, innermost first."""
        calls: list[str] = []
        number = bisect_right(self._lambda_starts, at) - 1
        while number >= 0 and self._lambda_starts[number] >= first and len(calls) < _MOST_LAMBDAS:
            node = self._lambdas[number]
            call = node.parent.parent if node.end_byte > at and node.parent is not None else None
            if call is not None and (called := call.child(0)) is not None:
                text = self._data[called.start_byte : min(called.end_byte, called.start_byte + LONGEST)]
                calls.append(dotted(text.decode("utf-8", "replace")) or "?")
            number = self._lambda_parents[number]
        return " ".join(calls)

    def _receiver_left_out(self, at: int) -> str:
        """The type that `.init(…)` is of where it is declared; "->" for that of the result, "." where none is told."""
        before = self._data[max(at - 200, 0) : at].rstrip(b" \t\r\n")
        if before.endswith((b"return", b"{")):
            return "->"
        node = self._wanted.get(at - min(at, 200) + len(before.rstrip(b" \t\r\n=")))
        text = self._data[node.start_byte : node.end_byte].decode("utf-8", "replace") if node is not None else ""
        if node is not None and node.type == "directly_assignable_expression":
            return dotted(text) or "."
        return next(iter(type_names(text, "swift")), ".")


class _Wanted(dict[bytes, bool]):
    """Whether a name is one of those that are bound, or a part of something that is."""

    def __init__(self, bound: AbstractSet[bytes]) -> None:
        self._bound = bound

    def __missing__(self, raw: bytes) -> bool:
        bound = self._bound
        found = raw in bound or raw.rpartition(b".")[2] in bound or raw.rpartition(b"::")[2] in bound
        self[raw] = found
        return found


def _imports(nodes: Iterable[Node], data: bytes, language: Language) -> Iterator[Reference]:
    read = READERS.get(language.imports)
    if read is None:
        return
    for node in nodes:
        text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        first = node.start_point[0] + 1
        for item in read(text):
            line = first + text.count("\n", 0, item.offset)
            target = item.name or item.module
            if target:
                yield Reference(
                    kind="imports", source="", target=target, line=line, receiver=item.module, alias=item.alias
                )
