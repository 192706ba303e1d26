"""The tables of the record, and the migration of older ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from refdesk.errors import LibraryTooNew
from refdesk.model import Reference, Symbol
from refdesk.store.record import rows


class Cursor(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to the record's database: SQLite's own, or one that translates statements from its dialect."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor: ...


_PAGE = 5_000  # rows that a migration changes at a time
PLAYBOOKS = ":playbooks"  # ulid, name and kind of their collection, which no user can give one

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ulid TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    description TEXT NOT NULL, root TEXT NOT NULL, chunking TEXT NOT NULL, search TEXT NOT NULL,
    properties TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE blobs (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL) STRICT;

CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ulid TEXT NOT NULL UNIQUE,
    collection INTEGER NOT NULL REFERENCES collections (id),
    uri TEXT NOT NULL, path TEXT NOT NULL, extension TEXT NOT NULL, title TEXT NOT NULL, content_type TEXT NOT NULL,
    content_hash TEXT NOT NULL, size INTEGER NOT NULL, modified_ns INTEGER NOT NULL, metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    raw INTEGER NOT NULL REFERENCES blobs (id)
) STRICT;
CREATE INDEX documents_by_path ON documents (collection, path);
CREATE INDEX documents_by_uri ON documents (uri);
CREATE INDEX documents_by_raw ON documents (raw);

CREATE TABLE texts (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, text TEXT NOT NULL) STRICT;
CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, data BLOB NOT NULL) STRICT;

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES documents (id), position INTEGER NOT NULL,
    text INTEGER NOT NULL REFERENCES texts (id), vector INTEGER REFERENCES vectors (id), digest BLOB NOT NULL,
    key TEXT NOT NULL, kind TEXT NOT NULL, type TEXT NOT NULL, language TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, tokens INTEGER NOT NULL,
    title TEXT NOT NULL, breadcrumb TEXT NOT NULL, symbols TEXT NOT NULL, signature TEXT NOT NULL,
    doc_comment TEXT NOT NULL, metadata TEXT NOT NULL
) STRICT;
CREATE INDEX chunks_by_document ON chunks (document, position);
CREATE INDEX chunks_by_text ON chunks (text);
CREATE INDEX chunks_by_vector ON chunks (vector);

CREATE TABLE symbols (
    document INTEGER NOT NULL REFERENCES documents (id), position INTEGER NOT NULL,
    name TEXT NOT NULL, qualified TEXT NOT NULL, kind TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, signature TEXT NOT NULL,
    PRIMARY KEY (document, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX symbols_by_name ON symbols (name);

CREATE TABLE refs (
    document INTEGER NOT NULL REFERENCES documents (id), position INTEGER NOT NULL,
    kind TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, line INTEGER NOT NULL,
    receiver TEXT NOT NULL, alias TEXT NOT NULL,
    PRIMARY KEY (document, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX refs_by_target ON refs (target);

CREATE TABLE skipped (
    collection INTEGER NOT NULL REFERENCES collections (id), path TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (collection, path)
) STRICT, WITHOUT ROWID;

-- The change log: which chunks each commit touched, and which followers care (1 full text, 2 vectors).
-- What became of a chunk is read from chunks: there, or gone.
CREATE TABLE commits (seq INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL) STRICT;
CREATE TABLE changes (
    seq INTEGER NOT NULL, chunk INTEGER NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (seq, chunk)
) STRICT, WITHOUT ROWID;
"""


def _create(db: Connection) -> None:
    for statement in _FIRST.split(";"):
        if statement.strip():
            db.execute(statement)


def _add_pieces(db: Connection) -> None:
    """Beside each vector the pieces that its text begins with, as its embedder spells them, where it compares words."""
    db.execute("ALTER TABLE vectors ADD COLUMN pieces BLOB NOT NULL DEFAULT x''")


def _add_headings(db: Connection) -> None:
    """Pieces may be those of a heading too, which an earlier RefDesk can't take apart; those that are there stay."""


def _add_stamps(db: Connection) -> None:
    """A number of each file's inode and its last change; files that an earlier RefDesk indexed have none."""
    db.execute("ALTER TABLE documents ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0")


def _add_playbooks(db: Connection) -> None:
    """Playbooks with all their versions; the newest one of each is a document of a collection that nobody lists."""
    db.execute(
        "CREATE TABLE playbooks (skill_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, skill TEXT NOT NULL)"
        " STRICT, WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE playbook_versions (skill_id TEXT NOT NULL REFERENCES playbooks (skill_id),"
        " version INTEGER NOT NULL, made_at TEXT NOT NULL, skill TEXT NOT NULL, PRIMARY KEY (skill_id, version))"
        " STRICT, WITHOUT ROWID"
    )
    db.execute(
        "INSERT INTO collections (ulid, name, kind, description, root, chunking, search, properties, created_at,"
        " updated_at) VALUES (?, ?, ?, '', '', '{}', '{}', '{}', 0, 0)",
        (PLAYBOOKS, PLAYBOOKS, PLAYBOOKS),
    )


