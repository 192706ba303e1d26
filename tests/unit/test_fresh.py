"""A codebase is kept fresh by what its folder tells; a walk only where that is not enough."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from refdesk.app import PARTS
from refdesk.commands import index as commands
from refdesk.desk import fresh
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import Refreshed, Refresher
from refdesk.ingest.prepare import Report
from refdesk.model import Collection, Query
from refdesk.settings import load
from refdesk.sources import watch
from tests.conftest import Tree

FILES = {f"pkg/m{number}.py": f"def thing_{number}():\n    return {number}\n" for number in range(8)}


def found(desk: Desk, text: str) -> list[str]:
    return [hit.stored.document.path for hit in desk.search(Query(text=text, alpha=0.0, exact=True)).hits]


class Walks:
    """Counts whole walks through a desk's folders."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = desk.freshness

        def counted(collection: Collection) -> tuple[int, list[str]]:
            self.count += 1
            return real(collection)

        monkeypatch.setattr(desk, "freshness", counted)


def refreshed_until(refresh: Callable[[], Refreshed], done: Callable[[], bool]) -> None:
    """Asks again and again, as an agent would; the system may tell of a change a moment after it."""
    for _ in range(200):
        refresh()
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("the change was never seen")


def test_queries_pay_for_what_changed_and_never_walk_again(
    desk: Desk, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    collection, refresher, walks = desk.collection("c"), Refresher(desk), Walks(desk, monkeypatch)
    assert refresher.refresh(collection) == Refreshed(how="watched")
    (root / "pkg/m1.py").write_text("def xylophone():\n    return 1\n")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "xylophone") == ["pkg/m1.py"])
    (root / "pkg/new.py").write_text("def marimba():\n    return 1\n")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "marimba") == ["pkg/new.py"])
    (root / "pkg/new.py").rename(root / "pkg/renamed.py")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "marimba") == ["pkg/renamed.py"])
    (root / "pkg/saved~").write_text("def glockenspiel():\n    return 1\n")  # as editors save
    (root / "pkg/saved~").replace(root / "pkg/m2.py")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "glockenspiel") == ["pkg/m2.py"])
    (root / "pkg/m3.py").unlink()
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "thing_3") == [])
    assert walks.count == 1
    (root / "pkg").rename(root.parent / "elsewhere")  # the folder alone is told of
    refreshed_until(lambda: refresher.refresh(collection), lambda: not list(desk.file_states("c")))


def test_a_folder_that_came_and_rules_that_changed_are_walked_for(
    desk: Desk, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    collection, refresher, walks = desk.collection("c"), Refresher(desk), Walks(desk, monkeypatch)
    refresher.refresh(collection)
    ready = root.parent / "ready"
    ready.mkdir()
    (ready / "inner.py").write_text("def marimba():\n    return 1\n")
    ready.rename(root / "moved_in")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "marimba") == ["moved_in/inner.py"])
    (root / ".gitignore").write_text("m4.py\n")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "thing_4") == [])
    assert walks.count >= 3


def test_what_changed_before_the_first_question_is_seen_by_it(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "pkg/m1.py").write_text("def xylophone():\n    return 1\n")
    assert Refresher(desk).refresh(desk.collection("c")).indexed == 1
    assert found(desk, "xylophone") == ["pkg/m1.py"]


def test_what_was_indexed_after_a_walk_found_it_waits_no_more(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    large = {f"pkg/large{number}.py": f"def large_{number}():\n    return 1\n" * 10_000 for number in range(8)}
    tree(large)
    collection, refresher = desk.collection("c"), Refresher(desk)
    assert refresher.refresh(collection).pending
    desk.index(root, "code", name="c")
    wait([*refresher._late.values()])
    assert refresher.refresh(collection) == Refreshed(how="watched")


def test_a_file_too_large_for_an_answer_to_wait_for_is_indexed_beside_the_answers(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    collection, refresher = desk.collection("c"), Refresher(desk)
    tree({"pkg/m1.py": "def xylophone():\n    return 1\n" * 30_000})
    assert refresher.refresh(collection).pending == ("pkg/m1.py",)
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "xylophone") == ["pkg/m1.py"])


