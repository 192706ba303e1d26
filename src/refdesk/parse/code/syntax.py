"""Lines and syntax trees of texts; grammars load on first use, with one parser per thread."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import accumulate
from operator import add, attrgetter
from pathlib import Path

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from refdesk.system.files import replacing
from refdesk.text import tokens

_QUERIES = Path(__file__).with_name("queries")
_PACKED = Path(__file__).with_name("grammars")  # in a wheel only; a checkout reads the pack itself
_ALONE = ("csharp", "embeddedtemplate", "yaml")
_MAX_BYTES = 4_000_000  # larger files are generated; their trees take gigabytes
# Grammars are fast on code and can take minutes on what is none, and nothing stops them: tree-sitter 0.26 crashes
# when it is given a progress callback.  So the start of a large text is tried before the whole.
_TRIED_BYTES = 8_000
_TRIED_FROM = 32_000
_TRIED_SECONDS = 0.1  # a hundred times what code takes
_TRIED_ERRORS = 150  # code that is cut off there has a few, other text has hundreds
_COMMENTS = re.compile(rb'/\*.*?(?:\*/|\Z)|""".*?(?:"""|\Z)', re.DOTALL)
_LONG_LINE = 20_000  # an unclosed quote is looked for along the whole line, again and again
_MAX_DEPTH = 1_500  # of brackets and of nodes; a query's time grows with the square of the depth
_MAX_LEVELS = 200  # of indentation; more than 500 overflow the state of Python's scanner, which ends the process
_FAR_IN = re.compile(rb"\n[ \t]{200}")
_DEPTHS = bytes.maketrans(b"([{)]}", bytes([1, 1, 1, 2, 2, 2]))
_NO_BRACKETS = bytes(set(range(256)) - set(b"([{)]}"))
_start, _end = attrgetter("start_byte"), attrgetter("end_byte")
# What readers sort themselves, or look up by its place.
_UNORDERED = ("_", "def.", "name", "body", "doc", "wrap", "comment", "fact", "var")
_local = threading.local()
_NOT_ASCII = re.compile(rb"[\x80-\xff]+")
_ASTRAL = re.compile(rb"(?:[\xf0-\xf4][\x80-\xbf]{3})+")
_ASTRAL_STARTS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")


@cache
def grammar(name: str) -> Language | None:
    """The grammar of that name, None when there is none."""
    if _PACKED.is_dir():
        return _unpacked(name)
    from tree_sitter_language_pack import get_language

    try:
        return get_language(name)  # type: ignore[arg-type]
    except LookupError:
        return None


def _unpacked(name: str) -> Language | None:
    """A grammar of the wheel, which has them compressed; the first use unpacks it into the user's cache folder."""
    import hashlib
    import lzma
    import tempfile

    import platformdirs

    source = next(_PACKED.glob(f"{name}.*.xz"), None)
    if source is None:
        return None
    packed, size = source.read_bytes(), int(source.suffixes[0][1:])
    cache = platformdirs.user_cache_path("refdesk", appauthor=False) / "grammars"
    file = cache / f"{name}-{hashlib.sha256(packed).hexdigest()[:16]}.so"
    try:
        if not file.exists() or file.stat().st_size != size:  # a library that is cut off ends the process
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(file, mode=0o700) as out:
                out.write(lzma.decompress(packed))
        return _loaded(name, file)
    except (OSError, ImportError):  # the folder can't be written, or nothing there may be executed
        with tempfile.TemporaryDirectory(prefix="refdesk-", ignore_cleanup_errors=True) as folder:
            file = Path(folder, file.name)
            file.write_bytes(lzma.decompress(packed))
            return _loaded(name, file)


def _loaded(name: str, file: Path) -> Language:
    # The module of a grammar that comes from a wheel of its own is called _binding there.
    loader = ExtensionFileLoader("_binding" if name in _ALONE else name, str(file))
    spec = spec_from_file_location(loader.name, file, loader=loader)
    if spec is None:
        raise ImportError(f"{file} is no module")
    return Language(module_from_spec(spec).language())


@cache
def query(grammar_name: str, files: tuple[str, ...]) -> Query | None:
    """The query made of those files, None for a language that has none."""
    language = grammar(grammar_name)
    if language is None or not files:
        return None
    return Query(language, "\n".join((_QUERIES / f"{file}.scm").read_text("utf-8") for file in files))


def parse(data: bytes, grammar_name: str) -> Tree | None:
    """The syntax tree, None without a grammar or when reading it could take too long or end the process."""
    language = grammar(grammar_name)
    if language is None or len(data) > _MAX_BYTES or _is_indented_deep(data) or _is_nested_deep(data):
        return None
    data = _harmless(data, grammar_name)
    parsers: dict[str, Parser] = _local.__dict__.setdefault("parsers", {})
    parser = parsers.get(grammar_name)
    if parser is None:
        parser = parsers[grammar_name] = Parser(language)
    if len(data) < _TRIED_FROM:
        return parser.parse(data)
    if max(map(len, data.split(b"\n"))) > _LONG_LINE or not _is_code(parser, data, language):
        return None
    tree = parser.parse(data)
    return None if _is_deep(tree) else tree


def _harmless(data: bytes, grammar_name: str) -> bytes:
    """The same bytes with letters for characters that scanners look up in tables too small for them.

    Scanners in C ask isalnum() and the like of any character, which reads past its table: bash's ends the process on
    an emoji behind a brace. Only the shape of the text matters to them; names are read from the original.
    """
    if grammar_name == "bash":
        return data if data.isascii() else _NOT_ASCII.sub(_letters, data)
    return _ASTRAL.sub(_letters, data) if any(start in data for start in _ASTRAL_STARTS) else data


def _letters(found: re.Match[bytes]) -> bytes:
    return b"x" * len(found[0])


def captures(tree: Tree, asked: Query) -> dict[str, list[Node]]:
    """The nodes a query names, in the order of the text where that matters; tree-sitter itself promises none."""
    found: dict[str, list[Node]]
    if tree.root_node.end_byte < _TRIED_FROM:
        found = QueryCursor(asked).captures(tree.root_node)
    else:  # where the time of captures() would grow with the square of the size
        found = defaultdict(list)
        for _pattern, match in QueryCursor(asked).matches(tree.root_node):
            for role, nodes in match.items():
                found[role] += nodes
    return {role: found[role] if role.startswith(_UNORDERED) else _ordered(found[role]) for role in sorted(found)}


def _ordered(nodes: list[Node]) -> list[Node]:
    return sorted(sorted(nodes, key=_end), key=_start)  # faster than by both


def _is_code(parser: Parser, data: bytes, language: Language) -> bool:
    # Comments are left out: one that is cut off would be read as code.
    start = _COMMENTS.sub(b"", data[: 8 * _TRIED_BYTES])[:_TRIED_BYTES] or data[:_TRIED_BYTES]
    started = time.thread_time()
    tree = parser.parse(start)
    if time.thread_time() - started > _TRIED_SECONDS:
        return False
    if not tree.root_node.has_error:
        return True
    return len(QueryCursor(_errors(language)).captures(tree.root_node).get("error", ())) < _TRIED_ERRORS


@cache
def _errors(language: Language) -> Query:
    return Query(language, "(ERROR) @error")


def _is_indented_deep(data: bytes) -> bool:
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


def _is_nested_deep(data: bytes) -> bool:
    if data.count(b"(") + data.count(b"[") + data.count(b"{") < _MAX_DEPTH:
        return False
    brackets = data.translate(_DEPTHS, _NO_BRACKETS)
    depths = accumulate(brackets, lambda depth, b: depth + 1 if b == 1 else max(depth - 1, 0), initial=0)
    return max(depths) > _MAX_DEPTH


def _is_deep(tree: Tree) -> bool:
    """Whether nodes are nested deep without brackets: `a + b + c + …`, `else if` upon `else if`."""
    pending = [(tree.root_node, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > _MAX_DEPTH:
            return True
        if depth + node.descendant_count > _MAX_DEPTH:  # fewer can't be nested that deep
            pending += [(child, depth + 1) for child in node.children]
    return False


_DEFINES = re.compile(r"(?:definition|declaration|declarator|decl|item|specifier|defn?|binding|statement|signature)$")
_IMPORTS = re.compile(r"^(?:import|include|use|using|require|open)(?:_|$)")
_KINDS = (
    (re.compile(r"func|procedure|subroutine|subprogram|^proc_|^sub_|rpc|^fn_"), "function"),
    (re.compile(r"method"), "method"),
    (re.compile(r"constructor"), "constructor"),
    (re.compile(r"class|contract"), "class"),
    (re.compile(r"struct|message"), "struct"),
    (re.compile(r"enum"), "enum"),
    (re.compile(r"interface|service"), "interface"),
    (re.compile(r"protocol"), "protocol"),
    (re.compile(r"trait|mixin"), "trait"),
    (re.compile(r"module|package_def|namespace"), "module"),
    (re.compile(r"macro"), "macro"),
    (re.compile(r"record"), "record"),
    (re.compile(r"type"), "type"),
)
_NAME = re.compile(r"identifier|name$|^(?:word|atom|variable|symbol|constant|value_name)$")
_BODY = re.compile(r"body|block$")
_DEEPEST = 6  # levels of nodes that are searched for definitions, in languages without a query
_CALLABLE = ("function", "method", "constructor", "macro")


def generic(root: Node) -> dict[str, list[Node]]:
    """What a query would capture: definitions with their names and bodies, comments, imports and errors."""
    found: defaultdict[str, list[Node]] = defaultdict(list)
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        for child in node.named_children:
            kind = _take(child, found)
            if depth < _DEEPEST and kind not in _CALLABLE and child.child_count:
                stack.append((child, depth + 1))
    return {role: sorted(found[role], key=lambda node: node.byte_range) for role in sorted(found)}


def _take(node: Node, found: defaultdict[str, list[Node]]) -> str:
    """The kind of definition a node is, noted with its name; "" when it is none."""
    what = node.type
    if "comment" in what:
        found["comment"].append(node)
    elif what == "ERROR":
        found["error"].append(node)
    elif _IMPORTS.match(what):
        found["import"].append(node)
    elif _DEFINES.search(what):
        kind = next((kind for pattern, kind in _KINDS if pattern.search(what)), "")
        name = _name(node) if kind else None
        if name is not None:
            found[f"def.{kind}"].append(node)
            found["name"].append(name)
            body = node.child_by_field_name("body") or next(
                (c for c in node.named_children if _BODY.search(c.type)), None
            )
            if body is not None:
                found["body"].append(body)
            return kind
    return ""


def _name(node: Node) -> Node | None:
    named = node.child_by_field_name("name")
    if named is not None and named.is_named:  # and no keyword
        return named
    for child in node.named_children[:4]:
        if _NAME.search(child.type) and child.child_count == 0:
            return child
        inner = child.child_by_field_name("name")
        if inner is not None and "signature" in child.type:
            return inner
    return None


_CLOSERS = re.compile(r"[\s\])};,]*(?:(?:end\b|#endif\b.*|fi\b|done\b|esac\b)[\s\])};,]*)*$")


class Lines:
    """The rows of a text (0-based, ends exclusive) with their token counts summed up."""

    __slots__ = ("_exact", "_sums", "contents", "count", "starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        rows = text.split("\n")
        if rows and not rows[-1]:
            rows.pop()
        self.count = len(rows)
        self.starts = [0, *accumulate(map((1).__add__, map(len, rows)))]
        has_returns = "\r" in text
        self.contents = [row.rstrip("\r") for row in rows] if has_returns else rows
        # Line ends in a row are one token; a stray carriage return breaks that arithmetic.
        self._exact = not has_returns or not any("\r" in row for row in self.contents)
        # An empty row has no pieces, any other one more for its line end.
        counted = map(add, tokens.pieces_of_rows(self.contents), map(bool, self.contents))
        self._sums: list[int] = [0, *accumulate(counted)]

    def tokens(self, start: int, end: int) -> int:
        """The tokens of the rows as `text_of` gives them."""
        if end <= start:
            return 0
        if not self._exact or not self.contents[start]:
            return tokens.pieces(self.text_of(start, end))
        return self._sums[end] - self._sums[start] - (1 if self.contents[end - 1] else 0)

    def row_within(self, start: int, budget: int) -> int:
        """The furthest end for which the rows from `start` keep within a budget of tokens."""
        return bisect_right(self._sums, self._sums[start] + budget) - 1

    def text_of(self, start: int, end: int) -> str:
        """The rows as they stand in the text, without the last line end."""
        return self.text[self.starts[start] : self.starts[end]].rstrip("\r\n")

    def is_blank(self, row: int) -> bool:
        return not self.contents[row] or self.contents[row].isspace()

    def is_closing(self, row: int) -> bool:
        """Whether nothing stands there but what ends something begun above, or nothing at all."""
        return row >= self.count or _CLOSERS.match(self.contents[row]) is not None

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """The rows without the blank ones at both ends; empty when all are blank."""
        contents = self.contents
        while start < end and (not contents[start] or contents[start].isspace()):
            start += 1
        while end > start and (not contents[end - 1] or contents[end - 1].isspace()):
            end -= 1
        return start, end
