"""The pages contract, through the real server, over a site that was really crawled."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refdesk.app import open_desk
from refdesk.crawl.crawler import crawl
from refdesk.crawl.model import crawl_options
from refdesk.model import Content, EmbedderIdentity
from refdesk.store.local import LocalStore
from refdesk.text.tokens import count
from tests.contracts.conftest import Client
from tests.e2e.docsite.server import Reply, Site, page
from tests.mcp_client.http import HttpClient, HttpServer
from tests.mcp_client.stdio import StdioClient, environment
from tests.scale.servers import library_argument, settings_of
from tests.unit.parse.test_office import pdf

READ_ON = 'Use qurio_read_page(url="...") to read the full content of any result.'
TOOLS = ["qurio_search", "qurio_list_sources", "qurio_list_pages", "qurio_read_page"]
MANY = 430
EMBEDDER = "static"


class Shelf:
    """A library on disk, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.root = ""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    made = Shelf(tmp_path_factory.mktemp("pages") / "library")
    go = "\n\n".join(
        f"func Retry{n}(ctx context.Context) error {{\n\tfor n := 0; n < {n}; n++ {{\n\t\tdial(ctx, n)\n\t}}\n"
        "\treturn nil\n}"
        for n in range(12)
    )
    code = f"<pre><code class='language-go'>{go}</code></pre>"
    with (
        Site() as site,
        open_desk(replace(settings_of(made.folder), embedder=EMBEDDER, workers=1, allow_hosts=(site.address,))) as desk,
    ):
        made.root = site.root
        site.routes |= {
            "/": page("Start", "<h1>Start</h1><p>Everything about the lantern queue.</p>"
                      "<a href='/retries'>r</a><a href='/leases'>l</a><a href='/long'>x</a>"
                      "<a href='/b%C3%BCcher'>b</a><a href='/old'>o</a>"),
            "/retries": page("Retries", "<h1>Retries</h1><p>A failed job waits with exponential backoff before it is "
                             f"tried again. Error LF-1042 means that its lease lapsed.</p><h2>In Go</h2>{code}"),
            "/leases": page("Leases", "<h1>Leases</h1><p>A lease says which worker owns a job until when. Heartbeats "
                            "renew it; whoever stops breathing loses the work.</p>",
                            "<meta name='author' content='Ada'>"),
            "/old": Reply(status=301, headers={"Location": "/older"}),
            "/older": Reply(status=302, headers={"Location": "/leases"}),
            "/b%C3%BCcher": page("Bücher", "<h1>Bücher</h1><p>Über Laternen und Fische.</p>"),
            "/long": Reply(_long().encode(), content_type="text/markdown"),
        }  # fmt: skip
        crawl(desk, crawl_options(site.root, delay_s=0.0, browser=False), name="lantern", description="a job queue")
        many = desk.create_collection("many", "files")
        texts = [
            Content(uri=f"file:///notes/{n:04}.md", path=f"{n:04}.md", data=f"# Note {n}\n\nThe number {n}.".encode())
            for n in range(MANY)
        ]
        desk.add(many, texts)
        desk.create_collection("empty", "files")
        made.ids = {one.name: one.id for one in desk.collections()}
        made.texts = {one.uri: desk.raw(one.id) for one in desk.documents("lantern", 100, 0)}
    return made


def _long() -> str:
    parts = [f"## Part {n}\n\n" + f"The {n}th chapter says a great deal, at length. " * 60 for n in range(80)]
    return "# The long page\n\n" + "\n\n".join(parts) + "\n\nThe very last words."


def server(library: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "refdesk", "--library", library_argument(library), "--embedder", EMBEDDER, "serve"]
    return [*command, "--toolsets", "pages", *options]


@pytest.fixture(scope="module")
def client(shelf: Shelf) -> Iterator[Client]:
    with StdioClient(server(shelf.folder)) as raw:
        raw.initialize()
        yield Client(raw)


def refused(client: Client, tool: str, /, **arguments: Any) -> str:
    """The message of a -32602."""
    answer = client.raw.call(tool, arguments)
    assert answer["error"]["code"] == -32602, answer
    message: str = answer["error"]["message"]
    return message


