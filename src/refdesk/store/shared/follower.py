"""Keeps the index in Qdrant up to date with the record: one server at a time, from where the last one stopped."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from dataclasses import replace
from typing import Any

from refdesk.errors import RefdeskError, SettingsError, StoreError
from refdesk.store.record.contents import meta, put_meta, trim_log
from refdesk.store.record.database import LEXICAL, VECTORS, Applied, is_waited_for
from refdesk.store.record.schema import Connection
from refdesk.store.shared import collection, points
from refdesk.store.shared.address import Address
from refdesk.store.shared.collection import Belonging, Sending
from refdesk.store.shared.database import LEAST_S, SEARCH_S, STRETCH, Postgres
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.nodes import WRITE_S, IndexMissing, Nodes
from refdesk.store.shared.state import (
    BARE,
    Searched,
    Seen,
    State,
    made_elsewhere,
    note_nodes,
    save,
    save_before,
    see,
    settle,
)
from refdesk.system.wanted import is_wanted

_log = logging.getLogger(__name__)

_PATIENCE_S = 1.5  # how long a reader waits for what others wrote, and a writer for an index that others build
_LOOK_S, _MOST_PAUSE_S = 0.02, 0.2  # between looks at whoever follows: the first, and later ones
_AGAIN_S = 2.0  # after a failure, and between looks whether the run that fills a library has ended
_REST_S = 0.5  # between looks whether the nodes are at rest
_GREY_S = 60.0  # between looks whether nodes that were started again wait for a word
_CLOSE_S = 1.0  # a step that a node keeps waiting is left undone: whoever follows next does it
_PAGE = 4_000  # chunks at a time
_TRIMMED = 500  # commits after which the log is cut
_BOTH = LEXICAL | VECTORS


def _left(ends: float) -> float:
    """How long a request may take then: never longer than a node that goes on needs for it."""
    return max(1.0, min(WRITE_S, ends - time.monotonic()))


class Follower:
    """Brings the index up to date, on demand and in a thread of its own."""

    def __init__(self, postgres: Postgres, nodes: Nodes, address: Address) -> None:
        self._postgres = postgres
        self._nodes = nodes
        self._address = address
        self._belonging = Belonging(nodes)
        self.sending = Sending(nodes)
        self._ahead: tuple[State | None, list[Any]] = (None, [])  # the rows that follow in an index that is built
        self._missing = ""  # the collection that the nodes do not know
        self._settled = -1  # the lost connections since which the database is known to be the record's own
        self._noted = ""  # the index of which the record knows that these nodes have it
        self.elsewhere = ""  # the nodes that have the index, if this process names none of them
        self._refusal: SettingsError | None = None  # of the thread, which can't follow then
        self._look_at = 0.0  # when to see whether nodes wait for a word to go on with their graphs
        self._stuck = -1  # the commit at which a reader waited in vain for whoever follows: the next ones do not
        self._closing = threading.Event()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()

    def look(self, db: Connection) -> tuple[Seen, bool]:
        """What the record says of the index, and whether a reader waits for it.

        It waits for what others wrote, but not for the commits of a running stretch.
        """
        seen = see(db)
        state = seen.state
        if state is None or not seen.is_current:
            return seen, not seen.is_later
        is_in_doubt = self._belonging.is_in_doubt(self._postgres.breaks)
        if is_in_doubt or self.elsewhere or seen.bare == state.name or time.monotonic() >= self._look_at:
            self.wake()
        if (
            state.seq < seen.seq
            and not db.execute("SELECT 1 FROM changes WHERE seq > ? LIMIT 1", (state.seq,)).fetchone()
        ):
            self.wake()
            seen = replace(seen, state=replace(state, seq=seen.seq))  # no passage has changed
        return seen, not seen.has(seen.seq) and is_waited_for(db, Applied(state.seq, ""), _BOTH)

    def at(self, seen: Seen, is_waited_for: bool) -> tuple[Searched | None, int]:
        """The index for a reader who has looked, and how many of the commits seen then it lacks."""
        seq, at = seen.seq, seen.state.seq if seen.state is not None else 0
        if is_waited_for and (seen.state is None or seen.state.built is None):  # building may take long
            try:
                is_hopeless = self._stuck == at or self._nodes.is_away
                seen = self.catch_up(seq, 0.0 if is_hopeless else _PATIENCE_S, creates=False)
            except StoreError as error:
                if seen.state is None:
                    raise  # else it may still be searched: a write needs more nodes than a query
                _log.warning("the index can't be brought up to date: %s", error)
            self._stuck = at if seen.state is None or seen.state.seq == at else -1
        if not seen.has(seq) and not seen.is_later:
            self.wake()
        return seen.searched(self._missing), max(0, seq - (seen.state.seq if seen.state is not None else 0))

    def searched(self, began: float) -> Searched | None:
        """The index to search now, for a search that has lost the one that it had."""
        with self._postgres.reading(began) as db:
            return see(db).searched(self._missing)

    def why_none(self, *, is_later: bool) -> str:
        """Why there is no index to search."""
        if is_later:
            return "the index was made by a later RefDesk, to which this one must be updated"
        if self.elsewhere:
            return f"the index is on {self.elsewhere}, and this server names other nodes"
        return self._nodes.unreached if self._nodes.is_away else "the index is being made"

    def report_missing(self, name: str) -> None:
        """Has a collection that the nodes do not know made anew."""
        self._missing = name
        self.wake()

    def catch_up(self, seq: int, limit_s: float, *, creates: bool = True, is_patient: bool = True) -> Seen:
        """Follows the log to the commit, or waits for whoever does, at most so long; raises IndexAway.

        A reader leaves it to the background to create an index and to take a large commit, which last longer than it
        waits.  Who is not patient waits shortly for an index that another process builds, and who is not waited for any
        more leaves all of it.
        """
        began = time.monotonic()
        ends, is_wanted_still, pause_s = began + limit_s, is_wanted.get(), _LOOK_S
        reads_from = math.inf if creates else began
        while True:
            # In a reader's time a writer might never read a page of passages that no cache holds.
            left_s = max(limit_s, SEARCH_S) if creates else max(LEAST_S, began + SEARCH_S - time.monotonic())
            with self._postgres.following(left_s) as db:
                is_ours = db is not None
                while db is not None and self._step(db, ends, creates=creates):
                    if time.monotonic() > ends or not is_wanted_still():
                        break
            with self._postgres.reading(reads_from) as reading:
                seen = see(reading)
            if not creates and self._refusal is not None:
                raise self._refusal
            if seen.state is not None and seen.bare == seen.state.name:
                self.wake()
            if seen.is_later or self.elsewhere or seen.has(seq):
                return seen
            if not is_ours and not is_patient and seen.state is not None and seen.state.built is not None:
                ends = min(ends, began + _PATIENCE_S)
            if time.monotonic() > ends or not is_wanted_still():
                return seen
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _MOST_PAUSE_S)

    def _step(self, db: Translating, ends: float = math.inf, *, creates: bool = True) -> bool:
        """Does the next part of the work on the connection that has the lock; whether there may be more."""
        if self._settled != self._postgres.breaks:
            settle(db)
            self._settled = self._postgres.breaks
        seen = see(db)
        state = seen.state
        if seen.is_later:
            return False
        is_lost = state is not None and seen.is_current and self._is_lost(state)
        self.elsewhere = made_elsewhere(db, self._address.nodes) if is_lost else ""
        if self.elsewhere:
            return False
        if state is None or not seen.is_current or is_lost:
            if creates:
                self._create(db, seen)
            else:
                self.wake()
            return creates
        try:
            if not self._belonging.is_sure(db, state, seen.seq, self._postgres.breaks, _left(ends)):
                _log.warning("the index and the record are not of one time, as after a backup; it is built anew")
                note_nodes(db, self._address.nodes)
                self._missing = state.name
                return True
            if self._noted != state.name:
                note_nodes(db, self._address.nodes)
                self._noted = state.name
            if state.built is not None:
                self._fill(db, state, ends)
                return True
            return state.seq < seen.seq and self._apply(db, state, seen.seq, ends, creates=creates)
        except IndexMissing:
            _log.warning("the index has lost the collection %s; it is built anew", state.name)
            self._missing = state.name
            return True

    def _is_lost(self, state: State) -> bool:
        """Whether the nodes do not know the index; one that was down may learn of it later."""
        if self.elsewhere and collection.exists(self._nodes, state.name):
            self._missing = ""
        return state.name == self._missing

    def _create(self, db: Connection, seen: Seen) -> None:
        """Makes a collection for an index that is built; the whole one that there is may be searched until then."""
        name = f"{self._own_names(db)}{secrets.token_hex(4)}"
        searched = seen.state if seen.state is not None and seen.state.built is None else seen.before
        if searched is not None and searched.name == self._missing:
            searched = None
        self._drop_others(db)  # of attempts that failed
        collection.create(self._nodes, self._address, name, seen.dimension)
        save_before(db, searched)
        put_meta(db, BARE, name)
        self.sending.told = -1
        note_nodes(db, self._address.nodes)
        self._save(db, State(name, seen.generation, seen.seq, built=-1))
        self._drop_others(db)

    def _fill(self, db: Translating, state: State, ends: float) -> None:
        """Adds the next page of passages to an index that is built."""
        assert state.built is not None
        at, self._ahead = self._ahead, (state, [])
        rows = at[1] if at[0] == state else points.read_after(db, state.built, _PAGE)
        done = self.sending.put(db, state.name, rows, state.seq, _left(ends))
        state = replace(state, built=rows[-1][0] if rows else None)
        if state.built is not None:  # while the nodes are at work; what changes meanwhile is logged
            self._ahead = state, points.read_after(db, state.built, _PAGE)
        done()
        self._save(db, state)

    def _apply(self, db: Translating, state: State, last: int, ends: float, *, creates: bool) -> bool:
        """Indexes what some of the next commits changed; whether there may be more."""
        upto, ids = self._pending(db, state.seq, last)
        if not creates and len(ids) > _PAGE:  # with a large commit
            self.wake()
            return False
        gone: list[int] = []
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            rows = points.read(db, some)
            self.sending.put(db, state.name, rows, last, _left(ends))()
            gone += sorted(set(some).difference(row[0] for row in rows))
        # What is new is there before what is old goes, so that no document is ever missing.
        for start in range(0, len(gone), _PAGE):
            db.execute("SELECT 1")  # a session that asks nothing for long would end
            self.sending.delete(state.name, gone[start : start + _PAGE], last, _left(ends))
        self._save(db, replace(state, seq=upto))
        if upto // _TRIMMED > state.seq // _TRIMMED:
            trim_log(db, upto)
        return upto < last

    def _pending(self, db: Translating, seq: int, last: int) -> tuple[int, list[int]]:
        """Some of the next commits, whole ones, and the chunks that they touched."""
        at = db.execute(
            "SELECT seq FROM changes WHERE seq > ? AND seq <= ? ORDER BY seq OFFSET ? LIMIT 1", (seq, last, _PAGE)
        ).fetchone()
        upto = int(at[0]) if at else last
        found = db.execute("SELECT DISTINCT chunk FROM changes WHERE seq > ? AND seq <= ?", (seq, upto))
        return upto, [row[0] for row in found]

    def _save(self, db: Connection, state: State) -> None:
        save(db, state, self.sending.told)
        self.sending.told = -1
        self._belonging.saved(state)

    def _own_names(self, db: Connection) -> str:
        """What the names of all collections of this library begin with."""
        return f"{self._postgres.schema}_{meta(db, 'library')}_"

    def _drop_others(self, db: Connection) -> None:
        """Removes all collections of the library but those that its record names now."""

        def kept() -> set[str]:
            seen = see(db)  # fails when the right to follow is lost with its connection
            return {one.name for one in (seen.state, seen.before) if one is not None}

        collection.drop_others(self._nodes, self._own_names(db), kept)

    def _finish(self, db: Translating) -> float:
        """Has the graphs of a whole index made when all nodes are at rest; in how many seconds to look again, or 0.

        Qdrant 1.16.3 gives up what it merges when it is told, and brings back points that were deleted meanwhile: of
        the last 101 about 45. A node that was started again goes on with its graphs when it is told, or written to.
        """
        seen = see(db)
        state = seen.state
        if self.elsewhere or state is None or not seen.is_current or state.built is not None:
            return 0.0
        try:
            return self._finish_whole(db, seen, state)
        except IndexMissing as error:
            _log.warning("%s", error)
            self._missing = state.name
            return _LOOK_S

    def _finish_whole(self, db: Translating, seen: Seen, state: State) -> float:
        from qdrant_client import grpc as messages

        if seen.before is not None:
            save_before(db, None)
        if seen.before is not None or time.monotonic() >= self._look_at:
            self._drop_others(db)
        is_bare, grey = seen.bare == state.name, messages.CollectionStatus.Grey
        if not is_bare and time.monotonic() < self._look_at:
            return 0.0
        if self._postgres.holders(db, (STRETCH,)):
            self._look_at = time.monotonic() + _GREY_S
            return _AGAIN_S if is_bare else 0.0
        about = messages.GetCollectionInfoRequest(collection_name=state.name)
        status = self._nodes.call("Collections", "Get", about).result.status
        if status == grey and time.monotonic() >= self._look_at:
            collection.optimise(self._nodes, state.name, is_whole=not is_bare)
        if status != grey or time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _GREY_S
        if not is_bare:
            return 0.0
        for _ in self._address.nodes:  # which are asked in turn
            if self._nodes.call("Collections", "Get", about).result.status != messages.CollectionStatus.Green:
                return _REST_S
        collection.optimise(self._nodes, state.name, is_whole=True)
        put_meta(db, BARE, "")
        return 0.0

    # in the background

    def wake(self) -> None:
        """Has a thread catch up; it goes on until there is nothing left, also after failures."""
        self._wanted.set()
        with self._mutex:
            if self._thread is None and not self._closing.is_set():
                thread = threading.Thread(target=self._run, name="refdesk-follower", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wanted.clear()
            rest_s = _MOST_PAUSE_S  # while another follows
            try:
                with self._postgres.following() as db:
                    while db is not None and not self._closing.is_set() and self._step(db):
                        pass
                    if db is not None:
                        self._refusal, rest_s = None, self._finish(db)
            except RefdeskError as error:
                self._refusal = error if isinstance(error, SettingsError) else None
                _log.warning("the index can't be brought up to date: %s", error)
                rest_s = _AGAIN_S
            except Exception:
                _log.exception("the index can't be brought up to date")
                rest_s = _AGAIN_S
            self._closing.wait(rest_s)
            with self._mutex:
                if not rest_s and not self._wanted.is_set():
                    self._thread = None
                    return

    def close(self) -> None:
        """Ends the thread, after its current step."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_S)
