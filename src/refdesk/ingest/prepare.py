"""Comparison of contents with stored documents, and what is derived before a write: keys, terms, vectors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from refdesk.errors import Cancelled
from refdesk.model import Batch, Chunk, Content, Document, DocumentWrite, Parsed, Skipped
from refdesk.ports import Embedder, Store
from refdesk.text import analyse as runs
from refdesk.text.analyse import Cache, joined, terms_of_run, terms_of_words

if TYPE_CHECKING:
    from refdesk.model import Vector


@dataclass(slots=True)
class Progress:
    """Receives the progress of a long run and tells it whether to go on."""

    report: Callable[[int, int, str], None] = lambda done, total, what: None
    cancelled: Callable[[], bool] = lambda: False
    until: float = math.inf  # on time.monotonic(): files not started by then are left for another run

    def step(self, done: int, total: int, what: str) -> None:
        if self.cancelled():
            raise Cancelled("The work was cancelled.", "What was indexed before stays searchable.")
        self.report(done, total, what)


@dataclass(slots=True, kw_only=True)
class Report:
    """What a run did."""

    collection: str
    files: int = 0  # files that are indexed
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
    remarks: list[Skipped] = field(default_factory=list)  # files that are indexed, but not as they should be
    waiting: list[str] = field(default_factory=list)  # paths left for another run
    taken_from: str = ""  # the other machine that had indexed the folder before
    seconds: float = 0.0
    document_ids: list[str] = field(default_factory=list)
    written_ids: list[str] = field(default_factory=list)

    def leave_out(self, one: Skipped) -> None:
        """Records a file that is not indexed: skipped by a rule, or an error."""
        (self.errors if one.failed else self.skipped).append(one)

    def join(self, other: Report) -> None:
        """Adds another run's report."""
        for name in self.__dataclass_fields__:
            if name != "collection":
                setattr(self, name, getattr(self, name) + getattr(other, name))


# ── comparison ──


def content_hash(content: Content) -> str:
    return hashlib.blake2b(content.data, digest_size=16).hexdigest()


def is_unchanged(content: Content, known: Document) -> bool:
    """Whether a document has this content, and the type and metadata that the caller gives, if any."""
    is_override = content.content_type and "/" not in content.content_type  # a media type is only declared
    if known.content_hash != content_hash(content) or (is_override and content.content_type != known.content_type):
        return False
    return all(known.metadata.get(key) == value for key, value in content.metadata.items())


def is_same_file(document: Document, content: Content) -> bool:
    """Whether only the file's time changed; a moved file is parsed again, since its path decides how it is cut."""
    return document.path == content.path and document.content_hash == content_hash(content)


def touched(document: Document, content: Content) -> Document:
    """The document with the path, size and time of the same content."""
    return replace(
        document,
        uri=content.uri,
        path=content.path,
        size=len(content.data),
        modified_ns=content.modified_ns,
        stamp=content.stamp,
    )


# ── groups of loaded contents ──

_GROUP_BYTES = 8_000_000  # as much as a batch of the writer


def marked(content: Content, content_type: str, metadata: Mapping[str, Any]) -> Content:
    """The content with the type and metadata that the caller gives."""
    return replace(
        content, content_type=content_type or content.content_type, metadata={**content.metadata, **metadata}
    )


def following(progress: Progress, before: int, is_last: bool) -> Callable[[int, int, str], None]:
    """A progress function for a group after others; the total is known with the last group only."""
    return lambda done, total, what: progress.report(before + done, before + total if is_last else 0, what)


def groups(loaded: Iterable[Content | Skipped]) -> Iterator[tuple[list[Content | Skipped], bool]]:
    """Groups of a few million bytes, or of one larger content, to bound memory; each with whether it is the last."""
    group: list[Content | Skipped] = []
    size = 0
    for one in loaded:
        more = len(one.data) if isinstance(one, Content) else 0
        if group and size + more > _GROUP_BYTES:
            yield group, False
            group, size = [], 0
        group.append(one)
        size += more
    if group:
        yield group, True


_SPELT = itemgetter(1)
_RUNS = 100_000  # runs whose terms and pieces are cached

Missing = Callable[[Iterable[bytes]], set[bytes]]  # returns the keys without a stored vector


