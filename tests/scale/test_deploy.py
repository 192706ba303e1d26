"""The deployment has the topology that the tests start as processes, and names no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from refdesk.cli import COMMANDS
from refdesk.store.shared.address import parse

DEPLOY = Path(__file__).parents[2] / "deploy"


def _services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_servers_are_given_every_node_and_no_password() -> None:
    services = _services()
    nodes = {f"{name}:6334" for name in services if name.startswith("qdrant")}
    servers = [one for name, one in services.items() if name.startswith("server")]
    assert (len(nodes), len(servers)) == (3, 2)
    for server in servers:
        address = parse(server["environment"]["REFDESK_LIBRARY"])
        assert set(address.nodes) == nodes and "postgres" in services
        assert ":" not in address.record.partition("//")[2].partition("@")[0]
        assert server["command"][0] in COMMANDS
        assert {"postgres", "qdrant", "token"} == set(server["secrets"])


def test_what_is_copied_into_the_image_is_there() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    assert copied and all((DEPLOY.parent / name).exists() for names in copied for name in names)
    assert "USER refdesk" in lines
