"""What can be seen from where, by language?"""

from __future__ import annotations

TYPES = frozenset(
    [
        "class", "struct", "enum", "interface", "protocol", "trait", "actor", "extension", "object", "record", "union",
        "type", "typealias", "module", "impl", "mixin", "namespace", "category",
    ]
)  # fmt: skip
CALLABLES = frozenset(
    ["function", "method", "constructor", "initializer", "deinitializer", "macro", "subscript", "operator", "test"]
)
# Methods of every language's own strings, lists, maps, files and threads: a lone method of that name is no evidence.
COMMON = frozenset(
    [
        "add", "all", "any", "append", "apply", "call", "clear", "close", "contains", "copy", "count", "decode",
        "delete", "emit", "encode", "endswith", "entries", "exists", "extend", "fill", "filter", "find",
        "findall", "first", "flush", "forEach", "format", "get", "group", "has", "index", "insert", "isEmpty",
        "items", "join", "keys", "last", "len", "length", "log", "lower", "map", "match", "max", "min", "next",
        "open", "parse", "pop", "push", "put", "read", "readline", "reduce", "release", "remove", "replace",
        "reset", "resolve", "reverse", "run", "search", "seek", "send", "set", "size", "slice", "some", "sort",
        "split", "start", "startswith", "stop", "strip", "sub", "submit", "sum", "test", "then", "toString",
        "trim", "unwrap", "update", "upper", "value", "values", "wait", "write",
    ]
)  # fmt: skip
SELF = frozenset(["self", "this", "cls", "Self", "@self", "$this", "static"])
SUPER = frozenset(["super", "super()", "base", "parent"])

_FAMILIES = (
    {"typescript", "tsx", "javascript", "jsx", "vue", "svelte"},
    {"java", "kotlin", "scala", "groovy"},
    {"swift", "objc", "c", "cpp", "cuda"},
)

# Names of the same folder are visible without an import.
FOLDER_WIDE = frozenset(["go", "java", "kotlin", "scala", "csharp", "groovy"])
# Every name of the codebase is visible: one module, a linker, or requires that bind no names.
CODEBASE_WIDE = frozenset(
    ["swift", "objc", "c", "cpp", "cuda", "ruby", "php", "lua", "bash", "sql", "elixir", "csharp"]
)
# A member is called without naming its object.
IMPLICIT_SELF = frozenset(["swift", "java", "kotlin", "csharp", "cpp", "ruby", "scala", "groovy", "objc"])


def family(language: str) -> frozenset[str]:
    """The languages whose files can name each other's symbols."""
    return frozenset(next((one for one in _FAMILIES if language in one), {language}))
