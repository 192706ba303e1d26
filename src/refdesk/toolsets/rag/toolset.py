"""The rag contract: collections, ingestion, search."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refdesk import errors
from refdesk.system import memory
from refdesk.text import tokens
from refdesk.toolsets.content import LISTED, TOGETHER, CodedErrors, Json, ToolAnswer, fitting, icon, shown
from refdesk.toolsets.contract import CallContext, Handler, Tool, ToolHints, Toolset
from refdesk.toolsets.rag import schemas
from refdesk.toolsets.rag.resources import Notices, resources, templates

# What only calls need is imported by them: the list of tools comes before it.
if TYPE_CHECKING:
    from refdesk.desk.desk import Desk
    from refdesk.model import Hit, Query

_NAMED = 5  # files left out of an ingest that the answer names
_WHOLE = "rag://documents/{source} has them whole"
# Further hits, to replace near-duplicates; with more, the engine reads more than the 48 passages that it ranks closely.
_SPARE = 6
# The first class an error belongs to decides its code.
_CODES: tuple[tuple[type[errors.RefdeskError], str], ...] = (
    (errors.CollectionNotFound, "COLLECTION_NOT_FOUND"),
    (errors.DocumentNotFound, "DOCUMENT_NOT_FOUND"),
    (errors.CollectionExists, "COLLECTION_EXISTS"),
    (errors.InvalidUri, "INVALID_URI"),
    (errors.Forbidden, "INVALID_URI"),
    (errors.TooLarge, "TEXT_TOO_LONG"),
    (errors.LoadFailed, "LOAD_FAILED"),
    (errors.ParseFailed, "LOAD_FAILED"),
    (errors.EmbeddingError, "EMBEDDING_ERROR"),
    (errors.InvalidInput, "INVALID_ARGUMENT"),
    (errors.NotFound, "DOCUMENT_NOT_FOUND"),
)


_TOLD = {  # name: title, icon, description
    "rag_search": (
        "Search the knowledge base",
        "search",
        "Search the knowledge base using hybrid semantic and keyword search.",
    ),
    "rag_ingest": ("Ingest a document", "add", "Ingest a document into the knowledge base."),
    "rag_delete": ("Delete a document", "remove", "Delete a document from the knowledge base."),
    "rag_list_collections": ("List collections", "list", "List all collections in the knowledge base."),
    "rag_list_documents": ("List documents", "list", "List documents in a collection."),
    "rag_create_collection": ("Create a collection", "add", "Create a new collection."),
    "rag_stats": ("Knowledge base statistics", "count", "Get statistics about the knowledge base."),
}


def code_of(error: errors.RefdeskError) -> str:
    """The contract's code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "DATABASE_ERROR")


def rag_toolset(desk: Callable[[], Desk]) -> Toolset:
    """The seven rag_* tools and the rag:// resources over one library."""
    rag = _Rag(desk)
    reads, writes = ToolHints(read_only=True, idempotent=True), rag.notices.for_writer

    def tool(name: str, handler: Handler, hints: ToolHints, **more: Any) -> Tool:
        title, picture, description = _TOLD[name]
        schema, answer = schemas.BY_TOOL[name]
        return Tool(
            name=name,
            title=title,
            description=description,
            icons=icon(picture),
            input_schema=schema,
            output_schema=answer,
            handler=handler,
            hints=hints,
            error_style=CodedErrors(code_of=code_of),
            fill_defaults=False,
            **more,
        )

    ingests = ToolHints(read_only=False, idempotent=True, open_world=True)
    tools = (
        tool("rag_search", rag.search, reads),
        tool("rag_ingest", writes(rag.ingest), ingests, task_support="optional"),
        tool("rag_delete", writes(rag.delete), ToolHints(read_only=False, destructive=True)),
        tool("rag_list_collections", rag.list_collections, reads),
        tool("rag_list_documents", rag.list_documents, reads),
        tool("rag_create_collection", writes(rag.create_collection), ToolHints(read_only=False)),
        tool("rag_stats", rag.stats, reads),
    )
    return Toolset(
        name="rag",
        tools=tools,
        resources=lambda: resources(desk),
        templates=templates(desk),
        attach=rag.notices.attach,
        poll=rag.notices.poll,
    )


