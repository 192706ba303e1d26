"""Renders hits as TOON, JSON or plain text within a token budget, the best passages whole."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from refdesk import model
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import indexed_at
from refdesk.ingest.prepare import Report
from refdesk.model import Document, Hit, Skipped, StoredChunk
from refdesk.search.group import snippet
from refdesk.sources.allowed import HIDDEN, LASTING
from refdesk.sources.ignore import IGNORED
from refdesk.text import tokens
from refdesk.text.untrusted import marks
from refdesk.toolsets.content import Annotations, Json, ResourceLink, Text, ToolAnswer, affordable, note_lines, noted
from refdesk.toolsets.contract import CallContext

# ── resource links, for a client that sends `refdesk/links` in its `_meta` ──

ASKED = "refdesk/links"
_MEDIA = {
    "markdown": "text/markdown",
    "html": "text/html",
    "json": "application/json",
    "yaml": "application/yaml",
    "toml": "application/toml",
    "xml": "application/xml",
    "css": "text/css",
    "javascript": "text/javascript",
    "plain_text": "text/plain",
}


def links(root: str, hits: Sequence[Hit], context: CallContext) -> tuple[ResourceLink, ...]:
    """One link for each file, best first, with the matching lines; none unless the client asks for links."""
    if context.meta.get(ASKED) is not True:
        return ()
    by_file: dict[str, list[Hit]] = {}
    for hit in hits:
        by_file.setdefault(hit.stored.document.path, []).append(hit)
    return tuple(_link(root, found) for found in by_file.values())


def _link(root: str, found: Sequence[Hit]) -> ResourceLink:
    document = found[0].stored.document
    return ResourceLink(
        uri=(Path(root) / document.path).as_uri(),
        name=document.path,
        title=document.title or None,
        description="; ".join(_said(hit) for hit in found[:5]),
        mime_type=_MEDIA.get(document.content_type, f"text/x-{document.content_type}"),
        size=document.size,
        annotations=Annotations(
            audience=("user", "assistant"),
            priority=round(max(0.0, min(1.0, found[0].score)), 2),
            last_modified=_modified(document),
        ),
    )


def _said(hit: Hit) -> str:
    chunk = hit.stored.chunk
    about = ", ".join(chunk.symbols[:3]) or chunk.title
    return ": ".join(part for part in (chunk.lines and f"lines {chunk.lines}", about) if part)


def _modified(document: Document) -> str | None:
    if not document.modified_ns:
        return None
    return datetime.fromtimestamp(document.modified_ns / 1e9, UTC).isoformat(timespec="seconds")


_WHOLE = 450  # tokens of the best passage: nearly all passages are shorter
# Tokens of the following passages, and about how many characters of matching lines are shown of the rest.
_FULL = ((220, 220, 110, 110), 220)
_LEAN = ((220, 150), 140)  # in TOON
_A_RESULT, _USUAL = 115, 20  # average tokens of a result in TOON, and the default limit
_TOKENS_A_PIECE = 0.77  # pieces are known, and counting the tokens of each passage took a tenth of a search's time
# The same in an answer, and letters of a token beside passages.  Of 400 answers on four codebases the estimate is .93
# to 1.12 of the count for four in five of each; counting took .35 of the 2.5 ms that an answer takes beyond its search.
_A_PIECE, _A_TOKEN = 0.85, 3.2
_LONG = 160  # characters of a signature, a comment or a heading's path in TOON
_FURTHER = 3  # of a file's further passages in TOON
_NAMED = 4  # of a passage's symbols in TOON; a class lists every member
_OF_NOTICES = 100  # tokens reserved for notices about what is cut
_PLACES = 5  # omitted results that a notice names
# Results of a TOON answer that are shown even if they are 0% likely; later ones are only named.  Measured: 4 of the 275
# files that answer 192 questions over 14 repositories are among those, which take 23% of the places.
_SHOWN = 5
_MARKS = ("origin", "flagged")
_COLUMNS = ("path", "start_line", "end_line", "relevance_percent", "kind", "symbols")


def without_unlikely(hits: Sequence[Hit]) -> tuple[Sequence[Hit], list[str]]:
    """The hits whose passages a TOON answer shows, and a notice that names the rest."""
    likely = max(_SHOWN, sum(_percent(hit) > 0 for hit in hits))  # the best come first
    rest = [hit.stored for hit in hits[likely:]]
    if not rest:
        return hits, []
    named = (f"{one.document.path}:{one.chunk.lines}" if one.chunk.lines else one.document.path for one in rest)
    are = "result is" if len(rest) == 1 else "results are"
    return hits[:likely], [f"{len(rest)} more {are} unlikely (0%): {', '.join(named)}"]


def _percent(hit: Hit) -> int:
    return max(0, min(100, round(hit.score * 100)))


def result(
    hit: Hit, rank: int, form: str, terms: Sequence[str], stale: Collection[int], codebase: model.Collection
) -> Json:
    """A hit as the contract's object, with as much of its passage as its rank allows."""
    chunk, document = hit.stored.chunk, hit.stored.document
    enclosing = [part for part in chunk.breadcrumb if part != document.path]
    rooms, aim = _LEAN if form == "toon" else _FULL
    room = (_WHOLE, *rooms)[rank] if rank <= len(rooms) else 0
    first, content = _shown(hit, room, aim, terms)
    is_part = content != chunk.text
    last = first + content.count("\n") if is_part else chunk.end_line
    found: Json = {
        "path": document.path,
        **({"start_line": first, "end_line": last} if first else {}),
        "relevance_percent": _percent(hit),
        "kind": chunk.kind,
        "symbols": list(chunk.symbols),
    }
    comment = chunk.doc_comment
    optional = {
        "signature": chunk.signature,
        "breadcrumb": " > ".join(enclosing),
        "doc_comment": "" if all(line.strip() in chunk.text for line in comment.splitlines()) else comment,
    }
    found |= {key: value for key, value in optional.items() if value}
    if is_part:
        found["part_of_lines"] = chunk.lines
    if hit.more:
        found["more"] = [further(one) for one in hit.more]
    if hit.stored.id in stale:
        found |= {"stale": True, "indexed_at": indexed_at(document)}
    found |= marks(hit.stored, codebase)
    return {**found, "content": content}


