"""The write path, top to bottom: walk, compare, read, parse, embed, apply."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from refdesk.errors import Cancelled, CollectionNotFound, LoadFailed, ParseFailed
from refdesk.ids import new_id
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
    Skipped,
    Vector,
)
from refdesk.ports import Embedder, Parser, Source, Store
from refdesk.prepare import Missing, Prepared, embed_missing, vector_keys

_BATCH_CHUNKS = 4_000  # a transaction's size: large enough to be fast, small enough to lose little and hold little
_BATCH_BYTES = 8_000_000
_BATCH_DOCUMENTS = 200
_LONG_BYTES = 200_000  # parsed and embedded in less than a second


class ParsePool(Protocol):
    """Parses contents, in this process or in several; answers come in the order of the contents."""

    def parse_all(
        self, contents: Iterable[Content], chunking: Chunking, missing: Missing, size: int = 0
    ) -> Iterator[tuple[Content, Prepared | Skipped]]:
        """Each content as found; `missing` tells which vectors have to be made, and is asked from any thread.

        `size` says how many bytes will come, as far as that is known.
        """


@dataclass(slots=True)
class Progress:
    """Where long work reports to and asks whether to go on."""

    report: Callable[[int, int, str], None] = lambda done, total, what: None
    cancelled: Callable[[], bool] = lambda: False

    def step(self, done: int, total: int, what: str) -> None:
        if self.cancelled():
            raise Cancelled("The work was cancelled.", "What was indexed before stays searchable.")
        self.report(done, total, what)


@dataclass(slots=True, kw_only=True)
class Report:
    """What a run did."""

    collection: str
    files: int = 0  # found worth reading
    written: int = 0
    unchanged: int = 0
    moved: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    symbols: int = 0
    references: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[Skipped] = field(default_factory=list)
    seconds: float = 0.0
    document_ids: list[str] = field(default_factory=list)
    written_ids: list[str] = field(default_factory=list)

    def leave_out(self, one: Skipped) -> None:
        """Takes note of what is not indexed: nothing to read there, or an error."""
        (self.errors if one.failed else self.skipped).append(one)

    def join(self, other: Report) -> None:
        """Adds what another run did."""
        for name in self.__dataclass_fields__:
            if name != "collection":
                setattr(self, name, getattr(self, name) + getattr(other, name))


class Writer:
    """Brings contents into one collection of a store."""

    def __init__(
        self,
        store: Store,
        pool: ParsePool,
        embedder: Embedder | None,
        progress: Progress,
        *,
        is_slow: bool = False,  # the embedder may take seconds for a few texts
    ) -> None:
        self._is_slow = is_slow
        self._store = store
        self._pool = pool
        self._embedder = embedder
        self._progress = progress

    def index(
        self, collection: Collection, source: Source, *, force: bool = False, only: set[str] | None = None
    ) -> Report:
        """Makes the collection hold what the source has; only what changed is read, parsed and embedded.

        With `only`, the paths in it are looked at and no others.
        """
        started = time.perf_counter()
        report = Report(collection=collection.name)
        with self._store.writing(is_long=True):
            states = self._store.file_states(collection.name)
            found, report.skipped = _split(self._walk(source, only))
            report.files = len(found)
            changed = [one for one in found if force or _is_new(one, states.get(one.path))]
            report.unchanged = len(found) - len(changed)
            present = {one.path for one in found}
            gone = {p: s for p, s in states.items() if p not in present and (only is None or p in only)}
            self._write_changed(collection, source, changed, states, gone, force, report)
            self._remove(collection, gone, report)
            if only is None:
                self._note_skipped(collection.name, [*report.skipped, *report.errors])
        report.seconds = time.perf_counter() - started
        return report

    def add(self, collection: Collection, contents: Sequence[Content]) -> Report:
        """Adds or updates single contents; one that is kept already, unchanged, is left alone."""
        started = time.perf_counter()
        report = Report(collection=collection.name, files=len(contents))
        size = sum(len(one.data) for one in contents)
        is_long = self._is_slow or size > _LONG_BYTES
        with self._store.writing(is_long=is_long):
            if self._store.collection(collection.name) is None:
                raise CollectionNotFound(f"Collection not found: {collection.name}.", "Create it first.")
            known = {one.uri: self._store.document_by_uri(one.uri, collection.name) for one in contents}
            fresh = [one for one in contents if not self._same(one, known[one.uri], report)]
            self._progress.step(report.unchanged, len(contents), contents[0].path if contents else "")
            before = {uri: document for uri, document in known.items() if document}
            self._write(collection, self._told(fresh, report), before, report, size)
            self._progress.report(len(contents), len(contents), "done")
        report.seconds = time.perf_counter() - started
        return report

    def _told(self, contents: Sequence[Content], report: Report) -> Iterator[Content]:
        unchanged = report.unchanged
        for number, one in enumerate(contents):
            self._progress.step(unchanged + number, report.files, one.path)
            yield one

    def _same(self, content: Content, known: Document | None, report: Report) -> bool:
        if known is None or known.content_hash != content_hash(content) or not _same_facts(content, known):
            return False
        report.unchanged += 1
        report.document_ids.append(known.id)
        return True

    def _walk(self, source: Source, only: set[str] | None) -> Iterator[Found | Skipped]:
        for number, one in enumerate(source.walk()):
            if number % 500 == 0:
                self._progress.step(number, 0, "looking")
            if only is None or one.path in only:
                yield one

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
        """Reads what changed; what only moved or was only touched is noted, the rest is parsed and written."""
        by_hash = {state.content_hash: path for path, state in gone.items()}
        by_path = {one.path: one for one in changed}
        touched: list[Document] = []
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
                came_from = by_hash.get(content_hash(content)) if document is None else None
                if came_from is not None and came_from in gone:
                    document = self._known(gone.pop(came_from))
                    report.moved += document is not None
                if document is not None and _is_same_file(document, content) and not force:
                    touched.append(_touch(document, content))
                    report.unchanged += 1
                    continue
                if document is not None:
                    known[content.uri] = document
                yield content

        size = sum(one.size for one in changed)
        self._write(collection, fresh(), known, report, size, lambda content: source.reject(by_path[content.path]))
        if touched:
            self._store.apply(Batch(collection=collection.name, touches=tuple(touched)))
        self._progress.step(len(changed), len(changed), "done")

    def _note_skipped(self, name: str, left_out: list[Skipped]) -> None:
        if {(one.path, one.reason) for one in left_out} != {
            (one.path, one.reason) for one in self._store.skipped(name)
        }:
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
        vectors: dict[bytes, Vector] = {}
        missing = self._store.missing_vectors
        with _collecting_seldom():
            for content, found in self._pool.parse_all(contents, collection.chunking, missing, size):
                if isinstance(found, Skipped):
                    report.leave_out(found)
                    reject(content)
                    self._drop_unreadable(collection, known.get(content.uri), report)
                    continue
                write = _document_write(collection, content, found, known.get(content.uri))
                writes.append(write if self._embedder else replace(write, vector_keys=(b"",) * len(write.chunks)))
                vectors.update(found.vectors)
                chunks += len(write.chunks)
                held += len(content.data)
                if chunks >= _BATCH_CHUNKS or held >= _BATCH_BYTES:
                    self._apply(collection, writes, vectors, report)
                    writes, vectors, chunks, held = [], {}, 0, 0
                    gc.collect(1)
            if writes:
                self._apply(collection, writes, vectors, report)

    def _drop_unreadable(self, collection: Collection, document: Document | None, report: Report) -> None:
        """A file that can't be read any more must not be found with lines it no longer has."""
        if document is not None:
            self._store.apply(Batch(collection=collection.name, removes=(document.id,)))
            report.removed += 1

    def _apply(
        self,
        collection: Collection,
        writes: Sequence[DocumentWrite],
        vectors: Mapping[bytes, Vector],  # made already; two documents that were parsed at once may both bring one
        report: Report,
    ) -> None:
        if self._embedder:
            vectors = {**vectors, **_embed_missing(self._store, self._embedder, writes, vectors.keys())}
        self._store.apply(Batch(collection=collection.name, writes=tuple(writes), vectors=vectors))
        report.written += len(writes)
        report.embedded += len(vectors)
        report.chunks += sum(len(write.chunks) for write in writes)
        report.symbols += sum(len(write.symbols) for write in writes)
        report.references += sum(len(write.references) for write in writes)
        ids = [write.document.id for write in writes]
        report.document_ids += ids
        report.written_ids += ids

    def _remove(self, collection: Collection, gone: Mapping[str, FileState], report: Report) -> None:
        ids = [state.document_id for state in gone.values()]
        for start in range(0, len(ids), _BATCH_CHUNKS):
            self._store.apply(Batch(collection=collection.name, removes=tuple(ids[start : start + _BATCH_CHUNKS])))
        report.removed += len(ids)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Leaves the rows of a batch alone, which hold no circles and would be looked through again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def content_hash(content: Content) -> str:
    """The identity of the bytes."""
    return hashlib.blake2b(content.data, digest_size=16).hexdigest()


