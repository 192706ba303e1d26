"""Whose members does a lambda see?  Those of the type that the function it is handed to gives it: Kotlin's builders."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from refdesk.graph import receivers
from refdesk.graph.candidates import FAIR
from refdesk.graph.files import File
from refdesk.graph.typed import Names, Types
from refdesk.model import Reference, Symbol

_HEAD_LINES = 60  # of a signature that was too long to keep
_HEAD_SIZE = 2_000  # characters before a lambda in which the call that takes it begins
_NAME_SIZE = 120  # of what is called, with its receiver
_MARKS = re.compile(r"\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/|[{}]", re.DOTALL)
_CALLED = re.compile(r"(?<![\w.])((?:\w+(?:\(\))?[?!]{0,2}\.)*[A-Za-z_]\w*)[ \t]*+(?:<[^<>{}()]*>)?[ \t]*+$")
_LABEL = re.compile(r"[ \t]*(?:\w+@)?[ \t]*$")
_NO_CALL = re.compile(r"(?:\b(?:fun|class|interface|object|constructor)\s+(?:<[^<>]*>\s*)?|:\s*)$")
_NO_CALLS = frozenset(["if", "while", "for", "when", "catch", "else", "try", "do", "finally", "init", "get", "set"])
_HANDED_OVER = frozenset(["apply", "run", "with"])  # whose lambdas see the members of what they are called on
_PARAMETERS = re.compile(r"\b(?:fun\b|class\s++\w++)[^(]{0,2000}\(")
_TYPE_PARAMETERS = re.compile(r"\b(?:fun\s*|class\s+\w+)<([^()]*?)>\s*[\w(]")
_RECEIVER = re.compile(r":\s*(?:@\w+\s+)*\(?(?:suspend\s+)?(?:\w+\.)*(\w+)(?:<[^()]*>)?\??\.\(")


class _Taken(NamedTuple):
    """A call that a lambda is handed to."""

    called: str  # as written: build, page.section
    line: int


class _Braces:
    """The blocks of a file, and what they are handed to; each is looked at when it is asked about."""

    def __init__(self, file: File) -> None:
        self._text = "\n".join(file.lines)
        self._rows = [0, *accumulate(len(line) + 1 for line in file.lines)]
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}
        self._parents: list[int] = []
        self._taken: dict[int, _Taken | None] = {}
        opened: list[int] = []
        for mark in _MARKS.finditer(self._text):
            if mark[0] == "{":
                self._parents.append(opened[-1] if opened else -1)
                opened.append(len(self._starts))
                self._starts.append(mark.start())
            elif mark[0] == "}" and opened:
                self._ends[opened.pop()] = mark.start()

    def around(self, name: str, line: int, first: int) -> Iterator[_Taken]:
        """The calls whose lambdas a name stands in, innermost first, down to a line."""
        place = re.compile(rf"(?<![\w.]){re.escape(name)}\b").search(self._text, self._rows[line - 1], self._rows[line])
        if place is None:
            return
        number = bisect_right(self._starts, place.start()) - 1
        while number >= 0 and self._starts[number] >= self._rows[first - 1]:
            is_around = self._ends.get(number, len(self._text)) > place.start()
            if is_around and (taken := self._call_before(number)) is not None:
                yield taken
            number = self._parents[number]

    def _call_before(self, number: int) -> _Taken | None:
        if number not in self._taken:
            self._taken[number] = self._find_call(self._starts[number])
        return self._taken[number]

    def _find_call(self, brace: int) -> _Taken | None:
        """The call that takes the lambda which begins at a brace; None for what is no lambda."""
        low = max(brace - _HEAD_SIZE, 0)
        head = _LABEL.sub("", self._text[low:brace])
        if head.endswith(")"):
            head = head[: _opening(head)]
        near = max(len(head) - _NAME_SIZE, 0)
        found = _CALLED.search(head, near)
        if found is None or found[1] in _NO_CALLS or _NO_CALL.search(head[near : found.start()]):
            return None
        return _Taken(found[1], bisect_right(self._rows, low + found.start()))


class Lambdas:
    """Finds the types whose members are seen without a receiver."""

    def __init__(self, names: Names, types: Types) -> None:
        self._names = names
        self._types = types
        self._braces: dict[str, _Braces] = {}

    def receivers_of(self, file: File, ref: Reference) -> Iterator[set[str]]:
        """The types of the lambdas around a call, innermost first, as far out as they are known."""
        for taken in self._around(file, ref):
            before, _, name = taken.called.rpartition(".")
            if name in _HANDED_OVER:
                types = self._handed_over(file, ref, before) if before else set()
                if not types and (before or name == "with"):
                    return
            else:
                call = Reference("calls", ref.source, name, taken.line, before.rstrip("?!"))
                found = [one for one in self._names.resolve(file.document, call) if one.confidence >= FAIR]
                given = [receiver_of(_head(self._names.file(one.document), one.symbol)) for one in found]
                if None in given:
                    return
                types = {one for one in given if one}
            if any(not self._names.named(one) for one in types):
                return  # what the codebase does not define may have a member of that name, which comes first
            if types:
                yield types

    def _handed_over(self, file: File, ref: Reference, receiver: str) -> set[str]:
        asked = Reference("calls", ref.source, ref.target, ref.line, receiver.rstrip("?!"))
        last = receiver.removesuffix("()").rpartition(".")[2].rstrip("?!")
        return {one.last for one in self._types.of_receiver(file, asked, receiver.removesuffix("()"), last)}

    def _around(self, file: File, ref: Reference) -> Iterator[_Taken]:
        """The calls whose lambdas a call stands in, within what is defined around it."""
        if file.document.id not in self._braces:
            self._braces[file.document.id] = _Braces(file)
        source = file.by_qualified.get(ref.source)
        yield from self._braces[file.document.id].around(ref.target, ref.line, source.start_line if source else 1)


def receiver_of(signature: str) -> str | None:
    """The type whose members the function's last argument sees: of `build(block: B.() -> Unit)`, B.

    "" where it sees those of none, None where of any type: of `T.() -> Unit`.
    """
    begun = _PARAMETERS.search(signature)
    if begun is None:
        return ""
    last = _last_argument(signature[begun.end() :])
    found = _RECEIVER.search(last)
    if found is None:
        return ""
    general = _TYPE_PARAMETERS.search(signature)
    is_general = general is not None and re.search(rf"\b{found[1]}\b", general[1]) is not None
    return None if is_general else found[1]


def _last_argument(text: str) -> str:
    """The last of what stands before the closing bracket."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                return text[start:at]
        elif character == "," and not depth and re.match(r"\s*(?:\w+\s+)*\w+\s*:", text[at + 1 :]):
            start = at + 1
    return text[start:]


def _opening(head: str) -> int:
    """Where the bracket was opened that the text closes at its end."""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[at], 0)
        if not depth:
            return at
    return 0


def _head(file: File, symbol: Symbol) -> str:
    if not symbol.signature.endswith("…"):
        return symbol.signature
    return receivers.whole_head(file.text(symbol.start_line, symbol.start_line + _HEAD_LINES))
