"""The state of every page of a crawl, kept so that a kill loses nothing that was fetched."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from refdesk.crawl.model import MOST_HOPS
from refdesk.crawl.urls import hide_keys
from refdesk.library import LONGEST_URL
from refdesk.model import Skipped
from refdesk.settings import Durability
from refdesk.store.record.crawls import SET_ASIDE, TABLES, CrawlFile, Crawls
from refdesk.store.record.database import explained

PageState = Literal[
    "queued",  # to be requested
    "answered",  # its body is to be parsed
    "fetched",  # its body is to be indexed
    "stored",  # in the library and up to date
    "alias",  # has another canonical URL; its body is kept until that page is there
    "duplicate",  # has the same bytes as another page; its body is kept until that page is there
    "moved",  # redirects
    "gone",  # 404 or 410
    "scripts",  # empty without JavaScript
    "skipped",  # because of a rule, its type or its size
    "failed",  # could not be fetched; tried again by the next run
    "left",  # beyond the limits of depth or number
]

_ENTRY = "url, depth, late, hops, etag, last_modified"
_BODY = "url, target, hash, data, content_type, charset, last_modified"
_DROP_BODY = "DELETE FROM bodies WHERE collection = ? AND url = ?"
_ROBOTS_FRESH_S = 24 * 3600  # as long as RFC 9309 allows
_KEPT_HEADERS = ("link", "x-robots-tag", "etag", "last-modified")
_ALL = 1 << 60


@dataclass(slots=True)
class Entry:
    """A page to request."""

    url: str
    depth: int
    late: int = 0  # 1: after all others, since it is probably a duplicate
    hops: int = 0  # redirects and canonical links that led here
    etag: str = ""
    last_modified: str = ""
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Body:
    """A fetched page that is not indexed yet."""

    url: str
    target: str
    hash: str
    data: bytes
    content_type: str
    charset: str
    last_modified: str


def digest_of(data: bytes) -> str:
    """The hash that identifies pages with the same bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def target_of(crawls: Path | Crawls, url: str) -> str:
    """The URL whose text is kept for a URL that redirects or is a duplicate, "" if there is none."""
    query = "SELECT target FROM pages WHERE url = ? AND state IN ('moved', 'alias', 'duplicate') AND target <> ''"
    found = ""
    for _ in range(MOST_HOPS):
        row = _read_row(crawls, query, found or url)
        if row is None:
            break
        found = str(row[0])
    return found


def pending_pages(crawls: Path | Crawls, collection: str) -> int:
    """The number of known pages that an unfinished crawl has still to request or index."""
    query = (
        "SELECT count(*) FROM pages JOIN crawls USING (collection) WHERE collection = ? AND unfinished = 1"
        " AND state IN ('queued', 'answered', 'fetched')"
    )
    row = _read_row(crawls, query, collection)
    return int(row[0]) if row is not None else 0


def _read_row(crawls: Path | Crawls, query: str, *values: Any) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = None
    if not isinstance(crawls, Path):
        with crawls.transaction() as tables:
            row = tables.execute(query, values).fetchone()
    elif crawls.is_file():
        uri = f"{crawls.absolute().as_uri()}?mode=ro"
        with explained(crawls, SET_ASIDE), closing(sqlite3.connect(uri, uri=True, timeout=5.0)) as db:
            row = db.execute(query, values).fetchone()
    return row


