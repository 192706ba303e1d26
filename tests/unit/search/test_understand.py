import pytest

from refdesk.search.understand import understand


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("handleLogin", "symbol"),
        ("Session.request", "symbol"),
        ("std::vector", "symbol"),
        ("parse_args()", "symbol"),
        ("Pool.add", "symbol"),
        ("class QuerySet", "symbol"),
        ("func WithAltScreen", "symbol"),
        ("pub fn line", "symbol"),
        ("src/app/main.py", "path"),
        ("settings.toml", "path"),
        ("TypeError: cannot read property", "error"),
        ("def __init__(self", "code"),
        ("x => x + 1", "code"),
        ("how do I paginate results", "words"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    assert understand(text).kind == kind


def test_stop_words_are_dropped_unless_there_is_nothing_else() -> None:
    assert understand("how to paginate").terms == ("pagin",)
    assert understand("to be or not to be").terms


def test_quotes_make_phrases() -> None:
    assert understand('find "exponential backoff" here').quoted == ("exponential backoff",)


def test_names_are_identifiers_of_words_and_the_whole_of_a_symbol() -> None:
    assert understand("where is parseArgs called").names == ("parseargs",)
    assert understand("paginate").names == ("paginate",)
    assert understand("how to paginate").names == ()


@pytest.mark.parametrize(
    ("text", "whole", "declared"),
    [
        ("HTTPAdapter send", ("httpadapter", "send"), ""),
        ("class QuerySet", ("queryset",), "type"),
        ("function patch", ("patch",), "function"),
        ("send", (), ""),
        ("how are sessions stored", (), ""),
    ],
)
def test_a_short_query_may_be_a_name_as_a_whole(text: str, whole: tuple[str, ...], declared: str) -> None:
    understood = understand(text)
    assert (understood.whole, understood.declared) == (whole, declared)
