"""A crawl of a shared library: its lock, also when it is lost, and its time limits."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg
import pytest

from refdesk.crawl.state import CrawlState, Entry
from refdesk.errors import LibraryBusy, RecordAway
from refdesk.store.record.schema import Connection
from refdesk.store.shared import database
from refdesk.store.shared.database import TooSlow
from refdesk.store.shared.store import SharedStore
from tests.scale import servers
from tests.scale.shared import until

ROOT = "https://e.org/"


@pytest.fixture
def state(store: SharedStore) -> CrawlState:
    return CrawlState(store.crawls, "SITE")


@pytest.fixture
def elsewhere(address: str) -> Iterator[CrawlState]:
    """What a crawl of the same collection on another machine knows."""
    with closing(SharedStore(address)) as other:
        yield CrawlState(other.crawls, "SITE")


_HAVING = "FROM pg_locks WHERE locktype = 'advisory' AND classid = hashtext(current_schema || ' crawl')::oid"


def _end_sessions(db: Connection) -> None:
    """Ends those that have the lock of a crawl."""
    db.execute(f"SELECT pg_terminate_backend(pid, 60000) {_HAVING}").fetchall()


def _is_busy(state: CrawlState) -> bool:
    with suppress(LibraryBusy), state.lock("site"):
        return False
    return True


def test_a_crawl_takes_its_lock_again(store: SharedStore, state: CrawlState, elsewhere: CrawlState) -> None:
    with state.lock("site"):
        state.begin_round(ROOT)
        for _ in range(2):
            store.read(_end_sessions)
            state.add([Entry(ROOT, 0)])
            assert state.counts() == {"queued": 1} and _is_busy(elsewhere)
    assert not _is_busy(elsewhere) and store.read(_marks) == 0


def _marks(db: Connection) -> int:
    return int(db.execute("SELECT count(*) FROM meta WHERE key LIKE 'crawl of %'").fetchone()[0])


def test_a_crawl_writes_no_more_when_another_has_its_lock(
    store: SharedStore, state: CrawlState, elsewhere: CrawlState
) -> None:
    with state.lock("site"):
        state.begin_round(ROOT)
        store.read(_end_sessions)
        with elsewhere.lock("site"):
            elsewhere.begin_round(ROOT)
            for _ in range(2):
                with pytest.raises(LibraryBusy, match="Another crawl of site has taken over"):
                    state.add([Entry(ROOT, 0)])
            elsewhere.finish_round()
        with pytest.raises(LibraryBusy, match="taken over"):  # also when that one has ended
            state.finish_round()
        until(lambda: not _is_busy(elsewhere))
        assert not _is_busy(elsewhere)
    assert state.counts() == {}


def test_what_a_crawl_was_writing_ends_with_its_lock(store: SharedStore, state: CrawlState) -> None:
    with state.lock("site"):
        state.begin_round(ROOT)
        with pytest.raises(RecordAway), state._transaction() as db:
            db.execute("UPDATE crawls SET unfinished = 0")
            store.read(_end_sessions)
            db.execute("UPDATE crawls SET round = 7")
        assert state._rows("SELECT round, unfinished FROM crawls") == [(1, 1)]


def test_a_crawl_goes_on_when_postgres_was_started_again() -> None:
    with servers.running(1, in_memory=True) as (postgres, nodes):
        address = servers.address(postgres, nodes, shards="1", replicas="1")
        with closing(SharedStore(address)) as store, closing(SharedStore(address)) as other:
            one, another = (CrawlState(each.crawls, "SITE") for each in (store, other))
            with one.lock("site"):
                one.begin_round(ROOT)
                postgres.stop()
                postgres.start()
                one.add([Entry(ROOT, 0)])
                assert _is_busy(another)


def test_a_crawl_that_was_stopped_loses_its_lock(
    state: CrawlState, elsewhere: CrawlState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_STOPPED_S", 1)
    with state.lock("site"):
        state.begin_round(ROOT)
        monkeypatch.undo()
        until(lambda: not _is_busy(elsewhere))
        until(lambda: not _is_busy(elsewhere))
        assert not _is_busy(elsewhere)
        with pytest.raises(LibraryBusy, match="taken over"):
            state.add([Entry(ROOT, 0)])


def test_a_crawl_that_was_stopped_goes_on_if_there_is_no_other(
    store: SharedStore, state: CrawlState, elsewhere: CrawlState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_STOPPED_S", 1)
    with state.lock("site"):
        state.begin_round(ROOT)
        monkeypatch.undo()
        until(lambda: store.read(lambda db: db.execute(f"SELECT count(*) {_HAVING}").fetchone()) == (0,))
        state.add([Entry(ROOT, 0)])
        assert state.counts() == {"queued": 1} and _is_busy(elsewhere)


def test_the_threads_of_a_crawl_share_its_connection(state: CrawlState) -> None:
    with state.lock("site"), ThreadPoolExecutor(4) as threads:
        state.begin_round(ROOT)
        list(threads.map(lambda number: state.add([Entry(f"{ROOT}{number}", 1)]), range(100)))
        assert state.counts() == {"queued": 100}


def test_a_statement_about_a_whole_site_may_take_longer_than_a_query(store: SharedStore, state: CrawlState) -> None:
    with state.lock("site"):
        state.begin_round(ROOT)
        state.add([Entry(ROOT, 0)])
        state.finish_round()
        search_path = f"-c search_path={store.address.schema}"
        with psycopg.connect(store.address.record, autocommit=True, options=search_path) as db:
            sleep = "'BEGIN PERFORM pg_sleep(5); RETURN NULL; END'"
            db.execute(f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS {sleep}")
            db.execute("CREATE TRIGGER slow AFTER UPDATE OR DELETE ON pages EXECUTE FUNCTION slow()")
        assert state.begin_round(ROOT) is False
        assert state.counts() == {"queued": 1}
    with pytest.raises(TooSlow):  # but others, such as a search, have a reader's time
        state.forget_all_but(list)