def reembed(store: Store, embedder: Embedder, progress: Progress) -> int:
    """Gives every chunk a vector of this embedder; returns how many texts were embedded.

    A run that is killed leaves chunks without vectors, which the next one, or the next index run, embeds.
    """
    with store.writing(is_long=True):
        store.set_embedder_identity(embedder.identity)
        return sum(embed_rest(store, embedder, one.name, progress) for one in store.collections())


def embed_rest(store: Store, embedder: Embedder, collection: str, progress: Progress) -> int:
    """Embeds the chunks of a collection that have no vector; returns how many texts were embedded."""
    embedded = done = 0
    with store.writing():
        before: list[str] = []
        while (ids := store.unembedded(collection, _BATCH_DOCUMENTS)) and ids != before:
            before = ids
            documents = [document for one in ids if (document := store.document(one)) is not None]
            writes = [_rewrite(store, document) for document in documents]
            vectors = _embed_missing(store, embedder, writes)
            store.apply(Batch(collection=collection, writes=tuple(writes), vectors=vectors))
            embedded += len(vectors)
            done += len(documents)
            progress.step(done, 0, f"embedding {collection}")
    return embedded


def _embed_missing(
    store: Store, embedder: Embedder, writes: Sequence[DocumentWrite], made: AbstractSet[bytes] = frozenset()
) -> dict[bytes, Vector]:
    chunks = (one for write in writes for one in zip(write.vector_keys, write.chunks, strict=True))
    return embed_missing(embedder, chunks, lambda keys: store.missing_vectors(key for key in keys if key not in made))


