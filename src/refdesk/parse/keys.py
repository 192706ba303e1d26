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
    used: set[str] = set()
    for heading in headings:
        if heading is title:
            continue
        while stack and stack[-1][0] >= heading.level:
            stack.pop()
        above = stack[-1][1] if stack else Place((), ())
        place = _free(above, heading.text, used)
        used.add(place.key)
        stack.append((heading.level, place))
        found[heading] = place
    return found


class Keys:
    """Keys given so far, so that none is given twice."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._used = set(reserved)

    def part(self, key: str, number: int) -> str:
        """The key of a part of an oversize section; the first keeps the section's own."""
        if number == 1:
            return key
        wanted = f"{key}-part-{number}" if key else f"_part-{number}"
        given, again = wanted, 2
        while given in self._used:
            given, again = f"{wanted}-{again}", again + 1
        self._used.add(given)
        return given


def _free(above: Place, text: str, used: set[str]) -> Place:
    base = slug(text)
    given, number = base, 1
    while "/".join((*above.slugs, given)) in used:
        number += 1
        given = f"{base}-{number}"
    return Place((*above.texts, text), (*above.slugs, given))
