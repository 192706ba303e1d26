"""What a grammar says of variables and results: types, expressions and receivers, for graph/types.py."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from tree_sitter import Node

from refdesk.model import Reference
from refdesk.parse.code.definitions import CALLABLES, Definition, innermost, without_groups
from refdesk.parse.code.languages import Language
from refdesk.text import word_set

LONGEST = 1_000  # bytes of an expression that is looked at: longer ones are data
_PARTS = ("fact", "var", "var.type", "var.call", "var.value", "var.alias", "var.items")
_CAPITALS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r"(?:[*&@$\s]|const\b|(?:self|this|cls|Self)(?:\.|->))*+([A-Za-z_]\w*)(?:\s*\[[^\]]*\])?")
_PATH = re.compile(r"[\w$]+(?:\(\))?(?:\.[\w$]+(?:\(\))?)*")
_LOOP = re.compile(r"(?:enumerate|reversed|sorted|list)\((.*)\)|(.*)\.(?:values|iter|iter_mut|into_iter)\(\)", re.S)
_FUNCTION_TYPE = re.compile(r"[-=]>|^(?:typing\.)?(?:Callable|Literal)\b")
_DOTTED = re.compile(r"(?<!')\b[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)*")
_METATYPE = re.compile(r"\.(?:Type|Protocol|self)$")
_GO_TYPE = re.compile(r"(?:\.\.\.|\[[^\]]*\]|\*|map\[[^\]]*\]|chan\s+|<-\s*chan\s+)*((?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*)")
_GO_PACKAGE = re.compile(r"\b[A-Za-z_]\w*\.(?=[A-Za-z_])")  # of http.Request, http
BUILTIN = word_set("""
    None True False self cls Self super this null nil true false undefined void bool boolean Bool Boolean byte
    char int Int Integer uint Int8 Int16 Int32 Int64 UInt UInt8 UInt16 UInt32 UInt64 long short float Float double
    Double int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 i8 i16 i32 i64 i128 u8 u16 u32 u64
    u128 isize usize f32 f64 str string String number object any Any unknown never list dict tuple set frozenset
    bytes complex type error rune uintptr symbol bigint Void Never Character size_t ssize_t var auto decimal
    dynamic Unit Nothing instancetype id
""")
# What is no type of a codebase, and what only holds those that are meant: of Optional[Union[A, B]], A and B.
_NO_TYPES = word_set("""
    Annotated Arc Array Awaitable Box ClassVar Collection Deque Dict E False Final FrozenSet HashMap Iterable
    Iterator K List Map Mapping MutableMapping Mutex None Option Optional Partial Promise R Rc Readonly RefCell
    Sequence Set T Tuple True Type Union V Vec _ any const dyn func impl inout interface map mut readonly some
    struct type typing
""")


def add_facts(
    found: Mapping[str, list[Node]],
    definitions: list[Definition],
    references: Iterable[Reference],
    data: bytes,
    language: Language,
) -> list[Reference]:
    """Sets each definition's facts, as `Symbol.facts` explains; returns the facts outside of any definition."""
    events: list[tuple[int, int, int, str]] = []
    for rank, role in enumerate(_PARTS):
        events += {(node.start_byte, -node.end_byte, rank, role) for node in found.get(role, ())}
    events.sort()
    opened: list[_Declared] = []
    declared: list[_Declared] = []
    for start, end, _rank, role in events:
        while opened and opened[-1].end <= start:
            opened.pop()
        if role == "fact":
            opened.append(_Declared(start, -end, {}))
            declared.append(opened[-1])
        elif opened:
            opened[-1].parts.setdefault(role, []).append(data[start : min(-end, start + LONGEST)])
    facts = _Facts(definitions, data, language.id)
    facts.add_variables(declared, references)
    facts.add_results(found)
    return facts.write()


class _Declared(NamedTuple):
    """A declaration or assignment: its names, types and values by the roles that its query gives them."""

    start: int
    end: int
    parts: dict[str, list[bytes]]


