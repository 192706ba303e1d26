"""The definitions in a syntax tree, and how they are nested."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from refdesk.parse.code.syntax import Lines
from refdesk.text import word_set

TYPES = word_set("class struct enum interface protocol trait extension actor impl object record union annotation table")
SPACES = frozenset(["module", "namespace"])
CALLABLES = word_set("function method constructor destructor subscript operator macro test")
SOFT = word_set("constant variable property field case type prototype index")
_CALLBACK = re.compile(r",\s*(?:async\s*)?(?:function\s*)?\([^()]*\)$")
_OPERATOR = re.compile(r"\boperator\s*(?:[^\w\s]+|\s\w.*)$")
_OPERATOR_HEAD = re.compile(r"\boperator\s*(\S+?)\s*\(")
_TEST_MACRO = re.compile(r"TEST\w*\(\s*(\w+)\s*,\s*(\w+)")
_NO_OWNER = frozenset(["exports", "module.exports", "this", "self", "window", "globalThis"])
_PATH = re.compile(r"::|->|[.:\\]")
_BORROWED = re.compile(r"^(?:[&*]|'\w+\s|mut\s|const\s|dyn\s|\s)+")
_MAX_SIGNATURE = 400  # characters; they are stored and shown beside the text, where the rest is
_MAX_DOC = 1500
MAX_RECEIVER = 80
_HYPHENED = re.compile(r"[^\W\d]\w*(?:-\w+)+[?!*]?")  # a name in Lisps, PowerShell and the like: Get-Item, my-fn?
_LAST_NAME = re.compile(r"(?:^|(?<=[^\w$@]))[~@$#]*([\w$]+[?!]?)$")
_GROUPS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>|\{[^{}]*\}")
_BLANKS = re.compile(r"\s+")
_KEYWORD = re.compile(r"^[\s(]*(?:(?:try[?!]?|await|new|not|throw|yield|co_await)\s+)+")
_COMMENT_START = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*(?!\*)|//[/!]*|#+['!]?|--+\|?|;+|%+)[ \t]?")
_RULE = re.compile(r"^[\W_]{4,}$")
_VERBATIM = frozenset(["test", "target", "resource"])  # names that may have any character
# Kinds whose names are used by what is around them.
NO_SOURCE = frozenset(["constant", "variable", "field", "case", "namespace", "test"])
# Of nodes with the same extent a wrapper comes first, then a body that is all of what it defines.
_RANKS = {"wrap": 0, "body": 1, "name": 4, "owner": 4, "doc": 4, "tail": 4}


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
    facts: str = ""
    hidden: bool = False
    head_byte: int = 0  # where the signature starts
    body_byte: int = 0
    children: list[Definition] = field(default_factory=list)


def definitions(
    found: Mapping[str, list[Node]], data: bytes, lines: Lines, comments: Mapping[int, int], above: Mapping[int, int]
) -> list[Definition]:
    """The definitions that a query captured, in the order of the text, named as written."""
    sweep = _Sweep(data, lines, comments, above, {node.byte_range for node in found.get("import", ())})
    for _start, _end, _rank, _order, role, node in _events(found):
        sweep.take(role, node)
    return [d for d in sweep.definitions if d.name]


def rows_of(node: Node) -> tuple[int, int]:
    """First row and end row of a node; one that ends with its line end does not reach into the next row."""
    start = node.start_point[0]
    end, column = node.end_point
    return start, end if column == 0 and end > start else end + 1


def own_rows(nodes: Iterable[Node], lines: Lines) -> dict[int, int]:
    """Last row → first row of the nodes that have their rows to themselves."""
    rows = {}
    contents, count = lines.contents, lines.count
    for node in nodes:
        row, column = node.start_point
        if row < count and (column == 0 or not contents[row][:column].strip()):
            end, column = node.end_point
            rows[end - 1 if column == 0 and end > row else end] = row
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
        if role == "tail":  # the body of the definition before it, where the grammar has them side by side
            if self.definitions and not self._data[self.definitions[-1].end_byte : start].strip():
                d = self.definitions[-1]
                d.end_byte, d.body_byte, d.end = node.end_byte, start, rows_of(node)[1]
                if not self._open or self._open[-1] is not d:
                    self._open.append(d)
            return
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
            if kind == "enum":  # Kotlin's enum class is first of all a class
                self._open[-1].kind = kind
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
        definition = Definition(kind_within(kind, parent), start_byte, end_byte, top, start, max(last, end), parent)
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
        return doc_comment("\n".join(self._lines.text_of(a, b) for a, b in reversed(rows)))

    def _describe(self, definition: Definition, role: str, node: Node) -> None:
        if role == "body":
            definition.body_byte = definition.body_byte or node.start_byte
        elif role == "owner":
            definition.owner = definition.owner or split_name(self._text(node))[0]
        elif role == "doc":
            definition.doc = docstring(self._text(node))
        elif not definition.name:
            definition.name = self._text(node)
        elif (name := self._text(node)) != definition.name and (
            definition.body_byte == 0 or node.start_byte < definition.body_byte
        ):  # a second name in one definition: `let a = 1, b = 2`, `case red, green`
            self.definitions.append(replace(definition, name=name, children=[]))

    def _text(self, node: Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def kind_within(kind: str, parent: Definition | None) -> str:
    """What a definition of that kind is called in its parent."""
    if parent is not None and parent.kind in TYPES:
        return {"function": "method", "constant": "property", "variable": "property"}.get(kind, kind)
    if parent is not None and parent.kind == "case":
        return kind
    return {"property": "variable", "field": "variable"}.get(kind, kind)


def finish(definitions: list[Definition], data: bytes) -> None:
    """Fills in qualified names, signatures and children; parents come before what is in them."""
    _join_clauses(definitions, data)
    spaces = {d.name for d in definitions if d.kind == "namespace"}
    for d in definitions:
        head = data[d.head_byte : min(d.body_byte or d.end_byte, d.start_byte + 4 * _MAX_SIGNATURE)]
        if not d.body_byte and (d.kind in TYPES or d.kind in SPACES):
            head = head.partition(b"\n")[0]
        d.signature = signature(head.decode("utf-8", "replace"))
        if d.kind == "test":
            d.signature = _CALLBACK.sub(")", d.signature)
        _name(d)
        _qualify(d, spaces)
        if d.parent is not None:
            d.parent.children.append(d)


def _join_clauses(definitions: list[Definition], data: bytes) -> None:
    """Makes one function of its clauses, which end in ";", where the grammar has each as a definition of its own."""
    kept: list[Definition] = []
    for d in definitions:
        if d.kind == "clause":
            d.kind = "function"
            before = kept[-1] if kept else None
            if before is not None and before.name == d.name and data[before.end_byte - 1] == ord(";"):
                before.end_byte, before.end = d.end_byte, d.end
                continue
        kept.append(d)
    definitions[:] = kept


def _name(d: Definition) -> None:
    """Takes a name as written apart: `Foo::bar` is bar of Foo."""
    if d.kind == "impl":  # impl Draw for &'a mut M
        d.name = _BORROWED.sub("", d.name)
    operator = _OPERATOR.search(d.name) if "operator" in d.name else None
    macro = _TEST_MACRO.match(d.signature) if d.kind == "function" and d.name.isupper() else None
    if operator is not None:
        d.name, d.owner = operator[0], d.owner or without_groups(d.name[: operator.start()])
    elif macro is not None:
        d.name, d.kind = f"{macro[1]}.{macro[2]}", "test"
    elif d.kind == "operator" and (symbol := _OPERATOR_HEAD.search(d.signature)) is not None:
        d.name = f"operator{symbol[1]}"
    elif d.kind != "namespace":
        name, receiver = ("", "") if d.kind in _VERBATIM else split_name(d.name)
        if name:
            is_destructor = d.name.endswith(f"~{name}") or d.signature.startswith("~")
            is_path = d.kind == "impl" and "::" in d.name  # what stands before a Rust impl's type are modules
            d.name = f"~{name}" if is_destructor else name
            if not is_path:
                d.owner = d.owner or receiver.removesuffix(".prototype").rstrip(":~")
        else:
            d.name = " ".join(d.name.strip("\"'`").split())[:80]
    if d.owner in _NO_OWNER:
        d.owner = ""


def _qualify(d: Definition, spaces: set[str]) -> None:
    enclosing = d.parent
    while enclosing is not None and (enclosing.kind == "namespace" or enclosing.name == "companion"):
        enclosing = enclosing.parent
    owners = [part for part in _PATH.split(d.owner) if part and part not in spaces] if d.owner else []
    d.qualified = ".".join([*([enclosing.qualified] if enclosing is not None else []), *owners, d.name])
    type_name = owners[-1] if owners else d.parent.name if d.parent is not None and d.parent.kind in TYPES else ""
    if d.kind in ("function", "method") and type_name:
        kinds = {type_name: "constructor", f"~{type_name}": "destructor"}
        d.kind = kinds.get(d.name, "method")
    if d.body_byte and d.kind in TYPES and d.name not in d.signature:
        d.signature = f"{d.signature} {d.name}"  # typedef struct { … } name


def split_name(text: str) -> tuple[str, str]:
    """(name, receiver) of an expression as written: `client.session.get` is get and client.session."""
    if text.isidentifier() or _HYPHENED.fullmatch(text):
        return text, ""
    head, _, tail = text.rpartition(".")
    if tail.isidentifier() and head.replace(".", "").isidentifier():
        return tail, head
    if "(" in text or "<" in text or "[" in text or "{" in text or " " in text or "\n" in text:
        text = without_groups(text)
    found = _LAST_NAME.search(text)
    if not found:
        return "", ""
    receiver = text[: found.start()].rstrip("~@$#")
    while receiver and receiver[-1] in ".:?!->\\&* ":
        receiver = receiver[:-1]
    if not receiver and text.startswith("."):
        receiver = "."  # Swift's .init(…) is not of the type around it
    return found[1], receiver.lstrip("&*!(^$ ")[-MAX_RECEIVER:]


def without_groups(text: str) -> str:
    """The text on one line without what stands in brackets: `a(b).c<D>` is `a().c`."""
    text = text.rstrip()
    for _ in range(8):
        text, changed = _GROUPS.subn(lambda m: "\0" if m[0][0] == "(" else "", text)
        if not changed:
            break
    text = text.rstrip("\0 \n\r\t:.")
    return _BLANKS.sub("", _KEYWORD.sub("", text.replace("\0", "()")))


def signature(text: str) -> str:
    """A definition's head on one line."""
    one_line = " ".join(text.split())
    one_line = one_line[:-2].rstrip() if one_line.endswith("=>") else one_line.rstrip(" {:=")
    one_line = one_line.replace("( ", "(").replace(" )", ")").replace(",)", ")")
    if len(one_line) > _MAX_SIGNATURE:
        one_line = one_line[:_MAX_SIGNATURE].rsplit(" ", 1)[0] + " …"
    return one_line


