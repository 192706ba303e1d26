"""A judge over the best hits: what it may change, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from refdesk.app import PARTS
from refdesk.desk.desk import Desk
from refdesk.errors import EmbeddingError
from refdesk.model import Page, Query, StoredChunk
from refdesk.search.engine import DEPTH, Engine, order
from refdesk.settings import Settings
from tests.conftest import Tree

FILES = {f"notes/{number:02}.md": f"# Part {number}\n\nriver bank number {number}\n" for number in range(40)}


class Reversing:
    """Finds the last the best."""

    name = "reversing"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def judge(self, query: str, passages: Sequence[StoredChunk]) -> list[float]:
        self.asked.append(len(passages))
        return [float(place) ** 2 for place in range(len(passages))]


class Broken:
    name = "broken"

    def judge(self, query: str, passages: Sequence[StoredChunk]) -> list[float]:
        raise EmbeddingError("The model is torn.", "Mend it.")


@pytest.fixture
def library(desk: Desk, tree: Tree) -> Desk:
    desk.index(tree(FILES), "docs", name="notes")
    return desk


def ids(page: Page) -> list[int]:
    return [hit.stored.id for hit in page.hits]


def test_both_numbers_count_each_on_its_own_scale() -> None:
    assert order([0.9, 0.5, 0.1], [1.0, 2.0, 9.0]) == [0, 2, 1]
    assert order([0.9, 0.5, 0.1], [1.0, 1.0, 1.0]) == [0, 1, 2]
    assert order([0.9, 0.1, 0.1], [3.0, 0.0, 0.0]) == [0, 1, 2]
    assert order([1.0, 0.0, 0.0, 0.0], [5.00, 5.01, 4.0, 4.0]) == [0, 1, 2, 3]
    assert order([], []) == []


def test_only_the_best_change_places(library: Desk) -> None:
    judge = Reversing()
    query = Query(text="river bank", limit=30)
    plain = library.search(query)
    judged = Engine(library._store, library.embedder, judge).search(query)
    assert judge.asked == [DEPTH]
    assert ids(judged)[:DEPTH] != ids(plain)[:DEPTH]
    assert sorted(ids(judged)[:DEPTH]) == sorted(ids(plain)[:DEPTH])
    assert ids(judged).index(ids(plain)[DEPTH - 1]) < DEPTH // 2
    assert ids(judged)[DEPTH:] == ids(plain)[DEPTH:]
    assert [hit.score for hit in judged.hits] == pytest.approx([hit.score for hit in plain.hits], abs=0.01)


def test_pages_fit_together(library: Desk) -> None:
    engine = Engine(library._store, library.embedder, Reversing())
    whole = ids(engine.search(Query(text="river bank", limit=30)))
    parts = [ids(engine.search(Query(text="river bank", limit=10, offset=at))) for at in (0, 10, 20)]
    assert [one for part in parts for one in part] == whole


def test_an_explanation_says_where_a_hit_came_from(library: Desk) -> None:
    engine = Engine(library._store, library.embedder, Reversing())
    found = engine.search(Query(text="river bank", explain=True)).hits
    assert f"from rank {DEPTH}, {(DEPTH - 1) ** 2}.000" in [hit.explanation["precise"] for hit in found]


@pytest.mark.parametrize(
    "query", [Query(text="river_bank"), Query(text="notes/07.md"), Query(text="river", exact=True)]
)
def test_names_paths_and_exact_texts_are_not_judged(library: Desk, query: Query) -> None:
    judge = Reversing()
    assert ids(Engine(library._store, library.embedder, judge).search(query)) == ids(library.search(query))
    assert judge.asked == []


def test_a_judge_that_fails_changes_nothing_and_is_named(library: Desk) -> None:
    judged = Engine(library._store, library.embedder, Broken()).search(Query(text="river bank"))
    assert ids(judged) == ids(library.search(Query(text="river bank")))
    assert judged.notes == ("ranked without the precise mode: The model is torn. Mend it.",)


def test_what_is_asked_for_and_not_installed_is_said(tmp_path: Path, library: Desk) -> None:
    settings = Settings(library=library.settings.library, precise=True)
    desk = Desk(settings, replace(PARTS, judge=lambda _: None))
    page = desk.search(Query(text="river bank"))
    assert ids(page) == ids(library.search(Query(text="river bank")))
    assert len(page.notes) == 1 and "refdesk[precise]" in page.notes[0]
    desk.close()


def test_it_is_off_by_default(library: Desk) -> None:
    desk = Desk(library.settings, replace(PARTS, judge=lambda _: pytest.fail("a judge was made")))
    assert desk.search(Query(text="river bank")).notes == ()
    desk.close()
