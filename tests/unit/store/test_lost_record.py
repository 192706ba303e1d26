"""A record that is missing, empty, cut off or another program's does not pass for an empty library."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from refdesk.crawl.state import Body, CrawlState
from refdesk.errors import LibraryDamaged, SettingsError
from refdesk.library import CRAWL_FILE, MARK_FILE, RECORD_FILE
from refdesk.settings import load
from refdesk.store.local import LocalStore
from tests.ports.library import IDENTITY, batch, collection, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "library"
    _fill(made)
    return made


def _fill(folder: Path) -> None:
    store = LocalStore(folder)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(*(write(f"d{i}", [f"alpha text{i}"]) for i in range(20))))
    with store.writing():
        store._vectors.save()
    store.close()


def _lose(record: Path) -> None:
    record.unlink()


def _empty(record: Path) -> None:
    record.write_bytes(b"")


def _cut(record: Path) -> None:
    record.write_bytes(record.read_bytes()[: 3 * 8192])


def _cut_short(record: Path) -> None:
    record.write_bytes(record.read_bytes()[:60])


def _write_text(record: Path) -> None:
    record.write_text("shopping list\n" * 100, encoding="utf-8")


def _put_foreign(record: Path) -> None:
    record.unlink()
    with sqlite3.connect(record) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()


def _put_versioned_foreign(record: Path) -> None:
    _put_foreign(record)
    with sqlite3.connect(record) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()


def _put_folder(record: Path) -> None:
    record.unlink()
    record.mkdir()


def _put_other_library(record: Path) -> None:
    other = record.parent.with_name("other")
    _fill(other)
    shutil.copy(other / RECORD_FILE, record)


LOSSES = [
    _lose, _empty, _cut, _cut_short, _write_text, _put_foreign, _put_versioned_foreign, _put_folder, _put_other_library,
]  # fmt: skip


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_record_is_refused_and_nothing_is_changed(folder: Path, lose: Callable[[Path], None]) -> None:
    record = folder / RECORD_FILE
    lose(record)
    before = record.read_bytes() if record.is_file() else record.exists()
    for _ in range(2):
        with pytest.raises(LibraryDamaged, match="refdesk restore"):
            LocalStore(folder)
        assert (record.read_bytes() if record.is_file() else record.exists()) == before


@pytest.mark.parametrize("lose", [_lose, _empty])
def test_an_older_library_without_a_mark_is_known_by_its_indexes(folder: Path, lose: Callable[[Path], None]) -> None:
    (folder / MARK_FILE).unlink()
    lose(folder / RECORD_FILE)
    with pytest.raises(LibraryDamaged, match="has lost its record"):
        LocalStore(folder)


def test_another_program_s_file_is_refused_in_a_new_folder(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / RECORD_FILE) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    with pytest.raises(LibraryDamaged, match="another program"):
        LocalStore(tmp_path)


def test_a_library_of_before_gets_a_mark(folder: Path) -> None:
    (folder / MARK_FILE).unlink()
    with sqlite3.connect(folder / RECORD_FILE) as db:
        db.execute("DELETE FROM meta WHERE key = 'library'")
    db.close()
    LocalStore(folder).close()
    assert (folder / MARK_FILE).is_file()
    (folder / RECORD_FILE).unlink()
    with pytest.raises(LibraryDamaged):
        LocalStore(folder)


def test_a_library_that_was_killed_while_it_was_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / RECORD_FILE).touch()
    store = LocalStore(tmp_path)
    assert store.collections() == []
    store.close()


def test_many_may_make_one_library_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def make(folder: Path) -> None:
        try:
            LocalStore(folder).close()
        except BaseException as error:
            failures.append(error)

    for number in range(10):
        threads = [threading.Thread(target=make, args=(tmp_path / str(number),)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


# --- who may read it, and when it is on the disk --------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="permissions work otherwise there")
def test_only_the_owner_may_read_a_library(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "library"
        _fill(folder)
        state = CrawlState(folder / CRAWL_FILE, "SITE")
        state.begin_round("https://example.org/")
        state.save_answer(Body("https://example.org/", "", "", b"body", "text/html", "utf-8", ""), "fetched", {})
        store = LocalStore(folder)
        with store.writing():
            open_to_others = [f for f in (folder, *folder.rglob("*")) if f.stat().st_mode & 0o077]
        store.close()
        state.close()
    finally:
        os.umask(before)
    assert open_to_others == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_full_durability_syncs_every_commit(tmp_path: Path) -> None:
    assert load({"durability": "full"}, {}, tmp_path).durability == "full"
    with pytest.raises(SettingsError, match="one of normal, full"):
        load({"durability": "most"}, {}, tmp_path)
    for durability, level in (("normal", 1), ("full", 2)):
        folder = tmp_path / durability
        store = LocalStore(folder, durability=durability)  # type: ignore[arg-type]
        with store._record.transaction() as db:
            assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        with store._record.reading() as db:
            assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        store.close()
        state = CrawlState(folder / CRAWL_FILE, "SITE", durability)  # type: ignore[arg-type]
        assert state._rows("PRAGMA synchronous") == [(level,)]
        state.close()
