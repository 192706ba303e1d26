"""What type has a variable?  Read off the text around its use: annotations, declarations and constructor calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_TYPE = r"(?:[A-Za-z_]\w*(?:\.|::))*((?!Type\b|Protocol\b)[A-Z_]\w*)"  # of Command.Type, Command
_WRAPPED = r"[\"'&*\[(]*(?:mut |inout |dyn |impl |some |any |readonly |Optional\[|list\[|type\[)*"
_WORDS = r"(?:await\s+|try[?!]?\s+|new\s+|&|\*)*"
_ANNOTATED = re.compile(r"\s*:\s*" + _WRAPPED + _TYPE)
_ASSIGNED = re.compile(r"\s*(?::=|=)\s*" + _WORDS + _TYPE + r"\s*(?:[({]|::new|\.new|\.shared|\.\w+\()")
_TRAILING = re.compile(r"\s+\*?(?:\w+\.)?" + _TYPE + r"\b")
_OPENED = re.compile(r"\bwith\s+" + _TYPE + r"\([^\n]*\)\s+as\s+$")
_DECLARED = re.compile(r"\b(?:const\s+)?" + _TYPE + r"(?:<[^<>;]*>)?[\s*&]+$")
_DECLARED_TAIL = re.compile(r"\s*(?:[=;,)\[({:]|in\b)")
_MADE = re.compile(r"(?:\s*,\s*\w+)?\s*(?::=|=)\s*" + _WORDS + r"((?:[A-Za-z_]\w*(?:\.|::))*[a-z_]\w*)\(")
_RETURNED = re.compile(
    r"(?:->\s*|\)\s*:\s*|\)\s+\(?)" + _WRAPPED + r"(?:Result<|Option<|Promise<|Awaitable\[)*" + _WRAPPED + _TYPE
)
_TYPE_FIRST = frozenset(["java", "csharp", "c", "cpp", "objc", "dart", "php", "groovy", "cuda"])
_NOT_TYPES = frozenset(["None", "True", "False", "Self", "T", "K", "V", "R", "E", "_"])


def types_of(name: str, text: str, language: str) -> set[str]:
    """The type names that the text gives the variable."""
    found: set[str] = set()
    after = (_TRAILING,) if language == "go" else () if language in _TYPE_FIRST else (_ANNOTATED,)
    for start, end in _places(name, text):
        for pattern in (*after, _ASSIGNED):
            if match := pattern.match(text, end):
                found.add(match[1])
        before = text[max(text.rfind("\n", 0, start) + 1, start - 120) : start]
        if language in _TYPE_FIRST and _DECLARED_TAIL.match(text, end) and (match := _DECLARED.search(before)):
            found.add(match[1])
        if before.endswith("as ") and (match := _OPENED.search(before)):
            found.add(match[1])
    return found - _NOT_TYPES


def made_by(name: str, text: str) -> set[str]:
    """The functions whose result the variable is given: `store = self.open_store()` is self.open_store."""
    return {match[1] for _, end in _places(name, text) if (match := _MADE.match(text, end))}


def returned(signature: str) -> set[str]:
    """The type that a function's signature says it gives."""
    tail = signature[signature.rfind(")") if "->" not in signature else signature.rfind("->") :]
    match = _RETURNED.match(tail)
    return {match[1]} - _NOT_TYPES if match else set()


def _places(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the name stands as a word."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not _is_word(text[at - 1 : at]) and not _is_word(text[end : end + 1]):
            yield at, end
        at = text.find(name, end)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


@lru_cache(maxsize=4096)
def _handed(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"\b(?:self|this)\.{re.escape(name)}\s*(?::[^=\n]+)?=\s*([A-Za-z_]\w*)\s*(?:$|[\n;,)]|or\b)", re.M
    )


def handed_from(name: str, text: str) -> list[str]:
    """The variables that `self.name` is set from: `self.store = store`."""
    return _handed(name).findall(text)


@lru_cache(maxsize=4096)
def _aliased(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\s*=\s*(?:self|this)\.([A-Za-z_]\w*)\s*(?:$|[\n;])", re.M)


def taken_from(name: str, text: str) -> list[str]:
    """The members that a local variable is set from: `store = self._store`."""
    return _aliased(name).findall(text)
