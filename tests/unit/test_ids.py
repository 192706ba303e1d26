"""New ids are ULIDs, and names of collections have a limit."""

from __future__ import annotations

import time

import pytest

from refdesk.errors import InvalidName
from refdesk.library import checked_name, name_from, new_id


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


def test_a_name_has_a_limit_that_one_made_from_a_folder_keeps() -> None:
    assert checked_name("a" * 255) and checked_name(f"{name_from('a' * 300)}-12345")
    with pytest.raises(InvalidName, match="is too long"):
        checked_name("a" * 256)