@dataclass(frozen=True, slots=True)
class Embedded:
    """What an embedder made of texts, by key."""

    vectors: dict[bytes, Vector] = field(default_factory=dict)
    kept: dict[bytes, bytes] = field(default_factory=dict)  # the pieces of their beginnings, if it compares words

    def update(self, other: Embedded) -> None:
        self.vectors.update(other.vectors)
        self.kept.update(other.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A parsed document with the data derived from its chunks, one entry for each."""

    parsed: Parsed
    vector_keys: tuple[bytes, ...]
    terms: tuple[str, ...]  # of the text, separated by blanks
    spelt: tuple[bytes, ...] = ()  # the pieces of the texts, if computed with the terms
    embedded: Embedded = field(default_factory=Embedded)  # what was made already


@runtime_checkable
class Spelling(Protocol):
    """An embedder that makes its vectors of word pieces, which come from the same runs as the terms."""

    @property
    def most_compared(self) -> int:
        """The number of bytes of a text's pieces that match_words reads, and that are stored with its vector."""

    def spell(self, text: str) -> bytes:
        """The text's word pieces, for match_words and embed_spelt; pieces of texts joined by a blank concatenate."""

    def spell_run(self, run: bytes) -> bytes:
        """The pieces of one run of analyse.runs, uncached."""

    def spell_words(self, words: Sequence[str]) -> bytes:
        """The pieces of words, as analyse.words returns them."""

    def embed_spelt(self, texts: Sequence[bytes]) -> Vector:
        """As embed_passages, from the pieces of the texts."""


class Readings:
    """Computes the terms and pieces of texts together, since both come from the same runs; one cache serves both."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._runs = Cache[bytes, tuple[str, bytes]](self._of_run, _RUNS)

    def read(self, text: str) -> tuple[str, bytes]:
        """The text's terms, as analyse.joined returns them, and its pieces."""
        found = list(map(self._runs.__getitem__, runs.runs(text)))
        return "".join([terms for terms, _ in found])[:-1], b"".join([spelt for _, spelt in found])

    def spell(self, text: str) -> bytes:
        """The text's pieces alone."""
        return b"".join(map(_SPELT, map(self._runs.__getitem__, runs.runs(text))))

    def _of_run(self, run: bytes) -> tuple[str, bytes]:
        """The terms, each with a blank behind it, and the pieces."""
        if run.isascii():
            words = runs.words(run.decode())
            terms, spelt = terms_of_words(words), self._spelling.spell_words(words)
        else:
            terms, spelt = terms_of_run(run), self._spelling.spell_run(run)
        return f"{terms} " if terms else "", spelt


def prepare(parsed: Parsed, readings: Readings | None = None) -> Prepared:
    """The document with its keys and terms."""
    keys = vector_keys(parsed.chunks)
    if readings is None:
        return Prepared(parsed=parsed, vector_keys=keys, terms=tuple(joined(chunk.text) for chunk in parsed.chunks))
    found = [readings.read(chunk.text) for chunk in parsed.chunks]
    terms, spelt = zip(*found, strict=True) if found else ((), ())
    return Prepared(parsed=parsed, vector_keys=keys, terms=terms, spelt=spelt)


def vector_keys(chunks: Sequence[Chunk]) -> tuple[bytes, ...]:
    """The keys of the chunks' vectors."""
    return tuple(vector_key(embedding_text(chunk)) for chunk in chunks)


def embedding_text(chunk: Chunk) -> str:
    """The text to embed: headings and text, without the path, so that a moved file keeps its vectors."""
    head = _head(chunk)
    return f"{head}\n{chunk.text}" if head else chunk.text


def _head(chunk: Chunk) -> str:
    where = chunk.around
    return " > ".join((*where, chunk.title) if chunk.title not in where[-1:] else where)


def together(text: bytes, heading: bytes) -> bytes:
    """The pieces of a text and its heading in one, for rerank.apart; the last byte is the number of the heading's."""
    return text + heading + bytes([len(heading) // 2])


def vector_key(text: str) -> bytes:
    """The key of a text's vector."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def embed_missing(
    embedder: Embedder,
    chunks: Iterable[tuple[bytes, Chunk]],
    missing: Missing,
    readings: Readings | None = None,
    spelt: Mapping[bytes, bytes] = MappingProxyType({}),
) -> Embedded:
    """Vectors for those chunks, given with their keys, that have none; `spelt` has the pieces of some texts."""
    by_key = dict(chunks)
    wanted = sorted(missing(by_key))
    if not wanted:
        return Embedded()
    new = [by_key[key] for key in wanted]
    if not isinstance(embedder, Spelling):
        rows = embedder.embed_passages([embedding_text(chunk) for chunk in new])
        return Embedded(dict(zip(wanted, rows, strict=True)))
    spell = embedder.spell if readings is None else readings.spell
    texts = [spelt[key] if key in spelt else spell(by_key[key].text) for key in wanted]
    rows = embedder.embed_spelt([spell(_head(chunk)) + own for chunk, own in zip(new, texts, strict=True)])
    most = embedder.most_compared
    kept = (together(own[:most], spell(chunk.heading)[:most]) for chunk, own in zip(new, texts, strict=True))
    return Embedded(dict(zip(wanted, rows, strict=True)), dict(zip(wanted, kept, strict=True)))


def embed_writes(
    store: Store, embedder: Embedder, writes: Sequence[DocumentWrite], made: AbstractSet[bytes] = frozenset()
) -> Embedded:
    """Vectors for the chunks of the writes that neither the store nor `made` has."""
    chunks = (one for write in writes for one in zip(write.vector_keys, write.chunks, strict=True))
    return embed_missing(embedder, chunks, lambda keys: store.missing_vectors(key for key in keys if key not in made))


# ── re-embedding ──

_DOCUMENTS = 200  # embedded at a time


def reembed(store: Store, embedder: Embedder, progress: Progress) -> int:
    """Replaces all vectors by this embedder's; returns the number of embedded texts.

    A killed run leaves chunks without vectors, which the next run, or the next index run, embeds.
    """
    with store.stretch():
        store.set_embedder_identity(embedder.identity)
        return sum(embed_rest(store, embedder, one.name, progress) for one in store.collections())


def embed_rest(store: Store, embedder: Embedder, collection: str, progress: Progress) -> int:
    """Embeds the chunks of a collection that have no vector; returns the number of embedded texts."""
    embedded = done = 0
    with store.stretch():
        before: list[str] = []
        while (ids := store.unembedded(collection, _DOCUMENTS)) and ids != before:
            before = ids
            documents = [document for one in ids if (document := store.document(one)) is not None]
            writes = [_rewrite(store, document) for document in documents]
            made = embed_writes(store, embedder, writes)
            with store.writing():  # documents that changed since are left to the next round
                same = tuple(write for write in writes if store.document(write.document.id) == write.document)
                if same:
                    store.apply(Batch(collection=collection, writes=same, vectors=made.vectors, kept=made.kept))
            store.flush_for_others()
            embedded += len(made.vectors)
            done += len(documents)
            progress.step(done, 0, f"embedding {collection}")
    return embedded


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
