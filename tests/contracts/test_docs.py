"""docs.md, line by line, through the real server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.contracts.conftest import Client, Serve, refdesk

RETRIES = """---
metadata:
  language: typescript
  scope: sdk-specific
---
# Retries
This guide explains how to configure retries.

## Backoff Strategy
The SDK uses an exponential backoff between attempts.

```ts
const client = new Client({ retries: 5 });
# not a heading
```

## Jitter
To prevent thundering herds, jitter is applied.

## Limits
Five attempts at most.

### Per host
Two in parallel.
"""
PAGINATION = """---
metadata:
  language: " python "
  scope: global-guide
title: Pagination
---
# Pagination

## Cursors
Pass the cursor to read the next page of results.

## Page size
At most fifty results a page.
"""
JAPANESE = "# 日本語ガイド\n\n## 検索する\n全文検索の使い方。\n\n## 認証\nトークンを送る。\n"
DELIMITER = re.compile(r"^--- Chunk: (\S+) \(Chunk (\d+) of (\d+)\) \((Target|Context: [+-]\d+)\) ---$", re.M)


def corpus(folder: Path) -> Path:
    """A library with four files, two facets and a manifest; the files are in `docs` beside it."""
    docs = folder / "docs"
    (docs / "guides").mkdir(parents=True)
    (docs / "guides/retries.md").write_text(RETRIES)
    (docs / "guides/pagination.md").write_text(PAGINATION)
    (docs / "guides/日本語 ガイド.md").write_text(JAPANESE)
    (docs / "note.md").write_text("A lone note about quotas, without any heading.\n")
    manifest = {
        "version": "1",
        "taxonomy": {"language": {"description": "The SDK's language."}},
        "metadata": {"scope": "global-guide"},
    }
    (docs / ".docs-mcp.json").write_text(json.dumps(manifest))
    refdesk(folder / "library", "index", str(docs), "--kind", "docs", "--description", "Acme SDK docs")
    return folder / "library"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def client(library: Path, serve_all: Serve) -> Client:
    return serve_all(library, "--toolsets", "docs")


def test_the_schema_of_a_corpus_with_two_facets_is_the_documented_one(client: Client) -> None:
    tool = client.tools()["search_docs"]
    assert tool["description"] == (
        "Search the Acme SDK docs. Use this to find relevant documentation, guides, or API references."
    )
    assert tool["inputSchema"] == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "query": {
                "type": "string",
                "description": "The search query (e.g., 'how to paginate', 'RateLimitError').",
            },
            "limit": {
                "type": "integer",
                "description": "Maximum number of results to return. Default is 10.",
                "minimum": 1,
                "maximum": 50,
                "default": 10,
            },
            "cursor": {
                "type": "string",
                "description": "Opaque pagination token returned from a previous search. Omit for the first page."
                " Returns an error if invalid or malformed.",
            },
            "language": {
                "type": "string",
                "description": "The SDK's language.",
                "enum": ["python", "typescript"],
            },
            "scope": {
                "type": "string",
                "description": "Filter results by scope.",
                "enum": ["global-guide", "sdk-specific"],
            },
        },
        "required": ["query"],
    }


def test_get_doc_has_the_documented_schema(client: Client) -> None:
    tool = client.tools()["get_doc"]
    assert tool["description"] == (
        "Retrieve the full content of a specific documentation chunk using its chunk_id. You can optionally request"
        " surrounding context within the same file."
    )
    assert tool["inputSchema"]["required"] == ["chunk_id"]
    assert tool["inputSchema"]["additionalProperties"] is False
    assert tool["inputSchema"]["properties"]["context"] == {
        "type": "integer",
        "description": "Number of adjacent chunks to include before and after the target chunk. Default is 0. Use this"
        " to read the surrounding file context.",
        "minimum": 0,
        "maximum": 5,
        "default": 0,
    }
    assert "outputSchema" not in tool


@pytest.mark.folder
def test_metadata_json_says_what_the_corpus_is(library: Path) -> None:
    body = json.loads((library / "metadata.json").read_text())
    assert body["corpus_description"] == "Acme SDK docs"
    assert body["taxonomy"] == {
        "language": {"description": "The SDK's language.", "values": ["python", "typescript"]},
        "scope": {"values": ["global-guide", "sdk-specific"]},
    }
    assert body["stats"]["total_files"] == 4
    assert body["stats"]["total_chunks"] == 11
    assert {"metadata_version", "embedding"} <= set(body)


def test_a_hit_has_every_field(client: Client) -> None:
    answer = client.json("search_docs", query="exponential backoff")
    best = answer["hits"][0]
    assert best["chunk_id"] == "guides/retries.md#backoff-strategy"
    assert best["heading"] == "Backoff Strategy"
    assert best["breadcrumb"] == "Retries > Backoff Strategy"
    assert best["filepath"] == "guides/retries.md"
    assert best["metadata"] == {"language": "typescript", "scope": "sdk-specific"}
    assert "exponential backoff" in best["snippet"]
    assert 0 < best["score"] <= 1
    assert answer["hint"] is None


def test_facets_filter_in_their_own_casing(client: Client) -> None:
    for hit in client.json("search_docs", query="attempts results page", scope="global-guide")["hits"]:
        assert hit["metadata"]["scope"] == "global-guide"
    assert "python" in client.error("search_docs", query="x", language="Python")


def test_pages_neither_repeat_nor_skip(client: Client) -> None:
    query = "retries attempts page results jitter quotas token backoff limits"
    whole = [hit["chunk_id"] for hit in client.json("search_docs", query=query, limit=50)["hits"]]
    paged: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.json("search_docs", query=query, limit=2, **cursor)
        paged += [hit["chunk_id"] for hit in page["hits"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert paged == whole
    assert len(whole) > 4


def test_foreign_altered_and_stale_cursors_are_refused(serve: Serve, tmp_path: Path) -> None:
    library = corpus(tmp_path)
    client = serve(library, "--toolsets", "docs")
    token = client.json("search_docs", query="retries page", limit=1)["next_cursor"]
    assert token
    assert "another query" in client.error("search_docs", query="other", cursor=token)
    assert "other filters" in client.error("search_docs", query="retries page", cursor=token, scope="global-guide")
    assert "cursor" in client.error("search_docs", query="retries page", cursor=token[:-3] + "AAA")
    assert "malformed" in client.error("search_docs", query="retries page", cursor="%%%")
    (tmp_path / "docs/new.md").write_text("# New\n\nA new page about retries.\n")
    refdesk(library, "index", str(tmp_path / "docs"), "--kind", "docs")
    assert "stale" in client.error("search_docs", query="retries page", cursor=token)


def test_zero_hits_with_filters_suggest_values_that_have_some(client: Client) -> None:
    answer = client.json("search_docs", query="jitter thundering", language="python", scope="sdk-specific")
    assert answer["hits"] == []
    assert answer["hint"]["suggested_filters"] == {"language": ["typescript"]}
    assert "language 'python'" in answer["hint"]["message"]


@pytest.mark.parametrize("nonsense", ["zzqxv", "xkcdqw vbnzzt", "qqq www zzz"])
def test_nonsense_finds_nothing_and_says_what_to_try(client: Client, nonsense: str) -> None:
    answer = client.json("search_docs", query=nonsense)
    assert answer["hits"] == []
    assert nonsense in answer["hint"]["message"]
    assert answer["hint"]["suggested_filters"] == {}
    assert answer["next_cursor"] is None


def test_get_doc_gives_neighbours_under_the_delimiter(client: Client) -> None:
    text = client.text("get_doc", chunk_id="guides/retries.md#backoff-strategy", context=1)
    assert DELIMITER.findall(text) == [
        ("guides/retries.md#_preamble", "1", "4", "Context: -1"),
        ("guides/retries.md#backoff-strategy", "2", "4", "Target"),
        ("guides/retries.md#jitter", "3", "4", "Context: +1"),
    ]
    assert "# Retries\nThis guide explains how to configure retries." in text
    assert "# not a heading" in text


def test_context_ends_with_the_file(client: Client) -> None:
    text = client.text("get_doc", chunk_id="guides/retries.md#limits", context=5)
    assert len(DELIMITER.findall(text)) == 4
    assert "### Per host" in text


def test_a_file_without_sections_is_one_chunk_named_by_its_path(client: Client) -> None:
    assert DELIMITER.findall(client.text("get_doc", chunk_id="note.md")) == [("note.md", "1", "1", "Target")]


def test_every_id_of_a_search_can_be_read(client: Client) -> None:
    hits = client.json("search_docs", query="検索 認証 トークン retries pagination quotas", limit=50)["hits"]
    assert any("検索する" in hit["chunk_id"] for hit in hits)
    for hit in hits:
        assert " " not in hit["chunk_id"]
        assert "(Target)" in client.text("get_doc", chunk_id=hit["chunk_id"])


def test_an_unknown_chunk_has_the_documented_error(client: Client) -> None:
    assert client.error("get_doc", chunk_id="guides/retries.md#does-not-exist") == (
        "Chunk ID 'guides/retries.md#does-not-exist' not found. Use search_docs to discover valid chunk IDs."
    )


def test_a_path_without_a_section_is_answered_with_its_sections(client: Client) -> None:
    said = client.error("get_doc", chunk_id="guides/retries.md")
    assert said.startswith(
        "Chunk ID 'guides/retries.md' not found. Use search_docs to discover valid chunk IDs. The file has #"
    )
    for key in said.rpartition(" has ")[2].rstrip(".").split(", "):
        assert "(Target)" in client.text("get_doc", chunk_id=f"guides/retries.md{key}")


@pytest.mark.parametrize("chunk_id", ["", "#", "a#b#c", "#only"])
def test_a_malformed_chunk_id_says_what_is_expected(client: Client, chunk_id: str) -> None:
    assert "{filepath}#{heading-path}" in client.error("get_doc", chunk_id=chunk_id)


def test_bad_arguments_are_named(client: Client) -> None:
    assert "langauge" in client.error("search_docs", query="x", langauge="python")
    assert "query" in client.error("search_docs")
    assert "empty" in client.error("search_docs", query="  ")
    assert "50" in client.error("search_docs", query="x", limit=51)
    assert "limit" in client.error("search_docs", query="x", limit="many")
    assert "5" in client.error("get_doc", chunk_id="note.md", context=6)


def test_a_new_facet_changes_the_tool_and_clients_are_told(serve: Serve, tmp_path: Path) -> None:
    library = corpus(tmp_path)
    client = serve(library, "--toolsets", "docs")
    assert "product" not in client.tools()["search_docs"]["inputSchema"]["properties"]
    (tmp_path / "docs/p.md").write_text("---\nmetadata:\n  product: Rocket\n---\n# Rocket\n\nIt flies.\n")
    refdesk(library, "index", str(tmp_path / "docs"), "--kind", "docs")
    client.raw.notification("notifications/tools/list_changed")
    assert client.tools()["search_docs"]["inputSchema"]["properties"]["product"]["enum"] == ["Rocket"]
    assert client.json("search_docs", query="flies", product="Rocket")["hits"]


def test_an_empty_library_says_how_to_fill_it(serve: Serve, tmp_path: Path) -> None:
    client = serve(tmp_path / "none", "--toolsets", "docs")
    assert "refdesk index" in client.json("search_docs", query="x")["hint"]["message"]


def test_facets_and_their_values_are_completed(client: Client) -> None:
    def complete(argument: str, value: str, **settled: str) -> list[str]:
        answer = client.raw.request(
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "docs://facets/{facet}/{value}"},
                "argument": {"name": argument, "value": value},
                "context": {"arguments": settled},
            },
        )
        values: list[str] = answer["result"]["completion"]["values"]
        return values

    assert complete("facet", "") == ["language", "scope"]
    assert complete("value", "Py", facet="language") == ["python"]
    assert complete("value", "", facet="scope") == ["global-guide", "sdk-specific"]
    contents = client.raw.request("resources/read", {"uri": "docs://facets/language/python"})["result"]["contents"]
    assert json.loads(contents[0]["text"])["files"] == ["guides/pagination.md"]
    assert "error" in client.raw.request("resources/read", {"uri": "docs://facets/language/cobol"})
