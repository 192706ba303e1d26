"""A library that is damaged, old, new, read-only or copied."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from refdesk.errors import LibraryBusy, LibraryDamaged, LibraryTooNew, StoreError
from refdesk.library import LEXICAL_FOLDER, RECORD_FILE, VECTORS_FILE
from refdesk.model import Batch, Reference, Symbol
from refdesk.store.local import LocalStore
from refdesk.store.record import batches, schema
from refdesk.store.vectors import engines
from refdesk.store.vectors import follower as vector_follower
from refdesk.store.vectors import index as vectors
from tests.ports.library import IDENTITY, batch, collection, key, make_version_8, vector, write

NAMES = [f"alpha text{i}" for i in range(20)]


def _opened(folder: Path) -> LocalStore:
    return LocalStore(folder, lock_timeout_s=5)


def _filled(folder: Path) -> None:
    store = _opened(folder)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(*(write(f"d{i}", [name]) for i, name in enumerate(NAMES))))
    with store.writing():
        store._vectors.save()
    store.close()


def _counts(store: LocalStore) -> tuple[int, int]:
    words = store.view().lexical(["alpha"], 100)
    near = store.view().nearest(vector("alpha"), 100)
    return len(words), len(near)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A library with a snapshot, closed."""
    made = tmp_path / "library"
    _filled(made)
    return made


@pytest.fixture
def store(folder: Path) -> Iterator[LocalStore]:
    made = _opened(folder)
    yield made
    made.close()


# --- followers ----------------------------------------------------------------------------------


def _lose_lexical(folder: Path) -> None:
    shutil.rmtree(folder / LEXICAL_FOLDER)


def _empty_lexical(folder: Path) -> None:
    for file in (folder / LEXICAL_FOLDER).iterdir():
        file.write_bytes(b"")


def _garble_lexical(folder: Path) -> None:
    (folder / LEXICAL_FOLDER / "meta.json").write_text("{}", encoding="utf-8")


def _lose_segment(folder: Path) -> None:
    next((folder / LEXICAL_FOLDER).glob("*.term")).unlink()


def _lose_snapshot(folder: Path) -> None:
    (folder / VECTORS_FILE).unlink()


def _cut_snapshot(folder: Path) -> None:
    file = folder / VECTORS_FILE
    file.write_bytes(file.read_bytes()[:-100])


def _garble_snapshot(folder: Path) -> None:
    file = folder / VECTORS_FILE
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def _age_snapshot(folder: Path) -> None:
    file = folder / VECTORS_FILE
    data = file.read_bytes()
    now = f'"version": {vectors.VERSION}'.encode()
    assert data.count(now) == 1
    file.write_bytes(data.replace(now, b'"version": 1'))


def _lengthen_snapshot(folder: Path) -> None:
    with (folder / VECTORS_FILE).open("ab") as file:
        file.write(b"more")


DAMAGES = [
    _lose_lexical,
    _empty_lexical,
    _garble_lexical,
    _lose_segment,
    _lose_snapshot,
    _cut_snapshot,
    _garble_snapshot,
    _age_snapshot,
    _lengthen_snapshot,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_follower_is_rebuilt_when_it_is_needed(folder: Path, damage) -> None:
    damage(folder)
    store = _opened(folder)
    assert _counts(store) == (20, 20)
    store.apply(batch(write("new", ["alpha new"])))
    assert _counts(store) == (21, 21)
    store.close()
    again = _opened(folder)
    assert _counts(again) == (21, 21)
    again.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_follower_is_rebuilt_by_the_next_write(folder: Path, damage) -> None:
    damage(folder)
    store = _opened(folder)
    store.apply(Batch(collection="code", removes=("d0",)))
    assert _counts(store) == (19, 19)
    store.close()


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d is not _lose_snapshot])
def test_doctor_finds_and_repairs_a_damaged_follower(folder: Path, damage) -> None:
    damage(folder)
    store = _opened(folder)
    assert [finding.part for finding in store.verify(repair=False) if not finding.ok]
    assert [finding.part for finding in store.verify(repair=True) if finding.repaired]
    assert all(finding.ok and not finding.repaired for finding in store.verify(repair=True))
    assert _counts(store) == (20, 20)
    store.close()


def test_doctor_finds_a_follower_that_lies(folder: Path) -> None:
    store = _opened(folder)
    with store.writing():
        index = store._lexical._index
        index.reload()
        writer, _ = index._open_writer()
        writer.delete_documents_by_term("id", 3)
        writer.commit()
    assert [(f.part, f.ok) for f in store.verify(repair=False)] == [
        ("record", True),
        ("lexical", False),
        ("vectors", True),
    ]
    store.verify(repair=True)
    assert _counts(store) == (20, 20)
    store.close()


