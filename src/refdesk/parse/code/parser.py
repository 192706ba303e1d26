"""Parses source code by its grammar into chunks, symbols and references."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from tree_sitter import Node, Tree

from refdesk.model import Chunk, Chunking, Parsed, Symbol
from refdesk.parse.code import syntax
from refdesk.parse.code.definitions import SOFT, TYPES, Definition, definitions, finish, kind_within, own_rows, rows_of
from refdesk.parse.code.facts import add_facts
from refdesk.parse.code.languages import LANGUAGES, Language
from refdesk.parse.code.references import references
from refdesk.parse.code.segments import Cuts, Segment, Segmenter
from refdesk.parse.code.syntax import Lines
from refdesk.text import Unique, tokens

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elseif|else|endif)\b[^\r\n]*", re.MULTILINE)
_PLATFORM = re.compile(rb"\b(?:expect|actual)(?=\s+[a-z])")  # modifiers of as many letters as the one put for them
# The words before a primary constructor, where a line ends between them and the name of the class.
_CONSTRUCTOR = re.compile(
    rb"(\bclass\s+\w+(?:<[^<>{}()]*>)?(?:\s{0,99}/\*(?:[^*]|\*(?!/))*\*/|\s{0,99}//[^\n]*)*\s{0,99}\n\s{0,99})"
    rb"((?:\w+[ \t]+)*constructor)(?=[ \t]*\()"
)
_COMPONENTS = ("vue", "svelte")
_SCRIPT = re.compile(rb"<script\b[^<>]*>(.*?)(?:</script\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_TEMPLATED = re.compile(rb"\{\{[^\n{}]*\}\}|\{%[^\n{}]*%\}")
_VISIBLE = re.compile(rb"[^\s]")


def parse_code(text: str, path: str, language: str, chunking: Chunking) -> Parsed:
    """The chunks, symbols and references of source code; any text is chunked, whatever its syntax."""
    row = LANGUAGES.get(language) or Language(language, language, (), "")
    lines = Lines(text)
    data = text.encode("utf-8", "replace")
    script = _scripts(data) if language in _COMPONENTS else data
    tree, found = read(script, row) if lines.count and text.strip() else (None, {})
    comments = own_rows(found.get("comment", ()), lines)
    above = {**comments, **own_rows(found.get("lead", ()), lines)}
    defined = definitions(found, data, lines, comments, above)
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
    chunks = writer.write(segments)
    for d in defined:
        d.children.clear()  # which refer to it: freed now, they take no time of the garbage collector
    return Parsed(
        title=path.rpartition("/")[2] or path,
        content_type=language,
        text=text,
        chunks=chunks,
        symbols=tuple(
            Symbol(d.name, d.qualified, d.kind, d.start + 1, d.end, d.signature, d.facts)
            for d in defined
            if d.kind != "test" and d.name
        ),
        references=(*used, *outside),
        notes=("read without its syntax",) if tree is None and text.strip() else (),
    )


Captures = Mapping[str, list[Node]]


def _scripts(data: bytes) -> bytes:
    """The scripts of a component, each byte in its place, without its markup."""
    blank = bytearray(_VISIBLE.sub(b" ", data))
    for script in _SCRIPT.finditer(data):
        blank[script.start(1) : script.end(1)] = script[1]
    return bytes(blank)


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
    if language.id == "sql" and b"{" in data:  # a template for Jinja or Go: names and nothing
        yield _TEMPLATED.sub(lambda m: (b"x" if m[0][1:2] == b"{" else b" ") * len(m[0]), data)
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
_MAX_ROWS = 20_000  # of errors that are searched for definitions: a file with more is no code


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


# ── writing a file's segments as chunks ──

_LONG_LINE = 8  # characters per token from which a single row is cut
_MAX_SYMBOLS = 60  # of a chunk; only tables of constants have more
_TEST_MARKS = re.compile(r"#\[(?:\w+::)?test\b|@(?:Parameterized)?Test\b|\[(?:Fact|Test|TestMethod|TestCase|Theory)\b")


class ChunkWriter:
    """Writes the chunks of one file."""

    def __init__(
        self,
        path: str,
        language: Language,
        lines: Lines,
        definitions: list[Definition],
        import_rows: set[int],
        chunking: Chunking,
    ) -> None:
        self._path = path
        self._language = language
        self._lines = lines
        self._imports = import_rows
        self._max = max(chunking.max_tokens, 1)
        self._definitions = sorted(definitions, key=lambda d: d.start)
        self._starts = [d.start for d in self._definitions]
        self._keys = Unique()

    def write(self, segments: list[Segment]) -> tuple[Chunk, ...]:
        """The chunks of the segments in order, keys unique."""
        chunks: list[Chunk] = []
        alone = len(segments) == 1
        for segment in segments:
            low = bisect_left(self._starts, segment.start)
            inside = self._definitions[low : bisect_left(self._starts, segment.end, low)]
            is_long = len(self._lines.contents[segment.start]) > self._max * _LONG_LINE
            if segment.form == "outline" and (d := segment.definition) is not None:
                text, size = outline(d, self._max)
                whole = self._chunk(segment, inside, "outline", self._keys.give(f"{d.qualified}-outline"))
                chunks.append(whole._replace(text=text, tokens=size, title=d.name, symbols=(d.qualified,)))
                continue
            kind = self._kind(segment, inside)
            if segment.end - segment.start == 1 and is_long:
                chunks += self._pieces(self._chunk(segment, inside, kind, self._key(segment, inside, kind)))
                alone = False
            else:
                key = "" if alone else self._key(segment, inside, kind)
                chunks.append(self._chunk(segment, inside, kind, key))
        return tuple(chunks)

    def _chunk(self, segment: Segment, inside: list[Definition], kind: str, key: str) -> Chunk:
        d = segment.definition
        enclosing: list[str] = []
        within = segment.within
        while within is not None:
            enclosing.append(within.name)
            within = within.parent
        return Chunk(
            text=self._lines.text_of(segment.start, segment.end),
            kind=kind,
            type="code",
            language=self._language.id,
            start_line=segment.start + 1,
            end_line=segment.end,
            tokens=segment.tokens,
            key=key,
            title=_title(segment, inside),
            breadcrumb=(self._path, *reversed(enclosing)),
            symbols=_symbols(segment, inside),
            signature=d.signature if d is not None else "",
            doc_comment=d.doc if d is not None and segment.part <= 1 else "",
        )

    def _pieces(self, whole: Chunk) -> list[Chunk]:
        """One very long row in pieces that all have its line number."""
        size = self._max * _LONG_LINE // 2
        pieces: list[Chunk] = []
        for number, start in enumerate(range(0, len(whole.text), size), 1):
            text = whole.text[start : start + size]
            if text.strip():
                piece = whole._replace(text=text, tokens=tokens.pieces(text), doc_comment="")
                if number > 1:
                    piece = piece._replace(key=self._keys.give(f"{whole.key}-part-{number}"), symbols=())
                pieces.append(piece)
        return pieces

    def _kind(self, segment: Segment, inside: list[Definition]) -> str:
        d = segment.definition
        if d is None:
            return self._gap_kind(segment, inside)
        kinds = [one.kind for one in segment.grouped if one.kind not in SOFT]
        kind = max(kinds, key=kinds.count) if len(kinds) > 1 else kinds[0] if kinds else d.kind
        if d.kind not in ("function", "method"):
            return kind
        prefix = self._language.test_prefix
        if prefix and d.name.startswith(prefix):
            return "test"
        head = self._lines.text_of(d.top, min(d.start + 2, d.end))
        return "test" if _TEST_MARKS.search(head) is not None else kind

    def _gap_kind(self, segment: Segment, inside: list[Definition]) -> str:
        rows = range(segment.start, segment.end)
        imports = len(self._imports.intersection(rows))
        if imports * 2 >= len(rows):
            return "imports"
        if inside:
            return "properties" if segment.within is not None and segment.within.kind in TYPES else "constants"
        return "imports" if imports else "block"

    def _key(self, segment: Segment, inside: list[Definition], kind: str) -> str:
        if segment.definition is not None:
            base = segment.definition.qualified
        elif inside and kind != "imports":
            base = inside[0].qualified
        else:
            base = f"{segment.within.qualified}.{kind}" if segment.within is not None else kind
        if segment.part > 1 and segment.form == "part":
            return self._keys.give(f"{base}-part-{segment.part}")
        return self._keys.give(base)


def _title(segment: Segment, inside: list[Definition]) -> str:
    if len(segment.grouped) > 1:
        shown = [d.name for d in segment.grouped[:4]]
        return ", ".join(shown) + (", …" if len(segment.grouped) > 4 else "")
    if segment.definition is not None:
        return segment.definition.name
    return inside[0].name if len(inside) == 1 else ""


def _symbols(segment: Segment, inside: list[Definition]) -> tuple[str, ...]:
    found = dict.fromkeys([d.qualified for d in inside if d.kind != "test"])
    if segment.definition is not None and segment.part > 1:
        found.setdefault(segment.definition.qualified)
    return tuple(found)[:_MAX_SYMBOLS]


_INDENT = "    "


def outline(d: Definition, max_tokens: int) -> tuple[str, int]:
    """A type's head, its documentation and its members' signatures, within a budget of tokens, and their number."""
    paragraph = d.doc.split("\n\n", 1)[0][:600]
    head = [d.signature or d.name, *(f"{_INDENT}{line}" for line in paragraph.splitlines())]
    members: list[tuple[Definition, int]] = []
    stack = [(child, 1) for child in reversed(d.children)]
    while stack:
        member, depth = stack.pop()
        members.append((member, depth))
        if member.kind in TYPES and depth < 4:
            stack += [(child, depth + 1) for child in reversed(member.children)]
    text = "\n".join([*head, *(f"{_INDENT * depth}{m.signature}" for m, depth in members)])
    if (size := tokens.pieces(text)) <= max_tokens:
        return text, size
    budget = max_tokens - tokens.pieces("\n".join(head)) - 8
    kept: list[str] = []
    for m, depth in members:
        line = f"{_INDENT * depth}{m.name}"
        budget -= tokens.pieces(line) + 1
        if budget < 0:
            break
        kept.append(line)
    left = len(members) - len(kept)
    text = "\n".join([*head, *kept, *([f"{_INDENT}… {left} more"] if left else [])])
    return text, tokens.pieces(text)
