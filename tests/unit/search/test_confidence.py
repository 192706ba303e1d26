"""Is nothing said to be found when there is nothing?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Query
from refdesk.search import confidence
from refdesk.search.engine import Engine
from refdesk.settings import Settings
from tests.conftest import Tree

SOURCE = Path(__file__).parents[3] / "src" / "refdesk"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """RefDesk's own search and server, some hundred passages."""
    folder = tmp_path_factory.mktemp("source")
    for part in ("search", "server"):
        shutil.copytree(SOURCE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.txt"))
    settings = Settings(library=tmp_path_factory.mktemp("library"), workers=1)
    with open_desk(settings) as desk:
        desk.index(folder, "code", name="code")
        yield desk


@pytest.mark.parametrize(
    "text",
    ["how to make candles at home", "which wine goes with roast duck", "install a database cluster", "kubernetes"],
)
def test_what_is_foreign_is_left_out_or_told_to_be_weak(library: Desk, text: str) -> None:
    page = library.search(Query(text=text))
    assert page.confidence is None or page.confidence < confidence.judgement().weak
    assert page.weak == bool(page.hits) == any("weak match" in note for note in page.notes)
    assert all(hit.score < 0.5 for hit in page.hits)


@pytest.mark.parametrize("text", ["how do I parse yaml", "upload a picture to the server"])
def test_what_comes_near_without_answering_is_shown_as_weak(library: Desk, text: str) -> None:
    page = library.search(Query(text=text))
    assert page.hits
    assert page.weak
    assert any("weak match" in note for note in page.notes)


def test_what_is_far_from_everything_is_hidden_though_a_passage_shares_a_word(library: Desk) -> None:
    text = "which wine goes with roast duck"
    page = library.search(Query(text=text))
    assert (page.hits, page.weak) == ((), False)
    assert "nothing relevant was found" in page.notes[-1]
    assert library.search(Query(text=text, alpha=0.0)).hits


@pytest.mark.parametrize("text", ["zzzqqq", "asdkfjh qwpoeiru", "xkcjvhx"])
def test_gibberish_finds_nothing_and_is_told_so(library: Desk, text: str) -> None:
    page = library.search(Query(text=text))
    assert (page.hits, page.more, page.weak) == ((), False, False)


@pytest.mark.parametrize(
    "text",
    [
        "how are two rankings made one",
        "which lines of a passage match the query best",
        "cancel a running task",
        "how long may a call run before it is given up",
    ],
)
def test_a_question_that_the_library_answers_is_answered(library: Desk, text: str) -> None:
    page = library.search(Query(text=text))
    assert page.hits
    assert page.confidence is not None
    assert page.confidence >= confidence.judgement().weak
    assert not page.weak


@pytest.mark.parametrize("text", ["search/fuse.py", "KeyError: unknown cursor", '"equal scores"'])
def test_paths_errors_and_phrases_are_not_judged(library: Desk, text: str) -> None:
    assert library.search(Query(text=text)).confidence is None


def test_a_quoted_word_is_certain_only_where_nothing_else_is_asked_for(library: Desk) -> None:
    beside = library.search(Query(text='"cancel" the order of a wooden kitchen table'))
    assert beside.hits
    assert beside.hits[0].score < 0.5
    assert library.search(Query(text='"words of a passage that are similar enough"')).hits[0].score > 0.8


def test_a_name_that_is_defined_is_certain_and_one_that_nothing_has_is_weak(library: Desk) -> None:
    defined, unknown = library.search(Query(text="reciprocal_rank")), library.search(Query(text="ReciprocalWheel"))
    assert (defined.weak, unknown.weak) == (False, True)
    assert defined.confidence == 1.0
    assert defined.hits[0].score > 0.9
    assert unknown.hits[0].score < 0.5


def test_a_word_that_stands_there_is_no_worse_for_not_being_a_definition(desk: Desk, tree: Tree) -> None:
    desk.index(
        tree({"a.md": "# Cookies\n\nCookies are signed.\n", "b.md": "# Forms\n\nA form.\n"}), "docs", name="docs"
    )
    page = desk.search(Query(text="cookies"))
    assert page.hits[0].score > 0.2
    assert not page.weak


def test_nothing_is_judged_without_meaning(library: Desk) -> None:
    assert Engine(library._store, None).search(Query(text="make candles at home")).confidence is None
    assert library.search(Query(text="make candles at home", alpha=0.0)).hits


def test_few_passages_are_judged_too(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.md": "# Releases\n\nMake a release from the main branch.\n"}), "docs", name="docs")
    assert not desk.search(Query(text="make a release")).weak
    foreign = desk.search(Query(text="how to make bread in an oven"))
    assert foreign.weak or not foreign.hits
    assert not desk.search(Query(text="zzzqqq")).hits


def test_a_passage_with_all_of_the_words_is_shown_however_far_it_seems(desk: Desk, tree: Tree) -> None:
    rows = [f"| option_{number} | sets the number {number} of the machine |" for number in range(400)]
    rows[300] = "| glockenspiel | rings the bell |"
    table = "# Options\n\n| name | what |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    desk.index(tree({"options.md": table, "other.md": "# Other\n\nNothing of the kind.\n"}), "code", name="code")
    assert "glockenspiel" in desk.search(Query(text="glockenspiel rings")).hits[0].stored.chunk.text


def test_the_same_share_of_passages_is_as_usual_in_small_and_large_libraries() -> None:
    small = confidence.usual(("lock", "file"), {"lock": 3, "file": 40}, 1_000)
    assert small == pytest.approx(confidence.usual(("lock", "file"), {"lock": 300, "file": 4_000}, 100_000))
    assert 0 < small["least usual"] < small["usual"]
    assert confidence.usual(("duck",), {}, 1_000) == confidence.usual((), {}, 0) == {"usual": 0, "least usual": 0}


def test_more_evidence_is_more_confidence() -> None:
    weak = dict.fromkeys(confidence.NAMES, 0.2)
    for name in confidence.NAMES:
        assert confidence.confidence({**weak, name: 0.9}) >= confidence.confidence(weak)
    assert 0 < confidence.confidence(dict.fromkeys(confidence.NAMES, 0.0)) < confidence.judgement().weak
    assert confidence.confidence(dict.fromkeys(confidence.NAMES, 1.0)) > 0.9


def test_a_file_is_judged_by_its_lead_over_the_next_one_whatever_the_limit(library: Desk) -> None:
    text = "how are quoted phrases of a query counted in the passages that were found"
    scores = [library.search(Query(text=text, by="file", limit=limit)).hits[0].score for limit in (1, 2, 20)]
    assert scores[0] == scores[1] == scores[2]
    far, near = (confidence.of_hits([2.0, second], "files", 0.9)[0] for second in (1.0, 1.9))
    assert far > near


def test_a_page_alone_answers_what_its_title_says_and_hides_nothing_that_has_a_word_of_it(
    desk: Desk, tree: Tree
) -> None:
    text = "# Returns\n\nYou can send items back within 30 days. Refunds are paid within five working days.\n"
    desk.index(tree({"returns.md": text}), "files", name="shop")

    def asked(text: str) -> tuple[bool, bool]:
        page = desk.search(Query(text=text))
        return bool(page.hits), page.weak

    assert asked("how long do returns take") == (True, False)
    assert asked("return policy") == (True, False)
    assert asked("how many days until I must send something back") == (True, True)
    assert asked("which wine goes with roast duck") == (False, False)


def test_a_line_without_a_title_answers_what_it_says(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.txt": "Returns take 14 days after the parcel arrives.\n"}), "files", name="notes")
    assert not desk.search(Query(text="how long do returns take")).weak
    assert desk.search(Query(text="how long does shipping take")).weak


def test_a_question_in_another_language_is_not_hidden_if_a_name_in_it_occurs(desk: Desk, tree: Tree) -> None:
    pages = {
        f"p{n}.md": f"# Setting {n}\n\nThe setting {n} changes how often the cache is emptied.\n" for n in range(60)
    }
    pages["blueprints.md"] = "# Modular applications\n\nA Blueprint records operations to execute on an application.\n"
    desk.index(tree(pages), "files", name="manual")
    page = desk.search(Query(text="wie erstelle ich ein Blueprint"))
    assert page.hits[0].stored.document.path == "blueprints.md"
    assert page.weak
