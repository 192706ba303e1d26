"""How does a segment read as a chunk?"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import replace

from refdesk.model import Chunk, Chunking
from refdesk.parse.code.definitions import SOFT, TYPES, Definition
from refdesk.parse.code.languages import Language
from refdesk.parse.code.segments import Segment
from refdesk.parse.code.syntax import Lines
from refdesk.text import tokens

_LONG_LINE = 8  # characters per token from which a single row is cut
_MAX_SYMBOLS = 60
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
        self._used: Counter[str] = Counter()
        self._taken: set[str] = set()

    def write(self, segments: list[Segment]) -> tuple[Chunk, ...]:
        """The chunks of the segments in order, keys unique."""
        chunks: list[Chunk] = []
        alone = len(segments) == 1
        for segment in segments:
            is_long = len(self._lines.contents[segment.start]) > self._max * _LONG_LINE
            if segment.form == "outline" and (d := segment.definition) is not None:
                text = outline(d, self._max)
                whole = self._chunk(segment, self._unique(f"{d.qualified}-outline"))
                size = tokens.pieces(text)
                whole = replace(whole, text=text, kind="outline", tokens=size, title=d.name, symbols=(d.qualified,))
                chunks.append(whole)
            elif segment.end - segment.start == 1 and is_long:
                chunks += self._pieces(self._chunk(segment, self._key(segment)))
                alone = False
            else:
                chunks.append(self._chunk(segment, "" if alone else self._key(segment)))
        return tuple(chunks)

    def _chunk(self, segment: Segment, key: str) -> Chunk:
        d = segment.definition
        enclosing: list[str] = []
        within = segment.within
        while within is not None:
            enclosing.append(within.name)
            within = within.parent
        return Chunk(
            text=self._lines.text_of(segment.start, segment.end),
            kind=self._kind(segment),
            type="code",
            language=self._language.id,
            start_line=segment.start + 1,
            end_line=segment.end,
            tokens=segment.tokens,
            key=key,
            title=self._title(segment),
            breadcrumb=(self._path, *reversed(enclosing)),
            symbols=self._symbols(segment),
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
                piece = replace(whole, text=text, tokens=tokens.pieces(text), doc_comment="")
                if number > 1:
                    piece = replace(piece, key=self._unique(f"{whole.key}-part-{number}"), symbols=())
                pieces.append(piece)
        return pieces

    def _kind(self, segment: Segment) -> str:
        if segment.definition is None:
            return self._gap_kind(segment)
        kinds = Counter(d.kind for d in segment.grouped if d.kind not in SOFT)
        kind = kinds.most_common(1)[0][0] if kinds else segment.definition.kind
        d, prefix = segment.definition, self._language.test_prefix
        if d.kind not in ("function", "method"):
            return kind
        head = self._lines.text_of(d.top, min(d.start + 2, d.end))
        is_test = (prefix and d.name.startswith(prefix)) or _TEST_MARKS.search(head) is not None
        return "test" if is_test else kind

    def _gap_kind(self, segment: Segment) -> str:
        rows = range(segment.start, segment.end)
        if sum(row in self._imports for row in rows) * 2 >= len(rows):
            return "imports"
        if self._inside(segment):
            return "properties" if segment.within is not None and segment.within.kind in TYPES else "constants"
        return "imports" if any(row in self._imports for row in rows) else "block"

    def _title(self, segment: Segment) -> str:
        if len(segment.grouped) > 1:
            shown = [d.name for d in segment.grouped[:4]]
            return ", ".join(shown) + (", …" if len(segment.grouped) > 4 else "")
        if segment.definition is not None:
            return segment.definition.name
        inside = self._inside(segment)
        return inside[0].name if len(inside) == 1 else ""

    def _inside(self, segment: Segment) -> list[Definition]:
        low, high = bisect_left(self._starts, segment.start), bisect_left(self._starts, segment.end)
        return self._definitions[low:high]

    def _symbols(self, segment: Segment) -> tuple[str, ...]:
        found = dict.fromkeys(d.qualified for d in self._inside(segment) if d.kind != "test")
        if segment.definition is not None and segment.part > 1:
            found.setdefault(segment.definition.qualified)
        return tuple(found)[:_MAX_SYMBOLS]

    def _key(self, segment: Segment) -> str:
        if segment.definition is not None:
            base = segment.definition.qualified
        else:
            inside = self._inside(segment)
            kind = self._gap_kind(segment)
            prefix = f"{segment.within.qualified}." if segment.within is not None else ""
            base = inside[0].qualified if inside and kind != "imports" else f"{prefix}{kind}"
        if segment.part > 1 and segment.form == "part":
            return self._unique(f"{base}-part-{segment.part}")
        return self._unique(base)

    def _unique(self, base: str) -> str:
        key = base
        while key in self._taken:
            self._used[base] += 1
            key = f"{base}-{self._used[base] + 1}"
        self._taken.add(key)
        return key


_INDENT = "    "


def outline(d: Definition, max_tokens: int) -> str:
    """A type's head, its documentation and its members' signatures, within a budget of tokens."""
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
    if tokens.pieces(text) <= max_tokens:
        return text
    budget = max_tokens - tokens.pieces("\n".join(head)) - 8
    kept: list[str] = []
    for m, depth in members:
        line = f"{_INDENT * depth}{m.name}"
        budget -= tokens.pieces(line) + 1
        if budget < 0:
            break
        kept.append(line)
    left = len(members) - len(kept)
    return "\n".join([*head, *kept, *([f"{_INDENT}… {left} more"] if left else [])])