def test_the_tools_as_listed(client: Client) -> None:
    tools = client.tools()
    assert list(tools) == TOOLS
    for tool in tools.values():
        assert tool["title"] and tool["description"] and tool["icons"]
        assert tool["annotations"]["readOnlyHint"] is True
        assert "outputSchema" not in tool
        assert tool["inputSchema"]["additionalProperties"] is False
    search = tools["qurio_search"]["inputSchema"]
    assert list(search["properties"]) == ["query", "alpha", "limit", "source_id", "filters"]
    assert search["required"] == ["query"]
    assert (search["properties"]["alpha"]["default"], search["properties"]["limit"]["default"]) == (0.5, 10)


def test_a_search_shows_what_the_contract_names(client: Client, shelf: Shelf) -> None:
    result = client.result("qurio_search", query="exponential backoff of a failed job")
    assert "structuredContent" not in result
    text = result["content"][0]["text"]
    first = text.split("\n\n---\n\n")[0]
    assert first.startswith("Result 1:\nTitle: Retries\nType: prose\nLanguage: markdown\n")
    assert f"SourceID: {shelf.ids['lantern']}\nURL: {shelf.root}retries\nContent:\n" in first
    assert "exponential backoff" in first
    assert text.endswith(READ_ON)
    assert client.text("qurio_read_page", url=f"{shelf.root}retries") == shelf.texts[f"{shelf.root}retries"]


@pytest.mark.parametrize("alpha", [0, 0.3, 0.5, 1.0])
def test_alpha_balances(client: Client, alpha: float) -> None:
    text = client.text("qurio_search", query="which worker owns the job", alpha=alpha, limit=1)
    assert "Title: Leases" in text and "Result 2:" not in text


def test_limits_hold(client: Client) -> None:
    assert client.text("qurio_search", query="number", limit=3).count("Result ") == 3
    shown = client.text("qurio_search", query="number", limit=50).count("Result ")
    assert 36 <= shown <= 50  # within 4,000 tokens, of which random ids take more or fewer
    assert client.text("qurio_search", query="number").count("Result ") == 10


def test_filters_and_sources(client: Client, shelf: Shelf) -> None:
    code = client.text("qurio_search", query="retry dial", filters={"type": "code"})
    assert set(re.findall(r"^Type: (\w+)", code, re.MULTILINE)) == {"code"}
    go = client.text("qurio_search", query="retry dial", filters={"language": "go"})
    assert set(re.findall(r"^Language: (\w+)", go, re.MULTILINE)) == {"go"}
    ada = client.text("qurio_search", query="job", filters={"author": "Ada"})
    assert set(re.findall(r"^Title: (\w+)", ada, re.MULTILINE)) == {"Leases"}
    for source in (shelf.ids["many"], "many"):
        found = client.text("qurio_search", query="number 17", source_id=source)
        assert set(re.findall(r"^SourceID: (\w+)", found, re.MULTILINE)) == {shelf.ids["many"]}
    assert client.text("qurio_search", query="zzxqy", filters={"author": "Ada"}, alpha=0) == "No results found."


def test_unknown_filters_name_the_known_ones(client: Client) -> None:
    said = refused(client, "qurio_search", query="job", filters={"autor": "Ada"})
    assert "autor" in said and "type, language" in said and "author" in said
    said = refused(client, "qurio_search", query="job", filters={"author": "Bob"})
    assert "Bob" in said and "Ada" in said
    said = refused(client, "qurio_search", query="job", filters={"type": "novel"})
    assert "prose, code, api, config, cmd" in said
    said = refused(client, "qurio_search", query="job", filters={"language": "klingon"})
    assert "klingon" in said and "go" in said and "markdown" in said
    said = refused(client, "qurio_search", query="job", source_id="nowhere")
    assert "nowhere" in said and "lantern" in said


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("qurio_search", {}, "query"),
        ("qurio_search", {"query": ""}, "query"),
        ("qurio_search", {"query": "  "}, "query"),
        ("qurio_search", {"query": "x", "alpha": 1.5}, "alpha"),
        ("qurio_search", {"query": "x", "alpha": "high"}, "alpha"),
        ("qurio_search", {"query": "x", "limit": 51}, "limit"),
        ("qurio_search", {"query": "x", "limit": 0}, "limit"),
        ("qurio_search", {"query": "x", "filters": {"type": 3}}, "filters"),
        ("qurio_search", {"query": "x", "source": "y"}, "source"),
        ("qurio_list_sources", {"page": 1}, "page"),
        ("qurio_list_pages", {}, "source_id"),
        ("qurio_read_page", {"uri": "x"}, "ur"),
    ],
)
def test_bad_arguments_are_32602(client: Client, tool: str, arguments: dict[str, Any], named: str) -> None:
    assert named in refused(client, tool, **arguments)


