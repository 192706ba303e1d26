"""What is inside a source file?  Chunks, symbols and references, read with its grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import PurePosixPath

from tree_sitter import Node, Tree

from refdesk.model import Chunking, Parsed, Symbol
from refdesk.parse.code import syntax
from refdesk.parse.code.chunks import ChunkWriter
from refdesk.parse.code.definitions import Definition, definitions, finish, kind_within, own_rows, rows_of
from refdesk.parse.code.facts import add_facts
from refdesk.parse.code.languages import LANGUAGES, Language
from refdesk.parse.code.references import references
from refdesk.parse.code.segments import Cuts, Segmenter
from refdesk.parse.code.syntax import Lines

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elseif|else|endif)\b[^\r\n]*", re.MULTILINE)
_PLATFORM = re.compile(rb"\b(?:expect|actual)(?=\s+[a-z])")  # modifiers of as many letters as the one put for them
# The words before a primary constructor, where a line ends between them and the name of the class.
_CONSTRUCTOR = re.compile(
    rb"(\bclass\s+\w+(?:<[^<>{}()]*>)?(?:\s{0,99}/\*(?:[^*]|\*(?!/))*\*/|\s{0,99}//[^\n]*)*\s{0,99}\n\s{0,99})"
    rb"((?:\w+[ \t]+)*constructor)(?=[ \t]*\()"
)
_VISIBLE = re.compile(rb"[^\s]")


class CodeParser:
    """Reads source code; any text is chunked, whatever its syntax."""

    def parse(self, text: str, path: str, language: str, chunking: Chunking) -> Parsed:
        """The file's chunks, symbols and references."""
        row = LANGUAGES.get(language) or Language(language, language, (), "")
        lines = Lines(text)
        data = text.encode("utf-8", "replace")
        tree, found = read(data, row) if lines.count and text.strip() else (None, {})
        above = own_rows((*found.get("comment", ()), *found.get("lead", ())), lines)
        defined = definitions(found, data, lines, above)
        if found.get("error"):
            defined = recover(defined, found["error"], lines, data)
        finish(defined, data)
        imports = (*found.get("imports", ()), *found.get("import", ()))
        import_rows = {r for node in imports for r in range(*rows_of(node))}
        cuts = Cuts(tree.root_node if tree is not None else None, lines, above, chunking)
        segments = Segmenter(lines, cuts, import_rows, chunking).segment(defined)
        writer = ChunkWriter(path, row, lines, defined, import_rows, chunking)
        used = references(found, defined, data, row)
        outside = add_facts(found, defined, used, data, row)
        notes: tuple[str, ...] = ()
        if tree is None and text.strip():
            notes = ("read without its syntax",)
        elif tree is not None and tree.root_node.has_error:
            count = max(len(found.get("error", ())), 1)
            notes = (f"{count} syntax error{'s' if count > 1 else ''}",)
        return Parsed(
            title=PurePosixPath(path).name or path,
            content_type=language,
            text=text,
            chunks=writer.write(segments),
            symbols=tuple(
                Symbol(d.name, d.qualified, d.kind, d.start + 1, d.end, d.signature, d.facts)
                for d in defined
                if d.kind != "test" and d.name
            ),
            references=(*used, *outside),
            notes=notes,
        )


Captures = Mapping[str, list[Node]]


def read(data: bytes, language: Language) -> tuple[Tree | None, Captures]:
    """The tree and what the language's query captured in it."""
    tree, found = _read(data, language)
    if tree is None or not tree.root_node.has_error:
        return tree, found
    for simpler in _simpler(data, language):
        other, captured = _read(simpler, language)
        if other is not None and _damage(other, captured) < _damage(tree, found):
            tree, found = other, captured
        if not tree.root_node.has_error:
            break
    return tree, found


def _read(data: bytes, language: Language) -> tuple[Tree | None, Captures]:
    tree = syntax.parse(data, language.grammar)
    if tree is None:
        return None, {}
    asked = syntax.query(language.grammar, language.queries)
    return tree, syntax.captures(tree, asked) if asked is not None else syntax.generic(tree.root_node)


