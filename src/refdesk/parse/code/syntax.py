"""How is a text read with its grammar?  Grammars load on first use and are kept, parsers one per thread."""

from __future__ import annotations

import re
import threading
import time
from functools import cache
from operator import attrgetter
from pathlib import Path

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

_QUERIES = Path(__file__).with_name("queries")
_WATCHED_BYTES = 100_000  # texts from this size on are parsed under a time limit
_PIECE_BYTES = 4096
_PARSE_SECONDS = 5.0
_MAX_LEVELS = 200
_FAR_IN = re.compile(rb"\n[ \t]{200}")
_extent = attrgetter("byte_range")
_local = threading.local()


@cache
def grammar(name: str) -> Language | None:
    """The grammar of that name, None when there is none."""
    from tree_sitter_language_pack import get_language

    try:
        return get_language(name)  # type: ignore[arg-type]
    except LookupError:
        return None


@cache
def query(grammar_name: str, files: tuple[str, ...]) -> Query | None:
    """The query made of those files, None for a language that has none."""
    language = grammar(grammar_name)
    if language is None or not files:
        return None
    return Query(language, "\n".join((_QUERIES / f"{file}.scm").read_text("utf-8") for file in files))


def parse(data: bytes, grammar_name: str) -> Tree | None:
    """The syntax tree, None without a grammar or when the text takes too long or is nested too deep."""
    language = grammar(grammar_name)
    if language is None or _is_too_deep(data):
        return None
    parsers: dict[str, Parser] = _local.__dict__.setdefault("parsers", {})
    parser = parsers.get(grammar_name)
    if parser is None:
        parser = parsers[grammar_name] = Parser(language)
    if len(data) < _WATCHED_BYTES:
        return parser.parse(data)
    return _parse_watched(parser, data)


def captures(tree: Tree, asked: Query) -> dict[str, list[Node]]:
    """The nodes a query names, in the order of the text; tree-sitter itself promises no order."""
    found = QueryCursor(asked).captures(tree.root_node)
    return {role: sorted(found[role], key=_extent) for role in sorted(found)}


def _is_too_deep(data: bytes) -> bool:
    """Whether the indentation would overflow the state of a grammar's scanner, which ends the process."""
    if _FAR_IN.search(data) is None:
        return False
    levels = [0]
    for line in data.split(b"\n"):
        width = len(line) - len(line.lstrip(b" \t"))
        while width < levels[-1]:
            levels.pop()
        if width > levels[-1]:
            levels.append(width)
        if len(levels) > _MAX_LEVELS:
            return True
    return False


def _parse_watched(parser: Parser, data: bytes) -> Tree | None:
    """Ends the text when the time is up; the progress callback of tree-sitter 0.26 itself ends the process."""
    deadline = time.monotonic() + _PARSE_SECONDS
    late = False
    lent: list[bytes] = []

    def read(offset: int, _point: object) -> bytes:
        nonlocal late
        late = late or time.monotonic() > deadline
        piece = b"" if late else data[offset : offset + _PIECE_BYTES]
        lent[:] = [*lent[-3:], piece]
        return piece

    tree = parser.parse(read)
    return None if late else tree
