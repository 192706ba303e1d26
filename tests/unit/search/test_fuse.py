from hypothesis import given
from hypothesis import strategies as st

from refdesk.model import Scored
from refdesk.search import fuse


def test_first_everywhere_is_one() -> None:
    ranking = [Scored(7, 3.0), Scored(8, 2.0)]
    assert fuse.reciprocal_rank([(1.0, ranking), (2.0, ranking)])[7] == 1.0


def test_weights_decide_between_two_rankings() -> None:
    one, other = [Scored(1, 9.0), Scored(2, 1.0)], [Scored(2, 9.0), Scored(1, 1.0)]
    assert fuse.order(fuse.reciprocal_rank([(3.0, one), (1.0, other)])) == [1, 2]
    assert fuse.order(fuse.reciprocal_rank([(1.0, one), (3.0, other)])) == [2, 1]


def test_alpha_moves_from_words_to_meaning() -> None:
    words, meaning = {1: 10.0, 2: 5.0}, {2: 0.9, 3: 0.8}
    assert fuse.order(fuse.convex(0.0, words, meaning))[0] == 1
    assert fuse.order(fuse.convex(1.0, words, meaning))[0] == 2
    assert fuse.convex(0.5, words, meaning)[2] == 0.5 * 0.9 + 0.5 * 0.5


@given(
    st.dictionaries(st.integers(0, 50), st.floats(0, 100)),
    st.dictionaries(st.integers(0, 50), st.floats(-1, 1)),
    st.floats(0, 1),
)
def test_scores_are_within_bounds_and_the_order_is_total(
    words: dict[int, float], meaning: dict[int, float], alpha: float
) -> None:
    fused = fuse.convex(alpha, words, meaning)
    assert all(0.0 <= score <= 1.0 for score in fused.values())
    assert fuse.order(fused) == fuse.order(dict(reversed(fused.items())))
