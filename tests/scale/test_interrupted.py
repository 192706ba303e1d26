"""What is said, and what is left, when `copy`, `restore`, `backup` and `doctor` are interrupted or told to end."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from refdesk.store.local import LocalStore
from refdesk.store.shared.address import parse
from refdesk.store.shared.nodes import Nodes
from refdesk.store.shared.store import SharedStore
from tests.mcp_client.stdio import environment
from tests.ports.library import IDENTITY, batch, collection, write
from tests.scale.shared import LONG_S, filled

# The program, which gets a signal when it calls a function for the given time.
_PROGRAM = """
import importlib, os, signal, sys, time
signalled, module, name, at, *removed = [*sys.argv[1:4], *sys.argv[4].split("-")]
owner = importlib.import_module(module)
was, calls = getattr(owner, name), 0

class Removed:
    def __del__(self):
        os.kill(os.getpid(), getattr(signal, signalled))

def counted(*given, **more):
    global calls
    calls += 1
    if calls == int(at) and removed:
        Removed()
        time.sleep(60)
    elif calls == int(at):
        os.kill(os.getpid(), getattr(signal, signalled))
    return was(*given, **more)

setattr(owner, name, counted)
sys.argv = ["refdesk", *sys.argv[5:]]
from refdesk.cli import main
main()
"""
_INDEXING = "refdesk.store.words.index fields_of 2"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with three documents, and places of its own for what is temporary and for the user's data."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with closing(LocalStore(tmp_path / "library")) as store:
        _fill(store)
        store.backup(tmp_path / "kb.tar.zst")
    return tmp_path


@pytest.fixture
def shared(address: str) -> Iterator[str]:
    """The address of a library with the same."""
    with closing(filled(address)) as store:
        _fill(store)
    yield address


def _fill(store: LocalStore | SharedStore) -> None:
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(*(write(name, [f"{name} one", f"{name} two"]) for name in ("alpha", "beta", "gamma"))))


def _interrupted(folder: Path, by: str, where: str, *arguments: str) -> str:
    """The last line that the command says when it is interrupted there."""
    command = [sys.executable, "-c", _PROGRAM, by, *where.split(), *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == {"SIGINT": 130, "SIGTERM": 143}[by], done
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr, done.stderr
    assert list((folder / "temporary").iterdir()) == [] and not list(folder.glob(".*"))
    return done.stderr.splitlines()[-1]


def _run(*arguments: str) -> str:
    command = [sys.executable, "-m", "refdesk", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


def _is_finished_by(said: str) -> None:
    """Runs the command that was named, which makes the index; it is sound then."""
    told = re.fullmatch("Interrupted. Everything is copied, but its index is not whole: `(.+)` makes it.", said)
    assert told is not None, said
    arguments = shlex.split(told[1])[1:]
    assert "repaired" in _run(*arguments) or "://" in said  # of servers, whatever runs makes it
    assert "broken" not in _run(*arguments, "--check")
    assert "chunks         6" in _run(*arguments[:-1], "stats")


def test_a_copy_whose_index_is_being_made_is_finished_by_doctor(folder: Path, shared: str) -> None:
    arguments = ("copy", shared, str(folder / "copy"))
    said = _interrupted(folder, "SIGINT", "refdesk.store.copying _insert 5", *arguments)
    assert said == "Interrupted. Nothing was copied: run it again."
    said = _interrupted(folder, "SIGINT", _INDEXING, *arguments)
    again = _interrupted(folder, "SIGINT", _INDEXING, "--library", str(folder / "copy"), "doctor")
    assert again == "Interrupted. What was repaired stays so: run it again for the rest."
    _is_finished_by(said)


def test_a_copy_to_servers_is_finished_by_doctor(folder: Path, address: str) -> None:
    arguments = ("copy", str(folder / "library"), address)
    said = _interrupted(folder, "SIGINT", "refdesk.store.shared.dialect _storable 10", *arguments)
    assert said == "Interrupted. Nothing was copied: run it again."
    _is_finished_by(_interrupted(folder, "SIGINT", "refdesk.store.shared.points add 2", *arguments))


def test_an_interrupted_restore_leaves_nothing(folder: Path) -> None:
    arguments = ("restore", str(folder / "kb.tar.zst"), "--library", str(folder / "restored"))
    for by in ("SIGINT", "SIGTERM"):
        said = _interrupted(folder, by, _INDEXING, *arguments)
        assert said == "Interrupted. Nothing was restored: run it again."
        assert not (folder / "restored").exists()
    assert "6 chunks" in _run(*arguments)


def test_a_restore_into_servers_that_is_told_to_end_leaves_no_file(folder: Path, address: str) -> None:
    arguments = ("restore", str(folder / "kb.tar.zst"), "--library", address)
    for where in ("refdesk.store.backup _take 2", _INDEXING, "refdesk.store.copying _insert 5"):
        said = _interrupted(folder, "SIGTERM", where, *arguments)
        assert said == "Interrupted. Nothing was restored: run it again."
    _is_finished_by(_interrupted(folder, "SIGTERM", "refdesk.store.shared.points add 2", *arguments))


def test_a_backup_of_servers_that_is_told_to_end_leaves_no_file(folder: Path, shared: str) -> None:
    target = folder / "shared.tar.zst"
    for by, where in (("SIGTERM", "refdesk.store.copying _insert 5"), ("SIGINT", "refdesk.store.backup _pack 1")):
        said = _interrupted(folder, by, where, "--library", shared, "backup", str(target))
        assert said == "Interrupted. No backup was made: run it again." and not target.exists()


def test_a_check_that_is_interrupted_says_so(folder: Path) -> None:
    where = "refdesk.store.doctor _check_vectors 1"
    said = _interrupted(folder, "SIGINT", where, "--library", str(folder / "library"), "doctor", "--check")
    assert said == "Interrupted. Not everything was checked: run it again."


@pytest.mark.parametrize("by", ["SIGINT", "SIGTERM"])
def test_an_interruption_is_not_lost_while_an_object_is_removed(folder: Path, by: str) -> None:
    where = "refdesk.store.doctor _check_vectors 1-removed"
    said = _interrupted(folder, by, where, "--library", str(folder / "library"), "doctor", "--check")
    assert said == "Interrupted. Not everything was checked: run it again."


def test_a_connection_that_is_interrupted_in_a_statement_is_not_used_again(
    store: SharedStore, caplog: pytest.LogCaptureFixture
) -> None:
    postgres = store._postgres
    with pytest.raises(KeyboardInterrupt), postgres.writing(), postgres.transaction() as db:
        db.raw.pgconn.send_query(b"SELECT pg_sleep(60)")
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), store.reading() as reading:
        reading.raw.pgconn.send_query(b"SELECT pg_sleep(60)")  # type: ignore[attr-defined]
        raise KeyboardInterrupt
    assert store.count_documents("") == 0
    store.apply(batch(write("a", ["alpha"], vectors=False)))
    assert "ignored" not in caplog.text


def test_a_call_that_is_interrupted_as_it_begins_keeps_no_process_from_its_end(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grpc._channel
    from qdrant_client import grpc as messages

    def interrupt(state: object) -> None:
        raise KeyboardInterrupt

    nodes = Nodes(parse(address), "")
    monkeypatch.setattr(grpc._channel, "_run_channel_spin_thread", interrupt)
    with pytest.raises(KeyboardInterrupt):
        nodes.start("Collections", "List", messages.ListCollectionsRequest())
    closing = threading.Thread(target=nodes.close, daemon=True)
    closing.start()
    closing.join(LONG_S)
    assert not closing.is_alive()
