"""The command line as a user types it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from refdesk import errors
from refdesk.commands import desk
from tests.mcp_client.stdio import environment
from tests.unit.parse.test_office import pdf

CODE = {
    "app/login.py": 'def handle_login(user):\n    """Opens a session for the user."""\n    return open_session(user)\n',
    "app/pay.py": 'def charge(card):\n    """Takes money from the card, once."""\n    return gateway.charge(card)\n',
    "README.md": "# Shop\n\n## Paying\n\nCards are charged once.\n",
    "data.bin": "\0\0\0",
    "node_modules/x/index.js": "module.exports = 1\n",
    ".gitignore": "ignored.py\n",
    "ignored.py": "x = 1\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for name, text in CODE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def run(
    library: Path, *arguments: str, code: int = 0, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "refdesk", "--library", str(library), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env or environment(), check=False, cwd=cwd)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def test_a_first_session(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    assert "library is empty" in run(library, "collections").stdout
    report = json.loads(run(library, "index", str(shop), "--kind", "code", "--name", "shop", "--json").stdout)
    assert (report["files"], report["written"]) == (3, 3)
    (shop / "odd.txt").write_bytes(b"a\0b")
    for _ in range(2):  # whether it was looked into in this run or before
        again = json.loads(run(library, "index", str(shop), "--kind", "code", "--name", "shop", "--json").stdout)
        assert (again["files"], again["unchanged"]) == (3, 3)
    reasons = {one["path"].rstrip("/"): one["reason"] for one in report["skipped"]}
    assert {"data.bin", "node_modules", "ignored.py"} <= set(reasons)
    assert ".gitignore" in reasons["ignored.py"]
    found = json.loads(run(library, "search", "handleLogin", "--json").stdout)
    assert (found["hits"][0]["path"], found["hits"][0]["start_line"]) == ("app/login.py", 1)
    explained = run(library, "search", "take money", "--explain", "--limit", "1").stdout
    assert "app/pay.py:1-3" in explained
    assert "keywords: rank 1" in explained
    assert "shop" in run(library, "collections").stdout
    assert "app/pay.py" in run(library, "documents", "shop").stdout
    assert json.loads(run(library, "stats", "shop", "--json").stdout)["documents"] == 3
    assert run(library, "doctor").stdout.count("ok") == 3
    assert "Removed collection shop with 3 documents" in run(library, "remove", "shop", "--yes").stdout
    assert json.loads(run(library, "search", "handleLogin", "--json").stdout)["hits"] == []


def test_a_filter_that_nothing_has_lists_what_there_is(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--kind", "code", "--name", "shop")
    said = run(library, "search", "charge", "--language", "nosuch", "--ext", "PY")
    assert said.stdout == "No results found.\n"
    assert said.stderr == "note: No passage has the language nosuch. There are: markdown, python.\n"
    told = json.loads(run(library, "search", "charge", "--kind", "poem", "--json").stdout)
    assert told["hits"] == []
    assert told["notes"] == ["No passage has the kind poem. There are: file, function."]
    assert run(library, "search", "charge", "--language", "python").stderr == ""
    said = run(library, "search", "charge", "--path", "nosuch/**").stderr
    assert said.startswith("note: No path matches nosuch/**.")
    assert "No path" not in run(library, "search", "qqzzqq", "--path", "app").stderr
    run(library, "ingest", "data:,harps", "--collection", "notes", "--meta", "team=core")
    said = run(library, "search", "harps", "--meta", "team=corps", "--meta", "tema=core").stderr.splitlines()
    assert said == [
        "note: No passage has team=corps. There are: core.",
        "note: No passage has tema=core. None has a value for tema.",
    ]


def test_signs_without_a_word_need_an_exact_search(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    assert run(library, "search", "):").stderr == "note: The query has no words: --exact finds other signs.\n"
    assert "app/" in run(library, "search", "):", "--exact").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="file names have no line breaks there")
def test_a_line_break_in_a_file_name_breaks_no_line(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    (shop / "odd\nname\x1b[31m.py").write_text("def odd_one_out():\n    return 1\n")
    run(library, "index", str(shop), "--kind", "code", "--name", "shop")
    found = run(library, "search", "odd_one_out", "--limit", "1").stdout.splitlines()
    assert found[0].startswith(r"1. odd\nname\x1b[31m.py:1-2  function odd_one_out  [shop]")
    listed = run(library, "documents", "shop").stdout.splitlines()
    assert len(listed) == 4
    assert sum(line.endswith(r"odd\nname\x1b[31m.py") for line in listed) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals there")
def test_what_was_indexed_does_not_steer_the_terminal(tmp_path: Path, shop: Path) -> None:
    import pty

    library = tmp_path / "library"
    (shop / "odd.txt").write_text("a harmless\tline\x1b[31m\x1b]0;owned\x07 with\u3000a blank\u202e and more\n")
    run(library, "index", str(shop), "--name", "shop")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "refdesk", "--library", str(library), "search", "harmless", "--limit", "1"]
    subprocess.run(command, stdout=theirs, env=environment(), check=True)
    os.close(theirs)
    said = os.read(ours, 100_000).decode()
    assert "a harmless\tline\\x1b[31m\\x1b]0;owned\\x07 with\u3000a blank\\u202e and more" in said


@pytest.mark.skipif(sys.platform == "win32", reason="file names have no escapes there")
def test_status_and_json_do_not_steer_the_terminal(tmp_path: Path, shop: Path) -> None:
    library, odd = tmp_path / "library", shop / "odd\x1b[31m\x9b2Jname.py"
    odd.write_text("def odd_one_out():\n    return '\x9b31m'\n")
    run(library, "index", str(shop), "--kind", "code", "--name", "shop")
    for command in (("status", str(odd)), ("status", str(odd), "--json"), ("search", "odd_one_out", "--json")):
        said = run(library, *command).stdout
        assert "2Jname.py" in said and not {"\x1b", "\x9b"} & set(said)


def test_progress_on_a_terminal_is_one_line_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        drawn = threading.Semaphore(0)

        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            self.drawn.release()

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(desk, "_REDRAWN_EVERY_S", 0.001)
    with desk.bar_on_stderr("indexing") as tell:
        tell(1, 2, "odd[/b].py")
        assert terminal.drawn.acquire(timeout=60)
        tell(2, 2, "odd\x1b[31m\n" + "long" * 100)
        assert terminal.drawn.acquire(timeout=60)
    said = terminal.getvalue()
    assert said.startswith("\rindexing: 1 of 2 odd[/b].py\x1b[K\rindexing: 2 of 2 odd\\x1b[31m\\nlong")
    assert said.endswith("\x1b[K\r\x1b[K")
    assert "\n" not in said
    assert max(map(len, said.split("\r"))) < 90


def test_what_was_read_with_a_problem_is_listed(tmp_path: Path, shop: Path) -> None:
    (shop / "broken.md").write_text("---\ntitle: [never closed\n---\n# Returns\n\nReturns take two weeks.\n")
    said = run(tmp_path / "library", "index", str(shop), "--name", "shop").stderr
    assert "1 indexed, with a remark:\n  broken.md: front matter is not valid YAML" in said
    again = json.loads(run(tmp_path / "other", "index", str(shop), "--name", "shop", "--json").stdout)
    assert [one["path"] for one in again["remarks"]] == ["broken.md"]


def test_status_says_why(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    indexed = json.loads(run(library, "status", str(shop / "app/pay.py"), "--json").stdout)
    assert (indexed["indexed"], indexed["up_to_date"]) == (True, True)
    ignored = json.loads(run(library, "status", str(shop / "ignored.py"), "--json").stdout)
    assert ignored["indexed"] is False
    assert ".gitignore:1" in ignored["reason"]
    (shop / "app/pay.py").write_text("def charge_twice():\n    return 2\n")
    assert json.loads(run(library, "status", str(shop / "app/pay.py"), "--json").stdout)["up_to_date"] is False
    folder = json.loads(run(library, "status", str(shop), "--json").stdout)
    assert folder["changed"] == ["app/pay.py"]
    assert "changed: 1\n  app/pay.py\nskipped: 4\n" in run(library, "status", str(shop)).stdout
    (shop / "more").mkdir()
    (shop / "more/new.py").write_text("x = 1\n")
    inner = json.loads(run(library, "status", str(shop / "app"), "--json").stdout)
    assert (inner["documents"], inner["unchanged"], inner["changed"]) == (2, 1, ["app/pay.py"])
    assert (inner["skipped_total"], inner["up_to_date"]) == (0, False)
    assert run(library, "status", str(tmp_path), code=3).stderr


@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_what_an_extra_reads_is_read_once_it_is_installed(tmp_path: Path, flags: tuple[str, ...]) -> None:
    pytest.importorskip("pypdfium2")
    root, without = tmp_path / "papers", tmp_path / "without"
    root.mkdir()
    without.mkdir()
    (root / "a.pdf").write_bytes(pdf(["Whales sing."]))
    (without / "pypdfium2.py").write_text("raise ImportError\n")
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join((str(without), env["PYTHONPATH"]))
    library, index = tmp_path / "library", ("index", str(root), "--kind", "files", "--json")
    (skipped,) = json.loads(run(library, *index, env=env).stdout)["skipped"]
    assert "pip install 'refdesk[office]'" in str(skipped)
    assert json.loads(run(library, *index, env=env).stdout)["skipped"] == [skipped]
    assert json.loads(run(library, *index, *flags).stdout)["written"] == 1


def test_status_sees_that_an_empty_file_was_filled(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    (shop / "app/new.py").touch()
    run(library, "index", str(shop), "--name", "shop")
    assert json.loads(run(library, "status", str(shop), "--json").stdout)["up_to_date"] is True
    assert json.loads(run(library, "status", str(shop / "app/new.py"), "--json").stdout)["reason"] == "empty file"
    (shop / "app/new.py").write_text("def refund(card):\n    return gateway.refund(card)\n")
    assert json.loads(run(library, "status", str(shop), "--json").stdout)["changed"] == ["app/new.py"]
    said = json.loads(run(library, "status", str(shop / "app/new.py"), "--json").stdout)["reason"]
    assert said == "changed since it was left out (empty file): index again"


def test_ingest_and_backup(tmp_path: Path, shop: Path) -> None:
    library, copy = tmp_path / "library", tmp_path / "copy"
    run(library, "ingest", "data:text/markdown,%23%20Harp%0A%0AStrings.", "--collection", "notes", "--meta", "k=v")
    run(library, "ingest", str(shop / "README.md"), "--collection", "notes")
    run(library, "ingest", str(shop / "app"), "--collection", "notes")
    assert json.loads(run(library, "stats", "--json").stdout)["documents"] == 4
    hits = json.loads(run(library, "search", "strings", "--meta", "k=v", "--json").stdout)["hits"]
    assert [hit["title"] for hit in hits] == ["Harp"]
    run(library, "backup", str(copy))
    hits = json.loads(run(copy, "search", "charged once", "--json").stdout)["hits"]
    assert "README.md" in [hit["path"] for hit in hits]


def test_a_copy_takes_the_description_of_the_docs_along_and_replaces_none(tmp_path: Path, shop: Path) -> None:
    library, target = tmp_path / "library", tmp_path / "target"
    run(library, "index", str(shop), "--kind", "docs", "--name", "shop")
    described = (library / "metadata.json").read_text()
    assert "Copied 1 collections" in run(library, "copy", str(library), str(target)).stdout
    assert (target / "metadata.json").read_text() == described
    (target / "metadata.json").write_text(other := described.replace("{", '{ "corpus_description": "its own",', 1))
    assert "not empty" in run(library, "copy", str(library), str(target), code=2).stderr
    assert (target / "metadata.json").read_text() == other


def test_settings_of_a_collection(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "ingest", str(shop / "README.md"), "--collection", "notes")
    assert "max_tokens=64" in run(library, "configure", "notes", "--max-tokens", "64", "--min-tokens", "8").stdout
    assert "Lower it" in run(library, "configure", "notes", "--overlap-tokens", "64", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("search", "x", "--collection", "nope"), 3, "Collection not found: nope"),
        (("search", " "), 2, "empty"),
        (("search", "x", "--alpha", "2"), 2, "alpha"),
        (("index", "/no/such/folder"), 2, "does not exist"),
        (("documents", "nope"), 3, "nope"),
        (("remove", "nope"), 3, "nope"),
        (("get", "nope.py"), 3, "There is no document nope.py"),
        (("grep", "a(?=b)"), 2, "RE2"),
        (("crawl", "notaurl"), 2, "refdesk: 'notaurl' is not a web address. Write it as https://host/path.\n"),
        (("serch", "x"), 2, "Did you mean search or research?"),
        (("rm", "x"), 2, "Did you mean remove?"),
        (("xyzzy",), 2, "`refdesk --help` lists the commands"),
        (("how are retries configured",), 2, "refdesk search 'how are retries configured'"),
        (("skills", "lst"), 2, "list"),
        (("ingest", "https://127.0.0.1/x", "--collection", "c"), 2, "127.0.0.1"),
        (("ingest", "gopher://x", "--collection", "c"), 2, "gopher"),
        (("--embedder", "psychic", "search", "x"), 2, "psychic"),
    ],
)
def test_every_failure_is_one_line_and_a_documented_code(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = run(tmp_path / "library", *arguments, code=code)
    assert says in done.stderr
    assert done.stdout == ""
    assert json.loads(run(tmp_path / "library", "collections", "--json").stdout) == []


def test_without_an_embedder_answers_say_so(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "--embedder", "none", "index", str(shop), "--name", "shop")
    answer = json.loads(run(library, "--embedder", "none", "search", "session", "--json").stdout)
    assert answer["hits"][0]["path"] == "app/login.py"
    assert answer["notes"] == ["keywords only: no embedder is set"]


def test_words_alone_are_searched_also_where_the_embedder_can_not_be_had(
    tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    monkeypatch.setenv("REFDESK_EMBEDDER", "onnx")
    monkeypatch.setenv("REFDESK_EMBEDDER_PATH", "no/such/model")
    said = run(library, "search", "charge", code=6, cwd=tmp_path).stderr
    assert "no/such/model" in said
    for option in (("--alpha", "0"), ("--exact",)):
        answer = json.loads(run(library, "search", "charge", *option, "--json", cwd=tmp_path).stdout)
        assert (answer["hits"][0]["path"], answer["notes"]) == ("app/pay.py", [])


def test_a_query_that_begins_with_a_dash_goes_behind_two(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    assert "goes behind `--`" in run(library, "search", "--charge of a card", code=2).stderr
    assert "pay.py" in run(library, "search", "--", "--charge of a card").stdout


def test_the_library_is_found_from_a_folder_below(tmp_path: Path, shop: Path) -> None:
    run(shop / ".refdesk", "index", str(shop), "--name", "shop")
    command = [sys.executable, "-m", "refdesk", "search", "charge", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True, cwd=shop / "app")
    assert json.loads(done.stdout)["hits"][0]["path"] == "app/pay.py"


def test_watch_keeps_it_fresh(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    command = [sys.executable, "-m", "refdesk", "--library", str(library), "index", str(shop), "--watch"]
    watcher = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment())
    assert watcher.stderr
    try:
        for line in watcher.stderr:
            if "Watching" in line:
                break
        deadline = time.monotonic() + 60
        found: list[object] = []
        while not found and time.monotonic() < deadline:
            (shop / "app/fresh.py").write_text(f"def marimba():\n    return {time.monotonic_ns()}\n")
            time.sleep(1)
            found = json.loads(run(library, "search", "marimba", "--alpha", "0", "--json").stdout)["hits"]
        assert found
    finally:
        watcher.send_signal(signal.SIGINT)
        said = watcher.communicate(timeout=60)[1]
    assert watcher.returncode == 0
    assert said.endswith("Stopped watching. What is indexed stays searchable.\n") and "Traceback" not in said


def test_the_help_tells_the_exit_codes_that_the_page_does(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/command-line.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    told = " ".join(run(tmp_path / "library", "--help").stdout.split())
    codes = {one.exit_code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)}
    terminated = 128 + signal.SIGTERM
    assert {int(code) for code, _ in documented} == codes | {0, terminated}
    for code, _ in documented:
        assert re.search(rf"\b{code} [a-z]", told.rpartition("Exit codes:")[2]), code


def test_eval_compares_settings(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "collection: shop\nsettings: {keywords: {alpha: 0}, meaning: {alpha: 1}}\ncases:\n"
        "- {query: take money from a card, expect: app/pay.py}\n- {query: handle_login, expect: app/login.py}\n"
        "- {query: nothing like it zzz, expect: nowhere.py}\n"
    )
    scores = json.loads(run(library, "eval", str(suite), "--json").stdout)
    assert [one["setting"] for one in scores] == ["keywords", "meaning"]
    assert scores[0]["hit_rate"] == pytest.approx(2 / 3)
    assert "missed: 'nothing like it zzz'" in run(library, "eval", str(suite)).stdout
    run(library, "eval", str(suite), "--min-ndcg", "0.99", code=1)
    suite.write_text("cases: []\n")
    assert "cases" in run(library, "eval", str(suite), code=2).stderr


def test_secrets_are_skipped_with_the_way_to_take_them_in(tmp_path: Path, shop: Path) -> None:
    (shop / ".env").write_text("TOKEN=xyzzyplugh\n")
    library = tmp_path / "library"
    report = json.loads(run(library, "index", str(shop), "--json").stdout)
    assert "--allow-secret" in {one["path"]: one["reason"] for one in report["skipped"]}[".env"]
    run(library, "ingest", str(shop / ".env"), "--collection", "notes", code=4)
    assert json.loads(run(library, "index", str(shop), "--allow-secret", ".env", "--json").stdout)["written"] == 1
    assert json.loads(run(library, "index", str(shop), "--json").stdout)["removed"] == 1


def test_an_unknown_toolset_ends_the_server_at_once(tmp_path: Path) -> None:
    told = run(tmp_path / "library", "serve", "--toolsets", "docs,foo", code=2).stderr
    assert "Setting toolsets can't be 'foo'. Take one of docs, rag, skills, pages, code." in told


def test_a_document_is_read_by_id_path_lines_and_section(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    run(library, "index", str(shop / "app"), "--kind", "files", "--name", "app")
    told = json.loads(run(library, "get", "app/login.py:2-3", "--json").stdout)
    assert told["text"] == "\n".join(CODE["app/login.py"].split("\n")[1:3])
    assert (told["start_line"], told["end_line"], told["stale"]) == (2, 3, False)
    for name in (told["id"], str(shop / "README.md"), "shop/README.md", (shop / "README.md").as_uri()):
        wanted = CODE["app/login.py" if name == told["id"] else "README.md"]
        assert run(library, "get", name).stdout == wanted
    assert run(library, "get", "login.py:1", cwd=shop / "app").stdout == "def handle_login(user):\n"
    assert "has 3 lines" in run(library, "get", "app/login.py:9", code=3).stderr
    assert "names no lines" in run(library, "get", "app/login.py:3-2", code=2).stderr
    run(library, "index", str(shop / "app"), "--kind", "docs", "--name", "also")
    assert "in several collections: also, app" in run(library, "get", "login.py", code=2).stderr
    (shop / "README.md").write_text("# Another\n")
    read = run(library, "get", "README.md")
    assert read.stdout == CODE["README.md"] and "note: the file changed or went since" in read.stderr


def test_a_section_is_read_by_its_id_and_a_page_by_the_lines_of_its_source(tmp_path: Path) -> None:
    root, library = tmp_path / "handbook", tmp_path / "library"
    root.mkdir()
    (root / "guide.md").write_text("# Guide\n\nHello.\n\n## Retries\n\nThree times.\n\n## Limits\n\nTen.\n")
    page = ["<html><body>", "<main>", "<h1>Pumps</h1>", "", "", "<p>Pumps move water uphill.</p>", "</main></body>"]
    (root / "pumps.html").write_text("\n".join(page))
    run(library, "index", str(root), "--kind", "docs", "--name", "handbook")
    assert run(library, "get", "guide.md#retries").stdout.strip() == "## Retries\n\nThree times."
    assert "It has _preamble, retries, limits" in run(library, "get", "guide.md#nope", code=3).stderr
    assert "move water" in run(library, "get", "pumps.html:6").stdout
    assert run(library, "grep", "move water").stdout == "pumps.html:Pumps move water uphill.\n"


def test_grep_finds_lines(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    found = run(library, "grep", r"^def \w+\(", "--path", "app/**").stdout
    assert found == "app/login.py:1:def handle_login(user):\napp/pay.py:1:def charge(card):\n"
    assert run(library, "grep", "TAKES MONEY").stderr == "No results found.\n"
    assert run(library, "grep", "-i", "TAKES MONEY").stdout.startswith("app/pay.py:2:")
    assert run(library, "grep", r"\Adef charge").stdout.startswith("app/pay.py:1:")
    some = run(library, "grep", "card", "--limit", "1")
    assert len(some.stdout.splitlines()) == 1 and "There are more: --limit 2" in some.stderr
    told = json.loads(run(library, "grep", "Cards are", "--json").stdout)
    assert [(one["path"], one["line"]) for one in told["lines"]] == [("README.md", 5)]
    (shop / "long.txt").write_text("a" * 200_000 + "b\n")
    run(library, "index", str(shop), "--name", "shop")
    assert run(library, "grep", "(a+)+$").stderr == "No results found.\n"  # what takes for ever by backtracking


def test_search_keeps_to_the_collection_of_this_folder(tmp_path: Path, shop: Path) -> None:
    library, other = tmp_path / "library", tmp_path / "other"
    other.mkdir()
    (other / "till.py").write_text("def charge_till(card):\n    return card\n")
    run(library, "index", str(shop), "--name", "shop")
    assert run(library, "search", "charge a card", cwd=shop / "app").stderr == ""  # there is no other
    run(library, "index", str(other), "--name", "other")
    here = run(library, "search", "charge a card", cwd=shop / "app")
    assert here.stderr == "Within shop, which holds this folder; --all looks everywhere.\n"
    assert "[shop]" in here.stdout and "[other]" not in here.stdout
    for everywhere in (
        run(library, "search", "charge a card", "--all", cwd=shop),
        run(library, "search", "charge a card", cwd=tmp_path),
    ):
        assert "[other]" in everywhere.stdout and everywhere.stderr == ""
    assert "till.py" not in run(library, "grep", "charge", cwd=shop).stdout
    assert "other/till.py:1:" in run(library, "grep", "charge", "--all", cwd=shop).stdout


def test_research_answers_as_the_tool_does(tmp_path: Path, shop: Path) -> None:
    library = tmp_path / "library"
    (shop / "app/main.py").write_text("from app.login import handle_login\n\ndef main():\n    handle_login(1)\n")
    run(library, "index", str(shop), "--name", "shop")
    for more in ((), ("--path", "shop"), ("--path", str(shop))):
        said = run(library, "research", "what calls handle_login", *more)
        assert "handle_login [app/login.py:1-3] is called from 1 caller." in said.stdout
        assert "  main (app/main.py:4) calls handle_login\n" in said.stdout
    told = json.loads(run(library, "research", "what calls handle_login", "--json").stdout)
    assert {one["symbol"] for one in told["findings"]} == {"handle_login", "main"}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals there")
def test_remove_asks_and_serve_says_what_it_is_on_a_terminal(tmp_path: Path, shop: Path) -> None:
    import pty

    library = tmp_path / "library"
    run(library, "index", str(shop), "--name", "shop")
    assert "Say --yes" in run(library, "remove", "shop", code=2).stderr

    def typed(keys: bytes, *arguments: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        os.write(ours, keys)
        command = [sys.executable, "-m", "refdesk", "--library", str(library), *arguments]
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, env=environment(), check=False)
        os.close(theirs)
        os.close(ours)
        return done.returncode, done.stderr

    code, said = typed(b"n\n", "remove", "shop")
    assert code == 1 and "Remove collection shop with 3 documents? [y/N]" in said and "Nothing was removed." in said
    assert "shop" in run(library, "collections").stdout
    assert typed(b"y\n", "remove", "shop")[0] == 0
    assert "library is empty" in run(library, "collections").stdout
    code, said = typed(b"\x04", "serve")
    assert code == 0 and said.startswith("RefDesk serves MCP on stdin and stdout") and "refdesk install" in said


@pytest.mark.parametrize("command", [(), ("search",), ("skills", "list"), ("serve",)])
def test_help_has_a_short_name(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert run(tmp_path / "library", *command, "-h").stdout.startswith("Usage: ")
