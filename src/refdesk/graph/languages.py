"""What can be seen from where, by language?"""

from __future__ import annotations

import re
from functools import lru_cache

from refdesk.model import Document

TYPES = frozenset(
    [
        "class", "struct", "enum", "interface", "protocol", "trait", "actor", "extension", "object", "record", "union",
        "type", "typealias", "module", "impl", "mixin", "namespace", "category",
    ]
)  # fmt: skip
CALLABLES = frozenset(
    ["function", "method", "constructor", "initializer", "deinitializer", "macro", "subscript", "operator", "test"]
)
# Methods of every language's own strings, lists, maps, files, threads, events and loggers: a lone method of that name
# is no evidence.
COMMON = frozenset(
    [
        "acquire", "add", "addEventListener", "all", "and_then", "any", "any?", "append", "apply", "as_bytes",
        "as_ref", "as_str", "assign", "begin", "bind", "bytes", "c_str", "call", "catch", "chars", "clear", "clone",
        "close", "cmp", "collect", "concat", "contains", "copy", "count", "critical", "current", "debug", "decode",
        "default", "delete", "drain", "drop", "dup", "each", "emit", "emplace_back", "empty?", "encode", "end",
        "endswith", "entries", "eq", "error", "every", "exception", "exists", "expect", "extend", "fatal", "fill",
        "filter", "find", "findall", "first", "flush", "forEach", "format", "freeze", "from", "get", "group", "has",
        "hash", "include?", "includes", "index", "indexOf", "info", "insert", "inspect", "into", "is_empty",
        "isArray", "isEmpty", "items", "iter", "join", "keys", "last", "len", "length", "level", "lines", "lock",
        "log", "lower", "map", "map_err", "match", "max", "min", "new", "next", "nil?", "notice", "off", "ok_or",
        "on", "once", "open", "parse", "pop", "push", "push_back", "push_str", "put", "read", "readline", "reduce",
        "release", "remove", "removeListener", "replace", "reset", "resolve", "reverse", "run", "search", "seek",
        "send", "set", "size", "slice", "some", "sort", "split", "start", "startswith", "stop", "strip", "sub",
        "submit", "sum", "take", "tap", "test", "then", "to_a", "to_h", "to_owned", "to_s", "to_string", "toByte",
        "toChar", "toDouble", "toFloat", "toInt", "toList", "toLong", "toMap", "toSet", "toShort", "toString",
        "trace", "trim", "unlock", "unwrap", "unwrap_or", "unwrap_or_else", "update", "upper", "value", "values",
        "wait", "warn", "warning", "with", "write",
    ]
)  # fmt: skip
EXTENSIONS = frozenset(["extension", "impl", "category"])  # further parts of a type that is defined elsewhere
VALUES = frozenset(["field", "property", "variable", "constant"])
SELF = frozenset(["self", "this", "cls", "Self", "@self", "$this", "static"])
LEFT_OUT = "."  # a receiver that is not written, since only one type is possible: Swift's .init(…)
RESULT = "->"  # the same where it is what a function returns
INITIALIZERS = frozenset(["constructor", "initializer"])
SUPER = {"csharp": "base", "php": "parent"}  # others say super

_FAMILIES = (
    {"typescript", "tsx", "javascript", "jsx", "vue", "svelte"},
    {"java", "kotlin", "scala", "groovy"},
    {"swift", "objc", "c", "cpp", "cuda"},
)

# Names of the same package, which is mostly a folder, are visible without an import.
PACKAGE_WIDE = frozenset(["go", "java", "kotlin", "scala", "csharp", "groovy"])
# A package is declared and may lie in several folders: those of tests, of platforms.
PACKAGED = frozenset(["java", "kotlin", "scala", "groovy"])
# Every name of the codebase is visible: one module, a linker, or requires that bind no names.
CODEBASE_WIDE = frozenset(
    ["swift", "objc", "c", "cpp", "cuda", "ruby", "php", "lua", "bash", "sql", "elixir", "csharp"]
)
# A name of another file is seen only where it is imported.
IMPORTING = frozenset(["python", "typescript", "tsx", "javascript", "jsx", "vue", "svelte"])
# A class is in one place, its home: no extension elsewhere adds to it.
WHOLE = frozenset(["python", "typescript", "tsx", "javascript", "jsx", "java", "vue", "svelte", "go"])
# A member is called without naming its object.
IMPLICIT_SELF = frozenset(["swift", "java", "kotlin", "csharp", "cpp", "ruby", "scala", "groovy", "objc"])


def home(document: Document) -> str:
    """Where a type's members are: in its file, in Go anywhere in its folder."""
    return document.path.rpartition("/")[0] if document.content_type == "go" else document.id


def family(language: str) -> frozenset[str]:
    """The languages whose files can name each other's symbols."""
    return frozenset(next((one for one in _FAMILIES if language in one), {language}))


_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testdata|benches|[Ee]xamples?)/|(?:^|/)test_[^/]*$|[._-](?:test|spec|tests)\.\w+$"
    r"|(?:Tests?|Spec)\.\w+$|(?:^|/)[^/]*Tests/",
)


@lru_cache(maxsize=65_536)
def is_test(path: str) -> bool:
    """Whether the file tests others: code that is no test itself does not use what it defines."""
    return _TEST.search(path) is not None


_FOR_TESTS = re.compile(r"(?:^|/)(?:testing|test_?utils?|_*mocks?_*|_*fakes?_*)(?:/|\.\w+$)|(?:^|/)conftest\.py$")
# A GreeterStub is what gRPC calls a real client.
_STANDS_IN = re.compile(r"_*(?:Mock|Fake|Stub|Dummy|Spy)(?![a-z])|\w*[a-z\d](?:Mock|Fake|Dummy|Spy)$")


@lru_cache(maxsize=65_536)
def is_for_tests(path: str) -> bool:
    """Whether the file tests others or is shipped for those that do."""
    return is_test(path) or _FOR_TESTS.search(path) is not None


def stands_in(path: str, type_name: str) -> bool:
    """Whether a type takes the place of another in tests: nothing else calls it unless it names it."""
    return is_for_tests(path) or _STANDS_IN.match(type_name) is not None
