"""One path on two machines is two folders: what one has indexed, the other leaves alone until it is told to take it."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from markupsafe import escape
from starlette.testclient import TestClient

from refdesk.app import open_desk
from refdesk.cli import cli
from refdesk.commands import index as commands
from refdesk.console.site import console_site
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import Refresher
from refdesk.desk.machine import MACHINE, SEVERAL
from refdesk.errors import OnOtherMachine
from refdesk.ingest.prepare import Progress
from refdesk.library import Library
from refdesk.model import Collection, Query
from refdesk.settings import load
from refdesk.store.shared.store import SharedStore
from tests.contracts.conftest import Client
from tests.mcp_client.stdio import StdioClient
from tests.scale.servers import settings_of

HOST = socket.gethostname()
NOTE = f"app: indexed on {HOST}; not compared with this machine's files"
OURS = {
    "till.py": "def open_till():\n    return 'the silver key'\n",
    "docs/till.md": "# Tills\n\nA silver key opens it.\n",
}
THEIRS = {"other.py": "def brew_coffee():\n    return 'beans'\n"}
TOOLS = {  # each finds the silver key, and says what it must in `notices` or in the last block
    "search_code": {"query": "silver key", "format": "json"},
    "search_docs": {"query": "silver key", "format": "json"},
    "code_research": {"query": "open_till"},
    "rag_search": {"query": "silver key"},
    "qurio_search": {"query": "silver key"},
}


class Machine:
    """A machine with a folder for what belongs to it."""

    def __init__(self, address: str, data: Path, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self._address, self._data, self._monkeypatch, self._stack = address, data, monkeypatch, stack

    def serve(self, *arguments: str, refresh_ms: int = 10_000) -> Client:
        """A server's client."""
        self._monkeypatch.setenv("XDG_DATA_HOME", str(self._data))
        self._monkeypatch.setenv("REFDESK_LIBRARY", self._address)
        self._monkeypatch.setenv("REFDESK_REFRESH_MS", str(refresh_ms))
        raw = self._stack.enter_context(StdioClient([sys.executable, "-m", "refdesk", "serve", *arguments]))
        raw.initialize()
        return Client(raw)

    def run(self, *arguments: str, code: int = 0) -> Result:
        """A command."""
        done = CliRunner().invoke(cli, arguments, env=self._environment)
        assert done.exit_code == code or (done.exception and getattr(done.exception, "exit_code", 1) == code), done
        return done

    @contextmanager
    def desk(self) -> Iterator[Desk]:
        with open_desk(replace(load(environ=self._environment), workers=1)) as desk:
            yield desk

    @property
    def _environment(self) -> dict[str, str]:
        self._monkeypatch.setenv("XDG_DATA_HOME", str(self._data))
        return {"REFDESK_LIBRARY": self._address, "XDG_DATA_HOME": str(self._data)}


@pytest.fixture
def machine(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Machine]]:
    """Makes machines that use one library."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        yield lambda name: Machine(address, tmp_path / name, monkeypatch, stack)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The folder of the first machine."""
    return written(tmp_path / "srv/app", OURS)


