"""The Protocols that can have other implementations: Source, Parser, Embedder, Record, Index, Llm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from refdesk.model import (
    EVERYTHING,
    Batch,
    Chunking,
    Collection,
    Content,
    Contents,
    Countable,
    Document,
    EmbedderIdentity,
    FileState,
    Filterable,
    Filters,
    Finding,
    Found,
    Origin,
    Parsed,
    Ranking,
    Reference,
    RelationKind,
    Skipped,
    Stats,
    StoredChunk,
    Symbol,
    Topic,
)

if TYPE_CHECKING:
    from refdesk.model import Vector


class Source(Protocol):
    """A place that content comes from."""

    def walk(
        self, only: Iterable[str] | None = None, known: Mapping[str, FileState] | None = None
    ) -> Iterator[Found | Skipped]:
        """The files in a stable order, and what is skipped; only those of the given paths, if any.

        The states of files that are known already spare a source the question whether they are to be taken.
        """

    def read(self, found: Found) -> Content:
        """The bytes of a found file."""

    def reject(self, found: Found, content: Content) -> None:
        """Records that this content can't be indexed, so that it is not read again until it or its parser changes."""

    def fingerprint(self, *, only_rejected: bool = False) -> str:
        """After a walk: the state of the ignore rules and rejected files, to be given to the next walk."""


class Parser(Protocol):
    """Turns bytes into a document."""

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        """The document's text, chunks and symbols; ParseFailed with the reason when there is nothing to read."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def identity(self) -> EmbedderIdentity: ...

    @property
    def similarity_floor(self) -> float:
        """The cosine below which a passage without a matching term is not relevant."""

    @property
    def is_slow(self) -> bool:
        """Whether a few texts may take seconds."""

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        """One L2-normalised row per text; a zero row for a text without meaning."""

    def embed_queries(self, texts: Sequence[str]) -> Vector: ...


@runtime_checkable
class WordMatching(Protocol):
    """An optional capability of embedders: comparison of single words by meaning."""

    def knows_word(self, word: str) -> bool:
        """Whether a lower-case word is one of the model's own."""

    def words_like(self, word: str) -> Sequence[str]:
        """The model's words with the same first letter and at most two edits from a lower-case word."""

    def match_words(self, query: str, texts: Sequence[str | bytes]) -> Sequence[float]:
        """How well each text's words match the query's: from about 0 to 1, if all of them occur.

        In place of a text, what the embedder wanted back of it.
        """


class View(Protocol):
    """The index within some filters: everything committed before the view was made, and possibly later commits."""

    @property
    def sequence(self) -> int:
        """The last commit that it certainly contains."""

    @property
    def has_unembedded(self) -> bool:
        """Whether some passages of its collections have no vector."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the searches so far, such as a fallback."""

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        """Chunks with any of the terms; with `by_number`, chunks with more of them rank higher."""

    def phrase(self, words: Sequence[str], limit: int) -> Ranking: ...
    def literal(self, text: str, limit: int) -> Ranking:
        """Chunks that contain the exact text, found by a scan."""

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        """Exact cosines, best first."""

    def both(self, terms: Sequence[str], vector: Vector, limit: int) -> tuple[Ranking, Ranking]:
        """`lexical` (not by number) and `nearest` at once."""

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """The cosines of the chunks that have a vector, regardless of the filters."""

    def topics(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, Topic]:
        """The documents of the chunks that have a vector, regardless of the filters, by chunk."""

    def origins(self, chunk_ids: Sequence[int]) -> dict[int, Origin]:
        """The text and document of each existing chunk."""

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        """The number of chunks with each term: in its collections, if they are a small part of the library."""

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        """The rarest terms, at most `most`, in their order; at most half of them unknown ones."""

    def passages(self) -> int:
        """The number of chunks, approximately, that document_frequency counts in."""

    def unknown(self, terms: Sequence[str]) -> set[str]:
        """The terms that do not occur in the collections."""

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        """Chunks with a term within `edits` (at most two) of one of these."""

    def facet_values(self, key: str) -> dict[str, int]:
        """The number of chunks with each value of a metadata key."""

    def tally(self, of: Countable, terms: Sequence[str], most: int) -> dict[str, int]:
        """The number of chunks with any of the terms, by value, most frequent first; metadata as KEY=VALUE."""


