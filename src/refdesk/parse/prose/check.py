"""Checks a docs corpus: front matter, manifests, duplicate ids, oversize sections, dead links."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from refdesk.errors import InvalidInput, ParseFailed
from refdesk.ingest.prepare import Prepared
from refdesk.library import new_id
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse.parser import decode
from refdesk.parse.pool import Pool
from refdesk.parse.prose.manifest import (
    FILE_NAME,
    NOT_ENTERED,
    ManifestSet,
    Strategy,
    load_manifests,
    read_front_matter,
    read_manifest,
)
from refdesk.parse.prose.markdown import MarkdownParser, read_outline
from refdesk.parse.prose.passages import Outline, places, slug, split_lines
from refdesk.parse.prose.sections import title_heading
from refdesk.system.files import read_rules

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# ── links and anchors ──

_HTML_LINK = re.compile(r"<(?:a|img|source)\b[^>]*?\s(?:href|src)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_HTML_ID = re.compile(r"<[a-zA-Z][^>]*?\s(?:id|name)\s*=\s*[\"']?([^\s\"'>]+)")
_GIVEN_ID = re.compile(r"\{[^{}]*?#([\w:.-]+)[^{}]*\}|^\(([\w:.-]+)\)=\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Link:
    """An address as written and the line it is on."""

    target: str
    line: int


@lru_cache(maxsize=5_000)  # pages that others link to
def _anchors(run: str, file: Path) -> frozenset[str]:
    """The anchors of a page, read once for each run."""
    try:
        return anchors_of(decode(read_rules(file, follow=True)).text)
    except (ParseFailed, OSError):
        return frozenset()


def anchors_of(text: str) -> frozenset[str]:
    """The anchors of a text: its headings as GitHub's and our slugs, and explicit ones."""
    lines = split_lines(text)
    outline = read_outline(lines, read_front_matter(lines).body)
    found: set[str] = {"", "top"}
    times: dict[str, int] = {}
    for heading in outline.headings:
        on_github = re.sub(r"[^\w\- ]", "", heading.text.lower()).replace(" ", "-")
        for spelt in {slug(heading.text), on_github}:
            count = times[spelt] = times.get(spelt, 0) + 1
            found |= {spelt} if count == 1 else {f"{spelt}-{count - 1}", f"{spelt}_{count - 1}", f"{spelt}-{count}"}
    found |= {name.lower() for name in _HTML_ID.findall(text)}
    found |= {(one or other).lower() for one, other in _GIVEN_ID.findall(text)}
    return frozenset(found)


def links_of(lines: list[str], body: int = 0) -> list[Link]:
    """The links and images of a Markdown text with their lines, without those in code."""
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
    """The line of a block with the address, else the block's first line."""
    for at in range(first, min(last, len(lines))):
        if target in lines[at] or unquote(target) in lines[at]:
            return at + 1
    return first + 1


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


