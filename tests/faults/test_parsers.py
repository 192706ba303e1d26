"""Files that crash or stall a parser cost nothing but themselves."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.faults_parsers import sweep
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import Refresher
from refdesk.errors import Cancelled, ParseFailed
from refdesk.ingest.prepare import Prepared
from refdesk.model import Chunking, Content, Query, Skipped
from refdesk.parse import AnyParser, pool
from refdesk.parse import pool as crew
from refdesk.parse.pool import Crew, Pool
from tests.conftest import Tree
from tests.mcp_client.stdio import StdioClient

ENDLESS = b"s#a"  # Perl's scanner never comes to an end of it
CRASHING = b'<<AA\n"#{' * 200  # Ruby's scanner reads past its stack
HUNGRY = b"A<" * 10_000  # more than a gigabyte for the grammar of C#
GOOD = b"def frobnicate(widget):\n    return widget + 1\n"
PROSE = b"# Zebra\n\nThe quokka jumps over the fence.\n"


def parsed(*files: tuple[str, bytes]) -> dict[str, Prepared | Skipped]:
    contents = [Content(uri=name, path=name, data=data) for name, data in files]
    answers = Pool(AnyParser()).parse_all(contents, Chunking(), lambda keys: set())
    return {content.path: found for content, found in answers}


def test_a_file_that_crashes_stalls_or_fills_the_memory_is_the_only_one_skipped() -> None:
    found = parsed(
        ("a.py", GOOD), ("a.rb", CRASHING), ("a.pl", ENDLESS), ("b.py", GOOD), ("a.cs", HUNGRY), ("a.md", PROSE)
    )
    reasons = {path: one.reason for path, one in found.items() if isinstance(one, Skipped)}
    assert reasons.keys() == {"a.rb", "a.pl", "a.cs"}
    assert "crashed" in reasons["a.rb"]
    assert reasons["a.pl"] == "reading it took longer than 3 s"
    assert "memory" in reasons["a.cs"]


def test_a_worker_that_is_killed_from_outside_is_replaced() -> None:
    assert isinstance(parsed(("a.py", GOOD))["a.py"], Prepared)
    for pid in children(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    assert isinstance(parsed(("a.py", GOOD))["a.py"], Prepared)


def test_a_worker_that_stands_still_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Crew()
    monkeypatch.setattr(pool, "CREW", own)
    monkeypatch.setattr(crew, "_SLACK", 0.0)
    others = children(os.getpid())
    assert isinstance(parsed(("a.py", GOOD))["a.py"], Prepared)
    monkeypatch.setattr(crew, "_SLACK_S", 0.5)
    for pid in set(children(os.getpid())).difference(others):
        os.kill(pid, signal.SIGSTOP)
    found = parsed(("a.py", GOOD))["a.py"]
    assert isinstance(found, Skipped)
    assert "took longer" in found.reason
    own.end()


def test_a_run_whose_workers_are_ended_is_cancelled_and_blames_no_file() -> None:
    own = Crew()
    contents = [Content(uri="a", path="a.pl", data=ENDLESS)]
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(
            lambda: list(Pool(AnyParser(), workers=1, crew=own).parse_all(contents, Chunking(), lambda keys: set()))
        )
        until = time.monotonic() + 30
        while not any(worker.deadline < math.inf for worker in own._all) and time.monotonic() < until:
            time.sleep(0.05)
        own.end()
        with pytest.raises(Cancelled):
            run.result()
    assert list(Pool(AnyParser(), workers=1, crew=own).parse_all([], Chunking(), lambda keys: set())) == []
    own.end()


def test_an_idle_worker_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Crew()
    monkeypatch.setattr(crew, "_IDLE_S", 0.0)
    monkeypatch.setattr(crew, "_IDLE_TICK_S", 0.05)
    with own.one(1) as worker:
        pass
    until = time.monotonic() + 30
    while worker.is_alive and time.monotonic() < until:
        time.sleep(0.05)
    assert not worker.is_alive


def test_the_workers_of_a_long_run_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_LARGE_BYTES", 2_000_000)
    others, own = children(os.getpid()), Crew()
    contents = [Content(uri="a", path="a.py", data=GOOD)]
    for size, stay in ((1_600_000, True), (3_000_000, False)):
        list(Pool(AnyParser(), workers=2, crew=own).parse_all(contents, Chunking(), lambda keys: set(), size))
        assert bool(set(children(os.getpid())).difference(others)) == stay


def test_a_worker_goes_to_whoever_waited_longest() -> None:
    own, turns = Crew(), list[int]()

    def ask(number: int) -> None:
        with own.one(1):
            turns.append(number)

    with own.one(1):
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert turns == [0, 1, 2, 3]
    own.end()


def test_no_file_is_blamed_for_a_worker_with_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    here = types.ModuleType("only_here")
    exec("class Reader: pass", here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", here)
    contents = [Content(uri="a", path="a.py", data=GOOD)]
    with pytest.raises(ParseFailed, match="other code"):
        list(Pool(here.Reader()).parse_all(contents, Chunking(), lambda keys: set()))


def test_damaged_sources_end_no_more_than_their_worker() -> None:
    swept = list(sweep(["ruby", "python", "csharp", ".html", ".md", ".yaml", ".docx", "."], each=25))
    assert sum(row.files for row in swept) == 200
    assert all(row.survived for row in swept)
    assert not [row.name for row in swept if row.name.startswith(".") and (row.crashed or row.stalled)]


def test_a_skip_is_remembered_until_the_file_or_its_reader_changes(desk: Desk, tree: Tree) -> None:
    root = tree({"a.py": GOOD.decode(), "a.pl": ENDLESS.decode()})
    assert [one.path for one in desk.index(root, "code", name="app").errors] == ["a.pl"]
    os.utime(root / "a.pl", (1, 1))
    again = desk.index(root, "code", name="app")
    assert not again.errors  # its content is known to be the same: nobody read it
    assert [one.reason for one in again.skipped] == ["reading it took longer than 3 s"]
    assert [one.path for one in desk.index(root, "code", name="app", force=True).errors] == ["a.pl"]
    (root / "a.pl").write_text("sub harmless { return 1 }\n")
    assert desk.index(root, "code", name="app").written == 1
    assert desk.skipped("app") == []


def test_a_refresh_takes_one_such_file_at_a_time_and_remembers_it(desk: Desk, tree: Tree) -> None:
    root = tree({"a.py": GOOD.decode()})
    desk.index(root, "code", name="app")
    tree({"a.pl": ENDLESS.decode(), "b.pl": "m#", "b.py": GOOD.decode().replace("frobnicate", "defenestrate")})
    waiting: list[set[str]] = []
    refresher = Refresher(desk)
    for _ in range(100):  # one for each of the two, and more where the machine is too busy to be done within an answer
        refresher.refresh(desk.collection("app"))
        waiting.append(set(desk.freshness(desk.collection("app"))[1]))
        if not waiting[-1]:
            break
    assert [len(one) for one in waiting] == sorted(map(len, waiting), reverse=True)
    assert waiting[-1] == set()
    assert {one.path for one in desk.skipped("app")} == {"a.pl", "b.pl"}
    assert desk.search(Query(text="defenestrate")).hits


def test_the_server_survives_them_and_answers_others_meanwhile(tmp_path: Path) -> None:
    root = tmp_path / "app"
    root.mkdir()
    for name, data in (("a.py", GOOD), ("z.md", PROSE), ("a.rb", CRASHING), ("a.pl", ENDLESS)):
        (root / name).write_bytes(data)
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "serve", "--allow-root"]
    with StdioClient([*command, str(tmp_path)]) as client:
        client.initialize()
        indexing = client.start("tools/call", {"name": "index_codebase", "arguments": {"path": str(root)}})
        assert "result" in client.request("ping")
        assert "result" in client.call("rag_list_collections")
        assert client.inbox.messages == []  # it is still at it
        report = client.finish(indexing)["result"]["structuredContent"]
        assert report["files"] == 2
        assert {error["path"] for error in report["errors"]} == {"a.rb", "a.pl"}
        (root / "b.pl").write_bytes(b"m#")
        for query in ("frobnicate", "quokka"):
            asked = {"query": query, "path": str(root), "format": "json"}
            answer = client.call("search_code", asked)["result"]["structuredContent"]
            assert answer["results"], query
        assert client.end() == 0


def test_no_worker_outlives_a_killed_server(tmp_path: Path) -> None:
    (tmp_path / "a.pl").write_bytes(ENDLESS)
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "index", str(tmp_path)]
    with StdioClient([*command, "--kind", "code"]) as client:
        until = time.monotonic() + 30
        while not (workers := children(client.process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        client.process.kill()
    assert workers
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def children(pid: int) -> list[int]:
    """The parsing processes that a process started."""
    if not Path("/proc").exists():
        pytest.skip("needs /proc")
    every = [one for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    return [int(one) for one in every if b"refdesk.parse" in Path(f"/proc/{one}/cmdline").read_bytes()]