def test_sources_are_all_collections(client: Client, shelf: Shelf) -> None:
    text = client.text("qurio_list_sources")
    for name, kind in (("lantern", "web"), ("many", "files"), ("empty", "files")):
        assert f"ID: {shelf.ids[name]}, Name: {name}, Type: {kind}" in text


def test_pages_are_listed_whole_over_several_answers(client: Client, shelf: Shelf) -> None:
    few = client.text("qurio_list_pages", source_id=shelf.ids["lantern"])
    assert set(re.findall(r"URL: (\S+)", few)) == set(shelf.texts)
    assert "more pages" not in few
    seen: list[str] = []
    source: str | None = shelf.ids["many"]
    while source:
        text = client.text("qurio_list_pages", source_id=source)
        seen += re.findall(r"^- ID: \w+, URL: (\S+)$", text, re.MULTILINE)
        onward = re.search(r'more pages: use qurio_list_pages\(source_id="([^"]+)"\)', text.splitlines()[-1])
        source = onward[1] if onward else None
    assert seen == [f"file:///notes/{n:04}.md" for n in range(MANY)]
    assert str(MANY) in refused(client, "qurio_list_pages", source_id=f"{shelf.ids['many']}#offset={MANY}")


def test_empty_answers(client: Client, shelf: Shelf, tmp_path: Path) -> None:
    assert client.text("qurio_search", query="zzxqy", alpha=0) == "No results found."
    assert client.text("qurio_list_pages", source_id=shelf.ids["empty"]) == "No pages found for source."
    assert client.text("qurio_list_pages", source_id="nowhere") == "No pages found for source."
    assert client.text("qurio_read_page", url="https://nowhere.invalid/") == "No content found for URL."
    with StdioClient(server(tmp_path / "fresh")) as raw:
        raw.initialize()
        fresh = Client(raw)
        assert fresh.text("qurio_list_sources") == "No sources found."
        assert fresh.text("qurio_search", query="anything") == "No results found."


def test_a_long_page_comes_in_parts_that_make_it_whole(client: Client, shelf: Shelf) -> None:
    url = f"{shelf.root}long"
    first = client.text("qurio_read_page", url=url)
    told = re.match(r"\[Part 1 of (\d+) of (\S+): .*qurio_read_page\(url=\"([^\"]+#part=2)\"\)", first)
    assert told and told[2] == url and told[3] == f"{url}#part=2"
    total = int(told[1])
    assert total >= 2
    answers = [client.text("qurio_read_page", url=f"{url}#part={n}") for n in range(1, total + 1)]
    assert answers[0] == first
    assert all(count(answer) < 25_000 for answer in answers)
    assert "".join(answer.partition("]\n\n")[2] for answer in answers) == shelf.texts[url]
    assert "last part" in answers[-1].splitlines()[0] and answers[-1].rstrip().endswith("The very last words.")
    assert str(total) in refused(client, "qurio_read_page", url=f"{url}#part={total + 1}")
    assert "There is no #part=0" in refused(client, "qurio_read_page", url=f"{url}#part=0")


def test_a_page_is_found_by_near_addresses(client: Client, shelf: Shelf) -> None:
    whole = shelf.texts[f"{shelf.root}leases"]
    for near in ("leases#top", "leases/", "leases?utm_source=x", "old", "older"):
        assert client.text("qurio_read_page", url=shelf.root + near) == whole
    assert "Laternen" in client.text("qurio_read_page", url=f"{shelf.root}bücher")
    assert client.text("qurio_read_page", url="file:///notes/0007.md") == "# Note 7\n\nThe number 7."