_MARKDOWN = (".md", ".mdx", ".markdown")
_OTHER_NAMES = (".md", ".mdx", ".markdown", ".rst", ".html", "/index.md", "/index.mdx", "/README.md", "/_index.md")
_FILE_LIKE = re.compile(
    r"^#|\.(?:mdx?|markdown|rst|html?|txt|png|svg|jpe?g|gif|pdf|py|json|ya?ml)(?:[#?]|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem and its position."""

    path: str  # relative to the corpus
    line: int  # 1-based
    message: str


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    text: str
    lines: list[str]
    outline: Outline


def check(root: Path, paths: Iterable[str] | None = None) -> list[Problem]:
    """All problems under a folder, or in some relative paths of it, by path and line."""
    listed = sorted(paths) if paths is not None else sorted(_walk(root))
    problems: list[Problem] = []
    manifests = _manifests(root, listed, problems)
    labels = any(PurePosixPath(path).name == "conf.py" for path in listed)
    checker = _Checker(new_id(), root.absolute(), manifests, labels)
    pages = _pages(root, (path for path in listed if path.lower().endswith(_MARKDOWN)), problems)
    for page, found in Pool(checker).parse_all(pages, Chunking(), lambda keys: set()):
        if isinstance(found, Prepared):
            problems += (Problem(page.path, line, message) for line, message in found.parsed.metadata["problems"])
        elif found is not None:
            problems.append(Problem(page.path, 1, found.reason))
    return sorted(set(problems))


def _pages(root: Path, paths: Iterable[str], problems: list[Problem]) -> Iterator[Content]:
    for path in paths:
        try:
            yield Content(uri=path, path=path, data=read_rules(root / path, follow=True))
        except OSError as error:
            problems.append(Problem(path, 1, str(error)))


@dataclass(frozen=True, slots=True)
class _Checker:
    """A parser whose documents contain their problems, so that pages are checked in the worker processes."""

    run: str
    root: Path
    manifests: ManifestSet
    labels: bool

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        text = decode(content.data).text
        lines = split_lines(text)
        front = read_front_matter(lines)
        problems = [Problem(content.path, front.problem_line, front.problem)] if front.problem else []
        file = _File(content.path, text, lines, read_outline(lines, front.body))
        problems += _duplicates(file)
        problems += _oversize(file, self.manifests)
        problems += self._dead_links(file)
        told = {"problems": [(one.line, one.message) for one in problems]}
        return Parsed(title="", content_type="markdown", text="", chunks=(), metadata=told)

    def _dead_links(self, file: _File) -> Iterator[Problem]:
        """Dead relative links; in a Sphinx corpus a bare word is a label, not a file."""
        for link in links_of(file.lines, file.outline.body):
            if self.labels and "/" not in link.target and not _FILE_LIKE.search(link.target):
                continue
            if reason := self._why_dead(link.target, file.path):
                yield Problem(file.path, link.line, f"dead link {link.target!r}: {reason}")

    def _why_dead(self, address: str, path: str) -> str:
        """Why a relative link is dead; "" if it is not or leaves the corpus."""
        try:
            parts = urlsplit(address)
        except ValueError:
            return "it is no address"
        if parts.scheme or parts.netloc or parts.path.startswith("/") or any(mark in address for mark in "{}$"):
            return ""
        if parts.path:
            target = os.path.normpath(PurePosixPath(path).parent / unquote(parts.path)).replace(os.sep, "/")
            path = _existing(self.root, target)
            if not path:
                return "there is no such file"
        if not parts.fragment or not path.lower().endswith(_MARKDOWN) or path.startswith(".."):
            return ""
        is_there = unquote(parts.fragment).lower() in _anchors(self.run, self.root / path)
        return "" if is_there else "there is no such heading"


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if not one.startswith(".") and one not in NOT_ENTERED]
        for name in files:
            yield (Path(folder) / name).relative_to(root).as_posix()


def _manifests(root: Path, listed: list[str], problems: list[Problem]) -> ManifestSet:
    """The valid manifests; errors in the others are added to the problems."""
    sound = True
    for path in listed:
        if PurePosixPath(path).name != FILE_NAME:
            continue
        folder = str(PurePosixPath(path).parent)
        try:
            manifest = read_manifest(read_rules(root / path, follow=True), "" if folder == "." else folder)
        except (InvalidInput, OSError) as error:
            problems.append(Problem(path, 1, str(error)))
            sound = False
        else:
            problems += [Problem(path, 1, f"unknown key {key!r}: it is ignored") for key in manifest.unknown]
    return load_manifests(root.resolve()) if sound else ManifestSet()


def _duplicates(file: _File) -> Iterator[Problem]:
    """Headings whose id had to be numbered, and so changes when an earlier section is added or removed."""
    headings = file.outline.headings
    for heading, place in places(headings, title_heading(headings)).items():
        if place.slugs[-1] != slug(heading.text):
            message = f"duplicate id: another section is called {heading.text!r}, so this one is #{place.key}"
            yield Problem(file.path, heading.start + 1, message)


def _oversize(file: _File, manifests: ManifestSet) -> Iterator[Problem]:
    """Sections that had to be split, and passages that are too large but can't be split."""
    rules = manifests.for_path(file.path)
    limit = (rules.strategy or Strategy()).max_chunk_size
    chunks = MarkdownParser(rules).parse(file.text, file.path, Chunking()).chunks
    parts: dict[str, list[int]] = {}
    for chunk in chunks:
        section = re.sub(r"-?_?part-\d+(?:-\d+)?$", "", chunk.key)
        parts.setdefault(section, []).append(chunk.start_line)
        if len(chunk.text) > limit:
            message = (
                f"oversize section #{chunk.key}: {len(chunk.text):,} characters that can't be cut, limit {limit:,}"
            )
            yield Problem(file.path, chunk.start_line, message)
    keys = {chunk.key for chunk in chunks}
    for section, starts in parts.items():
        if len(starts) > 1 and (f"{section}-part-2" in keys or f"{section}_part-2" in keys):
            message = f"oversize section #{section}: more than {limit:,} characters, it is cut into {len(starts)} parts"
            yield Problem(file.path, starts[0], message)


def _existing(root: Path, target: str) -> str:
    """The file that a link points to, also by the name of its built page."""
    plain = re.sub(r"\.html?$", "", target).removesuffix("/")
    for candidate in (target, *(f"{plain}{ending}" for ending in _OTHER_NAMES)):
        if (root / candidate).exists():
            return candidate
    return ""
