"""Every search answers whatever becomes of the indexes, and doctor ends clean."""

from __future__ import annotations

from pathlib import Path

from tests.faults.damage import damage_files, damage_indexes


def test_searches_and_doctor_survive_flipped_bits_of_the_indexes(tmp_path: Path) -> None:
    outcome = damage_indexes(tmp_path, rounds=16, seed=0)
    assert outcome.problems == []
    assert outcome.faults > 400
    assert (outcome.rounds, outcome.lost, outcome.hangs, outcome.crashes) == (16, 0, 0, 0)


def test_doctor_survives_damage_of_any_files(tmp_path: Path) -> None:
    outcome = damage_files(tmp_path, rounds=20, seed=1)
    assert outcome.problems == []
    assert (outcome.rounds, outcome.lost, outcome.hangs, outcome.crashes) == (20, 0, 0, 0)