def further(stored: StoredChunk) -> str:
    """A further passage of a hit's file in a few words: its lines and its title."""
    chunk = stored.chunk
    named = chunk.title or next((line.strip() for line in chunk.text.splitlines() if line.strip()), "")
    return f"{chunk.lines} {named[:60]}".strip()


def _shown(hit: Hit, room: int, aim: int, terms: Sequence[str]) -> tuple[int, str]:
    """The first line and the text to show: all of it, what fits around the match, or only the matching lines."""
    chunk = hit.stored.chunk
    if len(chunk.text) <= max(4 * room, aim) or (whole := chunk.tokens * _TOKENS_A_PIECE) <= room:
        return chunk.start_line, chunk.text
    lines = chunk.text.split("\n")
    matching, first = snippet(chunk.text, tuple(terms), aim)
    if not chunk.is_as_written or not room or max(map(len, lines)) > 4 * room:
        return chunk.start_line + first * chunk.is_as_written, matching
    # Lines cost what the passage's tokens cost on average: counting each took a fifth of a search's time.
    left = room * len(chunk.text) / whole - len(lines[first])
    last = first
    while left > 0 and (first > 0 or last < len(lines) - 1):
        if last < len(lines) - 1:
            last += 1
            left -= len(lines[last]) + 1
        if first > 0 and left > 0:
            first -= 1
            left -= len(lines[first]) + 1
    return chunk.start_line + first, "\n".join(lines[first : last + 1])


