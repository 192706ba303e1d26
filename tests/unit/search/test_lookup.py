"""Both indexes at the same time: an error of either is the search's own."""

from __future__ import annotations

from typing import Any, cast

import pytest

from refdesk.desk.desk import Desk
from refdesk.errors import StoreError
from refdesk.model import Filters, Query
from refdesk.ports import Store
from refdesk.search.engine import Engine
from tests.conftest import Tree


class Broken:
    """A store in whose views one way of searching fails."""

    def __init__(self, of: Any, name: str) -> None:
        self._of = of
        self._name = name

    def view(self, filters: Filters) -> Broken:
        return Broken(self._of.view(filters), self._name)

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            return self._fail
        return getattr(self._of, name)

    def _fail(self, *_: object, **__: object) -> None:
        raise StoreError(f"The {self._name} index is gone.", "Run `refdesk doctor`.")


@pytest.mark.parametrize("name", ["lexical", "nearest"])
def test_an_index_that_fails_fails_the_search_and_not_the_next_one(desk: Desk, tree: Tree, name: str) -> None:
    desk.index(tree({"a.md": "# Pages\n\nFlush the pages of the store.\n"}), "docs", name="docs")
    engine = Engine(cast(Store, Broken(desk._store, name)), desk.embedder)
    for _ in range(6):  # more than searches are compared beside
        with pytest.raises(StoreError, match=name):
            engine.search(Query(text="flush the pages"))
    assert desk.search(Query(text="flush the pages")).hits


def test_passages_near_the_question_come_in_beside_those_that_share_a_word(desk: Desk, tree: Tree) -> None:
    drop = "def drop_duplicates(messages, last):\n    return [message for message in messages if message != last]\n"
    files = {"lines.py": "def count_repeated_lines(file):\n    return Counter(file.lines).total()\n", "drop.py": drop}
    desk.index(tree(files), "code", name="code")
    query = Query(text="how are repeated identical lines suppressed", by="file")
    assert {hit.stored.document.path for hit in desk.search(query).hits} == set(files)
