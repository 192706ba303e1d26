"""The write path in order: walk, compare, read, parse, embed, apply."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Protocol

from refdesk.errors import CollectionNotFound, EmbedderMismatch, LoadFailed, ParseFailed, VectorsMissing
from refdesk.ingest.prepare import (
    Embedded,
    Missing,
    Prepared,
    Progress,
    Report,
    content_hash,
    embed_writes,
    is_same_file,
    is_unchanged,
    touched,
)
from refdesk.library import new_id
from refdesk.model import (
    Batch,
    Chunking,
    Collection,
    Content,
    Document,
    DocumentWrite,
    FileState,
    Found,
    Metadata,
    Parsed,
    Skipped,
)
from refdesk.ports import Embedder, Source, Store
from refdesk.system import memory
from refdesk.system.memory import gc_paused

_BATCH_CHUNKS = 4_000  # per transaction: large enough to be fast, small enough to lose little and to use little memory
_BATCH_BYTES = 8_000_000  # of contents, which take several times as much in memory
_FEW_CHUNKS = 100  # a batch has at least: a transaction takes as long for one as for these
_HELD_S = 0.25  # time that a batch may block other writers: if it takes longer, the next batches are smaller
_LONG_BYTES = 200_000  # are parsed and embedded in less than a second


class ParsePool(Protocol):
    """Parses contents in other processes; answers come in the order of the contents."""

    def parse_all(
        self, contents: Iterable[Content], chunking: Chunking, missing: Missing, size: int = 0, until: float = math.inf
    ) -> Iterator[tuple[Content, Prepared | Skipped | None]]:
        """Yields each content with its result; `missing` tells which vectors are needed, from any thread.

        `size` is the expected number of bytes. The result is None for what was not started by `until`.
        """


class Writer:
    """Writes contents to collections of a store."""

    def __init__(
        self,
        store: Store,
        pool: ParsePool,
        embedder: Embedder | None,
        progress: Progress,
        pause: Callable[[], None] = lambda: None,  # called between contents, to yield to queries
    ) -> None:
        self._store = store
        self._pool = pool
        self._embedder = embedder
        self._progress = progress
        self._pause = pause
        self._most_chunks = _BATCH_CHUNKS  # for the next batch
        self._share = 1.0  # of a full batch that memory allows
        self._others_wrote = False
        self._seen = -1  # the last commit up to which only this writer wrote since files were compared

    def index(
        self,
        collection: Collection,
        source: Source,
        *,
        force: bool = False,
        verify: bool = False,
        only: set[str] | None = None,
        begin: Callable[[int, int, bool], None] = lambda files, size, all_gone: None,
    ) -> Report:
        """Brings the collection up to date with the source; only what changed is read, parsed and embedded.

        With `verify` all files are read and their contents compared. With `only`, just these paths are considered.
        `begin` is called before the first change is written, if any is, with the number of files, the bytes to read and
        whether all indexed files are gone.
        """
        started = time.perf_counter()
        report = Report(collection=collection.name)
        with self._store.stretch():
            self._seen = self._store.sequence()
            states = dict(self._store.file_states(collection.name, only))
            found, report.skipped = self._walk(source, only, states)
            not_entered = len(report.skipped)
            changed = [one for one in found if force or verify or one.is_new(states.get(one.path))]
            report.unchanged = len(found) - len(changed)
            present = {one.path for one in found}
            gone = {path: state for path, state in states.items() if path not in present}
            if changed or gone:
                with self._writing(collection):
                    begin(len(found), sum(one.size for one in changed), 0 < len(gone) == len(states))
            self._write_changed(collection, source, changed, states, gone, force, report)
            self._remove(collection, gone, report)
            report.files = len(found) - (len(report.skipped) - not_entered)
            self._note_skipped(collection.name, [*report.skipped, *report.errors], only)
        report.seconds = time.perf_counter() - started
        return report

    def add(self, collection: Collection, contents: Sequence[Content]) -> Report:
        """Adds or updates single contents; unchanged ones are skipped."""
        started = time.perf_counter()
        report = Report(collection=collection.name, files=len(contents))
        size = sum(len(one.data) for one in contents)
        is_long = size > _LONG_BYTES or (self._embedder is not None and self._embedder.is_slow)
        with self._store.stretch() if is_long else nullcontext():
            if self._store.collection(collection.name) is None:
                raise CollectionNotFound(f"Collection not found: {collection.name}.", "Create it first.")
            self._seen = self._store.sequence()
            known = {one.uri: self._store.document_by_uri(one.uri, collection.name) for one in contents}
            fresh = []
            for one in contents:
                document = known[one.uri]
                if document is not None and is_unchanged(one, document):
                    report.document_ids.append(document.id)
                else:
                    fresh.append(one)
            report.unchanged = len(contents) - len(fresh)
            self._progress.step(report.unchanged, len(contents), contents[0].path if contents else "")
            before = {uri: found for uri, found in known.items() if found}
            self._write(collection, self._told(fresh, report), before, report, size)
            self._progress.report(len(contents), len(contents), "done")
        report.seconds = time.perf_counter() - started
        return report

    def parse(self, collection: Collection, content: Content) -> Parsed | None:
        """Parses a content without storing it; None if it can't be parsed."""
        for _, found in self._pool.parse_all([content], collection.chunking, lambda keys: set()):
            return found.parsed if isinstance(found, Prepared) else None
        return None

    def attached_before(self, collection: Collection, content: Content) -> Metadata:
        """The metadata that an earlier call gave with a document that is about to change: all but its text's own."""
        known = self._store.document_by_uri(content.uri, collection.name)
        if known is None or not known.metadata or is_unchanged(content, known):
            return {}
        raw = self._store.raw(known.id).encode()
        own = self.parse(collection, replace(content, data=raw, content_type=known.content_type, charset="utf-8"))
        said = own.metadata if own is not None else {}
        return {key: value for key, value in known.metadata.items() if key not in said or said[key] != value}

    def _told(self, contents: Sequence[Content], report: Report) -> Iterator[Content]:
        unchanged = report.unchanged
        for number, one in enumerate(contents):
            self._progress.step(unchanged + number, report.files, one.path)
            yield one

    def _walk(
        self, source: Source, only: set[str] | None, states: Mapping[str, FileState]
    ) -> tuple[list[Found], list[Skipped]]:
        found: list[Found] = []
        skipped: list[Skipped] = []
        for number, one in enumerate(source.walk(only, states)):
            if number % 500 == 0:
                self._progress.step(number, 0, "looking")
            if isinstance(one, Found):
                found.append(one)
            else:
                skipped.append(one)
        return found, skipped

    def _write_changed(
        self,
        collection: Collection,
        source: Source,
        changed: Sequence[Found],
        states: Mapping[str, FileState],
        gone: dict[str, FileState],
        force: bool,
        report: Report,
    ) -> None:
        """Reads what changed; files that only moved or were touched are updated, the rest is parsed and written."""
        by_hash = {state.content_hash: path for path, state in gone.items()}
        by_path = {one.path: one for one in changed}
        touches: list[Document] = []
        known: dict[str, Document] = {}

        def fresh() -> Iterator[Content]:
            for number, one in enumerate(changed):
                self._progress.step(number, len(changed), one.path)
                try:
                    content = source.read(one)
                except (LoadFailed, ParseFailed) as error:
                    report.leave_out(Skipped(path=one.path, reason=error.message, failed=isinstance(error, LoadFailed)))
                    if isinstance(error, ParseFailed):
                        self._drop_unreadable(collection, self._known(states.get(one.path)), report)
                    continue
                document = self._known(states.get(one.path))
                came_from = by_hash.get(content_hash(content)) if by_hash and document is None else None
                if came_from is not None and came_from in gone:
                    document = self._known(gone.pop(came_from))
                    report.moved += document is not None
                if document is not None and is_same_file(document, content) and not force:
                    if (again := touched(document, content)) != document:
                        touches.append(again)
                    report.unchanged += 1
                    continue
                if document is not None:
                    known[content.uri] = document
                yield content

        size = sum(one.size for one in changed)
        self._write(
            collection, fresh(), known, report, size, lambda content: source.reject(by_path[content.path], content)
        )
        if touches:
            with self._writing(collection):
                same = tuple(one for one in touches if self._is_as_seen(one))
                self._store.apply(Batch(collection=collection.name, touches=same))
        self._progress.step(len(changed), len(changed), "done")

    def _note_skipped(self, name: str, left_out: list[Skipped], only: set[str] | None) -> None:
        before = self._store.skipped(name)
        if only is not None:
            left_out = [*(one for one in before if one.path not in only), *left_out]
        if {(one.path, one.reason) for one in left_out} != {(one.path, one.reason) for one in before}:
            self._store.replace_skipped(name, left_out)

    def _known(self, state: FileState | None) -> Document | None:
        return self._store.document(state.document_id) if state else None

    def _write(
        self,
        collection: Collection,
        contents: Iterable[Content],
        known: Mapping[str, Document],
        report: Report,
        size: int,
        reject: Callable[[Content], None] = lambda content: None,
    ) -> None:
        writes: list[DocumentWrite] = []
        chunks = held = 0
        made = Embedded()
        missing = self._store.missing_vectors
        with gc_paused():
            for content, found in self._pool.parse_all(
                contents, collection.chunking, missing, size, self._progress.until
            ):
                if found is None:
                    report.waiting.append(content.path)
                    continue
                if isinstance(found, Skipped):
                    report.leave_out(found)
                    reject(content)
                    self._drop_unreadable(collection, known.get(content.uri), report)
                    continue
                report.remarks += [Skipped(path=content.path, reason=note) for note in found.parsed.notes]
                self._store.flush_for_others()
                self._pause()
                write = _document_write(collection, content, found, known.get(content.uri))
                writes.append(write if self._embedder else replace(write, vector_keys=(b"",) * len(write.chunks)))
                made.update(found.embedded)
                chunks += len(write.chunks)
                held += len(content.data)
                if chunks >= self._most_chunks or held >= self._share * _BATCH_BYTES:
                    self._apply(collection, writes, made, known, report)
                    writes, made, chunks, held = [], Embedded(), 0, 0
                    gc.collect(1)
            if writes:
                self._apply(collection, writes, made, known, report)

    def _drop_unreadable(self, collection: Collection, document: Document | None, report: Report) -> None:
        """Removes the document of a file that can't be read any more, so that stale lines are not found."""
        if document is not None:
            with self._writing(collection):
                if self._is_as_seen(document):
                    self._store.apply(Batch(collection=collection.name, removes=(document.id,)))
                    report.removed += 1

    def _apply(
        self,
        collection: Collection,
        writes: Sequence[DocumentWrite],
        made: Embedded,  # so far; two documents parsed in parallel may have the same one
        known: Mapping[str, Document],
        report: Report,
    ) -> None:
        while True:
            if self._embedder:
                made.update(embed_writes(self._store, self._embedder, writes, made.vectors.keys()))
            try:
                with self._writing(collection):
                    began = time.perf_counter()
                    writes = [self._placed(write, known) for write in writes] if self._others_wrote else writes
                    batch = Batch(
                        collection=collection.name, writes=tuple(writes), vectors=made.vectors, kept=made.kept
                    )
                    self._store.apply(batch)
                    took = time.perf_counter() - began
                break
            except VectorsMissing:
                continue  # another writer removed the last chunks with these vectors since the check
        report.written += len(writes)
        report.embedded += len(made.vectors)
        chunks = sum(len(write.chunks) for write in writes)
        self._share = memory.share()
        self._most_chunks = max(_FEW_CHUNKS, int(self._share * min(_BATCH_CHUNKS, chunks * _HELD_S / took)))
        report.chunks += chunks
        report.symbols += sum(len(write.symbols) for write in writes)
        report.references += sum(len(write.references) for write in writes)
        ids = [write.document.id for write in writes]
        report.document_ids += ids
        report.written_ids += ids

    def _remove(self, collection: Collection, gone: Mapping[str, FileState], report: Report) -> None:
        paths = list(gone)
        for start in range(0, len(paths), _BATCH_CHUNKS):
            with self._writing(collection):
                some = paths[start : start + _BATCH_CHUNKS]
                now = dict(self._store.file_states(collection.name, some)) if self._others_wrote else gone
                same = [path for path in some if now.get(path) == gone[path]]
                ids = tuple(gone[path].document_id for path in same)
                self._store.apply(Batch(collection=collection.name, removes=ids))
            report.removed += len(ids)

    # what others wrote since

    @contextmanager
    def _writing(self, collection: Collection) -> Iterator[None]:
        """Holds the write lock; raises if the collection or the embedder changed since."""
        with self._store.writing():
            now = self._store.collection(collection.name)
            if now is None or now.id != collection.id:
                raise CollectionNotFound(
                    f"Collection {collection.name} was removed while it was being written to.", "Index it again."
                )
            if self._embedder and self._store.embedder_identity() not in (None, self._embedder.identity):
                raise EmbedderMismatch(
                    "The library's vectors were replaced by another embedder's meanwhile.",
                    "Set that embedder and index again.",
                )
            self._others_wrote = self._store.sequence() != self._seen
            yield
            if not self._others_wrote:
                self._seen = self._store.sequence()

    def _is_as_seen(self, document: Document) -> bool:
        now = self._store.document(document.id) if self._others_wrote else document
        return now is not None and (now.path, now.content_hash) == (document.path, document.content_hash)

    def _placed(self, write: DocumentWrite, known: Mapping[str, Document]) -> DocumentWrite:
        """The write with the id that its path has now, or a new id if another writer moved its document."""
        document, seen = write.document, known.get(write.document.uri)
        if (now := self._store.document_by_uri(document.uri, document.collection)) is not None:
            return replace(write, document=replace(document, id=now.id, created_at=now.created_at))
        if (now := self._store.document(document.id)) is not None and (seen is None or now.uri != seen.uri):
            return replace(write, document=replace(document, id=new_id()))
        return write


def _document_write(
    collection: Collection, content: Content, prepared: Prepared, known: Document | None
) -> DocumentWrite:
    parsed = prepared.parsed
    now = time.time_ns() // 1_000_000
    document = Document(
        id=known.id if known else new_id(),
        collection=collection.name,
        uri=content.uri,
        path=content.path,
        title=parsed.title,
        content_type=parsed.content_type,
        content_hash=content_hash(content),
        size=len(content.data),
        modified_ns=content.modified_ns,
        stamp=content.stamp,
        metadata={**content.attached, **parsed.metadata, **content.metadata},
        created_at=known.created_at if known else now,
        updated_at=now,
    )
    return DocumentWrite(
        document=document,
        raw=parsed.text,
        chunks=parsed.chunks,
        vector_keys=prepared.vector_keys,
        terms=prepared.terms,
        symbols=parsed.symbols,
        references=parsed.references,
    )
