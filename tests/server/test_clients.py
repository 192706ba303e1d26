"""Is RefDesk put into clients' settings without disturbing anything there?"""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refdesk.cli import cli
from refdesk.commands.install import (
    CLIENTS,
    Places,
    ServerCommand,
    add_to_settings,
    list_clients,
    own_command,
    parse,
    render,
    set_member,
)
from refdesk.errors import InvalidInput, ParseFailed

COMMAND = ServerCommand("/opt/refdesk", ("--library", "/my lib", "serve"))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Places(home=tmp_path / "home", project=tmp_path / "project", platform="linux")


def entry(places: Places, name: str, file: str) -> Any:
    text = (places.home.parent / file).read_text()
    client = CLIENTS[name]
    return (tomllib.loads(text) if client.format == "toml" else parse(text))[client.key]["refdesk"]


@pytest.mark.parametrize(
    ("name", "file", "project_file"),
    [
        ("claude-code", "home/.claude.json", "project/.mcp.json"),
        ("cursor", "home/.cursor/mcp.json", "project/.cursor/mcp.json"),
        ("vscode", "home/.config/Code/User/mcp.json", "project/.vscode/mcp.json"),
        ("codex", "home/.codex/config.toml", "project/.codex/config.toml"),
        ("gemini", "home/.gemini/settings.json", "project/.gemini/settings.json"),
    ],
)
def test_a_new_file_is_made(places: Places, name: str, file: str, project_file: str) -> None:
    told = add_to_settings(name, COMMAND, places)
    assert CLIENTS[name].title in told
    typed = {"type": "stdio"} if name in ("claude-code", "vscode") else {}
    assert entry(places, name, file) == typed | {"command": "/opt/refdesk", "args": ["--library", "/my lib", "serve"]}
    add_to_settings(name, own_command(name, project=True), places, project=True)
    root = ["--allow-root=${workspaceFolder}"] if name in ("cursor", "vscode") else []  # the others start it there
    assert entry(places, name, project_file) == typed | {"command": "refdesk", "args": ["serve", *root]}
    add_to_settings(name, own_command(name, roots=["docs"], project=True), places, project=True)
    assert entry(places, name, project_file)["args"] == ["serve", "--allow-root=docs"]


def test_a_client_without_projects_is_told_to_name_what_may_be_read(places: Places) -> None:
    assert "--allow-root FOLDER" in add_to_settings("claude-desktop", own_command("claude-desktop"), places)
    named = own_command("claude-desktop", roots=[str(places.project)])
    assert "--allow-root FOLDER" not in add_to_settings("claude-desktop", named, places)
    assert named.args[-1] == f"--allow-root={places.project.resolve()}"


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("darwin", "Library/Application Support/Claude"),
        ("win32", "AppData/Roaming/Claude"),
        ("linux", ".config/Claude"),
    ],
)
def test_each_system_has_its_own_place(places: Places, platform: str, folder: str) -> None:
    there = Places(home=places.home, project=places.project, platform=platform)
    add_to_settings("claude-desktop", COMMAND, there)
    assert (places.home / folder / "claude_desktop_config.json").exists()


def test_what_is_there_stays_to_the_byte(places: Places) -> None:
    before = """{
    // my editor's servers
    "inputs": [{"id": "key", "type": "promptString",}],
    "servers": {
        /* the old one */
        "other": {"command": "x", "args": ["a // no comment", "\\u00e9"]}, // keep
    },
    "last": 1e3
}
"""
    file = places.project / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text(before)
    add_to_settings("vscode", COMMAND, places, project=True)
    after = file.read_text()
    added = """
        "refdesk": {
            "type": "stdio",
            "command": "/opt/refdesk",
            "args": [
                "--library",
                "/my lib",
                "serve"
            ]
        }"""
    assert after == before.replace("// keep", "// keep" + added)
    add_to_settings("vscode", COMMAND, places, project=True)
    assert file.read_text() == after