def doc_comment(text: str) -> str:
    """What a comment says, without its marks."""
    if text.lstrip().startswith("@"):  # Elixir's @doc
        return docstring(re.sub(r"^\s*@\w+\s*", "", text))
    kept = []
    for line in text.splitlines():
        said = _COMMENT_START.sub("", line, count=1).rstrip(" \t")
        if said.endswith("*/"):
            said = said[:-2].rstrip("*").rstrip(" \t")
        elif said.endswith("-}"):
            said = said[:-2].rstrip(" \t")
        kept.append("" if _RULE.match(said) else said)
    return "\n".join(kept).strip()[:_MAX_DOC]


def docstring(text: str) -> str:
    """What a string literal says, with its own indentation taken off."""
    body = text.lstrip("rRuUbBfF~sS").strip("\"'")
    first, _, rest = body.partition("\n")
    lines = rest.splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join([first.strip(), *(line[indent:].rstrip() for line in lines)]).strip()[:_MAX_DOC]


def innermost(
    definitions: list[Definition], left_out: AbstractSet[str] = NO_SOURCE
) -> tuple[list[int], list[Definition | None]]:
    """The bytes at which the innermost definition changes, and to which."""
    bounds: list[int] = [0]
    owners: list[Definition | None] = [None]
    opened: list[Definition] = []
    for d in [d for d in definitions if d.kind not in left_out]:
        while opened and opened[-1].end_byte <= d.start_byte:
            bounds.append(opened.pop().end_byte)
            owners.append(opened[-1] if opened else None)
        bounds.append(d.start_byte)
        owners.append(d)
        opened.append(d)
    while opened:
        bounds.append(opened.pop().end_byte)
        owners.append(opened[-1] if opened else None)
    return bounds, owners
