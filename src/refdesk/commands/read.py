"""`get`, `grep` and `research`: read documents, find a regular expression, follow relations in code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click

from refdesk.commands.desk import (
    bar_on_stderr,
    collections_here,
    desk_from,
    json_option,
    on_one_line,
    print_json,
    settings_from,
    shown,
)
from refdesk.commands.skills import show as show_playbook
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import changed_content, indexed_at
from refdesk.desk.machine import local_file
from refdesk.desk.reading import has_own_lines
from refdesk.errors import InvalidInput, NotFound
from refdesk.model import Document, StoredChunk
from refdesk.text.globs import path_filter

_LINES = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)
_PAGE = 500  # documents per listing
_LONGEST = 400  # characters of a line that `grep` prints
# Anchors that match differently in a whole text than in a line.
_OF_A_TEXT = re.compile(rb"\\[Az]|\(\?[a-zA-Z]*-[a-zA-Z]*m")
_MEMORY = 64 << 20  # bytes for a compiled pattern and its automata


# --- get ---------------------------------------------------------------------------------------------


@click.command()
@click.argument("target", metavar="ID-or-PATH[:LINES]")
@click.option("--collection", default="", help="Look only there, where several have such a path.")
@json_option
@click.pass_context
def get(context: click.Context, target: str, collection: str, as_json: bool) -> None:
    """Print a document as the library has it.

    It is named by its id, its path (relative to its collection, or as a file), its address, a section's id
    (guide.md#retries) or a playbook's id. Lines go behind it: app/pay.py:10-40.
    """
    with desk_from(context) as desk:
        document, first, last = _named(desk, target, collection)
        if document is None:
            context.invoke(show_playbook, skill_id=target, version=None, as_json=as_json)
            return
        chunks = desk.chunks_of(document.id)
        raw = desk.raw(document.id)
        others = desk.machine_notes([desk.collection(document.collection)]) if local_file(document) else ()
    for note in others:
        click.echo(f"note: {note}", err=True)
    changed = None if others else changed_content(document)
    if changed is not None:
        when = indexed_at(document)
        click.echo(f"note: the file changed or went since {when}; this is the text that was indexed.", err=True)
    text, first, last = _cut(document, raw, chunks, target.partition("#")[2], first, last)
    if as_json:
        of_document = ("id", "collection", "path", "uri", "title", "content_type")
        about = {name: getattr(document, name) for name in of_document}
        state = {"indexed_at": indexed_at(document), "stale": changed is not None}
        print_json({**about, **state, "start_line": first or None, "end_line": last or None, "text": text})
    else:
        click.echo(shown(text), nl=not text.endswith("\n"))


def _named(desk: Desk, target: str, collection: str) -> tuple[Document | None, int, int]:
    """The document and its line range (0, 0 for all); no document if the target may be a playbook's id."""
    if found := _document(desk, target, collection):
        return found, 0, 0
    if (lined := _LINES.fullmatch(target)) and (found := _document(desk, lined[1], collection)):
        first = int(lined[2])
        last = int(lined[3] or first)
        if not 0 < first <= last:
            raise InvalidInput(f"{target} names no lines.", "Count from 1, the first one first: app/pay.py:10-40.")
        return found, first, last
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", target):
        return None, 0, 0
    there = f" in {collection}" if collection else ""
    raise NotFound(f"There is no document {target}{there}.", "`refdesk documents NAME` lists a collection's.")


def _document(desk: Desk, name: str, collection: str) -> Document | None:
    if collection:
        desk.collection(collection)
    path = name.partition("#")[0]
    if found := desk.document(name) or desk.document_by_uri(name, collection):
        return found
    if not collection and (found := desk.why(Path(path))[1]):
        return found
    names = [collection] if collection else [one.name for one in desk.collections()]
    before, _, inner = path.partition("/")
    if before in names and (found := desk.document_by_path(before, inner)):
        return found
    several = [one for each in names if (one := desk.document_by_path(each, path))]
    if len(several) > 1:
        which = ", ".join(one.collection for one in several)
        raise InvalidInput(f"{path} is in several collections: {which}.", "Say which with --collection.")
    return several[0] if several else None


def _cut(
    document: Document, raw: str, chunks: Sequence[StoredChunk], key: str, first: int, last: int
) -> tuple[str, int, int]:
    """The requested part of the text and its line range."""
    if key and not first:
        section = next((one.chunk for one in chunks if one.chunk.key == key), None)
        if section is None:
            some = ", ".join(one.chunk.key for one in chunks[:20])
            raise NotFound(f"{document.path} has no section {key}.", f"It has {some}.")
        return section.text, section.start_line, section.end_line
    if not first:
        return raw, 0, 0
    rows = raw.removesuffix("\n").split("\n")
    if not has_own_lines(raw, chunks):  # converted: only the passages know the lines of the source
        met = [one.chunk for one in chunks if one.chunk.start_line and one.chunk.start_line <= last]
        met = [one for one in met if one.end_line >= first]
        if met:
            return "\n\n".join(one.text for one in met), met[0].start_line, met[-1].end_line
        raise NotFound(f"{document.path} has no text in these lines.", "Leave them out to read all of it.")
    if first > len(rows):
        raise NotFound(f"{document.path} has {len(rows)} lines.", "Ask for some of these.")
    return "\n".join(rows[first - 1 : last]), first, min(last, len(rows))


# --- grep --------------------------------------------------------------------------------------------


@click.command()
@click.argument("pattern")
@click.option("--collection", multiple=True, help="Look only there; may be repeated.")
@click.option("--all", "everywhere", is_flag=True, help="Also outside of this folder's collection.")
@click.option("--path", multiple=True, metavar="GLOB", help="Only files whose relative path matches.")
@click.option("-i", "--ignore-case", is_flag=True)
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="Lines at most.")
@json_option
@click.pass_context
def grep(
    context: click.Context,
    pattern: str,
    collection: tuple[str, ...],
    everywhere: bool,
    path: tuple[str, ...],
    ignore_case: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Find the regular expression PATTERN (RE2 syntax) in indexed lines, in linear time."""
    matches = _compiled(pattern, ignore_case)
    globs = [path_filter(one) for one in path]
    with desk_from(context) as desk:
        names = collections_here(desk, collection, everywhere=everywhere) or tuple(
            one.name for one in desk.collections()
        )
        found: list[dict[str, Any]] = []
        pages = ((name, at) for name in names for at in range(0, desk.count_documents(name), _PAGE))
        for document in (one for name, at in pages for one in desk.documents(name, _PAGE, at)):
            if globs and not any(one.fullmatch(document.path) for one in globs):
                continue
            found += _lines(desk, document, matches, limit + 1 - len(found))
            if len(found) > limit:
                break
    if as_json:
        print_json({"pattern": pattern, "lines": found[:limit], "more": len(found) > limit})
        return
    for one in found[:limit]:
        place = f"{one['collection']}/{one['path']}" if len(names) > 1 else one["path"]
        number = f":{one['line']}" if one["line"] else ""
        click.echo(f"{on_one_line(place)}{number}:{shown(one['text'])}")
    if len(found) > limit:
        click.echo(f"There are more: --limit {2 * limit} shows them, --path and --collection narrow it.", err=True)
    elif not found:
        click.echo("No results found.", err=True)


def _compiled(pattern: str, ignore_case: bool) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(f"(?m){pattern}".encode(), options)
    except re2.error as error:
        said = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise InvalidInput(
            f"{pattern!r} is not a regular expression here: {said}.",
            "The syntax is RE2's: no backreferences and no lookaround, so that no pattern takes long.",
        ) from error


def _lines(desk: Desk, document: Document, matches: Any, most: int) -> list[dict[str, Any]]:
    """The matching lines as `--json` prints them; those of a converted document have no numbers."""
    raw = desk.raw(document.id)
    data = raw.encode()
    # Search the whole text first: most have no match and need not be split into lines.
    if not _OF_A_TEXT.search(matches.pattern) and not matches.search(data):
        return []
    numbered = ((number, row) for number, row in enumerate(data.split(b"\n"), 1) if matches.search(row))
    found = [(number, row.decode()) for number, row in islice(numbered, most)]
    is_placed = bool(found) and has_own_lines(raw, desk.chunks_of(document.id))
    return [
        {
            "collection": document.collection,
            "path": document.path,
            "line": number if is_placed else None,
            "text": row if len(row) <= _LONGEST else f"{row[:_LONGEST]} …",
            "document_id": document.id,
        }
        for number, row in found
    ]


# --- research ----------------------------------------------------------------------------------------


@click.command()
@click.argument("question")
@click.option("--path", default="", help="A folder in an indexed one, or a collection's name; this folder by default.")
@click.option("--depth", type=click.IntRange(1, 5), default=2, show_default=True, help="Hops from where it starts.")
@click.option("--focus", type=click.Choice(["architecture", "dependencies", "patterns", "flow"]))
@json_option
@click.pass_context
def research(context: click.Context, question: str, path: str, depth: int, focus: str | None, as_json: bool) -> None:
    """Answer QUESTION about a codebase as the tool code_research does: "what calls handle_login"."""
    from refdesk.app import make_toolsets
    from refdesk.toolsets.contract import DirectContext

    if not path:
        with desk_from(context) as desk:
            local = [one.name for one in desk.collections() if one.kind == "code"]
            path = "." if collections_here(desk, (), quietly=True) or len(local) != 1 else local[0]
    (toolset,) = make_toolsets(replace(settings_from(context), toolsets=("code",)))
    arguments = {"query": question, "path": path, "depth": depth, **({"focus": focus} if focus else {})}
    try:
        with bar_on_stderr("researching") as tell:
            call = DirectContext(lambda done, total, what: tell(int(done), int(total or 0), what or ""))
            (handler,) = (tool.handler for tool in toolset.tools if tool.name == "code_research")
            answer = handler(arguments, call)
    finally:
        if toolset.close is not None:
            toolset.close()
    body: dict[str, Any] = dict(answer.structured or {})
    if as_json:
        print_json(body)
        return
    click.echo(shown(body["summary"]))
    for title, lines in body.get("sections", {}).items():
        click.echo(f"\n{title}:")
        for line in lines:
            click.echo(f"  {shown(line)}")
    if not body.get("sections"):
        for one in body["findings"]:
            click.echo(f"  {shown(one['symbol'])} ({on_one_line(one['path'])}:{one['line']}) {one['relationship']}")
    for notice in body.get("notices", ()):
        click.echo(f"note: {notice}", err=True)
