"""What type has a variable?  Read off the text around its use: annotations, declarations and constructor calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_TYPE = r"((?:[A-Za-z_]\w*(?:\.|::))*(?!Type\b|Protocol\b)[A-Z_]\w*)"  # of Command.Type, Command
_WRAPPED = r"[\"'&*\[(]*+(?:mut |inout |dyn |impl |some |any |readonly |Optional\[|list\[|type\[)*+"
_WORDS = r"(?:await\s+|try[?!]?\s+|new\s+|&|\*)*"
_COLON = re.compile(r"\s*:\s*(?=[\"'&*\[(\w])(?!:)")
_TYPE_NAME = re.compile(r"(?<![\w.:])" + _TYPE)
_NO_ANNOTATION = re.compile(
    r"(?:typing\.)?Callable\b|[^\n]*(?:[-=]>|\w\()"
)  # a function's type has no members; a call is none
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}
_ANGLES = {"<": 1, ">": -1}
_ANNOTATION = 200  # characters
_ARGUMENTS = 4_000  # characters
_ASSIGNED = re.compile(r"\s*(?::=|=)\s*" + _WORDS + _TYPE + r"\s*(?:[({]|::new|\.new|\.shared|\.\w+\()")
_ALIAS = re.compile(r"[ \t]*=[ \t]*((?:[A-Za-z_]\w*\.)*[A-Z]\w*[ \t]*(?:(?=\n|$)|\[|\||if\b|or\b)[^\n]*)")
_TRAILING = re.compile(r"[ \t]+(?:\[\]|\*)*((?:\w+\.)?[A-Za-z_]\w*)")  # Go's own types may begin with a small letter
_OPENED = re.compile(r"\bwith\s+" + _TYPE + r"\([^\n]*\)\s+as\s+$")
_DECLARED = re.compile(r"(?<![\w.])(?<!::)(?:const\s++)?" + _TYPE + r"(?:<[^<>;]*>)?[\s*&]+$")
_DECLARED_TAIL = re.compile(r"\s*(?:[=;,)\[({:]|in\b)")
_MADE = re.compile(r"(?:\s*,\s*\w+)?\s*(?::=|=)\s*" + _WORDS + r"((?:[A-Za-z_]\w*(?:\.|::))*[a-z_]\w*)\(")
_MADE_BY_ANY = re.compile(r"\s*=\s*(?:await\s+)?((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\(")
_DOTTED = re.compile(r"[A-Za-z_][\w.]*")
_RETURNED = re.compile(
    r"(?:->\s*|\)\s*:\s*|\)\s+\(?)" + _WRAPPED + r"(?:Result<|Option<|Promise<|Awaitable\[)*+" + _WRAPPED + _TYPE
)
_TYPE_FIRST = frozenset(["java", "csharp", "c", "cpp", "objc", "dart", "php", "groovy", "cuda"])
_RETURN = re.compile(r"^[ \t]*return[ \t]+(?:await[ \t]+|new[ \t]+)?((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\(", re.M)
_HEAD_END = re.compile(r"^[^\n]*\)\s*(?:(?:->|:)[^\n]*)?[:{]\s*$", re.M)
# What is no type of the codebase, and what only holds those that are meant: of Optional[Union[A, B]], A and B.
_NO_TYPES = frozenset(
    [
        "None", "True", "False", "Self", "T", "K", "V", "R", "E", "_",
        "Annotated", "Arc", "Array", "Awaitable", "Box", "ClassVar", "Collection", "Deque", "Dict", "Final",
        "FrozenSet", "HashMap", "Iterable", "Iterator", "List", "Map", "Mapping", "MutableMapping", "Mutex", "Option",
        "Optional", "Partial", "Promise", "Rc", "Readonly", "RefCell", "Sequence", "Set", "Tuple", "Type", "Union",
        "Vec",
    ]
)  # fmt: skip
_LOOPED = (
    r"\bfor\s++(?:\(?\s*+(?:const|let|var)\s++)?(?:[\w, ]*,\s*+)?{}\)?\s++(?:in|of)\s++"
    r"(?:(?:enumerate|reversed|sorted|list)\()?((?:\w+\.)*\w+)(?:\.values\(\))?\s*[\n:){{\]]"
)


def types_of(name: str, text: str, language: str) -> set[str]:
    """The type names that the text gives the variable."""
    found: set[str] = set()
    has_annotations = language != "go" and language not in _TYPE_FIRST
    for start, end in _places(name, text):
        if has_annotations:
            found |= _annotated(text, end)
        elif language == "go" and (match := _TRAILING.match(text, end)):
            found.add(match[1])
        if match := _ASSIGNED.match(text, end):
            found.add(match[1])
        before = text[max(text.rfind("\n", 0, start) + 1, start - 120) : start]
        if language in _TYPE_FIRST and _DECLARED_TAIL.match(text, end) and (match := _DECLARED.search(before)):
            found.add(match[1])
        if before.endswith("as ") and (match := _OPENED.search(before)):
            found.add(match[1])
    return _named(found)


def _named(found: Iterable[str]) -> set[str]:
    """The types as they are written, with dots, without what is no type of its own."""
    dotted = {one.replace("::", ".") for one in found}
    types = {one for one in dotted if not one.rpartition(".")[2].startswith("__")}  # cls.__new__ is a function
    return {one for one in types if one.rpartition(".")[2] not in _NO_TYPES or one.startswith(("self.", "this."))}


def _annotated(text: str, at: int) -> set[str]:
    """The types of an annotation that begins with a colon: of `: Optional[Union[A, B]] = None`, A and B."""
    return {match[1] for match in _TYPE_NAME.finditer(_annotation(text, at))}


def _annotation(text: str, at: int) -> str:
    """What is written behind a colon, up to the next name or value; "" for a function's type and what is a call."""
    colon = _COLON.match(text, at)
    if colon is None:
        return ""
    depth, end = 0, min(len(text), colon.end() + _ANNOTATION)
    for number in range(colon.end(), end):
        character = text[number]
        depth += _BRACKETS.get(character, _ANGLES.get(character, 0))
        if text.startswith("=>", number):
            return ""
        if depth < 0 or (depth == 0 and character in ",=\n;{"):
            end = number
            break
    written = text[colon.end() : end]
    return "" if _NO_ANNOTATION.match(written) else written


