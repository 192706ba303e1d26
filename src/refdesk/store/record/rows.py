"""Conversion between values and rows."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from refdesk.model import (
    Chunk,
    Chunking,
    Collection,
    Document,
    Reference,
    RelationKind,
    SearchDefaults,
    StoredChunk,
    Symbol,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.floating[Any]]

COLLECTION = "ulid, name, kind, description, root, chunking, search, properties, created_at, updated_at"
DOCUMENT = (
    "d.ulid, n.name, d.uri, d.path, d.title, d.content_type, d.content_hash, d.size, d.modified_ns, d.metadata,"
    " d.created_at, d.updated_at, d.stamp"
)
CHUNK = (
    "c.id, c.position, c.document, t.text, c.kind, c.type, c.language, c.start_line, c.end_line, c.tokens, c.key,"
    " c.title, c.breadcrumb, c.symbols, c.signature, c.doc_comment, c.metadata, v.pieces"
)

# References in a row.  Unpacking the 85 rows with 155 uses of a name took 2.0 ms; at 256 a row, 57 rows took 2.5.
_TOGETHER = 64
_LEVEL = 4  # of compression: raw contents take 12 % less room than at 1, and a third more time, .07 s of 20
# Characters of a name or a path that are in an index: a row of one may have 2,704 bytes in Postgres.
INDEXED = 600
_SYMBOLS = 32  # in a row: 64 take half as much room again, since SQLite gives a row of over 2 kB a page of its own
_decode = json.JSONDecoder().raw_decode  # json.loads also looks for white space around, which dump() never writes


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def dump(value: Mapping[str, Any] | Sequence[str]) -> str:
    """The value as canonical JSON: equal values give equal text."""
    if not value:
        return "[]" if isinstance(value, tuple | list) else "{}"
    return _encode(value)


def load_map(text: str) -> dict[str, Any]:
    """The mapping that was dumped."""
    return {} if text == "{}" else dict(_decode(text)[0])


def load_names(text: str) -> tuple[str, ...]:
    """The strings that were dumped."""
    return () if text == "[]" else tuple(_decode(text)[0])


def storable(text: str) -> str:
    """The text without NUL, which Postgres refuses, and lone surrogates, which SQLite and tantivy refuse."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def indexable(name: str) -> str:
    """A name by which rows are found: of one that no index would take, the start and a hash of all."""
    return name if len(name) <= INDEXED else f"{name[: INDEXED - 40]}…{content_key(name.encode()).hex()}"


def names_of(name: str) -> tuple[str, ...]:
    """The names that rows of that name may have: an earlier RefDesk kept long ones whole."""
    return (name,) if len(name) <= INDEXED else (indexable(name), name)


def content_key(data: bytes) -> bytes:
    """The hash under which a content is stored."""
    return hashlib.blake2b(data, digest_size=16).digest()


def pack(raw: str) -> tuple[bytes, bytes]:
    """The hash of a document's raw content and its compressed bytes."""
    data = raw.encode("utf-8", "replace")
    return content_key(data), zlib.compress(data, _LEVEL)


def unpack(data: bytes) -> str:
    return zlib.decompress(data).decode()


def pack_vectors(vectors: Vectors) -> list[bytes]:
    """Each row in 8 bits a number; its largest is 127, and vectors are read as rows of length 1.

    Of the ten nearest of 900 queries on three code bases 99.5 % stay; cosines change by .0005 (standard deviation).
    """
    import numpy as np

    wide = np.asarray(vectors, np.float32)  # 16 bits have no room for the factor of a row of zeros
    packed = np.rint(wide * (127 / np.abs(wide).max(axis=1, keepdims=True, initial=1e-30))).astype(np.int8)
    data, size = packed.tobytes(), packed.shape[1]
    return [data[start : start + size] for start in range(0, len(data), size)]


def extension(path: str) -> str:
    """The path's extension in lower case, without the dot."""
    name = path.rsplit("/", 1)[-1]
    stem, dot, last = name.rpartition(".")
    return last.lower() if dot and stem else ""


def digest(chunk: Chunk, text_key: bytes) -> bytes:
    """The hash of a chunk without its position and its vector."""
    fields = (
        chunk.key, chunk.kind, chunk.type, chunk.language, chunk.title, chunk.breadcrumb, chunk.symbols,
        chunk.signature, chunk.doc_comment, dump(chunk.metadata),
    )  # fmt: skip
    return content_key(text_key + repr(fields).encode("utf-8", "replace"))


def chunk_values(chunk: Chunk) -> tuple[str, ...]:
    """What a chunk is, apart from its text and where it stands, as columns take it."""
    return (
        storable(chunk.key), chunk.kind, chunk.type, chunk.language, storable(chunk.title),
        _breadcrumb(chunk.breadcrumb), storable(dump(chunk.symbols)), storable(chunk.signature),
        storable(chunk.doc_comment), storable(dump(chunk.metadata)),
    )  # fmt: skip


@lru_cache(maxsize=2_000)
def _breadcrumb(names: tuple[str, ...]) -> str:
    """A breadcrumb as its column takes it; neighbours share it."""
    return storable(dump(names))


Pack = tuple[tuple[Any, ...], set[str]]  # a row of some symbols or references, and the names to find it by


