"""What happens while the toolsets load, and when they can't?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import Start


def test_the_handshake_does_not_wait_for_the_toolsets(start: Start, tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    client = start()
    client.initialize()
    asked = [client.start("tools/list"), client.start("tools/call", {"name": "echo", "arguments": {"query": "x"}})]
    given_up = client.start("resources/list")
    client.notify("notifications/cancelled", {"requestId": given_up})
    assert client.request("ping")["result"] == {}
    (tmp_path / "wait").unlink()
    assert all("result" in client.finish(request_id) for request_id in asked)


def test_a_failure_is_told_and_tried_again(start: Start, tmp_path: Path) -> None:
    (tmp_path / "busy").touch()
    client = start()
    client.initialize()
    error = client.request("tools/list")["error"]
    assert error["code"] == -32603
    assert error["message"] == "RefDesk could not open its library. Another process writes. Wait for it."
    (tmp_path / "busy").rename(tmp_path / "broken")
    error = client.call("echo", {"query": "x"})["error"]
    assert "secret" not in error["message"]
    assert error["data"]["correlationId"] in error["message"]
    (tmp_path / "broken").unlink()
    assert client.call("echo", {"query": "x"})["result"]["isError"] is False


def test_changes_are_found_after_a_failed_start_too(start: Start, tmp_path: Path) -> None:
    (tmp_path / "busy").touch()
    client = start()
    client.initialize()
    assert "error" in client.request("tools/list")
    (tmp_path / "busy").unlink()
    assert "result" in client.request("tools/list")
    (tmp_path / "taxonomy").write_text("guide")
    client.notification("notifications/tools/list_changed")


def test_nothing_loads_before_the_first_answer(start: Start, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    client = start()
    assert client.end() == 0
    assert client.log == []


def test_it_ends_even_while_it_loads(start: Start, tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    client = start(exit_grace_s=0.2)
    client.initialize()
    client.start("tools/list")
    assert client.end() == 0


_TOOLSETS = "from refdesk.app import make_toolsets as make; make(Settings(library=Path('none')))"
_VERSION = "from refdesk.__main__ import program; sys.argv[1:] = ['--version']; program()"


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        *((_TOOLSETS, one) for one in ("jsonschema", "refdesk.skills.learn", "refdesk.model", "refdesk.desk.desk")),
        (_VERSION, "click"),
    ],
)
def test_what_a_start_does_not_need_is_not_imported(code: str, unneeded: str, tmp_path: Path) -> None:
    begin = "import sys\nfrom pathlib import Path\nfrom refdesk.settings import Settings\n"
    whole = f"{begin}{code}\nprint({unneeded!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split("\n")[-2] == "False"