def test_a_follower_of_another_library_is_not_believed(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    _filled(other)
    shutil.rmtree(folder / LEXICAL_FOLDER)
    shutil.copytree(other / LEXICAL_FOLDER, folder / LEXICAL_FOLDER)
    shutil.copy(other / VECTORS_FILE, folder / VECTORS_FILE)
    store = _opened(folder)
    assert [f.part for f in store.verify(repair=False) if not f.ok] == ["lexical"]
    assert _counts(store) == (20, 20)
    store.close()


def test_followers_ahead_of_the_record_are_rebuilt(folder: Path, tmp_path: Path) -> None:
    """As after a loss of power: the record has gone back, the followers have not."""
    before = tmp_path / "before.db"
    shutil.copy(folder / "record.db", before)
    store = _opened(folder)
    store.apply(batch(write("lost", ["alpha lost"]), removes=("d0",)))
    with store.writing():
        store._vectors.save()
    store.close()
    shutil.copy(before, folder / "record.db")
    store = _opened(folder)
    assert _counts(store) == (20, 20)
    store.apply(batch(write("other", ["alpha other"])))
    assert _counts(store) == (21, 21)
    assert all(f.ok for f in store.verify(repair=False))
    store.close()


def test_a_reader_finishes_what_a_dead_writer_left(folder: Path, store: LocalStore) -> None:
    assert _counts(store) == (20, 20)
    dead = _opened(folder)
    with dead._record.transaction() as db:  # and no word to the followers
        batches.apply(db, batch(write("late", ["alpha late"]), removes=("d0", "d1")), batches.counted_ids(db))
    with dead.writing():
        assert len(store.view().lexical(["alpha"], 100)) == 19  # a writer at work is in nobody's way
    assert _counts(store) == (19, 19)
    assert store.view().lexical(["late"], 5)
    dead.close()
    again = _opened(folder)
    assert all(finding.ok for finding in again.verify(repair=False))
    again.close()


def test_a_reader_in_another_thread_does_not_wait_for_a_writer(store: LocalStore) -> None:
    found: list[tuple[int, int]] = []
    with store.writing():
        store.apply(batch(write("new", ["alpha new"])))
        with store._record.transaction() as db:
            batches.apply(db, batch(write("half", ["alpha half"])), batches.counted_ids(db))
        reader = threading.Thread(target=lambda: found.append(_counts(store)))
        reader.start()
        reader.join(timeout=30)
        assert found == [(22, 22)]
    assert _counts(store) == (22, 22)


def test_a_long_lived_reader_catches_up_behind_a_trimmed_log(
    folder: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_follower, "_FEW", 3)
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 10)
    assert _counts(store) == (20, 20)
    writer = _opened(folder)
    for i in range(12):
        writer.apply(batch(write(f"n{i}", [f"alpha new{i}"])))
    with writer._record.reading() as db:
        assert db.execute("SELECT count(*) FROM changes").fetchone()[0] < 12
    writer.close()
    assert _counts(store) == (32, 32)


def test_unused_vectors_are_dropped_after_many_removals(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refdesk.store.local._MANY_REMOVED", 3)
    with store.writing():
        store.apply(Batch(collection="code", removes=("d0", "d1", "d2")))
        assert store.missing_vectors([key(NAMES[0])]) == set()
        store.apply(batch(write("moved", [NAMES[0]])))
    assert store.missing_vectors([key(name) for name in NAMES]) == {key(NAMES[1]), key(NAMES[2])}
    assert _counts(store) == (18, 18)


def test_without_turbovec_numpy_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 10)
    store = _opened(folder)
    with store.writing():
        store._vectors.rebuild()
    expected = store.view().nearest(vector("q"), 5)
    store.close()
    monkeypatch.setitem(sys.modules, "turbovec", None)
    store = _opened(folder)
    assert store.view().nearest(vector("q"), 5) == expected
    store.close()


def test_every_byte_of_the_snapshot_counts(folder: Path) -> None:
    file = folder / VECTORS_FILE
    whole = file.read_bytes()
    start = whole.index(b"\n") + 1
    for place in range(start, len(whole), 97):
        for damaged in (0xFF ^ whole[place], whole[place] ^ 1):
            file.write_bytes(whole[:place] + bytes([damaged]) + whole[place + 1 :])
            with pytest.raises(ValueError, match="checksum"):
                engines.read_arrays(file, vectors.VERSION)
    file.write_bytes(whole)
    engines.read_arrays(file, vectors.VERSION)