def written(root: Path, files: Mapping[str, str]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@contextmanager
def elsewhere(root: Path, files: Mapping[str, str] | None) -> Iterator[None]:
    """Lets another machine's folder be at the path, or none."""
    aside = root.with_name("aside")
    root.rename(aside)
    if files is not None:
        written(root, files)
    try:
        yield
    finally:
        shutil.rmtree(root, ignore_errors=True)
        aside.rename(root)


def held(address: str, name: str = "app") -> dict[str, str]:
    """The texts of a collection's files by path, as the library has them."""
    with closing(SharedStore(address)) as store:
        return {one.path: store.raw(one.id) for one in store.documents(name, 100, 0)}


def collection_of(address: str, name: str = "app") -> Collection:
    with closing(SharedStore(address)) as store:
        found = store.collection(name)
    assert found is not None
    return found


def notices(result: dict[str, Any]) -> list[str]:
    """The notices of an answer, which stand in its text and in `_meta`."""
    assert not result.get("isError"), result
    said: list[str] = result.get("_meta", {}).get("refdesk/notices", [])
    text = "\n".join(block["text"] for block in result["content"])
    assert all(one in text for one in said)
    return said


@pytest.mark.parametrize("files", [None, {}, THEIRS, {**OURS, "till.py": "def changed(): ...\n"}])
def test_searches_on_another_machine_change_nothing_and_call_nothing_stale(
    machine: Callable[[str], Machine], app: Path, address: str, files: Mapping[str, str] | None
) -> None:
    machine("a").run("index", str(app))
    assert held(address) == OURS
    with elsewhere(app, files):
        client = machine("b").serve("--allow-root", str(app.parent))
        for _ in range(2):
            for tool, arguments in TOOLS.items():
                within = {"path": str(app)} if tool.startswith(("search", "code")) else {}
                result = client.result(tool, **arguments, **within)
                assert notices(result).count(NOTE) == 1, (tool, result)
                text = json.dumps(result)
                assert "till" in text and "stale" not in text.lower(), (tool, result)
                assert result.get("_meta", {}).get("refdesk/refreshed", 0) == 0
        inside = client.json("search_code", query="silver key", path=f"{app}/docs", format="json")
        assert [one["path"] for one in inside["results"]] == ["docs/till.md"]
        nowhere = client.error("search_code", query="silver key", path=f"{app}/nowhere")
        assert nowhere.startswith(f"Path does not exist or is not a directory: {app}/nowhere.")
        read = client.raw.request("resources/read", {"uri": "refdesk://status"})["result"]["contents"][0]["text"]
        assert [(one["indexed_on"], one["up_to_date"]) for one in json.loads(read)] == [(HOST, None)]
    assert held(address) == OURS


def test_the_machine_that_indexed_it_keeps_it_fresh(machine: Callable[[str], Machine], app: Path, address: str) -> None:
    one = machine("a")
    one.run("index", str(app))
    (app / "till.py").write_text("def open_till():\n    return 'the golden key'\n")
    slow = one.serve("--allow-root", str(app), refresh_ms=0)
    assert any(one.startswith("stale: ") for one in notices(slow.result("rag_search", query="silver key")))
    client = one.serve("--allow-root", str(app))
    assert [hit["path"] for hit in client.json("search_code", query="golden", path=str(app), format="json")["results"]]
    assert "golden" in held(address)["till.py"]
    (app / "docs/till.md").unlink()
    again = one.serve("--allow-root", str(app))
    assert notices(again.result("search_code", query="golden", path=str(app))) == []
    assert list(held(address)) == ["till.py"]


def test_who_asks_for_it_takes_a_folder_over_and_the_first_machine_leaves_it_alone(
    machine: Callable[[str], Machine], app: Path, address: str
) -> None:
    one, two = machine("a"), machine("b")
    ours, theirs = one.serve("--allow-root", str(app)), two.serve("--allow-root", str(app))
    first = ours.result("index_codebase", path=str(app))
    assert notices(first) == [] and "notices" not in first["structuredContent"]
    assert notices(ours.result("search_code", query="silver key", path=str(app))) == []  # from here on it is watched
    large = "The coins of many countries are counted here.\n\n" * 30_000  # by a process of its own
    newer = {"till.py": OURS["till.py"], "large.md": large}
    with elsewhere(app, newer):
        taken = theirs.result("index_codebase", path=str(app))
        said = f"app was indexed on {HOST}; it now has this machine's files (1 removed, 1 written)"
        assert notices(taken) == [said] == taken["structuredContent"]["notices"]
        assert held(address) == newer
        assert notices(theirs.result("search_code", query="silver key", path=str(app))) == []
    (app / "till.py").write_text("def changed(): ...\n")
    result = ours.result("search_code", query="silver key", path=str(app))
    assert notices(result) == [NOTE] and "stale" not in json.dumps(result)
    assert held(address) == newer
    back = one.run("index", str(app))
    assert f"note: app was indexed on {HOST}; it now has this machine's files (1 removed, 2 written)" in back.stderr
    assert "taken_from" not in json.loads(one.run("index", str(app), "--json").stdout)


def test_checkouts_on_two_machines_take_turns(machine: Callable[[str], Machine], app: Path, address: str) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))
    for number in range(2):
        theirs = {**OURS, "new.py": f"def version_{number}(): ...\n"}
        with elsewhere(app, theirs):
            assert "1 written, 2 unchanged" in two.run("index", str(app)).stdout
            assert held(address) == theirs
        assert "0 written, 2 unchanged, 0 moved, 1 removed" in one.run("index", str(app)).stdout
        assert held(address) == OURS


