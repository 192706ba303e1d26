"""Which files answer best?  Passages of one file count together, and each file has its turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from refdesk.model import StoredChunk
from refdesk.search.rerank import is_asked_for, places_in
from refdesk.search.understand import Understood

_PROSE = frozenset(["md", "markdown", "mdx", "rst", "adoc", "org", "txt", "html", "htm", "ipynb"])
_DATA = frozenset(["json", "jsonl", "yaml", "yml", "toml", "xml", "csv", "tsv", "lock", "cfg", "ini", "svg", "po"])
_HISTORY = re.compile(r"(?:change|history|news|releases?\b|whatsnew|licen[cs]e|authors|copying)", re.IGNORECASE)
_FORM = re.compile(r"\.(?:html?|(?:md|mdx|markdown|rst|adoc|txt)(?:\.txt)?)$", re.IGNORECASE)
_BUILT = frozenset(["_sources", "_build", "build", "site", "html", "dist", "public", "docs", "doc", "source", "src"])
_KEPT_INSIDE = 5  # further passages that a hit names


@dataclass(slots=True)
class Ranked:
    """A candidate on its way up."""

    stored: StoredChunk
    fused: float  # both indexes' scores in one
    score: float = 0.0
    signals: dict[str, float] = field(default_factory=dict)
    words: float = 0.0  # how well its words meet the query's
    heading: float = 0.0  # and those of its heading
    collapsed: int = 0  # parts of the same symbol that this one stands for
    judged: str = ""  # its rank before and what the judge gave, where one was asked
    more: tuple[StoredChunk, ...] = ()  # further passages of its file, where it stands for the file


def grouped(
    close: Sequence[Ranked],
    rest: Sequence[Ranked],
    asked: Understood,
    by: Literal["file", "passage"],
    prefer: Literal["", "code"],
    weights: Mapping[str, float],
) -> list[Ranked]:
    """One hit a file with its further passages inside; or all passages, those of one file after each file had a turn.

    Only the close ones, whose number is fixed, change places: so a longer list never differs from a shorter one
    where both have a hit, and pages fit together.
    """
    seen: dict[str, Ranked] = {}
    pages: dict[str, dict[str, Ranked]] = {}
    files: dict[str, list[Ranked]] = {}
    for one in _distinct(close, seen, pages):
        files.setdefault(one.stored.document.id, []).append(one)
    worth = {document: _worth(own, asked, prefer, weights) for document, own in files.items()}
    ordered = [files[document] for document in sorted(files, key=lambda document: -worth[document])]
    later = list(_distinct(rest, seen, pages))
    if by == "passage":
        longest = max(map(len, ordered), default=0)
        return [*(own[turn] for turn in range(longest) for own in ordered if turn < len(own)), *later]
    for first, *others in ordered:
        first.more = tuple(one.stored for one in others[:_KEPT_INSIDE])
    further: dict[str, Ranked] = {}
    for one in later:
        if one.stored.document.id not in files:
            further.setdefault(one.stored.document.id, one)
    return [*(own[0] for own in ordered), *further.values()]


def _distinct(
    ranked: Sequence[Ranked], seen: dict[str, Ranked], pages: dict[str, dict[str, Ranked]]
) -> Iterator[Ranked]:
    """One of each symbol that was split, the best of its parts; and of a page and its source the one that is better.

    `pages` has the first passage of a page and of its source under what the two have in common.
    """
    for one in ranked:
        document = one.stored.document
        if (page := page_of(document.path)) is not None:
            title = "".join(filter(str.isalnum, document.title.lower()))
            forms = pages.setdefault(f"{document.collection}/{page}#{title}", {})
            known = forms.setdefault("page" if "htm" in document.path[-5:].lower() else "source", one)
            first = next(iter(forms.values()))
            if known.stored.document.id == document.id and first.stored.document.id != document.id:
                first.collapsed += 1
                continue
        part = f"{one.stored.document.id}#{unsplit(one.stored.chunk.key)}"
        if (twin := seen.get(part)) is not None:
            twin.collapsed += 1
            continue
        seen[part] = one
        yield one


@lru_cache(maxsize=50_000)
def page_of(path: str) -> str | None:
    """What the paths of a page and of the text it was made from have in common; None for what is neither."""
    head = _FORM.sub("", path)
    if head == path:
        return None
    parts = [part for part in head.split("/") if part.lower() not in _BUILT]
    return "/".join(parts[:-1] if len(parts) > 1 and parts[-1] == "index" else parts)


def unsplit(key: str) -> str:
    """The key of the whole that a part was cut from."""
    head, mark, number = key.rpartition("-part-")
    return head if mark and number.isdigit() else key


def _worth(own: Sequence[Ranked], asked: Understood, prefer: str, weights: Mapping[str, float]) -> float:
    """What a file is ranked by: its best passage, the next ones with it, and the kind of place it is."""
    second, third, *others = (*(max(0.0, one.score) for one in own[1:8]), 0.0, 0.0)
    total = own[0].score + weights["second"] * second + weights["third"] * third + weights["further"] * sum(others)
    if asked.kind in ("symbol", "path"):  # where it is defined is the answer, whatever the place
        return total
    path = own[0].stored.document.path
    total += sum(weights[place] for place in places_in(path) if not is_asked_for(place, asked.terms))
    return total + (weights.get(_not_code(path), 0.0) if prefer == "code" else 0.0)


@lru_cache(maxsize=50_000)
def _not_code(path: str) -> str:
    """What a file is that is no code: prose, data, or the history of a project; "" for code."""
    name = path.rpartition("/")[2]
    kind = name.rpartition(".")[2].lower()
    if kind in _PROSE:
        return "history" if _HISTORY.match(name) else "prose"
    return "data" if kind in _DATA else ""
