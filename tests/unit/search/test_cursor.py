from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.errors import InvalidCursor
from refdesk.model import Filters, Query
from refdesk.toolsets.docs import decode_cursor, encode_cursor

QUERY = Query(text="retries", filters=Filters(metadata=(("language", ("go",)),)))


@given(st.integers(0, 10_000), st.integers(0, 2**40))
def test_a_cursor_gives_its_offset_back(offset: int, state: int) -> None:
    assert decode_cursor(encode_cursor(QUERY, state, offset), QUERY, state) == offset


def test_a_cursor_of_another_query_or_filter_is_foreign() -> None:
    token = encode_cursor(QUERY, 1, 10)
    for other in (replace(QUERY, text="retry"), replace(QUERY, filters=Filters())):
        with pytest.raises(InvalidCursor, match="another query"):
            decode_cursor(token, other, 1)


def test_a_cursor_is_stale_after_a_write() -> None:
    with pytest.raises(InvalidCursor, match="stale"):
        decode_cursor(encode_cursor(QUERY, 1, 10), QUERY, 2)


@given(st.text(max_size=60))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        decode_cursor(text, QUERY, 1)


def test_the_page_size_may_change() -> None:
    token = encode_cursor(QUERY, 1, 10)
    assert decode_cursor(token, replace(QUERY, limit=50), 1) == 10
