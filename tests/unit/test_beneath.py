"""Nothing is read through a link that somebody puts there meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from refdesk.desk.desk import Desk
from refdesk.errors import RefdeskError
from refdesk.parse.prose.manifest import load_manifests
from refdesk.sources.walk import FolderSource
from refdesk.system import files as beneath
from refdesk.system.files import listed_folder, opened, read_most, read_rules, replace_file, replacing
from tests.swapping import swapping

SECRET = "what nobody may know"
ROUNDS = 200  # two of these attacks got out within them when paths were resolved first and then opened again


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file and a folder, and beside it the same two with what must not come in."""
    for name, text in (("root", "harmless"), ("outside", SECRET)):
        (tmp_path / name / "folder").mkdir(parents=True)
        (tmp_path / name / "note.md").write_text(f"# Note\n\n{text}\n")
        (tmp_path / name / "folder" / "inner.md").write_text(f"# Inner\n\n{text}\n")
    return tmp_path.resolve() / "root"


def everything(desk: Desk) -> str:
    """All that the library holds: texts, paths and what it left out."""
    held: list[str] = []
    for collection in desk.collections():
        documents = desk.documents(collection.name, 1000, 0)
        held += [desk.raw(document.id) for document in documents]
        held += [one.path + one.reason for one in desk.skipped(collection.name)]
    return "\n".join(held)


@pytest.mark.parametrize(
    ("named", "swapped"),
    [("note.md", "note.md"), ("folder/inner.md", "folder"), ("folder", "folder"), (".", "folder"), (".", "note.md")],
)
def test_a_link_that_comes_and_goes_lets_nothing_in(desk: Desk, root: Path, named: str, swapped: str) -> None:
    desk.create_collection("notes")
    with swapping(root / swapped, root.parent / "outside" / swapped):
        for _ in range(ROUNDS):
            try:
                desk.ingest(f"file://{root}/{named}", "notes", roots=[root])
            except RefdeskError:
                continue
            assert SECRET not in everything(desk)
    assert SECRET not in everything(desk)


@pytest.mark.parametrize("swapped", ["folder", "."])
def test_a_walk_lists_no_folder_behind_a_link(root: Path, swapped: str) -> None:
    (root.parent / "outside" / "folder" / "of others.md").write_text(SECRET)
    seen: set[str] = set()
    with swapping(root / swapped, root.parent / "outside" / swapped):
        for _ in range(ROUNDS):
            try:
                seen.update(item.path for item in FolderSource(root, max_file_bytes=1000).walk())
            except RefdeskError:
                continue
    assert not [path for path in seen if "of others" in path]


def _read(path: str) -> bytes:
    with opened(path) as descriptor:
        return read_most(descriptor, 100)


def _list(path: str) -> list[str]:
    with listed_folder(path) as entries:
        return [entry.name for entry in entries]


@pytest.fixture(params=[True, False], ids=["by descriptors", "as on Windows"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "_BY_DESCRIPTOR", request.param)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(("reach", "inner"), [(_read, "note.md"), (read_rules, "note.md"), (_list, "folder")])
def test_links_anywhere_on_the_way_are_refused(root: Path, reach: Callable[[str], object], inner: str) -> None:
    assert reach(f"{root}/{inner}")
    (root.parent / "link").symlink_to(root)
    (root / "to").symlink_to(root / inner)
    for path in (root.parent / "link" / inner, root / "to", root / ".." / "root" / ".." / "link" / inner):
        with pytest.raises(OSError, match=r"link|\.\."):
            reach(str(path))


@pytest.mark.usefixtures("either_way")
def test_pipes_and_devices_are_not_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    for path in (str(root / "pipe"), "/dev/zero", str(root)):
        for read in (_read, read_rules):
            with pytest.raises(OSError, match="not a regular file"):
                read(path)


@pytest.mark.parametrize("name", [".gitignore", ".refdeskignore", ".git", ".git/HEAD", ".git/config", ".docs-mcp.json"])
@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_a_file_of_rules_that_never_ends_stops_nobody(root: Path, name: str, target: str) -> None:
    """A hostile folder may hold anything under the names that are read first."""
    (root / name).parent.mkdir(exist_ok=True)
    if target == "pipe":
        os.mkfifo(root / name)
    else:
        (root / name).symlink_to(target)
    if name.startswith(".git/") and name != ".git/HEAD":
        (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    done: list[object] = []

    def look() -> None:
        done.append([item.path for item in FolderSource(root, max_file_bytes=1000).walk()])
        if name == ".docs-mcp.json":
            with pytest.raises(RefdeskError, match="can't be read"):
                load_manifests(root)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(20)
    assert not looking.is_alive()
    assert {"note.md", "folder/inner.md"} <= set(done[0])  # type: ignore[call-overload]


@pytest.mark.parametrize("is_only_writer", [False, True])
def test_a_draft_that_fails_leaves_the_file_as_it_was_and_no_litter(tmp_path: Path, is_only_writer: bool) -> None:
    file = tmp_path / "a.json"
    replace_file(file, "old", mode=0o640)
    with pytest.raises(ZeroDivisionError), replacing(file, is_only_writer=is_only_writer) as out:
        out.write(b"half")
        raise ZeroDivisionError
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.json", "old")]
    assert file.stat().st_mode & 0o777 == 0o640
    with replacing(file, is_only_writer=is_only_writer) as out:
        out.write(b"new")
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o600