def _rewrite(store: Store, document: Document) -> DocumentWrite:
    chunks = tuple(one.chunk for one in store.chunks_of(document.id))
    return DocumentWrite(
        document=document,
        raw=store.raw(document.id),
        chunks=chunks,
        vector_keys=vector_keys(chunks),
        symbols=tuple(store.symbols_of(document.id)),
        references=tuple(store.references_of(document.id)),
    )


def _split(walked: Iterable[Found | Skipped]) -> tuple[list[Found], list[Skipped]]:
    found: list[Found] = []
    skipped: list[Skipped] = []
    for one in walked:
        if isinstance(one, Found):
            found.append(one)
        else:
            skipped.append(one)
    return found, skipped


def _is_new(found: Found, state: FileState | None) -> bool:
    return state is None or (found.size, found.modified_ns) != (state.size, state.modified_ns)


def _same_facts(content: Content, known: Document) -> bool:
    """Whether type and metadata, where the caller gives them, are what they were."""
    is_override = content.content_type and "/" not in content.content_type  # a media type is only declared
    same_type = not is_override or content.content_type == known.content_type
    return same_type and all(known.metadata.get(key) == value for key, value in content.metadata.items())


def attached_before(store: Store, parser: Parser, collection: Collection, content: Content) -> Metadata:
    """The metadata that was given with the document, when it is about to change: what its own text did not say."""
    known = store.document_by_uri(content.uri, collection.name)
    if known is None or not known.metadata:
        return {}
    if known.content_hash == content_hash(content) and _same_facts(content, known):
        return {}
    before = replace(content, data=store.raw(known.id).encode(), content_type=known.content_type, charset="utf-8")
    try:
        own = parser.parse(before, collection.chunking).metadata
    except ParseFailed:
        own = {}
    return {key: value for key, value in known.metadata.items() if key not in own or own[key] != value}


def _is_same_file(document: Document, content: Content) -> bool:
    """Whether only the file's time changed; a moved one is read again, for its place decides how it is cut."""
    return document.path == content.path and document.content_hash == content_hash(content)


def _touch(document: Document, content: Content) -> Document:
    return replace(
        document, uri=content.uri, path=content.path, size=len(content.data), modified_ns=content.modified_ns
    )


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
