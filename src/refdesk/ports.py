"""What can be swapped?  Source, Parser, Embedder, Judge, Store, Llm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from refdesk.model import (
    EVERYTHING,
    Batch,
    Chunking,
    Collection,
    Content,
    Document,
    EmbedderIdentity,
    FileState,
    Filterable,
    Filters,
    Finding,
    Found,
    Parsed,
    Ranking,
    Reference,
    RelationKind,
    Skipped,
    Stats,
    StoredChunk,
    Symbol,
)

if TYPE_CHECKING:
    from refdesk.model import Vector


class Source(Protocol):
    """Where bytes come from."""

    def walk(
        self, only: Iterable[str] | None = None, known: Mapping[str, FileState] | None = None
    ) -> Iterator[Found | Skipped]:
        """What there is, in a stable order, and what is left out; or what there is of some paths.

        The states of files that are known already spare a source the question whether they are to be taken.
        """

    def read(self, found: Found) -> Content:
        """The bytes of one of them."""

    def reject(self, found: Found, content: Content) -> None:
        """Remembers that this content gives nothing, so that it is not read again until it or its reader changes."""

    def fingerprint(self, *, only_rejected: bool = False) -> str:
        """After a walk: what decided, to be given to the next walk; the rules as before where few files were read."""


class Parser(Protocol):
    """What is inside."""

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        """The document's text, chunks and symbols; ParseFailed with the reason when there is nothing to read."""


class Embedder(Protocol):
    """What it means."""

    @property
    def identity(self) -> EmbedderIdentity: ...

    @property
    def similarity_floor(self) -> float:
        """The cosine under which a passage without a matching term is not relevant."""

    @property
    def is_slow(self) -> bool:
        """Whether a few texts may take seconds."""

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        """One L2-normalised row per text; a zero row for a text without meaning."""

    def embed_queries(self, texts: Sequence[str]) -> Vector: ...


class Judge(Protocol):
    """Which of the best hits answers, by a slower and closer look."""

    @property
    def name(self) -> str: ...

    def judge(self, query: str, passages: Sequence[StoredChunk]) -> Sequence[float]:
        """A number for each passage, the higher the better; EmbeddingError when it can't be had."""


@runtime_checkable
class WordMatching(Protocol):
    """What an embedder may offer besides: single words compared by meaning."""

    @property
    def most_compared(self) -> int:
        """How many bytes of a spelt text match_words looks at: so many are kept with its vector."""

    def spell(self, text: str) -> bytes:
        """The text as match_words and embed_spelt take it; of texts with a blank between them, one behind the other."""

    def spell_run(self, run: bytes) -> bytes:
        """A run of a text, as runs.runs gives them; for who remembers what was made of each."""

    def spell_words(self, words: Sequence[str]) -> bytes:
        """The same where its words are known, as runs.words gives them."""

    def embed_spelt(self, texts: Sequence[bytes]) -> Vector:
        """As embed_passages, of spelt texts."""

    def knows_word(self, word: str) -> bool:
        """Whether a lower-case word is one of the model's own."""

    def words_like(self, word: str) -> Sequence[str]:
        """Those of the model's own words that begin like a lower-case word and are up to two edits away from it."""

    def match_words(self, query: str, texts: Sequence[str | bytes]) -> Sequence[float]:
        """How well each text's words meet the query's, from about 0 to 1 where all of them stand there."""


