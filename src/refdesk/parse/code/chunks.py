"""How does a segment read as a chunk?"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter

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
            if segment.form == "outline":
                chunks.append(self._outline(segment))
            elif segment.end - segment.start == 1 and self._is_long(segment):
                chunks += self._pieces(segment)
                alone = False
            else:
                chunks.append(self._chunk(segment, "" if alone else None))
        return tuple(chunks)

    def _chunk(self, segment: Segment, key: str | None) -> Chunk:
        d = segment.definition
        return Chunk(
            text=self._lines.text_of(segment.start, segment.end),
            kind=self._kind(segment),
            type="code",
            language=self._language.id,
            start_line=segment.start + 1,
            end_line=segment.end,
            tokens=segment.tokens,
            key=self._key(segment) if key is None else key,
            title=self._title(segment),
            breadcrumb=self._breadcrumb(segment.within),
            symbols=self._symbols(segment),
            signature=d.signature if d is not None else "",
            doc_comment=d.doc if d is not None and segment.part <= 1 else "",
        )

    def _outline(self, segment: Segment) -> Chunk:
        d = segment.definition
        assert d is not None
        text = outline(d, self._max)
        return Chunk(
            text=text,
            kind="outline",
            type="code",
            language=self._language.id,
            start_line=segment.start + 1,
            end_line=segment.end,
            tokens=tokens.pieces(text),
            key=self._unique(f"{d.qualified}-outline"),
            title=d.name,
            breadcrumb=self._breadcrumb(segment.within),
            symbols=(d.qualified,),
            signature=d.signature,
            doc_comment=d.doc,
        )

    def _is_long(self, segment: Segment) -> bool:
        return len(self._lines.contents[segment.start]) > self._max * _LONG_LINE

    def _pieces(self, segment: Segment) -> list[Chunk]:
        """One very long row in pieces that all have its line number."""
        whole = self._chunk(segment, None)
        size = self._max * _LONG_LINE // 2
        pieces = []
        for number, start in enumerate(range(0, len(whole.text), size), 1):
            text = whole.text[start : start + size]
            if not text.strip():
                continue
            pieces.append(
                Chunk(
                    text=text,
                    kind=whole.kind,
                    type="code",
                    language=whole.language,
                    start_line=whole.start_line,
                    end_line=whole.end_line,
                    tokens=tokens.pieces(text),
                    key=whole.key if number == 1 else self._unique(f"{whole.key}-part-{number}"),
                    title=whole.title,
                    breadcrumb=whole.breadcrumb,
                    symbols=whole.symbols if number == 1 else (),
                    signature=whole.signature,
                )
            )
        return pieces

    def _kind(self, segment: Segment) -> str:
        if segment.definition is None:
            return self._gap_kind(segment)
        kinds = Counter(d.kind for d in segment.grouped if d.kind not in SOFT)
        kind = kinds.most_common(1)[0][0] if kinds else segment.definition.kind
        return "test" if self._is_test(segment.definition, segment) else kind

    def _gap_kind(self, segment: Segment) -> str:
        rows = range(segment.start, segment.end)
        if sum(row in self._imports for row in rows) * 2 >= len(rows):
            return "imports"
        if self._inside(segment):
            return "properties" if segment.within is not None and segment.within.kind in TYPES else "constants"
        return "imports" if any(row in self._imports for row in rows) else "block"

    def _is_test(self, d: Definition, segment: Segment) -> bool:
        prefix = self._language.test_prefix
        if prefix and d.kind in ("function", "method") and d.name.startswith(prefix):
            return True
        if d.kind not in ("function", "method"):
            return False
        head = self._lines.text_of(d.top, min(d.start + 2, d.end))
        return _TEST_MARKS.search(head) is not None

    def _title(self, segment: Segment) -> str:
        if len(segment.grouped) > 1:
            shown = [d.name for d in segment.grouped[:4]]
            return ", ".join(shown) + (", …" if len(segment.grouped) > 4 else "")
        if segment.definition is not None:
            return segment.definition.name
        inside = self._inside(segment)
        return inside[0].name if len(inside) == 1 else ""

    def _breadcrumb(self, within: Definition | None) -> tuple[str, ...]:
        enclosing: list[str] = []
        while within is not None:
            enclosing.append(within.name)
            within = within.parent
        return (self._path, *reversed(enclosing))

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
    head = [d.signature or d.name, *_doc_lines(d.doc)]
    members = _members(d)
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


def _doc_lines(doc: str) -> list[str]:
    paragraph = doc.split("\n\n", 1)[0][:600]
    return [f"{_INDENT}{line}" for line in paragraph.splitlines()]


def _members(d: Definition) -> list[tuple[Definition, int]]:
    found: list[tuple[Definition, int]] = []
    stack = [(child, 1) for child in reversed(d.children)]
    while stack:
        member, depth = stack.pop()
        found.append((member, depth))
        if member.kind in TYPES and depth < 4:
            stack += [(child, depth + 1) for child in reversed(member.children)]
    return found
