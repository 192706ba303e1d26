"""The write path over a real library."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from refdesk.desk.desk import Desk
from refdesk.desk.fresh import stale_hits
from refdesk.embed.static import StaticEmbedder
from refdesk.errors import Cancelled, CollectionExists, CollectionNotFound, EmbedderMismatch, InvalidInput
from refdesk.ingest.prepare import Progress
from refdesk.model import Chunk, EmbedderIdentity, Filters, Query
from refdesk.search.rerank import apart
from tests.conftest import Tree

FILES = {
    f"pkg/module_{n}.py": f'def function_{n}():\n    """Does thing number {n}."""\n    return {n}\n' for n in range(12)
}


def found(desk: Desk, text: str) -> list[str]:
    return [hit.stored.document.path for hit in desk.search(Query(text=text, alpha=0.0, exact=True, limit=50)).hits]


def later(file: Path) -> None:
    """Moves the file's time, as a later write would."""
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 5_000_000_000))


def test_an_unchanged_tree_is_left_alone(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    assert desk.index(root, "code", name="c").written == 12
    state = desk.sequence()
    report = desk.index(root, "code", name="c")
    assert (report.written, report.unchanged, report.removed) == (0, 12, 0)
    assert desk.sequence() == state


def test_changed_added_and_deleted_files_are_followed(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "pkg/module_1.py").write_text("def renamed_thing():\n    return 'xylophone'\n")
    (root / "pkg/new.py").write_text("def brand_new():\n    return 'marimba'\n")
    (root / "pkg/module_2.py").unlink()
    report = desk.index(root, "code", name="c")
    assert (report.written, report.unchanged, report.removed) == (2, 10, 1)
    assert found(desk, "xylophone") == ["pkg/module_1.py"]
    assert found(desk, "marimba") == ["pkg/new.py"]
    assert found(desk, "function_2") == []
    assert found(desk, "function_1()") == []


def test_a_moved_file_keeps_its_id_and_its_vectors(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    before = desk.document_by_path("c", "pkg/module_3.py")
    (root / "pkg/module_3.py").rename(root / "moved.py")
    report = desk.index(root, "code", name="c")
    after = desk.document_by_path("c", "moved.py")
    assert before and after and before.id == after.id
    assert (report.moved, report.removed, report.embedded) == (1, 0, 0)
    assert found(desk, "function_3") == ["moved.py"]
    assert desk.document_by_path("c", "pkg/module_3.py") is None


def test_a_touched_file_is_not_written_again(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    later(root / "pkg/module_4.py")
    assert desk.index(root, "code", name="c").written == 0
    assert desk.index(root, "code", name="c").unchanged == 12


def rewrite_unseen(file: Path, text: str) -> None:
    """Writes as many bytes as there were and sets the file's time back."""
    before = file.stat()
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_a_change_that_keeps_size_and_time_is_seen(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    file = root / "pkg/module_4.py"
    rewrite_unseen(file, file.read_text().replace("function_4", "marimbas_4"))
    assert desk.freshness(desk.collection("c")) == (11, ["pkg/module_4.py"])
    assert len(stale_hits(desk, desk.search(Query(text="function_4", alpha=0.0, exact=True)).hits)) == 1
    assert desk.index(root, "code", name="c").written == 1
    assert found(desk, "marimbas_4") == ["pkg/module_4.py"]


def test_other_rights_and_links_are_no_change(desk: Desk, tree: Tree, tmp_path: Path) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "pkg/module_4.py").chmod(0o600)
    (tmp_path / "backup.py").hardlink_to(root / "pkg/module_5.py")
    report = desk.index(root, "code", name="c")
    assert (report.written, report.unchanged) == (0, 12)
    state = desk.sequence()
    assert desk.index(root, "code", name="c").unchanged == 12
    assert desk.sequence() == state  # they were noted: nothing is read again


def test_verify_compares_contents_where_an_earlier_library_noted_no_stamp(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    with contextlib.closing(sqlite3.connect(desk.settings.library / "record.db")) as db, db:
        db.execute("UPDATE documents SET stamp = 0")
    file = root / "pkg/module_4.py"
    rewrite_unseen(file, file.read_text().replace("function_4", "marimbas_4"))
    assert desk.index(root, "code", name="c").written == 0
    report = desk.index(root, "code", name="c", verify=True)
    assert (report.written, report.unchanged) == (1, 11)
    assert found(desk, "marimbas_4") == ["pkg/module_4.py"]
    rewrite_unseen(file, file.read_text().replace("marimbas_4", "ukuleles_4"))
    assert desk.index(root, "code", name="c").written == 1  # stamps are known by now


def test_force_reads_everything_and_embeds_nothing_twice(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    report = desk.index(root, "code", name="c", force=True)
    assert (report.written, report.embedded) == (12, 0)


def test_a_second_worktree_shares_vectors(desk: Desk, tree: Tree, tmp_path: Path) -> None:
    root = tree(FILES)
    assert desk.index(root, "code", name="one").embedded > 0
    shutil.copytree(root, tmp_path / "two")
    report = desk.index(tmp_path / "two", "code", name="two")
    assert (report.written, report.embedded) == (12, 0)


def test_only_looks_at_what_it_is_told(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "pkg/module_5.py").write_text("def five():\n    return 'glockenspiel'\n")
    (root / "pkg/module_6.py").unlink()
    (root / "pkg/module_7.py").unlink()
    report = desk.index(root, "code", name="c", only={"pkg/module_5.py", "pkg/module_6.py"})
    assert (report.written, report.removed) == (1, 1)
    assert desk.document_by_path("c", "pkg/module_7.py") is not None


def test_a_file_that_became_unreadable_is_not_found_any_more(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "pkg/module_8.py").write_bytes(b"")
    report = desk.index(root, "code", name="c")
    assert ([one.path for one in report.skipped], report.errors) == (["pkg/module_8.py"], [])
    assert found(desk, "function_8") == []
    assert any(one.path == "pkg/module_8.py" and one.reason for one in desk.skipped("c"))
    state = desk.sequence()
    again = desk.index(root, "code", name="c")
    assert [one.path for one in again.skipped] == ["pkg/module_8.py"]  # known to give nothing: not read again
    assert desk.sequence() == state
    (root / "pkg/module_8.py").write_text("def back_again():\n    return 8\n")
    assert desk.index(root, "code", name="c").written == 1


def test_a_cancelled_run_leaves_the_last_good_index(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    for n in range(12):
        (root / f"pkg/module_{n}.py").write_text(f"def other_{n}():\n    return {n}\n")
    calls = iter([False, False, False, True, *[True] * 100])
    with pytest.raises(Cancelled):
        desk.index(root, "code", name="c", progress=Progress(cancelled=lambda: next(calls)))
    assert len(found(desk, "number")) == 12
    assert desk.index(root, "code", name="c").written == 12
    assert found(desk, "other_3") == ["pkg/module_3.py"]


def test_one_name_is_one_folder(desk: Desk, tree: Tree, tmp_path: Path) -> None:
    desk.index(tree(FILES), "code", name="c")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(InvalidInput, match="Choose another"):
        desk.index(other, "code", name="c")


def test_a_folder_keeps_its_collection_and_names_are_made_unique(desk: Desk, tree: Tree, tmp_path: Path) -> None:
    root = tree(FILES)
    assert desk.index(root, "code").collection == "tree"
    assert desk.index(root, "code").collection == "tree"
    twin = tmp_path / "elsewhere" / "tree"
    twin.mkdir(parents=True)
    (twin / "a.py").write_text("def a():\n    return 1\n")
    assert desk.index(twin, "code").collection == "tree-2"


def test_data_uris_are_added_once_and_updated_in_place(desk: Desk) -> None:
    desk.create_collection("notes")
    first = desk.ingest("data:text/markdown,%23%20Harp%0A%0AStrings.", "notes", metadata={"season": "spring"})
    again = desk.ingest("data:text/markdown,%23%20Harp%0A%0AStrings.", "notes", metadata={"season": "spring"})
    assert (first.written, again.written, again.unchanged) == (1, 0, 1)
    assert first.document_ids == again.document_ids


def test_a_file_uri_is_updated_in_place(desk: Desk, tmp_path: Path) -> None:
    desk.create_collection("notes")
    note = tmp_path / "note.md"
    note.write_text("# One\n\nviola\n\n## Two\n\ncello\n")
    first = desk.ingest(note.as_uri(), "notes", roots=[tmp_path])
    created = desk.document(first.document_ids[0])
    note.write_text("# One\n\nviola\n\n## Two\n\ncontrabass\n")
    second = desk.ingest(note.as_uri(), "notes", roots=[tmp_path])
    updated = desk.document(second.document_ids[0])
    assert created and updated
    assert first.document_ids == second.document_ids
    assert created.created_at == updated.created_at
    assert found(desk, "contrabass") == ["note.md"]
    assert found(desk, "cello") == []


def test_metadata_that_was_attached_outlives_a_change_of_the_text(desk: Desk, tmp_path: Path) -> None:
    desk.create_collection("notes")
    note = tmp_path / "note.md"
    note.write_text("---\nowner: ann\nmood: calm\n---\n# Harp\n\nStrings.\n")
    added = desk.ingest(note.as_uri(), "notes", metadata={"team": "blue", "rank": 3}, roots=[tmp_path])
    note.write_text("---\nmood: wild\n---\n# Harp\n\nMore strings.\n")
    desk.ingest(note.as_uri(), "notes", roots=[tmp_path])
    changed = desk.document(added.document_ids[0])
    assert changed is not None
    assert changed.metadata == {"mood": "wild", "team": "blue", "rank": 3}  # owner was said by the text alone
    desk.ingest(note.as_uri(), "notes", metadata={"team": "red"}, roots=[tmp_path])
    again = desk.document(added.document_ids[0])
    assert again is not None
    assert again.metadata == {"mood": "wild", "team": "red", "rank": 3}


def test_ingesting_a_folder_reports_each_file_and_stops_when_told(
    desk: Desk, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(FILES)
    monkeypatch.setattr("refdesk.ingest.prepare._GROUP_BYTES", 350)  # a few files in each group
    desk.create_collection("all")
    told: list[tuple[int, int]] = []
    desk.ingest(
        root.as_uri(), "all", roots=[root], progress=Progress(lambda done, total, _: told.append((done, total)))
    )
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert {done for done, _ in told} == set(range(13))
    assert told[-1] == (12, 12)
    assert {total for _, total in told} == {0, 12}
    desk.create_collection("some")
    steps: list[int] = []
    until = Progress(lambda done, total, _: steps.append(done), cancelled=lambda: len(steps) > 6)
    with pytest.raises(Cancelled):
        desk.ingest(root.as_uri(), "some", roots=[root], progress=until)
    assert 0 < desk.count_documents("some") < 12


def test_of_many_who_create_a_collection_one_does(desk: Desk) -> None:
    def create(_: int) -> bool:
        start.wait()
        try:
            desk.create_collection("notes")
        except CollectionExists:
            return False
        return True

    start = Barrier(8)
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(create, range(8))) == 1


def test_an_unknown_collection_is_named(desk: Desk) -> None:
    with pytest.raises(CollectionNotFound, match="nope"):
        desk.ingest("data:,x", "nope")


def test_a_library_of_another_model_is_refused_until_reembedded(desk: Desk, tree: Tree) -> None:
    desk.index(tree(FILES), "code", name="c")
    desk._store.set_embedder_identity(EmbedderIdentity("other", "1", 256))
    assert desk.stats().embeddings == 0
    del desk.__dict__["embedder"]
    with pytest.raises(EmbedderMismatch, match="reembed"):
        _ = desk.embedder
    assert desk.reembed() > 0
    assert desk.embedder is not None
    assert desk.search(Query(text="does thing number", alpha=1.0)).hits


def test_texts_are_spelt_when_they_are_kept_and_again_for_another_model(desk: Desk, tree: Tree) -> None:
    desk.index(tree(FILES), "code", name="c")

    def kept() -> list[tuple[Chunk, bytes]]:
        documents = desk.documents("c", 100, 0)
        return [(one.chunk, one.kept) for document in documents for one in desk.chunks_of(document.id)]

    first = kept()
    model = StaticEmbedder()
    most = model.most_compared
    for chunk, pieces in first:
        assert apart(pieces) == (model.spell(chunk.text)[:most], model.spell(chunk.heading)[:most])
    assert any(chunk.heading for chunk, _ in first)
    desk._store.set_embedder_identity(EmbedderIdentity("other", "1", 256))
    assert not any(pieces for _, pieces in kept())
    desk.reembed()
    assert kept() == first


def test_many_files_are_parsed_by_workers_in_order(tmp_path: Path, tree: Tree) -> None:
    from refdesk.app import open_desk
    from refdesk.settings import Settings

    body = "".join(f"\ndef helper_{n}(value):\n    return value + {n}  # {'x' * 60}\n" for n in range(120))
    root = tree({f"big/m{n}.py": f'"""Module {n}."""\n{body}\ndef only_{n}():\n    return {n}\n' for n in range(260)})
    with open_desk(Settings(library=tmp_path / "many", workers=2, embedder="none")) as desk:
        report = desk.index(root, "code", name="big")
        assert (report.written, report.errors) == (260, [])
        assert found(desk, "only_123") == ["big/m123.py"]


def test_workers_embed_what_is_new_and_nothing_else(tmp_path: Path, tree: Tree) -> None:
    from refdesk.app import open_desk
    from refdesk.settings import Settings

    body = "".join(f"\ndef helper_{n}(value):\n    return value + {n}  # {'x' * 400}\n" for n in range(60))
    root = tree({f"big/m{n}.py": f'"""Module {n}."""\n{body}\ndef only_{n}():\n    return {n}\n' for n in range(80)})
    with open_desk(Settings(library=tmp_path / "many", workers=2)) as desk:
        first = desk.index(root, "code", name="one")
        assert (first.written, desk._store.unembedded()) == (80, [])
        assert desk.stats().embeddings == desk.stats().chunks
        assert desk.index(root, "files", name="again").embedded == 0
        by_workers = [(hit.stored.id, hit.score) for hit in desk.search(Query(text="only_77", alpha=1.0)).hits]
    with open_desk(Settings(library=tmp_path / "alone", workers=1)) as desk:
        desk.index(root, "code", name="one")
        desk.index(root, "files", name="again")
        alone = [(hit.stored.id, hit.score) for hit in desk.search(Query(text="only_77", alpha=1.0)).hits]
    assert by_workers == alone != []


def test_a_file_that_turns_binary_is_not_found_any_more(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    (root / "pkg/module_9.py").write_bytes(b"x = 1\0\0\0")
    desk.index(root, "code", name="c")
    assert found(desk, "function_9") == []


def test_a_renamed_file_is_read_as_what_it_is_now(desk: Desk, tree: Tree) -> None:
    root = tree({"a.py": "# Retries\n\nprint('wait')\n"})
    desk.index(root, "code", name="c")
    (root / "a.py").rename(root / "a.md")
    assert desk.index(root, "code", name="c").moved == 1
    document = desk.document_by_path("c", "a.md")
    assert document is not None
    assert document.content_type == "markdown"


def test_a_changed_manifest_is_heeded_without_force(desk: Desk, tree: Tree) -> None:
    root = tree({"guides/a.md": "# A\n\nalpha\n"})
    desk.index(root, "docs", name="docs")
    (root / ".docs-mcp.json").write_text('{"version": "1", "metadata": {"area": "guide"}}')
    desk.index(root, "docs", name="docs")
    assert desk.facets("docs") == {"area": {"guide": 1}}


def test_a_collection_keeps_its_kind(desk: Desk, tree: Tree) -> None:
    root = tree(FILES)
    desk.index(root, "code", name="c")
    with pytest.raises(InvalidInput, match="not of docs"):
        desk.index(root, "docs", name="c")
    assert desk.index(root, "docs").collection == "tree"
    assert desk.index(root, "code").collection == "c"


def test_a_library_inside_its_folder_does_not_hold_itself(tmp_path: Path) -> None:
    from refdesk.app import open_desk
    from refdesk.settings import Settings

    (tmp_path / "a.py").write_text("def a():\n    return 1\n")
    with open_desk(Settings(library=tmp_path / "lib", workers=1)) as desk:
        for _ in range(2):
            assert desk.index(tmp_path, "code", name="c").files == 1


def test_a_search_tells_of_chunks_without_vectors_in_its_collections(tmp_path: Path, tree: Tree) -> None:
    from refdesk.app import open_desk
    from refdesk.settings import Settings

    root = tree(FILES)
    with open_desk(Settings(library=tmp_path / "lib", workers=1, embedder="none")) as desk:
        desk.index(root, "code", name="without")
    with open_desk(Settings(library=tmp_path / "lib", workers=1)) as desk:
        (root / "more.py").write_text("def marimba():\n    return 'thing number'\n")
        desk.index(root, "code", name="with")
        asked = Query(text="does thing number")
        told = {
            name: any("no vectors" in note for note in desk.search(replace(asked, filters=filters)).notes)
            for name, filters in (
                ("all", Filters()),
                ("without", Filters(collections=("without",))),
                ("with", Filters(collections=("with",))),
            )
        }
        assert told == {"all": True, "without": True, "with": False}
        desk.index(root, "code", name="without")
        assert desk.search(asked).notes == ()


def test_chunks_without_vectors_are_embedded_by_the_next_run(tmp_path: Path, tree: Tree) -> None:
    from refdesk.app import open_desk
    from refdesk.settings import Settings

    root = tree(FILES)
    with open_desk(Settings(library=tmp_path / "lib", workers=1, embedder="none")) as desk:
        desk.index(root, "code", name="c")
        assert desk.stats().embeddings == 0
        assert len(desk._store.unembedded()) == 1
    with open_desk(Settings(library=tmp_path / "lib", workers=1)) as desk:
        report = desk.index(root, "code", name="c")
        assert (report.written, desk._store.unembedded()) == (0, [])
        assert report.embedded == desk.stats().embeddings == desk.stats().chunks
        assert desk.search(Query(text="does thing number", alpha=1.0)).hits
