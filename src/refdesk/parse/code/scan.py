"""Which definitions are in a tree, how are they nested, and what do they mention?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from refdesk.parse.code import names
from refdesk.parse.code.lines import Lines

TYPES = frozenset(
    re.findall(r"\w+", "class struct enum interface protocol trait extension actor impl object record union annotation")
)
SPACES = frozenset(["module", "namespace"])
CALLABLES = frozenset(["function", "method", "constructor", "destructor", "subscript", "operator", "macro", "test"])
SOFT = frozenset(["constant", "variable", "property", "field", "case", "type"])
_NO_SOURCE = frozenset(["constant", "variable", "field", "case", "namespace", "test"])
_CALLBACK = re.compile(r",\s*(?:async\s*)?(?:function\s*)?\([^()]*\)$")
_NO_OWNER = frozenset(["exports", "module.exports", "this", "self", "window", "globalThis"])
_MENTIONS = frozenset(["call", "invoke", "bare", "new", "type", "value", "inherits", "conforms", "base"])


@dataclass(slots=True, eq=False)
class Definition:
    """A definition while it is being read; rows are 0-based, `end` is exclusive."""

    kind: str
    start_byte: int
    end_byte: int
    top: int  # first row with the comments and attributes above
    start: int
    end: int
    parent: Definition | None
    name: str = ""
    owner: str = ""
    qualified: str = ""
    signature: str = ""
    doc: str = ""
    hidden: bool = False
    head_byte: int = 0  # where the signature starts
    body_byte: int = 0
    children: list[Definition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mention:
    """A name used, by whom."""

    role: str
    node: Node
    source: Definition | None


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a tree found, in the order of the text."""

    definitions: list[Definition]
    mentions: list[Mention]
    imports: list[Node]
    above: Mapping[int, int]  # last row of a comment or attribute on its own lines → its first row


def scan(found: Mapping[str, list[Node]], data: bytes, lines: Lines) -> Scan:
    """The definitions and mentions of a tree from what its query captured."""
    comments = _own_rows(found.get("comment", ()), lines)
    above = comments | _own_rows(found.get("lead", ()), lines)
    named = {
        node.end_byte for role in ("name", "owner", "base", "inherits", "conforms") for node in found.get(role, ())
    }
    imports = sorted(found.get("import", ()), key=lambda node: node.start_byte)
    sweep = _Sweep(data, lines, comments, above, named, {(node.start_byte, node.end_byte) for node in imports})
    for _start, _end, _rank, _order, role, node in _events(found):
        sweep.take(role, node)
    _finish(sweep.definitions, data)
    return Scan([d for d in sweep.definitions if d.name], sweep.mentions, imports, above)


def rows_of(node: Node) -> tuple[int, int]:
    """First row and end row of a node; one that ends with its line end does not reach into the next row."""
    start = node.start_point[0]
    end, column = node.end_point
    return start, end if column == 0 and end > start else end + 1


def _own_rows(nodes: list[Node] | tuple[Node, ...], lines: Lines) -> dict[int, int]:
    rows = {}
    for node in nodes:
        row, column = node.start_point
        if lines.starts_at(row, column):
            rows[rows_of(node)[1] - 1] = row
    return rows


def _events(found: Mapping[str, list[Node]]) -> list[tuple[int, int, int, int, str, Node]]:
    events: list[tuple[int, int, int, int, str, Node]] = []
    for role, nodes in found.items():
        if role.startswith("def."):
            rank = 3 if role[4:] in SOFT else 2
        elif role == "wrap":
            rank = 0
        elif role == "body":  # before a definition that is all of it
            rank = 1
        elif role in _MENTIONS or role in ("name", "owner", "doc"):
            rank = 4
        else:
            continue
        events += [
            (node.start_byte, -node.end_byte, rank, order, role, node) for order, node in enumerate(nodes, len(events))
        ]
    events.sort()
    return events