@pytest.mark.folder
def test_correlation_ids_go_through(shelf: Shelf, tmp_path: Path) -> None:
    """The library's vectors are another model's: keywords still work, the rest fails with the caller's own id."""
    other = tmp_path / "other"
    with open_desk(replace(settings_of(shelf.folder), embedder="none")) as desk:
        assert isinstance(desk._store, LocalStore)
        desk._store.backup(other)
    with open_desk(replace(settings_of(other), embedder="none")) as desk:
        desk._store.set_embedder_identity(EmbedderIdentity("another", "1", 8))
    with StdioClient(server(other)) as raw:
        raw.initialize()
        words = raw.call("qurio_search", {"query": "LF-1042", "alpha": 0}, _meta={"correlationId": "trace-1"})
        assert "Title: Retries" in words["result"]["content"][0]["text"]
        error = raw.call("qurio_search", {"query": "LF-1042"}, _meta={"correlationId": "trace-2"})["error"]
        assert error["code"] == -32603 and error["data"]["correlationId"] == "trace-2"
        assert "reembed" in error["message"]
        made = raw.call("qurio_search", {"query": "LF-1042"})["error"]["data"]["correlationId"]
        assert made and made != "trace-2"
        raw.end()
    lines = [json.loads(line) for line in raw.log if line.startswith("{")]
    of_calls = [line for line in lines if "qurio_search" in line["message"]]
    assert list(dict.fromkeys(line["correlation_id"] for line in of_calls)) == ["trace-1", "trace-2", made]


def test_a_folder_of_files_is_a_source(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    folder, library = tmp_path / "papers", tmp_path / "library"
    (folder / "sub").mkdir(parents=True)
    html = page("Fish", "<nav>Menu</nav><h1>Fish</h1><p>Saved from the web: the oarfish swims upright.</p>").body
    (folder / "sub" / "saved page.html").write_bytes(html)
    (folder / "report.pdf").write_bytes(pdf(["The anglerfish is fed twice a day."]))
    minutes = pytest.importorskip("docx").Document()
    minutes.add_paragraph("We bought a lantern.")
    minutes.save(folder / "minutes.docx")
    refdesk = [sys.executable, "-m", "refdesk", "--library", library_argument(library), "--embedder", "none"]
    index = [*refdesk, "index", str(folder), "--kind", "files", "--name", "papers"]
    subprocess.run(index, env=environment(), check=True, capture_output=True)
    with StdioClient([*refdesk, "serve", "--toolsets", "pages"]) as raw:
        raw.initialize()
        client = Client(raw)
        source = re.findall(r"ID: (\w+), Name: papers, Type: files", client.text("qurio_list_sources"))[0]
        urls = re.findall(r"URL: (file:\S+)", client.text("qurio_list_pages", source_id=source))
        assert len(urls) == 3
        said = " ".join(client.text("qurio_read_page", url=url) for url in urls)
        for words in ("# Fish", "oarfish swims upright", "anglerfish is fed twice a day", "We bought a lantern"):
            assert words in said
        assert "Menu" not in said
        assert "report.pdf" in client.text("qurio_search", query="anglerfish", alpha=0)


def test_the_same_over_http(client: Client, shelf: Shelf) -> None:
    options = server(shelf.folder, "--transport", "http", "--port", "0")[2:]
    with HttpServer(Path("-m"), *options) as served, HttpClient(served.url) as web:
        web.initialize()
        assert [tool["name"] for tool in web.request("tools/list")["result"]["tools"]] == TOOLS
        for tool, arguments in (
            ("qurio_search", {"query": "lease", "filters": {"author": "Ada"}}),
            ("qurio_list_sources", {}),
            ("qurio_list_pages", {"source_id": "lantern"}),
            ("qurio_read_page", {"url": f"{shelf.root}long#part=2"}),
        ):
            assert web.call(tool, arguments)["result"] == client.result(tool, **arguments)
        error = web.call("qurio_search", {"query": "x", "limit": 99})["error"]
        assert error["code"] == -32602 and "limit" in error["message"]
