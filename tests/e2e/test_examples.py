"""Every console example in the documentation runs as it is written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp_client.stdio import environment

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def commands(page: Path) -> list[list[str]]:
    found = [
        line[2:] for block in BLOCK.findall(page.read_text()) for line in block.splitlines() if line.startswith("$ ")
    ]
    return [shlex.split(line, comments=True) for line in found]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_examples(page: Path, tmp_path: Path) -> None:
    (tmp_path / ".refdesk").mkdir()
    (tmp_path / "home").mkdir()
    files = {
        "src/retry.py": "def parseHTTPResponse(raw):\n    return raw\n\n\ndef main():\n    configure_retries()\n",
        "src/main.rs": 'fn main() {\n    println!("x");\n}\n',
        "docs/guide.md": "# Guide\n\n## Retries\n\nRetries use exponential backoff.\n",
        "handbook/guides/retries.md": "# Retries\n\n## Backoff Strategy\n\nThe SDK uses an exponential backoff.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in commands(page):
        assert command[0] == "refdesk", command
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**environment(), "HOME": str(tmp_path / "home")},
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_the_toolset_pages_have_examples() -> None:
    assert {"command-line", "docs", "rag", "code"} <= {page.stem for page in PAGES if commands(page)}