class _Sweep:
    """Goes through captured nodes from left to right, outer before inner."""

    def __init__(
        self,
        data: bytes,
        lines: Lines,
        comments: dict[int, int],
        above: dict[int, int],
        named: set[int],
        imports: set[tuple[int, int]],
    ) -> None:
        self.definitions: list[Definition] = []
        self.mentions: list[Mention] = []
        self._data = data
        self._lines = lines
        self._comments = comments
        self._above = above
        self._named = named  # where names end that are no mention of a type
        self._imports = imports
        self._open: list[Definition] = []
        self._wraps: list[tuple[int, int, int, int]] = []  # end byte, start byte, first row, end row

    def take(self, role: str, node: Node) -> None:
        start = node.start_byte
        while self._open and self._open[-1].end_byte <= start:
            self._open.pop()
        if role in _MENTIONS:
            if role == "type":
                if node.end_byte in self._named:
                    return
                self._named.add(node.end_byte)  # of `a.b.C` only the whole, not C again
            self.mentions.append(Mention(role, node, self._source()))
        elif role.startswith("def."):
            self._define(role[4:], node)
        elif role == "wrap":
            if not self._wraps or self._wraps[-1][0] < node.end_byte:
                self._wraps.append((node.end_byte, start, *rows_of(node)))
        elif self._open:
            self._describe(role, node)

    def _source(self) -> Definition | None:
        for definition in reversed(self._open):
            if not definition.hidden and definition.kind not in _NO_SOURCE:
                return definition
        return None

    def _define(self, kind: str, node: Node) -> None:
        start_byte, end_byte = node.start_byte, node.end_byte
        if self._open and (self._open[-1].start_byte, self._open[-1].end_byte) == (start_byte, end_byte):
            return
        parent = next((d for d in reversed(self._open) if not d.hidden), None)
        start, end = first, last = rows_of(node)
        while self._wraps and self._wraps[-1][0] < end_byte:
            self._wraps.pop()
        head_byte = start_byte
        if self._wraps and self._wraps[-1][1] <= start_byte:
            _, wrap_byte, first, last = self._wraps.pop()
            head_byte = wrap_byte if first == start else start_byte
        top = min(first, start)
        while top - 1 in self._above:
            top = self._above[top - 1]
        hidden = kind in SOFT and (
            (parent is not None and parent.kind in CALLABLES) or (start_byte, end_byte) in self._imports
        )
        definition = Definition(_kind(kind, parent), start_byte, end_byte, top, start, max(last, end), parent)
        definition.hidden, definition.head_byte = hidden, head_byte
        if parent is not None:
            definition.top = max(top, parent.start)
        self._open.append(definition)
        if not hidden:
            self.definitions.append(definition)
            definition.doc = self._doc_above(definition.top, start)

    def _doc_above(self, top: int, start: int) -> str:
        rows = []
        row = start - 1
        while row >= top:
            first = self._comments.get(row)
            if first is not None:
                rows.append((max(first, top), row + 1))
                row = first
            row -= 1
        if not rows:
            return ""
        return names.doc_comment("\n".join(self._lines.text_of(a, b) for a, b in reversed(rows)))

    def _describe(self, role: str, node: Node) -> None:
        definition = self._open[-1]
        if definition.hidden:
            return
        if role == "body":
            definition.body_byte = definition.body_byte or node.start_byte
        elif role == "owner":
            definition.owner = definition.owner or names.split_name(self._text(node))[0]
        elif role == "doc":
            definition.doc = names.docstring(self._text(node))
        elif not definition.name:
            definition.name = self._text(node)
        elif definition.body_byte == 0 or node.start_byte < definition.body_byte:
            self._twin(definition, self._text(node))

    def _text(self, node: Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _twin(self, definition: Definition, name: str) -> None:
        """A second name in one definition: `let a = 1, b = 2`, `case red, green`."""
        if name == definition.name:
            return
        d = definition
        twin = replace(d, name=name, children=[])
        self.definitions.append(twin)


def _kind(kind: str, parent: Definition | None) -> str:
    in_type = parent is not None and parent.kind in TYPES
    if in_type:
        return {"function": "method", "constant": "property", "variable": "property"}.get(kind, kind)
    if parent is not None and parent.kind == "case":
        return kind
    return {"property": "variable", "field": "variable"}.get(kind, kind)


def _finish(definitions: list[Definition], data: bytes) -> None:
    """Fills in what depends on the parent: qualified names, signatures, children."""
    for d in definitions:
        if not d.name:
            continue
        _qualify(d)
        head = data[d.head_byte : min(d.body_byte or d.end_byte, d.start_byte + 4 * names.MAX_SIGNATURE)]
        d.signature = names.signature(head.decode("utf-8", "replace"))
        if d.kind == "test":
            d.signature = _CALLBACK.sub(")", d.signature)
        if d.parent is not None:
            d.parent.children.append(d)


def _qualify(d: Definition) -> None:
    name, receiver = ("", "") if "operator" in d.name or d.kind == "test" else names.split_name(d.name)
    if not name:
        d.name = names.signature(d.name.strip("\"'`"))[:80]
    else:
        d.name = name
        if d.kind != "impl":  # what stands before an impl's type are modules
            d.owner = d.owner or receiver.removesuffix(".prototype")
    if d.owner in _NO_OWNER:
        d.owner = ""
    if d.owner and d.kind == "function":
        d.kind = "method"
    enclosing = d.parent
    while enclosing is not None and (enclosing.kind == "namespace" or not enclosing.name):
        enclosing = enclosing.parent
    parts = [enclosing.qualified] if enclosing is not None else []
    if d.owner:
        parts.append(d.owner.replace("::", ".").replace("->", ".").replace(":", "."))
    d.qualified = ".".join([*parts, d.name])
