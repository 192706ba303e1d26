"""file: URIs stay inside the allowed roots."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path

import pytest

from refdesk.errors import Forbidden, InvalidUri, LoadFailed, ParseFailed, TooLarge
from refdesk.sources.files import read_file, resolve_file_uri, why_not_written


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    (root / "sub dir").mkdir(parents=True)
    (root / "sub dir" / "ü#?.md").write_text("text")
    (root.parent / "root2").mkdir()
    (root.parent / "root2" / "secret.md").write_text("secret")
    return root


def test_files_and_folders_inside_a_root_are_resolved(root: Path) -> None:
    file = root / "sub dir" / "ü#?.md"
    assert resolve_file_uri(file.as_uri(), [root]) == file
    assert resolve_file_uri(root.as_uri(), [root]) == root
    assert resolve_file_uri(f"file://localhost{root}/sub%20dir/", [Path("/nowhere"), root]) == root / "sub dir"
    assert resolve_file_uri(f"FILE:{root}/sub%20dir/../sub%20dir", [root]) == root / "sub dir"


def test_what_lies_outside_is_refused_with_the_way_to_allow_it(root: Path) -> None:
    secret = root.parent / "root2" / "secret.md"
    (root / "link").symlink_to(secret)
    (root / "up").symlink_to(root.parent)
    for uri in (
        secret.as_uri(),
        f"file://{root}/../root2/secret.md",
        f"file://{root}/%2e%2e/root2/secret.md",
        f"file://{root}/..%2Froot2%2Fsecret.md",
        f"file://{root}/link",
        f"file://{root}/up/root2/secret.md",
        f"file://{root.parent}/none.md",
    ):
        with pytest.raises(Forbidden, match="--allow-root"):
            resolve_file_uri(uri, [root])
    with pytest.raises(Forbidden, match=r"\(none\)"):
        resolve_file_uri(secret.as_uri(), [])


@pytest.mark.parametrize(
    "uri",
    [
        "file:relative.md",
        "file://",
        "file://server/share/x.md",
        "file:///x%00y",
        "file:///x\ny",
        "file:///x?query",
        "file:///x#part",
        "https://host/x",
        "/plain/path",
        "file://[broken/x",
        "",
    ],
)
def test_uris_of_the_wrong_form_are_refused(uri: str, root: Path) -> None:
    with pytest.raises(InvalidUri):
        resolve_file_uri(uri, [Path("/")])


@pytest.mark.skipif(os.name == "nt", reason="there are drives")
@pytest.mark.parametrize("uri", ["file:///C:/x.md", "file://C:/x.md", "file:///c|/x.md", "file:///C:"])
def test_windows_paths_are_told_apart(uri: str) -> None:
    with pytest.raises(InvalidUri, match="Windows drive"):
        resolve_file_uri(uri, [Path("/")])


def test_a_missing_file_inside_a_root_fails(root: Path) -> None:
    with pytest.raises(LoadFailed, match="does not exist"):
        resolve_file_uri(f"file://{root}/none.md", [root])


def test_a_file_named_for_itself_is_read(root: Path) -> None:
    file = root / "sub dir" / "ü#?.md"
    content = read_file(file, max_bytes=4)
    assert (content.uri, content.path, content.data) == (file.as_uri(), "ü#?.md", b"text")
    assert content.modified_ns == file.stat().st_mtime_ns
    with pytest.raises(TooLarge, match="more than the 3 allowed"):
        read_file(file, max_bytes=3)
    (root / "binary").write_bytes(b"a\0")
    with pytest.raises(ParseFailed, match="NUL byte"):
        read_file(root / "binary", max_bytes=9)
    os.mkfifo(root / "pipe")
    for other in (root / "pipe", root, root / "none"):
        with pytest.raises(LoadFailed):
            read_file(other, max_bytes=9)


def test_encoded_bytes_are_not_text() -> None:
    data = bytes(range(256)) * 100
    lines = b"".join(binascii.b2a_uu(data[at : at + 45]) for at in range(0, len(data), 45))
    packed = base64.encodebytes(data)
    for encoded in (
        b"begin 644 a.tar\n" + lines + b"`\nend\n",
        b"A sample of the format.\n\nbegin 644 a.tar\n" + binascii.b2a_uu(b"short") + b"`\nend\n",
        b"begin-base64 644 a.tar\n" + packed + b"====\n",
        packed,
    ):
        assert why_not_written("a.uu", encoded) == "its lines are encoded bytes"
    for text in (
        b"begin 644 words\nThis is how uuencode starts a file.\n",
        b"A key:\n\n" + base64.encodebytes(data[:600]) + b"\nis given by the server to every client that asks.\n" * 9,
        b"word\n" * 50,
    ):
        assert why_not_written("a.txt", text) == ""
