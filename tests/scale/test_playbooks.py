"""Playbooks of several servers of one shared library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.conftest import Serve, serve
from tests.scale import servers
from tests.unit.skills.conversations import of_kind

__all__ = ["serve"]


def test_one_conversation_through_two_servers_makes_one_playbook(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.for_tests()
    monkeypatch.setattr(servers, "is_wanted", True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    clients = [serve(tmp_path / "library", "--toolsets", "skills") for _ in range(2)]
    kinds = ("app_crash", "locked_out", "promo_code", "router_offline", "wrong_item")
    for kind in kinds:
        call = {"name": "create_skill", "arguments": {"conversation": of_kind(kind)[0].transcript}}
        asked = [(client.raw, client.raw.start("tools/call", call)) for client in clients]
        made = [raw.finish(request)["result"]["structuredContent"] for raw, request in asked]
        assert sorted(each["created"] for each in made) == [False, True]
        assert len({each["skill_id"] for each in made}) == 1
