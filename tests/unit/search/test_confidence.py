"""Is nothing said to be found when there is nothing?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.desk import Desk
from refdesk.model import Query
from refdesk.search import confidence
from refdesk.search.engine import Engine
from refdesk.search.understand import understand
from refdesk.settings import Settings
from tests.conftest import Tree

SOURCE = Path(__file__).parents[3] / "src" / "refdesk"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """RefDesk's own search and server, some hundred passages."""
    folder = tmp_path_factory.mktemp("source")
    for part in ("search", "server"):
        shutil.copytree(SOURCE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    settings = Settings(library=tmp_path_factory.mktemp("library"), workers=1)
    with open_desk(settings) as desk:
        desk.index(folder, "code", name="code")
        yield desk


@pytest.mark.parametrize("text", ["how to make candles at home", "which wine goes with roast duck"])
def test_a_foreign_question_finds_nothing_and_is_told_so(library: Desk, text: str) -> None:
    page = library.search(Query(text=text))
    assert page.hits == ()
    assert not page.more
    assert page.confidence is None or page.confidence < confidence.judgement().floor


def test_it_is_told_when_weak_matches_are_left_out(library: Desk) -> None:
    page = library.search(Query(text="how to make candles at home"))
    assert any("nothing relevant" in note for note in page.notes)
    assert library.search(Query(text="how to make candles at home", alpha=0.0)).hits


@pytest.mark.parametrize(
    "text", ["how are two rankings made one", "which lines of a passage are shown", "cancel a running task"]
)
def test_a_question_that_the_library_answers_is_answered(library: Desk, text: str) -> None:
    page = library.search(Query(text=text))
    assert page.hits
    assert page.confidence is not None
    assert page.confidence >= confidence.judgement().floor


@pytest.mark.parametrize("text", ["reciprocal_rank", "search/fuse.py", "KeyError: unknown cursor", '"equal scores"'])
def test_names_paths_errors_and_phrases_are_not_judged(library: Desk, text: str) -> None:
    assert not confidence.is_judged(understand(text))
    assert library.search(Query(text=text)).confidence is None


def test_nothing_is_judged_without_meaning(library: Desk) -> None:
    assert Engine(library.store, None).search(Query(text="make candles at home")).confidence is None
    assert library.search(Query(text="make candles at home", alpha=0.0)).hits


def test_nothing_is_judged_among_few(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.md": "# Home\n\nMake a release at home.\n"}), "docs", name="docs")
    page = desk.search(Query(text="make candles at home"))
    assert page.hits
    assert page.confidence is None


def test_the_same_share_of_passages_is_as_usual_in_small_and_large_libraries() -> None:
    small = confidence.usual(("lock", "file"), {"lock": 3, "file": 40}, 1_000)
    assert small == pytest.approx(confidence.usual(("lock", "file"), {"lock": 300, "file": 4_000}, 100_000))
    assert 0 < small["least usual"] < small["usual"]
    assert confidence.usual(("duck",), {}, 1_000) == confidence.usual((), {}, 0) == {"usual": 0, "least usual": 0}


def test_more_evidence_is_more_confidence() -> None:
    weak = dict.fromkeys(confidence.NAMES, 0.2)
    for name in confidence.NAMES:
        assert confidence.confidence({**weak, name: 0.9}) >= confidence.confidence(weak)
    assert 0 < confidence.confidence(dict.fromkeys(confidence.NAMES, 0.0)) < confidence.judgement().floor
    assert confidence.confidence(dict.fromkeys(confidence.NAMES, 1.0)) > 0.9
