"""Under which key is a section found?  The fragment of the docs contract's chunk ids."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from refdesk.parse.outline import Heading

PREAMBLE = "_preamble"
_DROPPED = re.compile(r"[^\w\s-]|_")
_BLANKS = re.compile(r"[\s-]+")


def slug(text: str) -> str:
    """Lower-case letters, digits and hyphens; those of any script."""
    normal = unicodedata.normalize("NFC", text).lower()
    if normal.isascii():
        kept = _DROPPED.sub("", normal)
    else:
        # Marks carry vowels in many scripts, though \\w leaves them out.
        kept = "".join(c for c in normal if c in "- " or c.isspace() or unicodedata.category(c)[0] in "LNM")
    return _BLANKS.sub("-", kept).strip("-") or "section"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a heading stands: its texts and slugs from the top down to its own."""

    texts: tuple[str, ...]
    slugs: tuple[str, ...]

    @property
    def key(self) -> str:
        return "/".join(self.slugs)


def places(headings: Iterable[Heading], title: Heading | None) -> dict[Heading, Place]:
    """The place of each heading under the document's title; equal siblings are numbered."""
    found: dict[Heading, Place] = {}
    stack: list[tuple[int, Place]] = []
    used = Unique()
    for heading in headings:
        if heading is title:
            continue
        while stack and stack[-1][0] >= heading.level:
            stack.pop()
        above = stack[-1][1] if stack else Place((), ())
        given = used.give("/".join((*above.slugs, slug(heading.text))))
        place = Place((*above.texts, heading.text), (*above.slugs, given.rpartition("/")[2]))
        stack.append((heading.level, place))
        found[heading] = place
    return found


class Unique:
    """Names given so far; one that is wanted again gets the next free number."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        given = wanted
        number = self._next.get(wanted, 2)
        while given in self._taken:
            given, number = f"{wanted}-{number}", number + 1
        self._next[wanted] = number
        self._taken.add(given)
        return given


class Keys:
    """The keys of sections and of their parts, none given twice."""

    def __init__(self, sections: Iterable[str]) -> None:
        self._given = Unique(sections)

    def part(self, key: str, number: int) -> str:
        """The key of a part of an oversize section; the first keeps the section's own."""
        if number == 1:
            return key
        return self._given.give(f"{key}-part-{number}" if key else f"_part-{number}")
