"""Others write while a folder is being indexed, and each of them ends as if it had been alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.errors import CollectionNotFound
from refdesk.ingest import writer as ingest
from refdesk.ingest.prepare import Progress
from refdesk.model import Query
from refdesk.settings import Settings
from tests.conftest import Tree

FILES = {f"p/m{n}.py": f'def function_{n}():\n    """Does thing number {n}."""\n    return {n}\n' for n in range(40)}


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Desk]:
    """The library as another process has it, which is refused if it has to wait for long."""
    with open_desk(Settings(library=tmp_path / "library", workers=1, lock_timeout_s=2.0)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_BATCH_CHUNKS", 5)


def _meanwhile(act: Callable[[], object], at: int = 20) -> Progress:
    """Acts once, in the middle of the run."""
    left = [act]

    def report(done: int, total: int, what: str) -> None:
        if total and done >= at and left:
            left.pop()()

    return Progress(report=report)


def _paths(desk: Desk, name: str = "c") -> list[str]:
    return sorted(one.path for one in desk.documents(name, 1000, 0))


def _found(desk: Desk, text: str) -> list[str]:
    return [hit.stored.document.path for hit in desk.search(Query(text=text, alpha=0.0, exact=True, limit=50)).hits]


def _is_whole(desk: Desk) -> bool:
    return all(finding.ok for finding in desk._store.verify(repair=False))


def test_a_small_write_lands_and_is_found_while_a_folder_is_indexed(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)
    other.create_collection("notes")
    landed, found = threading.Event(), [""]
    indexed_by_then: list[int] = []

    def write() -> None:
        other.ingest("data:text/plain,a%20marimba%20and%20a%20xylophone", "notes")
        indexed_by_then.append(other._store.count_documents("c"))
        landed.set()
        found[:] = _found(other, "marimba")  # waits for the index run to commit it

    def wait_for_it() -> None:
        thread.start()
        landed.wait(60)

    thread = threading.Thread(target=write)
    report = desk.index(root, "code", name="c", progress=_meanwhile(wait_for_it, at=36))
    thread.join()
    assert 0 < indexed_by_then[0] < 40
    assert len(found) == 1
    assert (report.written, len(_paths(desk))) == (40, 40)
    assert len(_found(desk, "marimba")) == 1
    assert _is_whole(desk)


def test_a_folder_that_is_indexed_twice_at_once_has_each_file_once(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)
    reports = []
    act = _meanwhile(lambda: reports.append(other.index(root, "code", name="c")))
    reports.append(desk.index(root, "code", name="c", progress=act))
    assert _paths(desk) == sorted(FILES)
    assert _found(desk, "function_30()") == ["p/m30.py"]
    again = desk.index(root, "code", name="c")
    assert (again.written, again.unchanged, again.removed) == (0, 40, 0)
    assert _is_whole(desk)


def test_two_who_index_a_new_folder_in_threads_make_one_collection(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)
    failures: list[BaseException] = []
    together = threading.Barrier(2)

    def index(one: Desk) -> None:
        try:
            together.wait()
            one.index(root, "code")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=index, args=(one,)) for one in (desk, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    (collection,) = desk.collections()
    assert _paths(desk, collection.name) == sorted(FILES)
    assert _is_whole(desk)


def test_what_another_run_changed_since_is_not_undone(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "p/m1.py").unlink()
    for number in range(2, 40):
        (root / f"p/m{number}.py").write_text(f"def changed_{number}():\n    return 'first'\n")

    def meanwhile() -> None:
        (root / "p/m1.py").write_text("def back_again():\n    return 'glockenspiel'\n")
        (root / "p/m39.py").rename(root / "p/moved.py")
        other.index(root, "code", name="c")

    desk.index(root, "code", name="c", progress=_meanwhile(meanwhile))
    assert _found(desk, "glockenspiel") == ["p/m1.py"]
    desk.index(root, "code", name="c")
    assert _paths(desk) == sorted([*(set(FILES) - {"p/m39.py"}), "p/moved.py"])
    assert _is_whole(desk)


def test_a_document_ingested_meanwhile_is_not_there_twice(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)
    uri = (root / "p/m39.py").as_uri()
    desk.index(root, "code", name="c", progress=_meanwhile(lambda: other.ingest(uri, "c", roots=[root])))
    assert [one.uri for one in desk.documents("c", 100, 0)].count(uri) == 1
    assert _found(desk, "function_39()") == ["p/m39.py"]
    assert _is_whole(desk)


def test_a_collection_that_is_removed_while_it_is_indexed_stays_removed(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)
    with pytest.raises(CollectionNotFound, match="c was removed"):
        desk.index(root, "code", name="c", progress=_meanwhile(lambda: other.remove("c")))
    assert desk.collections() == []
    assert desk.stats().chunks == 0
    assert _found(desk, "function_3()") == []
    assert desk.index(root, "code", name="c").written == 40
    assert _is_whole(desk)


def test_one_of_the_same_name_made_meanwhile_gets_nothing_of_it(desk: Desk, other: Desk, tree: Tree) -> None:
    root = tree(FILES)

    def replace() -> None:
        other.remove("c")
        other.create_collection("c")

    with pytest.raises(CollectionNotFound, match="c was removed"):
        desk.index(root, "code", name="c", progress=_meanwhile(replace))
    assert desk.count_documents("c") == 0


def test_vectors_that_another_writer_dropped_are_made_again(
    desk: Desk, other: Desk, tree: Tree, tmp_path: Path
) -> None:
    root = tree(FILES)
    other.index(root, "code", name="first")  # has the vectors that the second one counts on

    desk.index(root, "code", name="c", progress=_meanwhile(lambda: other.remove("first"), at=22))
    assert desk._store.unembedded("c") == []
    assert _paths(desk) == sorted(FILES)
    assert _is_whole(desk)