class _Rag:
    """Arguments in, the contract's shapes out."""

    def __init__(self, desk: Callable[[], Desk]) -> None:
        self._desk = desk
        self.notices = Notices(desk)

    def search(self, arguments: Json, context: CallContext) -> ToolAnswer:
        from refdesk.desk.fresh import stale_hits, stale_notes
        from refdesk.model import Filters, Query
        from refdesk.text.untrusted import marks

        text = arguments["query"]
        if not text.strip():
            raise errors.InvalidInput("query must not be empty.", "Say what to look for.")
        name, known = arguments.get("collection"), {one.name: one for one in self._desk().collections()}
        chosen = (known.get(name) or self._desk().collection(name)).search if name else None
        top_k = arguments.get("top_k", chosen.top_k if chosen else 10)
        hybrid = arguments.get("hybrid", chosen.hybrid if chosen else True)
        query = Query(
            text=text,
            filters=Filters(collections=(name,) if name else ()),
            limit=top_k + _SPARE,
            alpha=chosen.alpha if chosen else None,
        )
        hits, notes = self._hybrid(query) if hybrid else self._keywords(query)
        distinct, collapsed = without_near_duplicates(hits, text, top_k)
        tokens.count.know([hit.stored.chunk.text for hit in distinct[:TOGETHER]], tokens.count_each)
        stale = stale_hits(self._desk(), distinct)

        def write(rank: int, hit: Hit, is_whole: bool) -> Json:
            return _result(rank, hit, stale, is_whole, marks(hit.stored, known.get(hit.stored.document.collection)))

        results, cut = shown(distinct, write, self._desk().settings.max_answer_tokens, _WHOLE)
        notices = [*notes, *stale_notes(distinct[: len(results)], stale), *cut]
        if collapsed:
            notices.append(f"{collapsed} results nearly the same as a better one are left out")
        answer = {"query": text, "total_results": len(results), "results": results}
        return ToolAnswer.of_json(answer, notices=notices)

    def _hybrid(self, query: Query) -> tuple[Sequence[Hit], Sequence[str]]:
        page = self._desk().search(query) if query.filters else self._desk().search_everything(query)
        return page.hits, page.notes

    def _keywords(self, query: Query) -> tuple[Sequence[Hit], Sequence[str]]:
        """Passages that contain the exact query first, then other keyword matches."""
        literal = self._desk().search(replace(query, alpha=0.0, exact=True))
        exact = literal.hits
        if len(exact) >= query.limit:
            return exact, literal.notes
        seen = {hit.stored.id for hit in exact}
        lowest = exact[-1].score if exact else 1.0
        by_words = self._desk().search(replace(query, alpha=0.0))
        others = [hit for hit in by_words.hits if hit.stored.id not in seen]
        capped = [replace(hit, score=min(hit.score, lowest)) for hit in others[: query.limit - len(exact)]]
        return [*exact, *capped], by_words.notes

    def ingest(self, arguments: Json, context: CallContext) -> ToolAnswer:
        from refdesk.ingest.prepare import Progress

        uri, name = arguments["uri"], arguments["collection"]
        if self._desk().find_collection(name) is None:
            known = ", ".join(one.name for one in self._desk().collections()[:_NAMED])
            raise errors.CollectionNotFound(
                f"Collection not found: {name}.",
                f"Make it with rag_create_collection first{f', or use one of {known}' if known else ''}.",
            )
        progress = Progress(
            report=lambda done, total, what: context.progress(done, total or None, what),
            cancelled=lambda: context.cancelled,
        )
        report = self._desk().ingest(
            uri,
            name,
            content_type=arguments.get("content_type", ""),
            metadata=arguments.get("metadata", {}),
            roots=[Path.cwd(), *context.client_roots()],
            progress=progress,
        )
        if not report.document_ids:
            reasons = [f"{one.path}: {one.reason}" for one in (*report.errors, *report.skipped)]
            where = uri.partition("?")[0][:200]
            raise errors.LoadFailed(f"Nothing to ingest in {where}: {'; '.join(reasons[:5]) or 'it is empty'}.")
        # For a folder, the first by path, which is the same in every run.
        found = [one for one in map(self._desk().document, report.document_ids) if one]
        document = min(found, key=lambda one: one.path, default=None)
        chunks = sum(len(self._desk().chunks_of(one)) for one in report.document_ids)
        answer = {
            "success": True,
            "doc_id": document.id if document else report.document_ids[0],
            "collection": name,
            "source_uri": document.uri if document and len(report.document_ids) == 1 else uri,
            "content_type": document.content_type if document else "",
            "chunks_created": chunks,
        }
        meta: Json = {"refdesk/documents": len(report.document_ids), "refdesk/unchanged": report.unchanged}
        notices = []
        if left_out := [*report.errors, *report.skipped]:
            skipped = meta["refdesk/skipped"] = [f"{one.path}: {one.reason}" for one in left_out[:50]]
            more = f"; and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
            files = "1 file" if len(left_out) == 1 else f"{len(left_out)} files"
            notices = [f"{files} left out: {'; '.join(skipped[:_NAMED])}{more}"]
        notices += [f"{one.path}: {one.reason}" for one in report.remarks[:_NAMED]]
        documents = (f"rag://documents/{one}" for one in report.written_ids)
        changed = (f"rag://collections/{name}", "rag://collections", *documents) if report.written else ()
        return replace(ToolAnswer.of_json(answer, notices=notices, meta=meta), updated=changed)

    def delete(self, arguments: Json, context: CallContext) -> ToolAnswer:
        document = self._desk().document(arguments["doc_id"])
        if document is None:
            raise errors.DocumentNotFound(
                f"Document not found: {arguments['doc_id']}.", "rag_list_documents lists the ids there are."
            )
        self._desk().remove_documents(document.collection, [document.id])
        answer = {
            "success": True,
            "deleted_doc_id": document.id,
            "source_uri": document.uri,
            "collection": document.collection,
        }
        changed = (f"rag://collections/{document.collection}", "rag://collections", f"rag://documents/{document.id}")
        return replace(ToolAnswer.of_json(answer), updated=changed)

    def list_collections(self, arguments: Json, context: CallContext) -> ToolAnswer:
        listed = [
            {"name": one.name, "description": one.description, "created_at": one.created_at}
            for one in self._desk().collections()
        ]
        kept = _fitting(listed)
        notices = [f"{len(listed) - kept} more: rag://collections has them all"] if kept < len(listed) else []
        return ToolAnswer.of_json({"collections": listed[:kept], "total": len(listed)}, notices=notices)

    def list_documents(self, arguments: Json, context: CallContext) -> ToolAnswer:
        name = self._desk().collection(arguments["collection"]).name
        limit, offset = arguments.get("limit", 100), arguments.get("offset", 0)
        if limit < 1 or offset < 0:
            raise errors.InvalidInput("limit must be 1 or more and offset 0 or more.")
        listed = [
            {
                "id": one.id,
                "source_uri": one.uri,
                "content_type": one.content_type,
                "created_at": one.created_at,
                "updated_at": one.updated_at,
            }
            for one in self._desk().documents(name, limit, offset)
        ]
        kept, total = _fitting(listed), self._desk().count_documents(name)
        answer = {
            "collection": name,
            "documents": listed[:kept],
            "count": kept,
            "offset": offset,
            "limit": limit,
            "total": total,
        }
        following = offset + kept
        notices = [f"{total - following} more: offset={following} lists the next ones"] if following < total else []
        return ToolAnswer.of_json(answer, notices=notices if kept else [])

    def create_collection(self, arguments: Json, context: CallContext) -> ToolAnswer:
        created = self._desk().create_collection(arguments["name"], description=arguments.get("description", ""))
        answer = {"success": True, "name": created.name, "description": created.description}
        return replace(ToolAnswer.of_json(answer), updated=("rag://collections",), relisted=True)

    def stats(self, arguments: Json, context: CallContext) -> ToolAnswer:
        name = arguments.get("collection", "")
        if name:
            self._desk().collection(name)
        counted = self._desk().stats(name)
        answer = {
            "collections": counted.collections,
            "documents": counted.documents,
            "chunks": counted.chunks,
            "embeddings": counted.embeddings,
            "storage_bytes": counted.storage_bytes,
        }
        return ToolAnswer.of_json(
            {**answer, "filter": name} if name else answer, meta={"refdesk/memory": memory.usage()}
        )


