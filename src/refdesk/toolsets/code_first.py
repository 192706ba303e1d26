"""How much documentation stands among code?  Little, where code answers too: search_docs is for the rest."""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.model import Hit

_PROSE = frozenset(["md", "markdown", "mdx", "rst", "adoc", "org"])  # not .txt, .html: lists, templates
_SHARE = 4  # one passage of documentation for so many places


def looked_at(limit: int) -> int:
    """How many hits are asked for, so that there is code to take the places of documentation."""
    return 2 * limit


def code_first(hits: Sequence[Hit], limit: int) -> tuple[list[Hit], list[str]]:
    """The best hits in their order, documentation among them only so far as code does not fill the places.

    With it comes what to say of those that gave way.
    """
    code = sum(not _is_prose(hit) for hit in hits)
    room = max(limit // _SHARE, 1, limit - code)
    kept: list[Hit] = []
    gave_way = 0
    for hit in hits:
        if len(kept) == limit:
            break
        if _is_prose(hit):
            room -= 1
            if room < 0:
                gave_way += 1
                continue
        kept.append(hit)
    if not gave_way:
        return kept, []
    return kept, [f"{gave_way} passages of documentation gave way to code; search_docs finds them."]


def _is_prose(hit: Hit) -> bool:
    return hit.stored.document.path.rpartition(".")[2].lower() in _PROSE
