import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.search.group import snippet
from refdesk.text import analyse

LINES = "\n".join(f"line {number} says nothing of note here at all" for number in range(60))


def test_a_short_text_is_shown_whole() -> None:
    assert snippet("def f():\n    return 1\n", ("return",)) == ("def f():\n    return 1", 0)


def test_the_window_holds_the_best_match_as_written() -> None:
    text = LINES + "\n    Exponential  Backoff = TRUE\n" + LINES
    shown, first = snippet(text, tuple(analyse.terms("exponential backoff")))
    assert "    Exponential  Backoff = TRUE" in shown
    assert text.split("\n")[first] == shown.split("\n")[0]


def test_different_terms_count_more_than_the_same_one_again() -> None:
    often = "\n".join(["the page is shown as a page"] * 5)
    text = f"{LINES}\n{often}\n{LINES}\n\nthe browser opens it as a page\n{LINES}"
    shown, first = snippet(text, tuple(analyse.terms("open page in browser")))
    assert "the browser opens it as a page" in shown
    assert text.split("\n")[first] == shown.split("\n")[0]


def test_a_component_of_a_page_is_shown_only_where_its_text_says_much_less() -> None:
    read_more = '<RelatedItem path="/go/timeouts"\ttext="Set a Workflow Timeout using Go" />'
    said = "A Workflow Timeout is the time that it may take."
    text = f"{LINES}\n{said}\n{LINES}\n<Related>\n{read_more}\n</Related>\n{LINES}"
    shown, _ = snippet(text, tuple(analyse.terms("set workflow timeout")))
    assert said in shown
    shown, _ = snippet(text, tuple(analyse.terms("go workflow timeouts set using")))
    assert read_more in shown


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("array", "    return ExtensionArray(values)"),
        ("server", "    HTTPServer.start()"),
        ("code", "    turn_into_codes(values)"),
        ("hoping", "    what they hope for"),
        ("größe", "    die GRÖSSE und die Größe"),
        ("数据库", "    我们使用数据库保存"),
    ],
)
def test_words_are_found_in_names_and_other_forms_and_scripts(query: str, line: str) -> None:
    others = "\n".join(f"    ndarray {number} recode observer shopper offset" for number in range(40))
    shown, first = snippet(f"{others}\n{line}\n{others}", tuple(analyse.terms(query)))
    assert line.strip() in shown
    assert first <= 40


def test_a_very_long_line_is_cut_around_the_match() -> None:
    text = "x " * 2000 + "needle" + " y" * 2000
    shown, _ = snippet(text, ("needl",))
    assert "needle" in shown
    assert len(shown) < 600


@given(st.text(alphabet="ab \n", max_size=2000), st.sampled_from([(), ("a",), ("ab", "b")]))
def test_snippets_are_short_pieces_of_the_text(text: str, terms: tuple[str, ...]) -> None:
    shown, first = snippet(text, terms)
    assert shown.strip("…") in text
    assert len(shown) <= 3 * 220
    assert 0 <= first < max(1, text.count("\n") + 1)
