"""Words are searched in the record while the full-text index is rebuilt, and give what the index gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from refdesk.app import open_desk
from refdesk.library import LEXICAL_FOLDER
from refdesk.model import Batch, Countable, Filters, Query
from refdesk.settings import Settings
from refdesk.store.local import LocalStore
from refdesk.store.record.reads import with_names
from refdesk.store.words import follower
from refdesk.store.words.index import IndexDamaged, LexicalIndex, seam
from refdesk.store.words.scan import Scan
from refdesk.text.analyse import terms
from tests.faults.damage import files_of, flip
from tests.ports.library import IDENTITY, batch, chunk, collection, write

TEXTS = [
    "def handleLogin(user): parse_http_response(user)",
    "The possibilities of relational dying threads: hoping and hopping.",
    "happy happier happiness; skies, the sky, sensibility and sensible ability",
    "Crème brûlée à la carte, naïve Größe",
    "日本語の全文検索と東京タワー",
    "generation generated generator generously; operator operates operational",
    "only early ugly singly gently idly news lying tying die",
    "snake_case_name and CamelCaseName2 with utf8 and x86_64",
    "Ünïcode und ASCII gemischt: parseHTTPResponse",
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    made = LocalStore(tmp_path / "library")
    made.put_collection(collection())
    made.put_collection(collection("other"))
    made.set_embedder_identity(IDENTITY)
    made.apply(batch(*(write(f"d{i}", [text], metadata={"team": f"t{i % 2}"}) for i, text in enumerate(TEXTS))))
    titled = chunk("plain body", title="Café menus", symbols=("drawMenu",), breadcrumb=("Guides", "Menus"))
    made.apply(batch(write("e", [titled, *TEXTS[:3]], name="other", path="guides/cafés.md"), name="other"))
    yield made
    made.close()


SCOPES = [
    Filters(), Filters(collections=("other",)), Filters(metadata=(("team", ("t1",)),)), Filters(paths=("guides",)),
]  # fmt: skip


@pytest.mark.parametrize("filters", SCOPES)
def test_the_record_gives_what_the_index_gives(store: LocalStore, filters: Filters) -> None:
    view = store.view(filters)
    scan = Scan(view._record, view._scope)
    words = {term for text in [*TEXTS, "Café menus drawMenu guides/cafés.md plain body"] for term in terms(text)}
    assert len(words) > 80
    for word in sorted(words):
        assert sorted(scan.lexical([word], 100).ids) == sorted(view.lexical([word], 100).ids), word
    for text in TEXTS:
        for phrase in (text.split()[:2], text.split()[-2:]):
            if phrase:
                assert sorted(scan.phrase(phrase, 50).ids) == sorted(view.phrase(phrase, 50).ids), phrase
    assert scan.facet_values("team") == view.facet_values("team")
    counted: tuple[Countable, ...] = ("collection", "kind", "language", "path", "metadata")
    for of in counted:
        counts = scan.tally(of, terms("menus handl"), 9)
        with view._record.reading() as db:
            assert with_names(db, of, counts) == view.tally(of, terms("menus handl"), 9)
    assert scan.unknown(["handl", "zzzz"]) >= {"zzzz"}
    ranked = scan.lexical(terms("generator operators"), 10)
    assert ranked.scores == sorted(ranked.scores, reverse=True)


def _damage(folder: Path) -> None:
    flip(files_of(folder / LEXICAL_FOLDER), 400, random.Random(1), keep_time=False)


def test_a_damaged_index_of_a_large_library_is_rebuilt_beside_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_SOON_BUILT", 0)
    settings = Settings(library=tmp_path / "library", embedder="none")
    (tmp_path / "docs").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "docs" / f"{number}.md").write_text(f"# Page {number}\n\n{text}\n", encoding="utf-8")
    with open_desk(settings) as desk:
        desk.index(tmp_path / "docs", "docs", name="docs")
        assert desk.search(Query(text="operators")).notes == desk.search(Query(text="operators")).notes
    _damage(settings.library)
    with (
        open_desk(settings) as desk,
        cast(LocalStore, desk._store)._lexical._writing,
    ):  # nobody can rebuild it meanwhile
        page = desk.search(Query(text="operators"))
        assert [hit.stored.document.path for hit in page.hits] == ["5.md"]
        assert "the full-text index is being rebuilt; words were searched in the record" in page.notes
    with open_desk(settings) as desk:  # closing finished it
        page = desk.search(Query(text="operators"))
        assert [hit.stored.document.path for hit in page.hits] == ["5.md"]
        assert not any("rebuilt" in note for note in page.notes)
        assert all(finding.ok for finding in desk._store.verify(repair=False))


def test_a_small_write_does_not_wait_for_a_rebuild(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    _damage(store.folder)
    monkeypatch.setattr(follower, "_SOON_BUILT", 0)
    again = LocalStore(store.folder)
    with again._lexical._writing, again.writing():
        again.apply(Batch(collection="code", removes=("d0",)))
        assert again._lexical._keeper._in_doubt and not again._lexical._index.readable
        assert len(again.view().lexical(["handlelogin"], 10)) == 1
    again.close()
    last = LocalStore(store.folder)
    view = last.view()
    assert len(view.lexical(["handlelogin"], 10)) == 1 and view.notices == ()
    last.close()


def test_damage_under_an_open_index_is_found_by_the_check(store: LocalStore) -> None:
    before = len(store.view().lexical(["handlelogin"], 10))
    flip(files_of(store.folder / LEXICAL_FOLDER), 64, random.Random(5), keep_time=True)
    store._lexical.doubt("as every few minutes")
    store._lexical.close()
    store._record.close()
    again = LocalStore(store.folder)
    assert again._lexical._look() is False
    assert again._lexical._index.problem() is None
    assert len(again.view().lexical(["handlelogin"], 10)) == before
    again.close()


def test_a_panic_is_an_error_of_the_index_and_an_interrupt_is_not() -> None:
    class PanicException(BaseException):  # as pyo3 names it
        pass

    with pytest.raises(IndexDamaged, match="out of bounds"), seam():
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), seam():
        raise KeyboardInterrupt


def test_a_search_that_fails_on_a_sound_index_is_answered_and_rebuilds_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = store.view()
    assert view.lexical(["handlelogin"], 10)
    meta = (store.folder / LEXICAL_FOLDER / "meta.json").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such query")

    monkeypatch.setattr("refdesk.store.words.query.lexical", fail)
    assert len(view.lexical(["handlelogin"], 10)) == 2
    store.close()
    assert (store.folder / LEXICAL_FOLDER / "meta.json").read_bytes() == meta


def test_every_bit_of_the_index_counts(store: LocalStore) -> None:
    store.close()
    folder = store.folder / LEXICAL_FOLDER
    draw = random.Random(7)
    index = LexicalIndex(folder)
    index.reload()
    assert index.problem() is None
    index.close()
    for file in files_of(folder):
        if file.suffix in (".json", ".lock"):
            continue
        whole = file.read_bytes()
        for _ in range(25):
            flip([file], 1, draw, keep_time=True)
            index = LexicalIndex(folder)
            index.reload()
            # A bit of the footer that says by which version the file was written changes no answer.
            assert not index.readable or file.read_bytes()[:-200] == whole[:-200]
            index.close()
            again = file.with_suffix(".again")
            again.write_bytes(whole)
            again.replace(file)  # writing in place cuts the file off first, and whoever has it mapped gets SIGBUS
