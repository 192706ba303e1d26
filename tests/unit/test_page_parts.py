"""Long pages are cut where it hurts least, and nothing is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.text.tokens import count
from refdesk.toolsets.content import READ
from refdesk.toolsets.pages import address_and_number, parts_of


def test_a_page_that_fits_stays_whole() -> None:
    text = "word " * (READ - 1)
    assert parts_of(text) == [text]
    assert parts_of("") == [""]


def test_cuts_are_before_headings_and_outside_of_code() -> None:
    code = "```python\n# not a heading\n" + "x = 1\n" * 300 + "```\n"
    text = "".join(f"## Section {n}\n\nSome words here.\n\n{code}\n" for n in range(60))
    parts = parts_of(text)
    assert len(parts) > 2 and "".join(parts) == text
    assert all(part.startswith("## Section") for part in parts)
    assert all(count(part) <= READ for part in parts)


def test_headings_stay_with_what_they_head() -> None:
    words = "Some words here that fill a line of the page.\n" * 300
    text = "".join(f"## Section {n}\n\n### `method()`\n\n{words}\n" for n in range(20))
    parts = parts_of(text)
    assert len(parts) > 2 and "".join(parts) == text
    assert all(part.startswith("## Section") for part in parts)


def test_one_endless_line_is_cut_too() -> None:
    text = "a1 " * 60_000
    parts = parts_of(text)
    assert "".join(parts) == text and all(count(part) <= READ for part in parts)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.sampled_from(["# h\n", "text \n", "```\n", "\n", "x" * 500 + "\n", "a\r\n", "\x0c"]), min_size=1))
def test_parts_joined_give_the_text(pieces: list[str]) -> None:
    text = "".join(pieces * (30_000 // len(pieces)))
    parts = parts_of(text)
    assert "".join(parts) == text and all(parts)


def test_numbers_are_read_from_the_end() -> None:
    assert address_and_number("https://e.org/a#part=12", "part") == ("https://e.org/a", 12)
    assert address_and_number("https://e.org/a#top", "part") == ("https://e.org/a#top", 1)
    assert address_and_number(" 01ABC#page=2 ", "page") == ("01ABC", 2)
    assert address_and_number("https://e.org/#/route#part=0", "part") == ("https://e.org/#/route", 0)
