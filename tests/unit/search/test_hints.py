from refdesk.desk import Desk
from refdesk.search.hints import nearest_terms
from tests.conftest import Tree


def test_terms_spelt_alike_are_named(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.md": "# Pagination\n\nPass the cursor to read the next page.\n"}), "docs", name="docs")
    assert nearest_terms(desk.store, "paginatoin") == ["pagin"]
    assert nearest_terms(desk.store, "cursor") == []