class _Facts:
    """Collects the facts of one file."""

    def __init__(self, definitions: list[Definition], data: bytes, language: str) -> None:
        self._data = data
        self._language = language
        self._bounds, self._owners = innermost(definitions, frozenset(["namespace", "test"]))
        self._found: list[tuple[int, Definition | None, str, str, str]] = []  # where, in what, sign, name, what

    def _text(self, node: Node) -> str:
        return self._data[node.start_byte : min(node.end_byte, node.start_byte + LONGEST)].decode("utf-8", "replace")

    def _owner(self, start: int) -> Definition | None:
        return self._owners[bisect_right(self._bounds, start) - 1]

    def add_variables(self, declared: Iterable[_Declared], references: Iterable[Reference]) -> None:
        """Records the types and values of members, and of the local variables that are receivers of calls."""
        by_name: dict[str, list[tuple[_Declared, Definition | None, int, int]]] = {}
        wanted: set[str] = set()
        for one in declared:
            written = one.parts.get("var", ())
            owner = self._owner(one.start)
            for place, raw in enumerate(written):
                name = raw.decode("utf-8", "replace")
                if not name.isidentifier():
                    name = match[1] if (match := _VARIABLE.fullmatch(name)) is not None else ""
                by_name.setdefault(name, []).append((one, owner, place, len(written)))
                if owner is not None and owner.kind not in CALLABLES:
                    wanted.add(name)
        asked = {part for ref in references if ref.kind == "calls" for part in (ref.receiver or ref.target, ref.alias)}
        wanted.update(by_name.keys() & _NAME.findall(" ".join(asked)))
        by_name.pop("", None)  # what is no variable
        while wanted:
            name = wanted.pop()
            for one, owner, place, count in by_name.pop(name, ()):
                sign, what = self._said(one.parts, place, count)
                if what:
                    self._found.append((one.start, owner, sign, name, what))
                    wanted.update(by_name.keys() & _NAME.findall(what) if sign != ":" else ())

    def _said(self, parts: Mapping[str, list[bytes]], place: int, count: int) -> tuple[str, str]:
        """The declared types of a variable, else the expression that it is assigned or iterates over."""
        texts = {role: [one.decode("utf-8", "replace") for one in found] for role, found in parts.items()}
        types = [name for text in texts.get("var.type", ()) for name in type_names(text, self._language)]
        if types:
            return ":", "|".join(dict.fromkeys(types))
        values = [f"{path}()" if (path := dotted(text)) else "" for text in texts.get("var.call", ())]
        values += [dotted(text) for text in texts.get("var.value", ())]
        for text in texts.get("var.alias", ()):  # `Union[A, B]`, `Maker if strict else Other`
            values.append("|".join(type_names(text, "")) if "(" not in text else "")
        if values:
            if len(values) == count:
                return "=", values[place]
            return "=", f"{values[0]}#{place}" if place and values[0] else values[0]
        items = texts.get("var.items", [""])[0]
        loop = _LOOP.fullmatch(items)
        return "~", dotted(loop[1] or loop[2] or "" if loop else items)

    def add_results(self, found: Mapping[str, list[Node]]) -> None:
        """Records what functions return and take, what they extend, and Kotlin's modifiers and lambda receivers."""
        for node in found.get("returns", ()):
            if self._language == "go":
                what = ",".join(_bare_go(one) for one in self._go_types(node))
            else:
                what = "|".join(type_names(self._text(node), self._language))
            if what.strip(","):
                self._add(node, ">", what)
        for node in found.get("gives", ()):
            if path := dotted(self._text(node)):
                self._add(node, "<", f"{path}()")
        results = {node.start_byte: node for node in found.get("returns", ())} if "takes" in found else {}
        for node in found.get("takes", ()):
            rest = self._data[node.end_byte : node.end_byte + 80]
            after = node.end_byte + len(rest) - len(rest.lstrip())
            given = self._go_types(results[after]) if after in results else []
            packages = (",".join(types) for types in (self._go_types(node), given))
            shapes = ("".join(_GO_PACKAGE.sub("", one).replace("interface{}", "any").split()) for one in packages)
            self._add(node, "(", ">".join(shapes))
        for node in found.get("extends", ()):
            self._add(node, "+", "")
        for node in found.get("modifier", ()):
            if (text := self._text(node)) in ("expect", "actual"):
                self._add(node, "!", text)
        general = {(id(self._owner(node.start_byte)), self._text(node)) for node in found.get("generic", ())}
        for node in found.get("block", ()):
            name = without_groups(self._text(node)).rstrip("?").rpartition(".")[2]
            self._add(node, "{", "?" if (id(self._owner(node.start_byte)), name) in general else name)

    def _add(self, node: Node, sign: str, what: str) -> None:
        owner = self._owner(node.start_byte)
        if sign == "{" and owner is not None and owner.kind == "property":  # of a class that its constructor declares
            owner = owner.parent
        self._found.append((node.start_byte, owner, sign, "", what))

    def _go_types(self, node: Node) -> list[str]:
        """The types of a list of parameters: of `a, b string, c *pkg.T`, string, string and *pkg.T."""
        if node.type != "parameter_list":
            return [self._text(node)]
        found: list[str] = []
        for one in node.named_children:
            if (written := one.child_by_field_name("type")) is not None:
                text = ("..." if one.type.startswith("variadic") else "") + self._text(written)
                found += [text] * max(1, len(one.children_by_field_name("name")))
        return found

    def write(self) -> list[Reference]:
        """Sets each definition's facts; returns those of scripts and test blocks, which are in none."""
        outside: list[Reference] = []
        lines: dict[int, dict[str, None]] = {}
        owners: dict[int, Definition] = {}
        row = last = 0
        self._found.sort(key=itemgetter(0, 3))  # by name too: they come from a set
        for start, owner, sign, name, what in self._found:
            row += self._data.count(b"\n", last, start)
            last = start
            if owner is not None:
                owners[id(owner)] = owner
                lines.setdefault(id(owner), {})[f"{sign}{name} {max(row - owner.start, 0)} {what}"] = None
            elif name:
                outside.append(Reference("fact", "", name, row + 1, what, sign))
        for key, written in lines.items():
            owners[key].facts = "\n".join(written)
        return outside


