"""The docs contract: search_docs and get_doc over a documentation corpus with facets, and the files by facet."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from refdesk.desk.corpus import Corpus, docs_collections, read_metadata
from refdesk.errors import ChunkNotFound, InvalidCursor, InvalidInput, NotFound
from refdesk.library import Library
from refdesk.text import tokens
from refdesk.toolsets.content import (
    READ,
    ArgumentProblem,
    Json,
    ResourceContents,
    Text,
    TextErrors,
    ToolAnswer,
    fitting,
    icon,
)
from refdesk.toolsets.contract import CallContext, ResourceTemplate, Tool, ToolHints, Toolset
from refdesk.toolsets.docs_schemas import GET_DOC, SEARCH, SEARCH_ANSWER

# What only calls need is imported by them: the list of tools comes before it.
if TYPE_CHECKING:
    from refdesk.desk.desk import Desk
    from refdesk.model import Collection, Document, Hit, Query, StoredChunk

_OWN = ("query", "limit", "cursor")
_CHUNK_ID = re.compile(r"[^#\s][^#]*(?:#[^#\s]+)?")
_NAMED = 30  # chunks of a file that an error names
_SAFE = "/!$&'()*+,;=:@-._~[]{}|^`\"<>\\"


def docs_toolset(desk: Callable[[], Desk], library: Library) -> Toolset:
    """The two tools; search_docs has one argument per facet and changes with metadata.json."""
    docs = Docs(desk, library)
    get_doc = Tool(
        name="get_doc",
        title="Read documentation",
        description="Retrieve the full content of a specific documentation chunk using its chunk_id. You can optionally"
        " request surrounding context within the same file.",
        input_schema=GET_DOC,
        handler=docs.get,
        hints=ToolHints(read_only=True, idempotent=True),
        error_style=_ERRORS,
        icons=icon("read"),
    )
    templates = (facet_template(desk, lambda: docs.corpus),)
    return Toolset(name="docs", tools=(docs.tool(), get_doc), templates=templates, poll=docs.changed_tools)


class Docs:
    """The handlers of the docs tools."""

    def __init__(self, desk: Callable[[], Desk], library: Library) -> None:
        self._desk = desk
        self._library = library
        self._stamp = self._read_stamp()
        self.corpus = read_metadata(library)

    def tool(self) -> Tool:
        """search_docs with the current taxonomy."""
        return Tool(
            name="search_docs",
            title="Search documentation",
            description=f"Search the {self.corpus.description}. Use this to find relevant documentation, guides, or"
            " API references.",
            input_schema=search_schema(self.corpus),
            output_schema=SEARCH_ANSWER,
            handler=self.search,
            hints=ToolHints(read_only=True, idempotent=True),
            error_style=_ERRORS,
            icons=icon("search"),
        )

    def changed_tools(self) -> Sequence[Tool]:
        """search_docs again, if metadata.json changed."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return ()
        self._stamp = stamp
        before, self.corpus = self.corpus, read_metadata(self._library)
        return () if self.corpus == before else (self.tool(),)

    def search(self, arguments: Json, context: CallContext) -> ToolAnswer:
        """One page of hits, or a hint on what to try instead."""
        from refdesk.desk.fresh import stale_hits, stale_notes
        from refdesk.model import Filters, Query
        from refdesk.text.untrusted import mark_notices

        text = arguments["query"]
        if not text.strip():
            raise InvalidInput("query must not be empty.", "Say what to look for, e.g. 'how to paginate'.")
        views = docs_collections(self._desk())
        chosen = {key: value for key, value in arguments.items() if key not in _OWN}
        query = Query(
            text=text,
            filters=Filters(
                collections=tuple(one.name for one in views),
                metadata=tuple((key, (value,)) for key, value in chosen.items()),
            ),
            limit=arguments.get("limit", 10),
        )
        if not views:
            roots = [one.root for one in self._desk().collections() if one.kind == "code" and one.root]
            beside = _CODEBASES.format(", ".join(roots[:3]), roots[0]) if roots else ""
            return _answer([], None, {"message": _EMPTY + beside, "suggested_filters": {}})
        if given := arguments.get("cursor"):
            query = replace(query, offset=decode_cursor(given, query, self._desk().sequence()))
        page = self._desk().search(query)
        hits = [self._hit(hit, views) for hit in page.hits]
        texts = [json.dumps(one, ensure_ascii=False) for one in hits]
        kept = fitting(texts, self._desk().settings.max_answer_tokens)
        has_more = page.more or kept < len(hits)
        following = encode_cursor(query, page.state, query.offset + kept) if has_more else None
        hint = None if hits or query.offset else self._hint(query, chosen)
        left_out = [f"{len(hits) - kept} more hits: next_cursor leads to them"] if kept < len(hits) else []
        shown = page.hits[:kept]
        stale = stale_notes(shown, stale_hits(self._desk(), shown))
        marked = mark_notices([hit.stored for hit in shown], views)
        return _answer(hits[:kept], following, hint, (*page.notes, *stale, *marked, *left_out))

    def get(self, arguments: Json, context: CallContext) -> ToolAnswer:
        """The chunk and its neighbours, each under its delimiter."""
        from refdesk.text.untrusted import mark_notices

        chunk_id = arguments["chunk_id"]
        if not _CHUNK_ID.fullmatch(chunk_id):
            raise InvalidInput(
                f"Chunk ID '{chunk_id}' is not valid: expected '{{filepath}}' or '{{filepath}}#{{heading-path}}'.",
                "Use search_docs to discover valid chunk IDs.",
            )
        path, _, key = chunk_id.partition("#")
        chunks = self._chunks(unquote(path))
        target = next((at for at, one in enumerate(chunks) if one.chunk.key == key), None)
        if target is None:
            advice = "Use search_docs to discover valid chunk IDs."
            if chunks and not key:  # a file in several chunks: an agent knows its path from a hit
                rest = f" and {len(chunks) - _NAMED} more" if len(chunks) > _NAMED else ""
                advice += f" The file has #{', #'.join(one.chunk.key for one in chunks[:_NAMED])}{rest}."
            raise ChunkNotFound(f"Chunk ID '{chunk_id}' not found.", advice)
        reach = arguments.get("context", 0)
        shown = chunks[max(0, target - reach) : target + reach + 1]
        text = "\n\n".join(self._delimited(one, chunks, target) for one in shown)
        size = tokens.count(text) if len(text) > READ else 0
        answer = ToolAnswer.of_text(text, notices=mark_notices(shown, docs_collections(self._desk()), "chunk"))
        return (
            replace(answer, content=(Text(f"note: {size} tokens follow"), *answer.content)) if size > READ else answer
        )

    def _delimited(self, one: StoredChunk, chunks: Sequence[StoredChunk], target: int) -> str:
        at = one.position
        role = "Target" if one is chunks[target] else f"Context: {at - chunks[target].position:+d}"
        name = self._chunk_id(one, docs_collections(self._desk()))
        return f"--- Chunk: {name} (Chunk {at + 1} of {len(chunks)}) ({role}) ---\n{one.chunk.text.strip()}"

    def _chunks(self, path: str) -> list[StoredChunk]:
        """The chunks of the first docs collection that has the path, or of the one named at its start."""
        views = docs_collections(self._desk())
        for view in views:
            if document := self._desk().document_by_path(view.name, path):
                return self._desk().chunks_of(document.id)
        name, _, inner = path.partition("/")
        if any(view.name == name for view in views) and (document := self._desk().document_by_path(name, inner)):
            return self._desk().chunks_of(document.id)
        return []

    def _chunk_id(self, stored: StoredChunk, views: Sequence[Collection]) -> str:
        path = quote(self._shown_path(stored.document, views), safe=_SAFE + _non_ascii(stored.document.path))
        return f"{path}#{stored.chunk.key}" if stored.chunk.key else path

    def _shown_path(self, document: Document, views: Sequence[Collection]) -> str:
        """The path; with its collection's name before it if an earlier docs collection has the same path."""
        for view in views:
            if view.name == document.collection:
                return document.path
            if self._desk().document_by_path(view.name, document.path):
                return f"{document.collection}/{document.path}"
        return document.path

    def _hit(self, hit: Hit, views: Sequence[Collection]) -> Json:
        chunk, document = hit.stored.chunk, hit.stored.document
        facets = {key: chunk.metadata.get(key, document.metadata.get(key)) for key in self.corpus.taxonomy}
        return {
            "chunk_id": self._chunk_id(hit.stored, views),
            "score": round(hit.score, 4),
            "heading": chunk.title or document.title,
            "breadcrumb": " > ".join(chunk.breadcrumb) or document.title,
            "snippet": hit.snippet,
            "filepath": document.path,
            "metadata": {key: _text_of(value) for key, value in facets.items() if value is not None},
        }

    def _hint(self, query: Query, chosen: Json) -> Json:
        if chosen:
            named = ", ".join(f"{key} '{value}'" for key, value in chosen.items())
            suggested = suggested_filters(self._desk(), query)
            useful = {key: values for key, values in suggested.items() if values}
            then = "Try one of suggested_filters." if useful else "Try other words or fewer filters."
            return {"message": f"0 results found for {named}. {then}", "suggested_filters": useful}
        near = self._desk().nearest_words(query)
        then = f"Known terms spelt alike: {', '.join(near)}." if near else "Try other words."
        return {"message": f"0 results found for '{query.text[:100]}'. {then}", "suggested_filters": {}}

    def _read_stamp(self) -> tuple[int, int]:
        try:
            stat = self._library.metadata.stat()
        except OSError:
            return (0, 0)
        return (stat.st_mtime_ns, stat.st_size)


