"""The reader: a document rendered with its outline, and as an agent gets it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from refdesk.console.site import View, Visit, address
from refdesk.console.words import asked_terms, code_lines, prose
from refdesk.desk.fresh import changed_content
from refdesk.desk.reading import has_own_lines
from refdesk.errors import NotFound
from refdesk.model import Document, StoredChunk
from refdesk.text import tokens
from refdesk.text.untrusted import marks

_ROWS = 600  # lines of code on a page: highlighting them takes up to 60 ms
_PROSE = 40_000  # characters of markdown on a page, which ends at the next heading, at the latest twice as far
_HEADING = re.compile(r"#{1,6} |```|~~~")
_LEXED = 40_000  # characters before the page that are lexed with it, so that it does not begin within a comment
_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_OUTLINED = 400
_COUNTED = 300_000  # characters whose tokens are counted, which takes 0.1 s a MB; the rest is extrapolated
_PASSAGES = 60
_RENDERED = frozenset({"markdown", "html", "mdx"})


def read(visit: Visit) -> Response:
    desk = visit.desk
    collection = desk.collection(visit.path("collection"))
    document = desk.document_by_path(collection.name, visit.path("path"))
    if document is None:
        raise NotFound(
            f"There is no document {visit.path('path')} in {collection.name}.", "Search for it, or look at the list."
        )
    raw, chunks = desk.raw(document.id), desk.chunks_of(document.id)
    how = visit.query("as", "page")
    lines = _LINES.fullmatch(visit.query("lines"))
    first, last = (int(lines[1]), int(lines[2] or lines[1])) if lines else (0, 0)
    own_lines = has_own_lines(raw, chunks)
    is_prose = document.content_type in _RENDERED and how == "page"
    wanted = asked_terms(visit.query("q"))
    outline: list[tuple[int, str, str, int, str]] | None = None
    values: dict[str, Any] = {}
    if how == "agent":
        passages, pages = visit.page_of(chunks, _PASSAGES)
        values = {**pages, "given": [(one, tokens.count(one.chunk.text)) for one in passages]}
    elif is_prose:
        parts = _parts(raw)
        meant = next((at for at, (before, _) in enumerate(parts) if before >= first > 0), len(parts) if first else 1)
        page = max(1, min(visit.number("page", meant), len(parts)))
        before, text = parts[page - 1]
        shown = prose(text, collection.name, document.path, (first, last) if own_lines else (0, 0), skipped=before)
        values = {"body": shown.body, "front": shown.front, "page": page, "pages": len(parts)}
        if len(parts) == 1:
            top = min((level for level, _, _ in shown.headings), default=0)
            outline = [(max(0, level - top - 1), "", text, line, "") for level, text, line in shown.headings if text]
    else:
        language = "text" if how == "text" and document.content_type in _RENDERED else document.content_type
        values = _as_lines(visit, raw, language, (first, last) if own_lines else (0, 0), wanted)
    if outline is None:
        outline = _outline(visit, document, chunks, own_lines)
    flags: dict[str, str] = {}  # where the text comes from, and why some of it is flagged
    for one in chunks[:_PASSAGES]:
        flags |= marks(one, collection)
    return visit.render(
        "reader.html",
        document=document,
        collection=collection,
        how=how,
        is_prose=is_prose,
        can_be_prose=document.content_type in _RENDERED,
        outline=outline[:_OUTLINED],
        left_out=max(0, len(outline) - _OUTLINED),
        tokens=round(tokens.count(raw[:_COUNTED]) * max(1.0, len(raw) / _COUNTED)),
        rows=raw.count("\n") + 1,
        passages=len(chunks),
        changed=not desk.other_machine(collection) and changed_content(document) is not None,
        others=desk.machine_notes([collection]),
        marks=flags,
        lines=visit.query("lines"),
        query=visit.query("q"),
        **values,
    )


def _parts(raw: str) -> list[tuple[int, str]]:
    """The pages of a markdown text, each with the number of lines before it."""
    if len(raw) <= 2 * _PROSE:
        return [(0, raw)]
    parts: list[tuple[int, str]] = []
    rows: list[str] = []
    size, begun, fence = 0, 0, ""
    for number, row in enumerate(raw.split("\n")):
        mark = _HEADING.match(row)
        if mark and mark[0][:1] in "`~":
            fence = "" if fence == mark[0] else fence or mark[0]
        if size > 2 * _PROSE or (size > _PROSE and mark and not fence and mark[0][:1] == "#"):
            parts.append((begun, "\n".join(rows)))
            rows, size, begun = [], 0, number
        rows.append(row)
        size += len(row) + 1
    return [*parts, (begun, "\n".join(rows))]


def _as_lines(visit: Visit, raw: str, language: str, hit: tuple[int, int], wanted: frozenset[str]) -> dict[str, Any]:
    """A page of numbered lines: the requested one, else the one with the hit."""
    rows = raw.split("\n")
    pages = -(-len(rows) // _ROWS)
    page = max(1, min(visit.number("page", max(0, hit[0] - 1) // _ROWS + 1), pages))
    start = (page - 1) * _ROWS
    shown = _highlighted(raw, language, start, wanted)
    return {
        "numbered": [(start + at, row, hit[0] <= start + at <= hit[1]) for at, row in enumerate(shown, 1)],
        "page": page,
        "pages": pages,
    }


@lru_cache(maxsize=8)  # texts of up to some megabytes
def _highlighted(raw: str, language: str, start: int, wanted: frozenset[str]) -> list[Markup]:
    rows = raw.split("\n")
    before = start
    room = _LEXED
    while before and (room := room - len(rows[before - 1]) - 1) > 0:
        before -= 1
    return code_lines("\n".join(rows[before : start + _ROWS]), language, wanted)[start - before :]


def _outline(
    visit: Visit, document: Document, chunks: Sequence[StoredChunk], own_lines: bool
) -> list[tuple[int, str, str, int, str]]:
    """Depth, kind, name, line and the symbol (for the graph) of each heading or definition."""
    symbols = visit.desk.graph(document.collection).file(document).symbols
    if symbols:
        top = [one for one in symbols if one.kind not in ("import", "parameter", "variable")]
        return [(one.qualified.count("."), one.kind, one.name, one.start_line, one.qualified) for one in top]
    seen: set[tuple[str, ...]] = set()
    found = []
    for one in chunks:
        trail = one.chunk.breadcrumb
        if one.chunk.title and trail not in seen:
            seen.add(trail)
            found.append((max(0, len(trail) - 2), "", one.chunk.title, one.chunk.start_line if own_lines else 0, ""))
    return found


def open_document(visit: Visit) -> Response:
    """Redirects from a document's id or address to its page."""
    given = visit.query("id")
    document = visit.desk.document(given) or visit.desk.document_by_uri(given)
    if document is None:
        raise NotFound(f"There is no document {given}.", "Search for it.")
    return visit.redirect(address("/read/{}/{}", document.collection, document.path, lines=visit.query("lines")))


VIEWS: Mapping[str, View] = {"GET /read/{collection}/{path:path}": read, "GET /open": open_document}
