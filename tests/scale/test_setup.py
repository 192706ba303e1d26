"""What a server of a shared library tells people to set up opens that library."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import refdesk
from refdesk.store.shared.store import SharedStore
from tests.mcp_client.http import HttpServer
from tests.mcp_client.stdio import environment
from tests.ports.library import collection

_MAIN = Path(refdesk.__file__).with_name("__main__.py")


def test_the_commands_of_the_set_up_page_open_the_library_and_show_no_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SharedStore(address)) as store:
        store.put_collection(collection())
    for name, value in (("HOME", tmp_path / "home"), ("XDG_DATA_HOME", tmp_path / "data"), ("PGAPPNAME", "lantern")):
        monkeypatch.setenv(name, str(value))
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("REFDESK_LIBRARY", address.replace("refdesk@", "refdesk:0pen-sesame@"))
    monkeypatch.setenv("REFDESK_QDRANT_API_KEY", "k3y")
    monkeypatch.chdir(tmp_path)
    with HttpServer(_MAIN, "serve", "--transport", "http", "--port", "0") as server, httpx.Client() as client:
        page = html.unescape(client.get(f"{server.root}/setup").text)
        token = re.search(r'name="token" value="([^"]+)"', page)
        assert token is not None
        origin = {"origin": server.root}
        checked = client.post(f"{server.root}/setup/check", data={"token": token[1]}, headers=origin)
        run = html.unescape(client.get(server.root + checked.headers["location"]).text)
    commands = dict(re.findall(r'<code id="run-([a-z-]+)">(.*?)</code>', page))
    entries = dict(re.findall(r'<pre id="entry-([a-z-]+)">(.*?)</pre>', page, re.S))
    assert len(commands) == len(entries) == 6
    assert all(shlex.split(command)[1:3] == ["--library", address] for command in commands.values())
    assert all(json.dumps(address) in entry for entry in entries.values())
    assert re.search(f"<code>library</code></th><td[^>]*>{re.escape(address)}</td><td[^>]*>the environment<", page)
    assert "<code>database</code>" not in page and f'mono">{address}</span>' in run
    told = page[page.index("Passwords and keys stay in the environment") :].partition("</p>")[0]
    assert re.findall("<code>(.*?)</code>", told) == ["PGAPPNAME", "PGPASSWORD", "REFDESK_QDRANT_API_KEY"]
    for never in ("0pen-sesame", "k3y", str(tmp_path / "data")):
        assert never not in page + run

    monkeypatch.delenv("REFDESK_LIBRARY")
    program = (sys.executable, str(_MAIN))
    install = [*program, *shlex.split(commands["claude-code"])[1:]]
    subprocess.run(install, check=True, env=environment(), capture_output=True)
    (written,) = json.loads((tmp_path / "home/.claude.json").read_text())["mcpServers"].values()
    for arguments in (written["args"], json.loads(entries["cursor"])["mcpServers"]["refdesk"]["args"]):
        assert arguments[-1] == "serve"
        arguments = [one for one in arguments if one not in ("-m", "refdesk")]  # where no script is installed
        listed = [*program, *arguments[:-1], "collections", "--json"]
        found = subprocess.run(listed, check=True, env=environment(), stdout=subprocess.PIPE).stdout
        assert [one["name"] for one in json.loads(found)] == [collection().name]
