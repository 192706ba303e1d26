"""The pages contract: search, list sources, list pages, read a whole page."""

from __future__ import annotations

from collections.abc import Container

from refdesk import errors
from refdesk.crawl.state import target_of
from refdesk.crawl.urls import clean
from refdesk.desk import Desk
from refdesk.fresh import indexed_at, stale_hits, stale_notes
from refdesk.model import Collection, Document, Hit, Query
from refdesk.store.folder import CRAWL_FILE
from refdesk.tokens import count
from refdesk.toolsets.contract import CallContext, Json, RpcErrors, Text, Tool, ToolAnswer, ToolHints, Toolset
from refdesk.toolsets.icons import icon
from refdesk.toolsets.pages_filters import chosen, refuse_unknown
from refdesk.toolsets.pages_parts import address_and_number, parts_of

_PAGES_LISTED = 200  # in one answer: some 12k tokens
_ANSWER_TOKENS = 22_000  # clients cut an answer at 25k: results beyond this are shown by an excerpt
_READ_ON = 'Use qurio_read_page(url="...") to read the full content of any result.'

_SEARCH: Json = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "description": "The search query."},
        "alpha": {
            "type": "number",
            "minimum": 0.0,
            "maximum": 1.0,
            "default": 0.5,
            "description": "0.0 keyword only (error codes, IDs), 0.3 mostly keyword (function names), 0.5 hybrid, "
            "1.0 vector (conceptual questions).",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "Max results."},
        "source_id": {"type": "string", "description": "Filter results by source ID."},
        "filters": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Metadata filters, e.g. type='code' (prose, code, api, config, cmd), language='go'.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
_NOTHING: Json = {"type": "object", "properties": {}, "additionalProperties": False}
_LIST: Json = {
    "type": "object",
    "properties": {"source_id": {"type": "string", "minLength": 1, "description": "The ID of the source."}},
    "required": ["source_id"],
    "additionalProperties": False,
}
_READ: Json = {
    "type": "object",
    "properties": {"url": {"type": "string", "minLength": 1, "description": "The URL to fetch content for."}},
    "required": ["url"],
    "additionalProperties": False,
}


_TOLD = {
    "qurio_search": (
        "Search pages",
        "search",
        _SEARCH,
        "Search & Exploration tool. Performs a hybrid search (Keyword + Vector). Use this for specific "
        "questions, finding code snippets, or exploring topics across known sources.",
    ),
    "qurio_list_sources": (
        "List sources",
        "list",
        _NOTHING,
        "Discovery tool. Lists all available documentation sets (sources) currently indexed.",
    ),
    "qurio_list_pages": (
        "List pages",
        "list",
        _LIST,
        "Navigation tool. Lists all individual pages/documents within a specific source.",
    ),
    "qurio_read_page": (
        "Read a page",
        "read",
        _READ,
        "Deep Reading / Full Context tool. Retrieves the entire content of a specific page or document by its URL.",
    ),
}  # name: title, icon, input, description


def pages_toolset(desk: Desk) -> Toolset:
    """The four qurio_* tools over one library."""
    pages = _Pages(desk)
    handlers = (pages.search, pages.list_sources, pages.list_pages, pages.read_page)
    tools = [
        Tool(
            name=name,
            title=title,
            description=description,
            input_schema=schema,
            handler=handler,
            fill_defaults=False,  # an alpha left out is the engine's to choose
            error_style=RpcErrors(mendable=(errors.InvalidInput, errors.NotFound)),
            hints=ToolHints(read_only=True, idempotent=True),
            icons=icon(picture),
        )
        for (name, (title, picture, schema, description)), handler in zip(_TOLD.items(), handlers, strict=True)
    ]
    return Toolset(name="pages", tools=tuple(tools))