def _fitting(listed: Sequence[Json]) -> int:
    return fitting([json.dumps(one, ensure_ascii=False) for one in listed], LISTED)


def _result(rank: int, hit: Hit, stale: Container[int], is_whole: bool, marked: Mapping[str, str]) -> Json:
    from refdesk.desk.fresh import indexed_at

    chunk, document = hit.stored.chunk, hit.stored.document
    return {
        "rank": rank,
        "score": round(hit.score, 4),
        "source": document.id,
        "uri": document.uri,
        "title": chunk.title or document.title,
        "collection": document.collection,
        **marked,
        "content": chunk.text if is_whole else hit.snippet,
        "metadata": {
            **({"kind": chunk.kind} if chunk.kind == "playbook" else {}),
            **({"lines": chunk.lines} if chunk.lines else {}),
            **({"page": chunk.metadata["page"]} if chunk.kind == "page" else {}),
            "tokens": tokens.count(chunk.text),
            "chunk_index": hit.stored.position,
            "indexed_at": indexed_at(hit.stored.document),
            **({"stale": True} if hit.stored.id in stale else {}),
            **({} if is_whole else {"excerpt": True}),
        },
    }


# ── near-duplicates ──

_WORD = re.compile(r"\w+")
_RUN = 3  # words per shingle
# The share of common shingles from which two texts are near-duplicates. Of 1.1 million pairs of sections of Django's
# documentation 21 share more, nearly all of them copies; from .7 on there are ljust and rjust, BitOr and BitAnd.
_ALIKE = 0.8
_MAYBE = 0.5  # share of common words under which shingles, which take four times as long, are not compared
_FEW = 8  # words up to which texts must be equal


