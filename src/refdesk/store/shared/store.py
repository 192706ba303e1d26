"""The store of a shared library: a record in Postgres, and an index in Qdrant that follows it."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from refdesk.errors import LibraryBusy, StoreError
from refdesk.library import Library
from refdesk.model import EVERYTHING, Batch, Collection, Filters, Finding, Stats, StoredChunk
from refdesk.store.record import batches, contents, reads
from refdesk.store.record.access import RecordAccess
from refdesk.store.record.database import LONG, sequence
from refdesk.store.record.rows import INDEXED
from refdesk.store.record.schema import Connection
from refdesk.store.shared import check, means
from refdesk.store.shared.address import parse
from refdesk.store.shared.crawls import SharedCrawls
from refdesk.store.shared.database import SEARCH_S, STRETCH, WRITER, Postgres
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.follower import Follower
from refdesk.store.shared.nodes import IndexAway, Nodes
from refdesk.store.shared.state import Counts, condemn
from refdesk.store.shared.view import SharedView
from refdesk.store.view import Scopes
from refdesk.system import metrics
from refdesk.system.files import replace_file

_log = logging.getLogger(__name__)

_MANY_LOOSE = 500  # vectors that may be unused, after which they are looked at outside of a stretch
_LOOSE_PAGE = 5_000  # of them, between which others may write
_MOST_LOOSE = 500_000  # remembered while others write; doctor drops the rest
_APPLY_S = 20.0  # how long a writer waits until its batch can be found
_LONG_S, _TIMES = 5.0, 10  # at the end of a stretch of more seconds, so many times as long as it took
_TRIES, _AGAIN_S = 5, 2.0  # then: nodes that are busy with so much may take too long for a request
_METADATA = "metadata"  # in meta: the text of metadata.json
_COUNT_S = 15.0  # all passages of a large collection are read to count them
_JUST_S = 1.0  # a search takes less, also on a busy machine
_SHORTLY_S = 1.0  # for the write lock, where nothing is lost without it


class _Own(threading.local):
    """What this thread does."""

    stretches = 0  # that are open


class SharedStore(RecordAccess):
    """Implements ports.Store on servers; any number of processes on any number of machines may use it at once."""

    indexed = INDEXED

    def __init__(
        self, address: str, *, lock_timeout_s: float = 30.0, api_key: str = "", beside: Library | None = None
    ) -> None:
        super().__init__()
        self.address = parse(address)
        self._nodes = Nodes(self.address, api_key)
        self._postgres = Postgres(self.address.record, self.address.schema, lock_timeout_s)
        self._follower = Follower(self._postgres, self._nodes, self.address)
        self.crawls = SharedCrawls(self._postgres)
        self._scopes = Scopes()
        self._counts = Counts()
        self._own = _Own()
        self._loose: set[int] = set()  # vectors that may be unused
        self._mutex = threading.Lock()
        self._seen = (-1, 0.0)  # the last commit that a view or a write has seen, and when
        self._postgres.on_break = self._forget
        self._beside = beside  # the folder for what belongs to this machine
        if beside is not None:
            beside.prepare()
            self._fetch_metadata()

    def _forget(self) -> None:
        """Drops what is known of the last commit: the record may have gone back, and come to another of that number."""
        self._scopes, self._owners, self._counts = Scopes(), reads.Owners(), Counts()
        self._known = -1, ()
        self._seen = -1, 0.0
        self._follower.sending.forget()

    def reading(self) -> AbstractContextManager[Connection]:
        return self._postgres.reading()

    def transaction(self, *, logged: bool = True) -> AbstractContextManager[Connection]:
        return self._postgres.transaction(logged=logged, mark=self._mark)

    @property
    def _mark(self) -> str:
        """What marks a commit: others of this process may be waited for while one thread is in a long stretch."""
        return LONG * (self._own.stretches > 0)

    def writing(self) -> AbstractContextManager[None]:
        return self._postgres.writing()

    def snapshot(self) -> AbstractContextManager[Connection]:
        return self._postgres.snapshot()

    def chunk_ids(self, db: Connection) -> batches.ChunkIds:
        return batches.hashed_ids(db)

    def copied(self, db: Connection) -> None:
        for table in ("collections", "documents"):
            db.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) + 1 FROM {table}))")  # noqa: S608
        if self._beside is not None and self._beside.metadata.exists():
            contents.put_meta(db, _METADATA, self._beside.metadata.read_text(encoding="utf-8"))
        self._postgres.keep_others_from_following(db)  # who would make an index without what is copied
        condemn(db)
        assert isinstance(db, Translating)
        db.execute("ANALYZE")  # without it Postgres reads all of these tables for each page of documents
        means.put_all(db)

    # writing

    def change(self, make: Callable[[Connection], Batch], chunks: int, *, for_good: bool = False) -> None:
        with self.writing():
            with self._postgres.transaction(mark=self._mark) as db:
                batch = make(db)
                change = batches.apply(db, batch, self.chunk_ids(db))
                means.put(db, [write.document.id for write in batch.writes])
            self._follower.sending.hint({change.text_keys[one]: terms for one, terms in change.terms.items()})
        self._saw(change.seq)
        self._follow(change.seq)
        self._loosen(change)

    def remove_collection(self, name: str) -> int:
        with self.writing(), self.transaction() as db:
            removed, change = batches.remove_collection(db, name)
        self._saw(change.seq)
        self._follow(change.seq)
        self._loosen(change, is_much=True)
        return removed

    def _saw(self, seq: int) -> None:
        """Notes a commit that has just been seen; another thread may have seen a later one."""
        with self._mutex:
            self._seen = max(self._seen, (seq, time.monotonic()))

    def _loosen(self, change: batches.Change, *, is_much: bool = False) -> None:
        """Notes vectors that may be unused now; a stretch may use them again, and drops the rest at its end."""
        with self._mutex:
            self._loose |= change.loose_vectors
        if (is_much or len(self._loose) >= _MANY_LOOSE) and not self._own.stretches:
            self._drop_loose_vectors()

    def _drop_loose_vectors(self) -> None:
        """While others write it is left to a later call: nobody waits for it."""
        with self._mutex:
            loose, self._loose = sorted(self._loose), set()
        try:
            while loose:
                with self._postgres.writing(_SHORTLY_S), self._postgres.transaction(logged=False) as db:
                    contents.drop_loose_vectors(db, loose[:_LOOSE_PAGE])
                del loose[:_LOOSE_PAGE]
        except LibraryBusy:
            with self._mutex:
                self._loose.update(loose[:_MOST_LOOSE])
        except StoreError as error:
            _log.warning("vectors that no passage uses are left to doctor: %s", error)

    def _follow(self, seq: int, took_s: float = 0.0) -> None:
        """Lets what was written be found: at once, or in the background of a long stretch.

        It is written in any case: while the index is away, whoever reaches it next brings it up to date.
        """
        if self._own.stretches:
            self._follower.wake()
            return
        is_long = took_s > _LONG_S
        ends = time.monotonic() + (max(_APPLY_S, _TIMES * took_s) if is_long else _APPLY_S)
        for left in reversed(range(_TRIES if is_long else 1)):
            try:
                self._follower.catch_up(seq, max(0.0, ends - time.monotonic()), is_patient=is_long)
                return
            except StoreError as error:
                _log.warning("written, but not indexed yet: %s", error)
                time.sleep(_AGAIN_S if left else 0.0)
        self._follower.wake()

    @contextmanager
    def stretch(self, wait: bool = True) -> Iterator[None]:
        if not wait and self.is_being_written():
            raise LibraryBusy("Another writer is at work.", "Try again when it has finished.")
        began = time.monotonic()
        try:
            with self._postgres.stretch():
                self._own.stretches += 1
                try:
                    yield
                finally:
                    self._own.stretches -= 1
        finally:
            if not self._own.stretches:  # others must see that it has ended: an index gets its graphs then
                self._drop_loose_vectors()
                self._follow(self.sequence(), time.monotonic() - began)
                self._follower.wake()

    def flush_for_others(self) -> None:
        """Does nothing: whoever reads follows the log."""

    def share_metadata(self) -> None:
        if self._beside is not None and self._beside.metadata.exists():
            text = self._beside.metadata.read_text(encoding="utf-8")
            with self.writing(), self.transaction() as db:
                contents.put_meta(db, _METADATA, text)

    def _fetch_metadata(self) -> None:
        """Brings the metadata.json that was written last, on any machine, to this one."""
        text = self.read(lambda db: contents.meta(db, _METADATA))
        if text is None or self._beside is None:
            return
        with contextlib.suppress(OSError):
            if self._beside.metadata.read_text(encoding="utf-8") == text:
                return
        replace_file(self._beside.metadata, text)

    def collections(self, at: int = -1) -> list[Collection]:
        before, _ = self._known
        found = super().collections(at)
        if self._known[0] != before:
            self._fetch_metadata()
        return found

    def is_being_written(self) -> bool:
        with self._postgres.reading() as db:
            return bool(self._postgres.holders(db, (WRITER, STRETCH)))

    # searching

    def view(self, filters: Filters = EVERYTHING) -> SharedView:
        began = time.monotonic()
        with self._postgres.reading() as db:
            seen, is_waited_for = self._follower.look(db)
            scope = self._scopes.resolve(db, seen.seq, filters)
        self._saw(seen.seq)
        searched, behind, away = None, 0, ""
        try:
            searched, behind = self._follower.at(seen, is_waited_for)
        except IndexAway as error:
            _log.warning("%s", error)
            self._follower.wake()
            away = self._nodes.unreached
        if searched is None:
            metrics.count("refdesk_index_away_total")
            away = away or self._follower.why_none(is_later=seen.is_later)
        return SharedView(
            self._postgres, self._nodes, self._follower, self._counts, seen.seq, scope, searched, away, behind,
            began,
        )  # fmt: skip

    def behind(self) -> int:
        """How many commits the index lacks: none if no passage has changed since the last one that it has."""
        with self._postgres.reading() as db:
            seen, _ = self._follower.look(db)
            if seen.state is None and db.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is None:
                return 0  # it is made when there is something to find
        is_followed = seen.state is not None and (seen.is_current or seen.is_later)
        return max(0, seen.seq - (seen.state.seq if seen.state is not None and is_followed else 0))

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        """The same; what a query found is read without asking again for the last commit.

        One statement serves any number of them: Postgres would plan one anew for each number.
        """
        (seq, seen_at), now = self._seen, time.monotonic()
        with self._postgres.reading(seen_at if now - seen_at < SEARCH_S else math.inf) as db:  # that of a search
            if now - seen_at > _JUST_S:
                seq = sequence(db)
            return reads.chunks(db, chunk_ids, lambda db, rows: self._owners.find(db, seq, rows), few=0)

    # keeping

    def stats(self, collection: str = "") -> Stats:
        with self._postgres.patient(_COUNT_S) as db:
            return reads.stats(db, collection, check.size(db, self.address.schema))

    def verify(self, repair: bool) -> list[Finding]:
        return check.verify(self._postgres, self._nodes, self._follower, self.address, repair=repair)

    def close(self) -> None:
        with contextlib.suppress(StoreError):
            self._follower.close()
        self._nodes.close()
        self._postgres.close()
