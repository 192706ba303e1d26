"""Playbooks that an older RefDesk kept in a file of their own come into the record, whatever happens meanwhile.

`fixtures/libraries/version-4.tar.zst` is a backup that such a RefDesk made: three playbooks with two versions each.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tarfile
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.library import SKILLS_FILE
from refdesk.llm.thinkers import LocalThinker
from refdesk.model import EmbedderIdentity, Query
from refdesk.settings import Settings
from refdesk.skills.model import Skill, SkillUpdate
from refdesk.store.backup import zstd
from refdesk.store.local import LocalStore, restore
from refdesk.store.playbooks import RecordPlaybooks
from refdesk.store.record import batches
from tests.unit.skills.conversations import of_kind

BACKUP = Path(__file__).parents[2] / "fixtures" / "libraries" / "version-4.tar.zst"
# Of each playbook as the older RefDesk listed it: title, version, confidence, uses, confirmations.
LISTED = [
    ("It says their account is locked because of too many failed password", 2, 0.64, 1, 1),
    ("Router shows a red light", 2, 0.64, 1, 1),
    ("Promo code SPRING is not accepted at checkout", 2, 0.54, 1, 1),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The library as that RefDesk left it."""
    target = tmp_path / "library"
    with zstd().ZstdFile(BACKUP) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        tar.extractall(target, filter="data")
    (target / "backup.json").unlink()
    return target


def _listed(skills: list[Skill]) -> list[tuple[object, ...]]:
    return [(s.title, s.version, s.confidence, s.times_used, s.times_confirmed) for s in skills]


def _old_versions(folder: Path) -> dict[tuple[str, int], tuple[str, str]]:
    with sqlite3.connect(folder / SKILLS_FILE) as db:
        found = db.execute("SELECT skill_id, version, skill, made_at FROM versions").fetchall()
    db.close()
    return {(skill_id, version): (skill, made_at) for skill_id, version, skill, made_at in found}


def _check(folder: Path, versions: dict[tuple[str, int], tuple[str, str]]) -> None:
    store = LocalStore(folder)
    assert store.left_over == ""
    kept = RecordPlaybooks(store)
    assert _listed(kept.list_skills()) == LISTED
    found = store.read(
        lambda db: db.execute("SELECT skill_id, version, skill, made_at FROM playbook_versions").fetchall()
    )
    assert {(row[0], row[1]): (row[2], row[3]) for row in found} == versions and len(versions) == 6
    assert all(one.ok for one in store.verify(repair=False))
    assert [one["skill"].title for one in kept.hybrid_search([], "router red light")][:1] == [
        "Router shows a red light"
    ]
    assert [one.name for one in store.collections()] == ["manual"]
    store.close()
    assert not (folder / SKILLS_FILE).exists()


def test_everything_is_there_after_the_first_opening(folder: Path) -> None:
    versions = _old_versions(folder)
    _check(folder, versions)
    _check(folder, versions)
    with open_desk(Settings(library=folder)) as desk:
        thinker = LocalThinker(desk.embedder)
        assert [one.ok for one in desk._store.verify(repair=False)] == [True] * 3
        for kind, title in (("locked_out", LISTED[0][0]), ("router_offline", LISTED[1][0])):
            found = desk.learner.search(of_kind(kind)[2].query, thinker).skill
            assert found is not None and found.title == title
        hits = desk.search_everything(Query(text=of_kind("router_offline")[2].query)).hits
        assert "playbook" in [hit.stored.chunk.kind for hit in hits]
        desk._store.set_embedder_identity(EmbedderIdentity("another", "1", 4))
        assert desk.reembed() == 4  # a document and three playbooks
        assert all(one.embedding for one in desk.learner.skills())


def test_a_backup_of_then_is_restored(tmp_path: Path) -> None:
    counts, _ = restore(Settings(library=tmp_path / "library"), BACKUP, replace=False)
    assert counts["skills"] == 3 and counts["versions"] == 6
    store = LocalStore(tmp_path / "library")
    assert _listed(RecordPlaybooks(store).list_skills()) == LISTED
    store.close()


def _die(*_: object, **__: object) -> None:
    os._exit(9)


def _open_and_die(folder: str, where: str) -> None:
    if where == "while they are written":
        batches.apply = _die  # type: ignore[assignment]
    elif where == "before the file is set aside":
        Path.replace = _die  # type: ignore[method-assign,assignment]
    LocalStore(Path(folder)).close()


@pytest.mark.parametrize("where", ["while they are written", "before the file is set aside"])
def test_a_kill_loses_nothing_and_doubles_nothing(folder: Path, where: str) -> None:
    versions = _old_versions(folder)
    for _ in range(2):
        process = multiprocessing.get_context("spawn").Process(target=_open_and_die, args=(str(folder), where))
        process.start()
        process.join()
        assert process.exitcode == 9
        assert (folder / SKILLS_FILE).exists()
    _check(folder, versions)


def _open(folder: str) -> None:
    LocalStore(Path(folder)).close()


def test_several_processes_open_it_at_once(folder: Path) -> None:
    versions = _old_versions(folder)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_open, args=(str(folder),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    _check(folder, versions)


def test_what_was_changed_since_is_not_undone_by_the_file(folder: Path) -> None:
    old = (folder / SKILLS_FILE).read_bytes()
    store = LocalStore(folder)
    (first, *_) = RecordPlaybooks(store).list_skills()
    RecordPlaybooks(store).update_skill(first.skill_id, SkillUpdate(title="Unlock an account"))
    store.close()
    (folder / SKILLS_FILE).write_bytes(old)  # somebody put it back
    store = LocalStore(folder)
    kept = RecordPlaybooks(store)
    assert [one.skill.version for one in kept.history(first.skill_id)] == [1, 2, 3]
    assert kept.list_skills()[0].title == "Unlock an account"
    store.close()


def test_what_an_older_process_wrote_that_still_has_it_open_comes_too(folder: Path) -> None:
    old = sqlite3.connect(folder / SKILLS_FILE, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    old.execute("UPDATE skills SET times_used = 7")  # in the write-ahead log alone
    store = LocalStore(folder)
    assert [one.times_used for one in RecordPlaybooks(store).list_skills()] == [7, 7, 7]
    store.close()
    old.close()
    assert not (folder / SKILLS_FILE).exists()