def _add_facts(db: Connection) -> None:
    """What grammars say of each symbol; files that an earlier RefDesk indexed are parsed again by the next run."""
    db.execute("ALTER TABLE symbols ADD COLUMN facts TEXT NOT NULL DEFAULT ''")
    db.execute("UPDATE documents SET content_hash = '', stamp = 1 WHERE id IN (SELECT document FROM symbols)")


def _add_outcomes(db: Connection) -> None:
    """How often each version of a playbook had which outcome, counted from now on."""
    db.execute(
        "CREATE TABLE playbook_outcomes (skill_id TEXT NOT NULL REFERENCES playbooks (skill_id),"
        " version INTEGER NOT NULL, outcome TEXT NOT NULL, times INTEGER NOT NULL,"
        " PRIMARY KEY (skill_id, version, outcome)) STRICT, WITHOUT ROWID"
    )


def _pack_references(db: Connection) -> None:
    """References in rows of some dozens, which take a tenth of the room; a second table says where a name is used."""
    _create_packs(db, "ref_packs")
    select = "SELECT kind, source, target, line, receiver, alias FROM refs WHERE document = ? ORDER BY position"
    for (document,) in db.execute("SELECT DISTINCT document FROM refs").fetchall():
        found = db.execute(select, (document,))
        rows.put_packs(db.executemany, "ref_packs", rows.reference_packs(document, [Reference(*row) for row in found]))
    db.execute("DROP TABLE refs")


def _pack_symbols(db: Connection) -> None:
    """Symbols in rows of some dozens too, which take a third of the room."""
    _create_packs(db, "symbol_packs")
    select = (
        "SELECT name, qualified, kind, start_line, end_line, signature, facts FROM symbols WHERE document = ?"
        " ORDER BY position"
    )
    for (document,) in db.execute("SELECT DISTINCT document FROM symbols").fetchall():
        found = db.execute(select, (document,))
        rows.put_packs(db.executemany, "symbol_packs", rows.symbol_packs(document, [Symbol(*row) for row in found]))
    db.execute("DROP TABLE symbols")


def _create_packs(db: Connection, packs: str) -> None:
    names, name = rows.PACKS[packs]
    db.execute(
        f"CREATE TABLE {packs} (document INTEGER NOT NULL REFERENCES documents (id), first INTEGER NOT NULL,"
        " many INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (document, first)) STRICT, WITHOUT ROWID"
    )
    db.execute(
        f"CREATE TABLE {names} ({name} TEXT NOT NULL, document INTEGER NOT NULL, first INTEGER NOT NULL,"
        f" PRIMARY KEY ({name}, document, first)) STRICT, WITHOUT ROWID"
    )


def _pack_vectors(db: Connection) -> None:
    """Vectors in 8 bits a number, which took 16; an earlier RefDesk that is still running finds no column."""
    import numpy as np

    db.execute("ALTER TABLE vectors RENAME COLUMN data TO numbers")
    after, page = 0, "SELECT id, numbers FROM vectors WHERE id > ? ORDER BY id LIMIT ?"
    while found := db.execute(page, (after, _PAGE)).fetchall():
        wide = np.frombuffer(b"".join(data for _, data in found), "<f2").reshape(len(found), -1).astype(np.float32)
        packed = zip(rows.pack_vectors(wide), (row for row, _ in found), strict=True)
        db.executemany("UPDATE vectors SET numbers = ? WHERE id = ?", packed)
        after = found[-1][0]


# The record's version is the number of steps that made it; a step is never changed once released.
MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _create,
    _add_pieces,
    _add_headings,
    _add_stamps,
    _add_playbooks,
    _add_facts,
    _add_outcomes,
    _pack_references,
    _pack_vectors,
    _pack_symbols,
)


def version(db: Connection) -> int:
    """How many steps the record has taken."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def has_tables(db: Connection) -> bool:
    """Whether anything was ever made in the file."""
    return db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None


def is_ours(db: Connection) -> bool:
    """Whether the tables are those of a record."""
    named = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('meta', 'commits', 'chunks', 'texts')"
    return bool(db.execute(named).fetchone()[0] == 4)


def refuse_newer(found: int) -> None:
    """Raises when the record was written by a later RefDesk."""
    if found > len(MIGRATIONS):
        raise LibraryTooNew(
            f"The library has version {found}; this RefDesk reads up to version {len(MIGRATIONS)}.",
            "Upgrade refdesk, or choose another library folder.",
        )


def migrate(db: Connection) -> None:
    """Brings the record to the current version; call it inside a write transaction."""
    found = version(db)
    refuse_newer(found)
    for step in MIGRATIONS[found:]:
        step(db)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
