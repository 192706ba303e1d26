"""What an agent must know stands where it reads: in the text, in the structured content and in `_meta`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toon_format import decode

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.desk.reading import INDEXING
from refdesk.errors import Cancelled
from refdesk.ingest.prepare import Progress
from tests.contracts.conftest import Serve, refdesk
from tests.scale.servers import settings_of

FILES = 30


@contextmanager
def half_indexed(tmp_path: Path) -> Iterator[tuple[Desk, Path]]:
    """A desk whose first index broke off, and the codebase."""
    root = tmp_path / "shop"
    root.mkdir()
    for number in range(FILES):
        (root / f"till_{number}.py").write_text(f'def open_till_{number}():\n    """Opens till {number}."""\n')
    with open_desk(replace(settings_of(tmp_path / "library"), workers=1)) as desk:
        seen: list[str] = []
        progress = Progress(report=lambda done, total, what: seen.append(what), cancelled=lambda: len(seen) > 10)
        with pytest.raises(Cancelled):
            desk.index(root, "code", progress=progress)
        yield desk, root


def said(result: dict[str, Any]) -> list[str]:
    """The lines that an agent reads as notices; where the structured content may carry them, it has the same."""
    text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
    lines = [line.removeprefix("note: ") for line in text.splitlines() if line.startswith("note: ")]
    assert result["_meta"]["refdesk/notices"]
    structured = result.get("structuredContent", {})
    if "notices" in structured:
        assert structured["notices"] == lines == result["_meta"]["refdesk/notices"]
    if "output" in structured:
        assert structured["output"] == result["content"][0]["text"]
    return lines


SEARCHES = {
    "search_code": {"query": "open till"},
    "search_docs": {"query": "open till", "format": "human"},
    "code_research": {"query": "open_till_1"},
    "rag_search": {"query": "open till"},
    "qurio_search": {"query": "open till"},
}


def test_every_search_says_that_an_index_broke_off_or_goes_on(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with half_indexed(tmp_path) as (desk, root):
        monkeypatch.chdir(root)
        monkeypatch.setenv("REFDESK_REFRESH_MS", "0")
        client = serve(tmp_path / "library")
        for tool, arguments in SEARCHES.items():
            lines = said(client.result(tool, **arguments))
            assert any("shop was interrupted" in line and f"of {FILES} files" in line for line in lines), (tool, lines)
            assert len(lines) == len(set(lines)), tool
        with desk._store.writing():
            for tool, arguments in SEARCHES.items():
                lines = said(client.result(tool, **arguments))
                assert any("shop is still being indexed" in line for line in lines), (tool, lines)
        told = refdesk(tmp_path / "library", "search", "open till")
        assert "note: the indexing of shop was interrupted" in told.stderr
        desk.index(root, "code")
        for tool, arguments in SEARCHES.items():
            notices = client.result(tool, **arguments).get("_meta", {}).get("refdesk/notices", [])
            assert not any("index" in line for line in notices), (tool, notices)
        desk._note(desk.collection("shop"), {INDEXING: str(FILES)})
        with desk._store.writing():
            lines = said(client.result("search_code", query="open till"))
        assert any("shop is being indexed again: files that changed" in line for line in lines), lines


def test_each_form_of_an_answer_carries_them(tmp_path: Path, serve: Serve) -> None:
    with half_indexed(tmp_path) as (_, root):
        client = serve(tmp_path / "library", "--toolsets", "code", "--allow-root", str(tmp_path))
        asked = {"query": "open till", "path": str(root)}
        human = client.text("search_code", **asked, format="human")
        assert human.splitlines()[-1].startswith("note: ")
        toon = client.text("search_code", **asked)
        assert decode(toon)["note"] and any(line.startswith("note: ") for line in toon.splitlines())
        found = client.result("search_code", **asked, format="json")
        assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
        assert found["structuredContent"]["notices"]


def test_a_closed_shape_stays_as_it_is_and_the_last_line_says_it(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tills.md").write_text("# Tills\n\nOpen the till with the silver key.\n")
    refdesk(tmp_path / "library", "index", str(tmp_path / "docs"), "--kind", "docs")
    client = serve(tmp_path / "library", "--toolsets", "docs,pages,skills")
    with open_desk(replace(settings_of(tmp_path / "library"), workers=1)) as desk:
        docs = desk.collection("docs")
        (tmp_path / "docs" / "keys.md").write_text("# Keys\n\nKeys hang behind the counter.\n")
        with pytest.raises(Cancelled):
            desk.index(Path(docs.root), "docs", progress=Progress(cancelled=stop_at(1)))
    result = client.result("search_docs", query="silver key")
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert set(result["structuredContent"]) == {"hits", "next_cursor", "hint"}
    assert "interrupted, it has 1 of 2 files" in said(result)[-1]
    nothing = client.result("qurio_search", query="zzzqqq xyzzy", alpha=0)
    assert nothing["content"][0]["text"] == "No results found."
    assert "interrupted" in said(nothing)[0]
    found = client.result("search_skills", query="the till does not open")
    assert set(found["structuredContent"]) == {"skill", "query", "search_time_ms"}
    assert said(found) == ["no playbook fits: none is about this"]


def stop_at(step: int) -> Any:
    steps = iter(range(1, 1000))
    return lambda: next(steps) > step


def test_what_an_ingest_left_out_is_said(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("# Bees\n\nBees dance.\n")
    (folder / "b.bin").write_bytes(bytes(range(256)))
    monkeypatch.chdir(tmp_path)
    client = serve(tmp_path / "library", "--toolsets", "rag")
    client.json("rag_create_collection", name="bees")
    lines = said(client.result("rag_ingest", uri=folder.as_uri(), collection="bees"))
    assert len(lines) == 1 and lines[0].startswith("1 file left out: b.bin: ")


def test_every_search_marks_what_changed_since_it_was_indexed(serve: Serve, tmp_path: Path) -> None:
    docs, library = tmp_path / "docs", tmp_path / "library"
    docs.mkdir()
    for name in ("changed", "gone", "touched", "same"):
        (docs / f"{name}.md").write_text(f"# Harpsichord {name}\n\nThe harpsichord is {name}.\n")
    refdesk(library, "index", str(docs), "--kind", "docs")
    client = serve(library, "--toolsets", "docs,rag,pages", "--allow-root", str(docs))
    client.json("rag_create_collection", name="notes")
    for file in docs.iterdir():
        client.json("rag_ingest", uri=file.as_uri(), collection="notes")
    client.json("rag_ingest", uri="data:,The%20harpsichord%20of%20nowhere", collection="notes")
    (docs / "changed.md").write_text("# Organ\n\nOnly an organ is left.\n")
    (docs / "gone.md").unlink()
    (docs / "touched.md").touch()
    for collection in ("notes", "docs"):
        found = client.result("rag_search", query="harpsichord", collection=collection)
        hits = found["structuredContent"]["results"]
        stale = {hit["content"].split()[-1].rstrip(".") for hit in hits if hit["metadata"].get("stale")}
        assert stale == {"changed", "gone"}
        assert all(hit["metadata"]["indexed_at"].endswith("Z") for hit in hits)
        (note,) = [one for one in found["structuredContent"]["notices"] if one.startswith("stale")]
        assert note in found["content"][-1]["text"]
        assert "changed.md" in note
    listed = client.result("search_docs", query="harpsichord")["content"]
    assert "changed.md" in listed[-1]["text"]
    assert "touched.md" not in listed[-1]["text"]
    pages = client.result("qurio_search", query="harpsichord")["content"]
    assert "Stale: the file changed since 20" in pages[0]["text"]
    assert pages[-1]["text"].startswith("note: stale")
    told = json.loads(refdesk(library, "search", "harpsichord", "--collection", "docs", "--json").stdout)
    assert {hit["path"] for hit in told["hits"] if hit["stale"]} == {"changed.md", "gone.md"}
    assert "stale: the file changed since 20" in refdesk(library, "search", "harpsichord").stdout