def render(
    form: str,
    body: Json,
    hits: Sequence[Hit],
    notices: Sequence[str],
    budget: int,
    meta: Json,
    links: Sequence[ResourceLink] = (),
) -> ToolAnswer:
    """The answer in the requested format, within the budget, with the structured content of that format.

    The results are those of the hits.
    """
    results: list[Json] = body["results"]
    rows = [_row(one) for one in results] if form == "toon" else results
    texts = [_rendered(form, number, one) for number, one in enumerate(rows, 1)]
    if form == "toon" and budget:
        budget = min(budget, _A_RESULT * max(_USUAL, len(results)))
    if budget:
        around = json.dumps([{**body, "results": []}, notices], ensure_ascii=False)
        budget = max(1, budget - tokens.count(around) - _OF_NOTICES)
    kept = affordable([*map(_cost, hits, results, texts)], budget)
    notices = [*notices, *_cut_short(results[:kept]), *_left_out(results[kept:])]
    body = {**body, "results": results[:kept]}
    if form == "json":
        return ToolAnswer.of_json({"format": "json", **body}, notices=notices, meta=meta, links=links[:kept])
    text = _toon(body, rows[:kept], notices) if form == "toon" else _human(body, texts[:kept], notices)
    return ToolAnswer(
        (Text(text), *links[:kept]), structured={"format": form, "output": text}, meta=noted(meta, notices)
    )


def _cost(hit: Hit, one: Json, text: str) -> float:
    """About how many tokens a rendered result has: its content as many as its passage, whose pieces are known."""
    if not text.isascii():
        return tokens.count_once(text)
    chunk, content = hit.stored.chunk, len(one["content"])
    return _A_PIECE * chunk.tokens * content / max(1, len(chunk.text)) + (len(text) - content) / _A_TOKEN


def _rendered(form: str, number: int, one: Json) -> str:
    if form == "json":
        return json.dumps(one, ensure_ascii=False)
    if form == "toon":
        return json.dumps(list(one.values()))
    about = f"{one['kind']} {', '.join(one['symbols'])}".strip()
    mark = f"  [stale: the file changed since {one['indexed_at']}]" if one.get("stale") else ""
    mark += "".join(f"  [{key}: {one[key]}]" for key in _MARKS if key in one)
    more = f"\nmore: {'; '.join(one['more'])}" if one.get("more") else ""
    head = f"{number}. {_place(one)}  {about}  {one['relevance_percent']}%{mark}"
    return f"\n{head}\n{one['content'].rstrip()}{more}"


def _place(one: Json) -> str:
    return f"{one['path']}:{one['start_line']}-{one['end_line']}" if "start_line" in one else str(one["path"])


def _cut_short(results: Sequence[Json]) -> list[str]:
    cut = sum("part_of_lines" in one for one in results)
    are = "is" if cut == 1 else "are"
    return [f"{cut} of the passages {are} cut to the lines around the match"] if cut else []


def _left_out(results: Sequence[Json]) -> list[str]:
    if not results:
        return []
    places = ", ".join(_place(one) for one in results[:_PLACES])
    return [f"{len(results)} more results left out to keep the answer short ({places}): narrow it by path_filter"]


def _row(one: Json) -> Json:
    """A result as a row of a table; optional columns only if the content does not already contain them."""
    content, symbols = one["content"], one["symbols"]
    names = [*symbols[:1], *(name.removeprefix(symbols[0]) for name in symbols[1:_NAMED])]
    if len(symbols) > _NAMED:
        names.append(f"+{len(symbols) - _NAMED}")
    signature, comment = one.get("signature", ""), one.get("doc_comment", "").partition("\n\n")[0]
    return {
        **{key: one.get(key) for key in _COLUMNS},  # a converted page may have no lines
        "symbols": " ".join(names),
        "signature": "" if signature.partition("(")[0] in content else signature[:_LONG],
        "breadcrumb": "" if symbols else one.get("breadcrumb", "")[-_LONG:],
        "doc_comment": "" if comment.partition("\n")[0] in content else comment[:_LONG],
        "more": "; ".join(one.get("more", ())[:_FURTHER]),
        "stale": f"since {one['indexed_at']}" if one.get("stale") else "",
        **{key: one.get(key, "") for key in _MARKS},
        "content": content,
    }


