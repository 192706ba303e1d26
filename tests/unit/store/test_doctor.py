"""Doctor looks at everything in a library, says what is wrong, and repairs what follows from the rest."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.crawl.state import CrawlState, target_of
from refdesk.desk.corpus import read_metadata
from refdesk.errors import LibraryDamaged, StoreError
from refdesk.library import CRAWL_FILE, RECORD_FILE, SKILLS_FILE, Library
from refdesk.model import Finding
from refdesk.settings import Settings
from refdesk.store.local import LocalStore
from refdesk.store.playbooks import RecordPlaybooks
from tests.faults.damage import make_library


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    make_library(folder)
    return folder


def _checked(library: Path, *, repair: bool = False) -> dict[str, Finding]:
    with open_desk(Settings(library=library, embedder="none")) as desk:
        return {one.part: one for one in desk.check(repair=repair)}


def _garble(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100:] = bytes(byte ^ 0x55 for byte in data[100:])
    file.write_bytes(data)


def test_a_sound_library_is_sound_in_all_parts(library: Path) -> None:
    found = _checked(library)
    assert set(found) == {"record", "crawl", "lexical", "vectors"}
    assert all(one.ok and not one.repaired for one in found.values())
    assert "20 pages" in found["crawl"].message


@pytest.mark.parametrize(
    "change", ["UPDATE texts SET text = text || '.' WHERE id = 7", "UPDATE blobs SET data = x'00'"]
)
def test_a_text_that_is_not_the_one_that_was_written_is_found(library: Path, change: str) -> None:
    with sqlite3.connect(library / RECORD_FILE) as db:
        db.execute(change)
    db.close()
    found = _checked(library, repair=True)["record"]
    assert not found.ok and "not what was written" in found.message and "refdesk restore" in found.message


def test_a_damaged_crawl_is_a_clear_error_and_is_set_aside(library: Path) -> None:
    _garble(library / CRAWL_FILE)
    with pytest.raises(LibraryDamaged, match="refdesk doctor"):
        CrawlState(library / CRAWL_FILE, "SITE")
    with pytest.raises(LibraryDamaged, match="refdesk doctor"):
        target_of(library / CRAWL_FILE, "https://example.org/")
    assert not _checked(library)["crawl"].ok
    assert _checked(library, repair=True)["crawl"].repaired
    state = CrawlState(library / CRAWL_FILE, "SITE")
    assert not state.begin_round("https://example.org/")  # from the beginning
    state.close()
    assert _checked(library)["crawl"].ok


@pytest.mark.parametrize("name", [CRAWL_FILE, SKILLS_FILE])
def test_another_program_s_database_is_not_written_to(library: Path, name: str) -> None:
    (library / name).unlink(missing_ok=True)
    with sqlite3.connect(library / name) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    if name == CRAWL_FILE:
        with pytest.raises(StoreError, match="another program"):
            CrawlState(library / name, "SITE")
    else:
        store = LocalStore(library)
        with pytest.raises(StoreError, match=r"skills\.db, which holds .* can't be read"):
            RecordPlaybooks(store).list_skills()
        store.close()
    with sqlite3.connect(library / name) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    db.close()


def test_damaged_playbooks_are_told_of_and_kept(library: Path) -> None:
    (library / SKILLS_FILE).write_bytes(b"not a database at all, but long enough" * 30)
    for repair in (False, True):
        found = _checked(library, repair=repair)["playbooks"]
        assert not found.ok and "refdesk restore" in found.message
    assert (library / SKILLS_FILE).exists()


def test_damaged_metadata_is_written_anew(library: Path) -> None:
    (library / "metadata.json").write_text('{"corpus_description": ', encoding="utf-8")
    assert not _checked(library)["metadata"].ok
    assert _checked(library, repair=True)["metadata"].repaired
    assert "metadata" not in _checked(library)
    assert read_metadata(Library(library)).taxonomy == {}


def test_what_is_beside_a_damaged_record_is_checked_too(library: Path) -> None:
    (library / RECORD_FILE).write_bytes(b"")
    _garble(library / CRAWL_FILE)
    found = _checked(library, repair=True)
    assert (found["record"].ok, found["crawl"].repaired) == (False, True)
