import pytest

from refdesk.embed.static import StaticEmbedder


@pytest.fixture(scope="module")
def model() -> StaticEmbedder:
    return StaticEmbedder()


def test_a_text_with_all_words_meets_the_query(model: StaticEmbedder) -> None:
    met = model.match_words("parse the header", ["def parse_header(line): the rest", "", "an unrelated dog"])
    assert met[0] == pytest.approx(1.0, abs=1e-4)
    assert met[1] == 0.0
    assert met[2] < 0.5


def test_near_words_count_less_than_the_same_and_more_than_others(model: StaticEmbedder) -> None:
    same, near, other = model.match_words("delete", ["delete", "remove", "purple"])
    assert same > near > other


def test_other_texts_do_not_change_a_match(model: StaticEmbedder) -> None:
    alone = model.match_words("open a file", ["close the stream"])
    among = model.match_words("open a file", ["x" * 50, "close the stream", "open file " * 200])
    assert among[1] == alone[0]


def test_nothing_known_is_asked(model: StaticEmbedder) -> None:
    assert model.match_words("", ["text"]) == [0.0]
    assert model.match_words("a query", []) == []


@pytest.mark.parametrize(
    "text", ["close the stream", "", "parse_header " * 90 + "tail", "naïve Größe " * 80, "x" * 900]
)
def test_a_text_may_be_spelt_before(model: StaticEmbedder, text: str) -> None:
    spelt = model.spell(text)[: model.most_compared]
    assert model.match_words("open a stream and parse it", [spelt, text]) == pytest.approx(
        model.match_words("open a stream and parse it", [text, text]), abs=0
    )
    assert len(spelt) <= 2 * 96