def dotted(text: str) -> str:
    """A dotted expression with empty brackets for calls, "" for any other: of `await a::b(1)?.c`, a.b().c."""
    if text.replace(".", "").isidentifier():
        return text
    flat = without_groups(text) + ("()" if text.rstrip("?! \n").endswith(")") else "")
    flat = flat.lstrip("&*$@").replace("::", ".").replace("->", ".").replace("?", "").replace("!", "")
    return flat.replace("$", "") if _PATH.fullmatch(flat) else ""


@lru_cache(maxsize=4096)  # declarations name the same few types
def type_names(text: str, language: str) -> Sequence[str]:
    """The types that are named in a declaration; Python's also in small letters, to tell what is foreign."""
    if language == "go":
        return [name] if (name := _bare_go(text)) else []
    if _FUNCTION_TYPE.search(text):
        return ()
    found = [_METATYPE.sub("", one.replace("::", ".")) for one in _DOTTED.findall(text)]
    kept = [one for one in found if one.rpartition(".")[2] not in _NO_TYPES]
    if language != "python":
        kept = [one for one in kept if one.rpartition(".")[2].lstrip("$")[:1] in _CAPITALS]
    wrapped = [one for one in kept if one.rpartition(".")[2] != "Result"]  # of Rust's and Swift's Result<A, B>
    return list(dict.fromkeys(wrapped or kept))


def _bare_go(written: str) -> str:
    match = _GO_TYPE.match(written)
    return match[1] if match and match[1] not in BUILTIN and match[1] not in _NO_TYPES else ""