class CrawlState:
    """The pages of one collection's crawl; usable from several threads."""

    def __init__(self, crawls: Path | Crawls, collection: str, durability: Durability = "normal") -> None:
        self._crawls = CrawlFile(crawls, durability) if isinstance(crawls, Path) else crawls
        self._collection = collection
        self._round = 0
        self._transaction = self._crawls.transaction
        self.close = self._crawls.close

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Held by the one crawl of a collection; once another has it, this one can do no more."""
        with self._crawls.lock(name) as self._transaction:
            try:
                yield
            finally:
                self._transaction = self._crawls.transaction

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._transaction() as db:
            return db.execute(query, values).fetchall()

    def _write(self, *statements: tuple[str, Iterable[tuple[Any, ...]]]) -> None:
        """Runs each statement for all of its rows, in one transaction."""
        with self._transaction() as db:
            for query, rows in statements:
                db.executemany(query, rows)

    def _run(self, query: str, *values: Any) -> None:
        self._write((query, [values]))

    # --- rounds ------------------------------------------------------------------------------------

    def forget_all_but(self, collections: Callable[[], Iterable[str]]) -> None:
        """Deletes the state of collections that were removed."""
        found = self._rows("SELECT collection FROM crawls")
        kept = set(collections())  # asked for afterwards: meanwhile another crawl may make a collection and begin
        gone = [row for row in found if row[0] not in kept]
        self._write(*((f"DELETE FROM {table} WHERE collection = ?", gone) for table in TABLES))  # noqa: S608 - constants

    def begin_round(self, start: str) -> bool:
        """Resumes an unfinished round or starts a new one, or neither if it fails; returns whether it resumed."""
        own = (self._collection,)
        with self._transaction() as db:
            query = "SELECT round, unfinished FROM crawls WHERE collection = ?"
            number, unfinished = db.execute(query, own).fetchone() or (0, 0)
            self._round = number if unfinished else number + 1
            db.execute(
                "INSERT INTO crawls (collection, start, round, unfinished) VALUES (?, ?, ?, 1)"
                " ON CONFLICT (collection) DO UPDATE SET start = excluded.start, round = excluded.round,"
                " unfinished = 1",
                (self._collection, start, self._round),
            )
            if unfinished:
                again = (
                    "UPDATE pages SET state = 'queued', hops = 0 WHERE collection = ? AND state IN ('failed', 'left')"
                )
                db.execute(again, own)
                return True
            db.execute("UPDATE crawls SET seeded = 0, robots = NULL WHERE collection = ?", own)
            db.execute(
                "UPDATE pages SET round = ?, late = CASE WHEN state IN ('alias', 'duplicate') THEN 1 ELSE late END,"
                " state = 'queued', hops = 0, status = 0, reason = '', target = '' WHERE collection = ?",
                (self._round, self._collection),
            )
            db.execute("DELETE FROM bodies WHERE collection = ?", own)
        return False

    def finish_round(self) -> None:
        """Ends the round, so that the next run starts a new one, and frees the space of its bodies."""
        own = [(self._collection,)]
        self._write(
            ("UPDATE crawls SET unfinished = 0, full_text = '' WHERE collection = ?", own),
            ("DELETE FROM bodies WHERE collection = ?", own),
        )
        self._crawls.free()

    @property
    def has_lists(self) -> bool:
        return bool(self._rows("SELECT seeded FROM crawls WHERE collection = ?", self._collection)[0][0])

    def save_lists(self, full_url: str, full_text: str) -> None:
        """Records that sitemaps and llms.txt were read, with the text of llms-full.txt for the end of the crawl."""
        query = "UPDATE crawls SET seeded = 1, full_url = ?, full_text = ? WHERE collection = ?"
        self._run(query, full_url, full_text, self._collection)

    @property
    def full(self) -> tuple[str, str]:
        """The URL and text of llms-full.txt, "" if there is none."""
        url, text = self._rows("SELECT full_url, full_text FROM crawls WHERE collection = ?", self._collection)[0]
        return url, text

    @property
    def robots(self) -> str | None:
        """The robots.txt, if it was read within a day."""
        text, at = self._rows("SELECT robots, robots_at FROM crawls WHERE collection = ?", self._collection)[0]
        return str(text) if text is not None and time.time() - at < _ROBOTS_FRESH_S else None

    def save_robots(self, text: str) -> None:
        query = "UPDATE crawls SET robots = ?, robots_at = ? WHERE collection = ?"
        self._run(query, text, time.time(), self._collection)

    # --- pages -------------------------------------------------------------------------------------

    def add(self, entries: Iterable[Entry], state: PageState = "queued", reason: str = "") -> None:
        """Adds new pages; known ones are unchanged, and none has a URL that is too long."""
        query = (
            "INSERT INTO pages (collection, url, round, state, depth, late, hops, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        rows = [
            (self._collection, e.url, self._round, state, e.depth, e.late, e.hops, reason)
            for e in entries
            if len(e.url) <= LONGEST_URL
        ]
        if rows:
            self._write((query, rows))

    def queued(self) -> list[Entry]:
        query = f"SELECT {_ENTRY} FROM pages WHERE collection = ? AND state = 'queued'"  # noqa: S608 - a constant
        return [Entry(*row) for row in self._rows(query, self._collection)]

    def states(self) -> dict[str, PageState]:
        return dict(self._rows("SELECT url, state FROM pages WHERE collection = ?", self._collection))

    def state_of(self, url: str) -> PageState | None:
        found = self._rows("SELECT state FROM pages WHERE collection = ? AND url = ?", self._collection, url)
        return found[0][0] if found else None

    def targets(self, state: PageState) -> dict[str, str]:
        query = "SELECT url, target FROM pages WHERE collection = ? AND state = ?"
        return dict(self._rows(query, self._collection, state))

    def hashes(self) -> dict[str, str]:
        """Hash → page, for pages in the library or about to be indexed."""
        query = "SELECT hash, url FROM pages WHERE collection = ? AND state IN ('fetched', 'stored') AND hash <> ''"
        return dict(self._rows(query, self._collection))

    def hash_by_url(self) -> dict[str, str]:
        """Page → hash of its bytes when it was last fetched."""
        return dict(self._rows("SELECT url, hash FROM pages WHERE collection = ? AND hash <> ''", self._collection))

    def requeue(self, entry: Entry) -> None:
        """Queues a page again, at a smaller depth."""
        query = "UPDATE pages SET state = 'queued', depth = ? WHERE collection = ? AND url = ?"
        self._run(query, entry.depth, self._collection, entry.url)

    def set_outcome(self, url: str, state: PageState, *, status: int = 0, reason: str = "", target: str = "") -> None:
        """Sets the outcome of a page without a body."""
        query = (
            "UPDATE pages SET state = ?, status = ?, reason = ?, target = ?, asked_at = ?"
            " WHERE collection = ? AND url = ?"
        )
        values = (state, status, reason, target, int(time.time()), self._collection, url)
        self._write((query, [values]), (_DROP_BODY, [(self._collection, url)]))

    def save_answer(self, body: Body, state: PageState, headers: Mapping[str, str]) -> None:
        """Saves a page's body and headers; from here on a kill loses nothing of it."""
        query = (
            "UPDATE pages SET state = ?, status = 200, reason = '', target = ?, etag = ?, last_modified = ?, hash = ?,"
            " content_type = ?, charset = ?, headers = ?, asked_at = ? WHERE collection = ? AND url = ?"
        )
        kept = json.dumps({key: headers[key] for key in _KEPT_HEADERS if key in headers})
        values = (
            state, body.target, headers.get("etag", ""), body.last_modified, body.hash, body.content_type,
            body.charset, kept, int(time.time()), self._collection, body.url,
        )  # fmt: skip
        keep = (
            "INSERT INTO bodies (collection, url, data) VALUES (?, ?, ?)"
            " ON CONFLICT (collection, url) DO UPDATE SET data = excluded.data"
        )
        self._write((query, [values]), (keep, [(self._collection, body.url, body.data)]))

    def set_state(self, url: str, state: PageState, target: str = "") -> None:
        """Sets the state of a page and keeps its body."""
        query = "UPDATE pages SET state = ?, reason = '', target = ? WHERE collection = ? AND url = ?"
        self._run(query, state, target, self._collection, url)

    def finish_pages(self, results: Iterable[tuple[str, PageState, str]]) -> None:
        """Sets the state and reason of pages and deletes their bodies."""
        done = list(results)
        update = "UPDATE pages SET state = ?, reason = ? WHERE collection = ? AND url = ?"
        self._write(
            (update, [(state, reason, self._collection, url) for url, state, reason in done]),
            (_DROP_BODY, [(self._collection, url) for url, _, _ in done]),
        )

    def answered(self) -> list[tuple[Entry, Body, dict[str, str]]]:
        """The pages whose bodies are not parsed yet, with their headers."""
        found = []
        for body in self.bodies("answered", _ALL):
            query = f"SELECT {_ENTRY}, headers FROM pages WHERE collection = ? AND url = ?"  # noqa: S608 - a constant
            *entry, headers = self._rows(query, self._collection, body.url)[0]
            found.append((Entry(*entry), body, json.loads(headers)))
        return found

    def bodies(self, state: PageState, limit: int, most_bytes: int = _ALL) -> list[Body]:
        """The oldest pages in a state with their bodies: at least one, at most `most_bytes` in total."""
        there = "FROM pages JOIN bodies USING (collection, url) WHERE collection = ?"
        oldest = f"SELECT url, length(data) {there} AND state = ? ORDER BY asked_at, url LIMIT ?"
        found: list[Body] = []
        with self._transaction() as db:
            for url, size in db.execute(oldest, (self._collection, state, limit)).fetchall():
                most_bytes -= size
                if found and most_bytes < 0:
                    break
                found.append(
                    Body(*db.execute(f"SELECT {_BODY} {there} AND url = ?", (self._collection, url)).fetchone())
                )
        return found

    def counts(self) -> dict[str, int]:
        query = "SELECT state, count(*) FROM pages WHERE collection = ? GROUP BY state"
        return dict(self._rows(query, self._collection))

    def reasons(self, *states: PageState) -> list[Skipped]:
        query = "SELECT url, reason FROM pages WHERE collection = ? AND state = ? ORDER BY url"
        return [
            Skipped(path=hide_keys(url), reason=hide_keys(why))
            for one in states
            for url, why in self._rows(query, self._collection, one)
        ]
