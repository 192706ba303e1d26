from hypothesis import given
from hypothesis import strategies as st

from refdesk.search import lookup as fuse

IDS = (1, 2, 3)


def best(scores: list[float], ids: tuple[int, ...] = IDS) -> list[int]:
    return [ids[at] for at in fuse.order(scores, ids)]


def test_first_everywhere_is_one() -> None:
    assert fuse.reciprocal_rank(2, [(1.0, [1, 0]), (2.0, [1, 0])])[1] == 1.0


def test_weights_decide_between_two_rankings() -> None:
    one, other = [0, 1], [1, 0]
    assert fuse.order(fuse.reciprocal_rank(2, [(3.0, one), (1.0, other)]), IDS[:2]) == [0, 1]
    assert fuse.order(fuse.reciprocal_rank(2, [(1.0, one), (3.0, other)]), IDS[:2]) == [1, 0]


def test_alpha_moves_from_words_to_meaning() -> None:
    words, cosines = [10.0, 5.0, 0.0], [fuse.NONE, 0.9, 0.8]
    assert best(fuse.convex(0.0, words, cosines))[0] == 1
    assert best(fuse.convex(1.0, words, cosines))[0] == 2
    assert fuse.convex(0.5, words, cosines)[1] == 0.5 * 0.9 + 0.5 * 0.5
    assert fuse.convex(0.5, words, cosines, [2, 0]) == [0.5 * 0.8, 0.5]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(0, 100), st.floats(-2, 1)), unique_by=lambda one: one[0]),
    st.floats(0, 1),
)
def test_scores_are_within_bounds_and_the_order_is_total(found: list[tuple[int, float, float]], alpha: float) -> None:
    def ranked(those: list[tuple[int, float, float]]) -> list[int]:
        fused = fuse.convex(alpha, [word for _, word, _ in those], [near for _, _, near in those])
        assert all(0.0 <= score <= 1.0 for score in fused)
        return best(fused, tuple(chunk_id for chunk_id, _, _ in those))

    assert ranked(found) == ranked(found[::-1])