def search_schema(corpus: Corpus) -> Json:
    """The contract's input schema with one optional argument per facet."""
    facets = {
        key: {
            "type": "string",
            "description": facet.description or f"Filter results by {key}.",
            "enum": list(facet.values),
        }
        for key, facet in corpus.taxonomy.items()
        if key not in _OWN
    }
    return {**SEARCH, "properties": {**SEARCH["properties"], **facets}}


def _answer(hits: list[Json], following: str | None, hint: Json | None, notes: Sequence[str] = ()) -> ToolAnswer:
    return ToolAnswer.of_json({"hits": hits, "next_cursor": following, "hint": hint}, notices=notes, closed=True)


# ── cursors ──

_NEXT = "Omit cursor to start again from the first page."


def encode_cursor(query: Query, state: int, offset: int) -> str:
    """A cursor for the page at `offset`, bound to the query, its filters and the record's state."""
    body = f"{offset}.{state}"
    return base64.urlsafe_b64encode(f"{body}.{_seal(query, body)}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str, query: Query, state: int) -> int:
    """The offset in a cursor; raises InvalidCursor if it belongs to another query, was altered or is stale."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        offset, made_at, seal = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").split(".")
        position, made = int(offset), int(made_at)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor("The cursor is malformed.", _NEXT) from error
    if seal != _seal(query, f"{offset}.{made_at}"):
        raise InvalidCursor("The cursor belongs to another query or other filters, or was altered.", _NEXT)
    if made != state:
        raise InvalidCursor("The cursor is stale: the index changed since that page.", _NEXT)
    return position


def _seal(query: Query, body: str) -> str:
    bound = json.dumps([body, query.text, query.alpha, query.fusion, query.exact, repr(query.filters)])
    return hashlib.blake2b(bound.encode(), digest_size=9).hexdigest()


# ── facets ──


def _text_of(value: object) -> str:
    from refdesk.model import metadata_text

    return metadata_text(value)


_LOOKED_AT = 50  # hits whose values are suggested


def suggested_filters(desk: Desk, query: Query) -> dict[str, list[str]]:
    """For each metadata filter of the query, the values that would give hits with the other filters unchanged."""
    suggested: dict[str, list[str]] = {}
    for key, refused in query.filters.metadata:
        others = tuple(one for one in query.filters.metadata if one[0] != key)
        wider = replace(query, filters=replace(query.filters, metadata=others), limit=_LOOKED_AT, offset=0)
        values: Counter[str] = Counter()
        for hit in desk.engine.search(wider).hits:
            stored = hit.stored
            value = stored.chunk.metadata.get(key, stored.document.metadata.get(key))
            if value is not None and _text_of(value) not in refused:
                values[_text_of(value)] += 1
        suggested[key] = [value for value, _ in sorted(values.items(), key=lambda one: (-one[1], one[0]))]
    return suggested


_LISTED = 500  # files of a facet in one answer
_PAGE = 1_000  # documents that are read at a time


def facet_template(desk: Callable[[], Desk], corpus: Callable[[], Corpus]) -> ResourceTemplate:
    """The resource template `docs://facets/{facet}/{value}`; `corpus` returns the current taxonomy."""

    def facets(typed: str, settled: Mapping[str, str]) -> Sequence[str]:
        return [key for key in corpus().taxonomy if key.startswith(typed)]

    def values(typed: str, settled: Mapping[str, str]) -> Sequence[str]:
        chosen = corpus().taxonomy.get(settled.get("facet", ""))
        return [one for one in chosen.values if one.lower().startswith(typed.lower())] if chosen else []

    def read(variables: Mapping[str, str], context: CallContext) -> ResourceContents:
        facet, value = variables["facet"], variables["value"]
        known = corpus().taxonomy.get(facet)
        if known is None or value not in known.values:
            raise NotFound(f"No documentation has {facet} '{value}'.", "Complete the template to see what there is.")
        files = _files(desk(), facet, value)
        body = {"facet": facet, "value": value, "total": len(files), "files": files[:_LISTED]}
        uri = f"docs://facets/{facet}/{value}"
        return ResourceContents(uri=uri, mime_type="application/json", text=json.dumps(body, ensure_ascii=False))

    return ResourceTemplate(
        uri_template="docs://facets/{facet}/{value}",
        name="facet",
        title="Documentation by facet",
        description="The files that carry a value of a facet",
        mime_type="application/json",
        read=read,
        complete={"facet": facets, "value": values},
    )


def _files(desk: Desk, facet: str, value: str) -> list[str]:
    found: list[str] = []
    for collection in docs_collections(desk):
        offset = 0
        while listed := desk.documents(collection.name, _PAGE, offset):
            found += [one.path for one in listed if _text_of(one.metadata.get(facet, "")) == value]
            offset += len(listed)
    return found


# ── words ──


def _non_ascii(path: str) -> str:
    return "".join(character for character in path if not character.isascii())


def _words(problem: ArgumentProblem) -> str | None:
    if problem.kind == "missing" and problem.argument == "query":
        return "query is required. Say what to look for, e.g. 'how to paginate'."
    return None


_EMPTY = "The library has no documentation yet. Run `refdesk index DOCS --kind docs`."
_CODEBASES = (
    " Documentation of indexed codebases ({0}) is searched by naming one as `path`, where the code tools are on, or"
    " after `refdesk index {1} --kind docs --name docs`."
)
_ERRORS = TextErrors(words=_words)