class Record(Protocol):
    """Everything that can't be rebuilt, with a log of its changes: no SQL outside, ids are opaque."""

    # collections
    def collections(self, at: int = -1) -> list[Collection]:
        """All of them; where the caller knows the last commit, it is not asked for again."""
        ...

    def collection(self, name: str) -> Collection | None: ...
    def put_collection(self, collection: Collection) -> None: ...
    def remove_collection(self, name: str) -> int: ...

    # writing
    def apply(self, batch: Batch) -> None:
        """Applies the whole batch or nothing; every process sees it once its stretch has ended."""

    def replace_skipped(self, collection: str, skipped: Iterable[Skipped]) -> None: ...
    def share_metadata(self) -> None:
        """Shares the metadata.json of this machine with all users of the library."""

    def unembedded(self, collection: str = "", limit: int = 1) -> list[str]:
        """Ids of documents with chunks that have no vector."""

    def missing_vectors(self, keys: Iterable[bytes]) -> set[bytes]: ...
    def writing(self) -> AbstractContextManager[None]:
        """Holds the write lock, to compare and write without a race; each batch is still its own transaction."""

    def stretch(self, wait: bool = True) -> AbstractContextManager[None]:
        """Groups many batches; others may write in between. Without `wait`, raises LibraryBusy if another is open."""

    def flush_for_others(self) -> None:
        """Commits, in a long stretch, what others wrote; to be called periodically."""

    def is_being_written(self) -> bool:
        """Whether another thread or process is writing now."""

    # documents
    def file_states(self, collection: str, paths: Iterable[str] | None = None) -> Iterator[tuple[str, FileState]]:
        """The path and the state of each file, read in pages; of those at or below the given paths only, if any."""

    def skipped(self, collection: str) -> list[Skipped]: ...
    def documents(self, collection: str, limit: int, offset: int) -> list[Document]: ...
    def count_documents(self, collection: str) -> int: ...
    def document_ids(self, prefix: str) -> list[str]: ...
    def document(self, document_id: str) -> Document | None: ...
    def document_by_uri(self, uri: str, collection: str = "") -> Document | None: ...
    def document_by_path(self, collection: str, path: str) -> Document | None: ...
    def raw(self, document_id: str) -> str: ...
    def chunks_of(self, document_id: str) -> list[StoredChunk]: ...
    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]: ...
    def sequence(self) -> int:
        """The version of the last commit: equal ones mean equal answers, and nothing else can be read from them."""

    def values(self, of: Filterable) -> dict[str, int]:
        """The number of chunks with each value of a filterable field."""

    def facets(self, collection: str) -> dict[str, dict[str, int]]:
        """The chunks' own metadata in a collection: the number of chunks with each value of each key."""

    # graph
    def symbols_named(self, name: str, collection: str = "") -> list[tuple[Document, Symbol]]: ...
    def symbols_of(self, document_id: str) -> list[Symbol]: ...
    def references_to(
        self, name: str, collection: str = "", kinds: Sequence[RelationKind] = ()
    ) -> list[tuple[Document, Reference]]: ...
    def references_of(self, document_id: str, kinds: Sequence[RelationKind] = ()) -> list[Reference]: ...

    # maintenance
    def embedder_identity(self) -> EmbedderIdentity | None: ...
    def set_embedder_identity(self, identity: EmbedderIdentity) -> None:
        """Drops the vectors of any other model."""

    def stats(self, collection: str = "") -> Stats: ...
    def contents(self) -> dict[str, Contents]:
        """What each collection holds, by name; cheaper than its stats. One that is empty is left out."""


class Index(Protocol):
    """Finds passages of a record by words and meaning; it follows the record's log, and can be built from it anew."""

    def view(self, filters: Filters = EVERYTHING) -> View:
        """The current index within the filters."""


class Store(Record, Index, Protocol):
    """One library: a record and its index."""

    def verify(self, repair: bool) -> list[Finding]: ...
    def close(self) -> None: ...


class Sampler(Protocol):
    """The client's own model, which answers in text."""

    def __call__(self, prompt: str, *, system: str | None = None, max_tokens: int = 1024) -> str: ...


class Llm(Protocol):
    """A language model."""

    @property
    def name(self) -> str: ...

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """The answer as text, or as an object that satisfies the schema; raises LlmError."""