def test_a_reader_keeps_its_answers_while_the_snapshot_is_replaced(folder: Path, store: LocalStore) -> None:
    before = store.view().nearest(vector("q"), 5)
    writer = _opened(folder)
    with writer.writing():
        writer._vectors.rebuild()
    writer.close()
    assert store.view().nearest(vector("q"), 5) == before
    store.apply(batch(write("new", ["alpha new"])))
    assert _counts(store) == (21, 21)


# --- the record ---------------------------------------------------------------------------------


def test_a_newer_library_is_refused(folder: Path) -> None:
    with sqlite3.connect(folder / "record.db") as db:
        db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(LibraryTooNew, match="Upgrade"):
        _opened(folder)


def test_an_older_library_is_brought_up_to_date(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def add_a_table(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE later (x INTEGER) STRICT")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_a_table))
    store = _opened(folder)
    with store._record.reading() as db:
        assert db.execute("SELECT count(*) FROM later").fetchone() == (0,)
        assert schema.version(db) == len(schema.MIGRATIONS)
    assert _counts(store) == (20, 20)
    store.close()


def _stored_vectors(folder: Path) -> list[tuple[int, bytes]]:
    with sqlite3.connect(folder / "record.db") as db:
        found: list[tuple[int, bytes]] = db.execute("SELECT id, numbers FROM vectors ORDER BY id").fetchall()
    db.close()
    return found


def test_a_migration_that_is_killed_begins_again(folder: Path) -> None:
    before = _stored_vectors(folder)
    with sqlite3.connect(folder / "record.db") as db:
        make_version_8(db)
    db.close()
    script = """
        import os, sys
        from pathlib import Path
        from refdesk.store.record import rows
        from refdesk.store.local import LocalStore
        pack = rows.pack_vectors
        def killed(vectors):
            if killed.calls:
                os.kill(os.getpid(), 9)
            killed.calls += 1
            return pack(vectors)
        killed.calls = 0
        rows.pack_vectors = killed
        import refdesk.store.record.schema as schema
        schema._PAGE = 7
        LocalStore(Path(sys.argv[1]))
    """
    died = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(folder)], check=False)
    assert died.returncode == -9
    store = _opened(folder)
    assert _counts(store) == (20, 20)
    store.close()
    assert _stored_vectors(folder) == before


def test_a_library_of_the_first_version_is_read(folder: Path) -> None:
    before = _stored_vectors(folder)
    with sqlite3.connect(folder / "record.db") as db:
        make_version_8(db)
        db.execute("ALTER TABLE vectors DROP COLUMN pieces")
        db.execute("ALTER TABLE documents DROP COLUMN stamp")
        db.execute("ALTER TABLE symbols DROP COLUMN facts")
        db.execute("DROP TABLE ref_packs")
        db.execute("DROP TABLE ref_targets")
        db.execute("CREATE TABLE refs (document, position, kind, source, target, line, receiver, alias)")
        document, ulid = db.execute("SELECT id, ulid FROM documents").fetchone()
        used = [Reference("calls", f"f.{n}", f"ü\n{n % 7}", n, "", "a" * (n % 3)) for n in range(200)]
        db.executemany(
            "INSERT INTO refs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(document, n, *one) for n, one in enumerate(used)]
        )
        defined = [Symbol(f"ü{n % 7}", f"f.ü{n % 7}", "class", n, n + 1, "class\n " * (n % 3)) for n in range(200)]
        db.executemany(
            "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(document, n, *one[:-1]) for n, one in enumerate(defined)],
        )
        db.execute("DROP TABLE playbook_outcomes")
        db.execute("DROP TABLE playbook_versions")
        db.execute("DROP TABLE playbooks")
        db.execute("DELETE FROM collections WHERE name = ':playbooks'")
        db.execute("PRAGMA user_version = 1")
    db.close()
    store = _opened(folder)
    assert _counts(store) == (20, 20)
    hit, *_ = store.view().nearest(vector("q"), 5).ids
    assert store.chunks([hit])[hit].kept == b""
    assert _stored_vectors(folder) == before
    assert store.references_of(ulid) == used
    assert store.references_of(ulid, ("imports",)) == []
    assert [one for _, one in store.references_to("ü\n3", "", ("calls",))] == [
        one for one in used if one.target == "ü\n3"
    ]
    assert store.symbols_of(ulid) == defined
    assert [one for _, one in store.symbols_named("ü3")] == [one for one in defined if one.name == "ü3"]
    assert (store.stats().symbols, store.stats().references) == (200, 200)
    store.apply(Batch(collection="code", removes=(ulid,)))
    assert store.symbols_named("ü3") == store.references_to("ü\n3") == []
    left = "SELECT (SELECT count(*) FROM symbol_names) + (SELECT count(*) FROM ref_targets)"
    assert store.read(lambda db: db.execute(left).fetchone()) == (0,)
    store.close()


