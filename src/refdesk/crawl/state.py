"""What is known of every page of a crawl?  Kept in a file of its own, so that a kill loses nothing that was fetched."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from refdesk.crawl.known import Body, Entry, PageState, Saved, digest_of
from refdesk.crawl.ledger import SET_ASIDE, Ledger, Statement, spool_file
from refdesk.crawl.urls import without_keys
from refdesk.model import Skipped
from refdesk.settings import Durability
from refdesk.store.record import explained

_ENTRY = "url, depth, late, hops, etag, last_modified"
_NOTED = "UPDATE pages SET state = ?, status = ?, reason = ?, target = ?, asked_at = ? WHERE collection = ? AND url = ?"
_HELD = (
    "UPDATE pages SET state = ?, status = 200, reason = '', target = ?, etag = ?, last_modified = ?, hash = ?,"
    " content_type = ?, charset = ?, headers = ?, asked_at = ? WHERE collection = ? AND url = ?"
)
_ADDED = (
    "INSERT OR IGNORE INTO pages (collection, url, round, state, depth, late, hops, reason)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_KEEP_BODY = "INSERT OR REPLACE INTO bodies (collection, url, data, at, size) VALUES (?, ?, x'', ?, ?)"
_AGAIN = "UPDATE pages SET state = 'queued' WHERE collection = ? AND url = ?"
_NO_BODY = "DELETE FROM bodies WHERE collection = ? AND url = ?"
_RELEASED_AT_ONCE = 10  # a page that was fetched meanwhile waits to be held
_RESTART_BYTES = 16_000_000  # a file of bodies that are all done with is used anew from here on
_ROBOTS_FRESH_S = 24 * 3600
_MOST_HOPS = 10
_TOLD = ("link", "x-robots-tag", "etag", "last-modified")
_ALL = -1


def target_of(file: Path, url: str) -> str:
    """The address at which the text of an address is kept that redirects or repeats another, "" for none."""
    if not file.is_file():
        return ""
    query = "SELECT target FROM pages WHERE url = ? AND state IN ('moved', 'alias', 'duplicate') AND target <> ''"
    found = ""
    uri = f"{file.absolute().as_uri()}?mode=ro"
    with explained(file, SET_ASIDE), closing(sqlite3.connect(uri, uri=True, timeout=5.0)) as db:
        for _ in range(_MOST_HOPS):
            row = db.execute(query, (found or url,)).fetchone()
            if row is None:
                break
            found = str(row[0])
    return found


def pages_to_come(file: Path, collection: str) -> int:
    """How many known pages a crawl that has not finished is still to ask for or to index."""
    if not file.is_file():
        return 0
    query = (
        "SELECT count(*) FROM pages JOIN crawls USING (collection) WHERE collection = ? AND unfinished = 1"
        " AND state IN ('queued', 'answered', 'fetched')"
    )
    uri = f"{file.absolute().as_uri()}?mode=ro"
    with explained(file, SET_ASIDE), closing(sqlite3.connect(uri, uri=True, timeout=5.0)) as db:
        return int(db.execute(query, (collection,)).fetchone()[0])


class CrawlState(Ledger):
    """The pages of one collection's crawl; usable from several threads."""

    def __init__(self, file: Path, collection: str, durability: Durability = "normal") -> None:
        super().__init__(file, collection, durability)
        self._file = file
        self._collection = collection
        self._round = 0
        self._unheld = 0  # bodies that were written down and are not held yet

    # --- rounds ------------------------------------------------------------------------------------

    def forget_all_but(self, collections: Iterable[str]) -> None:
        """Drops what is known of collections that are no more."""
        kept = set(collections)
        gone = [row for row in self._rows("SELECT collection FROM crawls") if row[0] not in kept]
        for (one,) in gone:
            spool_file(self._file, one).unlink(missing_ok=True)
        tables = ("pages", "bodies", "crawls")
        forget = [f"DELETE FROM {table} WHERE collection = ?" for table in tables]  # noqa: S608 - tables of our own
        self._together(*((statement, one) for statement in forget for one in gone))

    def begin(self, start: str) -> bool:
        """Goes on with the round that was not finished, or starts a new one; whether it goes on."""
        found = self._rows("SELECT round, unfinished FROM crawls WHERE collection = ?", self._collection)
        number, unfinished = found[0] if found else (0, 0)
        self._round = number if unfinished else number + 1
        self._run(
            "INSERT INTO crawls (collection, start, round, unfinished) VALUES (?, ?, ?, 1)"
            " ON CONFLICT (collection) DO UPDATE SET start = excluded.start, round = excluded.round, unfinished = 1",
            self._collection,
            start,
            self._round,
        )
        if unfinished:
            self._take_in_answers()
            again = "UPDATE pages SET state = 'queued', hops = 0 WHERE collection = ? AND state IN ('failed', 'left')"
            self._run(again, self._collection)
            return True
        self._run("UPDATE crawls SET seeded = 0, robots = NULL WHERE collection = ?", self._collection)
        self._run(
            "UPDATE pages SET round = ?, late = max(late, state IN ('alias', 'duplicate')), state = 'queued', hops = 0,"
            " status = 0, reason = '', target = '' WHERE collection = ?",
            self._round,
            self._collection,
        )
        self._drop_bodies()
        return False

    def _take_in_answers(self) -> None:
        """Notes the answers that came before a kill and were not noted."""
        end = "SELECT max(0, coalesce(max(at + size), 0)) FROM bodies WHERE collection = ?"
        for told, at, size in self._spool.notes(self._rows(end, self._collection)[0][0]):
            entry = Entry(told["url"], told["depth"], told["late"], told["hops"])
            if (self.state_of(entry.url) or "queued") == "queued":
                self.add([entry])
                digest = told["hash"] or digest_of(self._spool.read(at, size) or b"")
                self._put_off(*self._held({**told, "hash": digest}, at, size))

    def _drop_bodies(self) -> None:
        self._run("DELETE FROM bodies WHERE collection = ?", self._collection)
        with self._mutex, self._brief:
            self._spool.remove()

    def finish(self) -> None:
        """The round is done: the next one starts over."""
        self._run("UPDATE crawls SET unfinished = 0, full_text = '' WHERE collection = ?", self._collection)
        self._drop_bodies()
        with self._mutex:
            self._write()
            self._db.executescript("PRAGMA incremental_vacuum")  # execute() would free a single page
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def seeded(self) -> bool:
        """Whether the site's own lists were read in this round."""
        return bool(self._rows("SELECT seeded FROM crawls WHERE collection = ?", self._collection)[0][0])

    def note_seeded(self, full_url: str, full_text: str) -> None:
        """The site's own lists were read; the text of llms-full.txt waits until all pages are there."""
        query = "UPDATE crawls SET seeded = 1, full_url = ?, full_text = ? WHERE collection = ?"
        self._run(query, full_url, full_text, self._collection)

    @property
    def full(self) -> tuple[str, str]:
        """The address and the text of llms-full.txt, "" where there is none."""
        url, text = self._rows("SELECT full_url, full_text FROM crawls WHERE collection = ?", self._collection)[0]
        return url, text

    @property
    def robots(self) -> str | None:
        """The robots.txt that was read within a day."""
        text, at = self._rows("SELECT robots, robots_at FROM crawls WHERE collection = ?", self._collection)[0]
        return str(text) if text is not None and time.time() - at < _ROBOTS_FRESH_S else None

    def note_robots(self, text: str) -> None:
        self._run(
            "UPDATE crawls SET robots = ?, robots_at = ? WHERE collection = ?", text, time.time(), self._collection
        )

    # --- pages -------------------------------------------------------------------------------------

    def add(self, entries: Iterable[Entry], state: PageState = "queued", reason: str = "") -> None:
        """Makes new pages known; those known already stay as they are."""
        for one in entries:
            values = (self._collection, one.url, self._round, state, one.depth, one.late, one.hops, reason)
            self._put_off((_ADDED, values))

    def queued(self) -> list[Entry]:
        """The pages still to be asked for."""
        query = f"SELECT {_ENTRY} FROM pages WHERE collection = ? AND state = 'queued'"  # noqa: S608 - a constant
        return [Entry(*row) for row in self._rows(query, self._collection)]

    def states(self) -> dict[str, PageState]:
        """Every known page with its state."""
        return dict(self._rows("SELECT url, state FROM pages WHERE collection = ?", self._collection))

    def state_of(self, url: str) -> PageState | None:
        """The state of one page."""
        found = self._rows("SELECT state FROM pages WHERE collection = ? AND url = ?", self._collection, url)
        return found[0][0] if found else None

    def targets(self, state: PageState) -> dict[str, str]:
        """Where the pages of a state lead."""
        query = "SELECT url, target FROM pages WHERE collection = ? AND state = ?"
        return dict(self._rows(query, self._collection, state))

    def hashes(self) -> dict[str, str]:
        """Which page has which bytes, of those in the library or on the way into it."""
        query = "SELECT hash, url FROM pages WHERE collection = ? AND state IN ('fetched', 'stored') AND hash <> ''"
        return dict(self._rows(query, self._collection))

    def hash_by_url(self) -> dict[str, str]:
        """The bytes that each page had when it was last fetched."""
        return dict(self._rows("SELECT url, hash FROM pages WHERE collection = ? AND hash <> ''", self._collection))

    def note(self, url: str, state: PageState, *, status: int = 0, reason: str = "", target: str = "") -> None:
        """Sets what became of a page that has no body to keep."""
        values = (state, status, reason, target, int(time.time()), self._collection, url)
        self._put_off((_NOTED, values), (_NO_BODY, (self._collection, url)))

    def put_off(self, entry: Entry) -> None:
        """Keeps the depth of a page that was found again by a shorter way."""
        query = "UPDATE pages SET state = 'queued', depth = ? WHERE collection = ? AND url = ?"
        self._put_off((query, (entry.depth, self._collection, entry.url)))

    def save(self, body: Body, state: PageState, headers: Mapping[str, str], entry: Entry | None = None) -> Saved:
        """Writes the body down: a kill loses nothing of it from here on.  It is held once its digest is known."""
        entry = entry or Entry(body.url, 0)
        told = {
            "url": body.url, "depth": entry.depth, "late": entry.late, "hops": entry.hops, "state": state,
            "target": body.target, "modified": body.last_modified, "hash": body.hash, "type": body.content_type,
            "charset": body.charset, "headers": {key: headers[key] for key in _TOLD if key in headers},
        }  # fmt: skip
        with self._brief:
            self._unheld += 1
            return Saved(told, self._spool.append(told, body.data), len(body.data))

    def hold_saved(self, saved: Saved, digest: str) -> None:
        """Keeps a page whose body was written down."""
        with self._brief:
            self._unheld -= 1
            self._later += self._held({**saved.told, "hash": digest}, saved.at, saved.size)

    def hold(self, body: Body, state: PageState, headers: Mapping[str, str], entry: Entry | None = None) -> None:
        """Keeps a page with its body and what its server said of it."""
        self.hold_saved(self.save(body, state, headers, entry), body.hash)

    def _held(self, told: Mapping[str, Any], at: int, size: int) -> tuple[Statement, ...]:
        values = (
            told["state"], told["target"], told["headers"].get("etag", ""), told["modified"], told["hash"],
            told["type"], told["charset"], json.dumps(told["headers"]), int(time.time()), self._collection, told["url"],
        )  # fmt: skip
        return (_HELD, values), (_KEEP_BODY, (self._collection, told["url"], at, size))

    def decide(self, url: str, state: PageState, target: str = "") -> None:
        """Sets what becomes of a page whose body is held."""
        query = "UPDATE pages SET state = ?, reason = '', target = ? WHERE collection = ? AND url = ?"
        self._put_off((query, (state, target, self._collection, url)))

    def answered(self) -> list[tuple[Entry, Body, dict[str, str]]]:
        """The pages that were fetched but not looked at, with their headers."""
        found = []
        for body in self.bodies("answered", _ALL):
            query = f"SELECT {_ENTRY}, headers FROM pages WHERE collection = ? AND url = ?"  # noqa: S608 - a constant
            *entry, headers = self._rows(query, self._collection, body.url)[0]
            found.append((Entry(*entry), body, json.loads(headers)))
        return found

    def waiting_bytes(self, state: PageState) -> int:
        """How large the bodies of the pages of a state are together."""
        query = (
            "SELECT coalesce(sum(length(data) + size), 0) FROM pages JOIN bodies USING (collection, url)"
            " WHERE collection = ? AND state = ?"
        )
        return int(self._rows(query, self._collection, state)[0][0])

    def bodies(self, state: PageState, limit: int, most_bytes: int = _ALL) -> list[Body]:
        """The first pages of a state whose bodies are here: at least one, and no more than so large together."""
        query = (
            "SELECT url, target, hash, content_type, charset, last_modified FROM pages JOIN bodies"
            " USING (collection, url) WHERE collection = ? AND state = ? ORDER BY asked_at, pages.rowid LIMIT ?"
        )
        found: list[Body] = []
        size = 0
        for url, target, digest, content_type, charset, modified in self._rows(query, self._collection, state, limit):
            data = self._data(url)
            if data is None or (digest and digest_of(data) != digest):  # as a power cut or a backup may leave it
                self._put_off((_AGAIN, (self._collection, url)), (_NO_BODY, (self._collection, url)))
                continue
            size += len(data)
            if found and 0 <= most_bytes < size:
                break
            found.append(Body(url, target, digest, data, content_type, charset, modified))
        return found

    def _data(self, url: str) -> bytes | None:
        query = "SELECT data, at, size FROM bodies WHERE collection = ? AND url = ?"
        data, at, size = self._rows(query, self._collection, url)[0]
        with self._mutex:
            return self._spool.read(at, size) if at >= 0 else data

    def release(self, results: Iterable[tuple[str, PageState, str]]) -> None:
        """Sets state and reason of pages whose bodies are no longer needed."""
        done = list(results)
        for start in range(0, len(done), _RELEASED_AT_ONCE):
            some = done[start : start + _RELEASED_AT_ONCE]
            update = "UPDATE pages SET state = ?, reason = ? WHERE collection = ? AND url = ?"
            updates = [(update, (state, reason, self._collection, url)) for url, state, reason in some]
            self._together(*updates, *((_NO_BODY, (self._collection, url)) for url, _, _ in some))
        if self._spool.size > _RESTART_BYTES:
            self._restart_spool()

    def _restart_spool(self) -> None:
        """Begins the file of bodies anew when nobody needs any of them."""
        with self._mutex:
            self._write()
            query = "SELECT 1 FROM bodies WHERE collection = ? LIMIT 1"
            with self._brief:
                if (
                    not self._later
                    and not self._unheld
                    and self._db.execute(query, (self._collection,)).fetchone() is None
                ):
                    self._spool.restart()

    def counts(self) -> dict[str, int]:
        """How many pages are in each state."""
        query = "SELECT state, count(*) FROM pages WHERE collection = ? GROUP BY state"
        return dict(self._rows(query, self._collection))

    def reasons(self, *states: PageState) -> list[Skipped]:
        """The pages of some states and why they are there."""
        query = "SELECT url, reason FROM pages WHERE collection = ? AND state = ? ORDER BY url"
        return [
            Skipped(path=without_keys(url), reason=without_keys(why))
            for one in states
            for url, why in self._rows(query, self._collection, one)
        ]