def _damage(tree: Tree, found: Captures) -> int:
    """How many bytes are in errors; a tree in which only something is missing has one."""
    return sum(node.end_byte - node.start_byte + 1 for node in found.get("error", ())) + tree.root_node.has_error


def _simpler(data: bytes, language: Language) -> Iterator[bytes]:
    """The text, each byte in its place, without what the grammar may not know."""
    if language.has_conditionals and b"#if" in data:
        yield from _without_directives(data)
    if language.id == "kotlin":
        plain = _PLATFORM.sub(b"public", data)
        yield plain
        yield _CONSTRUCTOR.sub(lambda m: m[1] + _VISIBLE.sub(b" ", m[2]), plain)


def _without_directives(data: bytes) -> Iterator[bytes]:
    """The text with blanks for the directives, then with blanks for all branches but the first."""
    yield _DIRECTIVE.sub(lambda m: _VISIBLE.sub(b" ", m[0]), data)
    kept = bytearray(data)
    hidden_since: list[int] = []  # per open #if: where a branch to hide starts, -1 in the first one
    for directive in _DIRECTIVE.finditer(data):
        word = directive[1]
        if not word.startswith(b"if") and hidden_since:
            since = hidden_since.pop()
            if since >= 0:
                kept[since : directive.start()] = _VISIBLE.sub(b" ", data[since : directive.start()])
        if word.startswith(b"if"):
            hidden_since.append(-1)
        elif word != b"endif":
            hidden_since.append(directive.end())
        kept[directive.start() : directive.end()] = _VISIBLE.sub(b" ", directive[0])
    yield bytes(kept)


_KINDS = {"def": "function", "func": "function", "fn": "function", "fun": "function", "function": "function"}
_DEFINITION = re.compile(
    r"[ \t]*(?:@\w+[ \t]+)*(?:(?:[a-z]+|pub\([a-z]+\))[ \t]+){0,6}?"
    r"(def|func|fn|fun|function|class|struct|enum|interface|protocol|trait|extension|actor|object)"
    r"[ \t]+([^\W\d]\w*)[ \t]*(?=[({:<\[=;]|$|[a-z])"
)
_MAX_ROWS = 20_000


def recover(found: list[Definition], errors: Iterable[Node], lines: Lines, data: bytes) -> list[Definition]:
    """The definitions with those added that stand in the rows of syntax errors, nested anew."""
    rows = sorted({row for node in errors for row in range(*rows_of(node)) if row < lines.count})[:_MAX_ROWS]
    known = {d.start for d in found}
    starts = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]
    added = []
    for row in rows:
        match = _DEFINITION.match(lines.contents[row]) if row not in known else None
        if match is not None:
            end = _end(row, lines)
            kind = _KINDS.get(match[1], match[1])
            start_byte, line_end = starts[row], starts[row + 1] - 1
            d = Definition(kind, start_byte, min(starts[end], len(data)), row, row, end, None, match[2])
            d.head_byte, d.body_byte = start_byte, line_end
            added.append(d)
    return _nest([*found, *added]) if added else found


def _end(start: int, lines: Lines) -> int:
    """The row after a definition: the first that is not indented deeper, or the one after its closing bracket."""
    indent = _indent(lines.contents[start])
    for row in range(start + 1, lines.count):
        content = lines.contents[row]
        if content.strip() and _indent(content) <= indent and content.lstrip()[0] != "{":
            return row + 1 if content.lstrip()[0] in "})]" or content.strip() == "end" else row
    return lines.count


def _indent(content: str) -> int:
    return len(content) - len(content.lstrip())


def _nest(definitions: list[Definition]) -> list[Definition]:
    ordered = sorted(definitions, key=lambda d: (d.start_byte, -d.end_byte))
    opened: list[Definition] = []
    for d in ordered:
        while opened and opened[-1].end_byte <= d.start_byte:
            opened.pop()
        if opened and opened[-1].end_byte < d.end_byte:  # crossing ranges can't be nested
            d.end_byte, d.end = opened[-1].end_byte, max(min(d.end, opened[-1].end), d.start + 1)
        d.parent = opened[-1] if opened else None
        d.kind = kind_within(d.kind, d.parent)
        opened.append(d)
    return ordered
