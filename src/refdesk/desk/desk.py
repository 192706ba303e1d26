"""One library with everything that reads and writes it, made of parts it does not name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refdesk.desk.parts import Parts, Watching
from refdesk.errors import CollectionExists, CollectionNotFound, EmbedderMismatch, InvalidInput, NotFound, SettingsError
from refdesk.ids import checked_name, name_from, new_id
from refdesk.ingest.prepare import embed_rest, following, groups, is_new, marked, reembed
from refdesk.ingest.progress import Progress, Report
from refdesk.ingest.writer import Writer
from refdesk.model import (
    Batch,
    Chunking,
    Collection,
    CollectionKind,
    Content,
    Document,
    Found,
    Page,
    Query,
    SearchDefaults,
    Skipped,
)
from refdesk.ports import Embedder, Parser, Source, Store
from refdesk.search.engine import Engine
from refdesk.settings import Settings
from refdesk.system import memory
from refdesk.system.turns import Queries

if TYPE_CHECKING:
    from refdesk.skills.learn import Learner
    from refdesk.skills.model import PlaybookStore

_INDEXING = "indexing"  # of a collection's properties: how many files there are, until all of them are indexed
_NOT_PRECISE = "ranked without the precise mode: it is not installed; pip install 'refdesk[precise]'"


class Desk:
    """One library with everything that reads and writes it."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self.settings = settings
        self._parts = parts
        self._queries = Queries()

    @cached_property
    def store(self) -> Store:
        return self._parts.store(self.settings)

    @cached_property
    def embedder(self) -> Embedder | None:
        """The embedder that is set; its vectors are the library's, or EmbedderMismatch says how to make them so."""
        embedder = self._parts.embedder(self.settings)
        if embedder is not None:
            self._check_identity(embedder)
        return embedder

    @cached_property
    def engine(self) -> Engine:
        return self._engine(self.embedder)

    @cached_property
    def _by_words(self) -> Engine:
        """For queries that need no vectors: they are answered also where there is no embedder to be had."""
        return self._engine(None)

    def _engine(self, embedder: Embedder | None) -> Engine:
        if not self.settings.precise:
            return Engine(self.store, embedder)
        judge = self._parts.judge(self.settings)
        return Engine(self.store, embedder, judge, () if judge else (_NOT_PRECISE,))

    @cached_property
    def _playbooks(self) -> PlaybookStore:
        return self._parts.playbooks(self.settings, self.store)

    @cached_property
    def learner(self) -> Learner:
        """What finds, learns and refines playbooks."""
        return self._learner(lambda: self.embedder)

    def _learner(self, embedder: Callable[[], Embedder | None]) -> Learner:
        from refdesk.skills.learn import Learner

        return Learner(self._playbooks, embedder)

    def close(self) -> None:
        if "_playbooks" in self.__dict__:
            self._playbooks.close()
        if "store" in self.__dict__:
            self.store.close()

    def search(self, query: Query) -> Page:
        """The page of hits that the query asks for; an unknown collection is an error."""
        searched = [self.collection(name) for name in query.filters.collections] or self.store.collections()
        memory.relieve()
        engine = self._by_words if query.alpha == 0.0 or query.exact else self.engine
        with self._queries:
            page = engine.search(query)
        unfinished = self.unfinished(searched)
        return replace(page, notes=(*unfinished, *page.notes)) if unfinished else page

    def search_everything(self, query: Query) -> Page:
        """The same with playbooks among the hits."""
        if not self._parts.has_playbooks(self.settings, self.store):
            return self.search(query)
        return self.learner.join(query, self.search)

    def unfinished(self, collections: Sequence[Collection]) -> tuple[str, ...]:
        """A note for each collection that is being indexed, or whose indexing or crawl broke off."""
        notes = []
        for one in collections:
            if one.kind == "web" and (waiting := self._parts.pages_to_come(self.settings, one)):
                again = f"unless it is running, `refdesk crawl {one.root} --name {one.name}` goes on with it"
                notes.append(f"the crawl of {one.name} has not finished, {waiting} known pages wait: {again}")
        begun = [one for one in collections if _INDEXING in one.properties]
        goes_on = bool(begun) and self.store.is_being_written()
        for one in begun:
            there = f"{self.store.count_documents(one.name)} of {one.properties[_INDEXING]} files"
            if goes_on:
                notes.append(f"{one.name} is still being indexed, {there} so far: later answers have more")
            else:
                again = "index_codebase" if one.kind == "code" else f"`refdesk index --kind {one.kind} {one.root}`"
                notes.append(f"the indexing of {one.name} was interrupted, it has {there}: run {again} again")
        return tuple(notes)

    # --- collections ---------------------------------------------------------------------------

    def collection(self, name: str) -> Collection:
        """The collection of that name; CollectionNotFound lists the ones there are."""
        found = self.store.collection(name)
        if found is None:
            names = [one.name for one in self.store.collections()]
            known = f"Known collections: {', '.join(names[:20])}." if names else "The library has no collections yet."
            raise CollectionNotFound(f"Collection not found: {name}.", known)
        return found

    def ensure_collection(
        self, name: str, kind: CollectionKind, *, root: str = "", description: str = ""
    ) -> Collection:
        """The collection of that name, made now if there is none."""
        now = time.time_ns() // 1_000_000
        known = self.store.collection(checked_name(name))
        if known is None:
            wanted = Collection(
                id=new_id(), name=name, kind=kind, description=description, root=root, created_at=now, updated_at=now
            )
        elif root and known.root and known.root != root:
            raise InvalidInput(
                f"Collection {name} holds {known.root}, not {root}.", "Choose another --name, or remove it first."
            )
        elif root and known.kind != kind:
            raise InvalidInput(
                f"Collection {name} is one of {known.kind}, not of {kind}.",
                "Choose another --name, or remove it first.",
            )
        else:
            wanted = replace(known, description=description or known.description, root=root or known.root)
        if wanted != known:
            self.store.put_collection(wanted)
        return wanted

    def create_collection(self, name: str, kind: CollectionKind = "files", *, description: str = "") -> Collection:
        """A new, empty collection; CollectionExists when the name is taken."""
        checked_name(name)
        with self.store.writing():  # two who ask at once must not both be told that it is theirs
            if self.store.collection(name) is not None:
                raise CollectionExists(f"Collection already exists: {name}.", "Use it, or choose another name.")
            return self.ensure_collection(name, kind, description=description)

    def configure(self, name: str, *, description: str | None = None, **options: Any) -> Collection:
        """The collection with some of its chunking and search settings changed."""
        known = self.collection(name)
        chunking = {key: value for key, value in options.items() if key in Chunking.__dataclass_fields__}
        search = {key: value for key, value in options.items() if key in SearchDefaults.__dataclass_fields__}
        changed = replace(
            known,
            description=known.description if description is None else description,
            chunking=replace(known.chunking, **chunking),
            search=replace(known.search, **search),
        )
        if changed.chunking.min_tokens > changed.chunking.max_tokens:
            raise InvalidInput("min_tokens is larger than max_tokens.", "Lower it.")
        if changed.chunking.overlap_tokens >= changed.chunking.max_tokens:
            raise InvalidInput("overlap_tokens is not smaller than max_tokens.", "Lower it.")
        self.store.put_collection(changed)
        return changed

    # --- writing ---------------------------------------------------------------------------------

    def index(
        self,
        root: Path,
        kind: CollectionKind,
        *,
        name: str = "",
        description: str = "",
        force: bool = False,
        verify: bool = False,
        only: set[str] | None = None,
        wait: bool = True,
        progress: Progress | None = None,
    ) -> Report:
        """Makes the library hold what the folder has; with `wait` off, LibraryBusy at once where another does so.

        The root's links were resolved when it was allowed: one that came since is not followed.
        """
        folder = root.absolute()
        if not folder.is_dir():
            raise InvalidInput(f"Path does not exist or is not a directory: {root}.", "Name a folder.")
        with self.store.stretch(wait=wait):
            name = name or self._name_for(folder, kind)
            is_new_one = self.store.collection(name) is None
            # Two who index a new folder at once make one collection of it.
            with self.store.writing() if is_new_one else nullcontext():
                collection = self.ensure_collection(name, kind, root=str(folder), description=description)
            facts = self._parts.facts(folder, kind)
            cut_anew = facts.get("manifests", "") != collection.properties.get("manifests", "")
            only = None if cut_anew else only
            source = self._folder_source(collection, anew=force, whole=only is None)
            writer = self._writer(self._parts.parser(folder, kind), progress)

            def begin(files: int) -> None:
                if only is None:
                    self._note(collection, {_INDEXING: str(files)})

            report = writer.index(
                collection,
                source,
                force=force or cut_anew,
                verify=verify,
                only=only,
                begin=begin,
            )
            if self.embedder is not None and only is None:
                report.embedded += embed_rest(self.store, self.embedder, collection.name, progress or Progress())
            facts = {**facts, "rules": source.fingerprint(only_rejected=only is not None)}
            self._note(collection, facts, (_INDEXING,) if only is None else ())
            return report

    def _note(self, collection: Collection, properties: Mapping[str, str], dropped: Sequence[str] = ()) -> None:
        """Changes properties of the collection as it is now; others may have changed it, or removed it."""
        now = self.store.collection(collection.name)
        if (
            now == collection
            and properties.items() <= now.properties.items()
            and now.properties.keys().isdisjoint(dropped)
        ):
            return
        with self.store.writing():
            now = self.store.collection(collection.name)
            if now is None or now.id != collection.id:
                raise CollectionNotFound(
                    f"Collection {collection.name} was removed while it was being indexed.", "Index it again."
                )
            kept = {key: value for key, value in now.properties.items() if key not in dropped}
            self.store.put_collection(replace(now, properties={**kept, **properties}))

    def ingest(
        self,
        uri: str,
        collection_name: str,
        *,
        content_type: str = "",
        metadata: Mapping[str, Any] | None = None,
        roots: Sequence[Path] = (),
        progress: Progress | None = None,
    ) -> Report:
        """Adds what a file:, https: or data: URI names; a folder's files with it."""
        collection = self.collection(collection_name)
        report = Report(collection=collection.name)
        told = progress or Progress()
        of_group = Progress(cancelled=told.cancelled)
        writer = self._writer(self._parts.parser(None, collection.kind), of_group)
        for group, is_last in groups(self._parts.load(uri, roots, self.settings)):
            of_group.report = following(told, report.files, is_last)
            named = [marked(one, content_type, metadata or {}) for one in group if isinstance(one, Content)]
            contents = [replace(one, attached=writer.attached_before(collection, one)) for one in named]
            report.join(writer.add(collection, contents))
            report.skipped += [one for one in group if isinstance(one, Skipped)]
        return report

    def add(self, collection: Collection, contents: Sequence[Content], *, progress: Progress | None = None) -> Report:
        """Adds or updates contents that were loaded already."""
        return self._writer(self._parts.parser(None, collection.kind), progress).add(collection, contents)

    def text_in(self, collection: Collection, content: Content) -> str:
        """The text that would be kept of a content, "" where there is none."""
        parsed = self._writer(self._parts.parser(None, collection.kind), None).parse(collection, content)
        return parsed.text if parsed is not None else ""

    def reembed(self, progress: Progress | None = None) -> int:
        """Replaces all vectors by those of the embedder that is set."""
        embedder = self._parts.embedder(self.settings)
        if embedder is None:
            raise SettingsError("No embedder is set.", "Set embedder to static.")
        count = reembed(self.store, embedder, progress or Progress())
        if self._parts.has_playbooks(self.settings, self.store):
            count += self._learner(lambda: embedder).align()
        return count

    def remove(self, name_or_id: str) -> tuple[str, int]:
        """Removes a collection by name or a document by id; says which and how many documents."""
        if self.store.collection(name_or_id) is not None:
            return "collection", self.store.remove_collection(name_or_id)
        document = self.store.document(name_or_id)
        if document is None:
            raise NotFound(f"There is no collection or document {name_or_id}.", "`refdesk collections` lists them.")
        self.store.apply(Batch(collection=document.collection, removes=(document.id,)))
        return "document", 1

    def why(self, path: Path) -> tuple[Collection | None, Document | None, Found | Skipped | None]:
        """The collection a path belongs to, its document, and what a walk makes of it."""
        target = path.parent.resolve() / path.name if path.name not in ("", "..") else path.resolve()
        for collection in sorted(self.store.collections(), key=lambda one: -len(one.root)):
            root = Path(collection.root) if collection.root and "://" not in collection.root else None
            if root is None or not target.is_relative_to(root):
                continue
            relative = target.relative_to(root).as_posix()
            if target == root:
                return collection, None, None
            document = self.store.document_by_path(collection.name, relative)
            return collection, document, self._parts.why(root, relative, self.settings)
        return None, None, None

    def freshness(self, collection: Collection) -> tuple[int, list[str]]:
        """How many files are as they were indexed, and the paths that changed, came or went since."""
        states = self.store.file_states(collection.name)
        source = self._folder_source(collection)
        walked = {one.path: one for one in source.walk() if isinstance(one, Found)}
        changed = [
            path
            for path in sorted(states.keys() | walked.keys())
            if path not in walked or is_new(walked[path], states.get(path))
        ]
        return len(states.keys() - changed), changed

    def watch(self, collection: Collection) -> Watching:
        """Tells from now on what changes in the collection's folder; OSError where it can't be watched."""
        return self._parts.watch(Path(collection.root))

    def _folder_source(self, collection: Collection, *, anew: bool = False, whole: bool = True) -> Source:
        """The folder's files; `anew` asks about all of them what is known of some: that they give nothing."""
        return self._parts.folder(
            Path(collection.root),
            max_file_bytes=self.settings.max_file_bytes,
            known=self.store.file_states(collection.name) if whole else {},
            known_skipped={} if anew else {one.path: one.reason for one in self.store.skipped(collection.name)},
            rules_fingerprint="" if anew else collection.properties.get("rules", ""),
            allow_secrets=self.settings.allow_secrets,
        )

    def _writer(self, parser: Parser, progress: Progress | None) -> Writer:
        pool = self._parts.pool(parser, self.embedder, self.settings.workers)
        if self.embedder is not None:
            self.store.set_embedder_identity(self.embedder.identity)  # checked before: it is this or none yet
        return Writer(self.store, pool, self.embedder, progress or Progress(), self._queries.let_go_first)

    def _name_for(self, folder: Path, kind: CollectionKind) -> str:
        """The name the folder's collection has, else one made from the folder's own, made unique."""
        known = {one.name: one for one in self.store.collections()}
        for one in known.values():
            if one.root == str(folder) and one.kind == kind:
                return one.name
        name = stem = name_from(folder.name)
        number = 1
        while name in known:
            number += 1
            name = f"{stem}-{number}"
        return name

    def _check_identity(self, embedder: Embedder) -> None:
        kept = self.store.embedder_identity()
        if kept is not None and kept != embedder.identity:
            raise EmbedderMismatch(
                f"The library's vectors were made by {kept.name} {kept.version}, not by"
                f" {embedder.identity.name} {embedder.identity.version}.",
                "Run `refdesk reembed` to replace them, or set the embedder that made them; with an alpha of 0 words"
                " alone are searched.",
            )