def without_near_duplicates(hits: Sequence[Hit], query: str, most: int) -> tuple[list[Hit], int]:
    """At most `most` hits without near-duplicates of better ones, and the number of those dropped.

    Texts that differ in a word of the query are never duplicates.
    """
    asked = frozenset(_words(query))
    kept: list[tuple[Hit, frozenset[str]]] = []
    passed = 0
    for hit in hits:
        if len(kept) == most:
            break
        passed += 1
        text = hit.stored.chunk.text
        rough = frozenset(text.lower().split())
        size = len(rough)
        # Sets of which one has less than that share of the other's words need not be compared: most of them.
        close = [(one, words) for one, words in kept if min(size, len(words)) >= _MAYBE * max(size, len(words))]
        near = [one for one, words in close if _overlap(rough, words) >= _MAYBE]
        if not any(_are_near_duplicates(text, one.stored.chunk.text, asked) for one in near):
            kept.append((hit, rough))
    return [hit for hit, _ in kept], passed - len(kept)


def _are_near_duplicates(one: str, other: str, asked: frozenset[str]) -> bool:
    words, others = _words(one), _words(other)
    return asked.intersection(words) == asked.intersection(others) and _overlap(_runs(words), _runs(others)) >= _ALIKE


def _overlap(one: frozenset[Any], other: frozenset[Any]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common or 1)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    if len(words) < _FEW:
        return frozenset([tuple(words)])
    return frozenset(zip(*(words[start:] for start in range(_RUN)), strict=False))
