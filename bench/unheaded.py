"""Takes the headings out of documents, and remembers them as queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bench.undocument import Target, Undocumented

SUFFIXES = {"md": "markdown", "markdown": "markdown", "mdx": "markdown", "rst": "rst"}
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_ATX = re.compile(r"^(#{1,6})\s+(.+?)\s*#*\s*$")
_ADORNMENT = re.compile(r"^([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_INLINE = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|:[\w:]+:`~?([^`<]*)(?:<[^`]*>)?`|<[^>]{1,80}>|\{#[^}]*\}|[`*|]")
_LABEL = re.compile(r"^\s*(?:\.\. _[^:]+:|\.\. index::.*|\([\w.-]+\)=|<a (?:name|id)=.*)\s*$")
# A directive that names an object heads a passage too: its text stays, its mark goes.
_DIRECTIVE = re.compile(
    r"^(\s*)\.\. ((?:auto|py:|c:|cpp:|js:|http:)\w+|module|currentmodule|class|function|method|attribute|data|exception"
    r"|decorator|classmethod|staticmethod|property|setting|signal|reqmeta|command|confval|option|program|envvar)::"
)
_NOISE = re.compile(
    r"^(table of contents|contents|index|licen[sc]e|copyright|changelog|change log|contributors?|authors?|todo|notes?"
    r"|examples?|usage|overview|introduction|see also|misc(ellaneous)?|bugs? ?fix(es|ed)?|features?|fixed|changed|added"
    r"|removed|deprecations?|breaking changes|parameters|returns|acknowledge?ments|credits)$",
    re.IGNORECASE,
)
_MIN_WORDS = 25


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    first: int  # 0-based rows that make the heading
    last: int
    mark: str  # "#" marks, or the adornment's character


def unhead(source: bytes, suffix: str) -> Undocumented | None:
    """The document with numbers for headings; each section with enough text is a target, its heading path the query."""
    try:
        lines = source.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        return None
    lines = [_DIRECTIVE.sub(r"\1\2", line) for line in lines]
    for row in range(_front_matter(lines)):
        lines[row] = re.sub(r"^(title|sidebar_label|slug|id):.*", r"\1: Page", lines[row])
    headings = list(_markdown(lines) if SUFFIXES[suffix] == "markdown" else _rst(lines))
    out: list[str] = []
    spans: list[tuple[int, int]] = []
    position = 0
    for number, heading in enumerate(headings):
        out += _without_labels(lines[position : heading.first])
        start = len(out) + 1
        out += _numbered(heading, number + 1, over=heading.last - heading.first == 2)
        position = heading.last + 1
        following = headings[number + 1].first if number + 1 < len(headings) else len(lines)
        spans.append((start, start + (heading.last - heading.first) + max(0, following - position)))
    out += lines[position:]
    return Undocumented("\n".join(out), tuple(_targets(headings, lines, spans)), tuple(h.title for h in headings))


def _targets(headings: list[_Heading], lines: list[str], spans: list[tuple[int, int]]) -> Iterator[Target]:
    path: list[_Heading] = []
    for number, heading in enumerate(headings):
        path = [above for above in path if above.level < heading.level] + [heading]
        following = headings[number + 1].first if number + 1 < len(headings) else len(lines)
        body = " ".join(" ".join(lines[heading.last + 1 : following]).split())
        if _is_told(heading.title) and len(re.findall(r"[A-Za-z]{2,}", body)) >= _MIN_WORDS:
            query = " ".join(one.title for one in path[-3:])
            yield Target(query, spans[number][0], spans[number][1], body)


def _is_told(title: str) -> bool:
    letters = sum(c.isalpha() for c in title)
    return letters >= 4 and len(title) <= 120 and not _NOISE.match(title) and not re.match(r"v?\d+\.\d+|\[?\d", title)


def _without_labels(lines: list[str]) -> list[str]:
    """The lines with those that repeat the coming heading as a link target blanked."""
    kept = list(lines)
    for row in range(len(kept) - 1, -1, -1):
        if _LABEL.match(kept[row]):
            kept[row] = ""
        elif kept[row].strip():
            break
    return kept


def _numbered(heading: _Heading, number: int, *, over: bool) -> list[str]:
    title = f"Part {number}"
    if heading.mark.startswith("#") and heading.first == heading.last:
        return [f"{heading.mark} {title}"]
    adornment = heading.mark * max(len(title), 3)
    return [adornment, title, adornment] if over else [title, adornment]


def _markdown(lines: list[str]) -> Iterator[_Heading]:
    fence = ""
    row = _front_matter(lines)
    while row < len(lines):
        line = lines[row]
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1][:3]
        elif not fence:
            found = _ATX.match(line)
            below = lines[row + 1] if row + 1 < len(lines) else ""
            if found:
                yield _Heading(len(found[1]), plain(found[2]), row, row, found[1])
            elif _is_setext(lines, row, below):
                yield _Heading(1 if below[0] == "=" else 2, plain(line), row, row + 1, below[0])
                row += 1
        row += 1


def _is_setext(lines: list[str], row: int, below: str) -> bool:
    above = lines[row - 1].strip() if row else ""
    line = lines[row]
    starts = re.match(r"^[A-Za-z`\[*]", line) and "|" not in line
    return bool(starts and not above and re.match(r"^(=+|-{3,})\s*$", below))


def _front_matter(lines: list[str]) -> int:
    if lines and lines[0].strip() == "---":
        for row in range(1, min(len(lines), 60)):
            if lines[row].strip() == "---":
                return row + 1
    return 0


def _rst(lines: list[str]) -> Iterator[_Heading]:
    order: list[str] = []
    row = 0
    while row + 1 < len(lines):
        line, below = lines[row], lines[row + 1]
        mark = _ADORNMENT.match(below)
        over = row > 0 and bool(mark) and lines[row - 1].rstrip() == below.rstrip()
        is_title = line.strip() and (over or not line.startswith((" ", "\t"))) and not _ADORNMENT.match(line)
        is_long = len(below.rstrip()) >= min(4, len(line.strip()))
        if mark and is_title and is_long and _stands_free(lines, row):
            style = mark[1] * (2 if over else 1)
            if style not in order:
                order.append(style)
            yield _Heading(order.index(style) + 1, plain(line), row - over, row + 1, mark[1])
            row += 1
        row += 1


def _stands_free(lines: list[str], row: int) -> bool:
    above = lines[row - 1].strip() if row else ""
    return not above or above.startswith("..") or bool(_ADORNMENT.match(above))


def plain(title: str) -> str:
    """A heading without its markup."""
    return " ".join(_INLINE.sub(lambda m: (m[1] or m[2] or "") if m.lastindex else "", title).split())
