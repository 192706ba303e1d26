"""Takes what is said about functions out of source files, and remembers it as queries."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

LANGUAGES = {
    "js": "javascript", "mjs": "javascript", "jsx": "javascript", "ts": "typescript", "mts": "typescript",
    "tsx": "tsx", "go": "go", "rs": "rust", "java": "java", "c": "c", "h": "cpp", "cc": "cpp", "cpp": "cpp",
    "cxx": "cpp", "hpp": "cpp", "hh": "cpp", "cs": "csharp", "rb": "ruby", "php": "php", "lua": "lua",
    "swift": "swift", "kt": "kotlin", "scala": "scala",
}  # fmt: skip
_JS = (
    "(function_declaration) @f (method_definition) @f (class_declaration) @t"
    " (lexical_declaration (variable_declarator value: [(arrow_function) (function_expression)])) @f"
    " (expression_statement (assignment_expression right: [(arrow_function) (function_expression)])) @f"
)
_TS = _JS + " (interface_declaration) @t (type_alias_declaration) @t (function_signature) @t (method_signature) @t"
_C = "(function_definition) @f (declaration (function_declarator)) @t (struct_specifier body: (_)) @t"
# @f: functions, which are looked for; @t: what else is documented, and loses its comment too.
_QUERIES = {
    "javascript": _JS,
    "typescript": _TS,
    "tsx": _TS,
    "go": "(function_declaration) @f (method_declaration) @f (type_declaration) @t",
    "rust": "(function_item) @f (struct_item) @t (enum_item) @t (trait_item) @t (impl_item) @t"
    " (function_signature_item) @t (macro_definition) @t",
    "java": "(method_declaration) @f (constructor_declaration) @f (class_declaration) @t (interface_declaration) @t",
    "c": _C,
    "cpp": _C + " (class_specifier body: (_)) @t (field_declaration (function_declarator)) @t",
    "csharp": "(method_declaration) @f (constructor_declaration) @f (class_declaration) @t",
    "ruby": "(method) @f (singleton_method) @f (class) @t (module) @t",
    "php": "(function_definition) @f (method_declaration) @f (class_declaration) @t",
    "lua": "(function_declaration) @f",
    "swift": "(function_declaration) @f (class_declaration) @t (protocol_declaration) @t",
    "kotlin": "(function_declaration) @f (class_declaration) @t",
    "scala": "(function_definition) @f (class_definition) @t (object_definition) @t",
}
_WRAPPERS = {"export_statement", "template_declaration", "decorated_definition"}
_BETWEEN = {"attribute_item", "attribute", "annotation", "marker_annotation", "decorator", "modifiers"}
_MIN_LINES = 3


@dataclass(frozen=True, slots=True)
class Target:
    """A function that lost its comment: where it is now, and what was said about it."""

    query: str
    start_line: int  # 1-based, in the text without comments
    end_line: int
    body: str  # its text, blanks squeezed: to see copies


@dataclass(frozen=True, slots=True)
class Undocumented:
    """A file without docs, the functions that had some, and everything that was said in it."""

    text: str
    targets: tuple[Target, ...]
    said: tuple[str, ...]


class _Cut:
    """Lines to delete or replace, and where the others end up."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._changed: dict[int, bytes | None] = {}

    def delete(self, first: int, last: int) -> None:
        for row in range(first, last + 1):
            self._changed.setdefault(row, None)

    def replace(self, row: int, line: bytes) -> None:
        self._changed[row] = line

    def text(self) -> str:
        kept = (self._changed.get(row, line) for row, line in enumerate(self._lines))
        return b"\n".join(line for line in kept if line is not None).decode("utf-8", "replace")

    def moved(self, row: int) -> int:
        """The new 1-based line of a 0-based row that stays."""
        return row + 1 - sum(1 for at, line in self._changed.items() if line is None and at < row)


def undocument(source: bytes, suffix: str) -> Undocumented | None:
    """The file without its docs; None when it can't be read as what its suffix says."""
    if suffix == "py":
        return _python(source)
    language = LANGUAGES.get(suffix)
    return _other(source, language) if language else None


def _python(source: bytes) -> Undocumented | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        lines = source.decode("utf-8").replace("\r\n", "\n").encode().split(b"\n")
    except (SyntaxError, ValueError, RecursionError):
        return None
    if b"\r" in source.replace(b"\r\n", b"") or b"\f" in source:
        return None  # Python counts its lines otherwise
    cut = _Cut(lines)
    said: list[str] = []
    wanted: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = []
    for node, is_target in _documented(tree):
        docstring = node.body[0]
        assert isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)
        query = first_sentence(inspect.cleandoc(str(docstring.value.value)))
        said.append(query)
        _cut_docstring(cut, lines, docstring, alone=len(node.body) == 1 and not isinstance(node, ast.Module))
        if is_target and query and not isinstance(node, ast.Module | ast.ClassDef) and len(node.body) > 1:
            wanted.append((query, node))
    text = cut.text()
    split = text.split("\n")
    targets = []
    for query, node in wanted:
        start = cut.moved(node.lineno - 1)
        end = cut.moved((node.end_lineno or node.lineno) - 1)
        if end - start + 1 >= _MIN_LINES:
            targets.append(Target(query, start, end, " ".join(" ".join(split[start - 1 : end]).split())))
    return Undocumented(text, tuple(targets), tuple(said))


