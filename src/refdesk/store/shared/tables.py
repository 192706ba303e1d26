"""The tables of a record in Postgres: those of every record, made by the same migrations, and some of its own."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from refdesk.errors import LibraryBusy
from refdesk.store.record import crawls, schema
from refdesk.store.record.contents import meta, put_meta
from refdesk.store.shared import spelling
from refdesk.store.shared.dialect import Translating

if TYPE_CHECKING:
    from refdesk.store.shared.database import Postgres


_BUILD_S = 3_600.0  # of a step of a migration, which may read a whole table
_ALTER_S = 1.0  # how long a migration may keep readers waiting before it steps back and tries again
_VERSION, _OWN_VERSION = "version", "own version"  # of the tables that all records have, and of those below; in meta

# Tables that only this record has: the terms of all passages by length, for words spelt wrong, the mean vector of each
# document, which holds for the content that it was made of, since an earlier RefDesk writes documents without it, and
# what crawls know, so that any machine can go on with one.
_OWN = (
    "CREATE TABLE IF NOT EXISTS terms (term TEXT PRIMARY KEY, size INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS terms_by_size ON terms (size)",
    "CREATE TABLE means (document INTEGER PRIMARY KEY, raw INTEGER NOT NULL, many INTEGER NOT NULL, data BLOB NOT NULL,"
    " FOREIGN KEY (document) REFERENCES documents ON DELETE CASCADE)",
    crawls.SCHEMA,
    # Of paths and addresses, which have no limit, the start and a hash: a row of an index may have 2,704 bytes.  What
    # these take the place of goes in a step of its own, since readers wait for that.
    "CREATE INDEX documents_by_place ON documents (collection, substr(path, 1, 600));"
    "CREATE INDEX documents_by_address ON documents USING hash (uri)",
    "DROP INDEX documents_by_path; DROP INDEX documents_by_uri",
    "ALTER TABLE terms ADD COLUMN letters INTEGER",
    f"{spelling.PREPARE}; CREATE INDEX terms_by_letters ON terms (size, letters) INCLUDE (term)",
    "DROP INDEX terms_by_size",
)


def prepare(postgres: Postgres, lock_timeout_s: float) -> None:
    """Makes the schema, or brings it up to date; old servers go on reading meanwhile."""

    def versions(db: Translating) -> tuple[int, int]:
        if db.execute("SELECT to_regclass(?)", (f"{postgres.schema}.meta",)).fetchone()[0] is None:
            return 0, 0
        return int(meta(db, _VERSION) or 0), int(meta(db, _OWN_VERSION) or 0)

    with postgres.reading() as db:
        found = versions(db)
    wanted = len(schema.MIGRATIONS), len(_OWN)
    schema.refuse_newer(found[0] if found[1] <= wanted[1] else wanted[0] + 1)
    if found == wanted:
        return
    with postgres.writing():
        ends = time.monotonic() + lock_timeout_s
        while found != wanted:
            try:
                with postgres.transaction(logged=False) as db, db.waiting(_BUILD_S):
                    db.execute(f"SET LOCAL statement_timeout = {int(_BUILD_S * 1000)}")
                    # Whoever waits for a table keeps all later readers of it waiting too.
                    db.execute(f"SET LOCAL lock_timeout = {int(_ALTER_S * 1000)}")
                    found = _migrate(db, postgres.schema, versions(db))
            except LibraryBusy:
                if time.monotonic() > ends:
                    raise
                time.sleep(_ALTER_S)


def _migrate(db: Translating, schema_name: str, found: tuple[int, int]) -> tuple[int, int]:
    """Takes the next step from these versions, and returns those that it leads to."""
    common, own = found
    if db.execute("SELECT to_regnamespace(?)", (schema_name,)).fetchone()[0] is None:  # else it needs no right
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema_name}")
    if common < len(schema.MIGRATIONS):
        schema.MIGRATIONS[common](db)
        common += 1
        if common == 1:
            put_meta(db, "library", secrets.token_hex(8))
        put_meta(db, _VERSION, str(common))
    elif own < len(_OWN):
        for statement in _OWN[own].split(";"):
            db.execute(statement)
        own += 1
        put_meta(db, _OWN_VERSION, str(own))
    return common, own
