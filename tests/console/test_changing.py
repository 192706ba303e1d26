"""Changing the library through pages: runs that are watched and stopped, playbooks, evaluations, the journal."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from refdesk.app import open_desk
from refdesk.settings import Settings
from tests.conftest import Tree
from tests.console.conftest import Client, Open, Serve, Watched, get
from tests.e2e.docsite.server import Reply, Site, page
from tests.mcp_client.http import HttpClient


def _links(count: int) -> Reply:
    links = "".join(f'<a href="/page{number}.html">page {number}</a> ' for number in range(count))
    return page("Start", f"<h1>Start</h1><p>All the pages of quokkas.</p>{links}")


def _quokka(number: int, wait: Callable[[], object]) -> Reply:
    wait()
    return page(f"Page {number}", f"<h1>Page {number}</h1><p>The quokka of page {number} eats leaves.</p>")


@pytest.fixture
def site() -> Iterator[Site]:
    """A site of forty pages, each slow enough to be watched."""
    with Site() as served:
        served.routes["/"] = _links(40)
        for number in range(40):
            served.routes[f"/page{number}.html"] = partial(_quokka, number, partial(time.sleep, 0.15))
        yield served


@pytest.fixture
def stuck() -> Iterator[Site]:
    """A site that answers some pages, and then none until the test is over."""
    over = threading.Event()
    with Site() as served:
        served.routes["/"] = _links(40)
        for number in range(40):
            wait = partial(over.wait, 120 if number > 5 else 0)
            served.routes[f"/page{number}.html"] = partial(_quokka, number, wait)
        yield served
        over.set()


def _crawl(at: Watched, site: Site, name: str) -> None:
    at.go("/library")
    form = at.page.locator("form[action='/library/crawl']")
    form.locator("[name=url]").fill(site.root)
    form.locator("[name=name]").fill(name)
    form.get_by_role("button", name="Crawl").click()
    at.page.wait_for_url("**/runs/*")


def test_a_crawl_is_watched_and_its_pages_are_found(library: Path, serve: Serve, browse: Open, site: Site) -> None:
    at = browse(serve(library).root)
    _crawl(at, site, "quokkas")
    at.page.wait_for_selector("#run progress[max]")
    seen = set()
    for _ in range(200):
        if at.page.locator("#run .tag.good, #run .tag.bad").count():
            break
        seen.add(at.page.locator("#run").inner_text())
        at.page.wait_for_timeout(200)
    at.page.wait_for_selector("#run .tag.good")
    assert len(seen) > 2  # it moved while one looked
    assert "41" in at.page.locator("#run .stats").inner_text()
    at.go("/?q=what+does+the+quokka+eat&collection=quokkas")
    at.page.locator(".hit-card h3 a").first.click()
    at.page.wait_for_selector(".prose, .code")
    assert "quokka" in at.page.locator(".doc").inner_text()
    assert at.strangers == []


def test_a_crawl_is_stopped_and_keeps_what_it_had(library: Path, serve: Serve, browse: Open, stuck: Site) -> None:
    at = browse(serve(library).root)
    _crawl(at, stuck, "quokkas")
    at.page.wait_for_selector("#run progress[max]")
    assert at.page.locator(".run-pill").count() == 1
    at.page.get_by_role("button", name="Stop").click()
    at.page.wait_for_selector("#run .tag:text('stopped')")
    asked = sum(stuck.asked.values())
    assert asked < 41
    at.go("/library")
    assert "has not finished" in at.page.locator("main").inner_text()
    at.page.wait_for_timeout(600)
    assert sum(stuck.asked.values()) == asked


def test_a_folder_is_indexed_and_removed_with_a_question(
    library: Path, serve: Serve, browse: Open, tree: Tree, tmp_path: Path
) -> None:
    root = tree({"a.py": "def wombat():\n    return 1\n", "b.bin": "\0", "notes.md": "# Wombats\n\nThey dig.\n"})
    at = browse(serve(library).root)
    at.go("/library")
    form = at.page.locator("form[action='/library/index']")
    form.locator("[name=path]").fill(str(root))
    form.locator("[name=name]").fill("wombats")
    form.get_by_role("button", name="Index").click()
    at.page.wait_for_selector("#run .tag.good")
    at.page.get_by_role("link", name="Open wombats").click()
    at.page.wait_for_selector("h1:text('wombats')")
    assert "a.py" in at.page.locator("main").inner_text() and "not text" in at.page.locator("main").inner_text()
    at.page.wait_for_selector("text=up to date")
    (root / "a.py").write_text("def wombat():\n    return 2\n")
    at.page.reload()
    at.page.wait_for_selector("text=1 file changed since")
    at.page.get_by_role("link", name="Remove…").click()
    at.page.locator("[name=name]").fill("wombats")
    at.page.get_by_role("button", name="Remove it").click()
    at.page.wait_for_url("**/library")
    assert at.page.get_by_role("link", name="wombats").count() == 0
    assert (root / "a.py").exists()


def test_a_dropped_file_is_added(library: Path, serve: Serve, browse: Open) -> None:
    at = browse(serve(library).root)
    at.go("/library")
    at.page.evaluate(
        """() => {
            const zone = document.querySelector("[data-drop]");
            const dropped = new DataTransfer();
            dropped.items.add(new File(["# Numbat\\n\\nIt eats termites.\\n"], "numbat.md", { type: "text/markdown" }));
            zone.dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
        }"""
    )
    at.page.wait_for_url("**/runs/*")
    at.page.wait_for_selector("#run .tag.good")
    at.go("/read/files/numbat.md")
    assert "termites" in at.page.locator(".prose").inner_text()


def test_nothing_outside_the_roots_is_read(library: Path, serve: Serve, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("swordfish")
    here = tmp_path / "here"
    here.mkdir()
    (here / "link").symlink_to(outside)
    root = serve(library, here=here).root
    with Client(base_url=root, follow_redirects=True) as client:
        token = _token(client.get("/library").text)
        for path in (str(outside), "/etc", "..", str(here / "link"), "~"):
            answer = client.post("/library/index", data={"token": token, "path": path, "kind": "files"})
            assert answer.status_code in (400, 403), path
        answer = client.post(
            "/library/ingest", data={"token": token, "uri": (outside / "secret.txt").as_uri(), "collection": "files"}
        )
        assert "outside the allowed roots" in _ended(client, str(answer.url))
        local = client.post("/library/ingest", data={"token": token, "uri": "http://10.0.0.1/", "collection": "files"})
        assert "10.0.0.1" in _ended(client, str(local.url))


def _token(page: str) -> str:
    found = re.search(r'name="token" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


def _ended(client: httpx.Client, url: str) -> str:
    for _ in range(300):
        text = client.get(url, headers={"x-part": "1"}).text
        if "data-over" in text:
            return text
        time.sleep(0.1)
    raise AssertionError("the run did not end")


def test_a_playbook_is_edited_rated_rolled_back_and_exported(library: Path, serve: Serve, browse: Open) -> None:
    at = browse(serve(library).root)
    at.go("/playbooks")
    at.page.get_by_role("link", name="Reset a locked account").click()
    at.page.wait_for_selector(".prose")
    stats = at.page.locator(".stats")
    assert "0.60" in stats.inner_text()
    at.page.get_by_role("button", name="Reject").click()
    at.page.wait_for_selector(".stats:has-text('0.50')")
    at.page.get_by_role("button", name="Confirm").click()
    at.page.wait_for_selector(".stats:has-text('0.60')")

    at.page.get_by_role("link", name="Edit").click()
    box = at.page.locator("[name=text]")
    box.fill(box.input_value().replace("The state is active.", "The state is active again."))
    at.page.get_by_role("button", name="Keep as version 3").click()
    at.page.wait_for_selector("h2:text('Version 3')")
    newest = at.page.locator(".version").first
    assert "step 2" in newest.inner_text()
    assert "active again." in newest.locator(".diff .gi").inner_text()

    at.page.locator(".version", has_text="Version 1").get_by_role("button", name="Go back to this").click()
    at.page.wait_for_selector("h2:text('Version 4')")
    at.page.get_by_role("link", name="Read").click()
    at.page.wait_for_selector(".prose")
    assert "Press Unlock in the admin panel." in at.page.locator(".prose").inner_text()
    with at.page.expect_download() as coming:
        at.page.get_by_role("link", name="Export").click()
    assert "Press Unlock in the admin panel." in Path(coming.value.path()).read_text(encoding="utf-8")
    assert at.errors == []


def test_an_edit_that_is_no_playbook_or_too_late_is_refused(library: Path, serve: Serve) -> None:
    with Client(base_url=serve(library).root, follow_redirects=True) as client:
        found = re.search(r"/playbooks/[0-9a-f-]{36}", client.get("/playbooks").text)
        assert found is not None
        page = client.get(found[0], params={"as": "edit"}).text
        values = {"token": _token(page), "version": "2", "problem": "p", "keywords": "a, b", "text": "# only a title"}
        answer = client.post(f"{found[0]}/edit", data=values)
        assert answer.status_code == 400 and "Steps" in answer.text
        answer = client.post(f"{found[0]}/edit", data={**values, "version": "1"})
        assert "somebody else changed it" in answer.text
        assert "Version</dt><dd>2" in client.get(found[0]).text


def test_what_agents_asked_becomes_a_case_that_is_scored_over_time(library: Path, serve: Serve, browse: Open) -> None:
    server = serve(library)
    with HttpClient(server.url) as agent:
        agent.initialize()
        agent.call("rag_search", {"query": "how are vectors stored"})
        agent.call("rag_search", {"query": "zzqqxx vvkkww"})
        agent.call("search_code", {"query": "class LocalStore", "path": "refdesk"})
        agent.call("create_skill", {"conversation": "Customer: my card 4111 1111 1111 1111 is refused. Agent: ok."})
    at = browse(server.root)
    at.go("/agents")
    deadline = time.monotonic() + 60
    while "create_skill" not in at.page.content() and time.monotonic() < deadline:  # it is noted after its answer
        at.go("/agents")
    unanswered = at.page.locator("[aria-label='Questions without hits']")
    assert unanswered.locator("tr").count() == 1 and "zzqqxx" in unanswered.inner_text()
    assert "4111" not in at.page.content()
    rows = at.page.locator("[aria-label=Calls] tbody tr", has_text="how are vectors stored")
    assert int(rows.locator("td").nth(1).inner_text()) > 0
    assert int(rows.locator("td").nth(2).inner_text().replace("\u202f", "")) > 100  # tokens

    rows.get_by_role("link", name="Make a case").click()
    at.page.locator("[name=expect][type=checkbox]").first.check()
    at.page.locator("[name=suite]").fill("asked")
    at.page.get_by_role("button", name="Add to the suite").click()
    at.page.wait_for_url("**/agents/suites/asked")
    for count in (1, 2):
        at.page.get_by_role("button", name="Run").click()
        at.page.wait_for_selector("#run .tag.good")
        at.go("/agents/suites/asked")
        assert at.page.locator("svg.plot[role=img] circle.s0").count() == count
    assert "1.000" in at.page.locator(".scores").inner_text()
    assert at.errors == [] and at.strangers == []


def test_the_suite_is_one_that_the_command_line_reads(library: Path, serve: Serve, tmp_path: Path) -> None:
    import subprocess
    import sys

    from tests.mcp_client.stdio import environment

    with Client(base_url=serve(library).root, follow_redirects=True) as client:
        token = _token(client.get("/agents/case").text)
        case = {"token": token, "query": "how are vectors stored", "expect": "store/vectors/index.py", "suite": "own"}
        assert client.post("/agents/case", data=case).status_code == 200
    suite = tmp_path / "library" / "evaluations" / "own.yaml"
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "eval", str(suite), "--json"]
    told = subprocess.run(command, capture_output=True, env=environment(), check=True).stdout
    assert len(json.loads(told)[0]["outcomes"]) == 1


def test_the_journal_is_bounded_and_can_be_off(
    library: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refdesk.console.journal import Journal
    from refdesk.library import Library
    from refdesk.toolsets.content import ToolAnswer

    (tmp_path / "small").mkdir()
    journal = Journal(Library(tmp_path / "small"), 20)
    nothing = ToolAnswer.of_json({"results": []})
    for number in range(100):
        journal.note("rag_search", {"query": f"number {number}", "metadata": {"a": 1}}, nothing, 0.1)
    kept = journal.calls()
    assert [one.query for one in kept] == [f"number {number}" for number in range(99, 79, -1)]
    assert (tmp_path / "small" / "journal.jsonl").read_text().count("\n") <= 25
    assert (tmp_path / "small" / "journal.jsonl").stat().st_mode & 0o077 == 0

    monkeypatch.setenv("REFDESK_JOURNAL", "0")
    server = serve(library)
    with HttpClient(server.url) as agent:
        agent.initialize()
        agent.call("rag_search", {"query": "how are vectors stored"})
    assert "The journal is off" in get(f"{server.root}/agents").text
    assert not (tmp_path / "library" / "journal.jsonl").exists()


def test_calls_wait_for_no_file_and_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    from refdesk.console import journal as module
    from refdesk.library import Library
    from refdesk.toolsets.content import ToolAnswer

    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    file = tmp_path / "journal.jsonl"
    journal = module.Journal(Library(tmp_path), 20)
    nothing = ToolAnswer.of_json({"results": []})
    with FileLock(f"{file}.lock"):  # as another process that is writing
        for number in range(3):
            journal.note("rag_search", {"query": f"number {number}"}, nothing, 0.1)
        journal.flush()
        assert not file.exists()
    journal.note("rag_search", {"query": "number 3"}, nothing, 0.1)
    for _ in range(300):  # nobody asks for them: they are written all the same, none lost, in order
        if file.exists() and file.read_text().count("\n") == 4:
            break
        time.sleep(0.1)
    assert [json.loads(line)["query"] for line in file.read_text().splitlines()] == [f"number {n}" for n in range(4)]


def test_a_run_of_a_process_that_is_gone_is_interrupted(tmp_path: Path) -> None:
    from refdesk.console.runs import Runs

    runs = Runs(tmp_path / "runs")
    run = runs.start("index", "x", lambda progress: {"counts": {"files": 1}})
    for _ in range(100):
        if runs.run(run.id).over:
            break
        time.sleep(0.02)
    assert runs.run(run.id).state == "done" and runs.run(run.id).counts == {"files": 1}
    file = tmp_path / "runs" / f"{run.id}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "state": "running", "pid": 2**22 + 1}))
    assert runs.run(run.id).state == "interrupted"


def test_every_process_shows_and_stops_the_runs_of_the_others(library: Path, serve: Serve, stuck: Site) -> None:
    root = serve(library, "--workers", "3").root
    with Client(base_url=root, follow_redirects=True) as client:
        token = _token(client.get("/library").text)
        started = client.post("/library/crawl", data={"token": token, "url": stuck.root, "name": "q"})
        url = str(started.url)
    for _ in range(6):  # a connection each, which go to the workers in turn
        with Client(base_url=root, cookies=client.cookies) as other:
            assert "running" in other.get(url).text
    with Client(base_url=root, cookies=client.cookies, follow_redirects=True) as other:
        assert other.post(f"{url}/stop", data={"token": token}).status_code == 200
        assert "stopped" in _ended(other, url)


def test_the_desk_tells_what_each_collection_holds(tree: Tree, tmp_path: Path) -> None:
    root = tree({"a.py": "x = 1\n", "b.py": "y = 2\n", "c.md": "# C\n\nText.\n"})
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(root, "files", name="one")
        desk.create_collection("empty")
        held = desk.contents()
        assert held.keys() == {"one"}
        assert held["one"].documents == 3 and held["one"].types == {"python": 2, "markdown": 1}
        assert held["one"].chunks == desk.stats("one").chunks
        assert held["one"].size == sum(file.stat().st_size for file in root.iterdir())


def test_the_command_serves_the_console_on_a_free_port(library: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    from tests.mcp_client.stdio import environment

    shutil.copytree(library, tmp_path / "library")
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "console", "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(), text=True
    ) as run:
        assert run.stdout is not None
        said = re.search(r"http://127\.0\.0\.1:\d+/", run.stdout.readline())
        assert said is not None
        try:
            for _ in range(100):
                try:
                    page = get(said[0] + "library").text
                    break
                except httpx.ConnectError:
                    time.sleep(0.1)
            assert "handbook" in page
        finally:
            run.terminate()


def test_calls_over_stdio_are_in_the_journal_too(library: Path, tmp_path: Path) -> None:
    from tests.mcp_client.stdio import StdioClient

    shutil.copytree(library, tmp_path / "library")
    script = Path(__file__).with_name("serve.py")
    with StdioClient.python(script, str(tmp_path), "--library", str(tmp_path / "library"), "serve") as agent:
        agent.initialize()
        agent.call("search_docs", {"query": "how is a suite scored"})
        for _ in range(300):  # it is noted after the answer, so that no client waits for it
            if (tmp_path / "library" / "journal.jsonl").exists():
                break
            time.sleep(0.1)
    noted = [json.loads(line) for line in (tmp_path / "library" / "journal.jsonl").read_text().splitlines()]
    assert [(one["tool"], one["query"], one["hits"] > 0) for one in noted] == [
        ("search_docs", "how is a suite scored", True)
    ]
