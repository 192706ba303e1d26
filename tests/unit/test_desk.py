"""A desk opens its parts once, and describes the corpus by what is in it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from refdesk.app import PARTS, open_desk
from refdesk.desk.corpus import read_metadata
from refdesk.desk.desk import Desk
from refdesk.desk.reading import INDEXING
from refdesk.ports import Store
from refdesk.settings import Settings


def test_first_calls_at_once_open_one_store(tmp_path: Path) -> None:
    opened: list[Store] = []
    all_there = threading.Barrier(4)

    def open_slowly(settings: Settings) -> Store:
        opened.append(PARTS.store(settings))
        threading.Event().wait(0.2)  # long enough for the others to come
        return opened[-1]

    desk = Desk(Settings(library=tmp_path), replace(PARTS, store=open_slowly))

    def first_call(_: int) -> int:
        all_there.wait()
        return desk.sequence()

    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(first_call, range(4)))) == 4
    desk.close()
    assert len(opened) == 1


def test_the_corpus_is_described_anew_when_documentation_comes_or_goes(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "p.md"
    page.parent.mkdir()
    page.write_text("---\nmetadata:\n  product: Rocket\n---\n# Rocket\n\nIt flies.\n")
    with open_desk(Settings(library=tmp_path / "library", embedder="none")) as desk:
        desk.index(page.parent, "docs")
        assert read_metadata(desk.library).taxonomy["product"].values == ("Rocket",)
        before = desk.library.metadata.stat().st_ino
        desk.index(page.parent, "docs")
        assert desk.library.metadata.stat().st_ino == before  # nothing changed, so it was not replaced
        desk.remove("docs")
        assert read_metadata(desk.library).taxonomy == {}


def test_a_folder_is_read_again_after_the_parser_changed(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
    newer = replace(PARTS, facts=lambda root, kind: {**PARTS.facts(root, kind), "parser": "newer"})
    settings = Settings(library=tmp_path / "library", embedder="none")
    with open_desk(settings) as desk:
        assert [desk.index(folder, "code").written for _ in range(2)] == [2, 0]
    with closing(Desk(settings, newer)) as desk:
        (folder / "a.py").write_text("def a():\n    return 2\n")
        assert desk.index(folder, "code", only={"a.py"}).written == 1  # what a search does
        assert [desk.index(folder, "code").written for _ in range(2)] == [2, 0]


def test_searches_beside_an_unfinished_run_count_its_files_once_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_desk(Settings(library=tmp_path, embedder="none")) as desk:
        begun = replace(desk.ensure_collection("code", "code"), properties={INDEXING: "7"})
        counted, saved = [], []
        monkeypatch.setattr(desk._store, "count_documents", lambda name: counted.append(name) or 3)
        monkeypatch.setattr(desk._store._vectors, "save_if_late", lambda: saved.append(1))
        assert desk.unfinished([begun]) == desk.unfinished([begun])
        assert "was interrupted, it has 3 of 7 files" in desk.unfinished([begun])[0]
        assert (counted, saved) == (["code"], [])  # nor does a search what is due after a write
        desk.ensure_collection("other", "code")
        desk.unfinished([begun])
        assert counted == ["code", "code"]
