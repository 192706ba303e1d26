"""The values that everything passes around: Collection, Document, Chunk, Symbol, Query, Hit. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
else:
    Vector = Any  # numpy is slow to import, and a type needs it only for checking

CollectionKind = Literal["code", "docs", "files", "web"]
ChunkType = Literal["prose", "code", "api", "config", "cmd"]
RelationKind = Literal["calls", "references", "imports", "inherits", "conforms", "package", "fact"]
Metadata = Mapping[str, Any]  # JSON values; filters compare their text, see metadata_text


def metadata_text(value: Any) -> str:
    """The text of a metadata value as filters compare it: a string as is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    max_tokens: int = 512
    min_tokens: int = 50
    overlap_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDefaults:
    """The search settings of a collection, for callers that give none."""

    top_k: int = 10
    hybrid: bool = True
    alpha: float | None = None  # share of the semantic score; None: the engine decides


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A named set of documents: a docs corpus, a codebase, a crawled site, a folder of files."""

    id: str  # ULID
    name: str
    kind: CollectionKind
    description: str = ""
    root: str = ""  # absolute folder or base URL that paths are relative to; "" for none
    chunking: Chunking = Chunking()
    search: SearchDefaults = SearchDefaults()
    properties: Mapping[str, str] = field(default_factory=dict)  # e.g. the ignore-rule fingerprint
    created_at: int = 0  # milliseconds since the epoch
    updated_at: int = 0  # the last write of one of its documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One file, page or text of a collection, without its content."""

    id: str  # ULID
    collection: str  # the collection's name
    uri: str
    path: str  # relative to the collection's root, with "/"; what globs match and people read
    title: str
    content_type: str  # "python", "markdown", "plain_text", …
    content_hash: str
    size: int  # bytes as found at the source
    modified_ns: int  # the source's modification time, 0 when it has none
    stamp: int = 0  # combines the inode and its change time, 0 for none
    metadata: Metadata = field(default_factory=dict)
    created_at: int = 0
    updated_at: int = 0


class Chunk(NamedTuple):
    """A passage of a document: whole lines of it, or an outline made from them.

    A tuple is made in a quarter of a dataclass's time: 48 are read for each query, and all are sent by workers.
    """

    text: str
    kind: str  # section, function, method, class, interface, outline, record, paragraph, page, …
    type: ChunkType
    language: str  # "python", "markdown", …; of the passage itself
    start_line: int  # of the source file, 1-based, inclusive; 0 for a converted document
    end_line: int
    tokens: int  # as tokens.pieces counts, by which documents are cut
    key: str  # unique within the document and stable: the docs contract's fragment, "" for the whole file
    title: str = ""  # the immediate heading or the symbol's name
    breadcrumb: tuple[str, ...] = ()  # document title first, then headings or enclosing types
    symbols: tuple[str, ...] = ()  # names this passage defines
    signature: str = ""
    doc_comment: str = ""
    metadata: Metadata = {}  # noqa: RUF012 - nobody changes it

    @property
    def lines(self) -> str:
        """The line range as text: "12-40", or "" for none."""
        return f"{self.start_line}-{self.end_line}" if self.start_line else ""

    @property
    def is_as_written(self) -> bool:
        """Whether its text equals lines of the source file: not so for outlines and converted pages."""
        return self.start_line > 0 and self.text.count("\n") == self.end_line - self.start_line

    @property
    def around(self) -> tuple[str, ...]:
        """The headings or types around it; for code without the file name."""
        return self.breadcrumb[1:] if self.type == "code" and self.kind != "section" else self.breadcrumb

    @property
    def heading(self) -> str:
        """Its headings, title and first names, which are compared with a query word by word, as its text is."""
        return " ".join((*self.around[-2:], self.title, *self.symbols[:8], self.signature))

    def place(self, path: str) -> str:
        return f"{path}:{self.lines}" if self.start_line else path


