"""Questions about words that the port suite does not reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.model import Filters, Ranking
from refdesk.store.local import LocalStore
from refdesk.store.words import query as lexical_query
from refdesk.store.words import scan as literal
from tests.ports.library import batch, collection, write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-> x", []),
        ("foo", []),
        ("foo bar", []),
        (" foo ", ["foo"]),
        ("x(fooBar, y", ["foobar", "foo", "bar"]),
        ("é foo é", []),
    ],
)
def test_only_whole_words_inside_a_literal_are_terms(text: str, expected: list[str]) -> None:
    assert literal.inner_terms(text) == expected


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    made = LocalStore(tmp_path / "library", lock_timeout_s=5)
    made.put_collection(collection())
    writes = [
        write(f"d{n}", [f"alpha {'beta ' * (n % 5)}"], path=f"{'src' if n % 3 else 'docs'}/f{n}.py", vectors=False)
        for n in range(120)
    ]
    made.apply(batch(*writes))
    yield made
    made.close()


@pytest.mark.parametrize("limit", [1, 5, 30, 79, 80, 200])
def test_wide_filters_answer_as_narrow_ones_do(store: LocalStore, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    filters = Filters(paths=("src",))
    expected = store.view(filters).lexical(["alpha", "beta"], limit)
    assert len(expected) == min(limit, 80)
    for ahead in (1, 4):
        monkeypatch.setattr(lexical_query, "_MANY", 2)
        monkeypatch.setattr(lexical_query, "_AHEAD", ahead)
        assert store.view(filters).lexical(["alpha", "beta"], limit) == expected


def test_a_shorter_list_begins_a_longer_one(store: LocalStore) -> None:
    everything = store.view().lexical(["alpha", "beta"], 200)
    assert len(everything) == 120
    for limit in (1, 3, 24, 25, 50):
        first = Ranking(everything.ids[:limit], everything.scores[:limit])
        assert store.view().lexical(["alpha", "beta"], limit) == first


def test_a_literal_that_is_everywhere_is_scanned_for(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = store.view().literal(" beta ", 50)
    monkeypatch.setattr(literal, "MOST", 3)
    assert store.view().literal(" beta ", 50) == expected
    assert len(expected) == 50


def test_a_filter_that_leaves_nothing_out_is_none(store: LocalStore) -> None:
    named = Filters(collections=("code",), kinds=("function",))
    store.put_collection(collection("other"))
    scope = store.view(named)._scope
    assert (scope.collections, scope.filters) == (None, Filters(kinds=("function",)))
    store.apply(batch(write("x", ["alpha"], name="other"), name="other"))
    scope = store.view(named)._scope
    assert scope.collections is not None and scope.filters == named
    assert len(store.view(Filters(collections=("code",))).lexical(["alpha"], 200)) == 120
    assert len(store.view(Filters(collections=("code", "other"))).lexical(["alpha"], 200)) == 121
