"""Where does a markdown text lead, and what in it can be led to?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from refdesk.beneath import read_rules
from refdesk.errors import ParseFailed
from refdesk.parse.decode import decode
from refdesk.parse.frontmatter import read_front_matter
from refdesk.parse.keys import slug
from refdesk.parse.markdown import read_outline
from refdesk.parse.outline import split_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_HTML_LINK = re.compile(r"<(?:a|img|source)\b[^>]*?\s(?:href|src)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_HTML_ID = re.compile(r"<[a-zA-Z][^>]*?\s(?:id|name)\s*=\s*[\"']?([^\s\"'>]+)")
_GIVEN_ID = re.compile(r"\{[^{}]*?#([\w:.-]+)[^{}]*\}|^\(([\w:.-]+)\)=\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Link:
    """An address as written and the line it is on."""

    target: str
    line: int


class Anchors:
    """The fragments that pages of a corpus answer to, each page read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, frozenset[str]] = {}

    def has(self, path: str, fragment: str) -> bool:
        if path not in self._known:
            self._known[path] = self._read(path)
        return fragment.lower() in self._known[path]

    def _read(self, path: str) -> frozenset[str]:
        try:
            text = decode(read_rules(self._root / path, follow=True)).text
        except (ParseFailed, OSError):
            return frozenset()
        return anchors_of(text)


def anchors_of(text: str) -> frozenset[str]:
    """The fragments of a text: of its headings as GitHub and as we spell them, and those given by hand."""
    lines = split_lines(text)
    outline = read_outline(lines, read_front_matter(lines).body)
    found: set[str] = {"", "top"}
    times: dict[str, int] = {}
    for heading in outline.headings:
        for spelt in {slug(heading.text), _github_slug(heading.text)}:
            count = times[spelt] = times.get(spelt, 0) + 1
            found |= {spelt} if count == 1 else {f"{spelt}-{count - 1}", f"{spelt}_{count - 1}", f"{spelt}-{count}"}
    found |= {name.lower() for name in _HTML_ID.findall(text)}
    found |= {(one or other).lower() for one, other in _GIVEN_ID.findall(text)}
    return frozenset(found)


def links_of(lines: list[str], body: int = 0) -> list[Link]:
    """The links and pictures of a markdown text, with the lines they are on; none of those in code."""
    source = "\n".join(line.rstrip("\r").replace("\r", " ") for line in lines[body:])
    found: list[Link] = []
    for token in _parser().parse(source):
        if token.map is None:
            continue
        first, last = token.map[0] + body, token.map[1] + body
        found += [Link(target, _line(lines, first, last, target)) for target in _targets(token)]
    return found


def _targets(token: Token) -> list[str]:
    if token.type == "html_block":
        return _HTML_LINK.findall(token.content)
    found: list[str] = []
    for child in token.children or []:
        if child.type in ("link_open", "image"):
            found.append(str(child.attrGet("href") or child.attrGet("src") or ""))
        elif child.type == "html_inline":
            found += _HTML_LINK.findall(child.content)
    return [target for target in found if target]


def _line(lines: list[str], first: int, last: int, target: str) -> int:
    """The line of a block that the address stands on, else the block's first."""
    from urllib.parse import unquote

    for at in range(first, min(last, len(lines))):
        if target in lines[at] or unquote(target) in lines[at]:
            return at + 1
    return first + 1


def _github_slug(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")