_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _documented(tree: ast.Module) -> Iterator[tuple[_Scope, bool]]:
    """Everything with a docstring, and whether it is a function that stands at file or class level."""
    stack: list[tuple[ast.AST, bool]] = [(tree, True)]
    while stack:
        node, outer = stack.pop()
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                yield node, is_function and outer
            outer = outer and not is_function
        stack += [(child, outer) for child in ast.iter_child_nodes(node)]


def _cut_docstring(cut: _Cut, lines: list[bytes], docstring: ast.Expr, *, alone: bool) -> None:
    first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
    before, after = lines[first][: docstring.col_offset], lines[last][docstring.end_col_offset or 0 :]
    if before.strip() or after.strip():
        cut.replace(first, before + b'""' + after)
        cut.delete(first + 1, last)
    elif alone:
        cut.replace(first, before + b"pass")
        cut.delete(first + 1, last)
    else:
        cut.delete(first, last)


@cache
def _tools(language: str) -> tuple[Parser, Query]:
    from tree_sitter import Parser, Query
    from tree_sitter_language_pack import get_language

    grammar = get_language(language)  # type: ignore[arg-type]
    return Parser(grammar), Query(grammar, _QUERIES[language])


def _other(source: bytes, language: str) -> Undocumented | None:
    from tree_sitter import QueryCursor

    source = source.replace(b"\r\n", b"\n")
    try:
        source.decode("utf-8")
    except UnicodeDecodeError:
        return None
    parser, query = _tools(language)
    captures = QueryCursor(query).captures(parser.parse(source).root_node)
    cut = _Cut(source.split(b"\n"))
    said: list[str] = []
    wanted: list[tuple[str, Node]] = []
    for name in ("f", "t"):
        for node in captures.get(name, []):
            comments = list(_comments_above(node))
            if not comments:
                continue
            raw = "\n".join(one.text.decode("utf-8", "replace") for one in comments if one.text)
            query_text = first_sentence(without_marks(raw))
            said.append(query_text)
            for one in comments:
                cut.delete(one.start_point[0], one.end_point[0] - (one.end_point[1] == 0))
            if name == "f" and query_text and not _inside_function(node):
                wanted.append((query_text, node))
    text = cut.text()
    split = text.split("\n")
    targets = []
    for query_text, node in sorted(wanted, key=lambda one: one[1].start_byte):
        start, end = cut.moved(node.start_point[0]), cut.moved(node.end_point[0])
        if end - start + 1 >= _MIN_LINES:
            targets.append(Target(query_text, start, end, " ".join(" ".join(split[start - 1 : end]).split())))
    return Undocumented(text, tuple(targets), tuple(said))


def _inside_function(node: Node) -> bool:
    parent = node.parent
    while parent is not None:
        if re.search(r"function|method_d|arrow|closure|lambda", parent.type):
            return True
        parent = parent.parent
    return False


def _comments_above(node: Node) -> Iterator[Node]:
    """Comments that end on the line above, each alone on its lines, topmost first."""
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    found: list[Node] = []
    row, above = node.start_point[0], node.prev_sibling
    while above is not None and row - (above.end_point[0] - (above.end_point[1] == 0)) <= 1:
        if "comment" in above.type:
            before = above.prev_sibling
            if before is not None and before.end_point[0] == above.start_point[0] and before.end_point[1] > 0:
                break  # it stands behind code
            if above.end_point[0] == row and above.end_point[1] > 0:
                break  # code stands behind it
            found.append(above)
        elif above.type not in _BETWEEN:
            break
        row, above = above.start_point[0], above.prev_sibling
    yield from reversed(found)


_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*(?!\*)|//+!?<?|#+!?|--+)[ \t]?", re.MULTILINE)
_TAIL = re.compile(r"[ \t]*\*+/[ \t]*$", re.MULTILINE)
_MARKUP = re.compile(r"\{@\w+\s+([^}]*)\}|:[\w:]+:`~?([^`<]*)(?:<[^`]*>)?`|`+([^`]*)`+|</?\w+[^>]*>")
_NOT_SAID = re.compile(
    r"copyright|licen[sc]e|eslint|noqa|pylint|type: ignore|nolint|SPDX|@author|TODO|FIXME|XXX|deprecated|autogenerated"
    r"|see base class|inheritdoc|\{@|=====|-----|istanbul|prettier|@ts-",
    re.IGNORECASE,
)


def without_marks(comment: str) -> str:
    """A comment's text."""
    text = _MARKS.sub("", _TAIL.sub("", comment))
    text = re.sub(r"^\s*@(?:brief|desc|description|summary)\s+", "", text.strip())
    lines = [line.strip() for line in text.splitlines()]
    if lines and re.fullmatch(r"\w+:", lines[0]):  # gtk-doc: the name, its parameters, then what is said
        lines = [line for line in lines[1:] if not line.startswith("@")]
    kept: list[str] = []
    for line in lines:
        if line.startswith(("@", "\\param", ":param")):
            break
        kept.append(line)
    return "\n".join(kept).strip()


def first_sentence(doc: str) -> str:
    """The first sentence of what is said, as a query; "" when it says too little or is no prose."""
    paragraph = doc.strip().split("\n\n")[0]
    text = " ".join(_MARKUP.sub(lambda m: next((g for g in m.groups() if g), " "), paragraph).split())
    text = re.split(r"(?<=[a-z0-9)\]][.!?])\s+(?=[A-Z\"'(])", text)[0].strip()
    words = re.findall(r"[A-Za-z]{2,}", text)
    if len(words) < 4 or len(text) > 300 or _NOT_SAID.search(text) or ">>>" in text:
        return ""
    letters = sum(c.isascii() and (c.isalpha() or c == " ") for c in text)
    return text if letters > 0.75 * len(text) else ""
