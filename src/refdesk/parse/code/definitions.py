"""Which definitions are in a tree, and how are they nested?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
_CALLBACK = re.compile(r",\s*(?:async\s*)?(?:function\s*)?\([^()]*\)$")
_NO_OWNER = frozenset(["exports", "module.exports", "this", "self", "window", "globalThis"])
# Of nodes with the same extent a wrapper comes first, then a body that is all of what it defines.
_RANKS = {"wrap": 0, "body": 1, "name": 4, "owner": 4, "doc": 4}


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


def definitions(
    found: Mapping[str, list[Node]], data: bytes, lines: Lines, above: Mapping[int, int]
) -> list[Definition]:
    """The definitions that a query captured, in the order of the text, each with its children."""
    comments = own_rows(found.get("comment", ()), lines)
    sweep = _Sweep(data, lines, comments, above, {node.byte_range for node in found.get("import", ())})
    for _start, _end, _rank, _order, role, node in _events(found):
        sweep.take(role, node)
    named = [d for d in sweep.definitions if d.name]
    for d in named:
        _finish(d, data)
    return named


def rows_of(node: Node) -> tuple[int, int]:
    """First row and end row of a node; one that ends with its line end does not reach into the next row."""
    start = node.start_point[0]
    end, column = node.end_point
    return start, end if column == 0 and end > start else end + 1


def own_rows(nodes: Iterable[Node], lines: Lines) -> dict[int, int]:
    """Last row → first row of the nodes that have their rows to themselves."""
    rows = {}
    for node in nodes:
        row, column = node.start_point
        if lines.starts_at(row, column):
            rows[rows_of(node)[1] - 1] = row
    return rows


def _events(found: Mapping[str, list[Node]]) -> list[tuple[int, int, int, int, str, Node]]:
    events: list[tuple[int, int, int, int, str, Node]] = []
    for role, nodes in found.items():
        rank = (3 if role[4:] in SOFT else 2) if role.startswith("def.") else _RANKS.get(role)
        if rank is not None:
            events += [
                (node.start_byte, -node.end_byte, rank, order, role, node)
                for order, node in enumerate(nodes, len(events))
            ]
    events.sort()
    return events


class _Sweep:
    """Goes through captured nodes from left to right, outer before inner."""

    def __init__(
        self,
        data: bytes,
        lines: Lines,
        comments: Mapping[int, int],
        above: Mapping[int, int],
        imports: set[tuple[int, int]],
    ) -> None:
        self.definitions: list[Definition] = []
        self._data = data
        self._lines = lines
        self._comments = comments
        self._above = above
        self._imports = imports
        self._open: list[Definition] = []
        self._wraps: list[tuple[int, int, int, int]] = []  # end byte, start byte, first row, end row

    def take(self, role: str, node: Node) -> None:
        start = node.start_byte
        while self._open and self._open[-1].end_byte <= start:
            self._open.pop()
        if role.startswith("def."):
            self._define(role[4:], node)
        elif role == "wrap":
            if not self._wraps or self._wraps[-1][0] < node.end_byte:
                self._wraps.append((node.end_byte, start, *rows_of(node)))
        elif self._open and not self._open[-1].hidden:
            self._describe(self._open[-1], role, node)

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

    def _describe(self, definition: Definition, role: str, node: Node) -> None:
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


def _finish(d: Definition, data: bytes) -> None:
    """Fills in what depends on the parent, which is finished already."""
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