class Symbol(NamedTuple):  # like Reference: there are many, and tuples are cheap to make and to send
    """A definition in a source file."""

    name: str
    qualified: str  # enclosing names joined by ".", ending in the name
    kind: str  # function, method, class, struct, enum, protocol, interface, trait, extension, property, …
    start_line: int
    end_line: int
    signature: str = ""
    # What the grammar says about it, for graph/types.py: one fact a line, with a sign, a name, a line number from the
    # start, and the content.  `:name 2 a.B|C` is declared with these types, `=name 3 self.make()#1` is assigned
    # that expression (of several results the second), `~name 4 self.all` iterates over it; `> 0 A,B` returns these
    # types, `< 5 make()` that call; `( 0 *T,any>error` takes and returns these (Go methods); `{ 0 B` is the receiver
    # of its last parameter, a lambda, "?" for a generic one (Kotlin); `+ 0 ` extends a type; `! 0 expect` or actual.
    facts: str = ""


class Reference(NamedTuple):
    """A name used in a source file; which symbol it means is decided by graph.py."""

    kind: RelationKind
    source: str  # qualified name of the enclosing symbol, "" at file level
    target: str  # the name as written, its last part
    line: int
    receiver: str = ""  # what stands before the name: "self", "client.session", "." if left out; an import's module
    alias: str = ""  # the local name an import binds, where it differs; the calls whose lambdas a Kotlin call is in


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a parser made of one content."""

    title: str
    content_type: str
    text: str  # decoded, cleaned content: stored as the document's raw content
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...] = ()
    references: tuple[Reference, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # problems that did not stop it: "decoded as latin-1", "front matter is not valid YAML"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes and what their source declares about them."""

    uri: str
    path: str
    data: bytes
    content_type: str = ""  # declared type or override, "" to detect it
    charset: str = ""
    modified_ns: int = 0
    stamp: int = 0
    metadata: Metadata = field(default_factory=dict)
    attached: Metadata = field(default_factory=dict)  # from an earlier ingest; the text's own wins


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that a walk found and that is to be indexed."""

    path: str  # relative, "/"
    size: int
    modified_ns: int
    stamp: int = 0  # changes with the inode and its change time, even if the modification time was reset

    @classmethod
    def of(cls, path: str, state: os.stat_result) -> Found:
        """The file in that state on disk."""
        stamp = (state.st_ctime_ns ^ state.st_ino << 32) & 0x7FFF_FFFF_FFFF_FFFF  # SQLite has signed 64-bit integers
        return cls(path=path, size=state.st_size, modified_ns=state.st_mtime_ns, stamp=stamp)

    def is_new(self, state: FileState | Document | None) -> bool:
        """Whether size, time or stamp differ from the indexed ones, so that the content must be compared."""
        if state is None or (self.size, self.modified_ns) != (state.size, state.modified_ns):
            return True
        return self.stamp != state.stamp and state.stamp != 0  # 0: indexed by an older version


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file or folder that is not indexed, and why."""

    path: str
    reason: str
    failed: bool = field(default=False, compare=False)  # an error, not a rule