@pytest.mark.parametrize("files", [{}, THEIRS])
def test_a_folder_with_none_of_the_files_takes_nothing(
    machine: Callable[[str], Machine], app: Path, address: str, files: Mapping[str, str]
) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))
    with elsewhere(app, files):
        client = two.serve("--allow-root", str(app))
        for more in ({}, {"force": True}):
            assert client.error("index_codebase", path=str(app), **more) == (
                f"{app} has none of the files of collection app, which was indexed on {HOST}: nothing was removed."
                f" Index the folder under another name (`refdesk index {app} --name NAME`), or remove the collection"
                " first (`refdesk remove app`)."
            )
        assert isinstance(two.run("index", str(app), code=2).exception, OnOtherMachine)
        assert held(address) == OURS
        two.run("index", str(app), "--name", "app-of-b")
        assert held(address, "app-of-b") == files
        result = client.result("search_code", query="coffee", path=str(app), format="json")
        assert [hit["path"] for hit in result["structuredContent"]["results"]] == list(files)
        assert NOTE not in notices(result)
        assert client.json("index_codebase", path=str(app))["collection"] == "app-of-b"
        assert held(address) == OURS
    found = one.serve("--allow-root", str(app)).json("search_code", query="silver key", path=str(app), format="json")
    assert {hit["path"] for hit in found["results"]} == set(OURS) and "notices" not in found


def test_a_folder_inside_is_indexed_by_itself_beside_another_machines(
    machine: Callable[[str], Machine], app: Path, address: str
) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))
    with elsewhere(app, {"docs/beans.py": THEIRS["other.py"]}):
        result = two.serve("--allow-root", str(app)).result("index_codebase", path=f"{app}/docs")
        assert notices(result) == [
            f"{app}/docs is part of {app}, indexed as app on {HOST}: here it is indexed by itself"
        ]
    assert (held(address), set(held(address, "docs"))) == (OURS, {"beans.py"})
    found = one.serve("--allow-root", str(app)).json("search_code", query="key", path=f"{app}/docs", format="json")
    assert [hit["path"] for hit in found["results"]] == ["docs/till.md"]  # not what the other has inside of it


def test_another_folder_at_the_path_is_not_the_one_that_was_indexed(
    machine: Callable[[str], Machine], app: Path, address: str
) -> None:
    one = machine("a")  # or a container that has its name and its data
    ours = {**OURS, "a.py": "def a(): ...\n", "b.py": "def b(): ...\n"}
    one.run("index", str(written(app, ours)))
    note = f"app: indexed on {HOST}, from another folder; not compared with this machine's files"
    for files in ({}, THEIRS, {**THEIRS, "till.py": "def another_till(): ...\n"}):
        with elsewhere(app, files):
            client = one.serve("--allow-root", str(app))
            result = client.result("search_code", query="silver key", path=str(app))
            assert notices(result) == [note] and "stale" not in json.dumps(result)
            if "till.py" not in files:
                assert "has none of the files" in client.error("index_codebase", path=str(app))
            assert held(address) == ours
    with elsewhere(app, {**ours, "new.py": "def count_coins(): ...\n"}):  # checked out anew
        client = one.serve("--allow-root", str(app))
        assert notices(client.result("search_code", query="count_coins", path=str(app))) == []
        assert "new.py" in held(address)


