"""Measures against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from bench import metrics


@pytest.mark.parametrize(
    ("rank", "expected"), [(1, 1.0), (2, 1 / math.log2(3)), (3, 0.5), (10, 1 / math.log2(11)), (11, 0.0), (None, 0.0)]
)
def test_ndcg_of_one_right_answer(rank: int | None, expected: float) -> None:
    assert metrics.ndcg(rank) == pytest.approx(expected)


def test_reciprocal_rank_and_recall_stop_at_ten() -> None:
    assert [metrics.reciprocal_rank(rank) for rank in (1, 4, 10, 11, None)] == [1.0, 0.25, 0.1, 0.0, 0.0]
    assert [metrics.recall(rank) for rank in (1, 10, 11, None)] == [1.0, 1.0, 0.0, 0.0]


def test_an_estimate_holds_its_mean_and_is_the_same_every_time() -> None:
    values = [0.0, 1.0] * 200
    found = metrics.estimate(values)
    assert found.mean == 0.5
    assert 0.44 < found.low < 0.5 < found.high < 0.56  # 1.96 * sqrt(.25 / 400) = .049
    assert found == metrics.estimate(values)
    assert str(metrics.Estimate(0.5, 0.25, 1.0)) == ".500 [.250, 1.000]"


def test_a_constant_has_no_interval_and_nothing_is_zero() -> None:
    assert metrics.estimate([0.3] * 10) == metrics.Estimate(pytest.approx(0.3), pytest.approx(0.3), pytest.approx(0.3))
    assert metrics.estimate([]).mean == 0.0


def test_a_difference_is_paired() -> None:
    worse = [0.0, 0.5, 1.0, 0.2]
    found = metrics.difference([one + 0.1 for one in worse], worse)
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.1))