def origins(name: str, text: str) -> set[str]:
    """What a Python variable is annotated with or made by, in any case: datetime, socket.socket."""
    found: set[str] = set()
    for _, end in _places(name, text):
        found.update(_DOTTED.findall(_annotation(text, end)))
        if match := _MADE_BY_ANY.match(text, end):
            found.add(match[1])
    return {one for one in found if one.rpartition(".")[2] not in _NO_TYPES}


def made_by(name: str, text: str) -> set[str]:
    """The functions whose result the variable is given: `store = self.open_store()` is self.open_store."""
    return {match[1] for _, end in _places(name, text) if (match := _MADE.match(text, end))}


def wanted_before(name: str, line: str) -> set[str]:
    """The type that is declared right before a member without a receiver: of `var a: [A]? = .init()`, A."""
    match = re.search(rf":\s*{_WRAPPED}{_TYPE}[^=\n]{{0,200}}=\s*\.{re.escape(name)}\b", line)
    return _named([match[1]]) if match else set()


def assigned_before(name: str, line: str) -> str:
    """The variable that is set to a member without a receiver: of `self.a = .init()`, a."""
    match = re.search(rf"\b([A-Za-z_]\w*)\s*=\s*\.{re.escape(name)}\b", line)
    return match[1] if match else ""


def is_result(name: str, line: str) -> bool:
    """Whether a member without a receiver is what the function gives."""
    return re.search(rf"(?:^|\breturn|\{{)\s*\.{re.escape(name)}\b", line) is not None


def alias_of(name: str, text: str) -> set[str]:
    """The types that the name is set to be: `Input = Union[A, B]`, `self.maker = Maker if strict else Other`."""
    written = [match[1] for _, end in _places(name, text) if (match := _ALIAS.match(text, end))]
    return _named(match[1] for one in written if "(" not in one for match in _TYPE_NAME.finditer(one))


def returned(signature: str) -> set[str]:
    """The type that a function's signature says it gives."""
    tail = signature[signature.rfind(")") if "->" not in signature else signature.rfind("->") :]
    match = _RETURNED.match(tail)
    return _named([match[1]]) if match else set()


def returned_calls(text: str) -> set[str]:
    """What a function calls last: of `return self.make(…)`, self.make; nothing of `return make(…).part`."""
    return {match[1] for match in _RETURN.finditer(text) if _ends_there(text, match.end())}


def _ends_there(text: str, at: int) -> bool:
    """Whether the bracket that was opened before closes at the end of a line."""
    depth = 1
    for number in range(at, min(len(text), at + _ARGUMENTS)):
        depth += _BRACKETS.get(text[number], 0)
        if depth == 0:
            return text[number + 1 : number + 2] in ("", "\n", ";") or text.startswith("  #", number + 1)
    return False


def whole_head(text: str) -> str:
    """The lines of a function's head, where it is told by its closing bracket."""
    closing = _HEAD_END.search(text)
    return text[: closing.end()] if closing else ""


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


@lru_cache(maxsize=4096)
def _looped(name: str) -> re.Pattern[str]:
    return re.compile(_LOOPED.format(re.escape(name)))


def looped_over(name: str, text: str) -> list[str]:
    """What a loop's variable goes through: in `for one in self.all`, self.all."""
    return _looped(name).findall(text)
