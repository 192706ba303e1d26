"""Indexing through the real server: cancelled, in worktrees, across branches, in nested repositories; and freshness."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from refdesk.settings import load
from tests.contracts.conftest import Client, Serve
from tests.mcp_client.stdio import PATIENCE_S

MODULES = 900  # more than a server indexes in its own process
BODY = "\n".join(f"    total = weigh(total, {number})" for number in range(40))


def write_modules(root: Path, mark: str, count: int = MODULES) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        text = f'def module_{number}(total):\n    """{mark} {number}."""\n{BODY}\n    return total\n'
        (root / f"module_{number}.py").write_text(text)


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def found(client: Client, root: Path, query: str, **more: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = client.json(
        "search_code", query=query, path=str(root), format="json", **{"limit": 5, **more}
    )["results"]
    return results


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "app"


@pytest.fixture
def client(tmp_path: Path, root: Path, serve: Serve) -> Client:
    root.mkdir()
    return serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(tmp_path))


# ── cancelling ──


def test_a_cancelled_index_leaves_the_old_one(client: Client, root: Path) -> None:
    write_modules(root, "first")
    assert client.json("index_codebase", path=str(root))["files"] == MODULES
    write_modules(root, "second")
    call = {"name": "index_codebase", "arguments": {"path": str(root), "force": True}}
    started = client.raw.start("tools/call", {**call, "_meta": {"progressToken": "p"}})
    client.raw.notification("notifications/progress")
    client.raw.notify("notifications/cancelled", {"requestId": started, "reason": "enough"})
    hits = found(client, root, "module_7", semantic_weight=0.0)
    assert hits[0]["symbols"] == ["module_7"]
    assert not any(each.get("id") == started and "result" in each for each in client.raw.inbox.messages)
    again = client.json("index_codebase", path=str(root))
    assert (again["files"], again["errors"]) == (MODULES, [])
    assert '"""second 7."""' in found(client, root, "module_7", semantic_weight=0.0)[0]["content"]


def test_a_cancelled_task_leaves_the_old_one(client: Client, root: Path) -> None:
    write_modules(root, "first")
    client.json("index_codebase", path=str(root))
    write_modules(root, "second")
    task = client.raw.call("index_codebase", {"path": str(root), "force": True}, task={"ttl": 60_000})["result"]["task"]
    time.sleep(0.05)
    answer = client.raw.request("tasks/cancel", {"taskId": task["taskId"]})
    assert answer["result"]["status"] == "cancelled", answer
    assert found(client, root, "module_11", semantic_weight=0.0)[0]["symbols"] == ["module_11"]
    assert client.raw.request("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "cancelled"
    assert client.json("index_codebase", path=str(root))["files"] == MODULES
    assert '"""second 3."""' in found(client, root, "module_3", semantic_weight=0.0)[0]["content"]


# ── a process of its own ──


def indexing_process(client: Client) -> int:
    """The process that indexes for the server, once it is there."""
    server = client.raw.process.pid
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for children in Path(f"/proc/{server}/task").glob("*/children"):
            for child in children.read_text().split():
                if b"index_for_parent" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        time.sleep(0.01)
    raise AssertionError("no process indexes for the server")


def start_indexing(client: Client, root: Path) -> int:
    call = {"name": "index_codebase", "arguments": {"path": str(root)}}
    return client.raw.start("tools/call", {**call, "_meta": {"progressToken": "p"}})


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_long_run_tells_its_progress_and_ends_with_the_server(
    client: Client, root: Path, tmp_path: Path, serve: Serve
) -> None:
    write_modules(root, "first")
    start_indexing(client, root)
    process = indexing_process(client)
    while client.raw.notification("notifications/progress")["params"].get("total") != MODULES:
        pass
    client.raw.process.kill()
    until = time.monotonic() + PATIENCE_S
    while is_running(process) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(process)
    after = serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(tmp_path))
    again = after.json("index_codebase", path=str(root))
    assert again["files"] == MODULES
    assert again["written"] > 0  # the run did not go on to its end
    assert found(after, root, "module_7", semantic_weight=0.0)[0]["symbols"] == ["module_7"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_whose_process_is_killed_is_an_error_and_can_be_repeated(client: Client, root: Path) -> None:
    write_modules(root, "first")
    started = start_indexing(client, root)
    os.kill(indexing_process(client), signal.SIGKILL)
    answer = client.raw.finish(started)["result"]
    assert answer["isError"]
    assert "ended (status -9)" in answer["content"][0]["text"]
    assert client.json("index_codebase", path=str(root))["files"] == MODULES


# ── repositories ──


def test_a_branch_switch_reads_only_what_differs(client: Client, root: Path) -> None:
    write_modules(root, "main", 12)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "switch", "-q", "-c", "other")
    (root / "module_0.py").write_text("def glockenspiel():\n    return 1\n")
    (root / "module_1.py").unlink()
    git(root, "commit", "-q", "-am", "two")
    git(root, "switch", "-q", "main")
    assert client.json("index_codebase", path=str(root))["written"] == 12
    git(root, "switch", "-q", "other")
    answer = client.json("index_codebase", path=str(root))
    assert (answer["written"], answer["removed"], answer["files"]) == (1, 1, 11)
    assert found(client, root, "glockenspiel")[0]["path"] == "module_0.py"
    git(root, "switch", "-q", "main")
    assert found(client, root, "module_1", semantic_weight=0.0)[0]["path"] == "module_1.py"
    assert "glockenspiel" not in [name for hit in found(client, root, "glockenspiel") for name in hit["symbols"]]


def test_a_worktree_is_its_own_codebase_with_shared_texts(client: Client, root: Path, tmp_path: Path) -> None:
    write_modules(root, "main", 12)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    first = client.json("index_codebase", path=str(root))
    twin = tmp_path / "twin"
    git(root, "worktree", "add", "-q", "-b", "twin", str(twin))
    (twin / "module_0.py").write_text("def glockenspiel():\n    return 1\n")
    second = client.json("index_codebase", path=str(twin))
    assert second["collection"] != first["collection"]
    assert second["files"] == 12
    assert found(client, twin, "glockenspiel")[0]["path"] == "module_0.py"
    assert found(client, root, "module_0", semantic_weight=0.0)[0]["symbols"] == ["module_0"]


def test_a_folder_of_an_indexed_codebase_is_indexed_with_it(client: Client, root: Path) -> None:
    write_modules(root / "packages" / "alpha", "alpha", 3)
    write_modules(root / "ignored", "ignored", 2)
    (root / ".gitignore").write_text("ignored/\n")
    git(root, "init", "-q")
    first = client.json("index_codebase", path=str(root))
    (root / "packages" / "alpha" / "new.py").write_text("def glockenspiel():\n    return 1\n")
    result = client.result("index_codebase", path=str(root / "packages" / "alpha"))
    again = result["structuredContent"]
    assert (again["collection"], again["path"], again["written"]) == (first["collection"], str(root), 1)
    assert f"part of {root}, indexed as {first['collection']}" in again["notices"][0]
    assert f"note: {again['notices'][0]}" in result["content"][-1]["text"]
    alone = client.json("index_codebase", path=str(root / "ignored"))  # the whole does not have it
    assert (alone["path"], alone["files"]) == (str(root / "ignored"), 2)


def test_a_path_may_be_a_collections_name_and_an_unknown_one_is_told_what_there_is(client: Client, root: Path) -> None:
    write_modules(root, "alpha", 3)
    name = client.json("index_codebase", path=str(root))["collection"]
    assert client.json("search_code", query="module_1", path=name, format="json")["path"] == str(root)
    assert client.json("search_code", query="nothing like it zzz", path=name, format="json")["total"] == 0
    (root.parent / "elsewhere").mkdir()
    for path in (str(root.parent / "elsewhere"), "/no/such", "."):
        told = client.error("search_code", query="module_1", path=path)
        assert f"{name} ({root})" in told, path


@pytest.mark.folder
def test_a_library_that_can_not_be_written_to_is_not_called_busy(client: Client, root: Path, tmp_path: Path) -> None:
    write_modules(root, "alpha", 3)
    client.json("index_codebase", path=str(root))
    lock = tmp_path / "library" / "writer.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()  # as a read-only folder refuses it, which root would not notice
    (root / "module_1.py").write_text("def glockenspiel():\n    return 1\n")
    text = client.text("search_code", query="module_2", path=str(root))
    assert "another process" not in text
    assert "can't be written to" in text


def test_nested_repositories_and_packages_are_searched_with_the_whole_and_alone(client: Client, root: Path) -> None:
    write_modules(root / "packages" / "alpha", "alpha", 3)
    write_modules(root / "packages" / "beta", "beta", 3)
    vendored = root / "vendored"
    vendored.mkdir()
    (vendored / "inner.py").write_text("def glockenspiel():\n    return 1\n")
    (vendored / ".gitignore").write_text("hidden.py\n")
    (vendored / "hidden.py").write_text("def xylophone():\n    return 1\n")
    git(root, "init", "-q")
    git(vendored, "init", "-q")
    client.json("index_codebase", path=str(root))
    assert found(client, root, "glockenspiel")[0]["path"] == "vendored/inner.py"
    assert "xylophone" not in [name for hit in found(client, root, "xylophone") for name in hit["symbols"]]
    alone = found(client, root / "packages" / "beta", "module_1")
    assert {hit["path"].rpartition("/")[0] for hit in alone} == {"packages/beta"}
    client.json("index_codebase", path=str(vendored))
    assert found(client, vendored, "glockenspiel")[0]["path"] == "inner.py"


# ── freshness ──


def test_a_deleted_file_and_one_replaced_by_a_folder_are_gone(client: Client, root: Path) -> None:
    write_modules(root, "first", 4)
    client.json("index_codebase", path=str(root))
    (root / "module_0.py").unlink()
    (root / "module_1.py").unlink()
    (root / "module_1.py").mkdir()
    (root / "module_1.py" / "inner.py").write_text("def glockenspiel():\n    return 1\n")
    paths = {hit["path"] for hit in found(client, root, "module", limit=20)}
    assert paths <= {"module_1.py/inner.py", "module_2.py", "module_3.py"}
    assert found(client, root, "glockenspiel")[0]["path"] == "module_1.py/inner.py"


def test_a_file_that_was_empty_is_found_once_it_is_filled(client: Client, root: Path) -> None:
    write_modules(root, "first", 2)
    (root / "new.py").touch()
    (root / "odd.txt").write_bytes(b"a\0b")
    client.json("index_codebase", path=str(root))
    (root / ".gitignore").write_text("*.log\n")
    meta = asked_with_meta(client, root, "module")[1]
    assert (meta["refdesk/refreshed"], meta.get("refdesk/pending")) == (0, None)
    (root / "new.py").write_text("def glockenspiel():\n    return 1\n")
    assert found(client, root, "glockenspiel")[0]["path"] == "new.py"


def asked_with_meta(client: Client, root: Path, query: str) -> tuple[dict[str, bool], dict[str, Any]]:
    """Which hits are stale, by path, and what the answer says of its freshness."""
    arguments = {"query": query, "path": str(root), "format": "json", "limit": 100, "semantic_weight": 0.0}
    result = client.raw.call("search_code", arguments)["result"]
    hits = result["structuredContent"]["results"]
    return {hit["path"]: hit.get("stale", False) for hit in hits}, result["_meta"]


def test_by_default_300_ms_go_into_a_large_change_and_the_next_searches_catch_up(
    client: Client, root: Path, tmp_path: Path
) -> None:
    assert load({}, {}, tmp_path).refresh_ms == 300
    write_modules(root, "first", 200)
    client.json("index_codebase", path=str(root))
    for path in root.iterdir():
        path.write_text("# moved\n" + path.read_text())
    marked, meta = asked_with_meta(client, root, "module")
    assert 0 < meta["refdesk/refreshed"] < 200
    assert f"{200 - meta['refdesk/refreshed']} changed files wait" in meta["refdesk/notices"][0]
    assert any(marked.values())
    refreshed = meta["refdesk/refreshed"]
    while "refdesk/pending" in meta:
        marked, meta = asked_with_meta(client, root, "module")
        assert meta["refdesk/refreshed"] > 0
        refreshed += meta["refdesk/refreshed"]
    assert refreshed == 200
    assert not any(marked.values())
    assert all(hit["content"].startswith("# moved") for hit in found(client, root, "module", limit=100))


def test_a_file_too_large_for_the_default_waits_and_a_small_one_beside_it_does_not(client: Client, root: Path) -> None:
    write_modules(root, "first", 2)
    large = "\n".join(f"def glockenspiel_{number}():\n    return {number}\n" for number in range(10_000))
    (root / "large.py").write_text(large)
    client.json("index_codebase", path=str(root))
    (root / "large.py").write_text("# moved\n" + large)
    (root / "module_0.py").write_text("def glockenspiel():\n    return 1\n")
    marked, meta = asked_with_meta(client, root, "glockenspiel")
    assert meta["refdesk/refreshed"] == 1
    assert meta["refdesk/pending"] == ["large.py"]
    assert marked == {"module_0.py": False, "large.py": True}
    client.json("index_codebase", path=str(root))
    assert asked_with_meta(client, root, "glockenspiel")[0] == {"module_0.py": False, "large.py": False}


def test_what_can_not_be_refreshed_in_time_is_marked(
    tmp_path: Path, root: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFDESK_REFRESH_MS", "50")
    client = serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(tmp_path))
    write_modules(root, "first", 40)
    client.json("index_codebase", path=str(root))
    for number in range(30):
        path = root / f"module_{number}.py"
        path.write_text("# moved\n" + path.read_text())
    (root / "module_30.py").unlink()
    shutil.rmtree(root / "module_31.py", ignore_errors=True)
    arguments = {"query": "module", "path": str(root), "format": "json", "limit": 40, "semantic_weight": 0.0}
    result = client.raw.call("search_code", arguments)["result"]
    marked = {hit["path"]: hit.get("stale", False) for hit in result["structuredContent"]["results"]}
    assert result["_meta"].get("refdesk/notices")
    for path, is_stale in marked.items():
        number = int(path.removesuffix(".py").rpartition("_")[2])
        assert is_stale == (number <= 30), path


def test_a_branch_with_thousands_of_changes_is_seen_by_the_next_searches(client: Client, root: Path) -> None:
    write_modules(root, "first", 1_500)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "checkout", "-qb", "other")
    write_modules(root, "second", 1_500)
    git(root, "commit", "-qam", "second")
    git(root, "checkout", "-q", "main")
    client.json("index_codebase", path=str(root))
    assert asked_with_meta(client, root, "module_7")[1]["refdesk/freshness"] == "watched"
    git(root, "checkout", "-q", "other")
    marked, meta = asked_with_meta(client, root, "module_7")
    while "refdesk/pending" in meta or any(marked.values()):
        marked, meta = asked_with_meta(client, root, "module_7")
    assert '"""second 7."""' in found(client, root, "module_7", semantic_weight=0.0)[0]["content"]
    git(root, "checkout", "-q", "main")
    client.json("index_codebase", path=str(root))
    assert '"""first 7."""' in found(client, root, "module_7", semantic_weight=0.0)[0]["content"]
