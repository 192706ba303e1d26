"""The reading half of a desk: searches, lists and lookups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, overload

from refdesk.desk.machine import Machine, local_file, machine_notes
from refdesk.desk.parts import Parts, Watching
from refdesk.errors import CollectionNotFound, EmbedderMismatch, RefdeskError
from refdesk.library import Library
from refdesk.model import (
    Collection,
    CollectionKind,
    Countable,
    Document,
    FileState,
    Filters,
    Found,
    Page,
    Query,
    Skipped,
    StoredChunk,
)
from refdesk.ports import Embedder, Source, Store
from refdesk.settings import Settings
from refdesk.system import memory
from refdesk.system.memory import RunningQueries
from refdesk.system.wanted import waited_for

if TYPE_CHECKING:
    from refdesk.graph.graph import Graph
    from refdesk.search.engine import Engine


P = ParamSpec("P")
T = TypeVar("T")
INDEXING = "indexing"  # of a collection's properties: how many files there are, until all of them are indexed
_COMPARED = 5_000  # files that tell whether a folder is the one that was indexed
_COMPARED_ADDED = 200  # files of a collection without a folder that tell it


class opened_once(cached_property[T]):  # noqa: N801 - used as a decorator, like cached_property
    """A cached_property that two threads can't compute at once: from Python 3.12 on it has no lock of its own."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        with instance._opening:
            failed_at, failure = instance._failures.get(self.attrname, (0.0, None))
            if failure is not None and waited_for(failed_at):
                raise failure
            try:
                value: T = super().__get__(instance, owner)
            except RefdeskError as error:
                instance._failures[self.attrname] = time.monotonic(), error
                raise
        return value


def of_store(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Reader, P], T]:
    """A method of the desk that is the store's."""
    name = method.__name__

    @wraps(method)
    def passed_on(self: Reader, /, *args: P.args, **options: P.kwargs) -> T:
        found: T = getattr(self._store, name)(*args, **options)
        return found

    return passed_on


