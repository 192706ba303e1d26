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
from refdesk.parse.prose import manifest
from refdesk.parse.prose.manifest import ManifestSet, Strategy, load_manifests, read_front_matter, read_manifest
from refdesk.parse.prose.markdown import parse_markdown, read_outline
from refdesk.parse.prose.passages import places, slug, split_lines
from refdesk.parse.prose.sections import title_heading
from refdesk.system.files import read_rules

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MARKDOWN = (".md", ".mdx", ".markdown")
_OTHER_NAMES = (".md", ".mdx", ".markdown", ".rst", ".html", "/index.md", "/index.mdx", "/README.md", "/_index.md")
_FILE_LIKE = re.compile(
    r"^#|\.(?:mdx?|markdown|rst|html?|txt|png|svg|jpe?g|gif|pdf|py|json|ya?ml)(?:[#?]|$)", re.IGNORECASE
)
_HTML_LINK = re.compile(r"<(?:a|img|source)\b[^>]*?\s(?:href|src)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_HTML_ID = re.compile(r"<[a-zA-Z][^>]*?\s(?:id|name)\s*=\s*[\"']?([^\s\"'>]+)")
_GIVEN_ID = re.compile(r"\{[^{}]*?#([\w:.-]+)[^{}]*\}|^\(([\w:.-]+)\)=\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem and its position."""

    path: str  # relative to the corpus
    line: int  # 1-based
    message: str


def check(root: Path, paths: Iterable[str] | None = None) -> list[Problem]:
    """All problems under a folder, or in some relative paths of it, by path and line."""
    listed = sorted(_walk(root) if paths is None else paths)
    problems: list[Problem] = []
    is_sound = True
    for path in listed:
        if PurePosixPath(path).name == manifest.FILE_NAME:
            folder = str(PurePosixPath(path).parent)
            try:
                found = read_manifest(read_rules(root / path, follow=True), "" if folder == "." else folder)
                problems += [Problem(path, 1, f"unknown key {key!r}: it is ignored") for key in found.unknown]
            except (InvalidInput, OSError) as error:
                problems.append(Problem(path, 1, str(error)))
                is_sound = False

    def pages() -> Iterator[Content]:
        for path in listed:
            if path.lower().endswith(_MARKDOWN):
                try:
                    yield Content(uri=path, path=path, data=read_rules(root / path, follow=True))
                except OSError as error:
                    problems.append(Problem(path, 1, str(error)))

    manifests = load_manifests(root.resolve()) if is_sound else ManifestSet()
    is_sphinx = any(PurePosixPath(path).name == "conf.py" for path in listed)
    checker = _Checker(new_id(), root.absolute(), manifests, is_sphinx)
    for page, checked in Pool(checker).parse_all(pages(), Chunking(), lambda keys: set()):
        if isinstance(checked, Prepared):
            problems += (Problem(page.path, line, text) for line, text in checked.parsed.metadata["problems"])
        elif checked is not None:
            problems.append(Problem(page.path, 1, checked.reason))
    return sorted(set(problems))


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if not one.startswith(".") and one not in manifest.NOT_ENTERED]
        for name in files:
            yield (Path(folder) / name).relative_to(root).as_posix()


@dataclass(frozen=True, slots=True)
class _Checker:
    """A parser whose documents contain the lines and messages of their problems, so that workers can run it."""

    run: str
    root: Path
    manifests: ManifestSet
    is_sphinx: bool

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        text = decode(content.data).text
        lines = split_lines(text)
        front = read_front_matter(lines)
        problems = [(front.problem_line, front.problem)] if front.problem else []
        # An id that had to be numbered changes when an earlier section is added or removed.
        headings = read_outline(lines, front.body).headings
        for heading, place in places(headings, title_heading(headings)).items():
            if place.slugs[-1] != slug(heading.text):
                message = f"duplicate id: another section is called {heading.text!r}, so this one is #{place.key}"
                problems.append((heading.start + 1, message))
        problems += self._oversize(text, content.path)
        for target, line in _links(lines, front.body):
            # In a Sphinx corpus a bare word is a label, not a file.
            is_label = self.is_sphinx and "/" not in target and not _FILE_LIKE.search(target)
            if not is_label and (reason := self._why_dead(target, content.path)):
                problems.append((line, f"dead link {target!r}: {reason}"))
        return Parsed(title="", content_type="markdown", text="", chunks=(), metadata={"problems": problems})

    def _oversize(self, text: str, path: str) -> Iterator[tuple[int, str]]:
        """Sections that had to be split, and passages that are too large but can't be split."""
        rules = self.manifests.for_path(path)
        limit = (rules.strategy or Strategy()).max_chunk_size
        chunks = parse_markdown(text, path, Chunking(), rules).chunks
        parts: dict[str, list[int]] = {}
        for chunk in chunks:
            section = re.sub(r"-?_?part-\d+(?:-\d+)?$", "", chunk.key)
            parts.setdefault(section, []).append(chunk.start_line)
            if (size := len(chunk.text)) > limit:
                message = f"oversize section #{chunk.key}: {size:,} characters that can't be cut, limit {limit:,}"
                yield chunk.start_line, message
        keys = {chunk.key for chunk in chunks}
        for section, starts in parts.items():
            if len(starts) > 1 and (f"{section}-part-2" in keys or f"{section}_part-2" in keys):
                message = f"more than {limit:,} characters, it is cut into {len(starts)} parts"
                yield starts[0], f"oversize section #{section}: {message}"

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
            plain = re.sub(r"\.html?$", "", target).removesuffix("/")  # the name of a built page
            candidates = (target, *(f"{plain}{ending}" for ending in _OTHER_NAMES))
            path = next((one for one in candidates if (self.root / one).exists()), "")
            if not path:
                return "there is no such file"
        if not parts.fragment or not path.lower().endswith(_MARKDOWN) or path.startswith(".."):
            return ""
        is_there = unquote(parts.fragment).lower() in _anchors(self.run, self.root / path)
        return "" if is_there else "there is no such heading"


def _links(lines: list[str], body: int) -> Iterator[tuple[str, int]]:
    """The targets of a text's links and images with their lines, without those in code."""
    source = "\n".join(line.rstrip("\r").replace("\r", " ") for line in lines[body:])
    for token in _parser().parse(source):
        if token.map is None:
            continue
        targets = _HTML_LINK.findall(token.content) if token.type == "html_block" else []
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                targets.append(str(child.attrGet("href") or child.attrGet("src") or ""))
            elif child.type == "html_inline":
                targets += _HTML_LINK.findall(child.content)
        first, last = token.map[0] + body, min(token.map[1] + body, len(lines))
        for target in filter(None, targets):
            written = (at for at in range(first, last) if target in lines[at] or unquote(target) in lines[at])
            yield target, next(written, first) + 1


@lru_cache(maxsize=5_000)  # pages that others link to
def _anchors(run: str, file: Path) -> frozenset[str]:
    """The anchors of a page, read once for each run: headings as GitHub's and our slugs, and explicit ones."""
    try:
        text = decode(read_rules(file, follow=True)).text
    except (ParseFailed, OSError):
        return frozenset()
    lines = split_lines(text)
    found: set[str] = {"", "top"}
    times: dict[str, int] = {}
    for heading in read_outline(lines, read_front_matter(lines).body).headings:
        on_github = re.sub(r"[^\w\- ]", "", heading.text.lower()).replace(" ", "-")
        for spelt in {slug(heading.text), on_github}:
            count = times[spelt] = times.get(spelt, 0) + 1
            found |= {spelt} if count == 1 else {f"{spelt}-{count - 1}", f"{spelt}_{count - 1}", f"{spelt}-{count}"}
    found |= {name.lower() for name in _HTML_ID.findall(text)}
    found |= {(one or other).lower() for one, other in _GIVEN_ID.findall(text)}
    return frozenset(found)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")