def test_an_answer_does_not_wait_for_a_refresh_that_takes_long(
    desk: Desk, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    collection, refresher = desk.collection("c"), Refresher(desk)
    refresher.refresh(collection)
    tree({"pkg/m1.py": "def xylophone():\n    return 1\n"})
    begun, go_on, real = Event(), Event(), desk.index

    def slow(*arguments: Any, **more: Any) -> Report:
        begun.set()
        assert go_on.wait(60)
        return real(*arguments, **more)

    monkeypatch.setattr(desk, "index", slow)
    monkeypatch.setattr(fresh, "_LONGEST_S", 0.5)
    refreshed_until(lambda: refresher.refresh(collection), begun.is_set)
    page, refreshed = refresher.beside(collection, lambda: desk.search(Query(text="thing_2", alpha=0.0)))
    assert page.hits[0].stored.document.path == "pkg/m2.py"
    assert refreshed == Refreshed(note="changed files are still being indexed: later answers have them")
    go_on.set()
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "xylophone") == ["pkg/m1.py"])


def test_a_folder_that_can_not_be_watched_is_walked_beside_the_answers(
    tmp_path: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(root: Path) -> watch.Watch:
        raise OSError("too many open files")

    desk = Desk(load({"library": tmp_path / "library"}, {}, tmp_path), replace(PARTS, watch=refuse))
    root = tree(FILES)
    desk.index(root, "code", name="c")
    collection, refresher = desk.collection("c"), Refresher(desk)
    assert refresher.refresh(collection).how.startswith("checked 0.")
    monkeypatch.setattr(fresh, "_UNWATCHED_S", 0.0)
    (root / "pkg/m1.py").write_text("def xylophone():\n    return 1\n")
    refreshed_until(lambda: refresher.refresh(collection), lambda: found(desk, "xylophone") == ["pkg/m1.py"])
    desk.close()


def test_index_watch_compares_the_files_of_a_folder_that_can_not_be_watched(
    tmp_path: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(root: Path) -> watch.Watch:
        raise OSError("too many open files")

    def sleep(seconds: float) -> None:
        if found(desk, "xylophone"):
            raise KeyboardInterrupt
        (root / "pkg/m1.py").write_text("def xylophone():\n    return 1\n")

    desk = Desk(load({"library": tmp_path / "library"}, {}, tmp_path), replace(PARTS, watch=refuse))
    root = tree(FILES)
    desk.index(root, "code", name="c")
    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=sleep))
    commands._watch(desk, root, "c", "code")
    desk.close()
    said = capsys.readouterr().err
    assert "note: too many open files; its files are compared every 2 seconds." in said
    assert "1 written, 0 removed, 0 moved" in said


def test_files_that_other_machines_write_are_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    top = os.path.realpath(tmp_path)
    lines = ["22 1 0:21 / / rw shared:1 - ext4 /dev/sda rw", f"40 22 0:40 / {top}/far rw - nfs4 host:/far rw"]
    mounts.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(watch, "_MOUNTS", mounts)
    (tmp_path / "far" / "app").mkdir(parents=True)
    (tmp_path / "farther").mkdir()
    with pytest.raises(OSError, match="nfs4"):
        watch.Watch(tmp_path / "far" / "app")
    assert watch.Watch(tmp_path / "farther").changed() == set()


def test_a_folder_that_would_take_most_watches_of_the_user_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limit").write_text("20\n")
    monkeypatch.setattr(watch, "_WATCHES", tmp_path / "limit")
    for number in range(4):
        (tmp_path / "app" / f"sub_{number}").mkdir(parents=True)
    assert watch.Watch(tmp_path / "app").changed() == set()
    (tmp_path / "app" / "one_more").mkdir()
    with pytest.raises(OSError, match="too many folders"):
        watch.Watch(tmp_path / "app")