class Reader:
    """Reads one library; nobody outside this folder uses its store."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self.settings = settings
        self.library = Library(settings.library)
        self._parts = parts
        self._opening = RLock()
        self._failures: dict[str, tuple[float, RefdeskError]] = {}  # to open a part, and when
        self._queries = RunningQueries()
        self._counted: dict[str, tuple[int, int]] = {}  # documents of collections that are being indexed, at a commit
        self._seen: Mapping[str, Collection] = {}  # by name, as the last search saw them

    @opened_once
    def _store(self) -> Store:
        return self._parts.store(self.settings)

    def index_behind(self) -> int:
        """How many commits the index of a shared library lacks; a folder's is brought up to date by each query."""
        return self._parts.behind(self._store)

    @property
    def crawls(self) -> Any:
        """The file with what crawls know, or the tables of a shared record; `crawl.state` takes both."""
        return self._parts.crawls(self.library, self._store)

    @opened_once
    def embedder(self) -> Embedder | None:
        """The embedder that is set; its vectors are the library's, or EmbedderMismatch says how to make them so."""
        embedder = self._parts.embedder(self.settings)
        kept = self._store.embedder_identity() if embedder is not None else None
        if embedder is not None and kept is not None and kept != embedder.identity:
            raise EmbedderMismatch(
                f"The library's vectors were made by {kept.name} {kept.version}, not by"
                f" {embedder.identity.name} {embedder.identity.version}.",
                "Run `refdesk reembed` to replace them, or set the embedder that made them; with an alpha of 0 words"
                " alone are searched.",
            )
        return embedder

    @opened_once
    def engine(self) -> Engine:
        from refdesk.search.engine import Engine  # an index run needs none

        return Engine(self._store, self.embedder)

    @opened_once
    def _by_words(self) -> Engine:
        """For queries that need no vectors: they are answered also where there is no embedder to be had."""
        from refdesk.search.engine import Engine

        return Engine(self._store, None)

    # --- searching -------------------------------------------------------------------------------

    def search(self, query: Query) -> Page:
        """The page of hits that the query asks for; an unknown collection is an error."""
        memory.relieve_for_query()
        engine = self._engine_for(query)
        with self._queries:
            page = engine.search(query)
        # Afterwards, when the last commit is known: else it is asked for once more, .5 ms of a search on servers.
        known = {one.name: one for one in self._store.collections(page.state)}
        searched = [known.get(name) or self.collection(name) for name in query.filters.collections] or [*known.values()]
        self._seen = known
        notes = self.unfinished(searched)
        if self._machine is not None:
            files = {hit.stored.document.collection for hit in page.hits if local_file(hit.stored.document)}
            shown = [one for one in searched if one.name in files]
            notes += self.machine_notes(searched if len(searched) == 1 else shown)
        return replace(page, notes=(*notes, *page.notes)) if notes else page

    def tally(self, query: Query, within: Mapping[Countable, Filters], most: int) -> dict[Countable, dict[str, int]]:
        """How many passages share a word with the query, for each value of some properties, each within its filters."""
        return self._engine_for(query).tally(query, within, most)

    def nearest_words(self, query: Query) -> list[str]:
        """Indexed words that are spelt like the query's unknown words."""
        return self._engine_for(query).nearest_words(query)

    def _engine_for(self, query: Query) -> Engine:
        return self._by_words if query.alpha == 0.0 or query.exact else self.engine

    def unfinished(self, collections: Sequence[Collection]) -> tuple[str, ...]:
        """A note for each collection that is being indexed, or whose indexing or crawl broke off."""
        notes = []
        for one in collections:
            if one.kind == "web" and (waiting := self._parts.pending_pages(self.crawls, one)):
                again = f"unless it is running, `refdesk crawl {one.root} --name {one.name}` goes on with it"
                notes.append(f"the crawl of {one.name} has not finished, {waiting} known pages wait: {again}")
        begun = [one for one in collections if INDEXING in one.properties]
        goes_on = bool(begun) and self._store.is_being_written()
        for one in begun:
            count, files = self._count_at(one.name, self._store.sequence()), one.properties[INDEXING]
            there = f"{count} of {files} files"
            if goes_on and count >= int(files):
                notes.append(f"{one.name} is being indexed again: files that changed may be shown as they were")
            elif goes_on:
                notes.append(f"{one.name} is still being indexed, {there} so far: later answers have more")
            else:
                again = "index_codebase" if one.kind == "code" else f"`refdesk index --kind {one.kind} {one.root}`"
                where = f" on {machine}" if (machine := self.other_machine(one)) else ""
                notes.append(f"the indexing of {one.name} was interrupted, it has {there}: run {again} again{where}")
        return tuple(notes)

    def _count_at(self, collection: str, seq: int) -> int:
        """How many documents it has at this commit; counting takes as long as it has many."""
        if self._counted.get(collection, (-1, 0))[0] != seq:
            self._counted[collection] = seq, self._store.count_documents(collection)
        return self._counted[collection][1]

    view = of_store(Store.view)

    def graph(self, collection: str) -> Graph:
        """The calls, types and imports of a codebase."""
        from refdesk.graph.graph import Graph

        return Graph(self._store, collection)

    # --- collections -----------------------------------------------------------------------------

    collections = of_store(Store.collections)  # except the one that holds the playbooks
    find_collection = of_store(Store.collection)
    stats = of_store(Store.stats)
    contents = of_store(Store.contents)
    skipped = of_store(Store.skipped)
    file_states = of_store(Store.file_states)
    facets = of_store(Store.facets)
    values = of_store(Store.values)
    sequence = of_store(Store.sequence)
    embedder_identity = of_store(Store.embedder_identity)

    def collection(self, name: str) -> Collection:
        """The collection of that name; CollectionNotFound lists the ones there are."""
        found = self._store.collection(name)
        if found is None:
            names = [one.name for one in self._store.collections()]
            known = f"Known collections: {', '.join(names[:20])}." if names else "The library has no collections yet."
            raise CollectionNotFound(f"Collection not found: {name}.", known)
        return found

    # --- documents -------------------------------------------------------------------------------

    documents = of_store(Store.documents)  # a page of them, by path
    count_documents = of_store(Store.count_documents)
    document_ids = of_store(Store.document_ids)
    document = of_store(Store.document)
    document_by_uri = of_store(Store.document_by_uri)
    document_by_path = of_store(Store.document_by_path)
    raw = of_store(Store.raw)
    chunks_of = of_store(Store.chunks_of)

    # --- the machines of a shared library --------------------------------------------------------

    @opened_once
    def _machine(self) -> Machine | None:
        """This machine, where others may use the library too."""
        return Machine(self.library, self._indexed_files) if self.settings.database else None

    def other_machine(self, collection: Collection) -> str:
        """The machine whose files a collection has, if they are not this one's: here they are not compared."""
        return "" if self._machine is None or collection.kind == "web" else self._machine.other(collection)

    def on_other_machines(self, names: Iterable[str]) -> set[str]:
        """Those of the collections of the last search whose files are another machine's."""
        if self._machine is None:
            return set()
        known = ((name, self._seen.get(name) or self._store.collection(name)) for name in names)
        return {name for name, one in known if one is not None and self.other_machine(one)}

    def machine_notes(self, collections: Sequence[Collection]) -> tuple[str, ...]:
        """A note for each other machine whose files some of the collections have."""
        others: dict[str, list[str]] = {}
        for one in collections:
            if machine := self.other_machine(one):
                others.setdefault(machine, []).append(one.name)
        return machine_notes(others)

    def _indexed_files(self, collection: Collection) -> Iterator[tuple[str, FileState | Document]]:
        if not collection.root:
            for document in self._store.documents(collection.name, _COMPARED_ADDED, 0):
                if file := local_file(document):
                    yield file, document
            return
        for path, state in islice(self._store.file_states(collection.name), _COMPARED):
            yield f"{collection.root}/{path}", state

    # --- folders that were indexed ---------------------------------------------------------------

    def why(self, path: Path) -> tuple[Collection | None, Document | None, Found | Skipped | None]:
        """The collection a path belongs to, its document, and what a walk makes of it."""
        target = place_of(path)
        collection = next(iter(self.around(target)), None)
        if collection is None or target == (root := Path(collection.root)):
            return collection, None, None
        relative = target.relative_to(root).as_posix()
        document = self._store.document_by_path(collection.name, relative)
        return collection, document, self._parts.why(root, relative, self.settings)

    def around(self, path: Path, kind: CollectionKind | None = None) -> list[Collection]:
        """The folders' collections with an absolute path: this machine's first, then the innermost, then the kind's."""
        local = (one for one in self._store.collections() if one.root and "://" not in one.root)
        found = [one for one in local if path.is_relative_to(one.root)]
        inner = sorted(found, key=lambda one: (-len(one.root), kind not in (None, one.kind)))
        return sorted(inner, key=lambda one: bool(self.other_machine(one)))

    def freshness(self, collection: Collection) -> tuple[int, list[str]]:
        """How many files are as they were indexed, and the paths that changed, came or went since."""
        states = dict(self._store.file_states(collection.name))
        source = self._folder_source(collection)
        walked = {one.path: one for one in source.walk(known=states) if isinstance(one, Found)}
        changed = [
            path
            for path in sorted(states.keys() | walked.keys())
            if path not in walked or walked[path].is_new(states.get(path))
        ]
        return len(states.keys() - changed), changed

    def watch(self, collection: Collection) -> Watching:
        """Tells from now on what changes in the collection's folder; OSError where it can't be watched."""
        return self._parts.watch(Path(collection.root))

    def _folder_source(self, collection: Collection, *, anew: bool = False) -> Source:
        """The folder's files; `anew` asks about all of them what is known of some: that they give nothing."""
        skipped = {} if anew else {one.path: one.reason for one in self._store.skipped(collection.name)}
        rules = "" if anew else collection.properties.get("rules", "")
        return self._parts.folder(Path(collection.root), self.settings, skipped, rules)


def place_of(path: Path) -> Path:
    """The path without links, except for itself being one."""
    return path.parent.resolve() / path.name if path.name not in ("", "..") else path.resolve()


def has_own_lines(raw: str, chunks: Sequence[StoredChunk]) -> bool:
    """Whether the text's lines are those of its source, which is not so for a converted page."""
    rows = raw.split("\n")
    placed = [one.chunk for one in chunks if one.chunk.start_line]
    written = [one for one in placed if one.is_as_written]
    return not placed or any(one.text == "\n".join(rows[one.start_line - 1 : one.end_line]) for one in written)
