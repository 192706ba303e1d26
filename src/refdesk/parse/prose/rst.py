"""reStructuredText: sections by adornment, with directives, literal blocks, tables and list items left whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.prose.manifest import NO_RULES, FrontMatter, Governing
from refdesk.parse.prose.passages import (
    Block,
    BlockKind,
    Fence,
    Heading,
    Keys,
    Limits,
    Outline,
    Sizes,
    moved,
    pack,
    paragraphs,
    split_lines,
)
from refdesk.parse.prose.sections import cut, limits_of
from refdesk.text import word_set

_ADORNMENT = re.compile(r"^([!-/:-@\[-`{-~])\1*\s*$")
_DIRECTIVE = re.compile(r"^\.\. +(?:\|[^|]+\| +)?([\w:+-]+)::(?: +(.*))?$")
_ITEM = re.compile(r"^(?:[-*+•] +|(?:\d+|#|[A-Za-z])[.)] +|\((?:\d+|#|[A-Za-z])\) +)\S")
_FIELD = re.compile(r"^:([^:\s][^:]*):(?:\s+(.*))?$")
_GRID = re.compile(r"^\+[-=+]+\+\s*$")
_BORDER = re.compile(r"^=+(?: +=+)+\s*$")
_ROLE = re.compile(r":[\w:+.-]+:`([^`<]*?)\s*(?:<[^>]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*(?:<[^>]*>)?`_{0,2}")
_CODE = frozenset({"code", "code-block", "sourcecode", "prompt", "doctest", "testcode", "ipython", "jupyter-execute"})
_DATA = word_set("list-table csv-table table math literalinclude include parsed-literal graphviz")
_OBJECTS = re.compile(
    r"^(?:\w+:)?(?:auto)?(?:function|class|method|attribute|data|exception|module|property|classmethod|staticmethod|"
    r"decorator|option|confval|envvar|macro|type|struct|enum|member|var|setting|directive|role|program|describe)$"
)
_EXAMPLE = re.compile(r"^[\w-]+:(?:example|run|code)$")
_MAX_DEPTH = 12  # of described objects in each other; deeper ones are text
_OBJECT_LEVEL = 8  # below every section, so that it splits only oversize ones


def parse_rst(text: str, path: str, chunking: Chunking, rules: Governing = NO_RULES) -> Parsed:
    """The document, cut as its corpus asks or by tokens; nothing is included or executed."""
    lines = split_lines(text)
    fields = _fields(lines)
    facets = rules.facets(FrontMatter(fields=fields))
    outline = replace(read_outline(lines), facets=facets)
    named = next((heading.text for heading in outline.headings if heading.level == 1), "")
    title = named or PurePosixPath(path).stem
    return Parsed(
        title=title,
        content_type="rst",
        text=text,
        chunks=cut(outline, title, chunking, rules.strategy),
        metadata={**fields, **facets},
    )


def read_outline(lines: list[str]) -> Outline:
    reader = _Reader([line.rstrip() for line in lines])
    reader.read()
    return Outline(
        lines=lines,
        headings=tuple(reader.headings),
        blocks=tuple(reader.blocks),
        fences=tuple(reader.fences),
        language="rst",
    )


def plain_text(markup: str) -> str:
    """The text without inline markup."""
    text = _ROLE.sub(lambda found: found[1].lstrip("~!").rpartition(".")[2] or found[1], markup)
    text = _LINK.sub(r"\1", text.replace("``", "\0"))
    return " ".join(
        re.sub(r"(?<!\w)\*{1,2}(\S.*?\S|\S)\*{1,2}", r"\1", text).replace("\0", "").replace("\\", "").split()
    )


class _Reader:
    """Reads the lines once; indented lines belong to the block above them."""

    def __init__(self, lines: list[str], depth: int = 0) -> None:
        self._lines = lines
        self._depth = depth  # nesting of directives
        self._styles: list[tuple[str, bool]] = []
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.fences: list[Fence] = []

    def read(self) -> None:
        at = 0
        while at < len(self._lines):
            if not self._lines[at]:
                at += 1
                continue
            end = self._heading(at) if not self._depth else 0
            if end:
                self.blocks.append(Block(at, end, "heading"))
            else:
                end, kind, whole = self._extent(at)
                if end > at:
                    self.blocks.append(Block(at, end, kind, whole=whole))
                end = max(at + 1, self.blocks[-1].end)
            at = end

    def _heading(self, at: int) -> int:
        """The line after a heading that starts here, 0 for none."""
        lines = self._lines
        first, second, third = (lines[at + n] if at + n < len(lines) else "" for n in range(3))
        overlined = _ADORNMENT.match(first) and second.strip() and first == third and _adorns(third, second.strip())
        if overlined and not _ADORNMENT.match(second):
            return self._add(at, at + 3, second.strip(), (first[0], True))
        if first[:1].isspace() or _ADORNMENT.match(first) or not second or not _adorns(second, first):
            return 0
        return self._add(at, at + 2, first, (second[0], False))

    def _add(self, start: int, end: int, text: str, style: tuple[str, bool]) -> int:
        if style not in self._styles:
            self._styles.append(style)
        self.headings.append(Heading(start, end, self._styles.index(style) + 1, plain_text(text)))
        return end

    def _extent(self, at: int) -> tuple[int, BlockKind, bool]:
        line = self._lines[at]
        directive = _DIRECTIVE.match(line)
        if directive:
            return self._directive(at, directive[1], (directive[2] or "").strip())
        if line.startswith(".. ") or line == "..":
            return (self._indented(at + 1), "html", True)
        if _GRID.match(line) or _BORDER.match(line):
            return self._table(at)
        if _ITEM.match(line):
            end = at + 1
            while end < len(self._lines) and self._lines[end] and not _ITEM.match(self._lines[end]):
                end += 1
            end = self._indented(end)
            self._literals(at, end)
            return (end, "item", True)
        end = self._paragraph(at)
        if self._lines[end - 1].endswith("::"):
            inner = self._indented(end)
            self._fence(end, inner, "")
            return (inner, "code", True)
        if line.startswith(">>> "):
            self.fences.append(Fence(at, end, "code", "python"))
            return (end, "code", True)
        # A quote, or a term with its definition below.
        is_term = line[0].isspace() or (end - at > 1 and self._lines[at + 1][0].isspace())
        inner = self._indented(end) if is_term else end
        self._literals(at, inner)
        return (inner, "prose", inner > end)

    def _directive(self, at: int, name: str, argument: str) -> tuple[int, BlockKind, bool]:
        end = self._indented(at + 1)
        if name in _CODE or _EXAMPLE.match(name):
            language = "bash" if name == "prompt" else argument or ("python" if name != "code" else "")
            self.fences.append(Fence(at, end, "code", language))
            return (end, "code", True)
        if name in _DATA:
            self.fences.append(Fence(at, end, "table" if "table" in name else "code", argument))
            return (end, "table", True)
        if _OBJECTS.match(name) and argument and self._depth < _MAX_DEPTH:
            self._object(at, end, argument)
            return (at, "prose", False)
        known = len(self.fences)
        self._literals(at + 1, end)
        return (end, "prose", len(self.fences) > known)

    def _object(self, at: int, end: int, signature: str) -> None:
        """Reads a described function or class: its signature is a heading, its body has its own blocks."""
        self.headings.append(Heading(at, at + 1, _OBJECT_LEVEL + self._depth, signature))
        self.blocks.append(Block(at, at + 1, "heading"))
        inner = [line for line in self._lines[at + 1 : end] if line]
        width = min((_indent(line) for line in inner), default=0)
        reader = _Reader([line[width:] for line in self._lines[at + 1 : end]], self._depth + 1)
        reader.read()
        self.headings += moved(reader.headings, at + 1)
        self.blocks += moved(reader.blocks, at + 1)
        self.fences += moved(reader.fences, at + 1)
        if self.blocks[-1].end < end:
            self.blocks.append(Block(self.blocks[-1].end, end, "prose"))

    def _literals(self, start: int, end: int) -> None:
        """Records the code inside a range that is itself a block."""
        at = start
        while at < end:
            line = self._lines[at].strip()
            directive = _DIRECTIVE.match(line)
            if (directive and directive[1] in _CODE) or (line.endswith("::") and not directive):
                depth = _indent(self._lines[at])
                inner = at + 1
                while inner < end and (not self._lines[inner] or _indent(self._lines[inner]) > depth):
                    inner += 1
                self._fence(at, inner, (directive[2] or "").strip() if directive else "")
                at = inner
            else:
                at += 1

    def _fence(self, start: int, end: int, info: str) -> None:
        if start < end:
            self.fences.append(Fence(start, end, "code", info))

    def _paragraph(self, at: int) -> int:
        end = at + 1
        while end < len(self._lines) and self._lines[end]:
            end += 1
        return end

    def _indented(self, at: int) -> int:
        """The line after the indented lines from here on, including blank lines between them."""
        end = at
        for here in range(at, len(self._lines)):
            line = self._lines[here]
            if line and not line[0].isspace():
                break
            if line:
                end = here + 1
        return max(end, at)

    def _table(self, at: int) -> tuple[int, BlockKind, bool]:
        end = at + 1
        grid = self._lines[at].startswith("+")
        while end < len(self._lines):
            line = self._lines[end]
            if grid and not line.startswith(("+", "|")):
                break
            end += 1
            if not grid and _BORDER.match(line) and (end >= len(self._lines) or not self._lines[end]):
                break
        else:
            end = self._paragraph(at) if not grid else end
        self.fences.append(Fence(at, end, "table", self._lines[min(at + 1, end - 1)]))
        return (end, "table", True)


def _adorns(line: str, title: str) -> bool:
    return bool(_ADORNMENT.match(line)) and (len(line) >= min(len(title), 4) and len(line) * 2 >= len(title))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fields(lines: list[str]) -> dict[str, str]:
    """The field list at the top of the document."""
    fields: dict[str, str] = {}
    for line in lines[:60]:
        found = _FIELD.match(line.rstrip())
        if found:
            fields[found[1].strip().lower()] = (found[2] or "").strip()
        elif line.strip() and not _ADORNMENT.match(line.rstrip()) and (fields or not line[0].isspace()) and len(fields):
            break
    return {key: value for key, value in fields.items() if value}


# ── plain text ──

_ASCIIDOC = re.compile(r"^(={1,6})\s+(\S.*)$")
_ORG = re.compile(r"^(\*{1,6})\s+(?:TODO |DONE )?(\S.*)$")
_MANUAL = re.compile(r"^(\.S[hH]|\.S[sS]\s)\s*\"?(\S.*?)\"?$")
_HEADINGS = {".adoc": _ASCIIDOC, ".asciidoc": _ASCIIDOC, ".org": _ORG, ".man": _MANUAL}
_BETWEEN = re.compile(r"^(={1,6}) (\S.*?) \1$")  # in other texts
_UNDERLINE = re.compile(r"(=|-|~|\^|\+)\1{2,}$")  # of a heading; the sign gives its level
_UNDERLINED = "=-~^+"
_NOT_TITLE = re.compile(r"[^\w`'\"(]|.*(?:\t|\S  )")  # how a line begins that is none, and the columns of a table
_MOST_TITLE, _OFF = 80, 2  # characters of an underlined title, and of the line's length from its own
_ASCIIDOC_BLOCK = re.compile(r"-{4,}$|\.{4,}$")
_ASCIIDOC_ONLY = re.compile(r"\+$|\[[\w\[].*\]$|(?:include|ifdef|ifndef|endif|image)::")
_VIM_HELP = re.compile(r"\s*\*\S+\.txt\*\s|.*\bvim:.*\bft=help\b", re.DOTALL)
_VIM_TAG = re.compile(r"(?:(?<=\s)|^)\*([^\s*|]+)\*(?=\s|$)")
_VIM_RULER = re.compile(r"(?:={20,}|-{20,})$")
_VIM_ASIDE = re.compile(r"For Vim version|N?vim$|.*\b(?:MANUAL|Last change)\b", re.IGNORECASE)


def parse_plain(
    text: str, path: str, chunking: Chunking, content_type: str = "plain_text", rules: Governing = NO_RULES
) -> Parsed:
    """Any text as chunks of whole paragraphs; only a line that is too long is cut."""
    lines = split_lines(text)
    name = PurePosixPath(path).name
    outline = _outline(lines, content_type, PurePosixPath(path).suffix.lower())
    if outline is not None:
        facets = rules.facets(FrontMatter())
        title = next((heading.text for heading in outline.headings if heading.level == 1), "") or name
        chunks = cut(replace(outline, facets=facets), title, chunking, rules.strategy)
        return Parsed(title=title, content_type=content_type, text=text, chunks=chunks, metadata=facets)
    chunks = plain_chunks(lines, name, limits_of(chunking, rules.strategy), content_type, rules.metadata)
    return Parsed(title=name, content_type=content_type, text=text, chunks=chunks, metadata=dict(rules.metadata))


def _outline(lines: list[str], content_type: str, suffix: str) -> Outline | None:
    """The outline of AsciiDoc, Org, Vim's help, manual pages and texts with underlined headings; None for others."""
    if content_type != "plain_text":
        return None
    if suffix == ".txt" and _VIM_HELP.match("\n".join((*lines[:1], "", *lines[-2:]))):
        headings = _help_headings(lines)
        return Outline(
            lines=lines, headings=tuple(headings), blocks=tuple(_around(lines, headings, [])), language=content_type
        )
    heading = _HEADINGS.get(".man" if suffix[1:].isdecimal() else suffix)
    has_blocks = heading is not None or any(map(_ASCIIDOC_ONLY.match, lines))
    last = {line.strip(): at for at, line in enumerate(lines) if _ASCIIDOC_BLOCK.match(line.strip())}
    headings, fences = [], []
    opened, closing = -1, ""
    for at, line in enumerate(lines):
        stripped = line.strip()
        if opened >= 0:
            if stripped.lower().startswith(closing):
                fences.append(Fence(opened, at + 1, "code"))
                opened = -1
        elif suffix != ".org" and (level := _underlined(lines, at)):
            headings.append(Heading(at - 1, at + 1, level, lines[at - 1].strip()))
        elif (has_blocks and last.get(stripped, 0) > at) or stripped.lower().startswith("#+begin_"):
            opened, closing = at, stripped if stripped[0] != "#" else "#+end_"
        elif found := (heading or _BETWEEN).match(line.rstrip()):
            headings.append(Heading(at, at + 1, len(found[1]), found[2].strip()))
    if heading is None and len(headings) < 2:
        return None
    return Outline(
        lines=lines,
        headings=tuple(headings),
        blocks=tuple(_around(lines, headings, fences)),
        fences=tuple(fences),
        language=content_type,
    )