def test_an_older_entry_is_brought_up_to_date_and_keeps_its_extras(places: Places) -> None:
    file = places.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers":{"refdesk":{"command":"old","env":{"A":"b"}},"z":{"command":"y"}}}')
    add_to_settings("cursor", COMMAND, places)
    assert json.loads(file.read_text())["mcpServers"] == {
        "refdesk": {"command": "/opt/refdesk", "env": {"A": "b"}, "args": ["--library", "/my lib", "serve"]},
        "z": {"command": "y"},
    }


def test_toml_keeps_comments_and_other_tables(places: Places) -> None:
    file = places.home / ".codex" / "config.toml"
    file.parent.mkdir()
    before = '# mine\nmodel = "o"\n\n[mcp_servers.other]\ncommand = "x" # keep\n'
    file.write_text(before)
    add_to_settings("codex", COMMAND, places)
    added = '\n[mcp_servers.refdesk]\ncommand = "/opt/refdesk"\nargs = ["--library", "/my lib", "serve"]\n'
    assert file.read_text() == before + added
    file.write_text(before + added + 'startup_timeout_sec = 20\n\n[tui]\ntheme = "dark"\n')
    add_to_settings("codex", ServerCommand("new", ("serve",)), places)
    assert tomllib.loads(file.read_text())["mcp_servers"]["refdesk"] == {
        "command": "new",
        "args": ["serve"],
        "startup_timeout_sec": 20,
    }
    assert file.read_text().endswith('\n[tui]\ntheme = "dark"\n')


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("cursor", ".cursor/mcp.json", "{ not json"),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": []}'),
        ("codex", ".codex/config.toml", "= broken"),
        ("codex", ".codex/config.toml", 'mcp_servers = {refdesk = {command = "x"}, b = {command = "y"}}\n'),
    ],
)
def test_what_can_not_be_read_is_not_touched(places: Places, name: str, file: str, text: str) -> None:
    path = places.home / file
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ParseFailed, match=r"Nothing was changed. Correct it, or add by hand:\n[\s\S]*refdesk"):
        add_to_settings(name, COMMAND, places)
    assert path.read_text() == text


def test_printing_writes_nothing(places: Places) -> None:
    assert parse(render("gemini", COMMAND, places))["mcpServers"]["refdesk"]["command"] == "/opt/refdesk"
    assert list(places.home.iterdir()) == []


def test_links_and_rights_are_kept(places: Places) -> None:
    real = places.home / "dotfiles.json"
    real.write_text("{}\n")
    real.chmod(0o600)
    (places.home / ".claude.json").symlink_to(real)
    add_to_settings("claude-code", COMMAND, places)
    assert (places.home / ".claude.json").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert "refdesk" in real.read_text()


def test_the_list_says_what_was_found(places: Places) -> None:
    (places.home / ".gemini").mkdir()
    (places.home / ".cursor").mkdir()
    (places.home / ".cursor" / "mcp.json").write_text("{}")
    add_to_settings("codex", COMMAND, places)
    lines = dict(line.split(maxsplit=1) for line in list_clients(places).splitlines())
    assert list(lines) == list(CLIENTS)
    assert lines["claude-code"] == "not found"
    assert lines["gemini"] == "found; install with: refdesk install gemini"
    assert lines["cursor"] == f"found ({Path('~/.cursor/mcp.json')}); install with: refdesk install cursor"
    assert lines["codex"] == f"installed in {Path('~/.codex/config.toml')}"
    assert "found; install with: refdesk --library /srv/kb install gemini" in list_clients(places, "/srv/kb")


def test_wrong_clients_are_explained(places: Places) -> None:
    with pytest.raises(InvalidInput, match=r"Unknown client: emacs\. Known ones: claude-code,"):
        render("emacs", COMMAND, places)
    with pytest.raises(InvalidInput, match="no settings for a project"):
        render("claude-desktop", COMMAND, places, project=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1,\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n\t"x": 1\n}\n', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": 1\n\t}\n}\n'),
        ('{\r\n  "x": 1\r\n}', '{\r\n  "x": 1,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}'),
        ('{"a": {"b": [1, {"c": 2}]}, "z": 0}', '{"a": {"b": 1}, "z": 0}'),
        ('{"a": {} // c\n}', '{"a": {\n    "b": 1\n  } // c\n}'),
        ('{"a": {"y": 1 /* c */}}', '{"a": {"y": 1, /* c */\n    "b": 1\n  }}'),
    ],
)
def test_one_member_is_set(before: str, after: str) -> None:
    assert set_member(before, ("a", "b"), 1) == after
    assert parse(after)["a"]["b"] == 1


