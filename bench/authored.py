"""Questions written by hand over packages that were read for it: what people ask, not what authors wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench import corpora
from bench.sets import KnownItems
from refdesk.model import StoredChunk

FILE = Path(__file__).parent / "authored.yaml"
_HEADING = re.compile(r"^#{1,6} ")
_ADORNMENT = re.compile(r"^([=\-~^\"'*+.])\1{2,}\s*$")


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a file."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody asks, and the places that answer it."""

    query: str
    package: str
    places: tuple[Place, ...]

    def is_met_by(self, stored: StoredChunk) -> bool:
        """Whether a chunk shows one of the places: a part of it, or a passage around its first line."""
        first, last = stored.chunk.start_line, stored.chunk.end_line
        return any(
            stored.document.path == one.path and (first <= one.first <= last or one.first <= first <= one.last)
            for one in self.places
        )


def known_items(cache: Path) -> KnownItems:
    """The authored set: whole packages as they are, and the questions."""
    folder = cache / "sets" / "authored"
    known = corpora.pins()
    questions: list[Question] = []
    for name, asked in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        pin = known["pypi", name]
        if not (folder / pin.folder).is_dir():
            corpora.copy(corpora.fetch(pin, cache), folder / pin.folder)
        for one in asked:
            right = [place for at in one["at"] for place in places(folder, f"{pin.folder}/{at}")]
            questions.append(Question(one["ask"], pin.folder, tuple(right)))
    return KnownItems(name="authored", folder=folder, report=tuple(questions), tune=())


def places(folder: Path, at: str) -> list[Place]:
    """The blocks that `path#start of a line` names, of a definition its body, of a heading its section; or a file."""
    path, mark, start = at.partition("#")
    lines = (folder / path).read_text(encoding="utf-8").splitlines()
    if not mark:
        return [Place(path, 1, len(lines))]
    end = _end_of_code if path.endswith(".py") else _end_of_section
    found = [Place(path, row + 1, end(lines, row)) for row, line in enumerate(lines) if line.strip().startswith(start)]
    if not found:
        raise corpora.CorpusError(f"{at}: no line starts like that")
    return found


def _end_of_code(lines: list[str], row: int) -> int:
    depth = _indent(lines[row])
    for below in range(row + 1, len(lines)):
        line = lines[below]
        if line.strip() and _indent(line) <= depth and not line.lstrip().startswith((")", "]")):
            return below
    return len(lines)


def _end_of_section(lines: list[str], row: int) -> int:
    for below in range(row + 2, len(lines)):
        if _HEADING.match(lines[below]):
            return below
        if _ADORNMENT.match(lines[below]) and lines[below - 1].strip():
            return below - 1
    return len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