def test_a_failed_migration_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE later (x INTEGER) STRICT")
        db.execute("no such statement")

    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
        with pytest.raises(StoreError):
            _opened(folder)
    store = _opened(folder)
    with store._record.reading() as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'later'").fetchone() == (0,)
    store.close()


def test_a_file_that_is_no_record_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "record.db").write_bytes(b"this is no database, but a text that is long enough" * 100)
    with pytest.raises(LibraryDamaged, match="Restore"):
        _opened(tmp_path)


def test_a_garbled_record_is_damaged(folder: Path) -> None:
    data = bytearray((folder / "record.db").read_bytes())
    data[8192:-4096] = os.urandom(len(data) - 8192 - 4096)
    (folder / "record.db").write_bytes(data)
    with pytest.raises(LibraryDamaged):
        store = _opened(folder)
        try:
            assert not all(finding.ok for finding in store.verify(repair=False))
            _counts(store)
            store.chunks_of("d1")
        finally:
            store.close()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="Choose another"):
        _opened(tmp_path / "file")


def test_a_closed_store_says_so(store: LocalStore) -> None:
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.collections()


def test_a_record_locked_by_another_program_is_busy(folder: Path) -> None:
    store = LocalStore(folder, lock_timeout_s=0.1)
    other = sqlite3.connect(folder / "record.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LibraryBusy):
        store.apply(batch(write("x", ["alpha"])))
    assert _counts(store) == (20, 20)
    other.close()
    store.apply(batch(write("x", ["alpha"])))
    store.close()


READ_ONLY = """
    import os
    import sys
    from pathlib import Path
    import filelock, numpy, tantivy, turbovec, urllib.parse, refdesk.store.vectors.index
    from refdesk.errors import StoreError
    from refdesk.model import Filters
    from refdesk.store.local import LocalStore
    from tests.ports.library import batch, vector, write

    if os.getuid() == 0:  # whom permissions do not bind
        os.setgid(65534)
        os.setuid(65534)
    store = LocalStore(Path(sys.argv[1]), lock_timeout_s=1)
    assert len(store.view().lexical(["alpha"], 100)) == 20
    assert len(store.view().nearest(vector("alpha"), 100)) == 20
    assert len(store.collections()) == 1
    assert all(finding.ok for finding in store.verify(repair=False))
    for change in (lambda: store.apply(batch(write("x", ["alpha"]))), lambda: store.verify(repair=True)):
        try:
            change()
        except StoreError as error:
            assert "writable" in str(error), error
        else:
            raise AssertionError("it was written to")
    store.close()
    print("read")
"""


@pytest.fixture
def read_only(folder: Path) -> Iterator[Path]:
    """The library where everybody may read it and nobody may write, apart from root."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        copied = shutil.copytree(folder, Path(made) / "library")
        entries = (copied, *copied.rglob("*"))
        for entry in entries:
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        yield copied
        for entry in entries:
            entry.chmod(0o755)


def test_a_schema_that_is_no_text_is_damage(folder: Path) -> None:
    """SQLite quotes it in its message, which Python can't decode then."""
    record = folder / RECORD_FILE
    with closing(sqlite3.connect(record)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET name = CAST(x'efff' AS TEXT), sql = 'nonsense' WHERE name = 'meta'")
        db.commit()
    with pytest.raises(LibraryDamaged, match="refdesk restore"):
        LocalStore(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions work otherwise there")
def test_a_folder_that_may_not_be_written_is_read(read_only: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(READ_ONLY), str(read_only)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout == "read\n", ran.stderr


def test_a_backup_is_taken_while_a_writer_runs(store: LocalStore, tmp_path: Path) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def write_on() -> None:
        try:
            number = 0
            while not stop.is_set():
                store.apply(batch(write(f"w{number}", [f"alpha w{number} a", f"alpha w{number} b"])))
                number += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write_on)
    thread.start()
    try:
        for number in range(3):
            store.backup(tmp_path / f"copy{number}")
    finally:
        stop.set()
        thread.join()
    assert failures == []
    for number in range(3):
        copy = _opened(tmp_path / f"copy{number}")
        words, near = _counts(copy)
        assert words == near >= 20 and words % 2 == 0
        assert all(f.ok for f in copy.verify(repair=False))
        copy.close()


def test_ids_are_not_used_again(folder: Path) -> None:
    store = _opened(folder.with_name("other"))
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(write("d", ["alpha"])))
    first = store.chunks_of("d")[0].id
    store.apply(Batch(collection="code", removes=("d",)))
    store.apply(batch(write("d", ["alpha"])))
    assert store.chunks_of("d")[0].id > first
    store.close()
