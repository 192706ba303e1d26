"""A walk finds what is worth reading, says why it leaves out the rest, and costs little when nothing changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refdesk.errors import LoadFailed, ParseFailed, TooLarge
from refdesk.model import FileState, Found, Skipped
from refdesk.sources import allowed as judge
from refdesk.sources import walk
from refdesk.sources.walk import FolderSource, why

MAX = 10_000


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def make_old(root: Path) -> None:
    """Rules written this very moment are not trusted to stay: these were written long ago."""
    for file in root.rglob(".*ignore"):
        os.utime(file, ns=(10**18, 10**18))


def walked(root: Path) -> tuple[list[str], dict[str, str]]:
    found, skipped = [], {}
    for item in FolderSource(root, max_file_bytes=MAX).walk():
        if isinstance(item, Found):
            found.append(item.path)
        else:
            skipped[item.path] = item.reason
    return found, skipped


def again(root: Path, before: FolderSource, items: list[Found | Skipped]) -> tuple[FolderSource, dict[str, FileState]]:
    """A source that knows what an earlier one left out, and the files that one found."""
    known = {i.path: FileState("id", i.size, i.modified_ns, "hash") for i in items if isinstance(i, Found)}
    skipped = {i.path: i.reason for i in items if isinstance(i, Skipped)}
    source = FolderSource(root, max_file_bytes=MAX, known_skipped=skipped, rules_fingerprint=before.fingerprint())
    return source, known


def test_files_come_by_name_and_before_folders(tmp_path: Path) -> None:
    write(tmp_path, {"b.md": "b", "a/z.md": "z", "a.md": "a", "a/b/c.md": "c", "c/d.md": "d"})
    assert walked(tmp_path)[0] == ["a.md", "b.md", "a/z.md", "a/b/c.md", "c/d.md"]


def test_what_nobody_wrote_is_left_out_with_a_reason(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "app.py": "x",
            ".env": "x",
            ".github/workflows/ci.yml": "x",
            ".github/ISSUE_TEMPLATE/bug.md": "x",
            ".github/pull_request_template.md": "x",
            ".gitlab-ci.yml": "x",
            ".idea/workspace.xml": "x",
            ".DS_Store": "x",
            "node_modules/a/index.js": "x",
            "vendor/b.go": "x",
            "lib/site-packages/c.py": "x",
            "myenv/pyvenv.cfg": "x",
            "env/settings.py": "x",
            "jquery.min.js": "x",
            "api_pb2.py": "x",
            "app.js.map": "x",
            "Cargo.lock": "x",
            "logo.PNG": "x",
            "big.txt": "x" * (MAX + 1),
        },
    )
    found, skipped = walked(tmp_path)
    assert sorted(found) == [".github/workflows/ci.yml", ".gitlab-ci.yml", "app.py", "env/settings.py"]
    assert skipped == {
        ".env": "holds secrets: its name says so; --allow-secret names those that may be read",
        ".github/ISSUE_TEMPLATE/": "a form for reports",
        ".github/pull_request_template.md": "a form for reports",
        ".idea/": "hidden",
        ".DS_Store": "hidden",
        "node_modules/": "vendored",
        "vendor/": "vendored",
        "lib/site-packages/": "vendored",
        "myenv/": "vendored: a virtual environment",
        "jquery.min.js": "minified",
        "api_pb2.py": "generated",
        "app.js.map": "generated",
        "Cargo.lock": "a lock file",
        "logo.PNG": "not text by its name (.png)",
        "big.txt": f"too large: {MAX + 1} bytes, more than the {MAX} that max_file_bytes allows",
    }


def test_build_folders_are_left_out_only_when_a_build_made_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "js/package.json": "{}",
            "js/dist/app.js": "x",
            "py/pyproject.toml": "",
            "py/src/build/__init__.py": "x",
            "py/build/lib/x.py": "x",
            "rust/target/CACHEDIR.TAG": "x",
            "plain/target/notes.md": "x",
            "c/CMakeLists.txt": "",
            "c/build/README.md": "x",
        },
    )
    found, skipped = walked(tmp_path)
    assert set(skipped) == {"js/dist/", "py/build/", "rust/target/"}
    assert {"py/src/build/__init__.py", "plain/target/notes.md", "c/build/README.md"} <= set(found)


def test_refdeskignore_outranks_gitignore_and_the_built_in_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.log\nprivate/\n",
            ".refdeskignore": "!keep.log\n!vendor/\n!.github/\nsecret.md\n!private/\n",
            "keep.log": "x",
            "drop.log": "x",
            "secret.md": "x",
            "vendor/a.go": "x",
            ".github/ci.yml": "x",
            "private/a.md": "x",
            "sub/.refdeskignore": "!secret.md",
            "sub/secret.md": "x",
        },
    )
    found, skipped = walked(tmp_path)
    assert found == ["keep.log", ".github/ci.yml", "private/a.md", "sub/secret.md", "vendor/a.go"]
    assert skipped["secret.md"] == "ignored by .refdeskignore:4 (secret.md)"
    assert skipped["drop.log"] == "ignored by .gitignore:1 (*.log)"


def test_the_folders_of_git_and_refdesk_can_not_be_brought_back(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    write(tmp_path, {".refdeskignore": "!.*\n!*\n", "a.md": "x", ".refdesk/library": "x"})
    found, skipped = walked(tmp_path)
    assert "a.md" in found
    assert not [path for path in found if path.startswith((".git/", ".refdesk/"))]
    assert skipped[".git/"] == "git's own"


def test_links_are_not_followed_and_say_where_they_lead(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    write(outside, {"secret.md": "x"})
    write(root, {"real.md": "x", "folder/a.md": "x"})
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "outfolder").symlink_to(outside)
    (root / "in.md").symlink_to("real.md")
    (root / "loop").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "gone.md").symlink_to("nothing")
    (root / "folder" / "up").symlink_to("..")
    found, skipped = walked(root)
    assert found == ["real.md", "folder/a.md"]
    assert skipped["out.md"] == skipped["outfolder"] == "a symbolic link that leaves the root"
    assert skipped["in.md"] == "a symbolic link to real.md, which is looked at there"
    assert skipped["gone.md"].startswith("a symbolic link that leads nowhere")
    assert {"loop", "self", "folder/up"} <= set(skipped)


def test_a_root_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "real", {"a.md": "x"})
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(LoadFailed, match="link"):
        list(FolderSource(tmp_path / "link", max_file_bytes=MAX).walk())


def test_a_secret_is_left_out_whatever_the_rules_say_unless_it_is_named(tmp_path: Path) -> None:
    write(
        tmp_path, {".refdeskignore": "!.env\n!key.txt\n", ".env": "K=1", "key.txt": "-----BEGIN PRIVATE KEY-----\nx\n"}
    )

    def kept(*, before: FolderSource | None = None, skipped: dict[str, str] | None = None, **more: Any) -> FolderSource:
        fingerprint = before.fingerprint() if before else ""
        source = FolderSource(
            tmp_path, max_file_bytes=MAX, known_skipped=skipped or {}, rules_fingerprint=fingerprint, **more
        )
        left_out.clear()
        for item in source.walk():
            try:
                content = source.read(item) if isinstance(item, Found) else None
            except ParseFailed as error:
                item = Skipped(path=item.path, reason=error.message)
                content = None
            if content is None:
                assert isinstance(item, Skipped)
                left_out[item.path] = item.reason
        return source

    left_out: dict[str, str] = {}
    first = kept()
    assert "holds secrets" in left_out[".env"]
    assert "a private key" in left_out["key.txt"]
    kept(before=first, skipped=dict(left_out))
    assert {".env", "key.txt"} <= set(left_out)
    kept(before=first, skipped=dict(left_out), allow_secrets=(".env", "key*"))
    assert not {".env", "key.txt"} & set(left_out)


def test_odd_names_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "new\nline.md").write_text("x")
    (tmp_path / "sp ace ü.md").write_text("x")
    (tmp_path / os.fsdecode(b"bad\xff.md")).write_text("x")
    (tmp_path / os.fsdecode(b"dir\xfe")).mkdir()
    found, skipped = walked(tmp_path)
    assert found == ["new\nline.md", "sp ace ü.md"]
    assert skipped == {"bad\\xff.md": "its name is not UTF-8", "dir\\xfe/": "its name is not UTF-8"}


def test_special_files_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert walked(tmp_path) == ([], {"pipe": "not a regular file"})


def test_a_nested_repository_follows_its_own_rules(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "inner"):
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    write(
        tmp_path,
        {
            ".gitignore": "*.log\n",
            "a.log": "x",
            "inner/a.log": "x",
            "inner/b.tmp": "x",
            "inner/.git/info/exclude": "*.tmp\n",
        },
    )
    found, skipped = walked(tmp_path)
    assert found == ["inner/a.log"]
    assert skipped["inner/b.tmp"].endswith("info/exclude:1 (*.tmp)")


def test_a_worktree_follows_the_excludes_of_its_repository(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    run = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    main.mkdir()
    for arguments in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "m"],
        ["worktree", "add", "-q", str(tree)],
    ):
        subprocess.run([*run, *arguments], cwd=main, check=True)
    write(main, {".git/info/exclude": "*.tmp\n"})
    write(tree, {"a.md": "x", "b.tmp": "x"})
    assert walked(tree)[0] == ["a.md"]


def test_the_users_own_excludes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, root = tmp_path / "home", tmp_path / "root"
    write(home, {".config/git/ignore": "*.one\n", "mine": "*.two\n"})
    write(root, {"a.one": "x", "a.two": "x"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert walked(root)[0] == ["a.two"]
    write(home, {"included": '[core]\n\texcludesFile = "~/mine" ; ours\n', ".gitconfig": "[include]\npath=included\n"})
    assert walked(root)[0] == ["a.one"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    write(home, {".gitconfig": "[user]\nname = x\n", "xdg/git/ignore": "a.*\n"})
    assert walked(root)[0] == []


def test_a_missing_root_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="not a folder"):
        list(FolderSource(tmp_path / "none", max_file_bytes=MAX).walk())


@pytest.mark.skipif(sys.platform == "win32", reason="no users to become")
def test_what_can_not_be_listed_is_left_out_with_the_systems_words(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "locked/b.md": "x"})
    (tmp_path / "locked").chmod(0)
    if os.geteuid() != 0:
        assert walked(tmp_path) == (["a.md"], {"locked/": "can't be listed: Permission denied"})
        return
    child = os.fork()
    if child == 0:  # the superuser may list everything: look with the eyes of somebody else
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(0o755)
        os.setuid(65534)
        os._exit(0 if walked(tmp_path)[1] == {"locked/": "can't be listed: Permission denied"} else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_folder_that_vanishes_during_the_walk_is_not_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "b/c.md": "x"})
    walk = FolderSource(tmp_path, max_file_bytes=MAX).walk()
    assert next(walk).path == "a.md"
    shutil.rmtree(tmp_path / "b")
    assert list(walk) == []


# --- reading ------------------------------------------------------------------------------------


def test_a_read_gives_bytes_and_a_uri(tmp_path: Path) -> None:
    write(tmp_path, {"a b/ü#?.md": "text"})
    source = FolderSource(tmp_path, max_file_bytes=MAX)
    (found,) = source.walk()
    assert isinstance(found, Found)
    content = source.read(found)
    assert content.uri == tmp_path.resolve().as_uri() + "/a%20b/%C3%BC%23%3F.md"
    assert (content.path, content.data, content.modified_ns) == ("a b/ü#?.md", b"text", found.modified_ns)


def test_a_file_that_changed_or_went_since_the_walk_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "b.md": "x", "c.md": "x", "d/e.md": "x"})
    source = FolderSource(tmp_path, max_file_bytes=MAX)
    changed, gone, linked, below = (item for item in source.walk() if isinstance(item, Found))
    (tmp_path / "a.md").write_text("xy")
    (tmp_path / "b.md").unlink()
    (tmp_path / "c.md").unlink()
    (tmp_path / "c.md").symlink_to("a.md")
    (tmp_path / "d").rename(tmp_path / "f")
    (tmp_path / "d").symlink_to("f")
    for found in (changed, gone, linked, below, Found(path="../x", size=1, modified_ns=0)):
        with pytest.raises(LoadFailed):
            source.read(found)
    with pytest.raises(TooLarge):
        source.read(Found(path="a.md", size=MAX + 1, modified_ns=0))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"abc\0def", "binary: a NUL byte at offset 3"),
        (
            "a.go",
            b"// Code generated by protoc-gen-go. DO NOT EDIT.\npackage x\n",
            "its head says that it is generated",
        ),
        ("a.js", b"var a=1;" * 1000, "its lines look minified (8000 bytes each)"),
    ],
)
def test_content_that_nobody_can_read_is_refused_once(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    write(tmp_path, {name: data})
    source = FolderSource(tmp_path, max_file_bytes=MAX)
    (found,) = source.walk()
    assert isinstance(found, Found)
    with pytest.raises(ParseFailed) as failure:
        source.read(found)
    assert failure.value.message == reason
    left_out = Skipped(path=name, reason=reason)
    second, _ = again(tmp_path, source, [left_out])
    assert list(second.walk()) == [left_out]
    third, _ = again(tmp_path, second, [left_out])
    (tmp_path / name).write_text("now readable")
    assert isinstance(next(third.walk()), Found)


@pytest.mark.parametrize("data", ["text".encode("utf-16"), b"\xef\xbb\xbftext", b""])
def test_text_in_other_encodings_is_read(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, {"a.txt": data})
    source = FolderSource(tmp_path, max_file_bytes=MAX)
    (found,) = source.walk()
    assert isinstance(found, Found)
    assert source.read(found).data == data


# --- walking again --------------------------------------------------------------------------------


TREE: dict[str, str | bytes] = {
    ".gitignore": "*.log\nskipme/\n",
    "a.md": "x",
    "b.log": "x",
    "skipme/x.md": "x",
    "src/c.py": "x",
    "src/deep/d.py": "x",
    "src/.gitignore": "e.py\n",
    "src/e.py": "x",
    "node_modules/f.js": "x",
    "big.txt": "x" * (MAX + 1),
}


def test_an_unchanged_tree_needs_no_matching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {name: text for name, text in TREE.items() if name != "big.txt"})
    make_old(tmp_path)
    first = FolderSource(tmp_path, max_file_bytes=MAX)
    items = list(first.walk())
    second, known = again(tmp_path, first, items)

    def refuse(*_: object) -> str:
        raise AssertionError("an unchanged path was matched again")

    monkeypatch.setattr(walk, "why_not_file", refuse)
    monkeypatch.setattr(walk, "why_not_folder", refuse)
    assert list(second.walk(known=known)) == items
    assert second.fingerprint() == first.fingerprint()


@pytest.mark.parametrize(
    ("change", "appear", "vanish"),
    [
        ({".gitignore": "skipme/\n"}, {"b.log"}, set()),
        ({"src/.gitignore": "c.py\n"}, {"src/e.py"}, {"src/c.py"}),
        ({"src/deep/.gitignore": "d.py\n"}, set(), {"src/deep/d.py"}),
        ({".refdeskignore": "a.md\n!skipme\n"}, {"skipme/x.md"}, {"a.md"}),
        ({"big.txt": "small"}, {"big.txt"}, set()),
        ({"a.md": "x" * (MAX + 1)}, set(), {"a.md"}),
        ({"src/new.py": "x", "src/new.log": "x"}, {"src/new.py"}, set()),
        ({"src/.gitignore": None}, {"src/e.py"}, set()),
    ],
)
def test_a_change_of_rules_or_files_is_seen(
    tmp_path: Path, change: dict[str, str | None], appear: set[str], vanish: set[str]
) -> None:
    write(tmp_path, TREE)
    make_old(tmp_path)
    first = FolderSource(tmp_path, max_file_bytes=MAX)
    items = list(first.walk())
    before = {item.path for item in items if isinstance(item, Found)}
    for name, text in change.items():
        if text is None:
            (tmp_path / name).unlink()
        else:
            write(tmp_path, {name: text})
    second, known = again(tmp_path, first, items)
    after = list(second.walk(known=known))
    assert {item.path for item in after if isinstance(item, Found)} == (before | appear) - vanish
    assert after == list(FolderSource(tmp_path, max_file_bytes=MAX).walk())


def test_rules_written_twice_within_a_tick_are_seen(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "a.md", "a.md": "x", "b.md": "x"})
    first = FolderSource(tmp_path, max_file_bytes=MAX)
    items = list(first.walk())
    state = (tmp_path / ".gitignore").stat()
    write(tmp_path, {".gitignore": "b.md"})
    os.utime(tmp_path / ".gitignore", ns=(state.st_atime_ns, state.st_mtime_ns))
    second, known = again(tmp_path, first, items)
    found = [item.path for item in second.walk(known=known) if isinstance(item, Found)]
    assert found == ["a.md"]


def test_other_settings_and_broken_fingerprints_start_afresh(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    first = FolderSource(tmp_path, max_file_bytes=MAX)
    items = list(first.walk())
    for fingerprint in ("", "{", "[]", '{"settings": 1}'):
        source = FolderSource(tmp_path, max_file_bytes=MAX, rules_fingerprint=fingerprint)
        assert list(source.walk(known={"b.log": FileState("i", 1, 1, "h")})) == items
    larger = FolderSource(tmp_path, max_file_bytes=MAX * 2, known_skipped={"big.txt": "too large: old"},
                          rules_fingerprint=first.fingerprint())  # fmt: skip
    assert "big.txt" in {item.path for item in larger.walk() if isinstance(item, Found)}


def test_single_files_in_build_output_are_left_out_as_by_a_walk(tmp_path: Path) -> None:
    write(tmp_path, {"package.json": "{}", "build/a.js": "var a = 1", "src/b.js": "var b = 1"})
    source = FolderSource(tmp_path, max_file_bytes=MAX)
    assert [one.path for one in source.walk(["build/a.js", "src/b.js"])] == ["src/b.js"]


# --- asking why -----------------------------------------------------------------------------------


def test_why_agrees_with_the_walk_and_names_the_rule(tmp_path: Path) -> None:
    write(tmp_path, {**TREE, "nul.txt": b"a\0b"})
    for item in FolderSource(tmp_path, max_file_bytes=MAX).walk():
        told = why(tmp_path, item.path, max_file_bytes=MAX)
        if item.path == "nul.txt":
            assert told == Skipped(path="nul.txt", reason="binary: a NUL byte at offset 1")
        elif isinstance(item, Found):
            assert told == item
        else:
            assert isinstance(told, Skipped)
            assert told.reason == item.reason
    assert why(tmp_path, "skipme/x.md", max_file_bytes=MAX) == Skipped(
        path="skipme/x.md", reason="in skipme/: ignored by .gitignore:2 (skipme/)"
    )
    assert why(tmp_path, str(tmp_path / "src/e.py"), max_file_bytes=MAX) == Skipped(
        path="src/e.py", reason="ignored by src/.gitignore:1 (e.py)"
    )
    assert why(tmp_path, "none/x", max_file_bytes=MAX) == Skipped(path="none/x", reason="none does not exist")
    assert why(tmp_path, "../x", max_file_bytes=MAX) == Skipped(path="../x", reason="not inside the root")
    assert isinstance(why(tmp_path, "src", max_file_bytes=MAX), Found)


def test_reasons_that_last_are_those_of_rules_and_names() -> None:
    assert "ignored by x".startswith(judge.LASTING)
    assert not "its head says that it is generated".startswith(judge.LASTING)
    assert not "too large: 1".startswith(judge.LASTING)
