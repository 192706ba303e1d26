"""code.md, scenario by scenario, through the real server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from toon_format import decode

from refdesk.app import PARTS, open_desk
from refdesk.model import EmbedderIdentity, Filters, Query
from tests.contracts.conftest import Client, Serve, refdesk
from tests.scale.servers import settings_of

SWIFT = """import Foundation

/// Anything that can prove who it is.
protocol Authenticatable {
    func authenticate() async throws -> Session
}

/// Signs people in with a password.
final class PasswordAuthenticator: Authenticatable {
    private let store: CredentialStore

    init(store: CredentialStore) {
        self.store = store
    }

    /// Checks the password and opens a session.
    func authenticate() async throws -> Session {
        let credentials = try store.load()
        return try await Session.open(with: credentials)
    }
}
"""
FILES = {
    "Sources/Auth/Authenticator.swift": SWIFT,
    "Sources/Net/Client.swift": "struct Client {\n    /// Retries a request that failed, waiting longer each time.\n"
    "    func send(_ request: Request) throws -> Response {\n        try transport.send(request)\n    }\n}\n",
    "Sources_utils/Extra.swift": 'func authenticateLater() {\n    print("authentication is deferred")\n}\n',
    "docs/install.md": "# Installation\n\n## From source\n\nRun the build script; installation takes a minute.\n",
    "README.md": "# Project\n\nSee installation notes in docs.\n",
    "tool.py": 'def handle_login(user):\n    """Explains the installation of a login hook."""\n    return user\n',
    "logo.png": "\x89PNG\x00\x00",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="latin-1")
    return root


@pytest.fixture
def client(tmp_path: Path, project: Path, serve: Serve) -> Client:
    return serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(project))


@pytest.fixture
def indexed(client: Client, project: Path) -> Client:
    client.json("index_codebase", path=str(project))
    return client


def found(client: Client, project: Path, query: str, **more: Any) -> dict[str, Any]:
    return client.json("search_code", query=query, path=str(project), format="json", **more)


def paths(answer: dict[str, Any]) -> list[str]:
    return [one["path"] for one in answer["results"]]


def test_schemas_are_the_contracts(client: Client) -> None:
    tools = client.tools()
    assert list(tools)[:3] == ["index_codebase", "search_code", "search_docs"]
    assert tools["index_codebase"]["inputSchema"]["properties"] == {
        "path": {"type": "string", "description": "Absolute path to the directory to index"},
        "force": {
            "type": "boolean",
            "default": False,
            "description": "Force re-indexing even if files haven't changed",
        },
    }
    properties = tools["search_code"]["inputSchema"]["properties"]
    assert list(properties) == [
        "query", "path", "limit", "semantic_weight", "extensions", "path_filter", "format", "expand_query",
        "synthesize",
    ]  # fmt: skip
    assert (properties["limit"]["default"], properties["semantic_weight"]["default"]) == (20, 0.7)
    assert tools["search_docs"]["inputSchema"]["properties"]["limit"]["default"] == 10
    assert tools["index_codebase"]["execution"]["taskSupport"] == "optional"
    for tool in tools.values():
        assert {"title", "outputSchema", "annotations", "icons"} <= set(tool)


def test_indexing_new_incremental_and_forced(client: Client, project: Path) -> None:
    first = client.json("index_codebase", path=str(project))
    assert (first["files"], first["written"], first["errors"]) == (6, 6, [])
    assert (first["skipped_reasons"], first["skipped_files"]) == ("1 not text by its name", [])
    assert first["chunks"] > 6
    assert first["symbols"] > 4
    (project / "tool.py").write_text("def handle_logout(user):\n    return None\n")
    second = client.json("index_codebase", path=str(project))
    assert (second["written"], second["unchanged"]) == (1, 5)
    forced = client.json("index_codebase", path=str(project), force=True)
    assert (forced["written"], forced["files"]) == (6, 6)


def test_what_is_left_out_is_counted_and_only_the_telling_is_listed(client: Client, project: Path) -> None:
    (project / ".gitignore").write_text("*.log\nout_*/\n")
    for number in range(30):
        (project / f"run_{number}.log").write_text("x")
        (project / f"out_{number}").mkdir()
        (project / f"icon_{number}.png").write_bytes(b"\x89PNG")
    (project / "zz_data.txt").write_bytes(b"a\x00b" * 50)
    (project / "empty.py").touch()
    (project / "old.md").write_text("---\nowner: [never closed\n---\n# Old\n\nThe old way of signing in.\n")
    (project / "node_modules").mkdir()
    (project / "node_modules/x.js").write_text("x = 1\n")
    answer = client.json("index_codebase", path=str(project))
    assert answer["skipped"] == sum(int(part.split()[0]) for part in answer["skipped_reasons"].split(", "))
    assert answer["skipped_reasons"].startswith("60 ignored by .gitignore, 31 not text by its name")
    assert [one["path"] for one in answer["skipped_files"]] == ["zz_data.txt", "node_modules/"]
    assert "1 empty file" in answer["skipped_reasons"]
    (remark,) = answer["remarks"]
    assert remark["path"] == "old.md" and "front matter is not valid YAML" in remark["reason"]


def test_results_have_every_field(indexed: Client, project: Path) -> None:
    answer = found(indexed, project, "check the password and open a session")
    assert answer["format"] == "json"
    best = answer["results"][0]
    assert best["path"] == "Sources/Auth/Authenticator.swift"
    assert {"content", "path", "start_line", "end_line", "relevance_percent", "kind", "symbols"} <= set(best)
    lines = SWIFT.split("\n")[best["start_line"] - 1 : best["end_line"]]
    assert best["content"].strip() == "\n".join(lines).strip()
    percents = [one["relevance_percent"] for one in answer["results"]]
    assert percents == sorted(percents, reverse=True)
    assert all(0 <= one <= 100 for one in percents)


@pytest.mark.parametrize("name", ["handle_login", "handleLogin", "HandleLogin"])
def test_symbols_in_any_spelling(indexed: Client, project: Path, name: str) -> None:
    assert found(indexed, project, name)["results"][0]["symbols"] == ["handle_login"]


def test_limit_filters_and_extensions(indexed: Client, project: Path) -> None:
    assert len(found(indexed, project, "authenticate", limit=1)["results"]) == 1
    assert set(paths(found(indexed, project, "authenticate send", path_filter="Sources/Auth/**"))) == {
        "Sources/Auth/Authenticator.swift"
    }
    assert not any(
        one.startswith("Sources_utils") for one in paths(found(indexed, project, "authenticate", path_filter="Sources"))
    )
    assert set(paths(found(indexed, project, "login user", extensions=".py, rb"))) == {"tool.py"}


@pytest.mark.parametrize("glob", ["*a" * 60 + "b", "**/" * 900 + "b", "{" * 1000, "{*a,*b}" * 7 + "c"])
def test_a_hostile_path_filter_is_answered_and_finds_nothing(indexed: Client, project: Path, glob: str) -> None:
    (project / ("a" * 200 + ".py")).write_text("def login(): pass\n")
    assert not found(indexed, project, "authenticate", path_filter=glob)["results"]


def test_a_path_filter_beyond_the_limits_is_refused(indexed: Client, project: Path) -> None:
    said = indexed.error("search_code", query="login", path=str(project), path_filter="{" * 50_000)
    assert "50000 characters" in said and "At most 4096" in said
    said = indexed.error("search_code", query="login", path=str(project), path_filter="{" * 99 + "}" * 99)
    assert "nested too deep" in said


def test_a_folder_inside_an_indexed_one(indexed: Client, project: Path) -> None:
    answer = found(indexed, project / "Sources/Net", "authenticate send request")
    assert set(paths(answer)) == {"Sources/Net/Client.swift"}


def test_toon_is_the_default_and_round_trips(indexed: Client, project: Path) -> None:
    result = indexed.result("search_code", query="authenticate", path=str(project))
    text = result["content"][0]["text"]
    assert result["structuredContent"] == {"format": "toon", "output": text}
    answer, same = decode(text), found(indexed, project, "authenticate")
    assert (answer["query"], answer["path"], answer["total"]) == (same["query"], same["path"], same["total"])
    for row, full in zip(answer["results"], same["results"], strict=True):
        assert {"path", "start_line", "end_line", "relevance_percent", "kind", "symbols", "content"} <= set(row)
        assert (row["path"], row["kind"], row["relevance_percent"]) == (
            full["path"],
            full["kind"],
            full["relevance_percent"],
        )
        assert row["symbols"].split()[:1] == full["symbols"][:1]
        written = (project / row["path"]).read_bytes().decode("utf-8", "replace").split("\n")
        assert row["content"] in "\n".join(written[row["start_line"] - 1 : row["end_line"]])


def test_human_reads_like_a_list(indexed: Client, project: Path) -> None:
    text = indexed.text("search_code", query="handle_login", path=str(project), format="human")
    assert "1. tool.py:1-3  function handle_login" in text


def test_docs_search_is_documentation_only(indexed: Client, project: Path) -> None:
    answer = indexed.json("search_docs", query="installation", path=str(project), format="json")
    assert set(paths(answer)) == {"docs/install.md", "README.md", "tool.py"}
    assert all(one["start_line"] >= 1 for one in answer["results"])
    answer = indexed.json(
        "search_docs", query="installation", path=str(project), path_filter="docs/*.md", format="json"
    )
    assert set(paths(answer)) == {"docs/install.md"}


@pytest.mark.parametrize(
    "name",
    ["vignettes/columns.Rmd", "guide.qmd", "doc/columns.sgml", "doc/columns.asciidoc", "INSTALL", "man/columns.3"],
)
def test_docs_search_knows_the_formats_of_manuals(client: Client, project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("Zebra columns\n\nHow to paint zebra columns in a table.\n")
    client.json("index_codebase", path=str(project))
    answer = client.json("search_docs", query="zebra columns", path=str(project), format="json")
    assert paths(answer) == [name]


def test_build_files_are_no_documentation(client: Client, project: Path) -> None:
    (project / "INSTALL").write_text("To install on Windows, run the setup program.\n")
    (project / "Makefile").write_text("install:\n\tcp windows.dll out\n")
    rules = "".join(f"if(WIN32)\n  install(TARGETS windows{at})\nendif()\n" for at in range(9))
    (project / "CMakeLists.txt").write_text(f"project(windows)\n{rules}macro(windows_install)\nendmacro()\n")
    client.json("index_codebase", path=str(project))
    answer = client.json("search_docs", query="install windows", path=str(project), format="json")
    assert paths(answer)[0] == "INSTALL"
    assert {"CMakeLists.txt", "Makefile"}.isdisjoint(paths(answer))


def test_expansion_and_summary_say_who_made_them(indexed: Client, project: Path) -> None:
    answer = found(indexed, project, "sign in", expand_query=True, synthesize=True)
    assert answer["expanded_with"]
    assert "Sources/Auth/Authenticator.swift:" in answer["summary"]
    assert answer["follow_ups"]
    assert answer["answered_by"].startswith("local")


def test_a_change_is_found_at_once(indexed: Client, project: Path) -> None:
    (project / "fresh.py").write_text("def glockenspiel_solo():\n    return 'ding'\n")
    (project / "tool.py").unlink()
    assert found(indexed, project, "glockenspiel_solo")["results"][0]["path"] == "fresh.py"
    assert "tool.py" not in paths(found(indexed, project, "handle_login"))


def test_lines_that_moved_are_marked_when_they_can_not_be_refreshed(
    tmp_path: Path, project: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFDESK_REFRESH_MS", "0")
    client = serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(project))
    client.json("index_codebase", path=str(project))
    (project / "tool.py").write_text("# a new first line\n" + FILES["tool.py"])
    by_path = {one["path"]: one for one in found(client, project, "handle_login authenticate")["results"]}
    assert by_path["tool.py"]["stale"] is True
    assert "stale" not in by_path["Sources/Auth/Authenticator.swift"]


def test_of_a_very_long_passage_the_lines_around_the_match_are_shown(client: Client, project: Path) -> None:
    rows = [f"| option_{number} | sets the number {number} of the machine |" for number in range(400)]
    rows[300] = "| glockenspiel | rings the bell |"
    text = "# Options\n\n| name | what |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    (project / "options.md").write_text(text)
    client.json("index_codebase", path=str(project))
    best = found(client, project, "glockenspiel rings", limit=1)["results"][0]
    assert "glockenspiel" in best["content"]
    lines = text.split("\n")[best["start_line"] - 1 : best["end_line"]]
    assert best["content"] == "\n".join(lines)
    assert len(lines) < 150
    first, last = map(int, best["part_of_lines"].split("-"))
    assert first < best["start_line"] < 305 <= best["end_line"] < last


def test_an_answer_keeps_within_its_tokens_and_says_what_is_missing(client: Client, project: Path) -> None:
    body = "\n".join(f"    total += weigh(apple_{n}, pear_{n}, plum_{n})" for n in range(25))
    for number in range(60):
        (project / f"fruit_{number}.py").write_text(f"def fruit_{number}(total):\n{body}\n    return {number}, total\n")
    client.json("index_codebase", path=str(project))
    answer = found(client, project, "weigh apple pear plum", limit=60)
    assert len(json.dumps(answer)) < 8_000 * 5
    assert "more results left out" in answer["notices"][-1]
    assert len(answer["results"]) < answer["total"]


def test_unlikely_files_are_named_without_their_text(client: Client, project: Path) -> None:
    for number in range(30):
        (project / f"part_{number}.py").write_text(
            f'def part_{number}(order):\n    """Counts shelf {number}."""\n    return order\n'
        )
    (project / "brew.py").write_text(
        'def brew_coffee(beans):\n    """Brews coffee of ground beans."""\n    return beans\n'
    )
    client.json("index_codebase", path=str(project))
    asked = {"query": "brew_coffee of an order", "path": str(project), "limit": 20}
    every = client.json("search_code", **asked, format="json")["results"]
    answer = decode(client.text("search_code", **asked))
    shown = [one["path"] for one in answer["results"]]
    assert shown == paths({"results": every})[: len(shown)]
    assert 5 <= len(shown) < len(every)
    assert all(one["relevance_percent"] == 0 for one in every[len(shown) :])
    assert all(f"{one['path']}:{one['start_line']}" in answer["note"] for one in every[len(shown) :])


def test_a_long_report_is_not_repeated(indexed: Client, project: Path) -> None:
    report = "the login fails for every user " * 200
    echoed = found(indexed, project, report)["query"]
    assert report.startswith(echoed.rstrip("…")) and len(echoed) <= 201


def test_nothing_found_says_what_was_searched(indexed: Client, project: Path) -> None:
    answer = found(indexed, project, "zzqqx", semantic_weight=0.0)
    assert answer["results"] == []
    assert "6 files" in answer["hint"]
    assert "path_filter" in found(indexed, project, "login", path_filter="nowhere/**")["hint"]


def test_errors_in_the_contracts_words(client: Client, project: Path, tmp_path: Path) -> None:
    assert client.error("search_code", query="x", path=str(project)) == (
        f"No index found for path: {project}. Run 'index_codebase' tool first."
    )
    assert client.error("search_code", path=str(project)) == "Missing required argument: query"
    assert client.error("search_code", query="  ", path=str(project)) == "Query cannot be empty"
    assert client.error("search_code", query="x", path="/no/such") == (
        "Path does not exist or is not a directory: /no/such"
    )
    assert client.error("index_codebase") == "Missing required argument: path"
    assert client.error("index_codebase", path=str(project / "tool.py")).startswith("Path does not exist or is not")
    outside = client.error("index_codebase", path=str(tmp_path))
    assert "--allow-root" in outside
    assert "limt" in client.error("search_code", query="x", limt=3)


def test_a_wrong_path_is_answered_with_the_indexed_ones(indexed: Client, project: Path) -> None:
    said = indexed.error("search_code", query="x", path="/no/such")
    assert said.startswith(f"Path does not exist or is not a directory: /no/such. Indexed: project ({project}). Give")


def test_indexing_reports_progress_and_runs_as_a_task(client: Client, project: Path) -> None:
    for number in range(40):
        (project / f"m{number}.py").write_text(f"def f{number}():\n    return {number}\n")
    client.raw.call("index_codebase", {"path": str(project)}, _meta={"progressToken": "p"})
    seen = [each["params"] for each in client.raw.notifications("notifications/progress")]
    assert seen
    assert all(one["progressToken"] == "p" for one in seen)
    task = client.raw.call("index_codebase", {"path": str(project), "force": True}, task={"ttl": 60000})["result"][
        "task"
    ]
    result = client.raw.request("tasks/result", {"taskId": task["taskId"]})["result"]
    assert result["structuredContent"]["written"] == 46
    assert client.raw.request("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "completed"


def test_words_alone_are_searched_beside_the_vectors_of_another_model(
    indexed: Client, tmp_path: Path, project: Path, serve: Serve
) -> None:
    before = paths(found(indexed, project, "handle_login", semantic_weight=0.0))
    store = PARTS.store(settings_of(tmp_path / "library"))
    store.set_embedder_identity(EmbedderIdentity("another", "1", 8))
    store.close()
    other = serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(project))
    assert paths(found(other, project, "handle_login", semantic_weight=0.0)) == before != []
    assert "reembed" in other.error("search_code", query="handle_login", path=str(project))


def test_path_is_a_folder_by_its_name(client: Client, project: Path) -> None:
    bodies = {
        "app/[id]/page.py": "one row of the table",
        "app/[id]/more/deep.py": "all pictures below each other",
        "app/i/page.py": "who wrote it and when",
        "lib/app/page.py": "nothing but a greeting",
    }
    for name, body in bodies.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f'def show_page(view):\n    return view.write("{body}")\n')
    client.json("index_codebase", path=str(project))
    bracketed = {"app/[id]/page.py", "app/[id]/more/deep.py"}
    assert set(paths(found(client, project / "app", "show_page"))) == {*bracketed, "app/i/page.py"}
    assert set(paths(found(client, project / "app" / "[id]", "show_page"))) == bracketed
    assert set(paths(found(client, project / "app" / "[id]", "show_page", path_filter="*.py"))) == bracketed
    assert paths(found(client, project / "app" / "[id]", "show_page", path_filter="./more/*")) == [
        "app/[id]/more/deep.py"
    ]
    assert bracketed < set(paths(found(client, project, "show_page", path_filter="app/[id]/**")))
    nothing = found(client, project / "app" / "i", "zzqxv", path_filter="*.rs")
    assert f"path='{project}/app/i'" in nothing["hint"]


def test_an_empty_path_indexes_nothing(client: Client) -> None:
    for empty in ("", "  "):
        assert client.error("index_codebase", path=empty).startswith("Path cannot be empty.")


def test_two_worktrees_share_their_vectors(tmp_path: Path, client: Client, project: Path) -> None:
    client.json("index_codebase", path=str(project))
    twin = project / "worktrees" / "twin"
    shutil.copytree(project / "Sources", twin / "Sources")
    (twin / ".git").write_text("gitdir: ../../.git/worktrees/twin\n")
    answer = client.json("index_codebase", path=str(twin))
    assert answer["files"] == 2


def test_without_a_corpus_search_docs_searches_the_codebase_at_hand(
    tmp_path: Path, project: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(tmp_path / "library", "--allow-root", str(project))
    client.json("index_codebase", path=str(project))
    said = client.json("search_docs", query="installation")["hint"]["message"]
    assert "no documentation yet" in said and f"codebases ({project})" in said
    assert "README.md" in client.text("search_docs", query="installation", path=str(project))
    monkeypatch.chdir(project)
    client = serve(tmp_path / "library")
    found = client.text("search_docs", query="installation")
    assert "README.md" in found
    assert f'note: "the library has no docs corpus: searched {project}"' in found.splitlines()
    assert "no docs corpus" not in client.text("search_docs", query="installation", path=".")
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "bees.md").write_text("# Bees\n\nBees dance.\n")
    refdesk(tmp_path / "library", "index", str(tmp_path / "guide"), "--kind", "docs")
    assert client.json("search_docs", query="bees dance")["hits"][0]["filepath"] == "bees.md"


def test_both_search_docs_are_one_tool(tmp_path: Path, project: Path, serve: Serve) -> None:
    client = serve(tmp_path / "library", "--toolsets", "docs,code", "--allow-root", str(project))
    client.json("index_codebase", path=str(project))
    tools = client.tools()
    assert list(tools).count("search_docs") == 1
    schema = tools["search_docs"]["inputSchema"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"query", "limit", "cursor", "path", "path_filter", "format"}
    assert (schema["properties"]["limit"]["maximum"], schema["properties"]["limit"]["default"]) == (50, 10)
    by_code = client.json("search_docs", query="installation", path=str(project), format="json")
    assert by_code["format"] == "json"
    assert set(client.json("search_docs", query="installation")) == {"hits", "next_cursor", "hint"}


def test_what_only_one_search_docs_knows_is_not_ignored_by_the_other(
    tmp_path: Path, project: Path, serve: Serve
) -> None:
    client = serve(tmp_path / "library", "--toolsets", "docs,code", "--allow-root", str(project))
    client.json("index_codebase", path=str(project))
    refused = client.error("search_docs", query="installation", path=str(project), cursor="abc")
    assert refused.startswith("Argument 'cursor' does not go with 'path'.")
    assert client.error("search_docs", path=str(project)) == "Missing required argument: query"
    assert client.error("search_docs").startswith("query is required")


GRAPH = {
    "Sources/Auth/Protocols.swift": "protocol Authenticatable {\n    func authenticate() throws\n}\n",
    "Sources/Auth/Password.swift": "final class PasswordLogin: Authenticatable {\n    func authenticate() throws {\n"
    '        try verify()\n    }\n\n    func verify() throws {\n        print("checking")\n    }\n}\n',
    "Sources/Auth/Token.swift": "struct TokenLogin {\n    let token: String\n}\n",
    "Sources/Auth/Token+Auth.swift": "extension TokenLogin: Authenticatable {\n    func authenticate() throws {\n"
    "        print(token)\n    }\n}\n",
    "Sources/App/Session.swift": "final class SessionManager {\n    let login: PasswordLogin\n\n"
    "    init(login: PasswordLogin) {\n        self.login = login\n    }\n\n"
    "    func openSession() throws {\n        try login.authenticate()\n    }\n}\n",
    "Sources/App/Main.swift": "func launch(manager: SessionManager) throws {\n    try manager.openSession()\n}\n",
}


@pytest.fixture
def researched(tmp_path: Path, serve: Serve) -> tuple[Client, Path]:
    root = tmp_path / "app"
    for name, text in GRAPH.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    client = serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(root))
    client.json("index_codebase", path=str(root))
    return client, root


def test_all_implementations_include_extension_conformances(researched: tuple[Client, Path]) -> None:
    client, root = researched
    answer = client.json("code_research", query="all implementations of Authenticatable", path=str(root))
    near = {one["symbol"] for one in answer["findings"] if one["hop"] == 1}
    assert near == {"PasswordLogin", "TokenLogin"}
    extension = next(one for one in answer["findings"] if one["symbol"] == "TokenLogin")
    assert extension["relationship"] == "conforms to Authenticatable"
    assert "Token+Auth.swift" in json.dumps(answer)


def test_what_calls_gives_callers_and_their_callers(researched: tuple[Client, Path]) -> None:
    client, root = researched
    answer = client.json("code_research", query="what calls PasswordLogin.authenticate()", path=str(root), depth=3)
    hops = {one["symbol"]: one["hop"] for one in answer["findings"]}
    assert hops == {"PasswordLogin.authenticate": 0, "SessionManager.openSession": 1, "launch": 2}
    called = {one["symbol"]: (one["relationship"], one["path"], one["line"]) for one in answer["findings"]}
    assert called["SessionManager.openSession"] == ("calls PasswordLogin.authenticate", "Sources/App/Session.swift", 9)
    assert called["launch"][0] == "calls SessionManager.openSession"
    drawn = client.json("code_research", query="draw what calls PasswordLogin.authenticate()", path=str(root))
    assert drawn["mermaid"].startswith("graph LR")
    assert {edge["kind"] for edge in answer["graph"]["edges"]} == {"calls"}
    shallow = client.json("code_research", query="what calls PasswordLogin.authenticate()", path=str(root), depth=1)
    assert "launch" not in {one["symbol"] for one in shallow["findings"]}


@pytest.mark.parametrize(
    ("focus", "sections"),
    [
        ("architecture", {"modules"}),
        ("patterns", {"implementations"}),
        ("flow", {"call chains"}),
        ("dependencies", set()),
    ],
)
def test_a_focus_changes_what_is_told(researched: tuple[Client, Path], focus: str, sections: set[str]) -> None:
    client, root = researched
    answer = client.json(
        "code_research", query="how does a session authenticate the login", path=str(root), focus=focus, depth=3
    )
    assert answer["focus"] == focus
    assert sections <= set(answer["sections"])
    ids = [(one["path"], one["symbol"]) for one in answer["findings"]]
    assert len(ids) == len(set(ids))
    assert answer["answered_by"].startswith("local")


def test_an_unknown_name_is_said_to_be_unknown(researched: tuple[Client, Path]) -> None:
    client, root = researched
    answer = client.json("code_research", query="what calls frobnicate()", path=str(root))
    assert "No definition of frobnicate" in answer["notices"][0]
    assert answer["intent"] == "general"


def test_research_reports_each_hop(researched: tuple[Client, Path]) -> None:
    client, root = researched
    arguments = {"query": "what calls PasswordLogin.authenticate()", "path": str(root), "depth": 3}
    client.raw.call("code_research", arguments, _meta={"progressToken": "h"})
    seen = [each["params"]["progress"] for each in client.raw.notifications("notifications/progress")]
    assert seen[0] == 0
    assert seen == sorted(seen)  # quick hops share one notification


def test_the_status_resource_tells_what_changed(researched: tuple[Client, Path]) -> None:
    client, root = researched
    (root / "Sources/App/Main.swift").write_text("func launch() {\n    print(1)\n}\n")
    contents = client.raw.request("resources/read", {"uri": "refdesk://status"})["result"]["contents"][0]
    (state,) = json.loads(contents["text"])
    assert state["changed"] == ["Sources/App/Main.swift"]
    assert state["files"] == 6


def test_files_are_linked_where_the_client_asks(indexed: Client, project: Path) -> None:
    arguments = {"query": "handle_login", "path": str(project), "limit": 3}
    plain = indexed.raw.call("search_code", arguments)["result"]["content"]
    assert [block["type"] for block in plain] == ["text"]
    asked = indexed.raw.call("search_code", arguments, _meta={"refdesk/links": True})["result"]["content"]
    link = asked[1]
    assert link["type"] == "resource_link"
    assert (link["name"], link["mimeType"], link["uri"]) == (
        "tool.py", "text/x-python", (project / "tool.py").as_uri(),
    )  # fmt: skip
    assert "handle_login" in link["description"]
    assert link["annotations"]["audience"] == ["user", "assistant"]
    assert 0 <= link["annotations"]["priority"] <= 1


def test_documentation_gives_way_to_code_that_answers_too(client: Client, project: Path) -> None:
    for number in range(8):
        prose = f"# Ledger entries {number}\n\nA ledger entry is posted like this: post the ledger entry {number}.\n"
        code = f"def put_{number}(entry):\n    # Into the ledger.\n    return entry.book[{number}]\n"
        for name, text in (("docs/ledger{}.md", prose), ("books/ledger{}.py", code)):
            file = project / name.format(number)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    client.json("index_codebase", path=str(project))
    asked = {"query": "how is a ledger entry posted", "path": str(project), "limit": 16, "format": "json"}
    results = client.json("search_code", **asked)["results"]
    assert [one["path"].partition("/")[0] for one in results] == 8 * ["books"] + 8 * ["docs"]
    only = client.json("search_code", **asked, path_filter="docs/**")
    assert len(only["results"]) == 8


def test_a_file_is_one_hit_that_names_its_further_passages(client: Client, project: Path) -> None:
    body = "\n".join(f"    order.amount_{line} = order.total_{line} - order.fee_{line} * rate" for line in range(8))
    steps = [f'def refund_{n}(order, rate):\n    """Refunds part {n} of an order."""\n{body}\n' for n in range(4)]
    (project / "refunds.py").write_text("\n\n".join(steps))
    client.json("index_codebase", path=str(project))
    asked = {"query": "refund a part of an order", "path": str(project)}
    results = client.json("search_code", **asked, format="json")["results"]
    own = [one for one in results if one["path"] == "refunds.py"]
    assert len(own) == 1
    shown = {own[0]["symbols"][0], *(line.split()[1] for line in own[0]["more"])}
    assert shown == {f"refund_{n}" for n in range(4)}
    lines = (project / "refunds.py").read_text().splitlines()
    first, last = map(int, own[0]["more"][0].split()[0].split("-"))
    assert own[0]["more"][0].split()[1] in "\n".join(lines[first - 1 : last])
    assert "more: " in client.text("search_code", **asked, format="human")


def test_the_engine_chooses_the_blend_unless_a_weight_is_named(client: Client, project: Path, tmp_path: Path) -> None:
    client.json("index_codebase", path=str(project))
    asked = {"query": "how is a user logged in", "path": str(project), "format": "json"}
    with open_desk(settings_of(tmp_path / "library")) as desk:
        own = Filters(collections=(desk.collections()[0].name,))
        for given, alpha in (({}, None), ({"semantic_weight": 1.0}, 1.0), ({"semantic_weight": 0}, 0.0)):
            query = Query(text=asked["query"], filters=own, alpha=alpha, by="file", prefer="code")
            expected = [(hit.stored.document.path, round(100 * hit.score)) for hit in desk.search(query).hits]
            results = client.json("search_code", **asked, **given)["results"]
            assert [(one["path"], one["relevance_percent"]) for one in results][:10] == expected[: len(results)]
