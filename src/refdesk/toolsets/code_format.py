"""How does a list of hits read?  TOON, JSON or plain text, within a budget of tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from refdesk import tokens
from refdesk.fresh import indexed_at
from refdesk.model import Hit, StoredChunk
from refdesk.toolsets.contract import Json, ResourceLink, Text, ToolAnswer, note_lines, noted

_LONG = 1_000  # tokens of one passage: a table or a fence that nothing cut


def result(hit: Hit, stale: Collection[int]) -> Json:
    """A hit with every field of the contract that it has; of a very long one, the lines around the match."""
    chunk, document = hit.stored.chunk, hit.stored.document
    enclosing = [part for part in chunk.breadcrumb if part != document.path]
    first, content = _around_match(hit)
    is_part = content != chunk.text
    last = first + content.count("\n") if is_part else chunk.end_line
    found: Json = {
        "path": document.path,
        **({"start_line": first, "end_line": last} if first else {}),
        "relevance_percent": max(0, min(100, round(hit.score * 100))),
        "kind": chunk.kind,
        "symbols": list(chunk.symbols),
    }
    optional = {
        "signature": chunk.signature,
        "breadcrumb": " > ".join(enclosing),
        "doc_comment": "" if _is_in(chunk.doc_comment, chunk.text) else chunk.doc_comment,
    }
    found |= {key: value for key, value in optional.items() if value}
    if is_part:
        found["part_of_lines"] = chunk.lines
    if hit.more:
        found["more"] = [further(one) for one in hit.more]
    if hit.stored.id in stale:
        found |= {"stale": True, "indexed_at": indexed_at(document)}
    return {**found, "content": content}


def further(stored: StoredChunk) -> str:
    """A further passage of a hit's file in a few words: its lines and what it is called."""
    chunk = stored.chunk
    named = chunk.title or next((line.strip() for line in chunk.text.splitlines() if line.strip()), "")
    return f"{chunk.lines} {named[:60]}".strip()


def _around_match(hit: Hit) -> tuple[int, str]:
    """The first line and the text to show: all of it, or what fits around the lines that were found."""
    chunk = hit.stored.chunk
    lines = chunk.text.split("\n")
    if not chunk.is_as_written or len(chunk.text) < _LONG or tokens.count(chunk.text) <= _LONG:
        return chunk.start_line, chunk.text
    first = last = max(0, min(hit.snippet_line - chunk.start_line, len(lines) - 1))
    used = tokens.count(lines[first])
    while used < _LONG and (first > 0 or last < len(lines) - 1):
        if last < len(lines) - 1:
            last += 1
            used += tokens.count(lines[last])
        if first > 0 and used < _LONG:
            first -= 1
            used += tokens.count(lines[first])
    return chunk.start_line + first, "\n".join(lines[first : last + 1])


def _is_in(comment: str, text: str) -> bool:
    """Whether the text says the comment already, marks aside."""
    return all(line.strip() in text for line in comment.splitlines())


def within(results: Sequence[Json], budget: int) -> tuple[list[Json], list[str]]:
    """The results that fit the budget, best first, at least one; and a notice of what is left out."""
    kept: list[Json] = []
    used = 0
    for one in results:
        used += tokens.count(json.dumps(one, ensure_ascii=False))
        if budget and kept and used > budget:
            break
        kept.append(one)
    missing = results[len(kept) :]
    if not missing:
        return kept, []
    places = ", ".join(_place(one) for one in missing[:5])
    return kept, [f"{len(missing)} more results left out to keep the answer short: {places}"]


def render(form: str, body: Json, notices: Sequence[str], meta: Json, links: Sequence[ResourceLink] = ()) -> ToolAnswer:
    """The answer in the format asked for, its structured content as the format demands."""
    if form == "json":
        return ToolAnswer.of_json({"format": "json", **body}, notices=notices, meta=meta, links=links)
    if form == "toon":
        text = _toon({**body, "note": "; ".join(notices)} if notices else body)
    else:
        text = "\n".join([_human(body), "", note_lines(notices)] if notices else [_human(body)])
    return ToolAnswer((Text(text), *links), structured={"format": form, "output": text}, meta=noted(meta, notices))


def _toon(body: Json) -> str:
    from toon_format import encode

    text: str = encode(body)
    return text


def _place(one: Json) -> str:
    return f"{one['path']}:{one['start_line']}-{one['end_line']}" if "start_line" in one else str(one["path"])


def _human(body: Json) -> str:
    lines = [f"{body['total']} results for {body['query']!r} in {body['path']}"]
    if summary := body.get("summary"):
        lines += ["", summary, f"({body['answered_by']})"]
    for number, one in enumerate(body["results"], 1):
        about = f"{one['kind']} {', '.join(one['symbols'])}".strip()
        mark = f"  [stale: the file changed since {one['indexed_at']}]" if one.get("stale") else ""
        lines += ["", f"{number}. {_place(one)}  {about}  {one['relevance_percent']}%{mark}", one["content"].rstrip()]
        if one.get("more"):
            lines.append("more: " + "; ".join(one["more"]))
    if hint := body.get("hint"):
        lines += ["", hint]
    if follow_ups := body.get("follow_ups"):
        lines += ["", "Ask next: " + "; ".join(follow_ups)]
    return "\n".join(lines)