class View(Protocol):
    """What is found within some filters: everything that was committed before the view was made, maybe more."""

    @property
    def sequence(self) -> int:
        """The last commit that is in it for certain."""

    @property
    def has_unembedded(self) -> bool:
        """Whether passages in the collections that it is about have no vector."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said of how it was searched until now."""

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        """Chunks with any of the terms; those with more of them win, unless how many there are is not to count."""

    def phrase(self, words: Sequence[str], limit: int) -> Ranking: ...
    def literal(self, text: str, limit: int) -> Ranking:
        """Chunks that contain the text to the letter, found without any term."""

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        """Exact cosines, best first."""

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Those of the chunks that have a vector, within the filters or not."""

    def same_text(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        """For each chunk that exists a number that it shares with those of the same text only."""

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        """In how many chunks each term occurs: of its collections, where they are a small part of the library."""

    def most_telling(self, terms: Sequence[str], most: int) -> list[str]:
        """Up to so many of the terms, in their order: the rarest in the library, unknown ones at most half of them."""

    def passages(self) -> int:
        """Among how many chunks terms are counted; it may be a few more."""

    def unknown(self, terms: Sequence[str]) -> set[str]:
        """Those of the terms that nothing in the collections has."""

    def spelt_like(self, terms: Sequence[str], edits: int, limit: int) -> Ranking:
        """Chunks within the filters that hold a term which is no more than two such edits away from one of these."""

    def facet_values(self, key: str) -> dict[str, int]:
        """How many chunks within the filters carry each value of a metadata key."""


class Store(Protocol):
    """Where it is kept.  No SQL shows, ids are opaque, filters are data."""

    # collections
    def collections(self) -> list[Collection]: ...
    def collection(self, name: str) -> Collection | None: ...
    def put_collection(self, collection: Collection) -> None: ...
    def remove_collection(self, name: str) -> int: ...

    # writing
    def apply(self, batch: Batch) -> None:
        """All of the batch or nothing; visible to the next query of every process once its stretch has ended."""

    def replace_skipped(self, collection: str, skipped: Iterable[Skipped]) -> None: ...
    def unembedded(self, collection: str = "", limit: int = 1) -> list[str]:
        """Ids of documents with chunks that have no vector."""

    def missing_vectors(self, keys: Iterable[bytes]) -> set[bytes]: ...
    def writing(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile: to compare and to write what was compared; each batch is one transaction."""

    def stretch(self, wait: bool = True) -> AbstractContextManager[None]:
        """Many batches, between which others may write; with `wait` off, LibraryBusy where another stretch goes on."""

    def give_way(self) -> None:
        """Does, in a long stretch, what others wait for: to be called now and then."""

    def is_being_written(self) -> bool:
        """Whether another thread or process is writing now."""

    # documents
    def file_states(self, collection: str, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """What is known of each file by path; of those at or below some paths where these are given."""

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
    # searching
    def sequence(self) -> int:
        """Grows with every committed change; equal numbers mean equal answers."""

    def view(self, filters: Filters = EVERYTHING) -> View:
        """The library as a query sees it that comes now."""

    def values(self, of: Filterable) -> dict[str, int]:
        """How many chunks have each value of what filters can ask for."""

    def facets(self, collection: str) -> dict[str, dict[str, int]]:
        """The metadata that chunks of a collection carry themselves: how many have each value of each key."""

    # graph
    def symbols_named(self, name: str, collection: str = "") -> list[tuple[Document, Symbol]]: ...
    def symbols_of(self, document_id: str) -> list[Symbol]: ...
    def references_to(
        self, name: str, collection: str = "", kinds: Sequence[RelationKind] = ()
    ) -> list[tuple[Document, Reference]]: ...
    def references_of(self, document_id: str, kinds: Sequence[RelationKind] = ()) -> list[Reference]: ...

    # keeping
    def embedder_identity(self) -> EmbedderIdentity | None: ...
    def set_embedder_identity(self, identity: EmbedderIdentity) -> None:
        """Drops the vectors of any other model."""

    def stats(self, collection: str = "") -> Stats: ...
    def verify(self, repair: bool) -> list[Finding]: ...
    def backup(self, target: Path) -> Mapping[str, int]:
        """Copies all of the library to a new folder or .tar.zst file; how many there are of what is in it."""

    def close(self) -> None: ...


class Llm(Protocol):
    """Who thinks."""

    @property
    def name(self) -> str: ...

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """Text, or the object that satisfies the schema; LlmError when it can't be had."""