@dataclass(frozen=True, slots=True)
class FileState:
    """What the record stores of an indexed file to detect a change."""

    document_id: str
    size: int
    modified_ns: int
    content_hash: str
    stamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWrite:
    """A document with everything derived from it; replaces the stored document of the same id."""

    document: Document
    raw: str
    chunks: tuple[Chunk, ...]
    vector_keys: tuple[bytes, ...]  # one per chunk; b"" for a chunk without a vector
    terms: tuple[str, ...] = ()  # of each chunk's text, separated by blanks; if empty, the store analyses the text
    symbols: tuple[Symbol, ...] = ()
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one transaction changes in one collection."""

    collection: str
    writes: tuple[DocumentWrite, ...] = ()
    removes: tuple[str, ...] = ()  # document ids
    touches: tuple[Document, ...] = ()  # same content: new path, uri, size, time or metadata
    vectors: Mapping[bytes, Vector] = field(default_factory=dict)  # new ones by key, L2-normalised
    kept: Mapping[bytes, bytes] = field(default_factory=dict)  # what the embedder wants back with them, if anything


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:  # vectors of two models are never mixed
    name: str
    version: str
    dimension: int


Filterable = Literal["kind", "language", "extension"]
Countable = Literal["collection", "kind", "language", "path", "metadata"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a hit must satisfy; an empty field does not restrict, several values are alternatives."""

    collections: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()  # normalised here: "*.PY" and ".py" become "py"
    paths: tuple[str, ...] = ()  # globs on the relative path
    metadata: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (key, accepted values); all keys must hold

    def __post_init__(self) -> None:
        if self.extensions:
            plain = tuple(one.strip().lstrip("*").lstrip(".").lower() for one in self.extensions)
            object.__setattr__(self, "extensions", plain)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__dataclass_fields__)


EVERYTHING = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    filters: Filters = EVERYTHING
    limit: int = 10
    offset: int = 0
    alpha: float | None = None  # share of the semantic score: 0 keywords only, 1 vectors only; None: the engine decides
    fusion: Literal["blend", "rank"] = "blend"  # a blend of scores, or weighted reciprocal rank
    by: Literal["file", "passage"] = "passage"  # one hit a file with its further passages inside, or one a passage
    prefer: Literal["", "code"] = ""  # rank code before equally good documentation and data
    exact: bool = False  # a hit must contain the text literally, with its punctuation
    explain: bool = False
    vector: Vector | None = field(default=None, compare=False)  # the text's embedding, if known


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunks found by one index, best first, with that index's own scores."""

    ids: Sequence[int] = ()
    scores: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def by_chunk(self) -> dict[int, float]:
        return dict(zip(self.ids, self.scores, strict=True))


class Origin(NamedTuple):
    """What a chunk is a part of, known without reading it."""

    text: int  # equal only for chunks of the same text
    document: int  # equal only for chunks of the same document
    path: str  # of the document


@dataclass(frozen=True, slots=True)
class Topic:
    """A whole document, by the vectors of its passages, compared with a query."""

    cosine: float  # of the vectors' mean
    mean: float  # of the vectors' cosines; lower than the other the more the passages differ
    passages: int


class StoredChunk(NamedTuple):
    """A chunk with its id, its position and its document."""

    id: int
    position: int  # in the document, 0-based
    document: Document
    chunk: Chunk
    kept: bytes = b""  # what the embedder wanted back with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    stored: StoredChunk
    score: float  # the probability that this is the answer, 0..1; never higher than that of the hit before
    excerpt: Callable[[], tuple[str, int]] = field(compare=False, repr=False)  # cut when asked for: many show none
    more: tuple[StoredChunk, ...] = ()  # further good passages of the same file, best first
    explanation: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def snippet(self) -> str:
        return self.excerpt()[0]

    @property
    def snippet_line(self) -> int:
        return self.excerpt()[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of hits, best first."""

    hits: tuple[Hit, ...]
    more: bool
    state: int  # the record's sequence number that the page was computed at
    notes: tuple[str, ...] = ()  # fallbacks and omissions: "keywords only: no embedder"
    confidence: float | None = None  # the probability that something relevant was found; None if not judged
    weak: bool = False  # no certain answer: the hits are the nearest matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    collections: int
    documents: int
    chunks: int
    embeddings: int
    symbols: int
    references: int
    storage_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a collection holds, as a list of collections shows it."""

    documents: int = 0
    size: int = 0  # bytes as found at the sources
    chunks: int = 0
    types: Mapping[str, int] = field(default_factory=dict)  # content type → documents, the most first


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that doctor checked."""

    part: str  # record, playbooks, crawl, metadata, lexical, vectors
    ok: bool
    message: str
    repaired: bool = False
