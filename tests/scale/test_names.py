"""Names, paths and addresses of any length are kept and found, though a row of an index in Postgres has a limit."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refdesk.crawl.state import CrawlState
from refdesk.errors import StoreError
from refdesk.library import Library
from refdesk.model import DocumentWrite, Reference, Skipped, Symbol
from refdesk.store.copying import copy
from refdesk.store.local import LocalStore
from refdesk.store.record import by_path, reads, rows
from refdesk.store.record.access import RecordAccess
from refdesk.store.record.contents import put_meta
from refdesk.store.record.crawls import CrawlFile
from refdesk.store.shared.store import SharedStore
from refdesk.store.shared.tables import _OWN
from tests.ports.library import IDENTITY, batch, collection, write
from tests.scale.shared import filled, texts_with

_random = random.Random(5)


def long(length: int = 4_000, letters: str = string.ascii_letters) -> str:
    """A name that does not compress."""
    return "".join(_random.choices(letters, k=length))


NAME, OTHER, WIDE = long(), long(), long(3_000, "".join(map(chr, range(0x20000, 0x2A000))))
FOLDER = "/".join(long(200) for _ in range(14))


def _with(name: str, end: str) -> DocumentWrite:
    """A document with that name in every place where one can be."""
    made = write(
        f"doc{end}", [f"alpha {end}"], path=f"{FOLDER}/{name}.{end}",
        symbols=(Symbol(name, f"Of.{name}", "function", 1, 1, "sig"), Symbol("short", "short", "function", 2, 2, "")),
        references=(Reference("calls", name, name, 1), Reference("calls", "here", "short", 2)),
    )  # fmt: skip
    return replace(made, document=replace(made.document, uri=f"https://example.org/{name}?{end}"))


WRITES = [_with(NAME, "a"), _with(NAME, "b"), _with(OTHER, "c"), _with(WIDE, "d"), _with("tiny", "e")]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LocalStore]:
    made = LocalStore(tmp_path / "library")
    made.put_collection(collection())
    made.set_embedder_identity(IDENTITY)
    yield made
    made.close()


def answers(store: RecordAccess) -> list[Any]:
    """What a library says of the names."""
    paths = [write.document.path for write in WRITES]
    first = FOLDER.partition("/")[0]
    places: list[list[str] | None] = [None, paths, paths[:2], [f"{paths[0]}x"], [FOLDER], [first], [FOLDER[:700]]]
    found: list[Any] = [sorted(dict(store.file_states("code", one))) for one in places]
    found += [[one.path for one in store.documents("code", 3, at)] for at in (0, 3)]
    found += [store.document_by_path("code", path) for path in (*paths, f"{paths[0]}x", FOLDER)]
    uris = [write.document.uri for write in WRITES]
    found += [getattr(store.document_by_uri(uri), "path", None) for uri in (*uris, f"{uris[0]}x", uris[0][:-1])]
    for name in (NAME, OTHER, WIDE, "tiny", "short", NAME[:-1], f"Of.{NAME}", rows.indexable(NAME)):
        found += [[(owner.id, one) for owner, one in store.symbols_named(name)]]
        found += [[(owner.id, one) for owner, one in store.references_to(name)]]
    return [*found, store.skipped("code"), store.stats("code").symbols]


def left_over(store: RecordAccess) -> list[int]:
    tables = ("symbol_names", "symbol_packs", "ref_targets", "ref_packs")
    return [store.read(lambda db, of=of: db.execute(f"SELECT count(*) FROM {of}").fetchone()[0]) for of in tables]  # type: ignore[misc]


def test_long_names_are_kept_and_found_as_in_a_folder(store: SharedStore, folder: LocalStore, address: str) -> None:
    skipped = [Skipped(path=f"{FOLDER}/{name}", reason="too large") for name in (NAME, OTHER, WIDE, "tiny")]
    for one in (folder, store):
        one.apply(batch(*WRITES))
        one.replace_skipped("code", skipped)
    assert len(texts_with(store, "alpha")) == 5
    assert answers(store) == answers(folder)
    assert [len(found) for found in answers(store)[:7]] == [5, 5, 2, 0, 5, 5, 0]
    assert len({one.path for one in store.skipped("code")}) == 4
    before = store.sequence()
    store.replace_skipped("code", skipped)
    assert store.sequence() == before  # the same are not written again
    for one in (folder, store):
        one.apply(batch(_with(OTHER, "a"), removes=("docb", "docd")))  # under another path and address, too
        one.apply(batch(_with(OTHER, "a")))
    assert answers(store) == answers(folder) and left_over(store) == left_over(folder)
    for one in (folder, store):
        one.apply(batch(removes=("doca", "docc", "doce")))
        assert left_over(one) == [0, 0, 0, 0]


def test_a_library_with_long_names_is_copied_up_and_down(address: str, folder: LocalStore, tmp_path: Path) -> None:
    folder.apply(batch(*WRITES))
    with folder.writing(), folder.transaction() as db:  # as an earlier RefDesk kept it
        db.execute("INSERT INTO skipped SELECT id, ?, 'why' FROM collections WHERE name = 'code'", (NAME,))
        db.execute("UPDATE symbol_names SET name = ? WHERE name = ?", (NAME, rows.indexable(NAME)))
        db.execute("UPDATE ref_targets SET target = ? WHERE target = ?", (NAME, rows.indexable(NAME)))
    with closing(CrawlFile(Library(tmp_path / "library").crawls)) as crawls, crawls.transaction() as pages:
        for page in ("ok", NAME):
            pages.execute(
                "INSERT INTO pages (collection, url, round, state, depth) VALUES ('SITE', ?, 1, 'stored', 1)",
                (f"https://e.org/{page}",),
            )
    shared, again = SharedStore(address), LocalStore(tmp_path / "again")
    places = [Library(one) for one in (tmp_path / "library", tmp_path / "beside", tmp_path / "again")]
    copy(folder, shared, lambda *_: None, (places[0], places[1]))
    copy(shared, again, lambda *_: None, (places[1], places[2]))
    with closing(CrawlFile(Library(tmp_path / "again").crawls)) as crawls:
        assert CrawlState(crawls, "SITE").states() == {"https://e.org/ok": "stored"}  # the other is not crawled again
    wanted = answers(folder)[:-2]  # where the names that it kept whole are still found
    assert answers(shared)[:-2] == answers(again)[:-2] == wanted
    assert [one.path for one in again.skipped("code")] == [rows.indexable(NAME)]
    folder.apply(batch(removes=tuple(one.document.id for one in WRITES)))
    assert left_over(folder) == [0, 0, 0, 0]
    for one in (shared, again):
        one.close()


def test_a_library_of_an_earlier_version_gets_the_indexes(address: str) -> None:
    old = filled(address)
    old.apply(batch(write("early", ["alpha"])))
    with old.writing(), old.transaction() as db:
        for name in ("documents_by_place", "documents_by_address"):
            db.execute(f"DROP INDEX {name}")
        db.execute("CREATE INDEX documents_by_path ON documents (collection, path)")
        db.execute("CREATE INDEX documents_by_uri ON documents (uri)")
        db.execute("ALTER TABLE terms DROP COLUMN letters")
        db.execute("CREATE INDEX terms_by_size ON terms (size)")
        db.execute("INSERT INTO terms VALUES ('договор', 7), (repeat('a', 2000), 2000)")
        put_meta(db, "own version", "3")
    with pytest.raises(StoreError, match="index row size"):
        old.apply(batch(write("late", ["beta"], path=f"{FOLDER}/late.py")))
    new = SharedStore(address)
    assert new.read(lambda db: db.execute("SELECT value FROM meta WHERE key = 'own version'").fetchone()) == (
        str(len(_OWN)),
    )
    new.apply(batch(*WRITES))
    # A server of the earlier version, which asks as it did, goes on.
    asked = "SELECT count(*) FROM documents WHERE collection = (SELECT id FROM collections WHERE name = 'code')"
    for where, value in (("path", WRITES[0].document.path), ("path", "src/early.py")):
        assert old.read(lambda db, of=where, is_=value: db.execute(f"{asked} AND {of} = ?", (is_,)).fetchone()) == (1,)  # type: ignore[misc]
    with old.writing(), old.transaction() as db:
        db.execute(
            "INSERT INTO skipped VALUES (1, 'a', 'why') ON CONFLICT (collection, path) DO UPDATE SET reason = 'why'"
        )
        db.execute("INSERT INTO terms SELECT t, length(t) FROM unnest(ARRAY['дорога']) t ON CONFLICT DO NOTHING")
    new.apply(batch(write("words", ["договор дорога marimba"], path="src/words.py")))
    for word, edits in (("дгоовор", 1), ("дорга", 1), ("morimba", 1), ("дарогу", 2), ("miramba", 2)):
        assert [len(new.view().spelt_like([word], most, 9).ids) for most in (edits - 1, edits)] == [0, 1], word
    for one in (old, new):
        one.close()


def test_what_an_earlier_server_left_of_a_long_name_stops_no_write(store: SharedStore) -> None:
    """It removes names as they are in the text, which is not how they are kept."""
    store.apply(batch(_with(NAME, "a"), write("doca", ["beta"])))
    document = store.read(lambda db: db.execute("SELECT id FROM documents").fetchone()[0])
    with store.writing(), store.transaction() as db:
        db.execute("INSERT INTO symbol_names VALUES (?, ?, 0)", (rows.indexable(NAME), document))
    assert store.symbols_named(NAME) == []
    store.apply(batch(_with(NAME, "a")))
    assert len(store.symbols_named(NAME)) == 1


@pytest.mark.parametrize("is_analysed", [False, True])
def test_paths_and_addresses_are_looked_up_by_their_indexes(store: SharedStore, is_analysed: bool) -> None:
    store.apply(batch(*(write(f"d{n}", [], path=f"src/{n % 9}/{n}.py") for n in range(500))))
    if is_analysed:
        with store._postgres.reading() as db:
            db.execute("ANALYZE documents")
    plans: list[str] = []

    def explained(db: Any, ask: Callable[[Any], Any]) -> None:
        execute = db.execute

        class Explaining:
            def execute(self, sql: str, given: Any = (), /) -> Any:
                if "documents" in sql:
                    plans.extend(line for (line,) in execute(f"EXPLAIN {sql}", given))
                return execute(sql, given)

        ask(Explaining())

    with store._postgres.reading() as db:
        for paths in (None, ["src/1/1.py", "src/2"]):
            explained(db, lambda db, of=paths: list(by_path.parts(db, "code", of, store.indexed)))  # type: ignore[misc]
            for part in by_path.parts(db, "code", paths, store.indexed):
                explained(db, lambda db, of=part: by_path.file_states(db, "code", of, 10, store.indexed))  # type: ignore[misc]
        explained(db, lambda db: reads.document_by_path(db, "code", "src/1/1.py"))
        explained(db, lambda db: reads.documents(db, "code", 10, 10))
        explained(db, lambda db: reads.document_by_uri(db, "file:///code/src/1/1.py"))
    used = [found[1] for line in plans if (found := re.search(r"Index .*(?:using|on) (documents\w+)", line))]
    assert used.count("documents_by_place") >= 6 and "documents_by_address" in used
    assert set(used) == {"documents_by_place", "documents_by_address"}
    conditions = [line for line in plans if "Index Cond" in line and "substr" in line]
    assert len(conditions) == 5, "\n".join(plans)
