"""Does the official conformance suite agree?  Every scenario that a revision requires must pass."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.mcp_client.http import HttpServer
from tests.server.node_tools import required

SERVER = Path(__file__).parent / "conformance_server.py"


@pytest.mark.parametrize(("revision", "scenarios"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_every_required_scenario_passes(revision: str, scenarios: int, tmp_path: Path) -> None:
    tools = required()
    with HttpServer(SERVER) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        command = [*tools.conformance, "server", "--url", url, "--requirements", revision]
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    unscored = set(re.findall(r"^  [✓✗] (\S+) \(", run.stdout, re.M))
    passed = set(re.findall(r"^✓ (\S+): [1-9]\d* passed, 0 failed", run.stdout, re.M))
    assert len(passed - unscored) == scenarios, run.stdout
