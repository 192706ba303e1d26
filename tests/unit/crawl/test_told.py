"""What a crawl tells at its end is short and does not steer the terminal."""

from __future__ import annotations

import pytest

from refdesk.commands.index import _list
from refdesk.model import Skipped


def test_addresses_are_told_in_short_and_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    long = "http://example.org/" + "loop/" * 500
    _list(
        "left out", [Skipped(path=long, reason="too deep"), Skipped(path="http://example.org/\x1b[2J", reason="a\nb")]
    )
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "2 left out:"
    assert len(told) == 3 and all(len(line) < 200 for line in told)
    assert told[1].startswith("  http://example.org/loop/") and told[1].endswith("loop/: too deep")
    assert told[2] == "  http://example.org/\\x1b[2J: a\\nb"