def symbol_packs(document: int, symbols: Sequence[Symbol]) -> Iterator[Pack]:
    """The definitions of a document, some to a row, by their names."""
    for first in range(0, len(symbols), _SYMBOLS):
        columns = zip(*symbols[first : first + _SYMBOLS], strict=True)
        fields, text = _joined([str(field) for column in columns for field in column])
        names = fields[: len(fields) // len(Symbol._fields)]
        yield (document, first, len(names), zlib.compress(text, _LEVEL)), set(names)


def _joined(names: list[str]) -> tuple[list[str], bytes]:
    """The strings as they can be stored, and all of them in one; they are looked at together, which is faster."""
    text = "\0".join(names)
    if not text.isascii() or text.count("\0") >= len(names):
        names = list(map(storable, names))
        text = "\0".join(names)
    return names, text.encode()


def symbols_in(pack: bytes, name: str | None = None) -> list[Symbol]:
    """The definitions in a row, or those of a name."""
    fields = zlib.decompress(pack).decode().split("\0")
    many = len(fields) // len(Symbol._fields)
    columns = [fields[start : start + many] for start in range(0, len(fields), many)]
    found = zip(*columns[:3], map(int, columns[3]), map(int, columns[4]), *columns[5:], strict=True)
    return [Symbol(*one) for one in found if name is None or one[0] == name]


def reference_packs(document: int, references: Sequence[Reference]) -> Iterator[Pack]:
    """The uses of a document, some to a row, and the names that each row has uses of."""
    for first in range(0, len(references), _TOGETHER):
        some = references[first : first + _TOGETHER]
        kinds, sources, targets, lines, receivers, aliases = zip(*some, strict=True)
        every = (*targets, *sources, *receivers, *kinds, *aliases)
        codes = dict(zip(dict.fromkeys(every), count()))
        names, text = _joined(list(codes))
        head = struct.pack(f"<I{5 * len(some)}H{len(some)}I", len(some), *map(codes.__getitem__, every), *lines)
        data = zlib.compress(head + text, _LEVEL)
        yield (document, first, len(some), data), {names[codes[target]] for target in targets}


# The tables of packs, and of each the one that says where a name is, with its column.
PACKS = {"symbol_packs": ("symbol_names", "name"), "ref_packs": ("ref_targets", "target")}


def names_in(table: str, pack: bytes) -> set[str]:
    """The names by which a row of a table of packs is found."""
    if table == "symbol_packs":
        return {one.name for one in symbols_in(pack)}
    return {one.target for one in references_in(pack)}


def put_packs(write: Callable[[str, Iterable[Any]], object], table: str, packed: Iterable[Pack]) -> None:
    """Writes rows of symbols or references and where their names are, by a connection's executemany."""
    some = list(packed)
    write(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", [row for row, _ in some])  # noqa: S608 - a key of PACKS
    named = sorted((name, *row[:2]) for row, names in some for name in names)
    long = [(indexable(name), *place) for name, *place in named if len(name) > INDEXED]
    into = f"INSERT INTO {PACKS[table][0]} VALUES (?, ?, ?)"  # noqa: S608 - a constant
    write(into, [one for one in named if len(one[0]) <= INDEXED] if long else named)
    if long:  # some may be there: an earlier RefDesk that is still running does not remove them
        write(f"{into} ON CONFLICT DO NOTHING", long)


def references_in(pack: bytes, target: str | None = None, kinds: Sequence[str] = ()) -> list[Reference]:
    """The uses in a row; those of a name, or of some kinds, if asked for."""
    data = zlib.decompress(pack)
    many = int.from_bytes(data[:4], "little")
    codes = struct.unpack_from(f"<{5 * many}H{many}I", data, 4)
    names = data[4 + 14 * many :].decode().split("\0")
    wanted: Iterable[int] = range(many)
    if target is not None:
        wanted = [place for place in wanted if names[codes[place]] == target]
    if kinds:
        wanted = [place for place in wanted if names[codes[3 * many + place]] in kinds]
    return [
        Reference(
            cast(RelationKind, names[codes[3 * many + place]]), names[codes[many + place]], names[codes[place]],
            codes[5 * many + place], names[codes[2 * many + place]], names[codes[4 * many + place]],
        )
        for place in wanted
    ]  # fmt: skip


def _search_defaults(kept: dict[str, Any]) -> SearchDefaults:
    """Libraries up to version 3 kept 0.5 as `hybrid_alpha` where nobody had chosen."""
    old = kept.pop("hybrid_alpha", 0.5)
    return SearchDefaults(**({"alpha": old} if old != 0.5 else {}), **kept)


def collection_from(row: Sequence[Any]) -> Collection:
    """The collection in a row of COLLECTION."""
    return Collection(
        id=row[0],
        name=row[1],
        kind=row[2],
        description=row[3],
        root=row[4],
        chunking=Chunking(**load_map(row[5])),
        search=_search_defaults(load_map(row[6])),
        properties=load_map(row[7]),
        created_at=row[8],
        updated_at=row[9],
    )


def document_from(row: Sequence[Any]) -> Document:
    """The document in a row of DOCUMENT."""
    return Document(
        id=row[0],
        collection=row[1],
        uri=row[2],
        path=row[3],
        title=row[4],
        content_type=row[5],
        content_hash=row[6],
        size=row[7],
        modified_ns=row[8],
        metadata=load_map(row[9]),
        created_at=row[10],
        updated_at=row[11],
        stamp=row[12],
    )


_chunk = partial(cast(Any, tuple.__new__), Chunk)


def chunk_from(row: Sequence[Any], document: Document) -> StoredChunk:
    """The chunk in a row of CHUNK."""
    names = load_names(row[12]), load_names(row[13])
    chunk = _chunk((*row[3:12], *names, row[14], row[15], load_map(row[16])))
    return StoredChunk(row[0], row[1], document, chunk, row[17] or b"")
