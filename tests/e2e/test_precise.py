"""`search --precise` in a process of its own, with the package laid out as pip does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.mcp_client.stdio import environment

EXTRA = Path(__file__).parents[2] / "extras" / "refdesk-precise"
SHOP = {
    "pay.py": "def charge(card, amount):\n    return gateway.charge(card, amount)\n",
    "mail.py": "def send_receipt(order, address):\n    smtp.send(address, render(order))\n",
}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder like site-packages, with the package and what pip writes about it."""
    site = tmp_path / "site"
    shutil.copytree(EXTRA / "src" / "refdesk_precise", site / "refdesk_precise")
    about = tomllib.loads((EXTRA / "pyproject.toml").read_text())["project"]
    info = site / f"refdesk_precise-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: refdesk-precise\nVersion: {about['version']}\n")
    points = about["entry-points"]["refdesk.precise"]
    lines = "".join(f"{name} = {place}\n" for name, place in points.items())
    (info / "entry_points.txt").write_text(f"[refdesk.precise]\n{lines}")
    return site


def run(library: Path, site: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(site), environment().get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "refdesk", "--library", str(library), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**environment(), "PYTHONPATH": path}, check=True, cwd=library
    )
    return done.stdout


def test_the_flag_turns_it_on(tmp_path: Path, installed: Path) -> None:
    library, files = tmp_path / "library", tmp_path / "files"
    library.mkdir()
    files.mkdir()
    for name, text in SHOP.items():
        (files / name).write_text(text)
    run(library, installed, "index", str(files), "--kind", "code", "--name", "shop")
    asked = ("search", "send the receipt by mail", "--json", "--explain")
    plain, precise = (json.loads(run(library, installed, *asked, *more)) for more in ((), ("--precise",)))
    assert "precise" not in plain["hits"][0]["explanation"]
    assert precise["hits"][0]["path"] == "mail.py"
    assert precise["hits"][0]["explanation"]["precise"].startswith("from rank 1, ")
    assert precise["notes"] == []
