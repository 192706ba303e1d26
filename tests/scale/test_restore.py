"""`refdesk restore` and `refdesk backup` with the addresses of shared libraries."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from refdesk.app import PARTS
from refdesk.cli import cli
from refdesk.crawl.state import CrawlState, Entry
from refdesk.errors import InvalidInput, LibraryDamaged, NotFound, RefdeskError, SettingsError
from refdesk.settings import load
from refdesk.store.local import LocalStore
from refdesk.store.shared.store import SharedStore
from tests.ports.library import IDENTITY, batch, chunk, collection, vector, write
from tests.scale import servers

_number = itertools.count()


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, with those of shared libraries."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def address() -> str:
    """The address of a new library."""
    return servers.address(*servers.for_tests(), schema=f"restored{next(_number)}", shards="1", replicas="1")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """One of a library with two documents, a crawl and a description."""
    with closing(LocalStore(tmp_path / "below")) as below:
        below.put_collection(collection())
        below.set_embedder_identity(IDENTITY)
        below.apply(batch(write("a", [chunk("alpha", key="k"), "beta"]), write("b", ["gamma"])))
        (tmp_path / "below/metadata.json").write_text('{"corpus_description": "of lanterns"}')
        state = CrawlState(tmp_path / "below/crawl.db", "SITE")
        state.begin_round("https://example.org/")
        state.add([Entry("https://example.org/1", 1)])
        below.backup(tmp_path / "kb.tar.zst")
    return tmp_path / "kb.tar.zst"


def _run(*arguments: str, fails: type[RefdeskError] | None = None, library: str = "") -> Result:
    run = CliRunner().invoke(cli, arguments, env={"REFDESK_LIBRARY": library})
    assert (type(run.exception) if run.exception else None) is fails, (run.output, run.exception)
    return run


@pytest.mark.parametrize("where", ["variable", "flag", "option"])
def test_a_backup_is_restored_into_the_shared_library(
    where: str, backup: Path, address: str, data: Path, tmp_path: Path
) -> None:
    arguments = {"variable": [], "flag": ["--library", address], "option": []}[where] + ["restore", str(backup)]
    arguments += ["--library", address] if where == "option" else []
    run = _run(*arguments, library=address if where == "variable" else "")
    assert "Restored to the shared library: 1 collections, 2 documents, 3 chunks, 1 pages of crawls." in run.output
    with closing(PARTS.store(load({"library": address}, {}, tmp_path))) as store:
        assert isinstance(store, SharedStore) and store.crawls is not None
        assert store.raw("a") and store.embedder_identity() == IDENTITY and len(store.view().lexical(["beta"], 5)) == 1
        assert len(store.view().nearest(vector("gamma"), 5)) == 3
        with store.crawls.transaction() as db:
            assert db.execute("SELECT count(*) FROM pages").fetchone()[0] == 1
    assert not list(data.rglob("record.db")) and not list(tmp_path.glob("refdesk-*"))
    assert "lanterns" in next(data.rglob("metadata.json")).read_text()


def test_a_shared_library_that_is_not_empty_is_refused_and_stays_as_it_is(backup: Path, address: str) -> None:
    with closing(SharedStore(address)) as store:
        store.put_collection(collection("mine"))
        store.apply(batch(write("x", ["omega"], vectors=False), name="mine"))
    refused = _run("restore", str(backup), library=address, fails=InvalidInput)
    assert "not empty" in str(refused.exception) and "another schema" in str(refused.exception)
    refused = _run("restore", "--replace", str(backup), library=address, fails=InvalidInput)
    assert "--replace" in str(refused.exception) and "another schema" in str(refused.exception)
    with closing(SharedStore(address)) as store:
        assert [one.name for one in store.collections()] == ["mine"] and len(store.view().lexical(["omega"], 5)) == 1


def test_a_collection_without_documents_is_not_lost(backup: Path, address: str) -> None:
    with closing(SharedStore(address)) as store:
        store.put_collection(collection("mine"))
    assert "not empty" in str(_run("restore", str(backup), library=address, fails=InvalidInput).exception)


def test_a_shared_library_that_was_emptied_is_restored(backup: Path, address: str) -> None:
    _run("restore", str(backup), library=address)
    with closing(SharedStore(address)) as store:
        store.remove_collection("code")
    _run("restore", str(backup), library=address)
    with closing(SharedStore(address)) as store:
        assert len(store.view().lexical(["alpha"], 5)) == 1 and all(one.ok for one in store.verify(repair=False))


def test_a_backup_that_is_damaged_or_missing_leaves_the_shared_library_empty(
    backup: Path, address: str, tmp_path: Path
) -> None:
    backup.write_bytes(backup.read_bytes()[:-40])
    _run("restore", str(backup), library=address, fails=LibraryDamaged)
    _run("restore", "none.tar.zst", library=address, fails=NotFound)
    with closing(SharedStore(address)) as store:
        assert store.collections() == [] and store.count_documents("") == 0


def test_no_address_becomes_a_path_and_no_password_is_shown(tmp_path: Path) -> None:
    secret = "postgres://user:s3cret@h/db"
    before = sorted(tmp_path.rglob("*"))
    for arguments, error, said in (
        (("restore", "x.tar.zst", "--library", secret), SettingsError, "list of processes"),
        (("restore", "x.tar.zst", "--library", "mysql://h/db"), SettingsError, "can't be at mysql://"),
        (("restore", secret), InvalidInput, "not an address. `refdesk copy`"),
        (("backup", secret), InvalidInput, "not to an address"),
        (("backup", "s3://bucket/kb.tar.zst"), InvalidInput, "not to an address"),
    ):
        refused = _run(*arguments, fails=error)
        assert said in str(refused.exception) and "s3cret" not in f"{refused.exception}{refused.output}"
    assert sorted(tmp_path.rglob("*")) == before