@pytest.mark.parametrize("text", ["{", '{"a"}', '{"a":}', "{'a': 1}", "[1 2]", '{"a": 1} x', '{"a": 01x}', "nul"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d"):
        parse(text)


ADDRESS = "postgres://desk@db/kb?index=qdrant://q1,q2&schema=team"


def _printed(name: str, *arguments: str, flags: tuple[str, ...] = (), **environ: str) -> tuple[list[str], str]:
    """The arguments that `install --print` would write, and what it tells besides."""
    unset = {"REFDESK_LIBRARY": "", "REFDESK_CONFIG": "", "XDG_DATA_HOME": ""}
    run = CliRunner().invoke(cli, [*flags, "install", name, "--print", *arguments], env={**unset, **environ})
    assert run.exception is None, run.output
    client = CLIENTS[name]
    settings = tomllib.loads(run.stdout) if client.format == "toml" else parse(run.stdout)
    given = settings[client.key]["refdesk"]["args"]
    return given[2:] if given[:2] == ["-m", "refdesk"] else given, run.stderr


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", list(CLIENTS))
def test_the_library_of_the_environment_is_written_without_its_password(at_home: Path, name: str) -> None:
    secret = ADDRESS.replace("desk@", "desk:s3cret@").replace("&schema", "&sslpassword=s3cret&schema")
    given, told = _printed(name, REFDESK_LIBRARY=secret, REFDESK_QDRANT_API_KEY="k3y", PGSSLMODE="require")
    assert given == ["--library", ADDRESS, "serve"]
    assert "PGPASSWORD, PGSSLMODE, REFDESK_QDRANT_API_KEY" in told and CLIENTS[name].title in told
    assert "s3cret" not in told and "k3y" not in told
    assert _printed(name, REFDESK_LIBRARY=ADDRESS, PGPASSFILE="p")[1].startswith("The server needs PGPASSFILE too")
    assert _printed(name, REFDESK_LIBRARY="lib") == (["--library", str(at_home / "lib"), "serve"], "")
    assert _printed(name, flags=("--library", ADDRESS), REFDESK_LIBRARY="lib")[0] == given
    (at_home / "mine.toml").write_text('library = "kept"\n')
    named = _printed(name, REFDESK_CONFIG=str(at_home / "mine.toml"))
    assert named[0] == ["--library", str(at_home / "kept"), "serve"] and "REFDESK_CONFIG" in named[1]
    assert _printed(name) == (["serve"], "")
    told = _printed(name, REFDESK_SKILLS="neo4j", NEO4J_PASSWORD="s3cret", REFDESK_EMBEDDER="none")[1]
    assert "NEO4J_PASSWORD, REFDESK_EMBEDDER, REFDESK_SKILLS" in told and "s3cret" not in told


def test_what_a_folder_sets_is_found_by_the_server_in_each_folder(at_home: Path) -> None:
    (at_home / "refdesk.toml").write_text('library = "lib"\n')
    assert _printed("gemini") == (["serve"], "")


@pytest.mark.parametrize("name", [name for name, client in CLIENTS.items() if client.project_file])
def test_a_project_s_file_names_a_shared_library_and_no_folder_that_was_not_given(at_home: Path, name: str) -> None:
    assert _printed(name, "--project", REFDESK_LIBRARY=ADDRESS)[0][:3] == ["--library", ADDRESS, "serve"]
    given, told = _printed(name, "--project", REFDESK_LIBRARY="lib")
    assert given[0] == "serve" and f"does not name the library {at_home / 'lib'}" in told
    given, told = _printed(name, "--project", flags=("--library", "lib"))
    assert given[:3] == ["--library", str(at_home / "lib"), "serve"] and not told
