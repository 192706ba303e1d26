"""The desk: the facade over one library, made of the parts that app.py provides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from refdesk.desk.machine import MACHINE, SEVERAL, taken_from
from refdesk.desk.parts import Order, Parts
from refdesk.desk.reading import INDEXING, Reader, of_store, opened_once
from refdesk.errors import (
    CollectionExists,
    CollectionNotFound,
    InvalidInput,
    LibraryBusy,
    LibraryDamaged,
    NotFound,
    RefdeskError,
    SettingsError,
)
from refdesk.ingest.prepare import Progress, Report, embed_rest, following, groups, marked, reembed
from refdesk.ingest.writer import Writer
from refdesk.library import checked_name, name_from, new_id
from refdesk.model import (
    Batch,
    Chunking,
    Collection,
    CollectionKind,
    Content,
    Finding,
    Page,
    Query,
    SearchDefaults,
    Skipped,
)
from refdesk.ports import Embedder, Parser, Store
from refdesk.settings import Settings

if TYPE_CHECKING:
    from refdesk.skills.learn import Learner
    from refdesk.skills.model import PlaybookStore


_LONG_BYTES = 1_000_000  # are indexed in half a second, as long as it takes to start a process


class _LongRun(Exception):
    """More is to be indexed than this process should do beside its queries."""


class Desk(Reader):
    """One library with everything that reads and writes it."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        super().__init__(settings, parts)
        self._one_elsewhere = Lock()  # of several long runs one has a process of its own, which takes 400 MB

    @opened_once
    def _playbooks(self) -> PlaybookStore:
        return self._parts.playbooks(self.settings, self._store)

    @opened_once
    def learner(self) -> Learner:
        """Finds, learns and refines playbooks."""
        return self._learner(lambda: self.embedder)

    def _learner(self, embedder: Callable[[], Embedder | None]) -> Learner:
        from refdesk.skills.learn import Learner

        return Learner(self._playbooks, embedder)

    def close(self) -> None:
        if "_playbooks" in self.__dict__:
            self._playbooks.close()
        if "_store" in self.__dict__:
            self._store.close()

    def search_everything(self, query: Query) -> Page:
        """The same as `search`, with playbooks among the hits."""
        return self.learner.join(query, self.search) if self.has_playbooks() else self.search(query)

    def has_playbooks(self) -> bool:
        """Whether there are any; nothing is loaded to find out."""
        return self._parts.has_playbooks(self.settings, self._store)

    # --- collections ---------------------------------------------------------------------------

    def ensure_collection(
        self, name: str, kind: CollectionKind, *, root: str = "", description: str = ""
    ) -> Collection:
        """The collection of that name, created if there is none."""
        now = time.time_ns() // 1_000_000
        known = self._store.collection(checked_name(name))
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
            self._store.put_collection(wanted)
        return wanted

    def create_collection(self, name: str, kind: CollectionKind = "files", *, description: str = "") -> Collection:
        """Creates an empty collection; raises CollectionExists if the name is taken."""
        checked_name(name)
        with self._store.writing():  # of two concurrent callers one must fail
            if self._store.collection(name) is not None:
                raise CollectionExists(f"Collection already exists: {name}.", "Use it, or choose another name.")
            return self.ensure_collection(name, kind, description=description)

    @contextmanager
    def filling(self, name: str) -> Iterator[None]:
        """Makes a collection of files if there is none of that name, and removes it again if nothing is added to it."""
        is_new = self._store.collection(name) is None
        self.ensure_collection(name, "files")
        try:
            yield
        finally:
            if is_new and not self._store.count_documents(name):
                self.remove_collection(name)

    def configure(self, name: str, *, description: str | None = None, **options: Any) -> Collection:
        """Changes some chunking and search settings of the collection."""
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
        self._store.put_collection(changed)
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
        asked: bool = True,
        progress: Progress | None = None,
    ) -> Report:
        """Indexes a folder; without `wait`, raises LibraryBusy if another run is in progress.

        Links in the root were resolved when it was allowed; a link that appeared since is not followed.
        Only a run that somebody asked for, of the whole folder, takes it over from another machine.
        """
        folder = root.absolute()
        if not folder.is_dir():
            raise InvalidInput(f"Path does not exist or is not a directory: {root}.", "Name a folder.")
        order = Order(
            settings=self.settings,
            root=folder,
            kind=kind,
            name=name,
            description=description,
            force=force,
            verify=verify,
        )
        asked = asked and only is None
        told, elsewhere = progress or Progress(), self._parts.elsewhere if asked else None
        if elsewhere is None or not self._one_elsewhere.acquire(blocking=False):
            return self._index(order, only, wait, asked, told)
        try:
            return self._index(order, only, wait, asked, told, most=_LONG_BYTES)
        except _LongRun:
            return elsewhere(order, told)
        finally:
            self._one_elsewhere.release()

    def _index(
        self, order: Order, only: set[str] | None, wait: bool, asked: bool, told: Progress, most: float = math.inf
    ) -> Report:
        """Indexes in this process; raises _LongRun before anything is written if more than `most` bytes are to be."""
        folder, kind = order.root, order.kind
        with self._store.stretch(wait=wait):
            name = order.name or self._name_for(folder, kind)
            is_new_one = self._store.collection(name) is None
            # Two concurrent runs on a new folder share one collection.
            with self._store.writing() if is_new_one else nullcontext():
                collection = self.ensure_collection(name, kind, root=str(folder), description=order.description)
            facts, before = self._parts.facts(folder, kind), collection.properties
            cut_anew = facts.get("manifests", "") != before.get("manifests", "")
            only = None if cut_anew else only
            if only is None:
                cut_anew |= facts.get("parser", "") != before.get("parser", "")
            else:
                facts = {**facts, "parser": before.get("parser", "")}  # the other files were not read again
            own = self._machine.mark(collection.root) if self._machine is not None and asked else {}
            other = taken_from(self.other_machine(collection), collection, asked=asked)
            source = self._folder_source(collection, anew=order.force or bool(other))
            writer = self._writer(self._parts.parser(folder, kind), told)

            def begin(files: int, size: int, all_gone: bool) -> None:
                nonlocal other
                if self._machine is not None:
                    now = self.collection(name)  # another machine may have taken it over since
                    other = taken_from(self.other_machine(now), now, asked=asked, all_gone=all_gone)
                if size > most:
                    raise _LongRun
                if only is None:
                    self._note(collection, {INDEXING: str(files), **own})

            report = writer.index(
                collection,
                source,
                force=order.force or cut_anew,
                verify=order.verify or bool(other),
                only=only,
                begin=begin,
            )
            report.taken_from = other
            if self.embedder is not None and only is None:
                report.embedded += embed_rest(self._store, self.embedder, collection.name, told)
            facts = {**facts, **own, "rules": source.fingerprint(only_rejected=only is not None)}
            self._note(collection, facts, (INDEXING,) if only is None else ())
        if kind == "docs" and only is None:
            self._describe_docs()
        return report

    def adopt(self, collection: Collection) -> None:
        """Notes that a collection of which no machine is known has this one's files, unless others are writing."""
        if self._machine is None or MACHINE in collection.properties:
            return
        with suppress(LibraryBusy), self._store.stretch(wait=False), self._store.writing():
            if MACHINE not in self.collection(collection.name).properties:
                self._note(collection, self._machine.mark(collection.root))

    def _note(self, collection: Collection, properties: Mapping[str, str], dropped: Sequence[str] = ()) -> None:
        """Changes properties of the collection's current state, since others may have changed or removed it."""
        now = self._store.collection(collection.name)
        if (
            now == collection
            and properties.items() <= now.properties.items()
            and now.properties.keys().isdisjoint(dropped)
        ):
            return
        with self._store.writing():
            now = self._store.collection(collection.name)
            if now is None or now.id != collection.id:
                raise CollectionNotFound(
                    f"Collection {collection.name} was removed while it was being indexed.", "Index it again."
                )
            kept = {key: value for key, value in now.properties.items() if key not in dropped}
            self._store.put_collection(replace(now, properties={**kept, **properties}))

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
        """Adds the file, folder or page that a file:, https: or data: URI names."""
        collection = self.collection(collection_name)
        other = self.other_machine(collection)
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
        if self._machine is not None and not collection.root and uri.lower().startswith("file:"):
            own = {MACHINE: SEVERAL} if other else self._machine.mark("")
            if not own.items() <= collection.properties.items():
                self._note(collection, own)
        return report

    def add(self, collection: Collection, contents: Sequence[Content], *, progress: Progress | None = None) -> Report:
        """Adds or updates contents that were loaded already."""
        return self._writer(self._parts.parser(None, collection.kind), progress).add(collection, contents)

    def text_in(self, collection: Collection, content: Content) -> str:
        """The text that would be stored for a content, or ""."""
        parsed = self._writer(self._parts.parser(None, collection.kind), None).parse(collection, content)
        return parsed.text if parsed is not None else ""

    def reembed(self, progress: Progress | None = None) -> int:
        """Replaces all vectors by those of the configured embedder."""
        embedder = self._parts.embedder(self.settings)
        if embedder is None:
            raise SettingsError("No embedder is set.", "Set embedder to static.")
        count = reembed(self._store, embedder, progress or Progress())
        if self.has_playbooks():
            count += self._learner(lambda: embedder).align()
        return count

    def remove(self, name_or_id: str) -> tuple[str, int]:
        """Removes a collection by name or a document by id; returns which, and the number of documents."""
        if self._store.collection(name_or_id) is not None:
            return "collection", self.remove_collection(name_or_id)
        document = self._store.document(name_or_id)
        if document is None:
            raise NotFound(f"There is no collection or document {name_or_id}.", "`refdesk collections` lists them.")
        self.remove_documents(document.collection, [document.id])
        return "document", 1

    def remove_collection(self, name: str) -> int:
        """Removes a collection with its documents; returns their number."""
        known = self._store.collection(name)
        removed = self._store.remove_collection(name)
        if known is not None and known.kind == "docs":
            self._describe_docs()
        return removed

    def _describe_docs(self) -> None:
        from refdesk.desk.corpus import write_metadata

        write_metadata(self)

    def remove_documents(self, collection: str, ids: Sequence[str]) -> None:
        """Removes documents of one collection in one transaction."""
        self._store.apply(Batch(collection=collection, removes=tuple(ids)))

    replace_skipped = of_store(Store.replace_skipped)
    share_metadata = of_store(Store.share_metadata)

    def check(self, *, repair: bool) -> list[Finding]:
        """What doctor finds in the library, even if its record can't be opened."""
        from refdesk.desk.corpus import metadata_problem, write_metadata

        try:
            findings = self._store.verify(repair=repair)
        except LibraryDamaged as error:
            damaged = Finding(part="record", ok=False, message=str(error))
            return [damaged, *self._parts.check_beside(self.library, repair)]
        if self.settings.skills == "neo4j":
            findings.append(self._check_playbooks())
        problem = metadata_problem(self.library)
        if problem is None or not findings[0].ok:
            return findings
        if repair:
            write_metadata(self)
        then = "It was written anew." if repair else "`refdesk doctor` writes it anew."
        message = f"{self.library.metadata.name} {problem}. {then}"
        return [*findings, Finding(part="metadata", ok=repair, message=message, repaired=repair)]

    def _check_playbooks(self) -> Finding:
        try:
            self._playbooks.list_skills(1)
        except RefdeskError as error:
            return Finding(part="playbooks", ok=False, message=str(error))
        return Finding(part="playbooks", ok=True, message="Neo4j answers.")

    def _writer(self, parser: Parser, progress: Progress | None) -> Writer:
        pool = self._parts.pool(parser, self.embedder, self.settings.workers)
        if self.embedder is not None:
            self._store.set_embedder_identity(self.embedder.identity)  # checked before: it is this or none yet
        return Writer(self._store, pool, self.embedder, progress or Progress(), self._queries.wait_for_queries)

    def _name_for(self, folder: Path, kind: CollectionKind) -> str:
        """The name of the folder's collection, else a unique one made from the folder's name."""
        known = {one.name: one for one in self._store.collections()}
        for one in self.around(folder):
            if one.root == str(folder) and one.kind == kind:
                return one.name
        name = stem = name_from(folder.name)
        number = 1
        while name in known:
            number += 1
            name = f"{stem}-{number}"
        return name
