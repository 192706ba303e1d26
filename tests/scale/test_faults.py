"""A shared library keeps every acknowledged document while its parts are killed."""

from __future__ import annotations

import pytest

from tests.scale import faults, servers

KILLS = 30


def test_nothing_acknowledged_is_lost_while_parts_are_killed() -> None:
    try:
        outcome = faults.run(KILLS, seed=1)
    except servers.Missing as missing:
        pytest.skip(str(missing))
    said = faults.table(outcome)
    assert outcome.killed == KILLS, said
    assert len(outcome.acknowledged) > KILLS, said
    assert (outcome.lost, outcome.half, outcome.doctor) == ([], [], ""), said
    assert outcome.answered > 0 and outcome.share >= 0.99, said
    for kind, limit in faults.LIMITS_S.items():  # none hangs, also on a busy machine
        assert 0 < outcome.slowest_s[kind] < faults.HANG_S + limit, said
