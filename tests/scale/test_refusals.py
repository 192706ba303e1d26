"""What Postgres refuses is told as what it is, and is not there afterwards."""

from __future__ import annotations

import re
import threading

import psycopg
import pytest

from refdesk.errors import LibraryBusy, RecordAway, StoreError
from refdesk.store.shared.store import SharedStore
from tests.ports.library import batch, write
from tests.scale import servers
from tests.scale.shared import texts_with

REFUSALS = {
    "53100": (StoreError, "The disk of Postgres is full: no room. Make room there"),
    "53200": (StoreError, "Postgres has no memory left: no room. Free some"),
    "40P01": (LibraryBusy, "in favour of another session: no room. Do it again"),
    "40001": (LibraryBusy, "in favour of another session"),
    "54000": (StoreError, "Postgres refused: no room"),
    "58030": (StoreError, "could not read or write its files: no room. Check"),
    "23505": (StoreError, "Postgres refused: no room"),
}


def test_a_refusal_is_told_as_what_it_is_and_leaves_nothing_behind(store: SharedStore) -> None:
    store.apply(batch(write("before", ["alpha"])))
    with store._postgres.reading() as db:
        db.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = current_setting('refdesk.refusal'); END $$"
        )
        db.execute("CREATE TRIGGER refusing BEFORE INSERT ON changes FOR EACH ROW EXECUTE FUNCTION refuse()")
    sequence = store.sequence()
    for code, (kind, message) in REFUSALS.items():
        with store.writing():
            assert store._postgres._own.writing is not None
            store._postgres._own.writing.execute(f"SET refdesk.refusal = '{code}'")
            with pytest.raises(kind, match=re.escape(message)) as raised:
                store.apply(batch(write("after", ["beta"])))
        assert not isinstance(raised.value, RecordAway), code
        assert store.sequence() == sequence and store.document("after") is None
    with store._postgres.reading() as db:
        db.execute("DROP TRIGGER refusing ON changes")
    store.apply(batch(write("after", ["beta"])))
    assert texts_with(store, "beta") == ["beta"]
    assert all(one.ok for one in store.verify(repair=False))


def test_a_deadlock_ends_one_write_which_may_be_done_again(store: SharedStore) -> None:
    """With somebody who changes the tables by hand: writers of the library take turns."""
    store.apply(batch(write("a", ["alpha"])))
    has_locked = threading.Event()

    def by_hand() -> None:
        with psycopg.connect(servers.for_tests()[0].address, options=f"-c search_path={store.address.schema}") as db:
            db.execute("SET deadlock_timeout = '60s'")  # so that the other one ends
            db.execute("LOCK TABLE changes IN ACCESS EXCLUSIVE MODE")
            has_locked.set()
            db.execute("SELECT pg_sleep(1)")
            db.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")

    beside = threading.Thread(target=by_hand)
    beside.start()
    assert has_locked.wait(60)
    with pytest.raises(LibraryBusy, match="in favour of another session: deadlock detected"):
        store.apply(batch(write("b", ["beta"])))
    beside.join(60)
    assert store.document("b") is None
    store.apply(batch(write("b", ["beta"])))
    assert texts_with(store, "beta") == ["beta"]
