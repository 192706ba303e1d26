"""What is left when a shared library is interrupted."""

from __future__ import annotations

import pytest

from refdesk.store.shared.store import SharedStore
from tests.ports.library import batch, write


def test_a_connection_that_is_interrupted_in_a_statement_is_not_used_again(
    store: SharedStore, caplog: pytest.LogCaptureFixture
) -> None:
    postgres = store._postgres
    with pytest.raises(KeyboardInterrupt), postgres.writing(), postgres.transaction() as db:
        db.raw.pgconn.send_query(b"SELECT pg_sleep(60)")
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), store.reading() as reading:
        reading.raw.pgconn.send_query(b"SELECT pg_sleep(60)")  # type: ignore[attr-defined]
        raise KeyboardInterrupt
    assert store.count_documents("") == 0
    store.apply(batch(write("a", ["alpha"], vectors=False)))
    assert "ignored" not in caplog.text
