"""What is derived from a parsed document before it is written?  Keys, terms and vectors: work for any process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from refdesk import runs
from refdesk.analyse import joined, terms_of_run, terms_of_words
from refdesk.model import Chunk, DocumentWrite, Parsed
from refdesk.ports import Embedder, Store, WordMatching
from refdesk.runs import Remembered

if TYPE_CHECKING:
    from refdesk.model import Vector

_NAMES = 8  # of a chunk's symbols that are part of its heading
_SPELT = itemgetter(1)
_RUNS = 100_000  # whose terms and pieces are remembered

Missing = Callable[[Iterable[bytes]], set[bytes]]  # those of the keys that no vector is kept under


@dataclass(frozen=True, slots=True)
class Embedded:
    """What an embedder made of texts, by their keys."""

    vectors: dict[bytes, Vector] = field(default_factory=dict)
    pieces: dict[bytes, bytes] = field(default_factory=dict)  # of the texts' beginnings, if it compares single words

    def update(self, other: Embedded) -> None:
        """Takes what the other has."""
        self.vectors.update(other.vectors)
        self.pieces.update(other.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A parsed document with what was derived from its chunks, one entry for each."""

    parsed: Parsed
    vector_keys: tuple[bytes, ...]
    terms: tuple[str, ...]  # of the text, with blanks between them
    spelt: tuple[bytes, ...] = ()  # the pieces of the texts, if they were worked out with the terms
    embedded: Embedded = field(default_factory=Embedded)  # what was made already


class Readings:
    """The terms and the pieces of texts, worked out together: both come of the same runs, and of their words."""

    def __init__(self, spelling: WordMatching) -> None:
        self._spelling = spelling
        self._runs = Remembered[bytes, tuple[str, bytes]](self._of_run, _RUNS)

    def read(self, text: str) -> tuple[str, bytes]:
        """The text's terms, as analyse.joined gives them, and its pieces, as the embedder spells it."""
        found = list(map(self._runs.__getitem__, runs.runs(text)))
        terms, spelt = zip(*found, strict=True) if found else ((), ())
        return " ".join(filter(None, terms)), b"".join(spelt)

    def spell(self, text: str) -> bytes:
        """The text's pieces alone."""
        return b"".join(map(_SPELT, map(self._runs.__getitem__, runs.runs(text))))

    def _of_run(self, run: bytes) -> tuple[str, bytes]:
        if run.isascii():
            words = runs.words(run.decode())
            return terms_of_words(words), self._spelling.spell_words(words)
        return terms_of_run(run), self._spelling.spell_run(run)


def prepare(parsed: Parsed, readings: Readings | None = None) -> Prepared:
    """The document with its keys and terms."""
    keys = vector_keys(parsed.chunks)
    if readings is None:
        return Prepared(parsed=parsed, vector_keys=keys, terms=tuple(joined(chunk.text) for chunk in parsed.chunks))
    found = [readings.read(chunk.text) for chunk in parsed.chunks]
    terms, spelt = zip(*found, strict=True) if found else ((), ())
    return Prepared(parsed=parsed, vector_keys=keys, terms=terms, spelt=spelt)


def vector_keys(chunks: Sequence[Chunk]) -> tuple[bytes, ...]:
    """The addresses of the chunks' vectors."""
    return tuple(vector_key(embedding_text(chunk)) for chunk in chunks)


def embedding_text(chunk: Chunk) -> str:
    """What is embedded: where the chunk stands and what it says; no path, so that a moved file keeps its vectors."""
    head = _head(chunk)
    return f"{head}\n{chunk.text}" if head else chunk.text


def _head(chunk: Chunk) -> str:
    where = _where(chunk)
    return " > ".join((*where, chunk.title) if chunk.title not in where[-1:] else where)


def _where(chunk: Chunk) -> tuple[str, ...]:
    """The headings or the types around the chunk; of code not the file, whose path is known besides."""
    return chunk.breadcrumb[1:] if chunk.type == "code" and chunk.kind != "section" else chunk.breadcrumb


def heading(chunk: Chunk) -> str:
    """What stands above the chunk and what it is called."""
    return " ".join((*_where(chunk)[-2:], chunk.title, *chunk.symbols[:_NAMES], chunk.signature))


def pieces(text: bytes, heading: bytes) -> bytes:
    """A text's and its heading's pieces in one; its last byte tells how many of them are the heading's."""
    return text + heading + bytes([len(heading) // 2])


def pieces_apart(kept: bytes) -> tuple[bytes, bytes]:
    """The text's and the heading's pieces, of which either may be empty where they were never kept."""
    if len(kept) % 2 == 0:  # kept without a heading
        return kept, b""
    end = len(kept) - 1 - 2 * kept[-1]
    return kept[:end], kept[end:-1]


def vector_key(text: str) -> bytes:
    """The address of a text's vector."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def embed_missing(
    embedder: Embedder,
    chunks: Iterable[tuple[bytes, Chunk]],
    missing: Missing,
    readings: Readings | None = None,
    spelt: Mapping[bytes, bytes] = MappingProxyType({}),
) -> Embedded:
    """Vectors for the chunks, given with their keys, whose text was never embedded before.

    Of some texts the pieces are known by then.
    """
    by_key = dict(chunks)
    wanted = sorted(missing(by_key))
    if not wanted:
        return Embedded()
    new = [by_key[key] for key in wanted]
    if not hasattr(embedder, "spell"):
        rows = embedder.embed_passages([embedding_text(chunk) for chunk in new])
        return Embedded(dict(zip(wanted, rows, strict=True)))
    spelling = cast(WordMatching, embedder)
    spell = spelling.spell if readings is None else readings.spell
    texts = [spelt[key] if key in spelt else spell(by_key[key].text) for key in wanted]
    rows = spelling.embed_spelt([spell(_head(chunk)) + own for chunk, own in zip(new, texts, strict=True)])
    most = spelling.most_compared
    kept = (pieces(own[:most], spell(heading(chunk))[:most]) for chunk, own in zip(new, texts, strict=True))
    return Embedded(dict(zip(wanted, rows, strict=True)), dict(zip(wanted, kept, strict=True)))


def embed_writes(
    store: Store, embedder: Embedder, writes: Sequence[DocumentWrite], made: AbstractSet[bytes] = frozenset()
) -> Embedded:
    """Vectors for the chunks of the writes that the store has none for, but for those made already."""
    chunks = (one for write in writes for one in zip(write.vector_keys, write.chunks, strict=True))
    return embed_missing(embedder, chunks, lambda keys: store.missing_vectors(key for key in keys if key not in made))