def test_who_has_the_files_adopts_what_no_machine_is_known_of(
    machine: Callable[[str], Machine], app: Path, address: str
) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))

    def forget() -> None:
        with one.desk() as desk:
            desk._note(desk.collection("app"), {}, (MACHINE,))

    forget()
    with elsewhere(app, OURS):  # the same texts, and not the same files
        result = two.serve("--allow-root", str(app)).result("search_code", query="silver key", path=str(app))
        assert notices(result) == [NOTE.replace(HOST, "an unknown machine")] and "stale" not in json.dumps(result)
    with elsewhere(app, {}):
        assert "was indexed on an unknown machine" in str(two.run("index", str(app), code=2).exception)
    assert MACHINE not in collection_of(address).properties and held(address) == OURS
    assert notices(one.serve("--allow-root", str(app)).result("search_code", query="key", path=str(app))) == []
    adopted = collection_of(address).properties[MACHINE]
    forget()
    one.run("index", str(app))
    assert collection_of(address).properties[MACHINE] == adopted


def test_commands_on_another_machine_compare_nothing(machine: Callable[[str], Machine], app: Path) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))
    assert json.loads(one.run("status", str(app), "--json").stdout)["up_to_date"] is True
    with elsewhere(app, THEIRS):
        found = json.loads(two.run("search", "silver key", "--json").stdout)
        assert found["notes"] == [NOTE] and not any(hit["stale"] for hit in found["hits"])
        shown = two.run("search", "silver key")
        assert shown.stderr.count(NOTE) == 1 and "stale" not in shown.output
        got = two.run("get", "till.py")
        assert f"note: {NOTE}" in got.stderr and "changed" not in got.output
        for path, counted in (
            (app, {"documents": 2}),
            (app / "docs", {"documents": 1}),
            (app / "till.py", {"chunks": 1}),
        ):
            status = json.loads(two.run("status", str(path), "--json").stdout)
            assert (
                status.items()
                >= {"path": str(path), "root": str(app), "indexed": True, "note": NOTE, **counted}.items()
            )
            assert "up_to_date" not in status
        assert json.loads(two.run("status", str(app / "other.py"), "--json").stdout)["indexed"] is False


def test_files_that_were_added_belong_to_a_machine_too(
    machine: Callable[[str], Machine], tmp_path: Path, address: str
) -> None:
    notes = written(tmp_path / "srv/notes", {"a.md": "# Keys\n\nThe silver key.\n"})
    one, two = machine("a"), machine("b")
    one.run("ingest", str(notes / "a.md"), "--collection", "notes")
    with elsewhere(notes, {"b.md": "# Keys\n\nThe golden key.\n"}):
        client = two.serve("--toolsets", "rag", "--allow-root", str(notes))
        said = notices(client.result("rag_search", query="silver key", collection="notes"))
        assert said == [NOTE.replace("app", "notes")]
        client.json("rag_ingest", uri=(notes / "b.md").as_uri(), collection="notes")
        said = notices(client.result("rag_search", query="silver key", collection="notes"))
        assert said == [f"notes: indexed on {SEVERAL}; not compared with this machine's files"]
    assert set(held(address, "notes")) == {"a.md", "b.md"}
    found = one.run("search", "golden key", "--collection", "notes")
    assert "stale" not in found.output