class _Pages:
    """Arguments in, the contract's text out."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def search(self, arguments: Json, context: CallContext) -> ToolAnswer:
        text = arguments["query"]
        if not text.strip():
            raise errors.InvalidInput("query must not be empty.", "Say what to look for.")
        source = self._wanted(arguments["source_id"]) if arguments.get("source_id") else None
        filters = chosen(arguments.get("filters", {}), source)
        query = Query(text=text, filters=filters, limit=arguments.get("limit", 10), alpha=arguments.get("alpha"))
        page = self._desk.search(query)
        context.log.info("qurio_search found %d", len(page.hits))
        if not page.hits:
            refuse_unknown(self._desk.store, arguments.get("filters", {}), filters)
            return ToolAnswer.of_text("No results found.", notices=page.notes)
        ids = {one.name: one.id for one in self._desk.store.collections()}
        stale = stale_hits(page.hits)
        return ToolAnswer.of_text(
            _results(page.hits, ids, stale), notices=(*page.notes, *stale_notes(page.hits, stale))
        )

    def list_sources(self, arguments: Json, context: CallContext) -> ToolAnswer:
        listed = self._desk.store.collections()
        context.log.info("qurio_list_sources lists %d", len(listed))
        if not listed:
            return ToolAnswer.of_text("No sources found.")
        lines = [f"- ID: {one.id}, Name: {one.name}, Type: {one.kind}{_about(one)}" for one in listed]
        return ToolAnswer.of_text("\n".join([f"Sources ({len(listed)}):", *lines]))

    def list_pages(self, arguments: Json, context: CallContext) -> ToolAnswer:
        wanted, number = address_and_number(arguments["source_id"], "page")
        source = self._source(wanted)
        total = self._desk.store.count_documents(source.name) if source else 0
        context.log.info("qurio_list_pages: %d pages", total)
        if source is None:
            return ToolAnswer((Text("No pages found for source."), Text(self._known_sources())))
        if not total:
            return ToolAnswer.of_text("No pages found for source.")
        last = -(-total // _PAGES_LISTED)
        if not 1 <= number <= last:
            raise errors.InvalidInput(f"There is no #page={number}.", f"The list has {last}.")
        start = (number - 1) * _PAGES_LISTED
        listed = self._desk.store.documents(source.name, _PAGES_LISTED, start)
        lines = [f"- ID: {one.id}, URL: {one.uri}" for one in listed]
        shown = f"{start + 1}-{start + len(listed)} of {total}" if last > 1 else str(total)
        answer = [f"Pages of {source.name} ({shown}):", *lines]
        if number < last:
            more = f'qurio_list_pages(source_id="{source.id}#page={number + 1}")'
            answer.append(f"{total - start - len(listed)} more pages: use {more} to list the next ones.")
        return ToolAnswer.of_text("\n".join(answer))

    def read_page(self, arguments: Json, context: CallContext) -> ToolAnswer:
        url, number = address_and_number(arguments["url"], "part")
        document = self._document(url)
        if document is None:
            context.log.info("qurio_read_page: no such page")
            return ToolAnswer.of_text("No content found for URL.")
        parts = parts_of(self._desk.store.raw(document.id))
        context.log.info("qurio_read_page: %d parts", len(parts))
        if not 1 <= number <= len(parts):
            raise errors.InvalidInput(f"There is no #part={number}.", f"The page has {len(parts)}.")
        if len(parts) == 1:
            return ToolAnswer.of_text(parts[0])
        return ToolAnswer.of_text(_part(document.uri, parts, number))

    def _document(self, url: str) -> Document | None:
        """The document at the address, or at one that differs by what addresses may differ in."""
        bare = url.partition("#")[0]
        one_form = clean(bare)
        for form in dict.fromkeys((url, bare, one_form, one_form.rstrip("/"), f"{one_form.rstrip('/')}/")):
            if form and (found := self._desk.store.document_by_uri(form)) is not None:
                return found
        elsewhere = target_of(self._desk.settings.library / CRAWL_FILE, one_form)
        return self._desk.store.document_by_uri(elsewhere) if elsewhere else self._desk.store.document(url)

    def _source(self, wanted: str) -> Collection | None:
        listed = self._desk.store.collections()
        return next((one for one in listed if one.id == wanted), None) or self._desk.store.collection(wanted)

    def _wanted(self, source_id: str) -> Collection:
        found = self._source(source_id)
        if found is None:
            raise errors.InvalidInput(f"Unknown source_id: {source_id}.", self._known_sources())
        return found

    def _known_sources(self) -> str:
        known = [f"{one.id} ({one.name})" for one in self._desk.store.collections()]
        return f"Known sources: {', '.join(known[:50])}." if known else "No sources found."


def _about(collection: Collection) -> str:
    about = [part for part in (collection.root, collection.description) if part]
    return f" ({'; '.join(about)})" if about else ""


def _results(hits: tuple[Hit, ...], ids: dict[str, str], stale: Container[int]) -> str:
    shown: list[str] = []
    used = 0
    for number, hit in enumerate(hits, 1):
        document, chunk = hit.stored.document, hit.stored.chunk
        used += chunk.tokens or count(chunk.text)
        whole = used <= _ANSWER_TOKENS
        lines = [
            f"Result {number}:",
            f"Title: {document.title}",
            f"Type: {chunk.type}",
            f"Language: {chunk.language}",
            f"SourceID: {ids.get(document.collection, document.collection)}",
            f"URL: {document.uri}",
            *([f"Stale: the file changed since {indexed_at(document)}"] if hit.stored.id in stale else []),
            "Content:" if whole else "Content (an excerpt; the answer is long):",
            chunk.text if whole else hit.snippet,
        ]
        shown.append("\n".join(lines))
    return "\n\n---\n\n".join([*shown, _READ_ON])


def _part(url: str, parts: list[str], number: int) -> str:
    if number < len(parts):
        following = f'Use qurio_read_page(url="{url}#part={number + 1}") for the next part.'
    else:
        following = "This is the last part."
    head = f"[Part {number} of {len(parts)} of {url}: the page is too long for one answer. {following}]"
    return f"{head}\n\n{parts[number - 1]}"
