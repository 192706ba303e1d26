"""New ids are ULIDs."""

from __future__ import annotations

import time

from refdesk.library import new_id


def test_an_id_tells_when_it_was_made_and_is_like_no_other() -> None:
    before = time.time_ns() // 1_000_000
    made = [new_id() for _ in range(1000)]
    after = time.time_ns() // 1_000_000
    assert len(set(made)) == 1000
    for one in (made[0], made[-1]):
        assert len(one) == 26 and set(one) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        milliseconds = 0
        for letter in one[:10]:
            milliseconds = milliseconds * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
        assert before <= milliseconds <= after


def test_later_ids_sort_behind_earlier_ones() -> None:
    first = new_id()
    time.sleep(0.002)
    assert first < new_id()