def _underlined(lines: list[str], at: int) -> int:
    """The level of the heading that this line underlines, 0 if it does not."""
    line = lines[at].rstrip()
    if at == 0 or not _UNDERLINE.match(line) or (at > 1 and lines[at - 2].strip()):
        return 0
    title = lines[at - 1].rstrip()
    if not title or len(title) > _MOST_TITLE or abs(len(title) - len(line)) > _OFF or _NOT_TITLE.match(title):
        return 0
    return _UNDERLINED.index(line[0]) + 1


def _help_headings(lines: list[str]) -> list[Heading]:
    """The lines of Vim's help with *tags* at which they are jumped to; sections have rulers or capitals."""
    start = [_VIM_TAG.sub("", line).strip() for line in lines[:9]]
    title = next((text for text in start if text and not _VIM_ASIDE.match(text)), "")
    found = [Heading(0, 1, 1, title)]
    for at, line in enumerate(lines[1:], 1):
        if "*" not in line or not (tags := _VIM_TAG.findall(line)):
            continue
        text = _VIM_TAG.sub("", line).strip(" \t~<>")
        ruled = any(_VIM_RULER.match(other.strip()) for other in (lines[at - 1], *lines[at + 1 : at + 2]))
        level = 2 if ruled or text.isupper() else 3
        found.append(Heading(at, at + 1, level, " ".join((*text.split(), *tags))))
    return found


