"""How is what is known of pages laid out in its file?"""

from __future__ import annotations

import sqlite3

from refdesk.errors import LibraryTooNew
from refdesk.settings import Durability

_FORMAT = 3
_SCHEMA = """
CREATE TABLE crawls (
    collection TEXT PRIMARY KEY, start TEXT NOT NULL, round INTEGER NOT NULL, unfinished INTEGER NOT NULL,
    seeded INTEGER NOT NULL DEFAULT 0, robots TEXT, robots_at REAL NOT NULL DEFAULT 0,
    full_url TEXT NOT NULL DEFAULT '', full_text TEXT NOT NULL DEFAULT ''
);
CREATE TABLE pages (
    collection TEXT NOT NULL, url TEXT NOT NULL, round INTEGER NOT NULL, state TEXT NOT NULL, depth INTEGER NOT NULL,
    late INTEGER NOT NULL DEFAULT 0, hops INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '', target TEXT NOT NULL DEFAULT '', etag TEXT NOT NULL DEFAULT '',
    last_modified TEXT NOT NULL DEFAULT '', hash TEXT NOT NULL DEFAULT '', content_type TEXT NOT NULL DEFAULT '',
    charset TEXT NOT NULL DEFAULT '', headers TEXT NOT NULL DEFAULT '{}',
    asked_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, url)
);
CREATE INDEX pages_by_state ON pages (collection, state);
CREATE INDEX pages_by_url ON pages (url);
"""
# Where in its file a body is; one that an older format kept is in its row.
_BODIES = (
    "CREATE TABLE bodies (collection TEXT NOT NULL, url TEXT NOT NULL, data BLOB NOT NULL,"
    " PRIMARY KEY (collection, url))"
)
_PLACES = (
    "ALTER TABLE bodies ADD COLUMN at INTEGER NOT NULL DEFAULT -1",
    "ALTER TABLE bodies ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
)


def prepare(db: sqlite3.Connection, durability: Durability) -> None:
    """Makes the tables, or brings those of an older format up to date."""
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {durability}")
    db.execute("BEGIN IMMEDIATE")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found == 0 and db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise sqlite3.DatabaseError("it belongs to another program")
    if found == 0:
        for statement in _SCHEMA.strip().removesuffix(";").split(";\n"):
            db.execute(statement)
    if found < 2:
        db.execute(_BODIES)
    if found == 1:
        db.execute("INSERT INTO bodies SELECT collection, url, body FROM pages WHERE body IS NOT NULL")
        db.execute("UPDATE pages SET body = NULL")
    if found < 3:
        for statement in _PLACES:
            db.execute(statement)
    if found < _FORMAT:
        db.execute(f"PRAGMA user_version = {_FORMAT}")
    db.execute("COMMIT")
    if found > _FORMAT:
        raise LibraryTooNew("crawl.db was written by a newer RefDesk.", "Update RefDesk.")
