"""What type has a variable?  Read off the text around its use: annotations, declarations and constructor calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_TYPE = r"(?:[A-Za-z_][\w]*(?:\.|::))*([A-Z_]\w*)"
_ANNOTATED = (
    r"\b{name}\s*:\s*[\"'&*\[(]*(?:mut |inout |dyn |impl |some |any |readonly |Optional\[|list\[|type\[)*" + _TYPE,
    r"\bwith\s+" + _TYPE + r"\([^\n]*\)\s+as\s+{name}\b",
)
_ASSIGNED = (
    r"\b{name}\s*(?::=|=)\s*(?:await\s+|try[?!]?\s+|new\s+|&|\*)*"
    + _TYPE
    + r"\s*(?:[({{]|::new|\.new|\.shared|\.\w+\()",
)
_DECLARED = (r"\b(?:const\s+)?" + _TYPE + r"(?:<[^<>;]*>)?[\s*&]+{name}\s*(?:[=;,)\[({{:]|in\b)",)
_TRAILING = (r"\b{name}\s+\*?(?:\w+\.)?" + _TYPE + r"\b",)
_TYPE_FIRST = frozenset(["java", "csharp", "c", "cpp", "objc", "dart", "php", "groovy", "cuda"])
_NOT_TYPES = frozenset(["None", "True", "False", "Self", "T", "K", "V", "R", "E", "_"])


@lru_cache(maxsize=4096)
def _pattern(name: str, language: str) -> re.Pattern[str]:
    kind = _DECLARED if language in _TYPE_FIRST else _TRAILING if language == "go" else _ANNOTATED
    return re.compile("|".join(frame.format(name=re.escape(name)) for frame in (*kind, *_ASSIGNED)))


def types_of(name: str, texts: Iterable[str], language: str) -> set[str]:
    """The type names that the first of the texts to say something gives the variable."""
    for text in texts:
        found = {group for match in _pattern(name, language).finditer(text) for group in match.groups() if group}
        if found - _NOT_TYPES:
            return found - _NOT_TYPES
    return set()


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
