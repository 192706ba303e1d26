"""A backup holds all of a library, is whole or not there, and comes back."""

from __future__ import annotations

import io
import json
import multiprocessing
import random
import shutil
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.crawl.state import Body, CrawlState, Entry, digest_of
from refdesk.errors import InvalidInput, LibraryDamaged, NotFound, RefdeskError
from refdesk.library import CRAWL_FILE, MARK_FILE, RECORD_FILE
from refdesk.settings import Settings
from refdesk.skills.model import Skill, SkillUpdate
from refdesk.store.backup import zstd
from refdesk.store.local import LocalStore, restore
from refdesk.store.playbooks import RecordPlaybooks
from tests.ports.library import IDENTITY, batch, collection, vector, write

ROOT = "https://example.org/"
FORMS = ["copy", "copy.tar.zst"]
KILLS = 16


def _skill(number: int) -> Skill:
    return Skill(
        skill_id=f"00000000-0000-0000-0000-{number:012}", title=f"Refund {number}", version=1, problem="no refund",
        resolution_md="# Refund", conditions=("paid",), keywords=("refund",), product_area="billing",
        issue_type="how-to", embedding=tuple(vector(f"refund {number}").tolist()),
    )  # fmt: skip


def _body(url: str, data: bytes) -> Body:
    return Body(ROOT + url, "", digest_of(data), data, "text/html", "utf-8", "")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with documents, playbooks with a history, a crawl that was stopped, and metadata."""
    folder = tmp_path / "library"
    store = LocalStore(folder)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(*(write(f"d{i}", [f"alpha text{i}"]) for i in range(20))))
    for number in range(2):
        RecordPlaybooks(store).create_skill(_skill(number))
        RecordPlaybooks(store).update_skill(_skill(number).skill_id, SkillUpdate(title=f"Refunds {number}"))
    store.close()
    state = CrawlState(folder / CRAWL_FILE, "SITE")
    state.begin_round(ROOT)
    state.add([Entry(ROOT + "a", 0), Entry(ROOT + "b", 1)])
    state.save_answer(_body("a", b"the text of a"), "fetched", {})
    state.close()
    (folder / "metadata.json").write_text('{"corpus_description": "x"}', encoding="utf-8")
    return folder


def _back_up(library: Path, target: Path) -> None:
    store = LocalStore(library)
    try:
        store.backup(target)
    finally:
        store.close()


def _restored(source: Path, folder: Path, *, replace: bool = False) -> Path | None:
    return restore(Settings(library=folder), source, replace=replace)[1]


def _check_all(folder: Path) -> None:
    store = LocalStore(folder)
    assert len(store.view().lexical(["alpha"], 100)) == len(store.view().nearest(vector("x"), 100)) == 20
    assert all(finding.ok for finding in store.verify(repair=False))
    for number in range(2):
        titles = [one.skill.title for one in RecordPlaybooks(store).history(_skill(number).skill_id)]
        assert titles == [f"Refund {number}", f"Refunds {number}"]
        assert len(RecordPlaybooks(store).hybrid_search(list(vector("refund")), f"refunds {number}")) == 2
    store.close()
    state = CrawlState(folder / CRAWL_FILE, "SITE")
    assert state.begin_round(ROOT)
    assert [one.data for one in state.bodies("fetched", 10)] == [b"the text of a"]
    assert [one.url for one in state.queued()] == [ROOT + "b"]
    state.close()
    assert (folder / "metadata.json").read_text(encoding="utf-8") == '{"corpus_description": "x"}'


@pytest.mark.parametrize("form", FORMS)
def test_everything_comes_back(library: Path, tmp_path: Path, form: str) -> None:
    _back_up(library, tmp_path / form)
    shutil.rmtree(library)
    assert _restored(tmp_path / form, library) is None
    _check_all(library)
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []
    assert [f for f in library.rglob("*") if f.stat().st_mode & 0o077] == []


def test_a_backup_has_as_much_as_the_library(library: Path, tmp_path: Path) -> None:
    store = LocalStore(library)
    counts = store.backup(tmp_path / "copy")
    store.close()
    assert counts == {
        "collections": 1, "documents": 20, "chunks": 20, "vectors": 22, "skills": 2, "versions": 4, "pages": 2,
    }  # fmt: skip
    _check_all(tmp_path / "copy")  # a folder opens as a library


@pytest.mark.parametrize("form", FORMS)
def test_a_library_is_replaced_only_on_wish_and_kept(library: Path, tmp_path: Path, form: str) -> None:
    _back_up(library, tmp_path / form)
    (library / RECORD_FILE).write_bytes(b"damaged")
    with pytest.raises(InvalidInput, match="--replace"):
        _restored(tmp_path / form, library)
    assert (library / RECORD_FILE).read_bytes() == b"damaged"
    aside = _restored(tmp_path / form, library, replace=True)
    assert aside is not None and (aside / RECORD_FILE).read_bytes() == b"damaged"
    _check_all(library)


def test_a_target_that_is_there_is_not_overwritten(library: Path, tmp_path: Path) -> None:
    for form in FORMS:
        _back_up(library, tmp_path / form)
        with pytest.raises(InvalidInput, match="exists"):
            _back_up(library, tmp_path / form)
    with pytest.raises(NotFound):
        _restored(tmp_path / "nothing", tmp_path / "new")
    with pytest.raises(InvalidInput, match="not a backup"):
        _restored(library, tmp_path / "new")


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_or_cut_backup_is_refused_and_leaves_nothing(library: Path, tmp_path: Path, form: str) -> None:
    backup = tmp_path / form
    _back_up(library, backup)
    draw = random.Random(1)
    files = sorted(backup.iterdir()) if backup.is_dir() else [backup]
    for number in range(60):
        file = draw.choice(files)
        whole = file.read_bytes()
        place = draw.randrange(len(whole))
        if number % 2:
            file.write_bytes(whole[:place])
        else:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << draw.randrange(8))]) + whole[place + 1 :])
        try:
            _restored(backup, tmp_path / "new")
            # A flip that says the same, such as one in the date or in what no reader looks at.
            _check_all(tmp_path / "new")
            shutil.rmtree(tmp_path / "new")
        except RefdeskError as error:
            assert isinstance(error, LibraryDamaged | InvalidInput) or "Upgrade" in str(error), error
        assert not (tmp_path / "new").exists()
        file.write_bytes(whole)
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []
    _restored(backup, tmp_path / "new")
    _check_all(tmp_path / "new")


def _archive(file: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for about, data in members:
            about.size = len(data) if about.isreg() else 0
            tar.addfile(about, io.BytesIO(data))
    file.write_bytes(zstd().compress(packed.getvalue()))


def _link(name: str, kind: bytes) -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    about.type, about.linkname = kind, "/etc/passwd"
    return about


@pytest.mark.parametrize(
    "hostile",
    [
        lambda data: [(tarfile.TarInfo("../evil"), b"x")],
        lambda data: [(tarfile.TarInfo("/tmp/evil"), b"x")],
        lambda data: [(_link(RECORD_FILE, tarfile.SYMTYPE), b"")],
        lambda data: [(_link(RECORD_FILE, tarfile.LNKTYPE), b"")],
        lambda data: [(tarfile.TarInfo(RECORD_FILE), data), (tarfile.TarInfo(RECORD_FILE), data)],
        lambda data: [(tarfile.TarInfo(RECORD_FILE), data), (tarfile.TarInfo("more"), b"x")],
        lambda data: [(tarfile.TarInfo(RECORD_FILE), data + bytes(1 << 24))],
        lambda data: [(tarfile.TarInfo("a" * (1 << 24)), data)],  # a long name is read before it is looked at
        lambda data: [],
    ],
)
def test_a_hostile_archive_is_refused(
    library: Path, tmp_path: Path, hostile: Callable[[bytes], list[tuple[tarfile.TarInfo, bytes]]]
) -> None:
    _back_up(library, tmp_path / "copy")
    data = (tmp_path / "copy" / RECORD_FILE).read_bytes()
    said = json.loads((tmp_path / "copy" / "backup.json").read_text(encoding="utf-8"))
    said["files"] = {RECORD_FILE: said["files"][RECORD_FILE]}
    first = (tarfile.TarInfo("backup.json"), json.dumps(said).encode())
    _archive(tmp_path / "x.tar.zst", [first, *hostile(data)])
    with pytest.raises(LibraryDamaged):
        _restored(tmp_path / "x.tar.zst", tmp_path / "new" / "library")
    assert [*(tmp_path / "new").iterdir()] == []
    assert not (tmp_path / "evil").exists()


def test_a_manifest_names_only_files_of_a_library(library: Path, tmp_path: Path) -> None:
    _back_up(library, tmp_path / "copy")
    manifest = tmp_path / "copy" / "backup.json"
    for name in ("../evil", "/etc/evil", "lexical/meta.json", "backup.json"):
        said = json.loads(manifest.read_text(encoding="utf-8"))
        said["files"][name] = [1, "x"]
        changed = shutil.copytree(tmp_path / "copy", tmp_path / "changed")
        (changed / "backup.json").write_text(json.dumps(said), encoding="utf-8")
        with pytest.raises(LibraryDamaged, match="not one of a library"):
            _restored(changed, tmp_path / "new")
        shutil.rmtree(changed)


# --- beside writers, and killed -------------------------------------------------------------------


def test_a_backup_beside_writers_fits_together(library: Path, tmp_path: Path) -> None:
    """A page that the crawl takes for stored is in the record, whenever the copy was made."""
    stop = threading.Event()
    failures: list[BaseException] = []
    store = LocalStore(library)
    state = CrawlState(library / CRAWL_FILE, "SITE")
    state.begin_round(ROOT)

    def crawl() -> None:
        try:
            number = 0
            while not stop.is_set():
                number += 1
                url, data = f"p{number}", f"alpha page{number}".encode()
                state.add([Entry(ROOT + url, 0)])
                state.save_answer(_body(url, data), "fetched", {})
                store.apply(batch(write(f"p{number}", [data.decode()], path=url)))
                state.finish_pages([(ROOT + url, "stored", "")])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=crawl)
    thread.start()
    other = LocalStore(library)
    try:
        for number in range(4):
            other.backup(tmp_path / f"{number}.tar.zst" if number % 2 else tmp_path / str(number))
    finally:
        stop.set()
        thread.join()
        for one in (store, other, state):
            one.close()
    assert failures == []
    for number in range(4):
        source = tmp_path / f"{number}.tar.zst" if number % 2 else tmp_path / str(number)
        _restored(source, tmp_path / f"r{number}")
        kept = LocalStore(tmp_path / f"r{number}")
        paths = {one.path for one in kept.documents("code", 10_000, 0)}
        kept.close()
        copied = CrawlState(tmp_path / f"r{number}" / CRAWL_FILE, "SITE")
        stored = {url.removeprefix(ROOT) for url, kind in copied.states().items() if kind == "stored"}
        copied.close()
        assert stored <= paths


def _in_a_loop(folder: str, target: str) -> None:
    store = LocalStore(Path(folder))
    for number in range(10_000):
        store.backup(Path(f"{target}-{number}.tar.zst") if number % 2 else Path(f"{target}-{number}"))


def _restore_in_a_loop(source: str, target: str) -> None:
    for number in range(10_000):
        restore(Settings(library=Path(f"{target}-{number}")), Path(source), replace=False)


@pytest.mark.parametrize("work", [_in_a_loop, _restore_in_a_loop])
def test_a_killed_run_leaves_nothing_or_all(library: Path, tmp_path: Path, work: Callable[[str, str], None]) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["refdesk.store.local", "refdesk.store.backup", "refdesk.app", "tantivy", __name__])
    _back_up(library, tmp_path / "whole.tar.zst")
    given = str(library if work is _in_a_loop else tmp_path / "whole.tar.zst")
    draw = random.Random(3)
    whole, started = 0, time.monotonic()
    if work is _in_a_loop:
        _back_up(library, tmp_path / "timed")
    else:
        _restored(tmp_path / "whole.tar.zst", tmp_path / "timed")
    takes_s = time.monotonic() - started
    for number in range(KILLS):
        place = tmp_path / "made" / str(number)
        place.mkdir(parents=True)
        process = context.Process(target=work, args=(given, str(place / "x")), daemon=True)
        process.start()
        while not any(place.iterdir()) and process.is_alive():
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 4 * takes_s))
        process.kill()
        process.join()
        for found in list(place.iterdir()):
            if found.name.startswith("."):  # a draft: what is in it must not open as an empty library
                if (found / "library" / MARK_FILE).exists():
                    try:
                        store = LocalStore(found / "library")
                    except LibraryDamaged:
                        continue
                    assert store.stats().documents == 20
                    store.close()
                continue
            whole += 1
            if work is _in_a_loop:
                _restored(found, place / "restored")
                _check_all(place / "restored")
                shutil.rmtree(place / "restored")
            else:
                _check_all(found)
        # The next run to the same place removes what a killed one left.
        for draft in place.glob(".*.partial"):
            name = draft.name[1:].rpartition("-")[0]
            if not (place / name).exists() and work is _in_a_loop:
                _back_up(library, place / name)
                assert not draft.exists()
    assert whole


def test_metadata_and_playbooks_go_with_the_command(library: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from refdesk.cli import cli

    run = CliRunner().invoke(cli, ["--library", str(library), "backup", str(tmp_path / "b.tar.zst")])
    assert run.exit_code == 0 and "20 documents" in run.output and "2 skills" in run.output, run.output
    to = tmp_path / "new"
    run = CliRunner().invoke(cli, ["restore", str(tmp_path / "b.tar.zst"), "--library", str(to)])
    assert run.exit_code == 0 and "4 versions of them" in run.output, run.output
    _check_all(to)
    with open_desk(Settings(library=to, embedder="none")) as desk:
        assert desk.stats().documents == 20


def test_of_an_empty_library_it_is_said_that_it_is_empty(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from refdesk.cli import cli

    LocalStore(tmp_path / "empty").close()
    empty, other = str(tmp_path / "empty"), str(tmp_path / "other")
    run = CliRunner().invoke(cli, ["copy", empty, other])
    assert run.exit_code == 0 and "Copied nothing, since the library is empty." in run.output, run.output
    run = CliRunner().invoke(cli, ["--library", empty, "backup", f"{other}.tar.zst"])
    assert run.exit_code == 0 and f"{other}.tar.zst: nothing, since the library is empty." in run.output, run.output
