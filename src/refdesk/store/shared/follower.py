"""Keeps the index in Qdrant up to date with the record: one server at a time, from where the last one stopped."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refdesk.errors import RefdeskError, SettingsError, StoreError
from refdesk.model import EmbedderIdentity
from refdesk.store.record.contents import embedder_identity, meta, put_meta, trim_log
from refdesk.store.record.database import LEXICAL, VECTORS, Applied, is_told, is_waited_for, last_commit, sequence
from refdesk.store.record.schema import Connection
from refdesk.store.shared import collection, points
from refdesk.store.shared.address import Address
from refdesk.store.shared.database import STRETCH, Postgres
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.nodes import WRITE_S, IndexMissing, Nodes
from refdesk.store.shared.state import BARE, LOOK, LOST, State, before, generation_of, save, save_before, state_of
from refdesk.system import metrics
from refdesk.system.wanted import is_wanted

_log = logging.getLogger(__name__)

_PATIENCE_S = 1.5  # how long a reader waits for what others wrote
_LOOK_S, _MOST_PAUSE_S = 0.02, 0.2  # between looks at whoever follows: the first, and later ones
_AGAIN_S = 2.0  # after a failure
_REST_S = 0.5  # between looks whether the nodes are at rest
_CLOSE_S = 5.0
_PAGE = 4_000  # chunks at a time
_REQUEST = 500  # points of one request: 2 MB
_TRIMMED = 500  # commits after which the log is cut
_MOST_KNOWN = 500_000
_BOTH = LEXICAL | VECTORS


class Counts:
    """Caches how many passages have a term, for one state of the index."""

    def __init__(self) -> None:
        self.too_many_until = 0.0  # to be searched without the index
        self._last: tuple[State | None, dict[tuple[Any, ...], int]] = (None, {})

    def of(self, state: State) -> dict[tuple[Any, ...], int]:
        """The counts that hold for this state."""
        known_at, known = self._last
        if state != known_at or len(known) > 100_000:
            known = {}
            self._last = state, known
        return known


def _left(ends: float) -> float:
    """How long a request may take then."""
    return max(1.0, ends - time.monotonic())


class Follower:
    """Brings the index up to date, on demand and in a thread of its own."""

    def __init__(self, postgres: Postgres, nodes: Nodes, address: Address) -> None:
        self._postgres = postgres
        self._nodes = nodes
        self._address = address
        self._terms: dict[bytes, str] = {}  # of texts that this process wrote and that the index may lack
        self._known_terms: set[str] = set()  # that the record has, or that it was given
        self._ahead: tuple[State | None, list[Any]] = (None, [])  # the rows that follow in an index that is built
        self._missing = ""  # the collection that the nodes do not know
        self._looked_at, self._last = "", 0  # the collection that belongs to this record, and the latest commit seen
        self._saved: State | None = None  # by this process: nobody else followed while it is the record's
        self._breaks = 0  # of connections, after which the record may have gone back
        self._refusal: SettingsError | None = None  # of the thread, which can't follow then
        self._has_looked = False  # whether nodes wait for a word to go on with their graphs
        self._stuck = -1  # the commit at which a reader waited in vain for whoever follows: the next ones do not
        self._closing = threading.Event()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()

    def hint(self, terms: Mapping[bytes, str]) -> None:
        """Keeps the terms of texts that were analysed before they were written, by the texts' keys.

        Another process may follow, and a passage may have another text by then: so not by the passages' ids.
        """
        if len(self._terms) > 20 * _PAGE:
            self._terms.clear()
        self._terms.update(terms)

    def look(self, db: Connection) -> tuple[int, str, State | None, bool]:
        """The record's last commit, its generation, the state of the index, and whether a reader waits for it.

        It waits for what others wrote, but not for the commits of a running stretch.
        """
        seq, kept, embedder, length, bare = db.execute(LOOK).fetchone()
        if self._breaks != self._postgres.breaks:
            self.wake()
        state = State(**json.loads(kept)) if kept else None
        identity = EmbedderIdentity(*json.loads(embedder)) if embedder else None
        generation = generation_of(identity, length)[0]
        if state is not None and state.is_later:
            return seq, generation, state, False
        if state is None or state.generation != generation:
            return seq, generation, None, True
        if bare == state.name or not self._has_looked:
            self.wake()
        if state.seq < seq and not db.execute("SELECT 1 FROM changes WHERE seq > ? LIMIT 1", (state.seq,)).fetchone():
            self.wake()
            state = replace(state, seq=seq)  # no passage has changed
        return seq, generation, state, state.seq < seq and is_waited_for(db, Applied(state.seq, ""), _BOTH)

    def at(self, seq: int, generation: str, state: State | None, is_waited_for: bool) -> tuple[State | None, int]:
        """The state of the index for a reader of this commit, who has looked, and how many commits it lacks.

        Until another index is whole, the last one is searched: by words alone, if it was made by another model.
        """
        at = state.seq if state is not None else 0
        if state is not None and state.is_later:
            return state, max(0, seq - at)
        if is_waited_for and (state is None or state.built is None):  # building may take long
            try:
                is_hopeless = self._stuck == at or self._nodes.is_away
                state = self.catch_up(seq, 0.0 if is_hopeless else _PATIENCE_S, creates=False)
            except StoreError as error:
                if state is None:
                    raise  # else it may still be searched: a write needs more nodes than a query
                _log.warning("the index can't be brought up to date: %s", error)
            self._stuck = at if state is None or state.seq == at else -1
        behind = seq - state.seq if state else seq
        if behind > 0 or (state and state.built is not None):
            self.wake()
        if state is not None and state.built is not None:
            with self._postgres.reading() as db:
                if (whole := before(db)) is not None and whole.name != self._missing:
                    state = replace(whole, built=-1)
        if state is not None and (made_of := state.generation.removeprefix(LOST)) != generation:
            analysed = generation.split()[0]
            is_alike = made_of.split()[0] == analysed
            state = replace(state, generation=f"{analysed} - 0", built=-1) if is_alike else None
        elif state is not None and state.generation != made_of:
            state = replace(state, generation=made_of, built=-1)
        return state, max(0, behind)

    def report_missing(self, name: str) -> None:
        """Has a collection that the nodes do not know made anew."""
        self._missing = name
        self.wake()

    def catch_up(self, seq: int, limit_s: float, *, creates: bool = True) -> State | None:
        """Follows the log to the commit, or waits for whoever does, at most so long; raises IndexAway.

        A reader leaves it to the background to create an index and to take a large commit, which last longer than it
        waits.  Who is not waited for any more leaves all of it.
        """
        ends = time.monotonic() + limit_s
        is_wanted_still, pause_s = is_wanted.get(), _LOOK_S
        while True:
            with self._postgres.following(limit_s) as db:
                while db is not None and self._step(db, ends, creates=creates):
                    if time.monotonic() > ends or not is_wanted_still():
                        break
            with self._postgres.reading() as reading:
                state = state_of(reading)
            if not creates and self._refusal is not None:
                raise self._refusal
            if state is not None and (state.is_later or (state.built is None and state.seq >= seq)):
                return state
            if time.monotonic() > ends or not is_wanted_still():
                return state
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _MOST_PAUSE_S)

    def _step(self, db: Translating, ends: float = 0.0, *, creates: bool = True) -> bool:
        """Does the next part of the work on the connection that has the lock; whether there may be more."""
        ends = ends or time.monotonic() + WRITE_S
        state, last = state_of(db), sequence(db)
        if state is not None and state.is_later:
            return False
        *_, length, bare = db.execute(LOOK).fetchone()
        generation, dimension = generation_of(embedder_identity(db), length)
        if state is None or state.generation != generation or state.name == self._missing:
            if not creates:
                self.wake()
                return False
            name = f"{self._own_names(db)}{secrets.token_hex(4)}"
            searched = state if state is not None and state.built is None else before(db)
            if searched is not None and searched.name == self._missing:
                searched = None
            kept = searched.name if searched is not None else ""
            collection.drop_others(self._nodes, self._own_names(db), kept)  # of attempts that failed
            collection.create(self._nodes, self._address, name, dimension)
            save_before(db, searched)
            put_meta(db, BARE, name)
            self._save(db, State(name, generation, last, built=-1))
            collection.drop_others(self._nodes, self._own_names(db), name, kept)
            return True
        try:
            if not self._is_of_record(db, state, last, ends):
                _log.warning("the index has commits that the record lacks, as an older backup does; it is built anew")
                self._missing = state.name
                return True
            if state.built is not None:
                at, self._ahead = self._ahead, (state, [])
                rows = at[1] if at[0] == state else points.read_after(db, state.built, _PAGE)
                done = self._put(db, state.name, rows, state.seq, ends)
                state = replace(state, built=rows[-1][0] if rows else None)
                if state.built is not None:  # while the nodes are at work; what changes meanwhile is logged
                    self._ahead = state, points.read_after(db, state.built, _PAGE)
                done()
                self._save(db, state)
                return True
            if state.seq >= last:
                if bare == state.name:
                    self.wake()
                return False
            upto, ids = self._pending(db, state.seq, last)
            if not creates and len(ids) > _PAGE:  # with a large commit
                self.wake()
                return False
            gone: list[int] = []
            for start in range(0, len(ids), _PAGE):
                some = ids[start : start + _PAGE]
                rows = points.read(db, some)
                self._put(db, state.name, rows, last, ends)()
                gone += sorted(set(some).difference(row[0] for row in rows))
            # What is new is there before what is old goes, so that no document is ever missing.
            for start in range(0, len(gone), _PAGE):
                self._delete(state.name, gone[start : start + _PAGE], last, ends)
            self._save(db, replace(state, seq=upto))
        except IndexMissing:
            _log.warning("the index has lost the collection %s; it is built anew", state.name)
            self._missing = state.name
            return True
        if upto // _TRIMMED > state.seq // _TRIMMED:
            trim_log(db, upto)
        return upto < last

    def _is_of_record(self, db: Translating, state: State, last: int, ends: float) -> bool:
        """Whether the record has all that the index was made from: it may have gone back, to a backup or a standby.

        Asked where another process has followed since, or a connection was lost.
        """
        breaks = self._postgres.breaks
        if state != self._saved or breaks != self._breaks:
            head = collection.head(self._nodes, state.name, _left(ends))
            if head is not None and not is_told(db, head):
                return False
        is_first = self._looked_at != state.name or breaks != self._breaks
        if state.built is None and (is_first or last < self._last):
            if not collection.belongs(self._nodes, state.name, last, _left(ends)):
                return False
            self._looked_at = state.name
        self._last, self._saved, self._breaks = last, state, breaks
        return True

    def _pending(self, db: Translating, seq: int, last: int) -> tuple[int, list[int]]:
        """Some of the next commits, whole ones, and the chunks that they touched."""
        at = db.execute(
            "SELECT seq FROM changes WHERE seq > ? AND seq <= ? ORDER BY seq OFFSET ? LIMIT 1", (seq, last, _PAGE)
        ).fetchone()
        upto = int(at[0]) if at else last
        found = db.execute("SELECT DISTINCT chunk FROM changes WHERE seq > ? AND seq <= ?", (seq, upto))
        return upto, [row[0] for row in found]

    def _save(self, db: Connection, state: State) -> None:
        save(db, state)
        self._saved = state

    def _own_names(self, db: Connection) -> str:
        """What the names of all collections of this library begin with."""
        return f"{self._postgres.schema}_{meta(db, 'library')}_"

    def _finish(self, db: Translating) -> bool:
        """Has the graphs of a whole index made when all nodes are at rest; whether that is still to come.

        Qdrant 1.16.3 gives up what it merges when it is told, and brings back points that were deleted meanwhile: of
        the last 101 about 45. A node that was started again goes on with its graphs when it is told, or written to.
        """
        from qdrant_client import grpc as messages

        state, bare = state_of(db), meta(db, BARE)
        if state is None or state.is_later:
            return False
        if state.built is None and before(db) is not None:
            collection.drop_others(self._nodes, self._own_names(db), state.name)
            save_before(db, None)
        if self._postgres.holders(db, (STRETCH,)):
            return False
        about = messages.GetCollectionInfoRequest(collection_name=state.name)
        if bare != state.name:
            if state.built is None and not self._has_looked:
                if self._nodes.call("Collections", "Get", about).result.status == messages.CollectionStatus.Grey:
                    collection.optimise(self._nodes, state.name, is_whole=True)
                self._has_looked = True
            return False
        for _ in self._address.nodes:  # which are asked in turn
            if self._nodes.call("Collections", "Get", about).result.status != messages.CollectionStatus.Green:
                self._closing.wait(_REST_S)
                return True
        collection.optimise(self._nodes, state.name, is_whole=True)
        put_meta(db, BARE, "")
        return False

    def _put(self, db: Translating, name: str, rows: Sequence[Any], commit: int, ends: float) -> Callable[[], None]:
        """Sends the points of rows that were read after the commit; returns what waits until the nodes have them."""
        from qdrant_client import grpc as messages

        seen: set[str] = set()
        waiting = []
        at = last_commit(db)  # after the rows were read
        for start in range(0, max(1, len(rows)), _REQUEST):
            request = messages.UpsertPoints(collection_name=name, wait=True, update_filter=points.until(commit))
            if not start:
                collection.add_head(request.points, at)
            for row in rows[start : start + _REQUEST]:
                points.add(request.points, row, commit, self._terms, seen)
                self._terms.pop(row[14], None)
            waiting.append(self._nodes.start("Points", "Upsert", request, _left(ends)))
        if new := [term for term in seen - self._known_terms if term.isalpha()]:
            db.raw.execute(
                "INSERT INTO terms SELECT t, length(t) FROM unnest(%s::text[]) t ON CONFLICT DO NOTHING", (new,)
            )
            if len(self._known_terms) > _MOST_KNOWN:
                self._known_terms.clear()
            self._known_terms.update(new)

        def wait() -> None:
            for done in waiting:
                done()
            metrics.count("refdesk_index_points_total", len(rows))

        return wait

    def _delete(self, name: str, ids: Sequence[int], commit: int, ends: float) -> None:
        from qdrant_client import grpc as messages

        if ids:
            these = messages.PointsSelector(filter=points.until(commit, points.named(ids)))
            request = messages.DeletePoints(collection_name=name, wait=True, points=these)
            self._nodes.call("Points", "Delete", request, _left(ends))

    def rebuild(self, db: Connection) -> None:
        """Has the index built anew by the next that follows."""
        if (state := state_of(db)) is not None:
            self._save(db, replace(state, generation=LOST + state.generation.removeprefix(LOST)))

    # in the background

    def wake(self) -> None:
        """Has a thread catch up; it goes on until there is nothing left, also after failures."""
        self._wanted.set()
        with self._mutex:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="refdesk-follower", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wanted.clear()
            wait_s = _LOOK_S
            try:
                with self._postgres.following() as db:
                    while db is not None and not self._closing.is_set() and (self._step(db) or self._finish(db)):
                        pass
                    wait_s = 0.0 if db is not None else _MOST_PAUSE_S
                    if db is not None:
                        self._refusal = None
            except RefdeskError as error:
                self._refusal = error if isinstance(error, SettingsError) else None
                _log.warning("the index can't be brought up to date: %s", error)
                self._wanted.set()
                wait_s = _AGAIN_S
            if wait_s:
                self._closing.wait(wait_s)
            with self._mutex:
                if wait_s == 0.0 and not self._wanted.is_set():
                    self._thread = None
                    return

    def close(self) -> None:
        """Ends the thread, after its current step."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_S)
