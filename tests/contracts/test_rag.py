"""rag.md, line by line, through the real server."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from tests.contracts.conftest import Client, Serve, refdesk
from tests.mcp_client.stdio import StdioClient
from tests.scale.servers import library_argument
from tests.server.test_handshake import MODERN
from tests.swapping import swapping

ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
RUST = """use std::io;

/// Retries a call that failed, waiting longer each time.
async fn handle_error(&self, err: Error) -> Result<()> {
    match err {
        Error::Timeout => self.retry().await?,
        _ => return Err(err),
    }
    Ok(())
}

fn main() {
    println!("Hello");
}

fn main_loop(config: &Config) -> ! {
    loop { step(config); }
}
"""


def code(answer: str) -> str:
    value: str = json.loads(answer)["error"]["code"]
    assert json.loads(answer)["error"]["message"]
    return value


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "lib.rs").write_text(RUST)
    return folder


@pytest.fixture
def client(tmp_path: Path, work: Path, serve: Serve) -> Client:
    client = serve(tmp_path / "library", "--toolsets", "rag", "--allow-root", str(work))
    client.json("rag_create_collection", name="code", description="Source code files")
    return client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, serve_all: Serve) -> Client:
    """A server for tests that do not mind what others wrote."""
    client = serve_all(tmp_path_factory.mktemp("shared"), "--toolsets", "rag")
    client.json("rag_create_collection", name="code")
    return client


def ingest(client: Client, file: Path, **more: Any) -> dict[str, Any]:
    return client.json("rag_ingest", uri=file.as_uri(), collection="code", **more)


def test_hits_name_their_address_and_title_and_an_unknown_collection_how_to_make_it(
    tmp_path: Path, serve: Serve
) -> None:
    client = serve(tmp_path / "library", "--toolsets", "rag")
    refused = json.loads(client.error("rag_ingest", uri="data:text/markdown,x", collection="bees"))["error"]
    assert refused["code"] == "COLLECTION_NOT_FOUND" and "rag_create_collection" in refused["message"]
    client.json("rag_create_collection", name="bees")
    client.json("rag_ingest", uri="data:text/markdown,%23%20Bees%0A%0ABees%20dance.", collection="bees")
    hit = client.json("rag_search", query="bees dance")["results"][0]
    assert hit["title"] == "Bees" and hit["uri"].startswith("data:")


def test_the_tools_are_the_contracts_in_its_order(shared: Client) -> None:
    tools = shared.tools()
    assert list(tools) == [
        "rag_search",
        "rag_ingest",
        "rag_delete",
        "rag_list_collections",
        "rag_list_documents",
        "rag_create_collection",
        "rag_stats",
    ]
    for tool in tools.values():
        assert {"title", "description", "inputSchema", "outputSchema", "annotations", "icons"} <= set(tool)
    assert tools["rag_search"]["inputSchema"]["properties"]["top_k"] == {
        "type": "integer",
        "description": "Number of results to return",
        "default": 10,
        "minimum": 1,
        "maximum": 100,
    }
    assert tools["rag_ingest"]["execution"]["taskSupport"] == "optional"
    assert tools["rag_delete"]["annotations"]["destructiveHint"] is True
    assert tools["rag_search"]["annotations"]["readOnlyHint"] is True


def test_a_page_has_the_lines_of_its_file(client: Client, work: Path) -> None:
    page = "<html>\n<head><title>Keys</title></head>\n<body>\n\n\n<h1>Keys</h1>\n<p>The clavichord\nis struck.</p>\n"
    (work / "keys.html").write_text(page)
    ingest(client, work / "keys.html")
    (hit,) = client.json("rag_search", query="clavichord", hybrid=False)["results"]
    assert hit["metadata"]["lines"] == "6-8"
    resource = client.raw.request("resources/read", {"uri": f"rag://documents/{hit['source']}"})["result"]
    assert json.loads(resource["contents"][0]["text"])["chunks"][0]["lines"] == "6-8"


def test_a_page_beside_its_source_is_one_result(client: Client, work: Path) -> None:
    (work / "_sources").mkdir()
    (work / "keys.html").write_text("<main><h1>Keys</h1><p>The <b>clavichord</b> is struck.</p></main>")
    (work / "_sources" / "keys.rst.txt").write_text("Keys\n====\n\nThe clavichord is struck.\n")
    refdesk(work.parent / "library", "index", str(work), "--kind", "docs", "--name", "site")
    assert len(client.json("rag_search", query="clavichord", collection="site", hybrid=False)["results"]) == 1


def test_a_link_that_is_swapped_in_while_ingesting_leads_nowhere(client: Client, work: Path) -> None:
    (work.parent / "passwords.md").write_text("# Passwords\n\nxyzzyplugh\n")
    (work / "note.md").write_text("# Note\n\nharmless\n")
    with swapping(work / "note.md", work.parent / "passwords.md"):
        for _ in range(100):
            client.result("rag_ingest", uri=(work / "note.md").as_uri(), collection="code")
            assert client.json("rag_search", query="xyzzyplugh", hybrid=False)["results"] == []


def test_ingest_then_search_gives_exact_lines(client: Client, work: Path) -> None:
    added = ingest(client, work / "lib.rs")
    assert added["success"] is True
    assert ULID.fullmatch(added["doc_id"])
    assert (added["collection"], added["content_type"]) == ("code", "rust")
    assert added["source_uri"] == (work / "lib.rs").as_uri()
    found = client.json("rag_search", query="error handling in async functions", collection="code", top_k=5)
    best = found["results"][0]
    assert found["query"] == "error handling in async functions"
    assert found["total_results"] == len(found["results"])
    assert (best["rank"], best["source"], best["collection"]) == (1, added["doc_id"], "code")
    assert "handle_error" in best["content"]
    first, last = map(int, best["metadata"]["lines"].split("-"))
    assert best["content"].strip() == "\n".join(RUST.split("\n")[first - 1 : last]).strip()
    assert best["metadata"]["tokens"] > 0
    assert 0 < best["score"] <= 1


def test_keyword_only_finds_text_with_its_punctuation_first(client: Client, work: Path) -> None:
    ingest(client, work / "lib.rs")
    (work / "other.rs").write_text(
        "fn main_menu(items: &[Item]) -> usize {\n    items.iter().map(|i| i.width()).sum()\n}\n"
    )
    ingest(client, work / "other.rs")
    best = client.json("rag_search", query="fn main()", hybrid=False)["results"][0]
    assert "fn main()" in best["content"]


def test_unchanged_content_is_a_no_op_and_changed_content_updates_in_place(client: Client, work: Path) -> None:
    file = work / "lib.rs"
    first = ingest(client, file)
    listed = client.json("rag_list_documents", collection="code")["documents"][0]
    assert ingest(client, file) == first
    assert client.json("rag_list_documents", collection="code")["documents"] == [listed]
    file.write_text(RUST + "\nfn brand_new_thing() -> usize {\n    let answer = 42;\n    answer\n}\n")
    second = ingest(client, file)
    again = client.json("rag_list_documents", collection="code")["documents"][0]
    assert second["doc_id"] == first["doc_id"]
    assert second["chunks_created"] == first["chunks_created"] + 1
    assert again["created_at"] == listed["created_at"]
    assert again["updated_at"] > listed["updated_at"]
    assert client.json("rag_search", query="brand_new_thing")["results"][0]["source"] == first["doc_id"]


def test_data_uris_plain_and_base64(client: Client) -> None:
    plain = client.json(
        "rag_ingest", uri='data:,fn main() { println!("Hello"); }', collection="code", content_type="rust"
    )
    assert (plain["content_type"], plain["chunks_created"]) == ("rust", 1)
    packed = base64.b64encode("# Grüße\n\nhallo".encode()).decode()
    coded = client.json("rag_ingest", uri=f"data:text/markdown;base64,{packed}", collection="code")
    assert coded["content_type"] == "markdown"
    assert client.json("rag_search", query="Grüße", hybrid=False)["results"][0]["source"] == coded["doc_id"]


def test_near_duplicates_are_one_result_unless_the_query_tells_them_apart(client: Client) -> None:
    rule = "Every jar of marmalade must be labelled with its batch number and its date before it leaves kitchen"
    for number in range(5):
        client.json("rag_ingest", uri=f"data:,{rule} {number}.", collection="code")
    client.json("rag_ingest", uri="data:,Marmalade is made of oranges.", collection="code")
    result = client.result("rag_search", query="labelled marmalade", top_k=2)
    contents = [one["content"] for one in result["structuredContent"]["results"]]
    assert [text[:9] for text in contents] == ["Every jar", "Marmalade"]
    assert result["_meta"]["refdesk/notices"][0].startswith("4 results")
    named = client.json("rag_search", query="labelled marmalade kitchen 3", top_k=2)["results"]
    assert named[0]["content"].endswith("kitchen 3.")
    assert named[1]["content"].startswith("Every jar")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (RUST, "rust"),
        ("def f(a):\n    return a\n", "python"),
        ("interface A {\n  name: string;\n}\n", "typescript"),
        ("const a = (b) => b + 1;\n", "javascript"),
        ("package main\n\nfunc main() {}\n", "go"),
        ("public class A {\n  public static void main(String[] a) {}\n}\n", "java"),
        ("#include <vector>\nstd::vector<int> a;\n", "cpp"),
        ("# Title\n\nSome words.\n", "markdown"),
        ("<!doctype html><title>T</title><p>Some words.", "html"),
        ('{"a": [1, 2]}', "json"),
        ("name: a\njobs:\n  test: b\n", "yaml"),
        ("Just some words.", "plain_text"),
    ],
)
def test_every_content_type_is_known_by_content_alone(shared: Client, text: str, kind: str) -> None:
    answer = shared.json("rag_ingest", uri=f"data:,{quote(text)}", collection="code")
    assert answer["content_type"] == kind


def test_metadata_is_kept_as_given(client: Client, work: Path) -> None:
    metadata = {"team": "core", "priority": 3, "tags": ["a", "b"], "draft": False}
    added = ingest(client, work / "lib.rs", metadata=metadata)
    read = client.raw.request("resources/read", {"uri": f"rag://documents/{added['doc_id']}"})
    assert json.loads(read["result"]["contents"][0]["text"])["metadata"] == metadata


def test_a_folder_is_ingested_whole(client: Client, work: Path) -> None:
    (work / "sub").mkdir()
    (work / "sub/a.md").write_text("# A\n\nalpha\n")
    (work / "sub/b.py").write_text("def beta():\n    return 1\n")
    (work / "sub/c.bin").write_bytes(b"\x00\x01")
    result = client.result("rag_ingest", uri=(work / "sub").as_uri(), collection="code")
    assert json.loads(result["content"][0]["text"])["chunks_created"] == 2
    assert result["_meta"]["refdesk/documents"] == 2
    assert any("c.bin" in one for one in result["_meta"]["refdesk/skipped"])
    first = json.loads(result["content"][0]["text"])["doc_id"]
    (work / "sub/b.py").write_bytes(b"def beta():\n    return 2\n" * 50 + b"\xff")
    told = client.result("rag_ingest", uri=(work / "sub").as_uri(), collection="code")["content"]
    assert "note: b.py: 1 bytes are not UTF-8 and were replaced" in str(told)
    again = json.loads(told[0]["text"])
    (work / "sub/a.md").write_text("# A\n\nalpha and more\n")
    later = client.json("rag_ingest", uri=(work / "sub").as_uri(), collection="code")
    assert first == again["doc_id"] == later["doc_id"]


def test_list_delete_and_stats(client: Client, work: Path) -> None:
    for number in range(5):
        (work / f"n{number}.md").write_text(f"# N{number}\n\nnote number {number}\n")
        ingest(client, work / f"n{number}.md")
    page = client.json("rag_list_documents", collection="code", limit=2, offset=4)
    assert (page["count"], page["offset"], page["limit"], page["total"]) == (1, 4, 2, 5)
    victim = page["documents"][0]
    gone = client.json("rag_delete", doc_id=victim["id"])
    assert gone == {
        "success": True,
        "deleted_doc_id": victim["id"],
        "source_uri": victim["source_uri"],
        "collection": "code",
    }
    stats = client.json("rag_stats")
    assert (stats["collections"], stats["documents"], stats["chunks"], stats["embeddings"]) == (1, 4, 4, 4)
    assert stats["storage_bytes"] > 10_000
    assert "filter" not in stats
    assert client.json("rag_stats", collection="code")["filter"] == "code"


def test_collections_are_listed_with_milliseconds(client: Client) -> None:
    listed = client.json("rag_list_collections")
    assert listed["total"] == 1
    assert listed["collections"][0]["name"] == "code"
    assert listed["collections"][0]["description"] == "Source code files"
    assert listed["collections"][0]["created_at"] > 1_700_000_000_000


def test_the_three_resources(client: Client, work: Path) -> None:
    added = ingest(client, work / "lib.rs")

    def read(uri: str) -> Any:
        contents = client.raw.request("resources/read", {"uri": uri})["result"]["contents"][0]
        assert contents["mimeType"] == "application/json"
        return json.loads(contents["text"])

    (one,) = read("rag://collections")
    assert (one["name"], one["documents"], one["chunks"]) == ("code", 1, added["chunks_created"])
    whole = read("rag://collections/code")
    assert whole["settings"] == {
        "chunking": {"max_tokens": 512, "min_tokens": 50, "overlap_tokens": 0},
        "search": {"top_k": 10, "hybrid": True, "hybrid_alpha": 0.5},
    }
    assert whole["documents"] == [{"id": added["doc_id"], "source_uri": added["source_uri"], "content_type": "Rust"}]
    document = read(f"rag://documents/{added['doc_id']}")
    assert document["raw_content"] == RUST
    assert [chunk["index"] for chunk in document["chunks"]] == list(range(added["chunks_created"]))
    assert all(ULID.fullmatch(chunk["id"]) for chunk in document["chunks"])


@pytest.mark.parametrize("uri", ["rag://collections/nope", "rag://documents/01ARZ3NDEKTSV4RRFFQ69G5FAV", "rag://x"])
def test_an_unknown_resource_is_the_protocols_error(shared: Client, uri: str) -> None:
    assert shared.raw.request("resources/read", {"uri": uri})["error"]["code"] == -32002


def test_a_large_collection_pages(client: Client, work: Path) -> None:
    for number in range(205):
        (work / f"n{number:03}.md").write_text(f"# N{number}\n\nnote number {number}\n")
    client.json("rag_ingest", uri=work.as_uri(), collection="code")
    contents = client.raw.request("resources/read", {"uri": "rag://collections/code"})["result"]["contents"][0]
    first = json.loads(contents["text"])
    assert len(first["documents"]) < 206
    contents = client.raw.request("resources/read", {"uri": first["next"]})["result"]["contents"][0]
    rest = json.loads(contents["text"])
    assert len(first["documents"]) + len(rest["documents"]) == first["total_documents"] == 206


def test_names_and_ids_are_completed(client: Client, work: Path) -> None:
    added = ingest(client, work / "lib.rs")

    def complete(template: str, argument: str, value: str) -> list[str]:
        answer = client.raw.request(
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": argument, "value": value}},
        )
        values: list[str] = answer["result"]["completion"]["values"]
        return values

    assert complete("rag://collections/{name}", "name", "co") == ["code"]
    assert complete("rag://documents/{id}", "id", added["doc_id"][:5]) == [added["doc_id"]]


def test_every_id_is_completed_and_counted(client: Client, work: Path) -> None:
    for number in range(1100):
        (work / f"{number}.txt").write_text(f"note {number}")
    client.json("rag_ingest", uri=work.as_uri(), collection="code")
    last = client.json("rag_list_documents", collection="code", limit=1, offset=1100)["documents"][0]["id"]

    def complete(value: str) -> dict[str, Any]:
        argument = {"name": "id", "value": value}
        ref = {"type": "ref/resource", "uri": "rag://documents/{id}"}
        answer = client.raw.request("completion/complete", {"ref": ref, "argument": argument})
        completion: dict[str, Any] = answer["result"]["completion"]
        return completion

    assert last in complete(last[:25].lower())["values"]
    everything = complete("")
    assert (len(everything["values"]), everything["total"], everything["hasMore"]) == (100, 1101, True)


def test_who_follows_a_document_is_told_when_its_folder_is_ingested_again(client: Client, work: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (work / name).write_text(f"# {name}\n")
    client.json("rag_ingest", uri=work.as_uri(), collection="code")
    listed = client.json("rag_list_documents", collection="code")["documents"]
    ids = {Path(one["source_uri"]).name: one["id"] for one in listed}
    for one in ids.values():
        client.raw.request("resources/subscribe", {"uri": f"rag://documents/{one}"})
    (work / "b.md").write_text("# b, changed\n")
    (work / "c.md").write_text("# c, changed\n")
    client.json("rag_ingest", uri=work.as_uri(), collection="code")
    told = {client.raw.notification("notifications/resources/updated")["params"]["uri"] for _ in range(2)}
    assert told == {f"rag://documents/{ids[name]}" for name in ("b.md", "c.md")}


@pytest.mark.parametrize("offset", ["-1", "x", "\u00b2", ""])
def test_a_bad_page_of_a_collection_is_a_bad_argument(shared: Client, offset: str) -> None:
    answer = shared.raw.request("resources/read", {"uri": f"rag://collections/code?offset={offset}"})
    assert answer["error"]["code"] == -32602
    assert "offset" in answer["error"]["message"]


def test_an_offset_beyond_all_documents_is_an_empty_page(shared: Client) -> None:
    listed = shared.json("rag_list_documents", collection="code", offset=10**30)
    assert (listed["documents"], listed["count"]) == ([], 0)


def test_subscribers_are_told_of_what_another_process_writes(client: Client, work: Path, tmp_path: Path) -> None:
    client.raw.notification("notifications/resources/list_changed")  # of code
    client.raw.request("resources/subscribe", {"uri": "rag://collections/code"})
    (work / "note.md").write_text("# Note\n")
    refdesk(tmp_path / "library", "ingest", str(work / "note.md"), "--collection", "code")
    told = client.raw.notification("notifications/resources/updated")
    assert told["params"]["uri"] == "rag://collections/code"
    assert not client.raw.notifications("notifications/resources/list_changed")
    refdesk(tmp_path / "library", "index", str(work), "--kind", "files", "--name", "second")
    client.raw.notification("notifications/resources/list_changed")
    listed = client.raw.request("resources/list")["result"]["resources"]
    assert "rag://collections/second" in {one["uri"] for one in listed}


def test_subscribers_of_a_document_are_told_of_what_another_process_does_to_it(
    client: Client, work: Path, tmp_path: Path
) -> None:
    library, note = tmp_path / "library", work / "note.md"
    note.write_text("# Note\n\nFirst words.\n\n## More\n\nOther words.\n")
    refdesk(library, "ingest", str(note), "--collection", "code")
    (one,) = client.json("rag_list_documents", collection="code")["documents"]
    uri = f"rag://documents/{one['id']}"
    client.raw.request("resources/subscribe", {"uri": uri})
    with StdioClient([sys.executable, "-m", "refdesk", "--library", library_argument(library), "serve"]) as modern:
        wanted = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": MODERN}
        modern.start("subscriptions/listen", wanted)
        modern.notification("notifications/subscriptions/acknowledged")
        modern.request("resources/read", {"uri": uri, "_meta": MODERN})
        note.write_text("# Note\n\nFirst words.\n")
        refdesk(library, "ingest", str(note), "--collection", "code")
        for each in (client.raw, modern):
            assert each.notification("notifications/resources/updated")["params"]["uri"] == uri


def test_subscribers_are_told(client: Client, work: Path) -> None:
    client.raw.request("resources/subscribe", {"uri": "rag://collections/code"})
    ingest(client, work / "lib.rs")
    told = client.raw.notification("notifications/resources/updated")
    assert told["params"]["uri"] == "rag://collections/code"
    client.json("rag_create_collection", name="second")
    client.raw.notification("notifications/resources/list_changed")


# --- every error code ---------------------------------------------------------------------------


def test_document_not_found(shared: Client) -> None:
    assert code(shared.error("rag_delete", doc_id="01HRE4KXQN8Z3J2X5Y7A9B4C6D")) == "DOCUMENT_NOT_FOUND"


def test_collection_not_found(shared: Client) -> None:
    for tool, arguments in (
        ("rag_search", {"query": "x", "collection": "nope"}),
        ("rag_ingest", {"uri": "data:,x", "collection": "nope"}),
        ("rag_list_documents", {"collection": "nope"}),
        ("rag_stats", {"collection": "nope"}),
    ):
        assert code(shared.error(tool, **arguments)) == "COLLECTION_NOT_FOUND"


def test_collection_exists(shared: Client) -> None:
    assert code(shared.error("rag_create_collection", name="code")) == "COLLECTION_EXISTS"


def test_invalid_argument(shared: Client) -> None:
    for tool, arguments in (
        ("rag_search", {}),
        ("rag_search", {"query": " "}),
        ("rag_search", {"query": "x", "top_k": 0}),
        ("rag_search", {"query": "x", "top_k": 101}),
        ("rag_search", {"query": "x", "colection": "code"}),
        ("rag_create_collection", {"name": "no blanks"}),
        ("rag_ingest", {"uri": "data:,x", "collection": "code", "content_type": "cobol"}),
        ("rag_list_documents", {"collection": "code", "limit": 1001}),
        ("rag_list_documents", {"collection": "code", "offset": -1}),
    ):
        assert code(shared.error(tool, **arguments)) == "INVALID_ARGUMENT", (tool, arguments)


@pytest.mark.parametrize(
    "uri",
    [
        "nonsense",
        "ftp://example.org/x",
        "file:///etc/passwd",
        "https://127.0.0.1/x",
        "http://localhost:9/x",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/x",
        "https://[::1]/x",
        "data:;base64,%%%",
    ],
)
def test_invalid_uri(shared: Client, uri: str) -> None:
    assert code(shared.error("rag_ingest", uri=uri, collection="code")) == "INVALID_URI"


def test_load_failed(client: Client, work: Path) -> None:
    (work / "blob.rs").write_bytes(b"\x00\x01\x02" * 100)
    for uri in ((work / "missing.rs").as_uri(), (work / "blob.rs").as_uri()):
        assert code(client.error("rag_ingest", uri=uri, collection="code")) == "LOAD_FAILED"


def test_text_too_long(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    monkeypatch.setenv("REFDESK_MAX_FETCH_BYTES", "100")
    monkeypatch.setenv("REFDESK_MAX_FILE_BYTES", "100")
    client = serve(tmp_path / "library", "--toolsets", "rag", "--allow-root", str(work))
    client.json("rag_create_collection", name="code")
    for uri in ("data:," + "x" * 200, (work / "lib.rs").as_uri()):
        assert code(client.error("rag_ingest", uri=uri, collection="code")) == "TEXT_TOO_LONG"


@pytest.mark.folder
def test_database_error_on_a_damaged_library(tmp_path: Path, serve: Serve) -> None:
    library = tmp_path / "library"
    refdesk(library, "collections")
    for file in library.rglob("*"):
        if file.is_file() and file.suffix == ".db":
            file.write_bytes(b"this is no database" * 1000)
        elif file.is_file():
            file.unlink()
    client = serve(library, "--toolsets", "rag")
    assert code(client.error("rag_list_collections")) == "DATABASE_ERROR"


FULL_DISK = """
import resource, runpy, signal, sys
most = int(sys.argv.pop(1))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write over the limit fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
runpy.run_module("refdesk", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits there")
@pytest.mark.folder
def test_database_error_on_a_full_disk_and_nothing_is_lost(tmp_path: Path, serve: Serve) -> None:
    library = tmp_path / "library"
    large = "data:," + "%20".join(f"word{number}%20is%20written" for number in range(30_000))
    first = serve(library, "--toolsets", "rag")
    first.json("rag_create_collection", name="notes", description="Small notes")
    first.json("rag_ingest", uri="data:,The%20marimba%20is%20in%20tune.", collection="notes")
    room = max(file.stat().st_size for file in library.rglob("*") if file.is_file()) + 200_000
    command = [sys.executable, "-c", FULL_DISK, str(room), "--library", str(library), "serve", "--toolsets", "rag"]
    with StdioClient(command) as raw:
        raw.initialize()
        client = Client(raw)
        assert code(client.error("rag_ingest", uri=large, collection="notes")) == "DATABASE_ERROR"
        found = client.json("rag_search", query="marimba", collection="notes")["results"]
        assert [one["content"] for one in found] == ["The marimba is in tune."]
    after = serve(library, "--toolsets", "rag")
    assert after.json("rag_stats", collection="notes")["documents"] == 1
    assert after.json("rag_ingest", uri=large, collection="notes")["chunks_created"] > 10
    assert after.json("rag_search", query="word29999", collection="notes")["results"]


@pytest.fixture
def loopback(tmp_path: Path) -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("location", "http://169.254.169.254/latest")
                self.end_headers()
                return
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(
                b"<html><head><title>Harps</title></head><body><nav>Menu Home</nav><main><h1>Harps</h1>"
                b"<p>A harp has strings of gut, and many of them.</p></main></body></html>"
            )

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_an_allowed_host_is_fetched_cleaned_and_its_redirects_checked(
    tmp_path: Path, serve: Serve, loopback: str
) -> None:
    client = serve(tmp_path / "library", "--toolsets", "rag", "--allow-host", "127.0.0.1")
    client.json("rag_create_collection", name="web")
    added = client.json("rag_ingest", uri=f"{loopback}/page", collection="web")
    assert added["content_type"] == "html"
    best = client.json("rag_search", query="what is a harp strung with")["results"][0]
    assert "strings of gut" in best["content"]
    assert "Menu" not in best["content"]
    assert code(client.error("rag_ingest", uri=f"{loopback}/gone", collection="web")) == "LOAD_FAILED"
    assert code(client.error("rag_ingest", uri=f"{loopback}/elsewhere", collection="web")) == "INVALID_URI"


def test_embedding_error_when_the_remote_embedder_is_down(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFDESK_EMBEDDER", "remote")
    monkeypatch.setenv("REFDESK_EMBEDDER_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("REFDESK_EMBEDDER_MODEL", "m")
    client = serve(tmp_path / "library", "--toolsets", "rag")
    client.json("rag_create_collection", name="code")
    assert code(client.error("rag_ingest", uri="data:,x y z", collection="code")) == "EMBEDDING_ERROR"
    assert client.json("rag_stats")["documents"] == 0


def test_the_working_directory_and_the_clients_roots_are_allowed(tmp_path: Path) -> None:
    cwd, root = tmp_path / "cwd", tmp_path / "root"
    for folder in (cwd, root):
        folder.mkdir()
        (folder / "note.md").write_text(f"# Note\n\nin {folder.name}\n")
    command = [
        sys.executable,
        "-m",
        "refdesk",
        "--library",
        library_argument(tmp_path / "library"),
        "serve",
        "--toolsets",
        "rag",
    ]
    before = Path.cwd()
    os.chdir(cwd)
    try:
        raw = StdioClient(command, {"roots/list": lambda _: {"roots": [{"uri": root.as_uri()}]}})
    finally:
        os.chdir(before)
    with raw:
        raw.initialize(capabilities={"roots": {}})
        client = Client(raw)
        client.json("rag_create_collection", name="code")
        for folder in (cwd, root):
            assert ingest(client, folder / "note.md")["chunks_created"] == 1
        (tmp_path / "outside.md").write_text("# Out\n\nside\n")
        assert (
            code(client.error("rag_ingest", uri=(tmp_path / "outside.md").as_uri(), collection="code")) == "INVALID_URI"
        )


def test_a_server_started_in_the_root_or_the_home_folder_reads_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    project.mkdir(parents=True)
    for folder in (home, project):
        (folder / "note.md").write_text("# Note\n\nof mine\n")
    monkeypatch.setenv("HOME", str(home))
    command = [
        sys.executable,
        "-m",
        "refdesk",
        "--library",
        str(tmp_path / "library"),
        "serve",
        "--toolsets",
        "rag,code",
    ]
    for cwd, offered in (("/", [home, project]), (home, [Path("/"), Path("/etc"), project])):
        monkeypatch.chdir(cwd)
        roots = [{"uri": root.as_uri()} for root in offered]
        with StdioClient(command, {"roots/list": lambda _, roots=roots: {"roots": roots}}) as raw:
            raw.initialize(capabilities={"roots": {}})
            client = Client(raw)
            client.result("rag_create_collection", name="code")
            for file in (Path("/etc/hostname"), Path("/etc/shadow"), home / "note.md"):
                refused = client.error("rag_ingest", uri=file.as_uri(), collection="code")
                assert code(refused) == "INVALID_URI"
                assert "is refused" in refused
                assert "--allow-root" not in refused
            for folder in ("/etc", str(home)):
                assert "a folder of the system" in client.error("index_codebase", path=folder)
            assert ingest(client, project / "note.md")["chunks_created"] == 1
            assert client.json("index_codebase", path=str(project))["files"] == 1


def test_secrets_inside_a_root_are_refused_unless_they_are_named(tmp_path: Path, work: Path, serve: Serve) -> None:
    (work / ".ssh").mkdir()
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nxyzzyplugh\n"
    texts = {".env": "TOKEN=xyzzyplugh", ".ssh/id_rsa": key, "server.key": key, "deploy.txt": key, "id_ed25519": key}
    for name, text in texts.items():
        (work / name).write_text(text)
    (work / "plain.md").symlink_to(".env")
    (work / ".env.example").write_text("TOKEN=yours\n")
    allowed = ("--toolsets", "rag,code", "--allow-root", str(work))
    client = serve(tmp_path / "library", *allowed)
    client.json("rag_create_collection", name="code")
    for name in (*texts, "plain.md"):
        refused = client.error("rag_ingest", uri=(work / name).as_uri(), collection="code")
        assert code(refused) == "INVALID_URI", name
        assert "--allow-secret" in refused
    assert ingest(client, work / ".env.example")["chunks_created"] == 1
    skipped = client.result("rag_ingest", uri=work.as_uri(), collection="code")["_meta"]["refdesk/skipped"]
    assert any(one.startswith("deploy.txt: holds secrets: a private key") for one in skipped)
    told = client.json("index_codebase", path=str(work))
    assert {"deploy.txt", "id_ed25519", ".env"} <= {one["path"] for one in told["skipped_files"]}
    assert client.json("rag_search", query="xyzzyplugh", hybrid=False)["results"] == []
    named = serve(tmp_path / "library", *allowed, "--allow-secret", ".env", "--allow-secret", "*/deploy.txt")
    for name in (".env", "deploy.txt"):
        assert ingest(named, work / name)["chunks_created"] == 1
    assert code(named.error("rag_ingest", uri=(work / "id_ed25519").as_uri(), collection="code")) == "INVALID_URI"


def test_rag_ingest_runs_as_a_task(client: Client, work: Path) -> None:
    answer = client.raw.call(
        "rag_ingest", {"uri": (work / "lib.rs").as_uri(), "collection": "code"}, task={"ttl": 60000}
    )
    task = answer["result"]["task"]
    assert task["status"] in ("working", "completed")
    result = client.raw.request("tasks/result", {"taskId": task["taskId"]})["result"]
    assert result["structuredContent"]["success"] is True
