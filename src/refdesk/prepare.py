"""What is derived from a parsed document before it is written?  Keys, terms and vectors: work for any process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refdesk.analyse import joined
from refdesk.model import Chunk, DocumentWrite, Parsed
from refdesk.ports import Embedder, Store

if TYPE_CHECKING:
    from refdesk.model import Vector

Missing = Callable[[Iterable[bytes]], set[bytes]]  # those of the keys that no vector is kept under


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A parsed document with what was derived from its chunks, one entry for each."""

    parsed: Parsed
    vector_keys: tuple[bytes, ...]
    terms: tuple[str, ...]  # of the text, with blanks between them
    pieces: tuple[bytes, ...] = ()  # that the text begins with, if the embedder spells them
    vectors: Mapping[bytes, Vector] = field(default_factory=dict)  # those made already


def prepare(parsed: Parsed, embedder: Embedder | None) -> Prepared:
    """The document with its keys, terms and pieces."""
    return Prepared(
        parsed=parsed,
        vector_keys=vector_keys(parsed.chunks),
        terms=tuple(joined(chunk.text) for chunk in parsed.chunks),
        pieces=pieces(embedder, parsed.chunks),
    )


def pieces(embedder: Embedder | None, chunks: Sequence[Chunk]) -> tuple[bytes, ...]:
    """What the text of each chunk begins with, where the embedder compares single words."""
    spell = getattr(embedder, "spell", None)
    return tuple(spell([chunk.text for chunk in chunks])) if spell is not None else ()


def vector_keys(chunks: Sequence[Chunk]) -> tuple[bytes, ...]:
    """The addresses of the chunks' vectors."""
    return tuple(vector_key(embedding_text(chunk)) for chunk in chunks)


def embedding_text(chunk: Chunk) -> str:
    """What is embedded: where the chunk stands and what it says; no path, so that a moved file keeps its vectors."""
    where = chunk.breadcrumb[1:] if chunk.type == "code" and chunk.kind != "section" else chunk.breadcrumb
    head = " > ".join((*where, chunk.title) if chunk.title not in where[-1:] else where)
    return f"{head}\n{chunk.text}" if head else chunk.text


def vector_key(text: str) -> bytes:
    """The address of a text's vector."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def embed_missing(embedder: Embedder, chunks: Iterable[tuple[bytes, Chunk]], missing: Missing) -> dict[bytes, Vector]:
    """Vectors for the chunks, given with their keys, whose text was never embedded before."""
    by_key = dict(chunks)
    wanted = sorted(missing(by_key))
    if not wanted:
        return {}
    rows = embedder.embed_passages([embedding_text(by_key[key]) for key in wanted])
    return dict(zip(wanted, rows, strict=True))


def embed_writes(
    store: Store, embedder: Embedder, writes: Sequence[DocumentWrite], made: AbstractSet[bytes] = frozenset()
) -> dict[bytes, Vector]:
    """Vectors for the chunks of the writes that the store has none for, but for those made already."""
    chunks = (one for write in writes for one in zip(write.vector_keys, write.chunks, strict=True))
    return embed_missing(embedder, chunks, lambda keys: store.missing_vectors(key for key in keys if key not in made))
