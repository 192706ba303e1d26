"""Small libraries for the store suites: documents and chunks with little to write."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np

from refdesk.model import (
    Batch,
    Chunk,
    Collection,
    Document,
    DocumentWrite,
    EmbedderIdentity,
    Reference,
    Symbol,
    Vector,
)
from refdesk.store.record import rows
from refdesk.store.record.contents import put_meta
from refdesk.store.record.schema import Connection

DIMENSION = 16
IDENTITY = EmbedderIdentity("test", "1", DIMENSION)


def collection(name: str = "code", **fields: object) -> Collection:
    """A collection whose id follows from its name."""
    return Collection(id=f"COLLECTION-{name}", name=name, kind="code", **fields)  # type: ignore[arg-type]


def vector(text: str) -> Vector:
    """A unit vector that follows from the text."""
    seed = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")
    found = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return np.asarray(found / np.linalg.norm(found), np.float32)


def chunk(text: str, line: int = 1, **fields: object) -> Chunk:
    """A chunk of one line."""
    given: dict[str, object] = {
        "kind": "function",
        "type": "code",
        "language": "python",
        "start_line": line,
        "end_line": line,
        "tokens": max(1, len(text) // 4),
        "key": f"line-{line}",
        **fields,
    }
    return Chunk(text=text, **given)  # type: ignore[arg-type]


def key(text: str) -> bytes:
    """The address of the text's vector."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[:16]


def write(
    document_id: str,
    texts: Sequence[str | Chunk],
    *,
    path: str = "",
    name: str = "code",
    metadata: Mapping[str, str] | None = None,
    symbols: tuple[Symbol, ...] = (),
    references: tuple[Reference, ...] = (),
    vectors: bool = True,
) -> DocumentWrite:
    """A document with a chunk per text."""
    chunks = tuple(chunk(text, line) if isinstance(text, str) else text for line, text in enumerate(texts, 1))
    raw = "\n".join(c.text for c in chunks)
    path = path or f"src/{document_id}.py"
    return DocumentWrite(
        document=Document(
            id=document_id,
            collection=name,
            uri=f"file:///{name}/{path}",
            path=path,
            title=path,
            content_type="python",
            content_hash=hashlib.sha256(raw.encode(errors="replace")).hexdigest(),
            size=len(raw),
            modified_ns=1,
            metadata=metadata or {},
        ),
        raw=raw,
        chunks=chunks,
        vector_keys=tuple(key(c.text) if vectors else b"" for c in chunks),
        symbols=symbols,
        references=references,
    )


def batch(*writes: DocumentWrite, name: str = "code", removes: tuple[str, ...] = ()) -> Batch:
    """The writes with the vectors that they name."""
    vectors = {k: vector(c.text) for w in writes for c, k in zip(w.chunks, w.vector_keys, strict=True) if k}
    return Batch(collection=name, writes=writes, removes=removes, vectors=vectors)


def make_version_8(db: Connection) -> None:
    """Turns a record into one of version 8: vectors of 16 bits a number, and a row for each symbol."""
    for row, numbers in db.execute("SELECT id, numbers FROM vectors").fetchall():
        wide = (np.frombuffer(numbers, np.int8) / 200).astype("<f2").tobytes()
        db.execute("UPDATE vectors SET numbers = ? WHERE id = ?", (wide, row))
    db.execute("ALTER TABLE vectors RENAME COLUMN numbers TO data")
    db.execute(
        "CREATE TABLE symbols (document INTEGER, position INTEGER, name TEXT, qualified TEXT, kind TEXT,"
        " start_line INTEGER, end_line INTEGER, signature TEXT, facts TEXT)"
    )
    for document, first, pack in db.execute("SELECT document, first, data FROM symbol_packs").fetchall():
        found = [(document, first + place, *one) for place, one in enumerate(rows.symbols_in(pack))]
        db.executemany("INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", found)
    db.execute("DROP TABLE symbol_packs")
    db.execute("DROP TABLE symbol_names")
    if isinstance(db, sqlite3.Connection):
        db.execute("PRAGMA user_version = 8")
    else:
        put_meta(db, "version", "8")