def test_a_run_that_broke_off_is_to_be_resumed_where_it_ran(
    machine: Callable[[str], Machine], app: Path, address: str
) -> None:
    written(app, {f"m{number}.py": f"def function_{number}(): ...\n" for number in range(30)})
    seen: list[str] = []
    with machine("a").desk() as desk, pytest.raises(Exception, match="cancelled"):
        desk.index(
            app, "code", progress=Progress(report=lambda *step: seen.append(step[2]), cancelled=lambda: len(seen) > 10)
        )
    before = held(address)
    with elsewhere(app, {}):
        said = notices(machine("b").serve("--allow-root", str(app)).result("search_code", query="key", path=str(app)))
    assert said[0].startswith("the indexing of app was interrupted") and said[0].endswith(f"again on {HOST}")
    assert NOTE in said and held(address) == before


def test_watching_ends_when_another_machine_takes_the_folder(
    machine: Callable[[str], Machine],
    app: Path,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = machine("a"), machine("b")
    newer = {**OURS, "new.py": "def count_coins(): ...\n"}
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 1:
            raise KeyboardInterrupt
        with elsewhere(app, newer):
            two.run("index", str(app))
        (app / "till.py").write_text("def changed(): ...\n")

    one.run("index", str(app))
    with one.desk() as desk:
        desk._parts = replace(desk._parts, watch=_refuse)
        monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=sleep))
        commands._watch(desk, app, "app", "code")
    assert f"Stopped watching. app was indexed on {HOST} meanwhile." in capsys.readouterr().err
    assert held(address) == newer


def _refuse(root: Path) -> Any:
    raise OSError("too many open files")


def test_a_refresh_that_another_machine_comes_before_changes_nothing(
    machine: Callable[[str], Machine], app: Path, address: str
) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))
    (app / "till.py").write_text("def changed(): ...\n")
    newer = {**OURS, "new.py": "def count_coins(): ...\n"}
    with one.desk() as desk:
        refresher, seen, real = Refresher(desk), desk.collection("app"), desk.index

        def late(*arguments: Any, **more: Any) -> Any:
            with elsewhere(app, newer):
                two.run("index", str(app))
            return real(*arguments, **more)

        desk.index = late  # type: ignore[method-assign]
        assert refresher.refresh(seen).note == f"app was indexed on {HOST} meanwhile."
    assert held(address) == newer


def test_the_console_compares_no_files_of_another_machine(machine: Callable[[str], Machine], app: Path) -> None:
    one, two = machine("a"), machine("b")
    one.run("index", str(app))
    with elsewhere(app, THEIRS), two.desk() as desk:
        site = TestClient(console_site(desk, b"key", list), base_url="http://127.0.0.1")
        said = escape(NOTE)
        for page in ("/library/app", "/read/app/till.py", "/?q=silver+key"):
            text = site.get(page).text
            assert said in text.replace("App: indexed", "app: indexed") and "changed" not in text, page
        assert "Index again" not in site.get("/library/app").text
        fresh = site.get("/library/app/fresh").text
        assert f"indexed on {HOST}" in fresh and "changed" not in fresh and "up to date" not in fresh


def test_a_machine_is_the_same_whatever_the_address_of_a_library(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: dict[str, set[str]] = {}
    for name in ("a", "b"):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / name))
        for one in (address, f"{address}&quantisation=none"):
            library = Library(load({"library": one}, {}, tmp_path).library)
            library.prepare()
            with ThreadPoolExecutor(4) as several:
                found = [several.submit(library.machine_token) for _ in range(4)]
            tokens.setdefault(name, set()).update(one.result() for one in found)
    assert len(tokens["a"]) == len(tokens["b"]) == 1 and tokens["a"] != tokens["b"]
    assert [one.name for one in (tmp_path / "a/refdesk/shared").glob("*machine*")] == ["machine"]


def test_a_library_in_a_folder_knows_no_machines(tmp_path: Path, app: Path) -> None:
    with open_desk(settings_of(tmp_path / "library")) as desk:
        desk.index(app, "code")
        assert MACHINE not in desk.collection("app").properties
        shutil.rmtree(app)
        assert desk.search(Query(text="silver key")).notes == ()
    assert not (tmp_path / "library/machine").exists()
