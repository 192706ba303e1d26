"""A store in memory, without SQL, files or servers: it proves that the port says all that a store must do."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refdesk.errors import (
    CollectionExists,
    CollectionNotFound,
    DocumentNotFound,
    InvalidInput,
    LibraryBusy,
    VectorsMissing,
)
from refdesk.model import (
    EVERYTHING,
    Batch,
    Collection,
    Document,
    DocumentWrite,
    EmbedderIdentity,
    FileState,
    Filterable,
    Filters,
    Finding,
    Reference,
    RelationKind,
    Skipped,
    Stats,
    StoredChunk,
    Symbol,
    Vector,
    metadata_text,
)
from tests.ports.memory_view import MemoryView, clean


@dataclass(slots=True)
class Held:
    """A document with its chunks' ids, and the collection by its id, which stays when it is renamed."""

    write: DocumentWrite
    home: str
    ids: list[int]


@dataclass(slots=True)
class Data:
    """All of a library; stores that are opened on the same one share it."""

    collections: dict[str, Collection] = field(default_factory=dict)  # by id
    documents: dict[str, Held] = field(default_factory=dict)
    skipped: dict[str, list[Skipped]] = field(default_factory=dict)
    vectors: dict[bytes, Vector] = field(default_factory=dict)
    kept: dict[bytes, bytes] = field(default_factory=dict)
    identity: EmbedderIdentity | None = None
    sequence: int = 0
    last_id: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryStore:
    """Implements ports.Store."""

    def __init__(self, data: Data, lock_timeout_s: float = 30.0) -> None:
        self.data = data
        self._timeout_s = lock_timeout_s
        self._own = threading.local()

    # collections

    def collections(self, at: int = -1) -> list[Collection]:
        return sorted(self.data.collections.values(), key=lambda one: one.name)

    def collection(self, name: str) -> Collection | None:
        return next((one for one in self.data.collections.values() if one.name == name), None)

    def _home(self, name: str) -> str:
        found = self.collection(name)
        if found is None:
            raise CollectionNotFound(f"There is no collection {name}.")
        return found.id

    def put_collection(self, collection: Collection) -> None:
        with self.writing():
            other = self.collection(collection.name)
            if other is not None and other.id != collection.id:
                raise CollectionExists(f"There is another collection named {collection.name}.")
            before = self.data.collections.get(collection.id)
            newest = max(collection.updated_at, before.updated_at if before else 0)
            if before != (now := replace(collection, updated_at=newest)):
                self.data.collections[collection.id] = now
                self.data.sequence += 1

    def remove_collection(self, name: str) -> int:
        with self.writing():
            home = self._home(name)
            gone = [key for key, one in self.data.documents.items() if one.home == home]
            for key in gone:
                del self.data.documents[key]
            del self.data.collections[home]
            self.data.sequence += 1
            return len(gone)

    # writing

    def apply(self, batch: Batch) -> None:
        with self.writing():
            data, home = self.data, self._home(batch.collection)
            size = data.identity.dimension if data.identity else 0
            if any(size and len(one) != size for one in batch.vectors.values()):
                raise InvalidInput("A vector has other dimensions.")
            known = {**data.vectors, **batch.vectors}
            for write in batch.writes:
                if len(write.vector_keys) != len(write.chunks):
                    raise InvalidInput("There are more or fewer vector keys than chunks.")
                if any(key and key not in known for key in write.vector_keys):
                    raise VectorsMissing("The batch names vectors that the library does not hold.")
            if any(one.id not in data.documents for one in batch.touches):
                raise DocumentNotFound("There is no such document.")
            data.vectors = known
            data.kept |= batch.kept
            for key in batch.removes:
                data.documents.pop(key, None)
            for document in batch.touches:
                held = data.documents[document.id]
                held.write = replace(held.write, document=document)
            for write in batch.writes:
                self._put(write, home)
            newest = max((write.document.updated_at for write in batch.writes), default=0)
            own = data.collections[home]
            data.collections[home] = replace(own, updated_at=max(own.updated_at, newest))
            data.sequence += 1

    def _put(self, write: DocumentWrite, home: str) -> None:
        write = replace(write, chunks=tuple(one._replace(text=clean(one.text)) for one in write.chunks))
        kept: dict[Any, list[int]] = defaultdict(list)
        if (before := self.data.documents.get(write.document.id)) is not None:
            for chunk, chunk_id in zip(before.write.chunks, before.ids, strict=True):
                kept[chunk.key, chunk.text].append(chunk_id)
        ids = []
        for chunk in write.chunks:
            if same := kept[chunk.key, chunk.text]:
                ids.append(same.pop(0))
            else:
                self.data.last_id += 1
                ids.append(self.data.last_id)
        self.data.documents[write.document.id] = Held(write, home, ids)

    def replace_skipped(self, collection: str, skipped: Iterable[Skipped]) -> None:
        home, given = self._home(collection), sorted(skipped, key=lambda one: one.path)
        if self.data.skipped.get(home, []) != given:
            self.data.skipped[home] = given
            self.data.sequence += 1

    def share_metadata(self) -> None: ...

    def unembedded(self, collection: str = "", limit: int = 1) -> list[str]:
        found = [one for one in self._within(collection) if not all(one.write.vector_keys)]
        return [one.write.document.id for one in found][:limit]

    def missing_vectors(self, keys: Iterable[bytes]) -> set[bytes]:
        return {key for key in keys if key and key not in self.data.vectors}

    @contextmanager
    def writing(self) -> Iterator[None]:
        depth = getattr(self._own, "depth", 0)
        if not depth and not self.data.lock.acquire(timeout=self._timeout_s):
            raise LibraryBusy(f"Another writer is at work: process {os.getpid()}.")
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            if not depth:
                self.data.lock.release()

    def stretch(self, wait: bool = True) -> AbstractContextManager[None]:
        if not wait and self.is_being_written():
            raise LibraryBusy("Another writer is at work.")
        return nullcontext()

    def flush_for_others(self) -> None: ...

    def is_being_written(self) -> bool:
        return self.data.lock.locked()

    # documents

    def _document(self, held: Held) -> Document:
        return replace(held.write.document, collection=self.data.collections[held.home].name)

    def _within(self, collection: str) -> list[Held]:
        found = self.data.documents.values()
        held = [one for one in found if collection in ("", self.data.collections[one.home].name)]
        return sorted(held, key=lambda one: (self.data.collections[one.home].name, one.write.document.path))

    def every(self) -> list[StoredChunk]:
        """Every passage."""
        return [chunk for held in list(self.data.documents.values()) for chunk in self._chunks(held)]

    def _chunks(self, held: Held) -> list[StoredChunk]:
        document, write = self._document(held), held.write
        return [
            StoredChunk(id=chunk_id, position=at, document=document, chunk=chunk, kept=self.data.kept.get(key, b""))
            for at, (chunk_id, chunk, key) in enumerate(zip(held.ids, write.chunks, write.vector_keys, strict=True))
        ]

    def vectors_of(self, chunks: Mapping[int, StoredChunk]) -> dict[int, Vector]:
        """The vectors of those of the passages that have one."""
        found = {}
        for one in chunks.values():
            held = self.data.documents.get(one.document.id)
            if held is not None and (own := self.data.vectors.get(held.write.vector_keys[one.position])) is not None:
                found[one.id] = np.asarray(own, np.float32)
        return found

    def file_states(self, collection: str, paths: Iterable[str] | None = None) -> Iterator[tuple[str, FileState]]:
        wanted = None if paths is None else list(paths)
        for held in self._within(collection):
            document = held.write.document
            at = document.path
            if wanted is None or any(at == path or at.startswith(f"{path}/") for path in wanted):
                state = (document.id, document.size, document.modified_ns, document.content_hash, document.stamp)
                yield at, FileState(*state)

    def skipped(self, collection: str) -> list[Skipped]:
        found = self.collection(collection)
        return list(self.data.skipped.get(found.id, [])) if found else []

    def documents(self, collection: str, limit: int, offset: int) -> list[Document]:
        return [self._document(one) for one in self._within(collection)][offset : offset + limit]

    def count_documents(self, collection: str) -> int:
        return len(self._within(collection))

    def document_ids(self, prefix: str) -> list[str]:
        return sorted(one for one in self.data.documents if one.startswith(prefix))

    def document(self, document_id: str) -> Document | None:
        held = self.data.documents.get(document_id)
        return self._document(held) if held else None

    def document_by_uri(self, uri: str, collection: str = "") -> Document | None:
        return next((self._document(one) for one in self._within(collection) if one.write.document.uri == uri), None)

    def document_by_path(self, collection: str, path: str) -> Document | None:
        return next((self._document(one) for one in self._within(collection) if one.write.document.path == path), None)

    def raw(self, document_id: str) -> str:
        if document_id not in self.data.documents:
            raise DocumentNotFound(f"There is no document {document_id}.")
        return self.data.documents[document_id].write.raw

    def chunks_of(self, document_id: str) -> list[StoredChunk]:
        held = self.data.documents.get(document_id)
        return self._chunks(held) if held else []

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        wanted = set(chunk_ids)
        return {one.id: one for one in self.every() if one.id in wanted}

    def sequence(self) -> int:
        return self.data.sequence

    def view(self, filters: Filters = EVERYTHING) -> MemoryView:
        return MemoryView(self, filters)

    def values(self, of: Filterable) -> dict[str, int]:
        if of == "extension":
            return dict(Counter(one.document.path.rsplit(".", 1)[-1] for one in self.every()))
        return dict(Counter(one.chunk.kind if of == "kind" else one.chunk.language for one in self.every()))

    def facets(self, collection: str) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for held in self._within(collection):
            for chunk in held.write.chunks:
                for key, value in chunk.metadata.items():
                    own = found.setdefault(key, {})
                    own[metadata_text(value)] = own.get(metadata_text(value), 0) + 1
        return found

    # graph

    def symbols_named(self, name: str, collection: str = "") -> list[tuple[Document, Symbol]]:
        every = [(self._document(one), symbol) for one in self._within(collection) for symbol in one.write.symbols]
        found = [(document, symbol) for document, symbol in every if symbol.name == name]
        return found or [pair for pair in every if "." in name and f".{pair[1].qualified}".endswith(f".{name}")]

    def symbols_of(self, document_id: str) -> list[Symbol]:
        return list(self.data.documents[document_id].write.symbols)

    def references_to(
        self, name: str, collection: str = "", kinds: Sequence[RelationKind] = ()
    ) -> list[tuple[Document, Reference]]:
        every = [(self._document(one), own) for one in self._within(collection) for own in one.write.references]
        return [pair for pair in every if pair[1].target == name and (not kinds or pair[1].kind in kinds)]

    def references_of(self, document_id: str, kinds: Sequence[RelationKind] = ()) -> list[Reference]:
        return [one for one in self.data.documents[document_id].write.references if not kinds or one.kind in kinds]

    # maintenance

    def embedder_identity(self) -> EmbedderIdentity | None:
        return self.data.identity

    def set_embedder_identity(self, identity: EmbedderIdentity) -> None:
        if self.data.identity == identity:
            return
        with self.writing():
            for held in self.data.documents.values():
                held.write = replace(held.write, vector_keys=(b"",) * len(held.ids))
            self.data.vectors = {}
            self.data.identity = identity
            self.data.sequence += 1

    def stats(self, collection: str = "") -> Stats:
        if collection:
            self._home(collection)
        found = [one.write for one in self._within(collection)]
        return Stats(
            collections=1 if collection else len(self.data.collections),
            documents=len(found),
            chunks=sum(len(one.chunks) for one in found),
            embeddings=sum(bool(key) for one in found for key in one.vector_keys),
            symbols=sum(len(one.symbols) for one in found),
            references=sum(len(one.references) for one in found),
            storage_bytes=sum(len(one.raw) for one in found) + (0 if collection else 1),
        )

    def verify(self, repair: bool) -> list[Finding]:
        return [Finding(part="record", ok=True, message="It is in memory.")]

    def close(self) -> None: ...