def _toon(body: Json, rows: Sequence[Json], notices: Sequence[str]) -> str:
    """The results as one TOON table, without columns that are empty in every row."""
    from toons import dumps

    optional = ("signature", "breadcrumb", "doc_comment", "more", "stale", *_MARKS)
    empty = {key for key in optional if not any(row[key] for row in rows)}
    table = [{key: value for key, value in row.items() if key not in empty} for row in rows]
    said = {"note": "; ".join(notices)} if notices else {}
    return dumps({**body, "results": table, **said})


def _human(body: Json, results: Sequence[str], notices: Sequence[str]) -> str:
    lines = [f"{body['total']} results for {body['query']!r} in {body['path']}"]
    if summary := body.get("summary"):
        lines += ["", summary, f"({body['answered_by']})"]
    lines += results
    if hint := body.get("hint"):
        lines += ["", hint]
    if follow_ups := body.get("follow_ups"):
        lines += ["", "Ask next: " + "; ".join(follow_ups)]
    return "\n".join([*lines, "", note_lines(notices)] if notices else lines)


# ── the statistics of index_codebase ──

_LISTED = 20  # files that an answer names
_OF_ONE_REASON = 5  # of these
_EXPECTED = (IGNORED, HIDDEN, "git's own", "empty file")  # counted, not listed
_DETAIL = re.compile(r":| \(| to (?!read)|\. ")  # what follows differs from file to file


def statistics(report: Report, folder: Path, desk: Desk) -> Json:
    """The counts of an index run and of the collection after it, and what was skipped."""
    stats = desk.stats(report.collection)
    return {
        "path": str(folder),
        "collection": report.collection,
        "files": stats.documents,
        "chunks": stats.chunks,
        "symbols": stats.symbols,
        "edges": stats.references,
        "written": report.written,
        "unchanged": report.unchanged,
        "moved": report.moved,
        "removed": report.removed,
        "skipped": len(report.skipped),
        "skipped_reasons": _counted(report.skipped),
        "skipped_files": _listed(_some_of_each(report.skipped)),
        "errors": _listed(report.errors),
        **({"errors_not_listed": len(report.errors) - _LISTED} if len(report.errors) > _LISTED else {}),
        **({"remarks": _listed(_some_of_each(report.remarks))} if report.remarks else {}),
        "seconds": round(report.seconds, 3),
    }


def _counted(skipped: Iterable[Skipped]) -> str:
    """The number of skipped files by reason, most first: "12 ignored by .gitignore, 3 not text by its name"."""
    reasons = Counter(_stem(one) for one in skipped)
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())


def _some_of_each(skipped: Iterable[Skipped]) -> list[Skipped]:
    """The first few of each unexpected reason, folders last; files skipped for their name are expected."""
    seen: Counter[str] = Counter()
    found: list[Skipped] = []
    for one in sorted(skipped, key=lambda one: one.path.endswith("/")):
        if one.reason.startswith(_EXPECTED) or (one.reason.startswith(LASTING) and not one.path.endswith("/")):
            continue
        stem = _stem(one)
        seen[stem] += 1
        if seen[stem] <= _OF_ONE_REASON:
            found.append(one)
    return found


def _stem(skipped: Skipped) -> str:
    return _DETAIL.split(skipped.reason, maxsplit=1)[0]


def _listed(left_out: Sequence[Skipped]) -> list[Json]:
    return [{"path": one.path, "reason": one.reason} for one in left_out[:_LISTED]]