def _around(lines: list[str], headings: list[Heading], fences: list[Fence]) -> list[Block]:
    """Paragraphs, with code blocks whole and headings separate."""
    special = {heading.start: Block(heading.start, heading.end, "heading") for heading in headings}
    special |= {fence.start: Block(fence.start, fence.end, "code") for fence in fences}
    blocks: list[Block] = []
    at = 0
    for start in [*sorted(special), len(lines)]:
        blocks += moved(paragraphs(lines[at:start]), at)
        if start < len(lines):
            blocks.append(special[start])
            at = special[start].end
    return blocks


def plain_chunks(
    lines: list[str], title: str, limits: Limits, language: str, facets: Mapping[str, str] | None = None
) -> tuple[Chunk, ...]:
    """The chunks of text without structure other than paragraphs."""
    sizes = Sizes(lines, limits)
    pieces = pack(lines, paragraphs(lines), limits, sizes)
    keys = Keys([""])
    return tuple(
        Chunk(
            text=piece.text,
            kind="file" if len(pieces) == 1 else "paragraph",
            type="prose",
            language=language,
            start_line=piece.start + 1,
            end_line=piece.end,
            tokens=sizes.tokens(piece),
            key=keys.part("", number),
            title=title,
            breadcrumb=(title,),
            metadata=facets or {},
        )
        for number, piece in enumerate(pieces, 1)
    )
