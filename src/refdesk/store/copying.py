"""Copies a library from one kind of store to another: the tables of both are the same."""

# ruff: noqa: S608 - tables are named by constants

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from refdesk.errors import InvalidInput
from refdesk.library import LONGEST_URL, Library
from refdesk.store.local import LocalStore
from refdesk.store.record import batches, rows
from refdesk.store.record.access import RecordAccess
from refdesk.store.record.crawls import TABLES, CrawlFile, Crawls
from refdesk.store.record.rows import content_key
from refdesk.store.record.schema import PLAYBOOKS, Connection
from refdesk.system.files import replace_file

Tell = Callable[[int, int, str], None]  # done, total, current table

_BY_ID = ("blobs", "texts", "vectors", "documents")
_WHOLE = ("skipped", "playbooks", "playbook_versions", "playbook_outcomes")
_PAGE = 2_000
_FEW = 20  # bodies of pages, of which each may have megabytes
_COUNTED = ("collections", "documents", "chunks", "vectors", "playbooks")
_CHUNKS = """
SELECT c.*, d.ulid FROM chunks c JOIN documents d ON d.id = c.document
WHERE c.document >= ? AND c.document <= ? ORDER BY c.document, c.position
"""


def copy(
    source: RecordAccess, target: RecordAccess, tell: Tell, beside: tuple[Library, Library] | None = None
) -> Mapping[str, int]:
    """Copies all of the source, as it is at one moment, to an empty target in one transaction; returns counts.

    `beside` are the folders with what both have in files: what crawls know, and the description of the docs corpus.
    """
    refuse_filled(target)
    if beside is not None:  # first, since a session with the write lock that asks nothing for long would end
        _copy_beside(source, target, *beside)
    with source.snapshot() as old, target.writing():
        refuse_filled(target)
        with target.transaction() as new:
            new.execute("DELETE FROM meta WHERE key = 'embedder'")
            new.execute("DELETE FROM collections")  # that of the playbooks, which has the source's number now
            new.execute("DELETE FROM vectors")  # that removed passages left
            _insert(new, "collections", old.execute("SELECT * FROM collections ORDER BY id").fetchall())
            for table in _BY_ID:
                for page in _pages(old, table, tell):
                    _insert(new, table, _storable(page) if table == "texts" else page)
            ids = target.chunk_ids(new)
            for first, last in _ranges(old):
                tell(last, last, "documents with their chunks")
                chunks = old.execute(_CHUNKS, (first, last)).fetchall()
                _insert(new, "chunks", _numbered(chunks, ids))
                for table in rows.PACKS:
                    within = f"SELECT * FROM {table} WHERE document >= ? AND document <= ?"
                    packs = old.execute(within, (first, last)).fetchall()
                    rows.put_packs(new.executemany, table, [(row, rows.names_in(table, row[3])) for row in packs])
            for table in _WHOLE:
                found = old.execute(f"SELECT * FROM {table}").fetchall()
                if table == "skipped":
                    found = [(collection, rows.indexable(path), reason) for collection, path, reason in found]
                _insert(new, table, found)
            _insert(new, "meta", old.execute("SELECT key, value FROM meta WHERE key = 'embedder'").fetchall())
            target.copied(new)
        counts = {name: int(old.execute(f"SELECT count(*) FROM {name}").fetchone()[0]) for name in _COUNTED}
        skills = counts.pop("playbooks")
    # The newest version of each playbook is a document with one passage, of a collection that nobody lists.
    own = {"collections": counts["collections"] - 1, "documents": counts["documents"] - skills}
    return {**counts, **own, "chunks": counts["chunks"] - skills, "skills": skills}


def refuse_filled(target: RecordAccess) -> None:
    """Raises unless the library is empty; a copy replaces its collections."""
    there = f"SELECT 1 FROM documents UNION ALL SELECT 1 FROM collections WHERE kind != '{PLAYBOOKS}' LIMIT 1"
    if target.read(lambda db: db.execute(there).fetchone()):
        raise InvalidInput(
            "The library to copy to is not empty.", "Name a new one: another folder, or an address with another schema."
        )


def back_up(store: RecordAccess, library: Library, target: Path) -> Mapping[str, int]:
    """Copies a whole library to a new folder or .tar.zst file; returns counts.

    One that is not in a folder is copied to one first.
    """
    if isinstance(store, LocalStore):
        return store.backup(target)
    with (
        tempfile.TemporaryDirectory(prefix="refdesk-") as folder,
        closing(LocalStore(Path(folder) / "library")) as copied,
    ):
        copy(store, copied, lambda done, total, table: None, (library, Library(copied.folder)))
        return copied.backup(target)


def _copy_beside(ours: RecordAccess, theirs: RecordAccess, source: Library, target: Library) -> None:
    target.prepare()
    if ours.crawls or source.crawls.exists():
        with ExitStack() as stack:
            old, new = (
                one.crawls or stack.enter_context(closing(CrawlFile(library.crawls)))
                for one, library in ((ours, source), (theirs, target))
            )
            for table, columns in TABLES.items():
                places = ", ".join("?" * (columns.count(",") + 1))
                into = f"INSERT INTO {table} ({columns}) VALUES ({places}) ON CONFLICT DO NOTHING"
                for page in _crawl_pages(old, table, columns):
                    kept = page if table == "crawls" else [row for row in page if len(row[1]) <= LONGEST_URL]
                    with new.transaction() as db:
                        db.executemany(into, kept)
    if source.metadata.exists():
        replace_file(target.metadata, source.metadata.read_text(encoding="utf-8"))


def _pages(db: Connection, table: str, tell: Tell) -> Iterator[list[Any]]:
    last = 0
    while found := db.execute(f"SELECT * FROM {table} WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)).fetchall():
        yield found
        last = found[-1][0]
        tell(last, last, table)


def _crawl_pages(crawls: Crawls, table: str, columns: str) -> Iterator[list[Any]]:
    key, last = ("collection", ("",)) if table == "crawls" else ("collection, url", ("", ""))
    after = f"({key}) > ({', '.join('?' * len(last))}) ORDER BY {key} LIMIT {_FEW}"
    while True:
        with crawls.transaction() as db:
            found = db.execute(f"SELECT {columns} FROM {table} WHERE {after}", last).fetchall()
        if not found:
            return
        yield found
        last = tuple(found[-1][: len(last)])


def _ranges(db: Connection) -> Iterator[tuple[int, int]]:
    """The documents in pages: the first and the last row of each."""
    last = 0
    step = _PAGE // 10
    while found := db.execute("SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT ?", (last, step)).fetchall():
        last = found[-1][0]
        yield found[0][0], last


def _storable(page: Sequence[Any]) -> list[tuple[int, bytes, str]]:
    """Texts under their hash, as every record can hold them: an earlier RefDesk wrote NUL to SQLite."""
    return [
        (row, content_key(rows.storable(text).encode()) if "\0" in text else key, rows.storable(text))
        for row, key, text in page
    ]


def _numbered(found: Sequence[Any], ids: batches.ChunkIds) -> list[tuple[Any, ...]]:
    """The chunks with ids as the target gives them."""
    used: set[int] = set()
    numbered = []
    for row in found:
        key, document = row[6], row[-1]
        chunk_id = next(one for one in (ids(document, key, n) for n in itertools.count()) if one not in used)
        used.add(chunk_id)
        numbered.append((chunk_id, *row[1:-1]))
    return numbered


def _insert(db: Connection, table: str, found: Sequence[Any]) -> None:
    if found:
        places = ", ".join("?" * len(found[0]))
        db.executemany(f"INSERT INTO {table} VALUES ({places})", found)
