"""What sections does a document have, and what stands under each heading?"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_SECTION = 1_600
MIN_SECTION = 90

_FENCE = re.compile(r"^\s*(```|~~~)")
_ATX = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_ADOC = re.compile(r"^(={1,6})\s+(\S.*)$")
_POD = re.compile(r"^=head([1-4])\s+(.+)$")
_UNDERLINE = re.compile(r"^([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_INLINE = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[A-Z]<([^>]*)>|:[\w:]+:`~?([^`<]*)(?:<[^>]*>)?`|<[^>]{1,80}>|\{#[^}]*\}")
_NOISE = re.compile(
    r"^(table of contents|contents|index|license|licence|copyright|changelog|contributors?|authors?|todo)$", re.I
)

Section = tuple[list[str], str]


def sections(text: str, suffix: str) -> Iterator[Section]:
    """Each heading with those above it, and the text under it."""
    if suffix in ("md", "markdown", "mdx", "mkd"):
        found = _by_mark(text, _ATX)
    elif suffix in ("adoc", "asciidoc"):
        found = _by_mark(text, _ADOC)
    elif suffix in ("pod", "pm", "pl"):
        found = _by_mark(text, _POD)
    else:
        found = _by_underline(text)
    for path, body in found:
        title = path[-1]
        body = body.strip()
        if len(body) < MIN_SECTION or not 3 <= len(title) <= 120 or _NOISE.match(title):
            continue
        if sum(c.isalpha() for c in title) < 3 or re.match(r"v?\d+\.\d+", title):
            continue
        yield path, body[:MAX_SECTION]


def _by_mark(text: str, mark: re.Pattern[str]) -> Iterator[Section]:
    path: list[tuple[int, str]] = []
    body: list[str] = []
    fenced = False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else mark.match(line)
        level, title = (0, "")
        if heading:
            level = int(heading[1]) if heading[1].isdigit() else len(heading[1])
            title = heading[2]
        elif (
            mark is _ATX and not fenced and number + 1 < len(lines) and re.match(r"^(=+|-{3,})\s*$", lines[number + 1])
        ):
            level, title = (1 if lines[number + 1][0] == "=" else 2), line
        if title.strip():
            if path and body:
                yield [name for _, name in path], "\n".join(body)
            path = [entry for entry in path if entry[0] < level] + [(level, plain(title))]
            body = []
        else:
            body.append(line)
    if path and body:
        yield [name for _, name in path], "\n".join(body)


def _by_underline(text: str) -> Iterator[Section]:
    lines = text.splitlines()
    order: list[str] = []
    path: list[tuple[int, str]] = []
    body: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        below = lines[number + 1] if number + 1 < len(lines) else ""
        mark = _UNDERLINE.match(below)
        if mark and line.strip() and not line.startswith(" ") and len(below.rstrip()) >= len(line.rstrip()):
            if path and body:
                yield [name for _, name in path], "\n".join(body)
            if mark[1] not in order:
                order.append(mark[1])
            level = order.index(mark[1])
            path = [entry for entry in path if entry[0] < level] + [(level, plain(line))]
            body = []
            number += 2
            continue
        if not _UNDERLINE.match(line) and not re.match(r"^\.\. (_|image|toctree|currentmodule|highlight)|^:\w+:", line):
            body.append(line)
        number += 1
    if path and body:
        yield [name for _, name in path], "\n".join(body)


def plain(title: str) -> str:
    """A heading without its markup."""
    text = _INLINE.sub(lambda found: found[1] or found[2] or found[3] or "", title)
    return re.sub(r"[`*]|\|", "", text).strip()
